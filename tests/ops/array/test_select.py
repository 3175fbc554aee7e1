"""Where, masks, padding."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf


@pytest.fixture
def graph():
    with tf.Graph().as_default() as g:
        yield g


def test_where_by_rows_and_by_broadcasting():
    x, y = np.arange(6).reshape(2, 3), np.zeros([2, 3], np.int64)
    np.testing.assert_array_equal(tf.where([True, False], x, y), [[0, 1, 2], [0, 0, 0]])
    np.testing.assert_array_equal(tf2.where([True, False, True], x, 9), [[0, 9, 2], [3, 9, 5]])
    with pytest.raises(ValueError, match="both"):
        tf2.where([True], x)


def test_where_refuses_shapes(graph):
    with pytest.raises(ValueError):
        tf.where([True, False], tf.ones([3, 2]), tf.ones([3, 2]))
    c = tf.placeholder(tf.bool)
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="Select"):
        sess.run(tf.where(c, tf.ones([3, 2]), tf.ones([3, 2])), {c: [True, False]})


def test_boolean_mask(graph):
    x = np.arange(24).reshape(2, 3, 4)
    m = tf.placeholder(tf.bool, [None, 3])
    y = tf.boolean_mask(x, m)
    assert y.shape.as_list() == [None, 4]
    mask = np.array([[True, False, True], [False, False, True]])
    with tf.Session() as sess:
        np.testing.assert_array_equal(sess.run(y, {m: mask}), x[mask])
        z = tf.boolean_mask(x, [True, False, True], axis=1)
        np.testing.assert_array_equal(sess.run(z), x[:, [True, False, True]])
    with pytest.raises(ValueError, match="scalar"):
        tf.boolean_mask(x, True)
    with pytest.raises(ValueError, match="incompatible"):
        tf.boolean_mask(x, [True] * 3)


@pytest.mark.parametrize("mode", ["CONSTANT", "REFLECT", "SYMMETRIC"])
def test_pad(mode):
    x = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(tf2.pad(x, [[1, 2], [0, 3]], mode), np.pad(x, [[1, 2], [0, 3]], mode.lower()))


def test_pad_shapes(graph):
    n = tf.placeholder(tf.int32, [])
    assert tf.pad(tf.ones([2, 3]), [[1, n], [1, 1]]).shape.as_list() == [None, 5]
    with pytest.raises(ValueError, match="Received `mode` = WRAP"):
        tf.pad([1], [[1, 1]], "WRAP")
    with pytest.raises(ValueError):
        tf.pad(tf.ones([2, 3]), [[1, 1]])
    x = tf.placeholder(tf.float32)
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="less than the dimension size"):
        sess.run(tf.pad(x, [[3, 0]], "REFLECT"), {x: [1, 2, 3]})
