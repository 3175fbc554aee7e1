"""Cuts a step where data arrives, so that what follows gets programs for its shapes.

A step that takes a batch from an iterator or a queue learns the shapes of the batch only when it runs: the last batch of an
epoch may be smaller, so the graph leaves the number of rows open. Compiled as one program, nothing that follows could use the
shapes. So such a step becomes two: `first` takes the data, and `rest` is a step with the data as further feeds, which has
programs for recurring shapes (step/optimize/variants.py) as if a user had fed the batch.

Only what the data needs runs first. Effects keep their place in the order of the step: data that is taken after an effect is
not cut off.
"""
from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from penstock._src.graph.node import Tensor
from penstock._src.ops import rules
from penstock._src.step.ir import Node, StepGraph, Value
from penstock._src.step.runnable import Runnable


class Cut:
    """Where a step is cut. Both methods are passes on the step as it was imported, after its calls were inlined."""

    def __init__(self) -> None:
        self.found = False

    def first(self, step: StepGraph) -> None:
        """Keeps what takes the data, if any arrives with an open shape; else leaves the step as it is."""
        head, between = _cut(step)
        if between:
            self.found = True
            step.fetches, step.targets = between, [op for op in step.targets if op in head]
            step.prune()

    def rest(self, step: StepGraph) -> None:
        """Keeps the other ops, with the data as further feeds."""
        head, between = _cut(step)
        step.feeds = [*step.feeds, *between]
        step.fed |= {id(t) for t in between}
        step.targets = [op for op in step.targets if op not in head]
        for op in step.ops:
            if not head.isdisjoint(op.control_inputs):
                op.control_inputs = [c for c in op.control_inputs if c not in head or _may_run_twice(c)]
        step.prune()


def _cut(step: StepGraph) -> tuple[set[Node], list[Value]]:
    """The ops that run first, and the values that the others take from them: none if nothing is cut."""
    arriving = _arriving(step)
    if not any(_is_open(t) for op in arriving for t in op.outputs):
        return set(), []
    head = _ancestors(arriving, step.fed)
    users, fetched = step.users(), {id(t) for t in step.fetches}
    between = [t for op in step.ops if op in head and not _may_run_twice(op) for t in op.outputs
               if id(t) not in step.fed and (id(t) in fetched or any(u not in head for u in users.get(id(t), ())))]
    if not all(map(_is_array, (*between, *step.feeds))) or any(op.opdef.control_flow for op in head) or \
            any(op.opdef.blocking and op not in head for op in step.ops):       # which the data may wait for
        return set(), []
    return head, between


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
    """Whether both parts may contain an op: constants, handles, and reads of variables."""
    opdef = op.opdef
    return opdef.constant or opdef.reads or not op.inputs and (opdef.per_session or all(_is_handle(t) for t in op.outputs))


def _is_handle(t: Value) -> bool:
    return t.dtype._is_ref_dtype or t.dtype.name == "resource"


def _is_open(t: Value) -> bool:
    return t.static_dims is None or None in t.static_dims


def _is_array(t: Value) -> bool:
    return not t.dtype._is_ref_dtype and (t.dtype.torch is not None or t.dtype.name == "string")


class Arriving(Runnable):
    """A step in two parts: the results of `first` are fed to `rest`."""

    def __init__(self, first: Runnable, rest: Runnable):
        self.first, self.rest = first, rest

    def run(self, ctx: Any, *feeds: Any) -> tuple:
        """One step."""
        values = (*feeds, *self.first.run(ctx, *feeds))
        return self.rest.pick(values).run(ctx, *values)

    def failing_op(self, traceback: types.TracebackType | None) -> Node | None:
        """The op that raised."""
        return self.first.failing_op(traceback) or self.rest.failing_op(traceback)

    def text(self) -> str:
        """Both parts."""
        return f"{self.first.text()}\n{self.rest.text()}"

    def explained(self, feeds: list[Tensor], device: Callable[[Node], str]) -> str:
        """Both parts; the second one for the shapes that have come."""
        return "\n".join(["# Data arrives:", self.first.explained(feeds, device), "# Then, on the data:",
                          self.rest.explained(feeds, device)])
