"""examples/recommenders: each model learns from embeddings by key, and its AUC on held-out examples rises."""
import importlib.util
import pathlib

import pytest

PATH = pathlib.Path(__file__).parent.parent / "examples" / "recommenders" / "ctr.py"


@pytest.mark.parametrize("model", ["wdl", "deepfm", "dlrm", "din"])
def test_the_auc_rises(model):
    spec = importlib.util.spec_from_file_location("ctr", PATH)
    ctr = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(ctr)
    found = ctr.train(model, steps=90, reports=2)
    assert abs(found[0] - 0.5) < 0.1 and found[-1] > 0.65 and found[-1] > found[0] + 0.1
