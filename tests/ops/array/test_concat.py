"""Joining and dividing: errors, static shapes and gradients."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf


@pytest.fixture
def graph():
    with tf.Graph().as_default() as g:
        yield g


def test_concat_mismatch(graph):
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(2, 4\)"):
        tf.concat([tf.ones([2, 3]), tf.ones([2, 4])], 0)
    with pytest.raises(ValueError, match="scalars"):
        tf.concat([tf.constant(1), tf.constant(2)], 0)
    x = tf.placeholder(tf.float32)
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match=r"shape\[1\] = \[2,4\]"):
        sess.run(tf.concat([tf.ones([2, 3]), x], 0), {x: np.ones([2, 4])})


def test_concat_gradient_is_one_split(graph):
    a, b = tf.ones([2, 3]), tf.ones([2, 1])
    y = tf.concat([a, b], 1)
    before = len(graph.get_operations())
    grads = tf.gradients(y, [a, b], [tf.ones([2, 4])])
    types = [o.type for o in graph.get_operations()[before:]]
    assert types.count("SplitV") == 1 and "Slice" not in types
    assert [g.shape.as_list() for g in grads] == [[2, 3], [2, 1]]


def test_concat_gradient_with_unknown_sizes(graph):
    a, b = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    grads = tf.gradients(tf.concat([a, b], -1), [a, b])
    with tf.Session() as sess:
        found = sess.run(grads, {a: np.ones([2, 3]), b: np.ones([2, 1])})
    assert [g.shape for g in found] == [(2, 3), (2, 1)]


def test_concat_keeps_sparse_gradients(graph):
    a, b = tf.ones([3, 2]), tf.ones([4, 2])
    rows = tf.gather(tf.concat([a, b], 0), [0, 5, 2])
    grads = tf.gradients(rows, [a, b])
    assert all(isinstance(g, tf.IndexedSlices) for g in grads)
    with tf.Session() as sess:
        found = sess.run([tf.convert_to_tensor(g) for g in grads])
    np.testing.assert_array_equal(found[0][:, 0], [1, 0, 1])
    np.testing.assert_array_equal(found[1][:, 0], [0, 0, 1, 0])


def test_stack_and_unstack(graph):
    x = tf.placeholder(tf.float32, [None, 3])
    assert tf.stack([x, x], 1).shape.as_list() == [None, 2, 3]
    assert len(tf.unstack(x, axis=1)) == 3
    with pytest.raises(ValueError, match="Cannot infer argument `num`"):
        tf.unstack(x)
    with pytest.raises(ValueError, match="not in"):
        tf.stack([x, x], 3)
    with pytest.raises(ValueError, match="not in"):
        tf.unstack(x, axis=2)


def test_split():
    x = np.arange(10).reshape(2, 5)
    for ours, expected in ((tf2.split(x, [1, -1, 2], 1), np.split(x, [1, 3], 1)), (tf2.split(x, 2), np.split(x, 2))):
        for a, b in zip(ours, expected, strict=True):
            np.testing.assert_array_equal(a, b)
    with pytest.raises(tf.errors.InvalidArgumentError, match="evenly divide"):
        tf2.split(x, 3, 1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be >= 0. Got: -2"):
        tf2.split(x, [-2, 7], 1)


def test_parallel_stack(graph):
    y = tf.parallel_stack([tf.constant([1, 2]), tf.constant([3, 4])])
    with tf.Session() as sess:
        assert sess.run(y).tolist() == [[1, 2], [3, 4]]
