"""The cases in real TensorFlow."""
import json
import os
import pathlib
import subprocess

import pytest

import penstock as tf
from tests.eager.autograph.cases import CASES, REFUSED_THERE, plain, tensors

HERE = pathlib.Path(__file__)
PYTHON = os.environ.get("ORACLE_PYTHON", HERE.parents[3] / ".oracle/bin/python")


@pytest.mark.oracle
@pytest.mark.skipif(not pathlib.Path(PYTHON).exists(), reason="needs real TensorFlow: make .oracle, or ORACLE_PYTHON")
def test_same_results_as_tensorflow():
    env = {**os.environ, "AUTOGRAPH_CASES": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    out = subprocess.run([PYTHON, HERE.with_name("cases.py")], env=env, capture_output=True, text=True, timeout=110, check=True)
    expected = json.loads(out.stdout.splitlines()[-1])
    for f, calls in [c for c in CASES if c[0].__name__ not in REFUSED_THERE]:
        found = json.loads(json.dumps([plain(tf.function(f)(*tensors(a))) for a in calls]))
        assert found == expected[f.__name__], f.__name__
