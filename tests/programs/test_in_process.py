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
