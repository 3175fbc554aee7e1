"""Arithmetic that changes nothing is removed."""
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.step.optimize.arithmetic import simplify_arithmetic

from .steps import after, same, types


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize("build", [
    lambda x: x * 1., lambda x: 1. * x, lambda x: x / 1., lambda x: x - 0., lambda x: tf.negative(tf.negative(x)),
    lambda x: tf.transpose(tf.transpose(x)), lambda x: tf.reshape(x, [2, 3]), lambda x: tf.reshape(tf.reshape(x, [6]), [2, 3]),
    lambda x: tf.reshape(tf.expand_dims(x, 0), [2, 3]), lambda x: x ** 1., lambda x: x ** [[1., 1., 1.]]])
def test_what_changes_nothing_goes(build):
    x = tf.placeholder(tf.float32, [2, 3])
    left = types(tf.exp(build(x)), [x])
    assert left == ["Exp"]
    same([tf.exp(build(x))], {x: np.arange(6.).reshape(2, 3)})


@pytest.mark.parametrize("shape, changes", [([-1, 3], False), ([-1, 3, 1], True), ([-1], True), ([3, -1], True),
                                            ([2, 3], True)])
def test_a_reshape_that_keeps_what_is_not_known(shape, changes):
    x = tf.placeholder(tf.float32, [None, 3])
    y = tf.exp(tf.reshape(x, shape))
    assert ("Reshape" in types(y, [x])) is changes
    same([y], {x: np.arange(6.).reshape(2, 3)})


def test_errors_of_reshapes_to_sizes_that_do_not_fit():
    x = tf.placeholder(tf.float32, [None])
    with tf.Session() as sess:
        for shape, found in (([-1, 3], "requires a multiple of 3"), ([2, 2], "is a tensor with 5 values")):
            y = tf.reshape(x, shape)
            assert sess.run(y, {x: np.zeros(12 if -1 in shape else 4)}).size
            with pytest.raises(tf.errors.InvalidArgumentError, match=found):
                sess.run(y, {x: np.zeros(5)})


def test_a_product_with_ones_of_a_known_shape_goes():
    x = tf.placeholder(tf.float32, [3, 2])
    y = tf.broadcast_to(1., [3, 2]) * x
    assert after(simplify_arithmetic, [y + 1.], feeds=[x]) == ["Const", "AddV2"]
    assert "Mul" in after(simplify_arithmetic, [tf.broadcast_to(2., [3, 2]) * x + 1.], feeds=[x])
    assert "Mul" in after(simplify_arithmetic, [tf.broadcast_to(1., [4, 3, 2]) * x + 1.], feeds=[x])


@pytest.mark.parametrize("build", [
    lambda x: x + 0., lambda x: x * 0., lambda x: x * [[1.], [2.]], lambda x: x - tf.zeros([4, 2, 3]), lambda x: 1. / x,
    lambda x: tf.transpose(x), lambda x: tf.reshape(x, [3, 2]), lambda x: x ** 0., lambda x: x ** tf.ones([4, 1, 1])])
def test_what_changes_something_stays(build):
    x = tf.placeholder(tf.float32, [2, 3])
    assert len(types(tf.exp(build(x)), [x])) > 1
    same([build(x)], {x: -np.zeros((2, 3))})


def test_transposes_behind_each_other_are_one():
    x = tf.placeholder(tf.float32, [2, 3, 4])
    y = tf.transpose(tf.transpose(x, [1, 2, 0]), [0, 2, 1])
    assert types(y * 2., [x]).count("Transpose") == 1
    same([y], {x: np.random.RandomState(0).randn(2, 3, 4)})


@pytest.mark.parametrize("cuts", [[2], [1, 4], [0, 3]])
def test_gradients_of_slices_side_by_side_are_joined(cuts):
    x = tf.placeholder(tf.float32, [5, 2])
    bounds = [0, *cuts, 5]
    loss = sum(tf.reduce_sum(tf.square(x[a:b]) * (i + 1.)) for i, (a, b) in enumerate(zip(bounds, bounds[1:])))
    grad, = tf.gradients(loss, x)
    assert "_JoinedRows" in types([grad], [x]) and "StridedSliceGrad" not in types([grad], [x])
    value = np.random.RandomState(1).randn(5, 2).astype(np.float32)
    got, = same([grad], {x: value})
    factor = np.concatenate([np.full(b - a, 2. * (i + 1)) for i, (a, b) in enumerate(zip(bounds, bounds[1:]))])
    np.testing.assert_allclose(got, value * factor[:, None], rtol=1e-6)


@pytest.mark.parametrize("parts", [[(0, 3), (2, 5)], [(0, 2), (3, 5)], [(0, 5), (0, 5)]])
def test_gradients_of_slices_that_overlap_or_leave_gaps_are_added(parts):
    x = tf.placeholder(tf.float32, [5, 2])
    loss = sum(tf.reduce_sum(tf.square(x[a:b]) * (i + 1.)) for i, (a, b) in enumerate(parts))
    grad, = tf.gradients(loss, x)
    assert "_JoinedRows" not in types([grad], [x])
    value = np.random.RandomState(1).randn(5, 2).astype(np.float32)
    want = np.zeros_like(value)
    for i, (a, b) in enumerate(parts):
        want[a:b] += 2 * (i + 1) * value[a:b]
    np.testing.assert_allclose(same([grad], {x: value})[0], want, rtol=1e-6)


def test_columns_and_steps_are_added():
    x = tf.placeholder(tf.float32, [4, 4])
    for a, b in ((x[:, :2], x[:, 2:]), (x[::2], x[1::2]), (x[0], x[1:]), (x[::-1], x[:0])):
        grad, = tf.gradients(tf.reduce_sum(tf.square(a)) + 3. * tf.reduce_sum(tf.square(b)), x)
        assert "_JoinedRows" not in types([grad], [x])
        same([grad], {x: np.arange(16.).reshape(4, 4)})


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16, tf.int32])
@pytest.mark.parametrize("power", [2, 3])
def test_powers_by_small_constants_are_products(power, dtype):
    x = tf.placeholder(dtype, [None, 3])
    y = x ** tf.constant(power, dtype)
    products = {2: ["Square"], 3: ["Square", "Mul"]}
    assert types(y, [x]) == (products[power] if dtype.is_floating else ["Pow"])
    values = [[-3, 0, 2], [1, 100, -1]] if dtype.is_integer else [[-3., -0., 2.5], [np.inf, -np.inf, np.nan]]
    fed = np.array(values, dtype.as_numpy_dtype)
    with tf.Session() as session, np.errstate(over="ignore"):
        found, by = session.run([y, tf.gradients(y, x)[0]] if dtype.is_floating else [y, y], {x: fed})
    np.testing.assert_allclose(found, fed ** power, rtol=1e-3 if dtype == tf.float16 else 1e-6)
    if dtype.is_floating:
        np.testing.assert_allclose(by, power * fed ** (power - 1), rtol=1e-3 if dtype == tf.float16 else 1e-6)
