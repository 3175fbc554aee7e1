"""Branches that are not taken are removed."""
import pytest

import penstock.compat.v1 as tf

from .steps import same, types


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize("outcome", [True, False])
def test_a_conditional_on_a_constant_keeps_one_branch(outcome):
    tf.disable_control_flow_v2()
    x = tf.placeholder(tf.float32, [])
    y = tf.cond(tf.constant(outcome), lambda: tf.exp(x), lambda: tf.sin(x) + 1.)
    left = types(y * 2., [x])
    assert ("Exp" in left) is outcome and ("Sin" in left) is not outcome and "Merge" not in left
    same([y], {x: 2.})


def test_effects_on_the_other_branch_do_not_happen():
    tf.disable_control_flow_v2()
    v = tf.Variable(1.)
    y = tf.cond(tf.constant(False), lambda: tf.identity(tf.assign_add(v, 5.)), lambda: tf.constant(2.))
    assert same([y], init=v.initializer) == [2.]
    with tf.Session() as sess:
        sess.run(v.initializer)
        sess.run(y)
        assert sess.run(v) == 1.
