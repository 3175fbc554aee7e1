"""Training steps write variables in place if the value has no other reference, and copy otherwise."""
import numpy as np
import pytest

import penstock.compat.v1 as tf


def pointer(sess, name):
    return next(r.value.data_ptr() for key, r in sess._resources.items() if key[1] == name)


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("optimizer", [lambda: tf.train.GradientDescentOptimizer(0.1),
                                       lambda: tf.train.MomentumOptimizer(0.1, 0.9),
                                       lambda: tf.train.AdamOptimizer(0.01)])
def test_a_step_does_not_move_the_variable(use_resource, optimizer):
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None, 4])
        w = tf.get_variable("w", [4, 3], use_resource=use_resource)
        step = optimizer().minimize(tf.reduce_mean(tf.square(tf.matmul(x, w))))
        sess.run(tf.global_variables_initializer())
        feed = {x: np.ones((2, 4), np.float32)}
        sess.run(step, feed)
        before = pointer(sess, "w")
        for _ in range(3):
            sess.run(step, feed)
        assert pointer(sess, "w") == before


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_value_read_before_an_update_keeps_its_numbers(use_resource):
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.get_variable("v", initializer=tf.constant([1.0, 2.0]), use_resource=use_resource)
        before = tf.identity(v.read_value())
        view = tf.reshape(before, [2, 1])
        with tf.control_dependencies([view]):
            update = tf.assign_add(v, [10.0, 10.0])
        with tf.control_dependencies([update]):
            late = view + 0.0
        sess.run(v.initializer)
        assert sess.run(late).ravel().tolist() == [1.0, 2.0]
        assert sess.run(v).tolist() == [11.0, 12.0]
