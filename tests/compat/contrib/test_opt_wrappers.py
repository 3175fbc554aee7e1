"""contrib.opt: optimizers around optimizers, by hand."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

opt = tf.contrib.opt


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def after(*ops, value, feeds=None):
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for op in ops:
            sess.run(op, feeds)
        return sess.run(value)


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_norms_of_rows_are_clipped(resource, sparse):
    x = tf.get_variable("x", initializer=[[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]], use_resource=resource)
    loss = tf.reduce_sum(tf.gather(x, [0, 0, 1]) if sparse else x[:2])
    optimizer = opt.VariableClippingOptimizer(tf.train.GradientDescentOptimizer(0.0), {x: [1]}, 1.0)
    expected = [[0.6, 0.8], [0.3, 0.4], [6.0, 8.0] if sparse else [0.6, 0.8]]
    np.testing.assert_allclose(after(optimizer.minimize(loss), value=x), expected, rtol=1e-6)


@pytest.mark.parametrize("resource", [False, True])
def test_gradients_of_zeros_leave_slots_alone(resource):
    if not resource:
        tf.disable_control_flow_v2()                # as programs that have references do
    x = tf.get_variable("x", initializer=[1.0, 2.0], use_resource=resource)
    given = tf.placeholder(tf.float32, [2])
    optimizer = opt.MultitaskOptimizerWrapper(tf.train.MomentumOptimizer(1.0, 0.5))
    train = optimizer.apply_gradients([(given, x)])
    slot = optimizer.get_slot(x, "momentum")
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(train, {given: [1.0, 0.0]})
        sess.run(train, {given: [0.0, 0.0]})
        np.testing.assert_allclose(sess.run([x, slot]), [[0.0, 2.0], [1.0, 0.0]], rtol=1e-6)
    with pytest.raises(TypeError, match="Optimizer"):
        opt.MultitaskOptimizerWrapper("adam")


def test_global_norm_is_returned():
    x, y = tf.get_variable("x", initializer=1.0), tf.get_variable("y", initializer=1.0)
    pairs, norm = opt.clip_gradients_by_global_norm([(tf.constant(3.0), x), (tf.constant(4.0), y)], 1.0)
    zeros, nothing = opt.clip_gradients_by_global_norm([(tf.constant(0.0), x)])
    found = after(value=[pairs[0][0], pairs[1][0], norm, zeros[0][0], nothing])
    np.testing.assert_allclose(found, [0.6, 0.8, 5.0, 0.0, 0.0], rtol=1e-6)
    assert [v for _, v in pairs] == [x, y]


def test_stale_gradients_are_dropped():
    x, step = tf.get_variable("x", initializer=1.0), tf.train.create_global_step()
    optimizer = opt.DropStaleGradientOptimizer(tf.train.GradientDescentOptimizer(0.1), staleness=2)
    behind = tf.placeholder_with_default(tf.constant(0, tf.int64), [])
    loss = x * 1.0
    pairs = optimizer.compute_gradients(loss)
    optimizer._local_step -= behind
    train = optimizer.apply_gradients(pairs, step)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(train, {behind: 2}) == 0
        assert sess.run(train, {behind: 3}) == 1
        assert sess.run(train) == 1
        np.testing.assert_allclose(sess.run([x, tf.cast(step, tf.float32)]), [0.8, 2.0], rtol=1e-6)


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_regularizers_leave_accumulators_alone(resource, sparse):
    x = tf.get_variable("x", initializer=[1.0, 2.0], use_resource=resource)
    optimizer = opt.RegAdagradOptimizer(1.0, initial_accumulator_value=4.0)
    step = optimizer.minimize(tf.reduce_sum(tf.gather(x, [0]) if sparse else x[:1]))
    with optimizer.avoid_updating_slots():
        shrink = optimizer.minimize(tf.reduce_sum(tf.gather(x, [0, 1]) if sparse else x))
    slot = optimizer.get_slot(x, "accumulator")
    found = after(shrink, step, value=[x, slot])
    np.testing.assert_allclose(found, [[0.5 - 1 / np.sqrt(5.0), 1.5], [5.0, 4.0]], rtol=1e-6)
