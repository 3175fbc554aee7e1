"""The import hook inside this process, put back afterwards: many small checks without a process each."""
import importlib
import sys

import pytest

from penstock._src.compat.programs import guess, importer, missing, plots


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


def test_loops_of_programs_reach_into_the_recurrent_modules(tf):
    impl = importlib.import_module("tensorflow.python.ops.rnn_cell_impl")
    loops = importlib.import_module("tensorflow.python.ops.rnn")
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        rows = v1.placeholder(v1.int32, [])
        shape = impl._concat(rows, [3, 4])
        assert session.run(shape, {rows: 2}).tolist() == [2, 3, 4]
        assert impl._concat(rows, [3, 4], static=True) == [None, 3, 4] and impl._concat(2, 3, static=True) == [2, 3]
        zeros = impl._zero_state_tensors((2, [3]), rows, v1.float32)
        assert [z.shape for z in session.run(zeros, {rows: 5}) if hasattr(z, "shape")][0] == (5, 2)
        x = v1.placeholder(v1.float32, [7, None, 3])
        assert loops._transpose_batch_time(x).shape.as_list() == [None, 7, 3]
        assert session.run(loops._best_effort_input_batch_size([x]), {x: [[[1.0, 2.0, 3.0]] * 2] * 7}) == 2
        cell = v1.nn.rnn_cell.GRUCell(3)
        assert impl._like_rnncell(cell) and not impl._like_rnncell(x)
        assert loops._infer_state_dtype(None, (x, x)) == v1.float32
        with pytest.raises(TypeError, match="is not an RNNCell: 'output_size'"):
            impl.assert_like_rnncell("cell", x)


def test_classes_of_columns_and_heads_are_found(tf):
    """What programs ask a column for, or derive their own heads from, is what the public functions make."""
    columns = importlib.import_module("tensorflow.python.feature_column.feature_column_v2")
    older = importlib.import_module("tensorflow.python.feature_column.feature_column")
    heads = importlib.import_module("tensorflow.python.estimator.canned.head")
    optimizers = importlib.import_module("tensorflow.python.estimator.canned.optimizers")
    f = tf.feature_column
    words = f.categorical_column_with_hash_bucket("words", 10)
    for column, name in ((f.numeric_column("x"), "NumericColumn"), (f.embedding_column(words, 3), "EmbeddingColumn"),
                         (words, "HashedCategoricalColumn"), (f.indicator_column(words), "IndicatorColumn")):
        assert isinstance(column, getattr(columns, name)) and isinstance(column, getattr(older, f"_{name}"))
        assert isinstance(column, columns.DenseColumn) == (column is not words)
    assert not isinstance(words, columns.EmbeddingColumn)
    assert issubclass(heads._Head, tf.estimator.Head) and heads.LossSpec(1, 2, 3, 4).weights == 3
    assert isinstance(optimizers.get_optimizer_instance("Adam", 0.1), tf.compat.v1.train.AdamOptimizer)
    with pytest.raises(ValueError, match="learning_rate must be specified"):
        optimizers.get_optimizer_instance("Adam")


def star(module):
    """What `from module import *` brings."""
    found = {}
    exec(f"from {module} import *", found)
    return {n: v for n, v in found.items() if n != "__builtins__"}


def test_everything_of_a_module(tf):
    layers = star("tensorflow.keras.layers")
    assert layers["Dense"] is tf.keras.layers.Dense and {"Input", "Conv2D", "LSTM", "Concatenate"} <= set(layers)
    assert not {"AUTOTUNE", "tf", "Any"} & set(layers)
    assert {"Sequential", "Model", "layers", "backend"} <= set(star("tensorflow.keras"))
    assert {"constant", "Variable", "matmul", "nn", "train"} <= set(star("tensorflow"))
    assert ("placeholder" in star("tensorflow")) == (tf._api == "v1") and "placeholder" in star("tensorflow.compat.v1")
    cells = star("tensorflow.python.ops.rnn_cell_impl")
    assert {"RNNCell", "GRUCell", "LSTMStateTuple", "assert_like_rnncell"} <= set(cells)
    ops = star("tensorflow.python.framework.ops")
    assert {"Graph", "Tensor", "convert_to_tensor", "name_scope"} <= set(ops) and not {"tf", "Any", "print", "range"} & set(ops)


def test_everything_of_a_module_of_penstock():
    assert "relu" in star("penstock.compat.v1.nn") and "dynamic_rnn" in star("penstock.compat.v1.nn")
    assert {"constant", "function", "keras"} <= set(star("penstock")) and "placeholder" not in star("penstock")


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
    """A canvas without a window does not wait forever; with a time-out it waits as before."""
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
    assert canvas.waited == 2 and capsys.readouterr().err.count("continuing") == 2
