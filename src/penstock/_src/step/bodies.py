"""The compiler for functions, installed in `graph/engine.py` as `engine.bodies`.

`import penstock` does not load the compiler: `startup.py` installs this module under that name, and it is loaded by the first
function that runs.
"""
from __future__ import annotations

import dataclasses
from typing import Any

from penstock._src.graph.functions import GraphFunction
from penstock._src.graph.node import Operation, Tensor
from penstock._src.step.called import Bound, CalledFunction
from penstock._src.step.compiler import compile_step
from penstock._src.step.compiler import optimized as optimized_step
from penstock._src.step.compiler import unfused as unfused_step
from penstock._src.step.loops.functional import write_loop
from penstock._src.step.optimize.inlining import function_body, inline_calls
from penstock._src.step.optimize.options import NONE
from penstock._src.step.optimize.shapes import specialize_shapes
from penstock._src.step.runnable import Runnable
from penstock._src.step.spec import StepEnv, StepSpec, body_of


def program(function: GraphFunction, ctx: Any, repeated: bool = False) -> Runnable:
    """The compiled body; one that is called `repeated`ly is recorded."""
    spec, env = body_of(function, ctx)
    return compile_step(spec, dataclasses.replace(env, repeated=repeated))


def unfused(function: GraphFunction, ctx: Any) -> Runnable:
    """The body as a program of ATen calls only, for tracing."""
    return unfused_step(*body_of(function, ctx))


def optimized(function: GraphFunction, ctx: Any, in_loop: bool) -> Any:
    """The body as a StepGraph: the ops to run, in order, after the passes."""
    return optimized_step(*body_of(function, ctx, in_loop))


def loop(test: GraphFunction, body: GraphFunction, ctx: Any) -> Any:
    """The program of a loop; None if it cannot be one."""
    return write_loop(test.optimized(ctx, True), body.optimized(ctx, True), ctx)


def called(function: GraphFunction) -> CalledFunction:
    """The function as its own step, for eager code."""
    return CalledFunction(function)


def bound(function: GraphFunction, ctx: Any, held: dict[int, Any]) -> Bound:
    """The function as its own step, compiled for the values `held` of some arguments."""
    return Bound(function, ctx, held)


def shapes(function: GraphFunction, known: list) -> list:
    """The shapes of its results for arguments of the shapes `known`; the declared shapes if the arguments do not fit."""
    declared = [t.static_dims for t in function.outputs]
    step = function_body(function)
    inline_calls(step)
    try:
        found = specialize_shapes(step, known)
    except ValueError:                                    # the run reports the error
        return declared
    return [d if isinstance(d, tuple) else before for d, before in zip(found, declared, strict=True)]


def once(ops: list[Operation], fetch: Tensor, feeds: list[Tensor], ctx: Any) -> Runnable:
    """A step that runs a single time, so passes would not pay off."""
    return compile_step(StepSpec(ops, [fetch], [], feeds), StepEnv(ctx, NONE))
