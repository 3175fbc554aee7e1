"""Fused kernels compute what the ops compute."""
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.kernels import pools
from penstock._src.step.ir import verify
from penstock._src.step.optimize.fusion import fuse

from .steps import after, both, same, step_of, types


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def test_a_product_with_bias_and_activation_is_one_kernel():
    x = tf.placeholder(tf.float32, [None, 3])
    y = tf.nn.relu(tf.matmul(x, tf.constant(np.ones((3, 2), np.float32))) + tf.constant([1., -9.]))
    assert after(fuse, [y * 1.], feeds=[x]).count("_FusedMatMul") == 1
    assert "Relu" not in after(fuse, [y * 1.], feeds=[x])
    assert same([y], {x: np.ones((2, 3))})[0].tolist() == [[4, 0], [4, 0]]


def test_a_result_that_others_use_is_not_fused_away():
    x = tf.placeholder(tf.float32, [2, 2])
    product = tf.matmul(x, x)
    y = tf.nn.relu(product + tf.constant([1., 2.]))
    assert "MatMul" in after(fuse, [y, product], feeds=[x])
    same([y, product], {x: [[1, -2], [3, 4]]})


@pytest.fixture(params=["own", "ATen's"])
def pooling(request, monkeypatch):
    """The names of the ops that pool and spread gradients, with custom kernels and without."""
    if request.param == "own":
        if not pools.available():
            pytest.skip("penstock was installed without a compiler")
        return "_MaxPoolPlaces", "_MaxPoolGradPlaces"
    monkeypatch.setattr(pools, "_kernels", lambda: None)
    return "_MaxPoolWithIndices", "_MaxPoolGradWithIndices"


def test_convolutions_pools_and_their_gradients(pooling):
    x = tf.placeholder(tf.float32, [None, 6, 6, 2])
    w = tf.constant(np.random.RandomState(0).randn(3, 3, 2, 4).astype(np.float32))
    b = tf.constant([0.1, -0.2, 0.3, 0.])
    h = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w, strides=[1, 1, 1, 1], padding="SAME"), b))
    y = tf.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    fetches = [y, *tf.gradients(tf.reduce_sum(tf.square(y)), [x, w, b])]
    left = types(fetches, [x])
    assert "_FusedConv2D" in left and pooling[1] in left
    a = np.random.RandomState(1).randn(2, 6, 6, 2).astype(np.float32)
    same(fetches, {x: a})
    a[0, 0, 0, 0] = np.nan
    for u, v in zip(*both(fetches, {x: a}), strict=True):
        np.testing.assert_allclose(u, v, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("window, padding", [(2, "SAME"), (3, "VALID"), (3, "SAME")])
@pytest.mark.parametrize("biased", [True, False])
def test_a_relu_works_on_what_the_pooling_behind_it_leaves(window, padding, biased, pooling):
    x = tf.placeholder(tf.float32, [None, 7, 7, 2])
    b = tf.constant([0.1, -0.2, 0.3, 0.])
    h = tf.nn.conv2d(x, tf.constant(np.random.RandomState(0).randn(3, 3, 2, 4).astype(np.float32)), [1, 1, 1, 1], "SAME")
    h = tf.nn.relu(tf.nn.bias_add(h, b) if biased else h)
    y = tf.nn.max_pool(h, [1, window, window, 1], [1, 2, 2, 1], padding)
    trained = [y, *tf.gradients(tf.reduce_sum(tf.square(y) * 0.5 + y), [x, b] if biased else [x])]
    step = step_of(trained, feeds=[x])
    fuse(step)
    verify(step)
    if pooling[0] == "_MaxPoolPlaces":
        assert [op.attrs["bias"] for op in step.ops if op.type == pooling[1]] == [biased]
        assert not {"ReluGrad", "BiasAddGrad"} & {op.type for op in step.ops}
    else:
        assert [op.outputs[0].static_dims for op in step.ops if op.type == "ReluGrad"] == [tuple(y.shape.as_list())]
    assert [op.attrs["relu"] for op in step.ops if op.type == pooling[0]] == [True]
    assert not any(op.type == "Relu" or "Relu" in op.attrs.get("fused_ops", ()) for op in step.ops)
    assert "_MaxPoolRelu" in types(y, [x])
    draw = np.random.RandomState(1)
    for values in (draw.randn(3, 7, 7, 2), draw.randint(-1, 2, (3, 7, 7, 2)), np.full((1, 7, 7, 2), -5.)):
        same([y], {x: values})
        for u, v in zip(*both(trained, {x: values}), strict=True):
            np.testing.assert_allclose(u, v, rtol=1e-5, atol=1e-5)


def test_a_relu_that_others_see_stays_in_front_of_its_pooling(pooling):
    x = tf.placeholder(tf.float32, [2, 4, 4, 3])
    h = tf.nn.relu(x)
    y = tf.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    fetches = [y, h, *tf.gradients(tf.square(y), [x])]
    assert "Relu" in after(fuse, fetches, feeds=[x])
    values = np.random.RandomState(0).randn(2, 4, 4, 3)
    for u, v in zip(*both(fetches, {x: values}), strict=True):
        np.testing.assert_allclose(u, v, rtol=1e-6)


@pytest.mark.parametrize("pooled", [False, True])
def test_a_relu_behind_a_normalization_is_part_of_it(pooled, pooling):
    x = tf.placeholder(tf.float32, [None, 6, 6, 4])
    scale, offset = tf.constant([1., -2., 0.5, 3.]), tf.constant([0.1, 0.2, -0.3, 0.])
    h = tf.nn.relu(tf.nn.fused_batch_norm(x, scale, offset)[0])
    y = tf.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "SAME") if pooled else h
    fetches = [y, *tf.gradients(tf.reduce_sum(tf.square(y) + y * 0.5), [x, scale, offset])]
    left = types(fetches, [x])
    assert "_FusedBatchNormRelu" in left and "Relu" not in left
    if not pooled:
        assert "_FusedBatchNormGradRelu" in left and "ReluGrad" not in left
    values = np.random.RandomState(0).randn(3, 6, 6, 4)
    for u, v in zip(*both(fetches, {x: values}), strict=True):
        np.testing.assert_allclose(u, v, rtol=1e-4, atol=1e-4)


def test_a_normalization_whose_result_others_see_keeps_it(pooling):
    x = tf.placeholder(tf.float32, [None, 6, 6, 4])
    h = tf.nn.fused_batch_norm(x, tf.ones(4), tf.zeros(4))[0]
    y = tf.nn.relu(h)
    assert "Relu" in types([h, y], [x])
    same([h, y], {x: np.random.RandomState(0).randn(3, 6, 6, 4)})


def test_a_gradient_of_a_relu_that_others_see_stays_in_front_of_a_normalization(pooling):
    x = tf.placeholder(tf.float32, [None, 6, 6, 4])
    h = tf.nn.fused_batch_norm(x, tf.ones(4), tf.zeros(4))[0]
    y = tf.nn.relu(h)
    fetches = [*tf.gradients(tf.square(y), [x, h])]
    assert "ReluGrad" in types(fetches, [x])
    for u, v in zip(*both(fetches, {x: np.random.RandomState(0).randn(3, 6, 6, 4)}), strict=True):
        np.testing.assert_allclose(u, v, rtol=1e-4, atol=1e-5)


def test_a_relu_between_two_gradients_of_a_pooling_stays_out_of_the_places(pooling):
    x = tf.placeholder(tf.float32, [None, 4, 4, 3])
    h = tf.nn.relu(x)
    y = tf.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    fetches = [*tf.gradients(y, [x]), *tf.gradients(y * 2., [h]), *tf.gradients(tf.square(y), [x])]
    for values in (-np.ones((2, 4, 4, 3)), np.random.RandomState(0).randn(2, 4, 4, 3)):
        for u, v in zip(*both(fetches, {x: values}), strict=True):
            np.testing.assert_allclose(u, v, rtol=1e-6)


def test_images_of_unknown_size_are_pooled(pooling):
    x = tf.placeholder(tf.float32, [None, None, None, 3])
    y = tf.nn.max_pool(tf.nn.relu(x), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    fetches = [y, *tf.gradients(tf.square(y), [x])]
    same(fetches, {x: np.random.RandomState(0).randn(2, 5, 4, 3)})
    same(fetches, {x: np.zeros((0, 5, 4, 3))})


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_gradient_that_is_a_product_goes_into_the_variable(use_resource):
    x = tf.placeholder(tf.float32, [None, 3])
    v = tf.Variable(np.ones((3, 2), np.float32), use_resource=use_resource)
    train = tf.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(tf.matmul(x, v)))
    assert any("Product" in t for t in types(train, [x]))
    with tf.Session() as sess:
        sess.run(v.initializer)
        before = sess.run(v)
        sess.run(train, {x: np.ones((4, 3))})
        np.testing.assert_array_equal(sess.run(v), before - 2.)


@pytest.mark.parametrize("use_resource", [True, False])
def test_rows_times_a_number_are_subtracted_at_once(use_resource):
    table = tf.Variable(np.arange(12, dtype=np.float32).reshape(6, 2), use_resource=use_resource)
    ids, rate = tf.placeholder(tf.int64, [None]), tf.placeholder_with_default(0.5, [])
    loss = tf.reduce_sum(tf.square(tf.gather(table, ids)))
    steps = [tf.train.GradientDescentOptimizer(r).minimize(loss) for r in (0.5, rate)]
    rows = np.array([3, 0, 3])
    for step in steps:
        assert any(t.endswith("ScatterSubScaled") for t in types([step], [ids]))
        want = np.arange(12, dtype=np.float32).reshape(6, 2)
        np.subtract.at(want, rows, want[rows])
        with tf.Session() as sess:
            sess.run(table.initializer)
            sess.run(step, {ids: rows})
            np.testing.assert_array_equal(sess.run(table), want)
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[1\] = 6 is not in \[0, 6\)"):
                sess.run(step, {ids: [0, 6]})
