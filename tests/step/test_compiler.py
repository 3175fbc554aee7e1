"""One compiler for every step: the only caller of the passes, and the interface of a compiled step."""
import ast
import pathlib

import numpy as np
import pytest
import torch

import penstock
import penstock.compat.v1 as tf
from penstock._src.execute.context import ResourceManager, StepContext
from penstock._src.execute.dataflow import Executor
from penstock._src.execute.lanes import LanesRun, Threads
from penstock._src.graph.prune import needed
from penstock._src.kernels.devices.devices import DeviceSet, local_devices
from penstock._src.step.compile.program import Program
from penstock._src.step.compile.recorded import Recorded
from penstock._src.step.compiler import compile_step
from penstock._src.step.optimize.options import ALL, NONE
from penstock._src.step.optimize.variants import Variants
from penstock._src.step.place.placer import Placer
from penstock._src.step.runnable import Runnable
from penstock._src.step.spec import StepEnv, StepSpec

ROOT = pathlib.Path(penstock.__file__).parent / "_src"


def callers(name):
    """The modules that call a function of that name."""
    return {f.relative_to(ROOT).as_posix() for f in ROOT.rglob("*.py") for n in ast.walk(ast.parse(f.read_text()))
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == name}


def test_one_module_calls_the_passes():
    assert callers("optimize") == {"step/compiler.py"}
    assert {"session/local.py", "step/bodies.py", "step/called.py", "cluster/task_engine.py"} <= callers("compile_step")


def compiled(fetches, feeds, options=ALL, devices=1, **env):
    config = tf.ConfigProto(device_count={"CPU": devices})
    ctx = StepContext(ResourceManager(), devices=DeviceSet(local_devices(config)))
    ops = needed(fetches, [], {id(t) for t in feeds})
    place = Placer(ctx.devices).place if devices > 1 else None
    return compile_step(StepSpec(ops, fetches, [], feeds, place), StepEnv(ctx, options, **env)), ctx


def chain(x, n=10):
    """Ops of which too many cannot be in a region to make one."""
    for i in range(n):
        x = tf.atan(tf.matmul(x, tf.fill([3, 3], tf.constant(0.1 * i, x.dtype))))
    return x


@pytest.mark.parametrize(("shape", "env", "kind"), [
    ([2, 3], {}, Program), ([2, 3], {"whole": True}, Recorded), ([None, 3], {"whole": True}, Variants),
    ([None, 3], {}, Program),
    ([2, 3], {"in_order": True, "threads": Threads()}, Program),
    ([2, 3], {"in_order": True, "by_tokens": True, "threads": Threads()}, Executor),
])
def test_the_surroundings_choose_what_runs(shape, env, kind):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float64, shape)
        y = chain(x)
        run, ctx = compiled([y], [x], **env)
        assert type(run) is kind
        value = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)
        expected, _ = compiled([y], [x], NONE)
        np.testing.assert_allclose(run.run(ctx, value)[0], expected.run(ctx, value)[0], rtol=1e-6, atol=1e-6)
        check_runnable(run)


def test_a_step_on_several_devices_is_cut_if_there_are_threads():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2, 3])
        with tf.device("/cpu:1"):
            y = chain(x)
        z = y * 2.0
        threads = Threads()
        run, ctx = compiled([z], [x], devices=2, threads=threads, whole=True)
        assert type(run) is LanesRun
        once, _ = compiled([z], [x], devices=2, threads=threads, inter_op=1, whole=True)
        assert once.on_one_thread and not run.on_one_thread
        value = torch.ones(2, 3)
        np.testing.assert_array_equal(run.run(ctx, value)[0], once.run(ctx, value)[0])
        check_runnable(run)
        threads.close()


def check_runnable(run):
    """Everything that callers use is there, whatever the kind."""
    assert Runnable in type(run).__mro__ and run.pick([torch.ones(2, 3)]) is not None
    assert run.failing_op(None) is None and isinstance(run.text(), str)
    assert isinstance(run.explained([], lambda op: ""), str) and isinstance(run.unlocked, bool)
    assert bool(run.sequence) == run.on_one_thread


def test_an_error_names_its_op_in_every_variant():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 3])
        y = tf.debugging.check_numerics(chain(x), "bad", name="checked")
        run, ctx = compiled([y], [x], whole=True)
        for value in (torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(2, 3), torch.full((2, 3), torch.nan)):
            try:
                run.run(ctx, value)
            except Exception as e:
                assert bool(value.isnan().any()) and run.failing_op(e.__traceback__).name == "checked"
                break
        else:
            pytest.fail("no error")
        assert len(run._made) == 1
