"""Programs: the source that is written for a step, when values are dropped, and which op a failing line belongs to."""
import re
import weakref

import pytest
import torch

import penstock.compat.v1 as tf
from penstock._src.base import errors
from penstock._src.execute.context import ResourceManager, StepContext
from penstock._src.graph.failure import typed
from penstock._src.graph.prune import needed
from penstock._src.kernels.devices.devices import DeviceSet, local_devices
from penstock._src.ops.registry import OPS, op
from penstock._src.step.compile import program as programs
from penstock._src.step.compile.program import after_the_rest, wait_for_each_other, write_program
from penstock._src.step.ir import StepGraph


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def context():
    return StepContext(ResourceManager(), devices=DeviceSet(local_devices(tf.ConfigProto(device_count={"CPU": 1, "GPU": 0}))))


def written(fetches, feeds=(), targets=(), **options):
    """The program of a step without any pass, and a context to run it in."""
    step = StepGraph(needed(fetches, targets, {id(t) for t in feeds}), list(fetches), list(targets), list(feeds))
    ctx = context()
    return write_program(step.ops, step.fetches, step.feeds, ctx, **options), ctx


def test_one_line_per_op_and_the_values_of_the_fetches():
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.exp(tf.negative(x, name="n"), name="y")
    program, ctx = written([y, x], [x])
    lines = [line.strip() for line in program.source.splitlines()]
    assert lines[0] == "def step(ctx, f0):" and lines[-1].startswith("return (")
    assert [re.search(r"# (\w+): (\w+)", line).groups() for line in program.text().splitlines() if "# " in line] == \
        [("n", "Neg"), ("y", "Exp")]
    value, given = program.run(ctx, torch.tensor([0.0, 1.0]))
    torch.testing.assert_close(value, torch.exp(-torch.tensor([0.0, 1.0])))
    assert given.tolist() == [0, 1]
    assert [o.name for o in program.sequence] == ["n", "y"]


@pytest.fixture
def made_value():
    """An op that keeps weak references to the tensors that it has made."""
    references = []
    declared = op("TestMadeValue", "x: float32 -> y: float32")

    @declared.kernel
    def _made(x):
        out = x + 1
        references.append(weakref.ref(out))
        return out
    declared.shape(lambda x: x)
    yield declared, references
    del OPS["TestMadeValue"]


def test_a_value_is_dropped_at_its_last_use(made_value):
    make, references = made_value
    seen = []
    x = tf.placeholder(tf.float32, [2])
    used = tf.reduce_sum(make(x))
    with tf.control_dependencies([used]):
        alive = tf.py_func(lambda: [seen.append(references[-1]() is not None), 1.0][1], [], tf.double)
    program, ctx = written([used, alive], [x])
    assert "del " in program.source
    program.run(ctx, torch.zeros(2))
    assert seen == [False]


def test_a_failing_line_names_its_op():
    x = tf.placeholder(tf.float32, name="x")
    y = tf.reshape(tf.exp(x), [3], name="bent")
    program, ctx = written([tf.negative(y)], [x])
    with pytest.raises(Exception) as failure:
        program.run(ctx, torch.zeros(2))
    found = program.failing_op(failure.value.__traceback__)
    assert found.name == "bent"
    assert isinstance(typed(failure.value, found), errors.InvalidArgumentError)
    assert program.failing_op(None) is None


def test_handles_and_constants_are_bound_once():
    v = tf.get_variable("v", [2], initializer=tf.zeros_initializer(), use_resource=True)
    program, ctx = written([v.read_value() + tf.constant([1.0, 2.0])])
    assert "VarHandleOp" not in program.text() and "Const" not in program.text()
    handle, = [c for c in program.scope.values() if hasattr(c, "assign") and hasattr(c, "value")]
    handle.assign(torch.tensor([1.0, 1.0]))
    assert program.run(ctx)[0].tolist() == [2, 3]


def test_unfused_programs_write_over_nothing():
    x = tf.placeholder(tf.float32, [1 << 18])
    step = tf.tanh(tf.exp(tf.negative(x)))
    plain, ctx = written([step], [x], unfused=True)
    reusing, _ = written([step], [x])
    value = torch.linspace(-1, 1, 1 << 18)
    torch.testing.assert_close(plain.run(ctx, value)[0], reusing.run(ctx, value)[0])
    assert value[0] == -1 and value[-1] == 1                 # what was fed is the caller's


def test_what_blocks_comes_last():
    q = tf.FIFOQueue(1, tf.float32, [[]])
    taken = q.dequeue()
    after, free = taken + 1.0, tf.exp(tf.placeholder(tf.float32, [], name="x"))
    step = StepGraph(needed([after, free], [], set()), [after, free], [], [])
    order = [o.type for o in after_the_rest(step.ops, step.fed)]
    assert order.index("Exp") < order.index("QueueDequeueV2") < order.index("AddV2")
    assert not wait_for_each_other(step.ops)
    both = StepGraph(needed([after], [q.enqueue(1.0)], set()), [after], [], [])
    assert wait_for_each_other([*both.ops])


def test_the_frame_of_a_running_program_names_its_op(monkeypatch):
    """What the watchdog reports: the op whose statement a thread is at."""
    import sys
    found = []

    def look():
        frame = sys._getframe()
        while frame is not None and not frame.f_code.co_filename.startswith(programs.FILENAME):
            frame = frame.f_back
        found.append(programs.operation_at(frame).name)
        return 1.0
    program, ctx = written([tf.py_func(look, [], tf.double, name="looking")])
    program.run(ctx)
    assert found == ["looking"]
