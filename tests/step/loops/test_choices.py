"""Conditionals with effects are an `if` of the step's program, with the ops of both branches."""
import numpy as np
import pytest

import penstock as tf

X = np.linspace(-1.0, 1.0, 6, dtype=np.float32)


def step(size=6):
    """Nested conditionals, one with an effect, and gradients through them."""
    w, seen = tf.Variable(np.ones(size, np.float32)), tf.Variable(0.0)

    @tf.function
    def f(x, which):
        with tf.GradientTape() as tape:
            h = tf.cond(which > 0, lambda: tf.tanh(x * w), lambda: tf.cond(which < 0, lambda: x + w * w, lambda: x * 2.0))
            loss = tf.reduce_sum(h * h)
        grad = tape.gradient(loss, w, unconnected_gradients="zero")
        tf.cond(loss > 1.0, lambda: [w.assign_sub(0.1 * grad).op, seen.assign_add(1.0).op][:0], lambda: [])
        return loss
    return f, w, seen


def test_results_effects_and_gradients_of_each_branch():
    """Often enough that a program without choices would have been recorded."""
    f, w, seen = step()
    held, count = np.ones(6), 0
    for i in range(48):
        which = i % 3 - 1
        h = np.tanh(X * held) if which > 0 else X + held * held if which < 0 else X * 2.0
        grad = 2 * h * (1 - h * h) * X if which > 0 else 4 * h * held if which < 0 else np.zeros(6)
        loss = (h * h).sum()
        assert f(tf.constant(X), tf.constant(which)).numpy() == pytest.approx(loss, rel=1e-4)
        if loss > 1.0:
            held, count = held - 0.1 * grad, count + 1
        np.testing.assert_allclose(w, held, rtol=1e-4, atol=1e-5)
    assert seen.numpy() == count > 0
    text = f.explain(tf.constant(X), tf.constant(1))
    assert "if truth(" in text and " If(" not in text and "AssignSub" in text


def test_steps_on_large_arrays_call_their_branches():
    f, _, _ = step(1 << 15)
    assert " If(" in f.explain(tf.zeros(1 << 15), tf.constant(1))


def test_an_error_names_the_op_of_the_branch():
    total = tf.Variable(0.0)

    @tf.function
    def f(x, i):
        def gathers():
            total.assign_add(1.0)
            return tf.gather(x, i, name="the_one")
        return tf.cond(i > 2, gathers, lambda: x[0])
    assert f(tf.constant(X), tf.constant(1)).numpy() == X[0] and f(tf.constant(X), tf.constant(4)).numpy() == X[4]
    with pytest.raises(tf.errors.InvalidArgumentError, match="the_one"):
        f(tf.constant(X), tf.constant(9))
    assert total.numpy() == 2.0
