"""Reductions: arguments, shapes, errors, gradients that no sample shows."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.ops.math.reduction import reduced_shape

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def test_old_argument_names():
    assert tf.reduce_sum(X, reduction_indices=[0, 1]).shape == (4,)
    assert tf.reduce_sum(X, 1, keep_dims=True).shape == (2, 1, 4)
    with pytest.raises(ValueError, match="Cannot specify both"):
        tf.reduce_sum(X, axis=0, reduction_indices=0)
    with pytest.raises(ValueError, match="Cannot specify both"):
        tf.reduce_sum(X, keepdims=True, keep_dims=True)


def test_static_shapes():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 3])
        assert tf.reduce_sum(x, 0).shape.as_list() == [3] and tf.reduce_sum(x, 1).shape.as_list() == [None]
        assert tf.reduce_sum(x).shape.as_list() == []
        y = tf.placeholder(tf.float32)
        assert tf.reduce_sum(y).shape.as_list() == [] and tf.reduce_sum(y, 0).shape.rank is None
        with pytest.raises(ValueError, match="Invalid reduction dimension"):
            tf.reduce_sum(x, 2)


def test_wrong_axes_at_run_time():
    with tf.Graph().as_default(), tf.Session() as sess:
        axis = tf.placeholder(tf.int32)
        total = tf.reduce_sum(tf.constant(X), axis)
        for wrong in (3, [-4], [0, 0]):
            with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid reduction"):
                sess.run(total, {axis: wrong})


@pytest.mark.parametrize("name", ["reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"])
@pytest.mark.parametrize("axis", [None, 0, [0, 2], -1])
def test_gradients_with_known_and_unknown_shapes(name, axis):
    x = np.random.RandomState(0).rand(2, 3, 4)
    found = []
    for shape in ([2, 3, 4], [None, 3, None], None):
        with tf.Graph().as_default(), tf.Session() as sess:
            p = tf.placeholder(tf.float64, shape)
            y = getattr(tf, name)(p, axis)
            found.append(sess.run(tf.gradients(y * y, p)[0], {p: x}))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-6)


def test_sum_over_all_is_broadcast_back_without_tiles():
    with tf.Graph().as_default() as g:
        x = tf.placeholder(tf.float32, [2, 3])
        tf.gradients(tf.reduce_sum(x), x)
        types = [op.type for op in g.get_operations()]
        assert "Tile" not in types and "Reshape" not in types and types.count("BroadcastTo") == 1


def test_reduced_shape():
    with tf.Graph().as_default(), tf.Session() as sess:
        shape, axes = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int32)
        out = reduced_shape(shape, axes)
        assert sess.run(out, {shape: [2, 3, 4], axes: [0, -1]}).tolist() == [1, 3, 1]
        assert sess.run(out, {shape: [2, 3, 4], axes: 1}).tolist() == [2, 1, 4]


def test_logsumexp_variance_and_norm():
    np.testing.assert_allclose(tf2.reduce_logsumexp([1000., 1000.]).numpy(), 1000 + np.log(2), rtol=1e-6)
    assert tf2.reduce_logsumexp([-np.inf, -np.inf]).numpy() == -np.inf
    np.testing.assert_allclose(tf2.math.reduce_variance(X, 1).numpy(), X.var(1), rtol=1e-5)
    np.testing.assert_allclose(tf2.math.reduce_std(X).numpy(), X.std(), rtol=1e-5)
    assert tf2.math.reduce_euclidean_norm([3., 4.]).numpy() == 5
    with pytest.raises(TypeError):
        tf2.math.reduce_variance([1, 2])


def test_counting():
    assert tf2.math.count_nonzero([[0, 1], [2, 0]], axis=0).numpy().tolist() == [1, 1]
    assert tf2.math.count_nonzero(["", "a"], dtype=tf.int32).numpy() == 1
    assert tf.count_nonzero([True, False]).numpy() == 1
    with pytest.raises(ValueError):
        tf.count_nonzero([1], input=[1])


def test_positions():
    assert tf2.argmax([1, 5, 5]).numpy() == 1 and tf2.argmin([[2, 1], [0, 3]], axis=1).numpy().tolist() == [1, 0]
    assert tf.argmax([1, 2], dimension=0).numpy() == 1 and tf.arg_max([1, 2], 0).numpy() == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="Reduction axis 0 is empty"):
        tf2.argmax(np.zeros((0, 2)))
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf2.argmax([1, 2], axis=3)
