"""Functions called from eager code: each call runs its own step, compiled for the variables that it is called with.

Inside a graph, a function is a part of the step that calls it. Called from Python, it is the whole step, as a `Session.run` is,
and has the same optimizations: programs for recurring shapes, recordings, CUDA graphs, and a share of the cores. The
handles among its arguments are bound when it is compiled, so that the compiler sees which variables it reads and writes.
"""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes, progress
from penstock._src.base.modes import paused_collector
from penstock._src.graph.functions import GraphFunction, raise_typed
from penstock._src.kernels import sharing
from penstock._src.step.compiler import compile_step
from penstock._src.step.runnable import Runnable
from penstock._src.step.spec import step_of

_MOST = 8                    # specializations per function, one per set of variables; further calls use a general step


class Bound:
    """A function compiled for some handles: its Runnable, and whether it may wait for other steps."""

    __slots__ = ("runnable", "waits", "held", "_fed")

    def __init__(self, function: GraphFunction, ctx: Any, held: dict[int, Any]):
        spec, env = step_of(function, ctx, held)
        with paused_collector():
            self.runnable: Runnable = compile_step(spec, env)
        self.waits = any(op.opdef.blocking for op in spec.ops)
        self.held = held                             # kept alive, so that their ids are not reused
        self._fed = [t for i, t in enumerate(function.inputs) if i not in held]

    def run(self, ctx: Any, values: list) -> tuple:
        """One step, on the values that are not bound."""
        if progress.process.reporters:
            with progress.process.step():
                return self._run(ctx, values)
        return self._run(ctx, values)

    def _run(self, ctx: Any, values: list) -> tuple:
        runnable = self.runnable.pick(values)
        token = id(values)
        sharing.begin(token, not runnable.unlocked, self.waits)
        try:
            return runnable.run(ctx, *values)
        except Exception as e:
            raise_typed(e, runnable)
            raise
        finally:
            sharing.end(token)

    def explained(self) -> str:
        """The step as text: see `Runnable.explained`."""
        return self.runnable.explained(self._fed, lambda op: "")


class CalledFunction:
    """The steps of one function, by the handles among its arguments."""

    __slots__ = ("_function", "_handles", "_others", "_steps", "_resources")

    def __init__(self, function: GraphFunction):
        self._function = function
        self._handles = [i for i, t in enumerate(function.inputs) if t.dtype.base_dtype == dtypes.resource]
        self._others = [i for i, t in enumerate(function.inputs) if t.dtype.base_dtype != dtypes.resource]
        self._steps: dict[tuple, Bound] = {}
        self._resources: Any = None                  # for which the steps are compiled

    def run(self, ctx: Any, values: list) -> tuple:
        """Runs the function on run-time values."""
        if self._resources is not ctx.resources:
            self._steps, self._resources = {}, ctx.resources
        handles = self._handles
        if not handles:
            return (self._steps.get(()) or self._bound(ctx, values, ())).run(ctx, values)
        key = tuple([id(values[i]) for i in handles])
        found = self._steps.get(key) or self._bound(ctx, values, key)
        return found.run(ctx, values if not found.held else [values[i] for i in self._others])

    def _bound(self, ctx: Any, values: list, key: tuple) -> Bound:
        if len(self._steps) >= _MOST:
            key = ("any",)
            if key in self._steps:
                return self._steps[key]
            found = Bound(self._function, ctx, {})
        else:
            found = Bound(self._function, ctx, {i: values[i] for i in self._handles})
        self._steps[key] = found
        return found
