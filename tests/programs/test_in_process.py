"""The import hook inside this process, put back afterwards: many small checks without a process each."""
import importlib
import sys

import pytest

from penstock.programs import guess, importer, missing, plots


@pytest.fixture(params=["v1", "v2"])
def tf(request):
    with importer.in_place(request.param):
        yield importlib.import_module("tensorflow")


def test_missing_names_have_neighbours(tf):
    api = tf._api
    assert missing.nearest(api, "nn.rellu")[0] == "nn.relu"
    assert "nn.conv2d" in missing.nearest(api, "contrib.nothing.conv2d")
    with pytest.raises(missing.MissingSymbol, match="tensorflow.nn.rellu is not in penstock"):
        tf.nn.rellu(1.0)


def test_modules(tf):
    assert importlib.import_module("tensorflow.nn").relu is tf.nn.relu
    assert importlib.import_module("tensorflow.python.ops.array_ops").reshape(1.0, [1]).shape.as_list() == [1]
    assert importlib.import_module("tensorflow.compat.v1").placeholder is tf.compat.v1.placeholder
    assert tf.newaxis is None and tf.compat.as_bytes("a") == b"a"


def test_put_back():
    with importer.in_place("v1"):
        importlib.import_module("tensorflow.python.framework.ops")
    assert not [m for m in sys.modules if m.split(".")[0] == "tensorflow"] and importer.installed() is None


def test_only_v1():
    assert guess.only_v1("Session") and guess.only_v1("train.Saver.save") and guess.only_v1("contrib.slim.conv2d")
    assert not guess.only_v1("constant") and not guess.only_v1("keras.layers.Dense") and not guess.only_v1("nothing")


@pytest.mark.parametrize(("text", "api"), [
    ("from tensorflow.python.client import device_lib\ndevice_lib.list_local_devices()", "v1"),
    ("from tensorflow.python.client import device_lib\n@tf.function\ndef f(x): return x", "v2"),
    ("from tensorflow.python.ops import summary_ops_v2\ntf.optimizers.Adam()", "v2"),
    ("from tensorflow.python.ops import math_ops\ntf.enable_eager_execution()\nwith tf.GradientTape(): pass", "v1"),
    ("assert tf.__version__.startswith('2.')\ntf.string_split(['a b'])", "v2"),
    ("assert tf.__version__.startswith('1.')\ntf.string_split(['a b'])", "v1"),
    ("from tensorflow.examples.tutorials.mnist import input_data\nwith tf.GradientTape(): pass", "v1")])
def test_the_api_is_guessed_from_what_is_used_together(tmp_path, text, api):
    path = tmp_path / "program.py"
    path.write_text("import tensorflow as tf\n" + text + "\n")
    assert guess.guess(path).api == api


def test_nobody_presses_a_key(capsys):
    """A canvas without a window does not wait for ever; with a time-out it waits as before."""
    class Canvas:
        waited = 0
        def start_event_loop(self, timeout=0):
            assert timeout > 0
            self.waited += timeout
    plots.mend(Canvas)
    canvas = Canvas()
    canvas.start_event_loop()
    canvas.start_event_loop(timeout=-1)
    canvas.start_event_loop(2)
    assert canvas.waited == 2 and capsys.readouterr().err.count("going on") == 2
