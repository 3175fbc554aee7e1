"""The pipeline from a StepSpec to a Runnable: place, optimize, partition, compile.

    StepSpec, StepEnv ──► optimized ──► StepGraph ──► runnable_of ──► Runnable

`compile_step` is the only entry point. `improved` chooses faster forms than a plain program (a recording, a CUDA graph,
compiled code).
"""
from __future__ import annotations

import dataclasses
import functools

from penstock._src.execute.dataflow import Executor
from penstock._src.execute.lanes import compile_lanes
from penstock._src.graph import verify
from penstock._src.kernels import sharing
from penstock._src.kernels.host_memory import keep_freed
from penstock._src.step.compile.arriving import Arriving, Cut
from penstock._src.step.compile.hoisted import Hoisted, Split, split
from penstock._src.step.compile.program import Program, after_the_rest, compile_lane, wait_for_each_other, write_program
from penstock._src.step.compile.recorded import recordable
from penstock._src.step.ir import Pass, Place, StepGraph
from penstock._src.step.loops.functional import write_choices
from penstock._src.step.loops.structured import write_structured
from penstock._src.step.optimize.options import UNFUSED
from penstock._src.step.optimize.pipeline import optimize
from penstock._src.step.optimize.variants import Variants
from penstock._src.step.partition.joined import join
from penstock._src.step.partition.schedule import is_cut, lanes, ordered
from penstock._src.step.partition.split import partition
from penstock._src.step.place.placer import Placement, inside
from penstock._src.step.runnable import Runnable
from penstock._src.step.spec import StepEnv, StepSpec
from penstock._src.step.tiers.blocks import use_blocks
from penstock._src.step.tiers.tiers import tiered


def compile_step(spec: StepSpec, env: StepEnv) -> Runnable:
    """Compiles a step. If the graph leaves shapes open, recurring shapes of feeds, and of data that arrives, get their own
    programs, and only these get better versions (step/tiers)."""
    keep_freed()
    if not (env.whole and env.options.shape_optimization):
        return runnable_of(optimized(spec, env), env, Origin(spec, env))
    return _cut_off(spec, env, None)


def _cut_off(spec: StepSpec, env: StepEnv, before: Cut | None) -> Runnable:
    """A step, or what a cut has left of it, cut again where data arrives."""
    cut = Cut(before)
    made = optimized(spec, env, part=None if spec.place is not None else cut.first)
    is_open = before is not None or spec.shapes_open
    if not cut.found:
        return _variants(made, spec, env, None if before is None else before.rest) if is_open else \
            runnable_of(made, env, Origin(spec, env))
    if cut.takes:
        first: Runnable = runnable_of(made, env)
    elif is_open:
        first = _variants(made, spec, env, cut.first)
    else:
        first = runnable_of(made, env, Origin(spec, env, None, cut.first))
    return Arriving(first, _cut_off(spec, env, cut), cut.takes)


def _variants(general: StepGraph, spec: StepSpec, env: StepEnv, part: Pass | None = None) -> Variants:
    """A step with programs for recurring shapes."""
    def build(dims: list) -> Runnable:
        return runnable_of(optimized(spec, env, dims, part), env, Origin(spec, env, dims, part))
    return Variants(runnable_of(general, env), build, few=env.ctx.devices.mixed)


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """What a step was compiled from (step/tiers)."""
    spec: StepSpec
    env: StepEnv
    dims: list | None = None
    part: Pass | None = None

    def unfused(self) -> Runnable:
        """The step as a program in which every op is its own call."""
        return unfused(self.spec, self.env, self.dims, self.part)


def unfused(spec: StepSpec, env: StepEnv, dims: list | None = None, part: Pass | None = None) -> Runnable:
    """The step as a program in which every op is its own call, for tracing (step/tiers/lower.py)."""
    plain = dataclasses.replace(env, options=UNFUSED)
    return runnable_of(optimized(spec, plain, dims, part), plain)


def optimized(spec: StepSpec, env: StepEnv, dims: list | None = None, part: Pass | None = None) -> StepGraph:
    """The ops as nodes, placed, after the passes of the optimizer; for feeds of shapes `dims`, if given. `part` keeps a part of
    the step."""
    step = StepGraph(spec.ops, spec.fetches, spec.targets, spec.feeds, spec.held)
    if spec.place is not None:
        spec.place(step)
        verify.placed(step.ops)
    return optimize(step, env.options, spec.known if dims is None else dims, spec.in_loop, _placing(spec, env),
                    functools.partial(use_blocks, ctx=env.ctx), part)


def _placing(spec: StepSpec, env: StepEnv) -> Place | None:
    """The placement pass for ops of called functions; None if there is one device, or a call may run on another thread."""
    devices = env.ctx.devices
    return None if spec.place is None or sum(d.host for d in devices.all) > 1 else inside(devices)


def runnable_of(made: StepGraph, env: StepEnv, origin: Origin | None = None) -> Runnable:
    """The Runnable of optimized ops: one program, or one for each device with sends and receives. `origin` is
    the source of the ops."""
    verify.runnable_order(made.ops, made.fed, "optimize")
    where, devices = made.placed, env.ctx.devices
    if env.threads is None:                           # inside another step: kernels move their inputs
        return _on_this_thread(made, where, env, origin)
    if where is not None and is_cut(made.ops, devices.host, env.inter_op):
        made.ops = ordered(made.ops, made.fed)
        partitions = partition(made)
        verify.partitioned(partitions)
        return compile_lanes(lanes(partitions, devices.host, env.inter_op), env.ctx, env.threads, by_tokens=env.in_order)
    if where is not None and devices.mixed:
        join(made, devices.host)
    return _on_this_thread(made, made.placed if devices.mixed else None, env, origin)


def _on_this_thread(made: StepGraph, where: Placement | None, env: StepEnv, origin: Origin | None) -> Runnable:
    """The Runnable of a step that is not partitioned.

    It is a program: straight-line, or with `if` and `while` for structured conditionals and loops. The dataflow executor runs
    all other control flow, and steps in which several ops may wait for each other.
    """
    ops, fetches, feeds, ctx = made.ops, made.fetches, made.feeds, env.ctx
    branches = any(op.opdef.control_flow for op in ops)
    if env.in_order:
        return (Executor if env.by_tokens or branches else compile_lane)(ops, fetches, feeds, ctx, where)
    if wait_for_each_other(ops):
        return Executor(ops, fetches, feeds, ctx, where)
    if branches:
        program = write_structured(ops, fetches, feeds, ctx, where)
        return improved(program, made, where, env, origin) if program else Executor(ops, fetches, feeds, ctx, where)
    made.ops = after_the_rest(ops, made.fed)
    parts = split(made) if where is None and env.whole and env.options.remapping else None
    if parts is not None:
        return _hoisted(made, parts, env)
    chooses = where is None and env.whole and env.options is not UNFUSED
    program = (write_choices(made.ops, fetches, feeds, ctx) if chooses else None) or \
        write_program(made.ops, fetches, feeds, ctx, where, env.options is UNFUSED)
    return improved(program, made, where, env, origin)


def _hoisted(made: StepGraph, parts: Split, env: StepEnv) -> Runnable:
    """A step as two programs: the ops that depend only on variables, and the rest."""
    first = write_program(parts.first, parts.between, [], env.ctx)
    made.ops, made.feeds = parts.rest, [*made.feeds, *parts.between]
    made.fed = {id(t) for t in made.feeds}
    rest = improved(write_program(made.ops, made.fetches, made.feeds, env.ctx), made, None, env, None)
    return Hoisted(first, rest, parts.pack)


def improved(program: Program, made: StepGraph, where: Placement | None, env: StepEnv,
             origin: Origin | None) -> Runnable:
    """A program, wrapped to be replaced by faster forms after some runs."""
    found: Runnable = program
    if where is None and (env.whole or env.repeated) and env.options.recording:
        found = recordable(program, made.ops, made.feeds, sharing.crowded)
    return tiered(found, made, where, origin, env.options.jit) if env.whole and origin is not None else found
