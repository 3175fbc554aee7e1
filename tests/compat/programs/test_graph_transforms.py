"""tensorflow.tools.graph_transforms: each rewrite leaves the results as they are, and does what it is for."""
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.compat.programs.inside.graph_transforms import TransformGraph

RNG = np.random.RandomState(0)
X = RNG.rand(2, 6, 6, 3).astype(np.float32)


def network():
    """A graph with a product, a batch normalization, a constant expression and nodes that pass their input on."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 6, 6, 3], "x")
        kernel = tf.identity(tf.constant(RNG.randn(3, 3, 3, 4), tf.float32), "read")
        y = tf.nn.conv2d(tf.identity(x), kernel, 1, "SAME")
        y = y * tf.sqrt(tf.constant([1.0, 4.0, 9.0, 16.0]))
        y = tf.nn.depthwise_conv2d(y, tf.constant(RNG.randn(2, 2, 4, 2), tf.float32), [1, 1, 1, 1], "VALID")
        y, _, _ = tf.nn.fused_batch_norm(y, *(tf.constant(RNG.rand(8), tf.float32) for _ in range(4)), is_training=False)
        y = tf.identity(y) + (tf.constant(2.0) + tf.constant(2.0))
        tf.identity(y, "y")
        tf.Variable(1.0, name="unused")
    return graph.as_graph_def()


def results(graph_def):
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        tf.import_graph_def(graph_def, name="")
        return session.run("y:0", {"x:0": X})


def ops(graph_def):
    return [n.op for n in graph_def.node]


def test_transforms_of_inference():
    given = network()
    before = given.SerializeToString(deterministic=True)
    made = TransformGraph(given, ["x"], ["y"], [
        'strip_unused_nodes(type=float, shape="-1,6,6,3") remove_nodes(op=Identity, op=CheckNumerics)',
        "fold_constants(ignore_errors=true)", "fold_batch_norms", "fold_old_batch_norms", "sort_by_execution_order"])
    assert given.SerializeToString(deterministic=True) == before
    assert not {"Mul", "Sqrt", "VariableV2", "FusedBatchNorm", "FusedBatchNormV3"} & set(ops(made))
    assert ops(made).count("Identity") == 1 and ops(made).count("BiasAdd") == 1
    seen = set()
    for node in made.node:
        assert {i.partition(":")[0] for i in node.input} <= seen
        seen.add(node.name)
    np.testing.assert_allclose(results(made), results(given), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("transform", ["quantize_weights(minimum_size=10)", "round_weights(num_steps=256, minimum_size=10)"])
def test_smaller_weights(transform):
    given = network()
    made = TransformGraph(given, ["x"], ["y"], [transform])
    assert ("Dequantize" in ops(made)) == transform.startswith("quantize")
    wanted = results(given)
    np.testing.assert_allclose(results(made), wanted, atol=0.05 * np.abs(wanted).max())


def test_duplicates_are_merged():
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2], "x")
        tf.add(tf.exp(x + 1.0), tf.exp(x + 1.0), "y")
    made = TransformGraph(graph.as_graph_def(), ["x"], ["y"], ["merge_duplicate_nodes"])
    assert ops(made).count("Exp") == 1 and len([n for n in made.node if n.op == "Const"]) == 1


def test_attributes_devices_and_order():
    with tf.Graph().as_default() as graph:
        with tf.device("/cpu:0"):
            x = tf.placeholder(tf.float32, [2], "x")
            with tf.control_dependencies([tf.no_op()]):
                tf.nn.relu(x, "y")
    given = graph.as_graph_def()
    given.node[0].attr["_extra"].i = 3
    made = TransformGraph(given, ["x"], ["y"], [
        "remove_device", "remove_control_dependencies", "remove_attribute(attribute_name=_extra)",
        "rename_op(old_op_name=Relu, new_op_name=Relu6)"])
    assert not any(n.device or "_extra" in n.attr or any(i[0] == "^" for i in n.input) for n in made.node)
    assert ops(made)[-1] == "Relu6"


def test_unknown_transform():
    with pytest.raises(ValueError, match="Transform 'fold_everything' not recognized"):
        TransformGraph(network(), ["x"], ["y"], ["fold_everything"])
