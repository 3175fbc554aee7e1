"""`penstock serve` and real clients: SavedModels written by TensorFlow, asked through tensorflow-serving-api and JSON.

Needs tensorflow-serving-api in the environment of .oracle, or on PYTHONPATH.
"""
import json
import os
import subprocess

import pytest

from tests.oracle.test_exchange import HERE, PYTHON
from tests.serving.models import config_of, serving

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(900)]
NAMES = ("audio", "bert", "columns", "control_flow", "decoder", "detection", "dtypes", "examples", "images", "keras", "keras_2",
         "legacy_loops", "mobile", "processes", "ragged", "recurrent", "sequences", "session_graph", "signatures", "strings",
         "tables", "text_vectors")


def theirs(script, *args):
    done = subprocess.run([PYTHON, os.path.join(HERE, script), *map(str, args)], capture_output=True, text=True, timeout=800,
                          check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    if subprocess.run([PYTHON, "-c", "import tensorflow_serving"], capture_output=True, check=False).returncode:
        pytest.skip("tensorflow-serving-api is not installed beside TensorFlow")
    folder = tmp_path_factory.mktemp("models")
    theirs("serving_tf.py", folder)
    return folder


def test_their_client_gets_their_answers(models):
    with serving(*(config_of(n, models / n) for n in NAMES)) as server:
        report = json.loads(theirs("serving_client.py", models, server.port, server.rest_port).splitlines()[-1])
    print(report)
    assert set(report["models"]) == set(NAMES)
    assert {n: m for n, m in report["models"].items() if max(m["rpc"], m["rest"]) > 1e-5} == {}
