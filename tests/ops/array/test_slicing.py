"""tensor[...] against numpy: values, static shapes, gradients, and what is refused."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf

X = np.arange(60.0).reshape(3, 4, 5)
SPECS = [np.s_[0], np.s_[-1], np.s_[1:], np.s_[:-1], np.s_[::2], np.s_[::-1], np.s_[2:0:-1], np.s_[5:], np.s_[:0],
         np.s_[..., 1], np.s_[..., -1:], np.s_[1, ..., 2], np.s_[None], np.s_[..., None], np.s_[:, None, 1:3, ::2],
         np.s_[0, 1, 2], np.s_[0:2, 1, ::-2], np.s_[-2:, :, -3:-1], np.s_[None, ..., None], np.s_[..., ::-1, :],
         np.s_[10:-10:-1], np.s_[:, 3:1:-1], np.s_[...], np.s_[1:1], np.s_[-10:10]]


@pytest.fixture
def graph():
    with tf.Graph().as_default() as g:
        yield g


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_values_and_shapes(spec, graph):
    with tf.Session() as sess:
        for dims in ([3, 4, 5], [None, 4, None], [None] * 3):
            x = tf.placeholder(tf.float64, dims)
            y = x[spec]
            found = sess.run(y, {x: X})
            np.testing.assert_array_equal(found, X[spec])
            assert y.shape.is_compatible_with(found.shape) and y.shape.ndims == found.ndim
            if None not in dims:
                assert y.shape.is_fully_defined()
            grad = sess.run(tf.gradients(y, x, [2 * y])[0], {x: X})
            expected = np.zeros_like(X)
            expected[spec] = 2 * X[spec]
            np.testing.assert_array_equal(grad, expected)


def test_tensors_as_bounds(graph):
    i = tf.placeholder(tf.int32, [])
    j = tf.placeholder(tf.int64, [])
    x = tf.constant(X)
    with tf.Session() as sess:
        np.testing.assert_array_equal(sess.run(x[i, i:], {i: 1}), X[1, 1:])
        np.testing.assert_array_equal(sess.run(x[:j, i], {i: -1, j: 2}), X[:2, -1])


def test_strings():
    words = tf2.constant([["a", "b"], ["c", "d"]])
    assert words[::-1, 0].numpy().tolist() == [b"c", b"a"]


def test_a_mask_selects():
    x = tf2.constant([1, 2, 3])
    assert x[x > 1].numpy().tolist() == [2, 3]


@pytest.mark.parametrize("index", ["a", 1.5, [1.5], np.array([0, 1]), slice("a", None)], ids=str)
def test_bad_indices(index):
    with pytest.raises(TypeError, match="Only integers, slices"):
        tf2.constant([1, 2, 3])[index]


def test_out_of_bounds(graph):
    with pytest.raises(ValueError, match="slice index 7 of dimension 1 out of bounds"):
        tf.constant(X)[0, 7]
    with pytest.raises(ValueError, match="only 3 dims"):
        tf.constant(X)[0, 0, 0, 0]
    with pytest.raises(ValueError, match="Multiple ellipses"):
        tf.constant(X)[..., ...]
    with pytest.raises(ValueError, match="must be non-zero"):
        tf.constant(X)[::0]
    x = tf.placeholder(tf.float32)
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="out of bounds"):
        sess.run(x[3], {x: [1, 2, 3]})


def test_slice(graph):
    x = tf.placeholder(tf.float64, [3, None, 5])
    y = tf.slice(x, [1, 0, 2], [-1, 2, 2])
    assert y.shape.as_list() == [2, 2, 2]
    with tf.Session() as sess:
        np.testing.assert_array_equal(sess.run(y, {x: X}), X[1:, :2, 2:4])
        np.testing.assert_array_equal(sess.run(tf.gradients(y, x)[0], {x: X}).sum(), 8)
        begin = tf.placeholder(tf.int32, [1])
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"begin\[0\] in \[0, 3\], but got 4"):
            sess.run(tf.slice([1, 2, 3], begin, [1]), {begin: [4]})
    with pytest.raises(ValueError, match="not within"):
        tf.slice([1, 2, 3], [2], [2])


def test_assignment_needs_a_variable(graph):
    with pytest.raises(AttributeError, match="assign"):
        tf.constant(X)[0].assign(1.0)


def test_update_broadcasts():
    out = tf2.raw_ops.TensorStridedSliceUpdate(input=X, begin=[0], end=[3], strides=[2], value=np.float64(7))
    expected = X.copy()
    expected[::2] = 7
    np.testing.assert_array_equal(out, expected)
    with pytest.raises(tf.errors.InvalidArgumentError, match="shapes of both tensors to match"):
        tf2.raw_ops.TensorStridedSliceUpdate(input=[1, 2, 3], begin=[0], end=[3], strides=[1], value=[1, 2])


def test_gradients_of_slices_of_a_scalar():
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder_with_default(8.0, [])
        for key in ((tf.newaxis, Ellipsis), (Ellipsis, tf.newaxis), (Ellipsis,)):
            y = (x * 1.0)[key]
            assert sess.run(tf.gradients(y, x, grad_ys=tf.fill(tf.shape(y), 3.0))) == [3.0]


@pytest.mark.parametrize("cut", [(slice(1, None),), (slice(None, -1),), (slice(-3, None, 2),), (slice(2, 1),), (0,), (-1,),
                                 (None, slice(5, 9)), (Ellipsis, 1), (slice(None), None, 0), (slice(None, None, -1),),
                                 (1, slice(1, 2))])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, object])
@pytest.mark.parametrize("rows", [0, 1, 4])
def test_slices_of_values_of_any_size(cut, dtype, rows):
    x = np.arange(3 * rows).reshape(rows, 3).astype(dtype)
    x = x.astype(str).astype(bytes).astype(object) if dtype is object else x
    spec = tf.TensorSpec([None, None], tf.string if dtype is object else tf.as_dtype(dtype))
    found = tf.function(lambda t: t[cut], input_signature=[spec])
    try:
        expected = x[cut]
    except IndexError:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"slice index -?\d of dimension 0 out of bounds"):
            found(x)
    else:
        np.testing.assert_array_equal(found(x), expected)
