"""Layers with the same weights on the same inputs, here and in real tf.keras: values and gradients (`make oracle`)."""
import os
import subprocess

import numpy as np
import pytest

import penstock as tf
from tests.oracle.layer_table import ROWS, results
from tests.oracle.test_exchange import HERE, PYTHON

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(600)]


def test_values_and_gradients_are_those_of_keras(tmp_path):
    ours = results(tf)
    done = subprocess.run([PYTHON, os.path.join(HERE, "layer_table.py"), str(tmp_path / "theirs.npz")], capture_output=True,
                          text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    with np.load(tmp_path / "theirs.npz") as file:
        theirs = dict(file)
    assert not [k for k in theirs if k.endswith("/error")], {k: str(v) for k, v in theirs.items() if k.endswith("/error")}
    assert not [k for k in ours if k.endswith("/error")], {k: str(v) for k, v in ours.items() if k.endswith("/error")}
    assert set(ours) == set(theirs), set(ours) ^ set(theirs)
    apart = {k: float(np.max(np.abs(ours[k] - theirs[k]) / np.maximum(np.abs(theirs[k]), 1), initial=0)) for k in theirs
             if ours[k].shape == theirs[k].shape}
    assert len(apart) == len(theirs), {k: (ours[k].shape, theirs[k].shape) for k in theirs if k not in apart}
    assert max(apart.values()) <= 2e-4, {k: v for k, v in apart.items() if v > 2e-4}
    assert len(ROWS) >= 90
