"""Graphs rewritten for 8 bits: what is inserted where, and what it computes."""
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.compat.contrib.quantize import batch_norms

quantize = tf.contrib.quantize
slim = tf.contrib.slim


def fake(x, low, high, levels=255, narrow=False):
    """Values on a grid between two ends that has zero on it, as fake_quant does."""
    least = 1 if narrow else 0
    scale = (high - low) / (levels - least)
    zero = least - low / scale
    nudged = np.clip(np.round(zero), least, levels)
    low, high = (least - nudged) * scale, (levels - nudged) * scale
    return np.round((np.clip(x, low, high) - low) / scale) * scale + low


def types(graph, kind="FakeQuant"):
    return sorted(op.name for op in graph.get_operations() if op.type.startswith(kind))


def value(session, name):
    return session.run(next(v for v in tf.global_variables() if v.op.name == name))


def test_weights_and_activations_are_rounded(graph):
    x = tf.placeholder(tf.float32, [4, 8])
    y = tf.layers.dense(x, 5, tf.nn.relu, name="layer")
    out = tf.identity(y * 1.0, name="out")
    quantize.create_training_graph()
    assert types(graph) == ["layer/act_quant/FakeQuantWithMinMaxVars", "layer/weights_quant/FakeQuantWithMinMaxVars"] + [
        n for n in types(graph) if n.startswith("mul")]
    data = np.random.default_rng(0).standard_normal([4, 8]).astype(np.float32)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        kernel = value(session, "layer/kernel")
        got = session.run("layer/weights_quant/FakeQuantWithMinMaxVars:0")
        np.testing.assert_allclose(got, fake(kernel, min(kernel.min(), 0), max(kernel.max(), 0), narrow=True), atol=1e-5)
        relu = np.maximum(data @ got, 0)
        top = relu.max()                                         # moving averages correct what they began with
        np.testing.assert_allclose(session.run(out, {x: data}), fake(relu, 0.0, top), atol=1e-4)
        assert value(session, "layer/act_quant/max") == pytest.approx(top, rel=1e-4)
        assert value(session, "layer/act_quant/min") == 0.0


def test_gradients_reach_the_weights_and_training_works():
    x = tf.constant(np.random.default_rng(1).standard_normal([64, 6]).astype(np.float32))
    target = tf.reduce_sum(x[:, :3], 1, keepdims=True)
    loss = tf.losses.mean_squared_error(target, tf.layers.dense(tf.layers.dense(x, 16, tf.nn.relu), 1))
    quantize.create_training_graph()
    step = tf.train.AdamOptimizer(0.03).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(loss)
        for _ in range(150):
            session.run(step)
        assert session.run(loss) < before / 10
    with pytest.raises(ValueError, match="Training op found in graph"):
        quantize.create_training_graph()


def test_rounding_waits_for_its_step(graph):
    x = tf.constant(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))
    exact = tf.layers.dense(x, 2, tf.nn.relu, name="layer")
    out = exact + 0.0
    quantize.create_training_graph(quant_delay=3)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        kernel, same = value(session, "layer/kernel"), []
        for _ in range(5):
            same.append(np.allclose(session.run(out), np.maximum(session.run(x) @ kernel, 0), atol=1e-6))
    assert same == [True, True, False, False, False]


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("depthwise", [False, True])
def test_stored_statistics_are_folded_without_a_change_of_values(fused, depthwise, graph):
    data = np.random.default_rng(2).standard_normal([2, 6, 6, 3]).astype(np.float32)
    layer, arguments = (slim.separable_conv2d, [None, 3, 1]) if depthwise else (slim.conv2d, [4, 3])
    with slim.arg_scope([slim.batch_norm], scale=True, fused=fused, is_training=False):
        y = layer(data, *arguments, normalizer_fn=slim.batch_norm, activation_fn=None, scope="layer")
    out = tf.nn.relu(y)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for v in tf.global_variables():
            if "BatchNorm" in v.name:
                v.load(np.random.default_rng(3).uniform(0.5, 1.5, v.shape.as_list()).astype(np.float32), session)
        before = session.run(out)
        batch_norms.fold(graph, None)
        assert out.op.inputs[0].op.name == "layer/add_fold"
        assert not any(graph.get_operation_by_name(n).outputs[0].consumers() for n in [y.op.name])
        np.testing.assert_allclose(session.run(out), before, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fused", [True, False])
def test_a_folded_norm_computes_and_learns_what_it_did(fused, graph):
    data = np.random.default_rng(4).standard_normal([3, 5, 5, 2]).astype(np.float32)
    start = np.random.default_rng(5).standard_normal([3, 3, 2, 4]).astype(np.float32)
    y = slim.conv2d(data, 4, 3, normalizer_fn=slim.batch_norm, weights_initializer=tf.constant_initializer(start),
                    normalizer_params={"is_training": True, "scale": True, "fused": fused, "decay": 0.9}, scope="layer")
    out = tf.reduce_sum(tf.square(tf.identity(y)))
    weights = next(v for v in tf.global_variables() if v.name == "layer/weights:0")
    expected = [out, *tf.gradients(out, [weights])]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(expected)
    second = tf.Graph()
    with second.as_default():
        y = slim.conv2d(data, 4, 3, normalizer_fn=slim.batch_norm, weights_initializer=tf.constant_initializer(start),
                        normalizer_params={"is_training": True, "scale": True, "fused": fused, "decay": 0.9}, scope="layer")
        out = tf.reduce_sum(tf.square(tf.identity(y)))
        layer = next(op for op in second.get_operations() if op.type == "Conv2D")
        batch_norms.fold(second, None)
        assert [op.name for op in second.get_operations() if op.name.endswith(("correction_mult", f"{layer.name}_Fold"))] == [
            "layer/correction_mult", f"{layer.name}_Fold"]
        weights = next(v for v in tf.global_variables() if v.name == "layer/weights:0")
        folded = [out, *tf.gradients(out, [weights])]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            after = session.run(folded)
    np.testing.assert_allclose(after[0], before[0], rtol=1e-4)
    np.testing.assert_allclose(after[1], before[1], rtol=2e-2, atol=2e-2)


def test_branches_that_are_added(graph):
    x = tf.placeholder(tf.float32, [1, 4, 4, 3])
    with slim.arg_scope([slim.conv2d], activation_fn=None):
        a = slim.conv2d(x, 3, 3, scope="block/conv")
    tf.identity(tf.nn.relu(tf.add(a, x, name="block/add"), name="block/Relu"), name="end")
    quantize.create_eval_graph()
    names = types(graph)
    assert names == ["block/act_quant/FakeQuantWithMinMaxVars", "block/conv/conv_quant/FakeQuantWithMinMaxVars",
                     "block/conv/weights_quant/FakeQuantWithMinMaxVars"]
    add = graph.get_operation_by_name("block/add")
    assert add.inputs[0].op.name == "block/conv/conv_quant/FakeQuantWithMinMaxVars"


def test_bits_symmetry_and_scope(graph):
    x = tf.constant(np.random.default_rng(6).standard_normal([4, 8]).astype(np.float32))
    with tf.variable_scope("mine"):
        y = tf.layers.dense(x, 5, tf.nn.relu, name="a")
    tf.layers.dense(y, 5, tf.nn.relu, name="other")
    quantize.experimental_create_training_graph(weight_bits=4, activation_bits=4, symmetric=True, scope="mine")
    assert types(graph) == ["mine/a/act_quant/FakeQuantWithMinMaxVars", "mine/a/weights_quant/FakeQuantWithMinMaxVars"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        values = session.run("mine/a/weights_quant/FakeQuantWithMinMaxVars:0")
        low, high = value(session, "mine/a/weights_quant/min"), value(session, "mine/a/weights_quant/max")
    assert low == -high and len(np.unique(values.round(6))) <= 15
