"""Diagonals, bands and identity matrices."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf


@pytest.mark.parametrize("align", ["LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"])
@pytest.mark.parametrize("k", [(-1, 1), (0, 2), (-2, 0), (1, 1), (-2, -1)])
def test_a_band_comes_back(k, align):
    x = np.arange(1, 25).reshape(2, 3, 4)
    rows = tf2.linalg.diag_part(x, k=k, align=align)
    inside = np.logical_and(np.arange(4) - np.arange(3)[:, None] >= k[0], np.arange(4) - np.arange(3)[:, None] <= k[1])
    np.testing.assert_array_equal(tf2.linalg.set_diag(-x, rows, k=k, align=align), np.where(inside, x, -x))
    longest = [d for d in range(k[0], k[1] + 1) if len(np.diagonal(x[0], d)) == rows.shape[-1]][0]
    line = rows.numpy()[0, k[1] - longest] if k[0] != k[1] else rows.numpy()[0]
    np.testing.assert_array_equal(line, np.diagonal(x[0], longest))


def test_out_of_bounds():
    with pytest.raises(tf.errors.InvalidArgumentError, match="out of bound"):
        tf2.linalg.diag_part(np.ones([2, 2]), k=3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="too small"):
        tf2.linalg.diag([1, 2, 3], k=1, num_rows=2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="num_lower"):
        tf2.linalg.band_part(np.ones([2, 2]), 3, 0)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="diagonal must have shape"):
        tf.matrix_set_diag(tf.ones([2, 3]), [1.0, 2.0, 3.0])


def test_eye():
    np.testing.assert_array_equal(tf2.eye(3, 2), np.eye(3, 2))
    np.testing.assert_array_equal(tf2.eye(2, batch_shape=[2, 1]), np.broadcast_to(np.eye(2), [2, 1, 2, 2]))
    with tf.Graph().as_default(), tf.Session() as sess:
        n = tf.placeholder(tf.int32, [])
        np.testing.assert_array_equal(sess.run(tf.eye(n, 2), {n: 3}), np.eye(3, 2))
        np.testing.assert_array_equal(sess.run(tf.eye(n, batch_shape=[n], dtype=tf.int32), {n: 2}), [np.eye(2)] * 2)
    with pytest.raises(TypeError):
        tf2.eye(2.5)


def test_the_diagonal_may_be_part_of_the_whole():
    assert tf2.linalg.tensor_diag_part(tf2.linalg.tensor_diag([[1, 2], [3, 4]])).numpy().tolist() == [[1, 2], [3, 4]]


def test_the_diagonal_of_a_scalar_is_the_scalar():
    assert tf2.linalg.tensor_diag_part(3) == 3
