"""The simple placer: requests, colocation, references and resources, missing kernels, soft placement, reasons."""
import re

import pytest
import torch

import penstock.compat.v1 as tf
from penstock._src.base import errors
from penstock._src.graph import verify
from penstock._src.kernels.devices.cuda import Cuda
from penstock._src.kernels.devices.devices import DeviceSet, local_devices
from penstock._src.step import ir
from penstock._src.step.ir import StepGraph
from penstock._src.step.place.placer import Placer

NAME = "/job:localhost/replica:0/task:0/device:"


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(Cuda, "count", classmethod(lambda cls: 2))
    monkeypatch.setattr(Cuda, "memory", classmethod(lambda cls, physical: 8 << 30))


def place(graph, cpus=2, soft=False):
    placer = Placer(DeviceSet(local_devices(tf.ConfigProto(device_count={"CPU": cpus}))), soft)
    ops = graph.get_operations()
    placer.extend(ops)
    step = StepGraph(ops, [], [], [])
    placer.place(step)
    ir.verify(step, "place")
    verify.placed(step.ops)
    return {op.name: op.place.name.removeprefix(NAME) for op in step.ops}, placer


def test_requests_are_met(graph):
    with tf.device("/cpu:1"):
        a = tf.placeholder(tf.float32, name="a")
    with tf.device("/job:localhost/device:CPU:0"):
        b = tf.negative(a, name="b")
    with tf.device(lambda op: "/cpu:1" if op.type == "Exp" else ""):
        tf.exp(b, name="c")
    found, _ = place(graph)
    assert (found["a"], found["b"], found["c"]) == ("CPU:1", "CPU:0", "CPU:1")


def test_what_touches_a_variable_is_with_it(graph):
    with tf.device("/cpu:1"):
        v = tf.get_variable("v", [2], use_resource=False)
        w = tf.get_variable("w", [2], use_resource=True)
    add = tf.assign_add(v, [1.0, 1.0]).op
    add_resource = w.assign_add([1.0, 1.0], read_value=False)
    found, _ = place(graph)
    assert found[add.name] == found[add_resource.name] == found["v"] == found["w"] == "CPU:1"
    assert found["w/Read/ReadVariableOp"] == "CPU:1"


def test_colocation(graph):
    with tf.device("/cpu:1"):
        a = tf.placeholder(tf.float32, name="a")
    with tf.colocate_with(a.op):
        tf.negative(a, name="b")
    found, placer = place(graph)
    assert found["b"] == "CPU:1"
    assert "asks for" in placer.why(graph.get_operation_by_name("b"))


def test_ops_know_the_lines_of_their_devices(graph):
    def choose(op):
        return "/cpu:1"
    with tf.device("/cpu"), tf.device(choose):
        a = tf.placeholder(tf.float32)
    with tf.colocate_with(a):
        b = tf.negative(a)
    inner, outer = a.op._device_assignments
    assert outer.obj == "/cpu"
    assert inner.obj == f"choose<{__file__}, {choose.__code__.co_firstlineno}>"
    assert {inner.filename, outer.filename, b.op._colocation_dict[a.op.name].filename} == {__file__}
    assert inner.lineno == choose.__code__.co_firstlineno + 2
    assert b.op._colocation_dict[a.op.name].lineno == inner.lineno + 2
    assert b.op._device_assignments == []


def test_contradictions_name_both_ops(graph):
    with tf.device("/cpu:0"):
        a = tf.placeholder(tf.float32, name="a")
    with tf.device("/cpu:1"):
        b = tf.negative(a, name="b")
    b.op._set_attr("_class", ["loc:@a"])
    with pytest.raises(errors.InvalidArgumentError, match="nodes b and a .*a asks for|nodes b and a .*b asks for"):
        place(graph)
    found, _ = place(graph, soft=True)
    assert found["a"] == found["b"]


def test_a_device_that_is_not_there_names_those_that_are(graph):
    with tf.device("/cpu:5"):
        tf.constant(1.0, name="a")
    with pytest.raises(errors.InvalidArgumentError, match=re.escape(f"operation a: Operation was explicitly assigned to "
                       f"/device:CPU:5 but available devices are [ {NAME}CPU:0, {NAME}CPU:1 ]")):
        place(graph)
    assert place(graph, soft=True)[0]["a"] == "CPU:0"


def test_soft_placement_does_not_change_the_task(graph):
    with tf.device("/job:ps/task:3"):
        tf.constant(1.0, name="a")
    with pytest.raises(errors.InvalidArgumentError, match="job:ps/task:3"):
        place(graph, soft=True)


def test_gpus_are_preferred_where_there_is_a_kernel(graph, gpu):
    a = tf.placeholder(tf.float32, [2, 2], name="a")
    i = tf.placeholder(tf.int32, [2, 2], name="i")
    tf.matmul(a, a, name="floats")
    tf.matmul(i, i, name="ints")
    tf.strings.lower(tf.placeholder(tf.string, name="s"), name="lower")
    tf.get_variable("count", [], tf.int32, use_resource=False)
    tf.get_variable("weights", [2])
    found, placer = place(graph)
    assert (found["floats"], found["ints"], found["lower"]) == ("GPU:0", "CPU:0", "CPU:0")
    assert (found["count"], found["count/Assign"], found["weights"]) == ("CPU:0", "CPU:0", "GPU:0")
    why = placer.explain(graph.get_operations())
    assert f"ints: (MatMul): {NAME}CPU:0  # has no GPU kernel of int32\n" in why
    assert re.search(r"^count/Assign: .*# shares a device with count, which has no GPU kernel of int32$", why, re.M)


def test_a_missing_kernel_is_an_error_or_a_fallback(graph, gpu):
    with tf.device("/gpu:1"):
        i = tf.placeholder(tf.int32, [2, 2], name="i")
        tf.matmul(i, i, name="ints")
    words = r"'/device:GPU:1' because no supported kernel for GPU devices is available for ints \(MatMul of int32"
    with pytest.raises(errors.InvalidArgumentError, match=words):
        place(graph)
    found, placer = place(graph, soft=True)
    assert (found["i"], found["ints"]) == ("GPU:1", "CPU:0")
    assert "soft placement" in placer.why(graph.get_operation_by_name("ints"))


def test_followers(graph, gpu):
    with tf.device("/cpu:1"):
        a = tf.placeholder(tf.float32, name="a")
        tf.add(a, tf.constant(1.0, name="inside"), name="b")
    with tf.device(None):
        c = tf.constant([2.0], name="c")
        shape = tf.shape(a, name="shape")
    with tf.device("/cpu:1"):
        tf.multiply(a, c, name="d")
    found, placer = place(graph)
    assert found["c"] == "CPU:1"
    assert "goes with d" in placer.why(c.op)
    assert found["shape"] == "CPU:1"
    assert "goes with a" in placer.why(shape.op)


def test_a_resource_stays_where_it_was_first_put(graph, gpu):
    v = tf.get_variable("v", [2], use_resource=False)
    placer = Placer(DeviceSet(local_devices()))

    def places():
        step = StepGraph(graph.get_operations(), [], [], [])
        placer.extend(graph.get_operations())
        placer.place(step)
        return {op.origin: op.place for op in step.ops}
    assert places()[v.op].device_type == "GPU"
    with tf.device("/gpu:1"):
        add = tf.assign_add(v, [1.0, 1.0]).op
    assert places()[add].name == NAME + "GPU:0"


def test_the_log_has_tensorflows_format(graph, capfd):
    with tf.device("/cpu:1"):
        a = tf.placeholder(tf.float32, name="a")
    b = tf.negative(a, name="b")
    config = tf.ConfigProto(device_count={"CPU": 2, "GPU": 0}, log_device_placement=True)
    with tf.Session(config=config) as sess:
        sess.run(b, {a: 1.0})
        sess.run(b, {a: 1.0})
        first = sess.explain_placement().splitlines()[0]
        assert re.fullmatch(rf"a: \(Placeholder\): {NAME}CPU:1  # asks for /device:CPU:1 \({__file__}:\d+\)", first)
    lines = capfd.readouterr().err.splitlines()
    assert lines.count(f"b: (Neg): {NAME}CPU:0") == 1


@pytest.mark.parametrize("cpus", [1, 2])
def test_placements_of_steps_with_any_feeds_are_logged(cpus, graph, capfd):
    a = tf.placeholder(tf.float32, name="a")
    b = tf.negative(a, name="b")
    c = tf.multiply(b, tf.placeholder_with_default(2.0, [], name="factor"), name="c")
    config = tf.ConfigProto(device_count={"CPU": cpus, "GPU": 0}, log_device_placement=True)
    with tf.Session(config=config) as sess:
        assert sess.run(c, {b: 3.0, "factor:0": 4.0}) == 12.0             # neither is computed
        assert f"c: (Mul): {NAME}CPU:0" in capfd.readouterr().err
        assert sess.run(c, {a: 1.0}) == -2.0
        handle = sess.partial_run_setup([b, c], [a, "factor:0"])
        assert sess.partial_run(handle, b, {a: 1.0}) == -1.0 and sess.partial_run(handle, c, {"factor:0": 3.0}) == -3.0
    assert f"b: (Neg): {NAME}CPU:0" in capfd.readouterr().err


def test_errors_of_placement_reach_the_caller_of_run(graph):
    with tf.device("/gpu:99"):
        a = tf.constant(1.0, name="far")
    with tf.Session() as sess, pytest.raises(errors.InvalidArgumentError, match="far.*GPU:99.*CPU:0") as e:
        sess.run(a)
    assert e.value.op is a.op
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as sess:
        assert sess.run(a) == 1.0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_real_gpu_is_the_default(graph):
    with tf.Session() as sess:
        assert "GPU:0" in sess.explain_placement() if graph.get_operations() else True
        v = tf.get_variable("v", [2], initializer=tf.zeros_initializer())
        sess.run(v.initializer)
        assert sess.run(v + 1.0).tolist() == [1, 1]
        assert re.search(r"^v: .*GPU:0", sess.explain_placement(), re.M)
