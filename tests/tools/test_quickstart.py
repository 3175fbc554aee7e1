"""Runs TensorFlow's quickstart in a separate process, against a local data server."""
import pathlib
import subprocess
import sys

import pytest


@pytest.mark.timeout(300)
def test_the_quickstart_runs_unchanged():
    command = [sys.executable, str(pathlib.Path(__file__).with_name("quickstart.py"))]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stdout[-1000:] + ran.stderr[-3000:]
    assert "Epoch 5/5" in ran.stdout and "tf.Tensor(" in ran.stdout and "accuracy" in ran.stdout
