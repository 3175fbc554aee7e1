"""Compiled steps whose programs read numbers on the host: lengths of loops, conditions, checks. Graphs run as traced."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.step.tiers import tiers


def session(jit):
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = int(jit)
    return tf.Session(config=config)


def recurrent(jit, lengths, static=False):
    """The losses and variables of training a GRU over sequences of some lengths, one vector of them per step."""
    tf.set_random_seed(1)
    with tf.Graph().as_default():
        rng = np.random.RandomState(0)
        x, n = tf.constant(rng.randn(3, 5, 4).astype("f")), tf.placeholder(tf.int32, [3])
        cell = tf.nn.rnn_cell.GRUCell(4, kernel_initializer=tf.random_uniform_initializer(-0.5, 0.5, seed=3))
        out, last = tf.nn.dynamic_rnn(cell, x, sequence_length=None if static else n, dtype=tf.float32)
        loss = tf.reduce_mean(tf.square(out)) + tf.reduce_sum(last)
        train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        with session(jit) as sess:
            sess.run(tf.global_variables_initializer())
            losses = [sess.run([loss, train], {n: v})[0] for v in lengths]
            return losses, sess.run(tf.trainable_variables())


def same(found, expected):
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    for a, b in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_arrays_and_stacks_of_a_step_become_part_of_the_graph(graphs):
    lengths = [[5, 5, 5]] * 4
    same(recurrent(True, lengths, static=True), recurrent(False, lengths, static=True))
    assert len(graphs) == 1


def test_a_loop_over_lengths_is_compiled_for_the_longest(graphs):
    lengths = [[4, 2, 1], [3, 4, 2], [4, 4, 4], [1, 1, 4]]
    same(recurrent(True, lengths), recurrent(False, lengths))
    assert len(graphs) == 1


def test_steps_of_other_lengths_run_the_program(graphs):
    lengths = [[4, 2, 1], [3, 4, 2], [4, 4, 4], [5, 1, 2], [4, 1, 1], [2, 2, 2], [4, 3, 2]]
    same(recurrent(True, lengths), recurrent(False, lengths))
    assert len(graphs) == 1


def test_a_version_for_numbers_that_change_is_given_up(graphs):
    lengths = [[4, 2, 1]] * 4 + [[1 + i % 3, 1, 1] for i in range(12)]
    before = tiers.refused[3, "numbers that the host reads change"]
    same(recurrent(True, lengths), recurrent(False, lengths))
    assert tiers.refused[3, "numbers that the host reads change"] == before + 1


def inverted(jit):
    v = tf2.Variable(np.eye(3, dtype="f"))

    @tf2.function(jit_compile=jit)
    def step(x):
        v.assign_add(tf2.linalg.inv(x))
        return tf2.reduce_sum(v)
    return v, step


def test_singular_matrices_are_errors_and_change_nothing(graphs):
    v, step = inverted(True)
    for _ in range(4):
        step(np.eye(3, dtype="f"))
    assert len(graphs) == 1
    before = v.numpy()
    with pytest.raises(tf2.errors.InvalidArgumentError, match="not invertible"):
        step(np.zeros([3, 3], "f"))
    np.testing.assert_array_equal(v.numpy(), before)
    step(np.eye(3, dtype="f"))
    np.testing.assert_allclose(v.numpy(), before + np.eye(3), rtol=1e-6)


def test_checks_raise_in_compiled_steps(graphs):
    v = tf2.Variable([1.0, 2.0, 3.0])

    @tf2.function(jit_compile=True)
    def step(x):
        tf2.debugging.assert_less(x, 5.0, message="too large")
        y = tf2.debugging.check_numerics(x / v, "a quotient")
        v.assign_sub(0.1 * y)
        return tf2.reduce_sum(y)
    for _ in range(4):
        step(tf2.constant([1.0, 2.0, 3.0]))
    assert len(graphs) == 1
    before = v.numpy()
    with pytest.raises(tf2.errors.InvalidArgumentError, match="too large"):
        step(tf2.constant([1.0, 7.0, 3.0]))
    with pytest.raises(tf2.errors.InvalidArgumentError, match="a quotient"):
        step(tf2.constant([1.0, -np.inf, 3.0]))
    np.testing.assert_array_equal(v.numpy(), before)


def test_seeded_numbers_are_the_same_after_a_miss(graphs):
    def run(jit):
        tf2.random.set_seed(4)

        @tf2.function(jit_compile=jit)
        def step(x):
            tf2.debugging.assert_less(x, 5.0)
            return x + tf2.random.uniform([3], seed=2)
        out = []
        for value in (1.0, 1.0, 1.0, 1.0, 9.0, 1.0, 1.0):
            try:
                out.append(step(tf2.constant(value)).numpy())
            except tf2.errors.InvalidArgumentError:
                out.append(None)
        return out
    for a, b in zip(run(True), run(False), strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-6)
    assert len(graphs) == 1


def test_a_condition_with_products_is_compiled_for_one_branch(graphs):
    w = tf2.Variable(np.ones([4, 4], "f"))

    @tf2.function(jit_compile=True)
    def step(x):
        y = tf2.cond(tf2.reduce_sum(x) > 0, lambda: tf2.matmul(x, w), lambda: x)
        w.assign_sub(0.01 * y)
        return tf2.reduce_sum(y)
    ones = np.ones([4, 4], "f")
    for _ in range(3):
        step(ones)
    assert len(graphs) == 1
    value = w.numpy()
    np.testing.assert_allclose(step(-ones), -16.0, rtol=1e-6)
    np.testing.assert_allclose(w.numpy(), value + 0.01, rtol=1e-6)
