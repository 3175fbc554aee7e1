"""The same models, weights and batches, trained here and by real tf.keras: the losses of 100 steps (`make oracle`)."""
import os
import subprocess

import numpy as np
import pytest

import penstock as tf
from tests.oracle.test_exchange import HERE, PYTHON
from tests.oracle.training_models import MODELS, STEPS, losses_of

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(900)]


def test_losses_follow_those_of_keras(tmp_path):
    tf.keras.utils.set_random_seed(0)       # from some weights a ReLU comes so near to zero that rounding decides its gradient
    weights: dict = {}
    ours = {name: losses_of(tf, name, weights) for name in MODELS}
    np.savez(tmp_path / "weights.npz", **weights)
    done = subprocess.run([PYTHON, os.path.join(HERE, "training_models.py"), str(tmp_path / "weights.npz"),
                           str(tmp_path / "losses.npz")], capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    with np.load(tmp_path / "losses.npz") as theirs:
        apart = {n: float(np.max(np.abs(ours[n] - theirs[n]) / np.maximum(np.abs(theirs[n]), 1))) for n in MODELS}
    print(apart)
    assert len(MODELS) >= 12 and STEPS == 100
    assert max(apart.values()) <= 1e-3, apart
