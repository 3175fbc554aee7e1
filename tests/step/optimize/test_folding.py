"""Constant folding."""
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.step.optimize.folding import fold_constants

from .steps import after, same, types


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def test_constants_are_folded_and_large_results_are_not():
    x = tf.placeholder(tf.float32, [2])
    y = x * (tf.constant(2.) + tf.constant(3.))
    assert after(fold_constants, [y], feeds=[x]) == ["Const", "Mul"]
    big = tf.fill([1000, 1000], 1.)
    assert "Fill" in after(fold_constants, [tf.reduce_sum(big) + 1.])


def test_known_shapes_are_constants():
    x = tf.placeholder(tf.float32, [2, 3])
    y = tf.shape(x) + tf.size(x) + tf.rank(x)
    assert after(fold_constants, [y * 1], feeds=[x]) == ["Const", "Const", "Mul"]
    assert same([y], {x: np.zeros((2, 3))})[0].tolist() == [10, 11]


def test_nothing_with_state_is_folded():
    assert "RandomUniform" in after(fold_constants, [tf.random_uniform([2]) * 1.])
    r = tf.random_uniform([])
    with tf.Session() as sess:
        assert sess.run(r) != sess.run(r)


def test_what_fails_fails_when_it_is_run():
    y = tf.gather([1, 2], tf.constant(1) + 4)
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError):
        sess.run(y + 1)


def test_a_fed_constant_is_not_folded():
    c = tf.constant(2.)
    y = c * 3. + 1.
    with tf.Session() as sess:
        assert sess.run(y) == 7.
        assert sess.run(y, {c: 10.}) == 31.


@pytest.mark.parametrize("dtype", [tf.float32, tf.int64, tf.bool, tf.complex64, tf.bfloat16])
def test_fills_of_known_shapes_are_constants(dtype):
    x = tf.placeholder(dtype, [2, 3])
    zeros, ones = tf.raw_ops.ZerosLike(x=x), tf.raw_ops.OnesLike(x=x)
    made = tf.identity(tf.stack([zeros, ones]))
    assert types([made], [x]) == ["Identity"]
    got, = same([made], {x: np.ones((2, 3))})
    assert got.dtype == dtype.as_numpy_dtype
    np.testing.assert_array_equal(got.astype(np.complex64).real, [np.zeros((2, 3)), np.ones((2, 3))])


def test_large_fills_and_fills_of_open_shapes_stay():
    x, y = tf.placeholder(tf.float32, [1 << 20]), tf.placeholder(tf.float32, [None])
    assert "ZerosLike" in types([tf.raw_ops.ZerosLike(x=x) + x], [x])
    assert "ZerosLike" in types([tf.raw_ops.ZerosLike(x=y) + y], [y])


def test_checks_that_cannot_fail_are_dropped_and_what_waits_for_them_still_runs():
    with tf.Graph().as_default(), tf.Session() as sess:
        x, counter = tf.placeholder(tf.float32, [3]), tf.Variable(0, use_resource=True)
        first = counter.assign_add(1)
        with tf.control_dependencies([first]):
            check = tf.raw_ops.Assert(condition=tf.constant(True), data=[x])
        with tf.control_dependencies([check]):
            y = x + tf.cast(counter.read_value(), tf.float32)
        sess.run(counter.initializer)
        np.testing.assert_array_equal(sess.run(y, {x: [1, 2, 3]}), [2, 3, 4])
        assert "Assert" not in sess.explain(y, [x])
        failing = tf.raw_ops.Assert(condition=tf.constant(False), data=[x])
        with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"):
            sess.run(failing, {x: [1, 2, 3]})


def test_op_whose_lists_of_outputs_have_one_element_together_is_folded():
    """An op of several lists of outputs may have a single output, which is still inside of its list."""
    values = tf.train.Feature(float_list=tf.train.FloatList(value=[1, 2, 3]))
    example = tf.train.Example(features=tf.train.Features(feature={"x": values})).SerializeToString()
    parsed = tf.parse_single_example(tf.reshape(example, []), {"x": tf.FixedLenFeature([3], tf.float32)})["x"]
    assert len(parsed.op.outputs) == 1
    with tf.Session() as sess:
        np.testing.assert_array_equal(sess.run(tf.reshape(parsed, [3, 1])), [[1], [2], [3]])
