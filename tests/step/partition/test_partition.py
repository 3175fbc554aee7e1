"""Steps on several devices: the cut, one transfer per tensor and destination, the same results as on one device."""
import collections

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock.compat.v1 as tf
from penstock._src.base import errors
from penstock._src.execute.context import ResourceManager, StepContext
from penstock._src.execute.lanes import Threads, compile_lanes
from penstock._src.execute.rendezvous import LocalRendezvous
from penstock._src.graph import context, verify
from penstock._src.graph.prune import needed
from penstock._src.kernels.devices.devices import DeviceSet, local_devices
from penstock._src.step.ir import StepGraph
from penstock._src.step.partition.schedule import lanes, ordered
from penstock._src.step.partition.split import Partition, partition
from penstock._src.step.place.placer import Placer
from tests.checks import eventually

CPUS = ["/cpu:0", "/cpu:1", "/cpu:2"]
KINDS = [pytest.param(CPUS, id="cpus"),
         pytest.param(["/cpu:0", "/gpu:0", "/cpu:1"], id="gpu", marks=[
             pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]),
         pytest.param(["/gpu:0", "/gpu:1", "/cpu:0"], id="virtual-gpus", marks=[
             pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")])]


@pytest.fixture(autouse=True)
def graph():
    context.process.v2_control_flow = False
    with tf.Graph().as_default() as g:
        yield g


def config(**more):
    made = tf.ConfigProto(device_count={"CPU": 3}, allow_soft_placement=True, **more)
    if torch.cuda.is_available():
        made.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[1000, 1000])
    return made


def cut(graph, fetches, feeds=(), targets=()):
    devices = DeviceSet(local_devices(config()))
    fed = {id(t) for t in feeds}
    ops = needed(fetches, targets, fed)
    step = StepGraph(ops, list(fetches), list(targets), list(feeds))
    Placer(devices).place(step)
    step.ops = ordered(step.ops, step.fed)
    parts = partition(step)
    verify.partitioned(parts)
    return {p.device.name[-5:]: p for p in parts}


def kinds(part):
    return collections.Counter(op.type for op in part.ops)


def test_a_tensor_is_sent_once_to_each_device(graph):
    with tf.device("/cpu:0"):
        a = tf.placeholder(tf.float32, [3], name="a") * 2.0
    used = []
    for d in ("/cpu:1", "/cpu:2"):
        with tf.device(d):
            used += [tf.exp(a), tf.negative(a), a + a]
    parts = cut(graph, used, [a.op.inputs[0]])
    assert kinds(parts["CPU:0"])["_Send"] == 2
    assert kinds(parts["CPU:1"])["_Recv"] == kinds(parts["CPU:2"])["_Recv"] == 1
    edge, = parts["CPU:1"].recvs
    assert edge.recv.attrs["send_device"].endswith("CPU:0")
    assert edge.send.attrs["tensor_name"] == edge.recv.attrs["tensor_name"]
    assert edge.recv.outputs[0].shape.as_list() == [3]


def test_control_edges_cross(graph):
    with tf.device("/cpu:0"):
        v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
        add = tf.assign_add(v, 1.0)
    with tf.device("/cpu:1"), tf.control_dependencies([add]):
        a, b = tf.constant(1.0, name="late") + 1.0, tf.no_op()
    parts = cut(graph, [a], targets=[b])
    assert kinds(parts["CPU:0"])["_Send"] == 1
    assert kinds(parts["CPU:1"])["_Recv"] == 1
    with tf.Session(config=config()) as sess:
        sess.run(v.initializer)
        sess.run(b)
        assert sess.run(a) == 2
        assert sess.run(v) == 2


def test_partitions_are_plain_graphs(graph):
    with tf.device("/cpu:0"):
        a = tf.placeholder(tf.int32, name="a") + 1
    with tf.device("/cpu:1"):
        b = tf.negative(a, name="b")
    with tf.Session(config=config()) as sess:
        metadata = tf.RunMetadata()
        assert sess.run(b, {"a:0": 1}, tf.RunOptions(output_partition_graphs=True), metadata) == -2
    first, second = metadata.partition_graphs
    assert {n.op for n in first.node} >= {"_HostSend", "_Arg"}
    assert [n.op for n in second.node] == ["_HostRecv", "Neg"]
    assert {n.device for n in second.node} == {"/job:localhost/replica:0/task:0/device:CPU:1"}


def received(graph, device, fetches):
    """A partition from the graph that was imported from its message."""
    step = StepGraph(graph.get_operations(), [graph.get_tensor_by_name(name) for _, name in fetches], [], [])
    for op in step.ops:
        op.place = device
    feeds = [(op.attrs["index"], op.outputs[0]) for op in step.ops if op.opdef.transfer == "arg"]
    return Partition(device, {op: (i, 0) for i, op in enumerate(step.ops)}, feeds,
                     [(i, t) for (i, _), t in zip(fetches, step.fetches, strict=True)])


def test_partitions_travel_as_messages(graph):
    """Two tasks: each gets its partitions as GraphDefs, and nothing else."""
    tasks = [f"/job:worker/replica:0/task:{i}" for i in range(2)]
    devices = DeviceSet([d for t in tasks for d in local_devices(tf.ConfigProto(device_count={"CPU": 2, "GPU": 0}), t)])
    with tf.device("/job:worker/task:0/cpu:0"):
        x = tf.placeholder(tf.float32, [2], name="x")
        a = x * 2.0
    with tf.device("/job:worker/task:1/cpu:1"):
        v = tf.get_variable("v", [2], initializer=tf.ones_initializer(), use_resource=False)
        with tf.control_dependencies([tf.assign(v, a)]):
            b = v.read_value() + a
    with tf.device("/job:worker/task:0/cpu:1"):
        c = b * a
    ops = needed([c, b], [], {id(x)})
    step = StepGraph(ops, [c, b], [], [x])
    Placer(devices).place(step)
    step.ops = ordered(step.ops, step.fed)
    found = {}
    for part in partition(step):
        found.setdefault(part.device.task, []).append(part)
    assert sorted(found) == tasks
    threads, meet, results = Threads(), LocalRendezvous(), {}

    def work(task):
        parts = []
        for part in found[task]:
            message = part.as_graph_def()
            with tf.Graph().as_default() as fresh:
                tf.import_graph_def(message, name="")
            assert [op.name for op in fresh.get_operations()] == [op.name for op in part.ops]
            parts.append(received(fresh, devices.by_name[part.device.name], [(i, t.name) for i, t in part.fetches]))
        mine = DeviceSet([d for d in devices.all if d.task == task])
        run = compile_lanes(lanes(parts, mine.host), StepContext(ResourceManager(), devices=mine), threads)
        ctx = StepContext(ResourceManager(), None, 10, devices=mine)
        ctx.rendezvous = meet
        for lane in run.lanes:
            threads.start(lambda lane=lane: lane.run(ctx, (torch.ones(2),), results))
    for task in tasks:
        work(task)
    assert eventually(lambda: len(results) == 2)
    threads.close()
    np.testing.assert_array_equal(results[0], [8, 8])
    np.testing.assert_array_equal(results[1], [4, 4])


def test_the_verifier_sees_a_lost_edge(graph):
    with tf.device("/cpu:0"):
        a = tf.placeholder(tf.float32) * 2.0
    with tf.device("/cpu:1"):
        b = tf.negative(a)
    parts = cut(graph, [b], [a.op.inputs[0]])
    parts["CPU:1"].recvs.clear()
    with pytest.raises(errors.InternalError, match="without a send or a receive: edge_1"):
        verify.partitioned(list(parts.values()))


def test_lanes():
    class Part:
        def __init__(self, device):
            self.device = device
    devices = local_devices(tf.ConfigProto(device_count={"CPU": 4, "GPU": 0}))
    parts = [Part(d) for d in devices]
    assert [len(p) for p in lanes(parts, devices[0])] == [1, 1, 1, 1]
    assert [len(p) for p in lanes(parts, devices[0], 2)] == [2, 2]
    assert [len(p) for p in lanes(parts, devices[0], 1)] == [4]


# -- random graphs --------------------------------------------------------------------------------------------------------
@st.composite
def programs(draw):
    """(op, inputs, device) per node; the last few are fetched."""
    n = draw(st.integers(2, 14))
    nodes = []
    for i in range(n):
        op = draw(st.sampled_from(["add", "mul", "neg", "split", "matmul", "sum", "assign", "shape", "gather", "after"]))
        nodes.append((op, draw(st.integers(0, i + 1)), draw(st.integers(0, i + 1)), draw(st.integers(0, 2))))
    return nodes, draw(st.integers(1, 3))


def build(nodes, devices):
    x = tf.placeholder(tf.float32, [2, 2], name="x")
    values, updates = [x, x], []
    for i, (op, a, b, where) in enumerate(nodes):
        a, b = values[a % len(values)], values[b % len(values)]
        with tf.device(devices[where] if devices else None):
            if op == "add":
                made = a + b
            elif op == "mul":
                made = tf.multiply(a, 0.5)
            elif op == "neg":
                made = tf.negative(a)
            elif op == "split":
                made = tf.concat(tf.split(a, 2, axis=1)[::-1], 1)
            elif op == "matmul":
                made = tf.tanh(tf.matmul(a, b))
            elif op == "sum":
                made = tf.fill([2, 2], 1.0) * tf.reduce_mean(a)
            elif op == "assign":
                v = tf.get_variable(f"v{i}", [2, 2], initializer=tf.ones_initializer())
                made = tf.identity(tf.assign_add(v, a))
                updates.append(made)
            elif op == "shape":
                made = a * tf.cast(tf.reduce_prod(tf.shape(a)), tf.float32)
            elif op == "gather":
                made = tf.gather(a, tf.constant([1, 0]))
            else:
                with tf.control_dependencies([b]):
                    made = tf.identity(a)
        values.append(made)
    return x, values, updates


def run_twice(nodes, fetched, devices, session_config):
    with tf.Graph().as_default():
        x, values, _ = build(nodes, devices)
        with tf.Session(config=session_config) as sess:
            sess.run(tf.global_variables_initializer())
            feed = {x: np.array([[0.5, -1.0], [2.0, 0.25]], np.float32)}
            return [sess.run(values[-fetched:], feed) for _ in range(2)]


@pytest.mark.parametrize("devices", KINDS)
@given(program=programs())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_graphs_give_the_same_on_several_devices(devices, program):
    nodes, fetched = program
    expected = run_twice(nodes, fetched, None, tf.ConfigProto(device_count={"CPU": 1, "GPU": 0}))
    for made in (config(), config(inter_op_parallelism_threads=1)):
        for a, b in zip(expected, run_twice(nodes, fetched, devices, made), strict=True):
            for p, q in zip(a, b, strict=True):
                np.testing.assert_allclose(p, q, rtol=2e-3, atol=1e-4)
