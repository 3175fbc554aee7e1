"""Loop-invariant code motion: invariants move before loops, other ops stay."""
import re

import numpy as np
import pytest

import penstock.compat.v1 as tf

from ..optimize.steps import config


@pytest.fixture(autouse=True)
def graph():
    tf.disable_control_flow_v2()
    with tf.Graph().as_default():
        yield


def parts(fetches, feeds=()):
    """The program in front of its first loop, and from there on."""
    with tf.Session() as sess:
        before, _, rest = sess.explain(fetches, dict.fromkeys(feeds)).partition("while True:")
    return before, rest


def same(fetches, feed=None, init=None):
    """The values, which are the same with and without what is done to loops."""
    found = []
    for on in (True, False):
        with tf.Session(config=config(loop_optimization=on)) as sess:
            if init is not None:
                sess.run(init)
            found.append([sess.run(fetches, feed) for _ in range(4)][-1])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    return found[0]


def loop(body, n, start):
    return tf.while_loop(lambda i, *_: i < n, lambda i, *v: (i + 1, *body(i, *v)), [tf.constant(0), *start])[1:]


@pytest.mark.parametrize("times", [3, 0])
def test_reads_and_what_is_made_of_them_move(times):
    n = tf.placeholder(tf.int32, [])
    v = tf.get_variable("v", initializer=np.arange(12, dtype=np.float32).reshape(3, 4) / 10, use_resource=True)
    (h,) = loop(lambda i, h: [tf.tanh(tf.matmul(h, tf.exp(v[:, :3])))], n, [tf.ones([2, 3]) / 3])
    grad, = tf.gradients(h, v)
    before, rest = parts([h, grad], [n])
    assert "ReadVariableOp" in before and "ReadVariableOp" not in rest and "Exp:" in before
    same([h, grad], {n: times}, v.initializer)


def test_what_is_saved_and_stays_is_not_saved():
    n = tf.placeholder(tf.int32, [])
    v = tf.get_variable("v", initializer=np.eye(3, dtype=np.float32) * .9, use_resource=True)
    (h,) = loop(lambda i, h: [tf.matmul(h, v[:, :3])], n, [tf.ones([2, 3])])
    grad, = tf.gradients(h, v)
    _, rest = parts([h, grad], [n])
    assert rest.count("StackPushV2(") == 1                      # the other factor
    found, _ = same([h, grad], {n: 3}, v.initializer)
    np.testing.assert_allclose(found, np.full((2, 3), .9 ** 3), rtol=1e-5)


def test_a_variable_that_the_loop_writes_is_read_in_the_loop():
    v = tf.get_variable("v", initializer=1., use_resource=True)

    def body(i, total):
        read = v.read_value()
        with tf.control_dependencies([read]):
            with tf.control_dependencies([v.assign_add(1.)]):
                return [total + tf.identity(read)]
    (total,) = loop(body, 3, [tf.constant(0.)])
    assert "ReadVariableOp" in parts([total])[1]
    with tf.Session() as sess:
        sess.run(v.initializer)
        assert sess.run(total) == 1 + 2 + 3


def test_a_loop_that_waits_for_an_assignment_reads_what_was_assigned():
    v = tf.get_variable("v", initializer=1., use_resource=True)
    with tf.control_dependencies([v.assign(5.)]):
        (total,) = loop(lambda i, total: [total + v.read_value()], 3, [tf.constant(0.)])
    with tf.Session() as sess:
        for _ in range(3):
            sess.run(v.initializer)
            assert sess.run(total) == 15


def test_loops_that_call_python_keep_their_reads():
    v = tf.get_variable("v", initializer=1., use_resource=True)
    seen = []

    def body(i, total):
        return [total + tf.reshape(tf.py_func(lambda x: seen.append(x) or x, [v.read_value()], tf.float32), [])]
    (total,) = loop(body, 2, [tf.constant(0.)])
    assert "ReadVariableOp" in parts([total])[1]
    with tf.Session() as sess:
        sess.run(v.initializer)
        assert sess.run(total) == 2 and len(seen) == 2


def test_randomness_stays():
    x = tf.constant([1., 2.])
    (total,) = loop(lambda i, total: [total + tf.random_uniform([2], seed=1) * tf.exp(x)], 3, [tf.zeros([2])])
    before, rest = parts([total])
    draws = re.compile("RandomUniform|_DrawingRegion")
    assert draws.search(rest) and not draws.search(before)


def test_a_loop_in_a_loop():
    n = tf.placeholder(tf.int32, [])
    v = tf.get_variable("v", initializer=[.5, .25], use_resource=True)

    def body(i, h):
        return loop(lambda k, h: [tf.tanh(h * tf.exp(v))], n, [h])
    (h,) = loop(body, n, [tf.ones([2])])
    same([h, *tf.gradients(h, v)], {n: 3}, v.initializer)
