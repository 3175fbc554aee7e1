"""Random numbers of functions of elements, drawn for many calls at once.

Augmentation draws a few numbers for each element and computes positions and factors from them: many short kernels that do not
depend on the element. `DrawPlan` finds them in a function. They run for up to `_MOST_CALLS` calls at a time, under
`torch.func.vmap`; a call of the rest takes the next row. Each op draws the numbers that it would draw call by call, because
every execution has a separate section of a stream (`kernels/philox.py`).
"""
from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import torch

from penstock._src.graph.build import group_inputs
from penstock._src.graph.functions import GraphFunction, raise_typed
from penstock._src.ops import rules

_FEWEST_DRAWS = 2                      # the fewest random ops
_MOST_NUMBERS = 16                     # that one of them draws
_SINGLE_CALLS = 4                      # calls of the whole function before numbers are drawn ahead
_MOST_CALLS = 256                      # that numbers are drawn for at once
_MOST_LATER = 8                        # ops that cannot run ahead


class DrawPlan:
    """The part of a function that is computed ahead, if `fits`: the random ops `drawn`, and the values `cut` that the rest
    reads."""

    def __init__(self, function: GraphFunction, ops: list, captured: int):
        self.function = function
        count = len(function.inputs) - captured
        self.elements, self.held = function.inputs[:count], function.inputs[count:]
        self.drawn: list = []
        self.cut: list = []
        self.fits = self.tried = False
        self._values: tuple | None = None
        self._ops = ops
        self._later: set[str] = set()                   # names of ops that inspect values: they run in each call
        if sum(op.opdef in rules.columns.draws for op in ops) >= _FEWEST_DRAWS:
            self._find()

    def _find(self) -> None:
        ops, self.fits, self._values = self._ops, False, None
        ahead, varying = self._ahead(ops)
        self.drawn = [op for op in ops if op in ahead and op.opdef in rules.columns.draws]
        if len(self.drawn) < _FEWEST_DRAWS:
            return
        made = [t for op in self.drawn for t in op.outputs]
        read = {id(t) for op in ops if op not in ahead for t in op.inputs} | {id(t) for t in self.function.outputs}
        self.cut = [t for op in ops if op in ahead for t in op.outputs if id(t) in varying and id(t) in read]
        graph, effects = self.function.graph, [op for op in self.function.effects if op not in set(self.drawn)]
        self._fixed = GraphFunction(graph, None, self.held, [t for op in self.drawn for t in op.inputs], effects=[])
        self._computed = GraphFunction(graph, None, [*made, *self.held], self.cut, effects=[])
        others = [t for t in made if id(t) not in read]          # fed too, so that the rest draws nothing
        self.unread = (torch.zeros(()),) * len(others)
        self.rest = GraphFunction(graph, None, [*self.elements, *self.cut, *others, *self.held], self.function.outputs,
                                  effects=effects)
        self.fits = bool(self.cut)

    def _ahead(self, ops: list) -> tuple[set, set[int]]:
        """The ops that do not depend on the element and may run at any time, and which of their results random ops change."""
        inputs, elements = {id(t) for t in self.function.inputs}, {id(t) for t in self.elements}
        effects = set(self.function.effects)
        ahead: set = set()
        known = {id(t) for t in self.held}                         # tensors that are computed ahead
        varying: set[int] = set()
        for op in ops:
            if any(id(t) in inputs for t in op.outputs):
                if not any(id(t) in elements for t in op.outputs):
                    ahead.add(op)
                continue
            draws = op.opdef in rules.columns.draws
            timeless = _few(op) and varying.isdisjoint(map(id, op.inputs)) if draws else op.opdef.foldable
            inside = _known_shape(op) or all(id(t) in known for t in op.inputs)
            waits = not all(c in ahead or c.opdef in rules.folding.checks and c in effects for c in op.control_inputs)
            if op.name in self._later or not timeless or not inside or waits or any(t.dtype.torch is None for t in op.outputs):
                continue
            ahead.add(op)
            known.update(map(id, op.outputs))
            if draws or any(id(t) in varying for t in op.inputs):
                varying.update(map(id, op.outputs))
        return ahead, varying

    def runner(self, captured: tuple, whole: Callable) -> Callable:
        """A callable f(ctx, element) as `whole`, which calls the function on an element."""
        return _Runner(self, captured, whole).call

    def draw(self, ctx: Any, captured: tuple, many: int) -> list[torch.Tensor]:
        """What `many` calls of the rest read: a row each of these columns."""
        if self._values is None:                        # the inputs of the random ops, which are the same in all calls
            self._values = tuple(self._fixed.run(ctx, list(captured)))
        values = iter(self._values)
        columns: list = []
        for op in self.drawn:
            given = group_inputs(op.opdef, [next(values) for _ in op.inputs], op.counts)
            columns.append(rules.columns.draws[op.opdef](ctx, op, many, *given))
        run = self._computed.program(ctx).run
        made = torch.func.vmap(lambda *row: run(ctx, *row, *captured))(*columns)
        return [column.contiguous() for column in made]

    def works(self, ctx: Any, captured: tuple) -> bool:
        """Whether the ops run for many calls at once; those that inspect values are left to the calls. Determined by a trial
        run with separate streams."""
        while self.fits and not self.tried:
            try:
                self.draw(ctx.within({}), captured, 2)
                self.tried = True
            except Exception as e:
                self._without(self._computed.program(ctx).failing_op(e.__traceback__))
        return self.fits

    def _without(self, node: Any) -> None:
        name = "" if node is None else node.name
        self.fits = len(self._later) < _MOST_LATER and name not in self._later and any(op.name == name for op in self._ops)
        if self.fits:
            self._later.add(name)
            self._find()


def _known_shape(op: Any) -> bool:
    """Whether an op depends on static shapes only."""
    return op.opdef in rules.algebra.metadata and all(t.shape.is_fully_defined() for t in op.inputs)


def _few(op: Any) -> bool:
    dims = op.outputs[0].shape.static_dims
    return dims is not None and None not in dims and 0 < math.prod(dims) <= _MOST_NUMBERS


class _Runner:
    """Calls of the rest of a function, by any thread, and the rows that are drawn for the next ones."""

    def __init__(self, plan: DrawPlan, captured: tuple, whole: Callable):
        self._plan, self._captured, self._whole = plan, captured, whole
        self._lock = threading.Lock()
        self._columns: list[torch.Tensor] = []
        self._rest: Any = None
        self._calls, self._many = 0, 1
        self._at = self._drawn = 0                     # the next row, of how many

    def call(self, ctx: Any, element: tuple) -> tuple:
        """The function of an element."""
        columns, at = self._next(ctx)
        if not columns:
            return self._whole(ctx, element)
        try:
            return self._rest.run(ctx, *element, *[c[at] for c in columns], *self._plan.unread, *self._captured)
        except Exception as e:
            raise_typed(e, self._rest)
            raise

    def _next(self, ctx: Any) -> tuple[list[torch.Tensor], int]:
        """The columns and the row for the next call; no columns if the call draws its numbers itself."""
        with self._lock:
            if self._at == self._drawn:
                self._columns, self._at, self._drawn = [], 0, 0
                self._draw(ctx)
            at, self._at = self._at, min(self._at + 1, self._drawn)
            return self._columns, at

    def _draw(self, ctx: Any) -> None:
        plan = self._plan
        self._calls += 1
        if self._calls <= _SINGLE_CALLS and not plan.tried or not plan.works(ctx, self._captured):
            return
        if self._rest is None:
            self._rest = plan.rest.repeated(ctx)
        self._many = min(_MOST_CALLS, 8 * self._many)
        try:
            self._columns = plan.draw(ctx, self._captured, self._many)
            self._drawn = self._many
        except Exception:
            plan.fits = False
