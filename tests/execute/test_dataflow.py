"""Control flow at run time, by programs with `if` and `while` and on the dataflow executor: tokens, frames, threads, errors."""
import threading
import weakref

import numpy as np
import pytest
import torch

import penstock.compat.v1 as tf
from penstock._src.execute import dataflow
from penstock._src.execute.context import ResourceManager, StepContext
from penstock._src.execute.dataflow import Executor
from penstock._src.graph import context
from penstock._src.graph.prune import needed
from penstock._src.ops.registry import get
from penstock._src.step.compile.program import Program, write_program
from penstock._src.step.ir import StepGraph


@pytest.fixture(autouse=True, params=["program", "executor"])
def graph(request, monkeypatch):
    """A v1 graph; whatever can be a program is one, or nothing with control flow is."""
    context.process.v2_control_flow = False
    if request.param == "executor":
        monkeypatch.setattr("penstock._src.step.compiler.write_structured", lambda *_: None)
    with tf.Graph().as_default() as g:
        yield g


def step(timeout=None):
    return StepContext(ResourceManager(), None, timeout)


def imported(fetches, feeds=(), targets=()):
    return StepGraph(needed(fetches, targets, {id(t) for t in feeds}), list(fetches), list(targets), list(feeds))


def executor(fetches, feeds=(), targets=()):
    made = imported(fetches, feeds, targets)
    return Executor(made.ops, made.fetches, made.feeds, step())


def test_same_answers_as_a_program():
    x = tf.placeholder(tf.float32, [2, 2])
    a, b = tf.split(tf.matmul(x, x) + 1.0, 2, axis=1)
    fetches = [tf.concat([a * b, a], 0), tf.shape(b), a]
    made = imported(fetches, [x])
    value = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    program = write_program(made.ops, made.fetches, made.feeds, step())
    assert isinstance(program, Program)
    for p, e in zip(program.run(step(), value), executor(fetches, [x]).run(step(), value), strict=True):
        np.testing.assert_array_equal(p.numpy(), e.numpy())


def test_switch_kills_and_merge_takes_what_lives():
    p = tf.placeholder(tf.bool, [])
    off, on = get("Switch")(tf.constant([1.0, 2.0]), p)
    merged, index = get("Merge")([off * 2.0, on * 3.0])
    with tf.Session() as sess:
        value, i = sess.run([merged, index], {p: True})
        assert value.tolist() == [3, 6] and i == 1 and i.dtype == np.int32
        value, i = sess.run([merged, index], {p: False})
        assert value.tolist() == [2, 4] and i == 0
        assert sess.run(on, {p: True}).tolist() == [1, 2]
        with pytest.raises(tf.errors.InvalidArgumentError, match="Retval.0. does not have value"):
            sess.run(off, {p: True})


def test_a_merge_waits_for_its_control_inputs():
    p = tf.placeholder(tf.bool, [])
    v = tf.Variable(0.0, use_resource=True)
    off, on = get("Switch")(tf.constant(1.0), p)
    with tf.control_dependencies([v.assign(5.0).op]):
        merged = get("Merge")([off, on])[0]
    with tf.control_dependencies([merged]):
        after = v.read_value()
    with tf.Session() as sess:
        assert sess.run([merged, after], {p: True}) == [1, 5]


def test_dead_control_inputs_kill_all_but_triggers():
    p = tf.placeholder(tf.bool, [])
    off, on = get("Switch")(tf.constant(1.0), p)
    with tf.control_dependencies([on * 2.0]):
        killed = tf.constant(3.0) + 0.0
        trigger = get("ControlTrigger")()
    with tf.control_dependencies([trigger]):
        alive = tf.constant(4.0) + 0.0
    with tf.Session() as sess:
        assert sess.run(alive, {p: False}) == 4
        with pytest.raises(tf.errors.InvalidArgumentError, match="does not have value"):
            sess.run(killed, {p: False})


def raw_loop(limit, parallel=10):
    """A loop of raw ops that doubles 1.0 `limit` times."""
    enter = get("Enter")
    i0 = enter(tf.constant(0), frame_name="loop", parallel_iterations=parallel)
    a0 = enter(tf.constant(1.0), frame_name="loop", parallel_iterations=parallel)
    n, one = (enter(t, frame_name="loop", is_constant=True, parallel_iterations=parallel) for t in (limit, tf.constant(1)))
    i, a = get("Merge")([i0, i0])[0], get("Merge")([a0, a0])[0]
    go = get("LoopCond")(tf.less(i, n))
    i_out, i_in = get("Switch")(i, go)
    a_out, a_in = get("Switch")(a, go)
    i.op._update_input(1, get("NextIteration")(tf.add(i_in, one)))
    a.op._update_input(1, get("NextIteration")(tf.add(a_in, a_in)))
    return get("Exit")(i_out), get("Exit")(a_out)


@pytest.mark.parametrize("parallel", [1, 2, 32])
def test_a_loop_of_raw_ops(parallel):
    n = tf.placeholder(tf.int32, [])
    outs = raw_loop(n, parallel)
    with tf.Session() as sess:
        assert sess.run(outs, {n: 10}) == (10, 1024)
        assert sess.run(outs, {n: 0}) == (0, 1)


def test_inputs_of_a_node_come_from_one_frame():
    x = tf.placeholder(tf.float32, [])
    a, b = (get("Enter")(x, frame_name=n) for n in ("one", "two"))
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="inputs from different frames"):
        sess.run(a + b, {x: 1.0})


def test_a_loop_on_the_branch_not_taken_is_dead():
    x = tf.placeholder(tf.float32, [])
    y = tf.cond(x > 0.0, lambda: tf.while_loop(lambda i: i < 1e6, lambda i: i * 2.0, [x]), lambda: -x)
    with tf.Session() as sess:
        assert sess.run(y, {x: -3.0}) == 3
        assert sess.run(y, {x: 1.0}) == 2 ** 20


def test_finished_iterations_are_dropped(monkeypatch):
    alive, most = set(), []

    class Counted(dataflow._Iteration):
        __slots__ = ("__weakref__",)

        def __init__(self, kind):
            super().__init__(kind)
            alive.add(id(self))
            weakref.finalize(self, alive.discard, id(self))

    def note(x):
        most.append(len(alive))
        return x
    monkeypatch.setattr(dataflow, "_Iteration", Counted)
    n = tf.placeholder(tf.int32, [])
    _, y = tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, tf.py_func(note, [a + 1.0], tf.float32)),
                         (tf.constant(0), tf.zeros([1000])), shape_invariants=(tf.TensorShape([]), tf.TensorShape(None)))
    found, = executor([y], [n]).run(step(), torch.tensor(50, dtype=torch.int32))
    assert float(found[0]) == 50 and len(most) == 50 and max(most) < 20


def test_many_threads_share_one_executor():
    n = tf.placeholder(tf.int32, [])
    outs = raw_loop(n)
    found = []
    with tf.Session() as sess:
        def work(k):
            for _ in range(10):
                found.append(sess.run(outs, {n: k}) == (k, 2 ** k))
        threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert found == [True] * 60


def test_structured_control_flow_becomes_a_program(request):
    x = tf.placeholder(tf.float32, [])

    def body(i, a):
        return i + 1, tf.cond(a > 9.0, lambda: a, lambda: a * x)
    _, y = tf.while_loop(lambda i, a: i < 3, body, (tf.constant(0), x))
    g, = tf.gradients(y, x)
    with tf.Session() as sess:
        text = sess.explain([y, g], {x: 2.0})
        assert sess.run([y, g], {x: 2.0}) == [16, 32]
    if "executor" in request.node.name:
        assert "while True" not in text
    else:
        assert text.count("while True") == 2 and "if not b" in text


def test_control_flow_without_structure_is_left_to_the_executor():
    p, q = tf.placeholder(tf.bool, []), tf.placeholder(tf.bool, [])
    a, b = get("Switch")(tf.constant(1.0), p), get("Switch")(tf.constant(2.0), q)
    merged = get("Merge")([a[0], b[1]])[0]
    with tf.Session() as sess:
        assert "step" not in sess.explain(merged, {p: True, q: True})
        assert sess.run(merged, {p: False, q: False}) == 1
        assert sess.run(merged, {p: True, q: True}) == 2
        with pytest.raises(tf.errors.InvalidArgumentError, match="does not have value"):
            sess.run(merged, {p: True, q: False})


def test_an_error_names_the_op_and_leaves_the_session_usable():
    x = tf.placeholder(tf.float32, [None])
    n = tf.placeholder(tf.int32, [])
    _, y = tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, tf.reshape(a, [2, 2], name="bad")), (tf.constant(0), x),
                         shape_invariants=(tf.TensorShape([]), tf.TensorShape(None)))
    with tf.Session() as sess:
        with pytest.raises(tf.errors.InvalidArgumentError) as e:
            sess.run(y, {x: [1.0, 2.0, 3.0], n: 2})
        assert e.value.op.name == "while/bad" and "test_dataflow.py" in str(e.value)
        assert sess.run(y, {x: [1.0, 2.0, 3.0, 4.0], n: 2}).shape == (2, 2)


def test_a_loop_without_end_ends_with_its_deadline():
    loop = tf.while_loop(lambda i: i >= 0, lambda i: i * 0, [tf.constant(0)])
    with tf.Session() as sess:
        with pytest.raises(tf.errors.DeadlineExceededError):
            sess.run(loop, options=tf.RunOptions(timeout_in_ms=200))


def test_ops_that_wait_for_each_other_run_side_by_side():
    meet = threading.Barrier(2)

    def come():
        meet.wait(60)
        return np.int64(1)
    a, b = (tf.py_func(come, [], tf.int64) for _ in range(2))
    with tf.Session() as sess:
        assert sess.run([a, b]) == [1, 1]


def test_an_error_on_a_thread_ends_the_step():
    def fail():
        raise ValueError("no luck")
    a = tf.py_func(fail, [], tf.int64, name="unlucky")
    b = tf.py_func(lambda: np.int64(2), [], tf.int64)
    with tf.Session() as sess:
        with pytest.raises(tf.errors.InvalidArgumentError, match="no luck") as e:
            sess.run([a, b])
        assert e.value.op.name == "unlucky"
        assert sess.run(b) == 2


def test_reference_variables_in_loops():
    v = tf.Variable(1.0, use_resource=False)

    def body(i):
        with tf.control_dependencies([tf.assign_add(v, 2.0)]):
            return i + 1
    loop = tf.while_loop(lambda i: i < 3, body, [tf.constant(0)])
    with tf.Session() as sess:
        sess.run(v.initializer)
        sess.run(loop)
        assert sess.run(v) == 7


def test_an_exit_from_no_frame_is_refused():
    out = get("Exit")(tf.constant(1.0), name="way_out")
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="way_out exits a frame that nothing enters"):
        sess.run(out)
