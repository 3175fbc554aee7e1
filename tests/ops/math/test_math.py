"""Arithmetic: broadcasting gradients, division by zero, types, sums of many."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.ops.math.math import unbroadcast
from penstock._src.ops.registry import get


def grads(build, *arrays, unknown=False):
    """The gradients of the sum of build(*tensors) by a session; with placeholders of unknown rank if asked."""
    with tf.Graph().as_default() as g:
        xs = [tf.placeholder(a.dtype, None if unknown else a.shape) for a in arrays]
        found = tf.gradients(build(*xs), xs)
        with tf.Session() as sess:
            return sess.run(found, dict(zip(xs, arrays, strict=True))), [op.type for op in g.get_operations()]


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("shapes", [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 3), ()), ((4, 1, 3), (2, 1)), ((1,), (5,))])
def test_broadcast_gradients(shapes, unknown):
    x, y = (np.asarray(np.random.RandomState(1).rand(*s)) for s in shapes)
    (gx, gy), _ = grads(lambda a, b: a * b, x, y, unknown=unknown)
    full = np.broadcast_shapes(*shapes)

    def reduced(value, shape):
        value = np.broadcast_to(value, full)
        value = value.sum(tuple(range(len(full) - len(shape))))
        return value.sum(tuple(i for i, d in enumerate(shape) if d == 1), keepdims=True).reshape(shape)
    np.testing.assert_allclose(gx, reduced(y, x.shape), rtol=1e-6)
    np.testing.assert_allclose(gy, reduced(x, y.shape), rtol=1e-6)


def test_known_shapes_need_few_ops():
    _, ops = grads(lambda a, b: a + b, np.ones((2, 3)), np.ones((2, 3)))
    assert "Sum" not in ops and "BroadcastGradientArgs" not in ops
    _, ops = grads(lambda a, b: a + b, np.ones((2, 3)), np.ones(3))
    assert ops.count("Sum") == 1 and "Reshape" not in ops and "BroadcastGradientArgs" not in ops
    _, ops = grads(lambda a, b: a + b, np.ones((4, 2, 3)), np.ones((2, 1)))
    assert ops.count("Sum") == 1 and ops.count("Reshape") == 1


def test_unknown_batch_needs_no_run_time_shapes():
    with tf.Graph().as_default() as g:
        x = tf.placeholder(tf.float32, [None, 3])
        b = tf.constant([1., 2., 3.])
        tf.gradients(x + b, [x, b])
        assert "BroadcastGradientArgs" not in [op.type for op in g.get_operations()]


def test_unbroadcast_of_trailing_axes():
    with tf.Graph().as_default(), tf.Session() as sess:
        grad = tf.ones([5, 2, 3, 4])
        x, y = tf.placeholder(tf.float32, None), tf.placeholder(tf.float32, None)
        out = unbroadcast(grad, x, y, trailing=2)
        feeds = {x: np.zeros((2, 3, 4)), y: np.zeros((5, 1, 7, 8))}
        np.testing.assert_array_equal(sess.run(out, feeds), np.full((2, 3, 4), 5))


@pytest.mark.parametrize("op", ["Div", "RealDiv", "FloorDiv", "TruncateDiv", "Mod", "FloorMod", "TruncateMod"])
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint16, np.uint64])
def test_integer_division_by_zero(op, dtype):
    with pytest.raises(tf.errors.InvalidArgumentError, match="Integer division by zero"):
        get(op)(np.array([1, 2], dtype), np.array([1, 0], dtype))
    assert get(op)(np.array([], dtype), np.array(0, dtype)).shape == (0,)


def test_gradient_of_a_sum_whose_rank_is_zero_when_it_runs():
    """The axes of a scalar are none, counted modulo no dimensions."""
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32)
        assert sess.run(tf.gradients(tf.reduce_sum(x * 2), x), {x: 1.0}) == [2.0]


def test_integer_powers():
    with pytest.raises(tf.errors.InvalidArgumentError, match="negative integer powers"):
        tf2.pow(2, -1)
    assert tf2.pow(np.uint16(3), np.uint16(4)).numpy() == 81


def test_division_of_python_kinds():
    assert tf2.truediv(3, 2).dtype == tf.float64 and tf2.truediv(np.int8(3), np.int8(2)).dtype == tf.float32
    assert tf.div(7, 2).numpy() == 3 and tf2.math.floordiv(-7, 2).numpy() == -4
    assert tf2.math.divide_no_nan(1., 0.).numpy() == 0
    with pytest.raises(TypeError, match="same dtype"):
        tf2.truediv(tf2.constant(1.), tf2.constant(1))


def test_shapes_that_do_not_broadcast():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="Dimensions must be equal, but are 2 and 3"):
        tf.add(tf.zeros([2]), tf.zeros([3]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Incompatible shapes"):
        tf2.add(tf2.zeros([2]), tf2.zeros([3]))


def test_strings_add():
    assert tf2.add("a", "b").numpy() == b"ab"
    assert (tf2.constant(["a", "b"]) + "c").numpy().tolist() == [b"ac", b"bc"]


def test_sums_of_many():
    x = tf2.constant([1., 2.])
    rows = tf2.IndexedSlices(tf2.constant([1.]), tf2.constant([1]), tf2.constant([2]))
    assert tf2.add_n([x, x, x]).numpy().tolist() == [3, 6]
    assert tf2.add_n([x, rows]).numpy().tolist() == [1, 3]
    assert tf2.math.accumulate_n([x, x]).numpy().tolist() == [2, 4]
    for wrong in ([], tf2.constant(1.)):
        with pytest.raises(ValueError):
            tf2.add_n(wrong)
    with pytest.raises(tf.errors.InvalidArgumentError):
        get("AddN")([tf2.zeros([2]), tf2.zeros([3])])


def test_scalar_mul():
    rows = tf2.IndexedSlices(tf2.constant([1.]), tf2.constant([1]), tf2.constant([2]))
    assert tf2.scalar_mul(3., rows).values.numpy().tolist() == [3]
    with pytest.raises(ValueError, match="needs a scalar"):
        tf2.scalar_mul([1., 2.], tf2.constant(1.))


def test_complex_gradients_are_conjugate():
    with tf.Graph().as_default(), tf.Session() as sess:
        x, y = tf.constant(1 + 2j, tf.complex64), tf.constant(3 - 1j, tf.complex64)
        gx, gy = sess.run(tf.gradients(x * y, [x, y], tf.constant(1, tf.complex64)))
        assert gx == 3 + 1j and gy == 1 - 2j


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_wide_unsigned_wrap_around(bits):
    t = np.dtype(f"uint{bits}").type
    top = np.array([np.iinfo(t).max], t)
    assert tf2.add(top, t(1)).numpy()[0] == 0
    assert tf2.subtract(np.array([0], t), t(1)).numpy()[0] == top[0]
    assert tf2.maximum(top, t(3)).numpy()[0] == top[0]
    assert get("FloorDiv")(top, np.array([2], t)).numpy()[0] == top[0] // 2


@pytest.mark.parametrize(("x", "y", "want"), [       # of TensorFlow 2.21
    ([None], [None], [None]), ([None, 1], [None], [None, None]), ([None], [], [None]), ([1], [None, 3], [None, 3]),
    ([None, 1], [3], [None, 3]), ([None, 3], [None, 3], [None, 3]), ([4], [None, 3], []), ([3], [4], []),
    ([None], [3], None), ([None, 1], [2, 3], None), ([None, 3], [2, 3], None), (None, [3], None)])
def test_the_static_shape_of_operators_that_compare(x, y, want):
    @tf2.function(input_signature=[tf2.TensorSpec(x, tf.int64), tf2.TensorSpec(y, tf.int64)])
    def different(a, b):
        return a != b
    found = different.get_concrete_function().structured_outputs.shape
    assert (None if found.rank is None else found.as_list()) == want


def test_saturated_complex_numbers_have_both_parts_in_range():
    most = np.finfo(np.float32).max
    got = tf2.saturate_cast(tf2.constant([1e300 - 1e300j, 2 + 3j], tf.complex128), tf.complex64)
    np.testing.assert_array_equal(got, np.array([most - most * 1j, 2 + 3j], np.complex64))
    np.testing.assert_array_equal(tf2.saturate_cast(tf2.constant([-1e300], tf.float64), tf.complex64), [-most + 0j])


def test_divide_no_nan_of_integers():
    """Integers are divided as floats, like true division."""
    for dtype, expected in ((tf.int32, tf.float64), (tf.uint8, tf.float32), (tf.int16, tf.float32)):
        out = tf2.math.divide_no_nan(tf2.constant([3, 4], dtype), tf2.constant([2, 0], dtype))
        assert out.dtype == expected
        np.testing.assert_array_equal(out, [1.5, 0])


def test_add_n_of_rows():
    np.testing.assert_array_equal(tf2.add_n(np.arange(6.).reshape(3, 2)), [6, 9])
