"""Shapes, reshapes, fills: public functions, what is static, and what is refused."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf


@pytest.fixture
def graph():
    with tf.Graph().as_default() as g:
        yield g


def test_static_shape_is_a_constant(graph):
    x = tf.placeholder(tf.float32, [2, 3])
    assert tf.shape(x).op.type == tf.size(x).op.type == tf.rank(x).op.type == "Const"
    unknown = tf.placeholder(tf.float32, [None, 3])
    assert tf.shape(unknown).op.type == "Shape"
    with tf.Session() as sess:
        assert sess.run([tf.shape(unknown), tf.size(unknown)], {unknown: np.ones([4, 3])})[1] == 12


def test_a_shape_flows_through_slices_packs_and_concats(graph):
    x = tf.placeholder(tf.float32, [None, 3, 4])
    n = tf.shape(x)[0]
    assert tf.reshape(x, [n, 12]).shape.as_list() == [None, 12]
    assert tf.reshape(x, tf.stack([n, 12])).shape.as_list() == [None, 12]
    assert tf.reshape(x, tf.concat([[-1], tf.shape(x)[1:]], 0)).shape.as_list() == [None, 3, 4]
    assert tf.fill(tf.shape(x)[1:], 0).shape.as_list() == [3, 4]
    assert tf.zeros([tf.size(tf.ones([2, 2]))]).shape.as_list() == [4]


def test_small_zeros_are_constants_and_large_ones_are_not(graph):
    assert tf.zeros([10]).op.type == "Const"
    assert tf.zeros([100000]).op.type == tf.ones([100000]).op.type == "Fill"
    assert tf.zeros([2], tf.string).dtype == tf.string
    assert tf.ones_like(tf.placeholder(tf.int32, [None, 2])).shape.as_list() == [None, 2]


@pytest.mark.parametrize("shape, text", [([4], "has 4"), ([-1, 4], "multiple of 4"), ([-1, -1], "Only one input size"),
                                         ([-2, 3], "must be non-negative")])
def test_reshape_refuses(shape, text, graph):
    x, s = tf.placeholder(tf.float32), tf.placeholder(tf.int32)
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match=text):
        sess.run(tf.reshape(x, s), {x: np.ones([2, 3]), s: shape})


def test_reshape_refuses_at_construction(graph):
    with pytest.raises(ValueError, match=r"6 elements to shape \[4\]"):
        tf.reshape(tf.ones([2, 3]), [4])


def test_expand_and_squeeze(graph):
    x = tf.placeholder(tf.float32, [2, 3])
    assert tf.expand_dims(x, -1).shape.as_list() == [2, 3, 1]
    assert tf.squeeze(tf.expand_dims(x, 0), [0]).shape.as_list() == [2, 3]
    with pytest.raises(ValueError, match="Can not squeeze"):
        tf.squeeze(x, [0])
    with pytest.raises(ValueError, match="both 'axis' and 'dim'"):
        tf.expand_dims(x, 0, dim=0)


def test_transpose_of_unknown_rank(graph):
    x = tf.placeholder(tf.float32)
    with tf.Session() as sess:
        value = np.arange(24.0).reshape(2, 3, 4)
        np.testing.assert_array_equal(sess.run(tf.transpose(x), {x: value}), value.T)
        np.testing.assert_array_equal(sess.run(tf.matrix_transpose(x), {x: value}), value.swapaxes(1, 2))
        with pytest.raises(tf.errors.InvalidArgumentError, match="2 is missing"):
            sess.run(tf.transpose(x, [0, 1, 1]), {x: value})


def test_conjugate_transpose():
    x = np.array([[1 + 2j, 3j]])
    np.testing.assert_array_equal(tf2.transpose(x, conjugate=True), x.conj().T)


def test_ensure_shape(graph):
    x = tf.placeholder(tf.float32)
    y = tf.ensure_shape(x, [None, 3])
    assert y.shape.as_list() == [None, 3]
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="not compatible"):
        sess.run(y, {x: np.ones([2, 2])})


def test_a_fetched_broadcast_belongs_to_the_caller(graph):
    with tf.Session() as sess:
        x = sess.run(tf.broadcast_to(tf.placeholder_with_default([1.0], [1]), [3]))
    x[0] = 5
    assert x.tolist() == [5, 1, 1]


def test_an_absurd_size_is_refused_before_it_is_allocated():
    for dims in ([2**31 - 1] * 3, [-1]):
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf2.fill(dims, 1)
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf2.tile([[1]], [2**31 - 1, 2**31 - 1 - 0])


def test_meshgrid():
    for indexing in ("xy", "ij"):
        ours = tf2.meshgrid([1, 2, 3], [4, 5], [6, 7], indexing=indexing)
        for a, b in zip(ours, np.meshgrid([1, 2, 3], [4, 5], [6, 7], indexing=indexing), strict=True):
            np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="indexing"):
        tf2.meshgrid([1], indexing="yx")


def test_sequence_mask():
    assert tf2.sequence_mask([1, 3]).numpy().tolist() == [[True, False, False], [True, True, True]]
    assert tf2.sequence_mask([[1], [0]], 2, tf.int32).numpy().tolist() == [[[1, 0]], [[0, 0]]]
    with pytest.raises(ValueError, match="scalar"):
        tf2.sequence_mask([1], [1])


@pytest.mark.parametrize("repeats, axis", [(2, 0), (3, 1), ([1, 2], 0), ([0, 2, 1], 1), (2, None)])
def test_repeat(repeats, axis):
    x = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(tf2.repeat(x, repeats, axis), np.repeat(x, repeats, axis))


def test_broadcast_static_shape():
    assert tf.broadcast_static_shape(tf.TensorShape([1, 3]), tf.TensorShape([2, 1])).as_list() == [2, 3]
    with pytest.raises(ValueError):
        tf.broadcast_static_shape(tf.TensorShape([2]), tf.TensorShape([3]))


def test_searchsorted():
    rows = np.array([[1, 3, 5], [2, 2, 8]])
    values = np.array([[3, 9], [2, 0]])
    for side in ("left", "right"):
        expected = np.stack([np.searchsorted(r, v, side) for r, v in zip(rows, values, strict=True)])
        np.testing.assert_array_equal(tf2.searchsorted(rows, values, side), expected)


def test_unravel_index_checks():
    with pytest.raises(tf.errors.InvalidArgumentError, match="out of bound"):
        tf2.unravel_index([9], [3, 3])


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_repeat_of_each_slice_needs_no_index(axis):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    with tf.Graph().as_default() as graph:
        open_rows = tf.placeholder_with_default(x, [None, 3])
        outs = [tf.repeat(v, 3, axis) for v in (tf.constant(x), open_rows)] + [tf.repeat(tf.constant([["a", "b"]]), 3, axis)]
        gradient = tf.gradients(outs[1] * 2.0, open_rows)[0]
        assert not any(op.type.startswith("Gather") for op in graph.get_operations())
        with tf.Session() as sess:
            first, second, texts, back = sess.run([*outs, gradient])
    np.testing.assert_array_equal(first, np.repeat(x, 3, axis))
    np.testing.assert_array_equal(second, np.repeat(x, 3, axis))
    np.testing.assert_array_equal(texts, np.repeat(np.array([[b"a", b"b"]], object), 3, axis))
    np.testing.assert_array_equal(back, np.full([2, 3], 6.0))
