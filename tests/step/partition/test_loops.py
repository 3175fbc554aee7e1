"""Control flow over partitions: dead tensors and loops across a cut, each partition on its own executor."""
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock.compat.v1 as tf
from penstock._src.base import errors
from penstock._src.execute.context import Cancellation, ResourceManager, StepContext
from penstock._src.execute.lanes import Threads, compile_lanes
from penstock._src.graph import context, verify
from penstock._src.graph.prune import needed
from penstock._src.kernels.devices.devices import DeviceSet, local_devices
from penstock._src.step.ir import StepGraph
from penstock._src.step.partition.schedule import lanes
from penstock._src.step.partition.split import partition
from penstock._src.step.place.placer import Placer


@pytest.fixture(autouse=True)
def graph():
    context.process.v2_control_flow = False
    with tf.Graph().as_default() as g:
        yield g


@pytest.fixture
def threads():
    made = Threads()
    yield made
    made.close()


def run(threads, fetches, feeds, times=1, timeout=60):
    """Runs a step as partitions, whatever is in it; returns what each run fetched."""
    devices = DeviceSet(local_devices(tf.ConfigProto(device_count={"CPU": 3, "GPU": 0})))
    resources = ResourceManager()
    tensors, values = list(feeds), list(feeds.values())
    ops = needed(fetches, [], {id(t) for t in tensors})
    imported = StepGraph(ops, fetches, [], tensors)
    Placer(devices).place(imported)
    parts = partition(imported)
    verify.partitioned(parts)
    assert len(parts) > 1
    step = compile_lanes(lanes(parts, devices.host), StepContext(resources, devices=devices), threads)
    out = []
    for _ in range(times):
        ctx = StepContext(resources, None, timeout, devices=devices)
        out.append([np.asarray(v) for v in step.run(ctx, *[torch.tensor(v) for v in values])])
        assert ctx.rendezvous.waiting() == []
        assert not ctx.rendezvous._values
    return out


def on(i):
    return tf.device(f"/cpu:{i}")


def test_dead_tensors_cross(threads):
    with on(0):
        p = tf.placeholder(tf.bool, [])
        x = tf.placeholder(tf.float32, [])

        def double():
            with on(1):
                return x * 2.0

        def negate():
            with on(2):
                return tf.negative(x)
        out = tf.cond(p, double, negate)
    assert run(threads, [out], {p: True, x: 3.0}) == [[6.0]]
    assert run(threads, [out], {p: False, x: 3.0}) == [[-3.0]]


def test_a_dead_fetch_is_refused(threads):
    with on(0):
        p = tf.placeholder(tf.bool, [])
        _, there = tf.raw_ops.Switch(data=tf.constant(1.0), pred=p)
    with on(1):
        out = tf.negative(there)
    assert run(threads, [out], {p: True}) == [[-1.0]]
    with pytest.raises(errors.InvalidArgumentError, match="not taken"):
        run(threads, [out], {p: False})


def test_a_loop_spans_devices(threads):
    with on(0):
        n = tf.placeholder(tf.int32, [])

        def body(i, x):
            with on(1):
                y = x * 2.0
            with on(2):
                return i + 1, y + 1.0
        _, out = tf.while_loop(lambda i, x: i < n, body, [0, 1.0])
    with on(1):
        out = tf.negative(out)
    for count in (0, 1, 7):
        x = 1.0
        for _ in range(count):
            x = 2 * x + 1
        assert run(threads, [out], {n: count}, times=2) == [[-x]] * 2


def test_nested_loops_and_conditionals_span_devices(threads):
    with on(0):
        n = tf.placeholder(tf.int32, [])

        def inner(j, x):
            with on(2):
                return j + 1, x + 0.5

        def outer(i, x):
            with on(1):
                _, y = tf.while_loop(lambda j, _: j < i, inner, [0, x], name="inner")
            with on(0):
                z = tf.cond(tf.equal(i % 2, 0), lambda: y * 2.0, lambda: y)
            return i + 1, z
        _, out = tf.while_loop(lambda i, _: i < n, outer, [0, 1.0], name="outer")
    for count in (0, 1, 2, 5):
        x = 1.0
        for i in range(count):
            x += 0.5 * i
            x = 2 * x if i % 2 == 0 else x
        assert run(threads, [out], {n: count}) == [[x]]


def test_a_loop_inside_of_a_branch(threads):
    with on(0):
        p = tf.placeholder(tf.bool, [])
        x = tf.placeholder(tf.float32, [])

        def loop():
            def body(i, y):
                with on(1):
                    return i + 1, y * 2.0
            return tf.while_loop(lambda i, _: i < 4, body, [0, x])[1]
        out = tf.cond(p, loop, lambda: x)
    assert run(threads, [out], {p: True, x: 1.0}) == [[16.0]]
    assert run(threads, [out], {p: False, x: 1.0}) == [[1.0]]


def test_an_error_in_a_loop_ends_all_partitions(threads):
    with on(0):
        n = tf.placeholder(tf.int32, [])

        def body(i, x):
            with on(1):
                return i + 1, tf.reshape(x, [1 + i // 3], name="bad")
        _, out = tf.while_loop(lambda i, x: i < n, body, [0, tf.ones([1])], shape_invariants=[
            tf.TensorShape([]), tf.TensorShape([None])])
    with on(2):
        out = tf.negative(out)
    with pytest.raises(errors.InvalidArgumentError, match="bad"):
        run(threads, [out], {n: 50})


def test_the_error_of_an_op_cancels_the_others(threads, monkeypatch):
    """They may report the cancellation before the lane that failed."""
    found, usual = [], Cancellation.cancel
    monkeypatch.setattr(Cancellation, "cancel", lambda self, error=None: found.append(error) or usual(self, error))
    test_an_error_in_a_loop_ends_all_partitions(threads)
    assert all(isinstance(e, errors.InvalidArgumentError) and "bad" in str(e) for e in found) and found


@given(steps=st.lists(st.tuples(st.sampled_from(["double", "add", "cond", "loop"]), st.integers(0, 2)), min_size=1, max_size=5),
       count=st.integers(0, 4), place=st.integers(0, 2))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_loops_give_the_same(threads, steps, count, place):
    def build(x, i, devices):
        for kind, where in steps:
            with tf.device(f"/cpu:{where}" if devices else None):
                if kind == "double":
                    x = x * 2.0
                elif kind == "add":
                    x = x + tf.cast(i, tf.float32)
                elif kind == "cond":
                    x = tf.cond(x > 5.0, lambda x=x: x - 3.0, lambda x=x: x + 1.0)
                else:
                    x = tf.while_loop(lambda j, _: j < i, lambda j, y: (j + 1, y + 0.25), [0, x])[1]
        return x

    def result(devices):
        with tf.Graph().as_default():
            with tf.device(f"/cpu:{place}" if devices else None):
                n = tf.placeholder(tf.int32, [])
            _, out = tf.while_loop(lambda i, _: i < n, lambda i, x: (i + 1, build(x, i, devices)), [0, 1.0])
            with tf.device("/cpu:1" if devices else None):
                out = tf.negative(out)
            if not devices:
                with tf.Session() as sess:
                    return sess.run(out, {n: count})
            with tf.device("/cpu:2"):
                again = tf.negative(out)
            return run(threads, [out, again], {n: count})[0][0]
    np.testing.assert_allclose(result(False), result(True), rtol=1e-6)
