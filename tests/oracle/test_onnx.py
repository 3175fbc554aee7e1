"""SavedModels that real TensorFlow has written, as ONNX files (`make oracle` runs this)."""
import os
import subprocess

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is an extra")
pytest.importorskip("onnxruntime", reason="onnxruntime runs the exported files")

from tests.onnx.running import agree
from tests.oracle.test_exchange import HERE, PYTHON

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tensorflow")
    done = subprocess.run([PYTHON, os.path.join(HERE, "onnx_tf.py"), str(folder)], capture_output=True, text=True, timeout=500,
                          check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.parametrize("name", ["perceptron", "convolutional", "recurrent", "attention"])
def test_models_of_tensorflow(name, written, tmp_path):
    kept = np.load(written / f"{name}.npz")
    feeds = [{str(kept["key"]): kept[f"x{i}"]} for i in (0, 1)]
    agree(str(written / name), tmp_path, feeds, [kept["y0"], kept["y1"]])
