"""Functions that ops call, compiled: what `graph/functions.py` asks of the compiler (the protocol is in `graph/engine.py`)."""
from __future__ import annotations

from typing import Any

from penstock._src.graph.engine import engine
from penstock._src.graph.functions import GraphFunction
from penstock._src.step.called import CalledFunction
from penstock._src.step.compiler import compile_step, optimized, unfused
from penstock._src.step.loops.functional import write_loop
from penstock._src.step.runnable import Runnable
from penstock._src.step.spec import body_of


class Bodies:
    """The compiler, for bodies of functions."""

    def program(self, function: GraphFunction, ctx: Any) -> Runnable:
        """The compiled body."""
        return compile_step(*body_of(function, ctx))

    def unfused(self, function: GraphFunction, ctx: Any) -> Runnable:
        """The body as a program that only calls ATen, to be traced."""
        return unfused(*body_of(function, ctx))

    def optimized(self, function: GraphFunction, ctx: Any, in_loop: bool) -> Any:
        """The body as a StepGraph: what has to run, in order, after the passes."""
        return optimized(*body_of(function, ctx, in_loop))

    def loop(self, test: GraphFunction, body: GraphFunction, ctx: Any) -> Any:
        """The program of a loop; None if it cannot be one."""
        return write_loop(test.optimized(ctx, True), body.optimized(ctx, True), ctx)

    def called(self, function: GraphFunction) -> CalledFunction:
        """The function as its own step, for eager code."""
        return CalledFunction(function)


engine.bodies = Bodies()
