"""Loops of one iteration, and of none, are ops of the step around them."""
import numpy as np
import pytest

import penstock as tf

X = np.arange(6, dtype=np.float32)


def step(times, first=0, by=1):
    """A function with a loop over a tensor and a variable, and the variable."""
    count = tf.Variable(0.0)

    @tf.function
    def f(x):
        def body(i, a):
            count.assign_add(tf.reduce_sum(a))
            return i + by, tf.tanh(a) * 2.0 + count
        return tf.while_loop(lambda i, _: i < times, body, [tf.constant(first), x * 0.5])
    return f, count


@pytest.mark.parametrize("times, first, by", [(0, 0, 1), (1, 0, 1), (5, 2, 3), (-1, 0, 1)])
def test_a_loop_that_runs_once_or_never_is_written_out(times, first, by):
    f, count = step(times, first, by)
    assert "While" not in f.explain(tf.constant(X))
    i, a, total = first, X * np.float32(0.5), 0.0
    while i < times:
        total += a.sum()
        i, a = i + by, np.tanh(a) * 2 + np.float32(total)
    found = f(tf.constant(X))
    assert found[0].numpy() == i and count.numpy() == pytest.approx(total)
    np.testing.assert_allclose(found[1], a, rtol=1e-6)


def test_a_longer_loop_and_one_of_unknown_length_stay():
    f, _ = step(2)
    assert "While" in f.explain(tf.constant(X))

    @tf.function
    def g(n):
        return tf.while_loop(lambda i: i < n, lambda i: [i + 1], [tf.constant(0)])
    assert "While" in g.explain(tf.constant(1)) and g(tf.constant(3))[0].numpy() == 3


def test_a_loop_that_never_ends_is_not_evaluated_for_ever():
    @tf.function
    def f(x):
        return tf.while_loop(lambda i, a: i < 1, lambda i, a: (i * 1, a + 1.0), [tf.constant(0), x], maximum_iterations=7)
    np.testing.assert_array_equal(f(tf.constant(X))[1], X + 7)


def test_nested_loops_and_their_gradients():
    def f(x, inner):
        def body(i, a):
            return i + 1, tf.while_loop(lambda j, b: j < inner, lambda j, b: (j + 1, tf.tanh(b) * 1.5), [tf.constant(0), a])[1]
        return tf.while_loop(lambda i, a: i < 3, body, [tf.constant(0), x])[1]

    @tf.function
    def gradients(x, inner):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x, inner)
        return y, tape.gradient(y, x)
    x = tf.constant(X)
    for a, b in zip(gradients(x, 1), gradients(x, tf.constant(1)), strict=True):      # the other one is not known
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_an_error_names_the_op_of_the_body():
    @tf.function
    def f(x):
        return tf.while_loop(lambda i, a: i < 1, lambda i, a: (i + 1, tf.gather(a, [9], name="the_one")), [tf.constant(0), x],
                             shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])])[1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="the_one"):
        f(tf.constant(X))
