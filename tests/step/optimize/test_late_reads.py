"""The value of a reference variable after updates: what real TensorFlow returns for the same graphs."""
import numpy as np
import pytest

import penstock.compat.v1 as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def reference(name, value):
    return tf.get_variable(name, initializer=value, use_resource=False)


def initialized(session):
    session.run(tf.global_variables_initializer())
    return session


@pytest.mark.parametrize("use_resource", [False, True])
def test_moving_averages_of_trained_variables(use_resource):
    w = tf.get_variable("w", initializer=[1.0, 2.0], use_resource=use_resource)
    count = tf.train.get_or_create_global_step()
    train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(w * w), global_step=count)
    ema = tf.train.ExponentialMovingAverage(0.9, count)
    with tf.control_dependencies([train]):
        averaged = ema.apply([w])
    value, mean = np.array([1.0, 2.0]), np.array([1.0, 2.0])
    with tf.Session() as s:
        initialized(s)
        for i in range(1, 6):
            s.run(averaged)
            value = 0.8 * value
            mean = mean - (1 - min(0.9, (1 + i) / (10 + i))) * (mean - value)
            np.testing.assert_allclose(s.run([w, ema.average(w)]), [value, mean], rtol=1e-5)


def test_each_op_reads_after_the_updates_that_it_waits_for():
    w = reference("w", [1.0, 2.0])
    before = w * 3.0
    with tf.control_dependencies([before]):
        first = w.assign_add([1.0, 1.0])
    with tf.control_dependencies([first]):
        middle = w * 3.0
        copy = tf.identity(w)
    with tf.control_dependencies([middle, copy]):
        second = w.assign(w * 10.0)
    with tf.control_dependencies([second]):
        after = copy + 0.0
    with tf.Session() as s:
        found = initialized(s).run([before, middle, after])
        np.testing.assert_array_equal(found, [[3, 6], [6, 9], [20, 30]])


def test_other_variables_are_not_read_again():
    v, w = reference("v", 1.0), reference("w", 2.0)
    with tf.control_dependencies([v.assign(5.0)]):
        y = w * 3.0
    with tf.Session() as s:
        assert initialized(s).run(y) == 6.0
        assert s.explain(y).count("Identity") <= 1


@pytest.mark.parametrize("v2", [False, True])
def test_conditionals_and_loops_after_an_update(v2):
    (tf.enable_control_flow_v2 if v2 else tf.disable_control_flow_v2)()
    w = reference("w", 1.0)
    with tf.control_dependencies([w.assign(w * 2.0)]):
        chosen = tf.cond(w > 1.5, lambda: w * 10.0, lambda: w * 100.0)
        total = tf.while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, x + w), [0, 0.0])[1]
    with tf.Session() as s:
        initialized(s)
        assert [s.run(chosen), s.run(total)] == [20.0, 8.0]


def test_an_update_in_a_branch():
    tf.disable_control_flow_v2()
    a, w = reference("a", 1.0), reference("w", 4.0)
    done = tf.cond(a > 0.0, lambda: w.assign_add(5.0), lambda: tf.identity(w))
    with tf.control_dependencies([done]):
        after = w + 0.0
    with tf.Session() as s:
        assert initialized(s).run(after) == 9.0
        s.run(a.assign(-1.0))
        assert s.run(after) == 9.0
