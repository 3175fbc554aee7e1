"""Assertions: when they are evaluated, their messages, and the numeric checks."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.graph import context


@pytest.fixture
def graph():
    with tf.Graph().as_default() as g:
        yield g


HOLDS = [("assert_equal", [1, 2], [1, 2]), ("assert_none_equal", [1, 2], [2, 1]), ("assert_less", [1, 2], [2, 3]),
         ("assert_less_equal", [1, 2], [1, 3]), ("assert_greater", [3, 4], [2, 3]), ("assert_greater_equal", [3], [3])]
FAILS = [("assert_equal", [1, 2], [1, 3]), ("assert_none_equal", [1, 2], [1, 3]), ("assert_less", [1, 2], [2, 2]),
         ("assert_less_equal", [1, 4], [1, 3]), ("assert_greater", [3, 3], [2, 3]), ("assert_greater_equal", [2], [3])]


@pytest.mark.parametrize("name, x, y", HOLDS)
def test_comparisons_that_hold(name, x, y, graph):
    check = getattr(tf, name)(tf.placeholder_with_default(x, None), y)
    with tf.Session() as sess:
        sess.run(check)
    with context.enter(None):
        assert getattr(tf2.debugging, name)(x, y) is None


@pytest.mark.parametrize("name, x, y", FAILS)
def test_comparisons_that_fail(name, x, y, graph):
    with pytest.raises(tf.errors.InvalidArgumentError, match="(?s)fail.*Condition"):
        getattr(tf, name)(x, y, message="fail")                            # both sides known: at construction
    check = getattr(tf, name)(tf.placeholder_with_default(x, None), y, message="fail")
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed: .fail"):
        sess.run(check)
    with context.enter(None), pytest.raises(tf.errors.InvalidArgumentError, match="fail"):
        getattr(tf2.debugging, name)(x, y, message="fail")


def test_message_says_where_values_differ():
    with pytest.raises(tf.errors.InvalidArgumentError) as e:
        tf2.debugging.assert_equal([1, 2, 3, 4], [1, 5, 3, 6], summarize=1)
    assert "Indices of first 1 different values:\n[[1]]" in str(e.value)
    assert "Corresponding x values:\n[2]" in str(e.value) and "First 1 elements of y:\n[1]" in str(e.value)


def test_unary_and_near(graph):
    with tf.Session() as sess:
        x = tf.placeholder(tf.float32)
        sess.run(tf.assert_positive(x), {x: [1., 2.]})
        for check, bad in ((tf.assert_positive, 0.), (tf.assert_negative, 0.), (tf.assert_non_negative, -1.),
                           (tf.assert_non_positive, 1.)):
            with pytest.raises(tf.errors.InvalidArgumentError, match="element-wise"):
                sess.run(check(x), {x: [bad]})
        sess.run(tf.assert_near(x, [1.]), {x: [1 + 1e-7]})
        with pytest.raises(tf.errors.InvalidArgumentError, match="not equal to tolerance"):
            sess.run(tf.assert_near(x, [1.]), {x: [1.01]})


def test_assert_shows_its_data(graph):
    x = tf.placeholder(tf.int32)
    check = tf.Assert(tf.reduce_all(x > 0), ["x =", x], summarize=4)
    with tf.Session() as sess:
        sess.run(check, {x: [[1]]})
        with pytest.raises(tf.errors.InvalidArgumentError) as e:
            sess.run(check, {x: [[0, 1, 2], [3, 4, 5]]})
    assert "assertion failed: [x =] [[0 1 2][3...]...]" in str(e.value)


def test_ranks(graph):
    unknown = tf.placeholder(tf.float32)
    with pytest.raises(ValueError, match="must have rank 2.  Received rank 1"):
        tf.assert_rank(tf.zeros([3]), 2)
    with pytest.raises(ValueError, match="rank at least 2"):
        tf.assert_rank_at_least(tf.zeros([3]), 2)
    with pytest.raises(ValueError, match="rank in .0, 2."):
        tf.assert_rank_in(tf.zeros([3]), [0, 2])
    with pytest.raises(TypeError, match="must be of type tf.int32; got"):
        tf.assert_rank(unknown, 2.0)
    with pytest.raises(ValueError, match="Rank must be a scalar"):
        tf.assert_rank(unknown, [2])
    checks = [tf.assert_rank(unknown, 2), tf.assert_rank_at_least(unknown, 2), tf.assert_rank_in(unknown, [0, 2])]
    with tf.Session() as sess:
        sess.run(checks, {unknown: [[1.]]})
        for check in checks:
            with pytest.raises(tf.errors.InvalidArgumentError, match="must have rank"):
                sess.run(check, {unknown: [1.]})


def test_shapes_share_symbols(graph):
    x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32)
    check = tf.debugging.assert_shapes([(x, ("N", "Q")), (y, ("N", "Q", 2))])
    with tf.Session() as sess:
        sess.run(check, {x: np.zeros([4, 3]), y: np.zeros([4, 3, 2])})
        for wrong in ([5, 3, 2], [4, 2, 2], [4, 3, 1]):
            with pytest.raises(tf.errors.InvalidArgumentError, match="must have size|rank"):
                sess.run(check, {x: np.zeros([4, 3]), y: np.zeros(wrong)})
    with pytest.raises(ValueError, match="^Specified explicitly.*dimension 1 must have size 2"):
        tf.debugging.assert_shapes({x: ("N", 2)})
    with pytest.raises(ValueError, match="only allowed as the first"):
        tf.debugging.assert_shapes([(x, (1, "*"))])
    tf.debugging.assert_shapes([(tf.zeros([7, 2]), ("*", 2)), (tf.zeros([]), ()), (tf.zeros([1]), ()), (x, None)])


def test_types(graph):
    tf.assert_integer(tf.constant(1))
    with pytest.raises(TypeError, match="integer type"):
        tf.assert_integer(tf.constant(1.))
    with pytest.raises(TypeError, match="must be of type"):
        tf.assert_type(tf.constant(1.), tf.int32)
    with pytest.raises(ValueError, match="Expected scalar"):
        tf.assert_scalar(tf.constant([1.]))
    with pytest.raises(TypeError, match="proper"):
        tf.assert_proper_iterable(tf.constant([1.]))
    assert tf.assert_same_float_dtype([tf.constant(1.), None]) == tf.float32
    with pytest.raises(ValueError, match="must be of the same type"):
        tf.assert_same_float_dtype([tf.constant(1.), tf.constant(1., tf.float64)])
    assert tf.is_numeric_tensor(tf.constant(1)) and not tf.is_numeric_tensor(tf.constant("a"))


def test_order():
    for x, non_decreasing, increasing in (([], True, True), ([1], True, True), ([1, 1, 2], True, False),
                                          ([[1, 2], [3, 4]], True, True), ([2, 1], False, False)):
        x = np.array(x, np.float32)
        assert bool(tf2.math.is_non_decreasing(x)) is non_decreasing
        assert bool(tf2.math.is_strictly_increasing(x)) is increasing


def test_check_numerics(graph):
    x = tf.placeholder(tf.float32, [None])
    y = tf.check_numerics(x, "here")
    grad, = tf.gradients(y, x, tf.placeholder_with_default(tf.constant([1., float("nan")]), [None]))
    with tf.Session() as sess:
        assert sess.run(y, {x: [1.]}).tolist() == [1.]
        for bad, what in ((np.nan, "NaN"), (np.inf, "Inf")):
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"here : Tensor had {what} values"):
                sess.run(y, {x: [bad]})
        with pytest.raises(tf.errors.InvalidArgumentError, match="detected in gradient"):
            sess.run(grad, {x: [1., 2.]})


def test_add_check_numerics_ops(graph):
    x = tf.placeholder(tf.float32)
    tf.log(x)
    check = tf.add_check_numerics_ops()
    with tf.Session() as sess:
        sess.run(check, {x: 1.})
        with pytest.raises(tf.errors.InvalidArgumentError, match="Log"):
            sess.run(check, {x: -1.})


def test_check_numerics_of_all_ops(graph):
    tf.debugging.enable_check_numerics()
    try:
        x = tf.placeholder(tf.float32, [1], name="x")
        y = tf.log(x) * 2.
        values, indices = tf.nn.top_k(y, 1)
        with tf.Session() as sess:
            assert sess.run([values, indices], {x: [1.]})[0].tolist() == [0.]
            with pytest.raises(tf.errors.InvalidArgumentError, match='output 0 of graph op "Log"'):
                sess.run(values, {x: [-1.]})
        with context.enter(None):
            tf2.math.log([1.])
            with pytest.raises(tf.errors.InvalidArgumentError, match='(?s)eagerly-executing op "Log".*had -Inf values'):
                tf2.math.log([0.])
            x, y = tf2.constant([-2.0, 3.0]), tf2.constant([0.0, 0.0])
            with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                x / y
            for part in ("shape: (2,)\n", "# of -Inf elements: 1\n", "# of +Inf elements: 1\n", f"0: {x!s}", f"1: {y!s}"):
                assert part in str(caught.value)

            @tf2.function
            def add_a_bad_constant(x):
                return x + tf2.constant(np.nan)
            with pytest.raises(tf.errors.InvalidArgumentError, match='(?s)graph op "AddV2".*1: .*Const:0.*add_a_bad'):
                add_a_bad_constant(1.)
    finally:
        tf.debugging.disable_check_numerics()
    with context.enter(None):
        assert tf2.math.log([0.]).numpy() == -np.inf
