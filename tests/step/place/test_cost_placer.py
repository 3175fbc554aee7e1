"""The cost-model placer: it keeps every constraint, and beats the simple placer where devices can share the work."""
import threading
import time

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock.compat.v1 as tf
from penstock._src.base import errors
from penstock._src.graph.prune import needed
from penstock._src.kernels.devices.device_spec import parts_of
from penstock._src.kernels.devices.devices import DeviceSet, local_devices
from penstock._src.ops.registry import OPS, op
from penstock._src.step.ir import StepGraph
from penstock._src.step.place.cost_placer import CostPlacer
from penstock._src.step.place.costs import CostModel, simulate
from penstock._src.step.place.placer import Placer

NAME = "/job:localhost/replica:0/task:0/device:"


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def devices(cpus=2):
    return DeviceSet(local_devices(tf.ConfigProto(device_count={"CPU": cpus, "GPU": 0})))


def places(placer, ops, feeds=()):
    """The devices that a placer chooses for the operations of a step."""
    step = StepGraph(ops, [], [], list(feeds))
    placer.place(step)
    return {op.origin: op.place for op in step.ops}


def towers(sizes, depth=6):
    """Towers of matrix products, from one input to one sum."""
    x = tf.placeholder(tf.float32, [64, 64], name="x")
    ends = []
    for i, n in enumerate(sizes):
        with tf.name_scope(f"tower{i}"):
            h = tf.matmul(x, tf.get_variable(f"in{i}", [64, n]))
            for k in range(depth):
                h = tf.tanh(tf.matmul(h, tf.get_variable(f"w{i}_{k}", [n, n]), name=f"layer{k}"))
            ends.append(tf.reduce_sum(h))
    return x, tf.add_n(ends, name="total")


def test_two_towers_on_devices_of_different_speed(graph):
    x, total = towers([1024, 512])
    found = devices()
    costs = CostModel({NAME + "CPU:1": 4.0})                  # CPU:1 is four times as fast
    ops = needed([total], [], {id(x)})
    simple = places(Placer(found), ops, [x])
    placer = CostPlacer(found, costs=costs)
    placed = places(placer, ops, [x])
    heavy, light = (placed[graph.get_operation_by_name(f"tower{i}/layer3")].name for i in (0, 1))
    assert heavy.endswith("CPU:1")
    assert light.endswith("CPU:0")
    seconds = simulate(ops, placed, costs)
    assert seconds < 0.3 * simulate(ops, simple, costs)
    assert seconds < 0.95 * simulate(ops, dict.fromkeys(ops, found.all[1]), costs)      # all on the fast one
    weights = graph.get_operation_by_name("w0_3")
    assert placed[weights] is placed[graph.get_operation_by_name("tower0/layer3")]
    assert "done soonest" in placer.why(graph.get_operation_by_name("tower0/layer3"))


def test_small_work_is_not_spread(graph):
    """A transfer costs more than what it would save."""
    x = tf.placeholder(tf.float32, [4])
    tf.add_n([tf.negative(x), tf.exp(x), tf.square(x)])
    placed = places(CostPlacer(devices(4)), graph.get_operations())
    assert len(set(placed.values())) == 1


def test_measured_costs_count(graph):
    x = tf.placeholder(tf.float32, [8], name="x")
    tf.negative(tf.exp(x, name="slow"), name="end")
    slow = graph.get_operation_by_name("slow")
    found, costs = devices(), CostModel()
    first, second = found.all
    message = tf.RunMetadata().cost_graph
    message.node.add(name="slow", device=first.name, compute_time=5000).output_info.add(size=1 << 20)
    costs.learn(message, found)
    assert costs.compute(slow, first) == pytest.approx(5e-3)
    assert costs.compute(slow, second) == pytest.approx(5e-3)
    assert costs.size(slow.outputs[0]) == 1 << 20
    message.node.add(name="slow", device=second.name, compute_time=100)
    costs.learn(message, found)
    assert places(CostPlacer(found, costs=costs), graph.get_operations())[slow] is second


def test_a_session_measures_and_places_anew(graph):
    x, total = towers([256, 128], depth=2)
    grads = tf.gradients(total, tf.trainable_variables())
    train = [v.assign_sub(1e-3 * g) for v, g in zip(tf.trainable_variables(), grads, strict=True)]
    feed = {x: np.ones([64, 64], np.float32)}

    def run(config):
        with tf.Session(config=config) as sess:
            for i, v in enumerate(tf.global_variables()):
                v.load(np.random.RandomState(i).normal(0, 0.05, v.shape.as_list()), sess)
            values = [sess.run([total, *train], feed)[0] for _ in range(9)]
            return values, sess
    expected, _ = run(tf.ConfigProto(device_count={"CPU": 1, "GPU": 0}))
    got, sess = run(tf.ConfigProto(device_count={"CPU": 3, "GPU": 0}, placement_period=2))
    np.testing.assert_allclose(got, expected, rtol=1e-4)
    assert sess._engine._placer.costs.times_measured(total.op) == 2


@pytest.fixture
def nap():
    """(op that takes a while without taking the processor, list for a barrier at which ops of 21 ms wait for each other)."""
    made, barriers = op("TestNap", "x: float32 -> y: float32", "ms: int"), []

    @made.kernel
    def _sleep(x, *, ms):
        time.sleep(ms / 1000)
        for barrier in barriers if ms == 21 else ():
            barrier.wait(60)
        return x + 1
    made.shape(lambda x: x)
    yield made, barriers
    del OPS["TestNap"]


def test_towers_run_side_by_side_once_they_are_measured(graph, nap):
    """Towers of 61 and of 40 ms are too much for one CPU of two."""
    nap, barriers = nap
    x = tf.placeholder(tf.float32, [4])
    heavy, light = nap(nap(nap(x, ms=20), ms=20), ms=21), nap(nap(x, ms=19), ms=21)
    total = heavy + light
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2, "GPU": 0}, placement_period=1)) as sess:
        for _ in range(4):
            np.testing.assert_array_equal(sess.run(total, {x: np.zeros(4)}), np.full(4, 5.0))
        assert not sess._engine._placer.is_cold([heavy.op, light.op])
        barriers.append(threading.Barrier(2))
        np.testing.assert_array_equal(sess.run(total, {x: np.zeros(4)}), np.full(4, 5.0))


def test_constraints_come_first(graph):
    with tf.device("/cpu:7"):
        tf.constant(1.0, name="far")
    with pytest.raises(errors.InvalidArgumentError, match="far"):
        places(CostPlacer(devices()), graph.get_operations())


@st.composite
def constrained(draw):
    n = draw(st.integers(1, 16))
    return [(draw(st.sampled_from(["exp", "add", "variable", "colocated", "update"])), draw(st.integers(0, 30)),
             draw(st.sampled_from([None, None, "/cpu:0", "/cpu:1", "/cpu:2", "/cpu:*"]))) for _ in range(n)]


@given(nodes=constrained())
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_constraint_is_ever_broken(nodes):
    with tf.Graph().as_default() as g:
        values, variables = [tf.placeholder(tf.float32, [64, 64])], []
        for i, (kind, which, device) in enumerate(nodes):
            a = values[which % len(values)]
            with tf.device(device):
                if kind == "variable":
                    variables.append(tf.get_variable(f"v{i}", [64, 64], use_resource=bool(which % 2)))
                    values.append(tf.convert_to_tensor(variables[-1]))
                elif kind == "colocated":
                    with tf.colocate_with(a.op):
                        values.append(tf.tanh(a))
                elif kind == "update" and variables:
                    with tf.device(None):
                        values.append(tf.convert_to_tensor(variables[which % len(variables)].assign_add(a)))
                else:
                    values.append(tf.exp(a) if kind == "exp" else a + values[0])
        found = devices(3)
        ops = g.get_operations()
        placer = CostPlacer(found)
        placed = places(placer, ops)
        for node in ops:
            group = placer.constraints.group(node)
            assert placed[node] in found.fitting(group.parts)
            assert placed[node].device_type in group.types
            assert {placed[o] for o in group.members} == {placed[node]}
            if node.device:
                assert placed[node] in found.fitting(parts_of(node.device))
        assert placed == places(placer, ops)                    # a second look changes nothing


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_gpu_gets_the_heavy_work(graph):
    towers([2048, 2048])
    placed = places(CostPlacer(DeviceSet(local_devices())), graph.get_operations())
    assert placed[graph.get_operation_by_name("tower0/layer3")].device_type == "GPU"
