"""The way from what is asked to what runs: optimize, cut, compile.

    StepSpec, StepEnv ──► optimized ──► StepGraph ──► runnable_of ──► Runnable

`compile_step` is the only way. What is faster than a plain program (a recording, a CUDA graph) is chosen in `improved`.
"""
from __future__ import annotations

from penstock._src.execute import sharing
from penstock._src.execute.dataflow import Executor
from penstock._src.execute.lanes import compile_lanes
from penstock._src.graph import verify
from penstock._src.step.compile.cuda_graph import replayed
from penstock._src.step.compile.program import Program, after_the_rest, compile_lane, wait_for_each_other, write_program
from penstock._src.step.compile.recorded import recordable
from penstock._src.step.compile.structured import write_structured
from penstock._src.step.optimize.pipeline import optimize
from penstock._src.step.optimize.step import StepGraph
from penstock._src.step.optimize.variants import Variants
from penstock._src.step.partition.joined import join
from penstock._src.step.partition.schedule import is_cut, lanes, ordered
from penstock._src.step.partition.split import partition
from penstock._src.step.place.placer import Placement
from penstock._src.step.runnable import Runnable
from penstock._src.step.spec import StepEnv, StepSpec


def compile_step(spec: StepSpec, env: StepEnv) -> Runnable:
    """What runs a step; with programs for shapes that are fed again and again, if the graph leaves them open."""
    def build(dims: list | None = None) -> Runnable:
        return runnable_of(optimized(spec, env, dims), env)
    general = build()
    return Variants(general, build) if env.whole and env.options.shape_optimization and spec.shapes_open else general


def optimized(spec: StepSpec, env: StepEnv, dims: list | None = None) -> StepGraph:
    """A copy of the ops after the passes of the optimizer; for feeds of shapes `dims`, if given."""
    return optimize(spec.ops, spec.fetches, spec.targets, spec.feeds, env.options, spec.placed, dims, spec.inline)


def runnable_of(made: StepGraph, env: StepEnv) -> Runnable:
    """What runs optimized ops: one program, or one for each device with what they send to each other."""
    verify.runnable_order(made.ops, made.fed, "optimize")
    where, devices = made.placed, env.ctx.devices
    if env.threads is None:                           # inside of another step: kernels move what they need
        return _on_this_thread(made, where, env)
    if where is not None and is_cut(made.ops, where, devices.host, env.inter_op):
        partitions = partition(ordered(made.ops, where, made.fed), where, made.fetches, made.feeds)
        verify.partitioned(partitions)
        return compile_lanes(lanes(partitions, devices.host, env.inter_op), env.ctx, env.threads, by_tokens=env.in_order)
    return _on_this_thread(made, join(made, where, devices.host) if where is not None and devices.mixed else None, env)


def _on_this_thread(made: StepGraph, where: Placement | None, env: StepEnv) -> Runnable:
    """What runs a step that is not cut.

    A program: straight-line, or with `if` and `while` for control flow that is made of whole conditionals and loops. The
    dataflow executor takes all other control flow, and steps in which several ops may wait for each other.
    """
    ops, fetches, feeds, ctx = made.ops, made.fetches, made.feeds, env.ctx
    branches = any(op.opdef.control_flow for op in ops)
    if env.in_order:
        return (Executor if env.by_tokens or branches else compile_lane)(ops, fetches, feeds, ctx, where)
    if wait_for_each_other(ops):
        return Executor(ops, fetches, feeds, ctx, where)
    if branches:
        return write_structured(ops, fetches, feeds, ctx, where) or Executor(ops, fetches, feeds, ctx, where)
    made.ops = after_the_rest(ops, made.fed)
    return improved(write_program(made.ops, fetches, feeds, ctx, where), made, where, env)


def improved(program: Program, made: StepGraph, where: Placement | None, env: StepEnv) -> Runnable:
    """A straight program, or the faster form that it will run in once it has run some times."""
    if where is not None:
        return replayed(program, made.ops, made.feeds, where)
    if env.whole and env.options.recording and not env.options.jit:
        return recordable(program, made.ops, made.feeds, sharing.crowded)
    return program
