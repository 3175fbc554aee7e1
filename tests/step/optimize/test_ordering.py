"""The order of effects on variables: relaxed between different ones, kept on the same one."""
from __future__ import annotations

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.step.optimize import ordering, pipeline


def _edges(f, *args):
    """The control edges between ops on variables after the pass, in the step of a function."""
    found = []

    def note(step):
        ordering.relax_order(step)
        found.append([(c.type, op.type) for op in step.ops for c in op.control_inputs])
    keep = pipeline.PASSES
    pipeline.PASSES = tuple((switch, note if run is ordering.relax_order else run) for switch, run in keep)
    try:
        f(*args)
    finally:
        pipeline.PASSES = keep
    return found[-1]


def test_only_ops_on_one_variable_wait_for_each_other():
    a, b = tf.Variable(1.0), tf.Variable(10.0)

    @tf.function
    def f(x):
        a.assign(a * 2.0)
        b.assign_add(x)
        return a + b
    edges = _edges(f, tf.constant(1.0))
    assert ("AssignVariableOp", "AssignAddVariableOp") not in edges
    assert ("AssignVariableOp", "ReadVariableOp") in edges and ("AssignAddVariableOp", "ReadVariableOp") in edges
    assert (a.numpy(), b.numpy()) == (2.0, 11.0)
    assert float(f(tf.constant(1.0))) == 16.0


def test_the_order_on_one_variable_is_kept():
    a, b = tf.Variable([1.0, 2.0]), tf.Variable([0.0, 0.0])

    @tf.function
    def f():
        before = a + 0.0
        a.assign_add(b)
        b.assign(a * 2.0)
        between = a + 0.0
        a.assign(b - before)
        b.assign_sub(a)
        return before, between, a.read_value(), b.read_value()
    x, y = np.array([1.0, 2.0]), np.zeros(2)
    for _ in range(4):
        before = x
        x = x + y
        y = x * 2
        between = x
        x = y - before
        y = y - x
        for found, expected in zip(f(), (before, between, x, y), strict=True):
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_two_names_of_one_variable():
    a = tf.Variable(1.0)
    one = two = a

    @tf.function
    def f(v):
        one.assign_add(1.0)
        v.assign(v * 3.0)
        two.assign_sub(1.0)
        return a + 0.0
    assert float(f(a)) == 5.0 and float(f(a)) == 17.0


def test_updates_that_only_others_wait_for_still_run():
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        a, b = (v1.get_variable(n, initializer=float(i), use_resource=True) for i, n in enumerate("ab"))
        with tf.control_dependencies([a.assign_add(5.0)]):
            second = b.assign_add(1.0)
        with tf.control_dependencies([second]):
            out = tf.identity(b.read_value())
        with v1.Session() as sess:
            sess.run(v1.global_variables_initializer())
            assert sess.run(out) == 2.0 and sess.run(a) == 5.0


def test_other_effects_keep_the_order():
    a, b, seen = tf.Variable(1.0), tf.Variable(1.0), []

    @tf.function
    def f():
        a.assign_add(1.0)
        tf.py_function(lambda: seen.append((float(a), float(b))), [], [])
        b.assign_add(1.0)
        tf.py_function(lambda: seen.append((float(a), float(b))), [], [])
    f()
    assert seen == [(2.0, 1.0), (2.0, 2.0)]


def test_lookups_and_draws_are_no_reason_to_wait():
    a, b = tf.Variable([[1.0], [2.0]]), tf.Variable(3.0)

    @tf.function
    def f(i):
        x = tf.nn.embedding_lookup(a, i)
        noise = tf.random.uniform([]) + tf.random.uniform([])
        b.assign_add(1.0)
        a.assign_add([[1.0], [1.0]])
        return x, tf.nn.embedding_lookup(a, i) + b, noise
    for k in range(2):
        x, y, _ = f(tf.constant([1]))
        np.testing.assert_allclose([x, y], [[[2.0 + k]], [[7.0 + 2 * k]]], rtol=1e-6)
    edges = _edges(f, tf.constant([1, 0]))
    assert ("AssignAddVariableOp", "AssignAddVariableOp") not in edges and ("RandomUniform", "AssignAddVariableOp") not in edges
    assert ("RandomUniform", "RandomUniform") in edges and ("ResourceGather", "AssignAddVariableOp") in edges
    assert ("AssignAddVariableOp", "ResourceGather") in edges and ("ResourceGather", "RandomUniform") not in edges


def test_an_assignment_that_only_a_read_waits_for_still_runs():
    """In a step with another effect, too: here the draw of a random number."""
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        v = v1.get_variable("v", initializer=1.0, use_resource=True)
        after = v.assign(7.0) + 1.0
        noise = tf.random.uniform([])
        with v1.Session() as sess:
            sess.run(v1.global_variables_initializer())
            assert sess.run([after, noise])[0] == 8.0 and sess.run(v) == 7.0
            sess.run(v.initializer)
            assert sess.run(after) == 8.0 and sess.run(v) == 7.0


def test_an_effect_that_waits_for_a_read_waits_for_the_assignment():
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        v = v1.get_variable("v", initializer=1.0, use_resource=True)
        queue = v1.FIFOQueue(1, tf.float32, shapes=[[]])
        seen = []
        written = v.assign(7.0)
        with tf.control_dependencies([queue.enqueue(written + 0.0)]):
            later = v1.py_func(lambda: seen.append(sess.run(v)) or np.float32(0), [], tf.float32)
        with v1.Session() as sess:
            sess.run(v1.global_variables_initializer())
            sess.run(later)
            assert seen == [7.0]


@pytest.mark.parametrize("combine", [
    lambda x, one: x * one, lambda x, one: tf.exp(x) * one, lambda x, one: tf.tanh(tf.exp(x) + one) * 2.0,
    lambda x, one: tf.reduce_sum(tf.exp(x), tf.cast(one, tf.int32) - 1),
    lambda x, one: tf.reshape(x, [tf.cast(one, tf.int32), -1])])
def test_a_constant_that_waits_keeps_the_order(combine, monkeypatch):
    """The constant waits for an update, another update is computed with the constant, and the read waits for that."""
    steps = []
    monkeypatch.setattr(pipeline, "advance_early", steps.append)          # after all passes, before the order is chosen
    with tf1.Graph().as_default(), tf1.Session() as session:
        v, w = (tf1.get_variable(name, initializer=0.0, use_resource=True) for name in "vw")
        x = tf1.placeholder(tf.float32, [4])
        with tf.control_dependencies([v.assign_add(1.0), tf1.Assert(tf.reduce_all(x >= 0), [x])]):     # which keeps all orders
            one = tf.constant(1.0)
        with tf.control_dependencies([w.assign_add(tf.reduce_sum(combine(x, one)))]):
            read = v.read_value()
        session.run([v.initializer, w.initializer])
        steps.clear()
        assert [session.run(read, {x: np.zeros(4)}) for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    for step in steps:
        reads = [op for op in step.ops if op.type == "ReadVariableOp"]
        assert reads and all(_changes_before(op) == 2 for op in reads)


def _changes_before(op):
    """The number of updates that an op waits for."""
    seen, left = set(), [op]
    while left:
        one = left.pop()
        if one not in seen:
            seen.add(one)
            left += [*(t.op for t in one.inputs), *one.control_inputs]
    return sum(one.type == "AssignAddVariableOp" for one in seen)
