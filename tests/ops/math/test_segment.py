"""Segments: errors, static shapes, public functions, gradients with dropped rows."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf

X = np.arange(8, dtype=np.float32).reshape(4, 2)


@pytest.mark.parametrize("ids, text", [
    ([0, 0, 1], "same size"), ([0, 1, 0, 1], "not increasing"), ([0, 0, 0, -1], "must be >= 0"),
    ([-1, 0, 1, 1], "Segment id -1 out of range"), ([[0, 0], [1, 1]], "vector")])
def test_sorted_ids(ids, text):
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        tf2.math.segment_sum(X, ids)


def test_unsorted_ids():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"segment_ids\[1\] = 7 is out of range \[0, 3\)"):
        tf2.math.unsorted_segment_sum(X, [0, 7, 1, 1], 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="negative"):
        tf2.math.unsorted_segment_sum(X, [0, 0, 1, 1], -1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="does not start with"):
        tf2.math.unsorted_segment_sum(X, [0, 0, 1], 2)
    assert tf2.math.unsorted_segment_max(X, [0, -1, 0, -5], 1).numpy().tolist() == [[4, 5]]


def test_huge_ids_do_not_allocate():
    with pytest.raises(tf.errors.OpError):
        tf2.math.segment_sum(X, np.array([0, 1, 2, 2 ** 62], np.int64))


def test_static_shapes():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 2])
        assert tf.segment_sum(x, [0, 0, 1]).shape.as_list() == [None, 2]
        assert tf.segment_sum(x, tf.placeholder(tf.int32, [None])).shape.as_list() == [None, 2]
        assert tf.unsorted_segment_sum(x, [0, 0, 1], 5).shape.as_list() == [5, 2]
        with pytest.raises(ValueError, match="negative value for num_segments"):
            tf.sparse_segment_sum(x, [0], [0], num_segments=-1)


def test_means():
    ids = [1, 1, -1, 1]
    np.testing.assert_allclose(tf2.math.unsorted_segment_mean(X, ids, 2).numpy(), [[0, 0], X[[0, 1, 3]].mean(0)],
                               rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(tf2.math.unsorted_segment_sqrt_n(X, ids, 2).numpy(),
                               [[0, 0], X[[0, 1, 3]].sum(0) / np.sqrt(3)], rtol=1e-6)


@pytest.mark.parametrize("dims", [[4, 2], None])
@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_means_of_values_of_unknown_rank_and_of_long_numbers_of_segments(dims, dtype):
    with tf.Graph().as_default(), tf.Session() as sess:
        x, ids, n = tf.placeholder(tf.float32, dims), tf.placeholder(tf.int32, dims and dims[:1]), tf.constant(2, dtype)
        mean, root = tf.math.unsorted_segment_mean(x, ids, n), tf.math.unsorted_segment_sqrt_n(x, ids, n)
        if dims:
            assert mean.shape.as_list() == root.shape.as_list() == [2, 2]
        mean, root = sess.run([mean, root], {x: X, ids: [1, 1, -1, 1]})
    np.testing.assert_allclose(mean, [[0, 0], X[[0, 1, 3]].mean(0)], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(root, [[0, 0], X[[0, 1, 3]].sum(0) / np.sqrt(3)], rtol=1e-6, atol=1e-6)


def test_picked_rows():
    np.testing.assert_allclose(tf2.sparse.segment_mean(X, [0, 3, 1], [0, 0, 2], num_segments=4).numpy(),
                               [(X[0] + X[3]) / 2, [0, 0], X[1], [0, 0]], rtol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[1\] == 9 out of range \[0, 4\)"):
        tf2.sparse.segment_sum(X, [0, 9], [0, 0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="< num_segments"):
        tf2.sparse.segment_sum(X, [0, 1], [0, 3], num_segments=2)


@pytest.mark.parametrize("name", ["sum", "max", "min", "prod"])
@pytest.mark.parametrize("shape", [[4, 2], [None, None], None])
def test_gradients_with_dropped_rows(name, shape):
    ids = np.array([1, -1, 0, 1], np.int32)
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float64, shape)
        y = getattr(tf.math, f"unsorted_segment_{name}")(x, tf.placeholder_with_default(ids, None), 2)
        loss = tf.reduce_sum(y * y)
        grad = tf.gradients(loss, x)[0]
        value = np.random.RandomState(0).rand(4, 2) + 0.5
        found = sess.run(grad, {x: value})
        for k in np.ndindex(value.shape):
            hi, lo = value.copy(), value.copy()
            hi[k] += 1e-6
            lo[k] -= 1e-6
            numeric = (sess.run(loss, {x: hi}) - sess.run(loss, {x: lo})) / 2e-6
            assert abs(numeric - found[k]) < 1e-5


def test_gradient_of_products_with_zeros():
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.constant([0., 2., 0., 0., 5., 7.])
        y = tf.math.segment_prod(x, [0, 0, 1, 1, 2, 2])
        assert sess.run(tf.gradients(y, x)[0]).tolist() == [2, 0, 0, 0, 7, 5]
