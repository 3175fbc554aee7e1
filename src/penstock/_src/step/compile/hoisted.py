"""Hoists work that depends only on variables: it runs once, and again only after a variable has changed.

An inference step derives the same values from its weights in every run: filters with the factors of a batch norm folded in,
casts, transposes, and filters in the layout of oneDNN's kernels. Such ops become a separate program. Its results are cached
while all variables that it reads hold the same tensors as when it ran, and are fed to the program of the other ops.

While the results are cached, so are the tensors of the variables: an update then replaces them instead of writing into them
(ops/state/state.py), which makes the change visible. A training loop between runs would make that copy each time, so results
are cached only if the variables have not changed for some runs.

oneDNN chooses a layout for the number of threads that will use it, and is up to two times slower with another number. So
filters are arranged once for each number of threads that runs the step (kernels/sharing.py).
"""
from __future__ import annotations

import dataclasses
import math
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch

from penstock._src.graph.node import Tensor
from penstock._src.ops import rules
from penstock._src.ops.registry import Known
from penstock._src.step.compile.program import Program, bound_once
from penstock._src.step.ir import Node, StepGraph, Value
from penstock._src.step.runnable import Runnable

_SETTLED = 3                 # runs with the same values of variables before results are cached
_MOST_RUNS = 64              # the most runs to wait, after cached values have changed repeatedly
_LEAST = 1 << 11             # the fewest elements of results: a recording computes a few numbers faster
_LARGER = 4                  # the most elements of results, as a multiple of the variables' elements
_MOST_KEPT = 3               # the most numbers of threads that results are cached for


@dataclasses.dataclass(slots=True)
class Split:
    """A step in two parts: ops that depend only on variables, and the others, which take the results as additional feeds."""
    first: list[Node]
    between: list[Value]                # results of the first ops that the others take
    pack: list[Callable | None]          # how they are arranged for the op that takes them
    rest: list[Node]


def split(step: StepGraph) -> Split | None:
    """Splits a step; None if nothing can be hoisted."""
    constant = set() if any(op.opdef.client_code for op in step.ops) else _constant(step)
    if not constant:
        return None
    users = step.users()
    fetched = {id(t) for t in step.fetches}
    between: dict[int, tuple[Value, Callable | None]] = {}
    for op in constant:
        for t in op.outputs:
            outside = [u for u in users.get(id(t), ()) if u not in constant]
            pack = _pack_rule(t, outside[0], step) if len(outside) == 1 and id(t) not in fetched else None
            if (outside or id(t) in fetched) and (pack is not None or not _is_read(op) and not bound_once(op)):
                between[id(t)] = t, pack
    tensors = [t for t, _ in between.values()]
    given = sum(_size(t) for op in constant if _is_read(op) or bound_once(op) for t in op.outputs)
    if not between or not _LEAST <= sum(map(_size, tensors)) <= _LARGER * given:
        return None
    first = _needed(tensors, step, step.fed, [], set(step.ops))            # pure reads depend on no other op
    rest = _needed(step.fetches, step, step.fed | set(between), step.targets, constant)
    return Split(first, tensors, [p for _, p in between.values()], rest)


def _constant(step: StepGraph) -> set[Node]:
    """The ops that depend on constants and on variables that the step only reads."""
    written = {id(t) for op in step.ops if not _is_read(op) for t in op.inputs if t.dtype.base_dtype.name == "resource"}
    found: set[Node] = set()
    for op in step.ops:
        if any(id(t) in step.fed for t in (*op.inputs, *op.outputs)):
            continue
        if op.opdef.constant or _is_read(op) and bound_once(op.inputs[0].op) and id(op.inputs[0]) not in written or \
                _is_pure(op) and op.inputs and not op.control_inputs and all(t.op in found for t in op.inputs):
            found.add(op)
    return found


def _is_read(op: Node) -> bool:
    return op.opdef.reads and op.outputs[0].dtype.torch is not None


def _is_pure(op: Node) -> bool:
    opdef = op.opdef
    return opdef.foldable and not (opdef.stateful or opdef.random or opdef.blocking or opdef.control_flow or opdef.calls or
                                   opdef.client_code or opdef.transfer or opdef.has_refs) and \
        all(t.dtype.torch is not None and t.static_dims is not None and None not in t.static_dims for t in op.outputs)


def _pack_rule(t: Value, user: Node, step: StepGraph) -> Callable | None:
    rule = rules.hoisting.pack.get(user.opdef)
    return None if rule is None or user.inputs[1] is not t else rule(Known(user, step.fed))


def _size(t: Value) -> int:
    return math.prod(t.static_dims) if t.static_dims is not None and None not in t.static_dims else 0


def _needed(tensors: list[Value], step: StepGraph, fed: set[int], targets: list[Node], unawaited: set[Node]
            ) -> list[Node]:
    """The ops that some tensors and targets need, in the order of the step. Those in `fed` are given, and no op waits for those
    in `unawaited`."""
    live = {*targets, *(t.op for t in tensors if id(t) not in fed)}
    live -= {op for op in unawaited if op in targets and not any(t.op is op for t in tensors)}
    out = []
    for op in reversed(step.ops):
        if op in live:
            out.append(op)
            live.update(t.op for t in op.inputs if id(t) not in fed)
            live.update(c for c in op.control_inputs if c not in unawaited)
    return out[::-1]


class Hoisted(Runnable):
    """A step whose `first` program runs only after a change of the variables that it reads."""

    on_one_thread = True

    def __init__(self, first: Program, rest: Any, pack: list[Callable | None]):
        self.first, self.rest, self._pack = first, rest, pack
        self._variables = [c for c in first.scope.values() if hasattr(c, "stand_in")]
        self._packs = any(p is not None for p in pack)
        self._kept: tuple[list, dict[int, tuple]] | None = None      # values of variables, and results by number of threads
        self._last: list = []                                # weak references to the values of the run before
        self._left = self._wait = _SETTLED

    def run(self, ctx: Any, *feeds: Any) -> tuple:
        """One step."""
        kept = self._kept
        if kept is not None:
            for variable, value in zip(self._variables, kept[0], strict=True):
                if variable.value is not value:
                    break
            else:
                threads = torch.get_num_threads() if self._packs else 0
                results = kept[1].get(threads)
                if results is None:
                    results = self._arranged(ctx, kept[1], threads)
                return self.rest.run(ctx, *feeds, *results)
            self._kept = None
            self._left = self._wait = min(2 * self._wait, _MOST_RUNS)
        return self.rest.run(ctx, *feeds, *self._fresh(ctx))

    def _fresh(self, ctx: Any) -> tuple:
        """The results of the first program, cached once the variables have been stable."""
        values = [v.value for v in self._variables]
        if self._left > 0:
            same = len(self._last) == len(values) and all(a() is b and n == b._version for (a, n), b in
                                                          zip(self._last, values, strict=True))
            self._left = self._left - 1 if same else self._wait
            self._last = [(weakref.ref(v), v._version) for v in values if isinstance(v, torch.Tensor)]
            del values                                       # otherwise no update could be in place
            return self.first.run(ctx)
        kept: dict[int, tuple] = {}
        results = self._arranged(ctx, kept, torch.get_num_threads() if self._packs else 0)
        self._kept = values, kept
        return results

    def _arranged(self, ctx: Any, kept: dict[int, tuple], threads: int) -> tuple:
        """Computes the results for the number of threads that kernels use now, and caches them."""
        others = list(kept.values())
        results = tuple([p(t) if p is not None else others[0][i] if others else t
                         for i, (t, p) in enumerate(zip(self.first.run(ctx), self._pack, strict=True))])
        for old in list(kept)[:len(others) + 1 - _MOST_KEPT]:
            kept.pop(old, None)
        kept[threads] = results
        return results

    @property
    def unlocked(self) -> bool:                              # type: ignore[override]
        """Whether the rest is a recording."""
        return self.rest.unlocked

    def failing_op(self, traceback: types.TracebackType | None) -> Node | None:
        """The op that raised."""
        return self.first.failing_op(traceback) or self.rest.failing_op(traceback)

    @property
    def sequence(self) -> list[Node]:
        """The ops, those that depend only on variables first."""
        return [*self.first.sequence, *self.rest.sequence]

    def text(self) -> str:
        """Both programs."""
        return f"{self.first.text()}\n{self.rest.text()}"

    def explained(self, feeds: list[Tensor], device: Callable[[Node], str]) -> str:
        """Both programs; the first one runs only after a variable has changed."""
        return "\n".join(["# When a variable has changed:", self.first.explained([], device), "# In every step:",
                          self.rest.explained(feeds, device)])
