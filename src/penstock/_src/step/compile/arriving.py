"""Cuts a step where data arrives, so that what follows gets programs for its shapes.

A step that takes a batch from an iterator or a queue learns the shapes of the batch only when it runs: the last batch of an
epoch may be smaller, so the graph leaves the number of rows open. Compiled as one program, nothing that follows could use the
shapes. So such a step becomes two: `first` takes the data, and `rest` is a step with the data as further feeds, which has
programs for recurring shapes (step/optimize/variants.py) as if a user had fed the batch.

Only what the data needs runs first. Effects keep their place in the order of the step: before data that is taken after an
effect, the step is cut, too. A function that takes a batch after it has trained on another one is a chain of such steps.
"""
from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from penstock._src.graph.node import Tensor
from penstock._src.ops import rules
from penstock._src.step.ir import Node, Pass, StepGraph, Value
from penstock._src.step.runnable import Runnable

_MOST = 8            # parts of a step that a cut has left, one behind the other


class Cut:
    """Where a step, or what earlier cuts have left of it, is cut. Both methods are passes on the step as it was imported, after
    its calls were inlined."""

    def __init__(self, before: Cut | None = None) -> None:
        self.found = self.takes = False              # whether it is cut, and the first part only takes data
        self._left: Pass = (lambda step: None) if before is None else before.rest
        self.number: int = 1 if before is None else before.number + 1

    def first(self, step: StepGraph) -> None:
        """Keeps what comes before the cut, if data with an open shape arrives; else leaves the step as it is."""
        self._left(step)
        head, between, again = _cut(step) if self.number < _MOST else _NOTHING
        if head:
            self.found, self.takes = True, any(op.opdef in rules.arriving.takes for op in head)
            waited = {c for op in step.ops if op not in head for c in op.control_inputs}
            step.fetches = between
            step.targets = [op for op in step.ops if op in head and (op in step.targets or op in waited and not again(op))]
            step.prune()

    def rest(self, step: StepGraph) -> None:
        """Keeps the other ops, with the data as further feeds."""
        self._left(step)
        head, between, again = _cut(step)
        step.feeds = [*step.feeds, *between]
        step.fed |= {id(t) for t in between}
        step.targets = [op for op in step.targets if op not in head]
        for op in step.ops:
            if not head.isdisjoint(op.control_inputs):
                op.control_inputs = [c for c in op.control_inputs if c not in head or again(c)]
        step.prune()


def _cut(step: StepGraph) -> _Parts:
    """The ops that run first, the values that the others take from them, and which ops may be in both parts: none if nothing
    is cut."""
    arriving = _arriving(step)
    if any(_is_open(t) for op in arriving for t in op.outputs):
        return _divided(step, _ancestors(arriving, step.fed), _may_run_twice)
    late = next((op for op in step.ops if op.opdef in rules.arriving.takes and any(map(_is_open, op.outputs))), None)
    if late is None:
        return _NOTHING
    return _divided(step, _ancestors([late], step.fed) - {late}, _never_changes)


def _divided(step: StepGraph, head: set[Node], again: Callable[[Node], bool]) -> _Parts:
    """The parts of a step of which `head` runs first; ops for which `again` holds are repeated in the other one."""
    users, fetched = step.users(), {id(t) for t in step.fetches}
    between = [t for op in step.ops if op in head and not again(op) for t in op.outputs
               if id(t) not in step.fed and (id(t) in fetched or any(u not in head for u in users.get(id(t), ())))]
    if all(map(again, head)) or not all(map(_is_array, (*between, *step.feeds))) or \
            any(op.opdef.control_flow for op in head) or \
            any(op.opdef.blocking and op not in head for op in step.ops):       # which the data may wait for
        return _NOTHING
    return head, between, again


def _arriving(step: StepGraph) -> list[Node]:
    """The ops that take data, up to the first effect."""
    found: list[Node] = []
    for op in step.ops:
        if op.opdef in rules.arriving.takes:
            found.append(op)
        elif not (op.opdef.foldable or op.opdef.random or _may_run_twice(op)):
            break
    return found


def _ancestors(ops: list[Node], fed: set[int]) -> set[Node]:
    """Some ops and all that they wait for."""
    found, left = set(ops), list(ops)
    while left:
        op = left.pop()
        new = {s for s in (*(t.op for t in op.inputs if id(t) not in fed), *op.control_inputs) if s not in found}
        found |= new
        left += new
    return found


def _may_run_twice(op: Node) -> bool:
    """Whether both parts may contain an op, if nothing is written in the first one."""
    return op.opdef.reads or _never_changes(op)


def _never_changes(op: Node) -> bool:
    """Whether an op is a constant or a handle."""
    opdef = op.opdef
    return opdef.constant or not op.inputs and (opdef.per_session or all(_is_handle(t) for t in op.outputs))


_Parts = tuple[set[Node], list[Value], Callable[[Node], bool]]
_NOTHING: _Parts = (set(), [], _never_changes)


def _is_handle(t: Value) -> bool:
    return t.dtype._is_ref_dtype or t.dtype.name == "resource"


def _is_open(t: Value) -> bool:
    return t.static_dims is None or None in t.static_dims


def _is_array(t: Value) -> bool:
    return not t.dtype._is_ref_dtype and (t.dtype.torch is not None or t.dtype.name == "string")


class Arriving(Runnable):
    """A step in two parts: the results of `first` are fed to `rest`."""

    def __init__(self, first: Runnable, rest: Runnable, takes: bool = True):
        self.first, self.rest, self.takes = first, rest, takes

    def run(self, ctx: Any, *feeds: Any) -> tuple:
        """One step."""
        values = (*feeds, *self.first.pick(feeds).run(ctx, *feeds))
        return self.rest.pick(values).run(ctx, *values)

    def failing_op(self, traceback: types.TracebackType | None) -> Node | None:
        """The op that raised."""
        return self.first.failing_op(traceback) or self.rest.failing_op(traceback)

    def text(self) -> str:
        """Both parts."""
        return f"{self.first.text()}\n{self.rest.text()}"

    def explained(self, feeds: list[Tensor], device: Callable[[Node], str]) -> str:
        """Both parts; the second one for the shapes that have come."""
        what = "# Data arrives:" if self.takes else "# Before more data arrives:"
        return "\n".join([what, self.first.explained(feeds, device), "# Then, on the data:",
                          self.rest.explained(feeds, device)])
