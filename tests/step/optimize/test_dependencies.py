"""What only waits: control dependencies are simplified."""
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.step.optimize.dependencies import simplify_dependencies

from .steps import after, same


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def test_what_others_only_wait_for_does_not_run():
    x = tf.placeholder(tf.float32, [2])
    waste = tf.exp(x)
    with tf.control_dependencies([waste]):
        y = tf.identity(x)
    assert "Exp" not in after(simplify_dependencies, [y], feeds=[x])


def test_waiting_for_an_op_is_waiting_for_the_effects_behind_it():
    v = tf.Variable(1.)
    add = tf.assign_add(v, 1.)
    with tf.control_dependencies([tf.exp(add)]):
        y = tf.constant(3.) * 2.
    left = after(simplify_dependencies, [y])
    assert "AssignAddVariableOp" in left and "Exp" not in left
    with tf.Session() as sess:
        sess.run(v.initializer)
        sess.run(y)
        assert sess.run(v) == 2.


def test_an_operation_that_was_asked_for_runs():
    x = tf.constant([1.])
    assert "Exp" in after(simplify_dependencies, [], [tf.exp(x).op])
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError):
        sess.run(tf.reshape(tf.constant([1., 2.]), tf.placeholder_with_default([3], [1])).op)


@pytest.mark.parametrize("use_resource, expected", [(True, 12.), (False, 22.)])
def test_a_read_that_an_assignment_waits_for_comes_before_it(use_resource, expected):
    """What is read of a reference is the variable's memory, as in TensorFlow: the sum uses it after the assignment."""
    v = tf.Variable(1., use_resource=use_resource)
    read = v.read_value()
    with tf.control_dependencies([read]):
        add = tf.assign_add(v, 10.)
    with tf.control_dependencies([add]):
        total = read + v.read_value()
    assert same([total], init=v.initializer)[0] == expected


def test_checks_run_though_nobody_uses_their_result():
    x = tf.placeholder(tf.float32, [])
    with tf.control_dependencies([tf.check_numerics(x, "bad")]):
        y = tf.constant(1.)
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="bad"):
        sess.run(y, {x: np.nan})


def test_a_wait_for_what_the_inputs_imply_is_dropped_however_much_that_is():
    variables = [tf.get_variable(f"v{i}", [2], use_resource=True) for i in range(40)]
    x = tf.placeholder(tf.float32, [2])
    for v in variables:
        x = tf.tanh(x * v.read_value())
    with tf.control_dependencies([tf.exp(x)]):
        y = tf.identity(x * 2.)
    left = after(simplify_dependencies, [y])
    assert "Exp" not in left and left.count("ReadVariableOp") == 40


def test_a_wait_for_many_other_effects_stays():
    variables = [tf.get_variable(f"v{i}", [2], use_resource=True) for i in range(40)]
    total = tf.add_n([tf.exp(v.read_value()) for v in variables])
    with tf.control_dependencies([total]):
        changed = [tf.assign_add(v, [1., 1.]).op for v in variables]
    with tf.control_dependencies(changed):
        y = tf.identity(total)
    with tf.Session() as sess:
        for v in variables:
            v.load(np.zeros(2), sess)
        np.testing.assert_allclose(sess.run(y), [40., 40.], rtol=1e-6)
        np.testing.assert_allclose(sess.run(y), [40. * np.e] * 2, rtol=1e-5)
