"""Calls of functions: which are replaced by their ops, and that effects keep their order."""
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.step.ir import verify
from penstock._src.step.optimize import inlining
from penstock._src.step.optimize.inlining import inline_calls

from .steps import step_of


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def inlined(fetches, targets=(), feeds=()):
    step = step_of(fetches, targets, feeds)
    inline_calls(step)
    verify(step, "inline_calls")
    return [op.type for op in step.ops]


def test_a_call_becomes_the_ops_of_its_body():
    x = tf.placeholder(tf.float32, [2])
    outer = tf.function(lambda a: tf.function(tf.exp)(a) + 1.0)
    types = inlined([outer(x)], feeds=[x])
    assert "Exp" in types and not any("Call" in t for t in types)
    with tf.Session() as sess:
        np.testing.assert_allclose(sess.run(outer(x), {x: [0.0, 1.0]}), np.exp([0.0, 1.0]) + 1, rtol=1e-6)


def test_a_large_function_that_is_called_twice_stays_a_call(monkeypatch):
    monkeypatch.setattr(inlining, "_SMALL", 3)
    x = tf.placeholder(tf.float32, [])

    @tf.function
    def long(a):
        for _ in range(6):
            a = tf.tanh(a)
        return a
    once, twice = inlined([long(x)], feeds=[x]), inlined([long(x), long(x + 1.0)], feeds=[x])
    assert once.count("Tanh") == 6 and "Tanh" not in twice


def test_functions_that_call_the_one_before_twice_take_linear_time(monkeypatch):
    """Each body is made at most once per level, however many ways lead to it."""
    made, before = [], inlining.function_body
    monkeypatch.setattr(inlining, "function_body", lambda function: made.append(function) or before(function))
    monkeypatch.setattr(inlining, "_SMALL", 20)
    x = tf.placeholder(tf.float32, [])
    last = tf.function(tf.sin, autograph=False)
    for _ in range(40):
        last = tf.function(lambda a, f=last: f(a) + f(a + 1.0), autograph=False)
    types = inlined([last(x)], feeds=[x])
    assert len(types) < 100 and 10 < len(made) < 1000


def test_a_step_has_a_limit(monkeypatch):
    monkeypatch.setattr(inlining, "_TOTAL", 50)
    x = tf.placeholder(tf.float32, [])
    called = tf.function(lambda a: tf.sin(tf.cos(a)))
    types = inlined([called(x + float(i)) for i in range(100)], feeds=[x])
    assert 10 < types.count("Sin") < 50 < types.count("PartitionedCall")


def test_effects_happen_though_no_result_is_used():
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer(), use_resource=True)

    @tf.function
    def count():
        v.assign_add(1.0)
        return tf.constant(5.0)
    result = count()
    with tf.control_dependencies([result]):
        after = v.read_value()
    assert "AssignAddVariableOp" in inlined([after])
    with tf.Session() as sess:
        sess.run(v.initializer)
        assert [sess.run(after) for _ in range(3)] == [1.0, 2.0, 3.0]


def test_a_fed_result_is_not_computed():
    x = tf.placeholder(tf.float32, [])
    called = tf.function(lambda a: tf.exp(a))(x)
    assert "Exp" not in inlined([called * 2.0], feeds=[x, called])
