"""Functions whose variables become constants (`convert_variables_to_constants_v2`)."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.state.saved_model.frozen import convert_variables_to_constants_v2, convert_variables_to_constants_v2_as_graph

X = np.array([1.0, -2.0], np.float32)


def _types(graph_def):
    nodes = [*graph_def.node, *(n for f in graph_def.library.function for n in f.node_def)]
    return {n.op for n in nodes}


@pytest.fixture
def whole():
    """A function that reads a variable itself, in a call, in a loop, in a branch, by row, and by shape."""
    v = tf.Variable([3.0, 4.0])
    scale = tf.constant(10.0)

    @tf.function
    def inner(x):
        return x * v

    @tf.function
    def f(x):
        y = inner(x) * scale
        i = tf.constant(0)
        while i < 3:
            y = y + inner(v)
            i = i + 1
        if tf.reduce_sum(y) > 0:
            y = y * v
        return {"y": y + tf.gather(v, [1]), "n": tf.shape(v)}
    return f, v


def test_frozen_function_keeps_values_of_now(whole):
    f, v = whole
    before = f(X)
    frozen = convert_variables_to_constants_v2(f.get_concrete_function(tf.TensorSpec([2])))
    v.assign([0.0, 0.0])
    n, y = frozen(tf.constant(X))
    np.testing.assert_array_equal(n, before["n"])
    np.testing.assert_allclose(y, before["y"], rtol=1e-6)


def test_nothing_of_variables_or_calls_is_left(whole):
    f, _ = whole
    frozen, graph_def = convert_variables_to_constants_v2_as_graph(f.get_concrete_function(tf.TensorSpec([2])))
    found = _types(graph_def)
    assert not found & {"ReadVariableOp", "ResourceGather", "VarHandleOp", "VariableShape", "StatefulPartitionedCall"}
    assert {"While", "If"} <= found
    assert [t.op.name for t in frozen.inputs] == ["x"]
    assert [t.name for t in frozen.outputs] == ["Identity:0", "Identity_1:0"]        # the names that programs expect


def test_graph_def_runs_in_a_session(whole, tmp_path):
    f, _ = whole
    expected = f(X)["y"].numpy()
    frozen = convert_variables_to_constants_v2(f.get_concrete_function(tf.TensorSpec([2])))
    tf.io.write_graph(frozen.graph, str(tmp_path), "frozen.pb", as_text=False)
    graph_def = tf.compat.v1.GraphDef.FromString((tmp_path / "frozen.pb").read_bytes())
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        with tf.compat.v1.Session(graph=graph) as session:
            np.testing.assert_allclose(session.run(frozen.outputs[1].name, {"x:0": X}), expected, rtol=1e-6)


def test_writing_to_a_variable_cannot_be_frozen():
    v = tf.Variable(1.0)

    @tf.function
    def f():
        return v.assign_add(1.0)
    with pytest.raises(ValueError, match="AssignAddVariableOp"):
        convert_variables_to_constants_v2(f.get_concrete_function())


def test_keras_model_frozen():
    model = tf.keras.Sequential([tf.keras.layers.Conv2D(2, 3), tf.keras.layers.BatchNormalization(), tf.keras.layers.Flatten(),
                                 tf.keras.layers.Dense(3)])
    x = np.random.RandomState(0).rand(2, 5, 5, 1).astype(np.float32)
    expected = model(x)
    frozen = convert_variables_to_constants_v2(tf.function(lambda x: model(x)).get_concrete_function(tf.TensorSpec(x.shape)))
    np.testing.assert_allclose(frozen(tf.constant(x))[0], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("reads", [True, False])
def test_assertions_of_a_frozen_function_hold(reads):
    v = tf.Variable(2.0)

    @tf.function
    def f(x):
        with tf.control_dependencies([tf.debugging.Assert(x > 0, [x])]):
            return x * v if reads else tf.identity(x)
    frozen = convert_variables_to_constants_v2(f.get_concrete_function(tf.TensorSpec([], tf.float32)))
    assert frozen(tf.constant(3.0))[0].numpy() == (6.0 if reads else 3.0)
    with pytest.raises(tf.errors.InvalidArgumentError):
        frozen(tf.constant(-3.0))


def test_values_that_go_round_a_loop_for_handles_have_their_shapes():
    weights = tf.Variable(tf.ones([7, 2]))

    @tf.function(input_signature=[tf.TensorSpec([1, 7])])
    def f(x):
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + tf.matmul(x, weights)), (0, tf.zeros([1, 2])))[1]
    frozen = convert_variables_to_constants_v2(f.get_concrete_function())
    message = frozen.graph.as_graph_def(add_shapes=True)
    loop = next(n for n in message.node if "While" in n.op)
    assert [[d.size for d in s.dim] for s in loop.attr["_output_shapes"].list.shape].count([7, 2]) == 1
    with tf.Graph().as_default():
        tf.graph_util.import_graph_def(message, name="")       # checks the shapes
    np.testing.assert_array_equal(frozen(tf.ones([1, 7]))[0], [[21.0, 21.0]])


def test_reference_variables_of_a_graph(tmp_path):
    with tf1.Graph().as_default(), tf1.Session() as sess:
        x = tf1.placeholder(tf1.float32, [None, 2], "x")
        w = tf1.get_variable("two_rows", initializer=[[1.0], [2.0]], use_resource=False)
        sess.run(tf1.global_variables_initializer())
        tf1.saved_model.simple_save(sess, str(tmp_path / "m"), {"x": x}, {"y": tf1.matmul(x, w)})
    frozen = convert_variables_to_constants_v2(tf.saved_model.load(str(tmp_path / "m")).signatures["serving_default"])
    assert not {"VariableV2", "VarHandleOp"} & _types(frozen.graph.as_graph_def())
    np.testing.assert_array_equal(frozen(tf.constant([[3.0, 4.0]]))[0].numpy(), [[11.0]])


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_a_frozen_recurrent_layer_is_a_graph_of_its_own(kind):
    layer = getattr(tf.keras.layers, kind)(4)
    x = np.linspace(-1, 1, 30, dtype=np.float32).reshape(2, 5, 3)
    expected = layer(x)
    frozen = convert_variables_to_constants_v2(tf.function(layer).get_concrete_function(tf.TensorSpec([2, 5, 3])))
    message = frozen.graph.as_graph_def()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.graph_util.import_graph_def(message, name="")
        found = session.run(frozen.outputs[0].name, {frozen.inputs[0].name: x})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
