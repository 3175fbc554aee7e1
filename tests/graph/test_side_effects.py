"""Control edges between the ops of a function: which effects wait for which."""
from __future__ import annotations

import pytest

import penstock as tf


def _ops(function, *args):
    """The ops of a trace with effects, by the order of their creation."""
    graph = function.get_concrete_function(*args).graph
    return [op for op in graph.get_operations() if op.op_def.is_stateful and op.type not in ("VarHandleOp", "Placeholder")]


def _waits(ops):
    """For each op the numbers of those that it waits for."""
    return [sorted(ops.index(c) for c in op.control_inputs if c in ops) for op in ops]


def test_reads_wait_for_the_last_write_and_not_for_each_other():
    v = tf.Variable(1.0)

    @tf.function
    def f():
        a = v.read_value()
        b = v.read_value()
        v.assign_add(1.0)
        c = v.read_value()
        return a, b, c

    assert _waits(_ops(f)) == [[], [], [0, 1], [2]]
    assert [float(x) for x in f()] == [1.0, 1.0, 2.0]


def test_other_variables_do_not_wait():
    v, w = tf.Variable(1.0), tf.Variable(2.0)

    @tf.function
    def f():
        v.assign(3.0)
        w.assign(4.0)
        return v.read_value() + w.read_value()

    assert _waits(_ops(f)) == [[], [], [0], [1]]
    assert float(f()) == 7.0


def test_printing_keeps_its_order(capfd):
    v = tf.Variable(1)

    @tf.function
    def f():
        tf.print("first")
        v.assign_add(1)
        tf.print("second", v)

    names = [op.type for op in _ops(f)]
    assert names == ["PrintV2", "AssignAddVariableOp", "ReadVariableOp", "PrintV2"]
    assert _waits(_ops(f)) == [[], [], [1], [0]]
    f()
    assert capfd.readouterr().err == "first\nsecond 2\n"


def test_python_functions_keep_their_order_with_everything():
    v, seen = tf.Variable(1), []

    @tf.function
    def f():
        v.assign_add(1)
        tf.py_function(lambda: seen.append(int(v)), [], [])
        v.assign_add(1)

    assert _waits(_ops(f)) == [[], [0], [1]]
    f()
    assert seen == [2]
    assert int(v) == 3


def _call(v):
    return tf.function(lambda: v.read_value())()


def _call_twice(v):
    return tf.function(lambda: _call(v))()


def _if(v):
    return tf.cond(tf.constant(True), v.read_value, lambda: tf.constant(0.0))


def _case(v):
    return tf.switch_case(tf.constant(1), [lambda: tf.constant(0.0), v.read_value])


def _while(v):
    return tf.while_loop(lambda x: x < 1, lambda x: x + v.read_value(), [0.0])[0]


@pytest.mark.parametrize("read", [_call, _call_twice, _if, _case, _while])
def test_ops_that_call_functions_have_their_effects(read):
    v, w = tf.Variable(1.0), tf.Variable(5.0)

    @tf.function
    def f():
        first = v.read_value()
        inside = read(v)
        w.assign(inside)
        v.assign(first + inside)
        return read(v)

    ops = _ops(f)
    reads = [i for i, op in enumerate(ops) if op.type in ("StatefulPartitionedCall", "If", "Case", "While")]
    assigns = [i for i, op in enumerate(ops) if op.type == "AssignVariableOp"]
    waits = _waits(ops)
    assert len(reads) == len(assigns) == 2
    assert waits[reads[0]] == []
    assert waits[assigns[0]] == []                                     # the other variable
    assert waits[assigns[1]] == [0, reads[0]]
    assert waits[reads[1]] == [assigns[1]]
    expected = 2.0
    assert float(f()) == expected
    assert float(w) == 1.0


def test_functions_that_write_wait_and_are_waited_for():
    v = tf.Variable(1.0)

    @tf.function
    def add():
        v.assign_add(1.0)

    @tf.function
    def f():
        a = v.read_value()
        add()
        add()
        return a, v.read_value()

    assert _waits(_ops(f)) == [[], [0], [1], [2]]
    assert [float(x) for x in f()] == [1.0, 3.0]


def test_a_handle_that_passed_through_an_op_is_the_same_resource():
    v = tf.Variable(1.0)

    @tf.function
    def f():
        tf.raw_ops.AssignVariableOp(resource=v.handle, value=2.0)
        same = tf.identity(v.handle)
        return tf.raw_ops.ReadVariableOp(resource=same, dtype=tf.float32)

    assert _waits(_ops(f)) == [[], [0]]
    assert float(f()) == 2.0


def test_updates_in_loops_and_branches_keep_their_order():
    v = tf.Variable(1)

    @tf.function
    def f(n):
        for i in tf.range(n):
            if i % 2 == 0:
                v.assign_add(1)
            else:
                v.assign(v * 3)
        v.assign_sub(1)
        return v.read_value()

    assert int(f(4)) == ((1 + 1) * 3 + 1) * 3 - 1


def test_effects_before_one_that_fails_have_happened():
    v, w, rows = tf.Variable(0), tf.Variable(0), iter(tf.data.Dataset.range(2))

    @tf.function
    def f():
        v.assign_add(1)
        x = next(rows)
        w.assign_add(1)
        return x

    assert [int(f()), int(f())] == [0, 1]
    with pytest.raises(tf.errors.OutOfRangeError):
        f()
    assert (int(v), int(w)) == (3, 2)
