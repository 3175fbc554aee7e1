"""Shapes: what the fed values say of the shapes of everything that is created from them.

A step that is run again and again with feeds of the same shapes gets its own program for them (see `Session`): its static
shapes are inferred again, by the ops' shape rules, from the shapes that were fed. The passes behind this one then fold what
was computed from shapes, and kernels are prepared for them.

Loops are computed by induction. A variable of a loop is claimed to have the shape that enters; what a stack or an array
returns is claimed to have the shape of what was put in. If then, with all that follows from the claims, every next value of a
variable and everything that is put in has the claimed shape, the claims are true. If not, they give up the sizes that differ,
and all is computed again: claims only ever get weaker, so this ends. Gradients take shapes from stacks, where loops have
saved them; those that are known become constants.
"""
from __future__ import annotations

import functools
from typing import Any

from penstock._src.base.static_shape import Dims, common, merge
from penstock._src.graph.build import ruled_shapes
from penstock._src.ops import rules
from penstock._src.step.ir import Node, StepGraph, Value
from penstock._src.step.loops.holders import holders
from penstock._src.step.loops.saved import take_constants

_ROUNDS = 8          # then nothing is claimed


def specialize_shapes(step: StepGraph, dims: list[tuple | None]) -> None:
    """Sets the static shapes of a step for feeds of shapes `dims`; ValueError where they do not fit the graph."""
    changed = set()
    for t, d in zip(step.feeds, dims, strict=True):
        if d is not None and t.static_dims != d:
            t.static_dims = merge(t.static_dims, d)
            changed.add(id(t))
    if not any(op.opdef.back_edge for op in step.ops):
        _Known(step, changed).without_claims()
        return
    while changed:
        if not _Known(step, changed).by_claims():
            _Known(step, changed).without_claims()
            return
        changed = take_constants(step)


class _Known:
    """The shapes of a step as they are computed."""

    def __init__(self, step: StepGraph, changed: set[int]):
        self.step, self._fed_anew = step, changed
        self._holders: dict[Node, Any] = {}
        self._claims: dict[Any, Dims] = {}              # by loop variable, and by array or stack
        self._before: list[tuple[Value, Dims]] = []    # what was changed, with what was known of it

    def without_claims(self) -> None:
        """Works out what follows from the feeds alone."""
        self._loops: set[Node] = set()
        self._holders = {}
        self._round()

    def by_claims(self) -> bool:
        """Works out all shapes by claims; False, with nothing changed, if that leads nowhere."""
        self._loops = {op for op in self.step.ops if op.opdef.control_flow == "merge" and _goes_round(op)}
        self._holders = holders(self.step)
        for _ in range(_ROUNDS):
            try:
                if self._round():
                    return True
            except ValueError:                          # a claim that is not true, or feeds that do not fit
                self._undo()
                return False
            self._undo()
        return False

    def _undo(self) -> None:
        for t, dims in reversed(self._before):
            t.static_dims = dims
        self._before.clear()
        for view in {id(op.graph): op.graph for op in self.step.ops}.values():
            view.caches.clear()                         # values that were created of shapes

    def _round(self) -> bool:
        """Asks the rules of all ops, in order; whether no claim was wrong."""
        self._changed = set(self._fed_anew)
        self._put: dict[Any, Dims] = {}                 # into arrays and stacks
        self._entered: dict[Node, Dims] = {}       # loop variables as they were claimed, with what enters
        self._asked: set[Any] = set()
        touched: set[Node] = set()                 # ops behind changed shapes: known values may have changed
        changed = self._changed
        for op in self.step.ops:
            if op in self._loops:
                self._enter(op)
            elif op.opdef.shape_rule is None or _goes_round(op):
                continue
            elif any(id(t) in changed or t.op in touched for t in op.inputs):
                touched.add(op)
                self._set(op, _outputs(op))
            if op in self._holders:
                self._hold(op)
        return not self._corrected()

    def _set(self, op: Node, shapes: list) -> None:
        for t, d in zip(op.outputs, shapes):
            d = merge(t.static_dims, d)
            if d != t.static_dims:
                self._before.append((t, t.static_dims))
                t.static_dims = d
                self._changed.add(id(t))

    def _enter(self, op: Node) -> None:
        """A loop variable has the shape that enters, as far as that was not found to change."""
        shapes = [t.static_dims for t in op.inputs if not _comes_later(t, self.step)]
        if op in self._claims:
            shapes.append(self._claims[op])
        self._entered[op] = dims = functools.reduce(common, shapes)
        self._set(op, [dims])

    def _hold(self, op: Node) -> None:
        """Notes what an op puts into an array or a stack, or claims the shape of what it takes out."""
        role, rule, key = rules.shapes.holder.get(op.opdef), rules.shapes.element.get(op.opdef), self._holders[op]
        if role == "puts":
            self._add(key, rule(op, None))              # type: ignore[misc]
        elif role == "makes" and rule is not None:      # zeros for what was not written
            dims = rule(op, None)
            if dims is not None and None not in dims:
                self._add(key, dims)
        elif role == "takes":
            self._asked.add(key)
            if key not in self._claims and key in self._put:
                self._claims[key] = self._put[key]
            if key in self._claims:
                self._set(op, [rule(op, self._claims[key])])        # type: ignore[misc]

    def _add(self, key: Any, dims: Dims) -> None:
        self._put[key] = common(self._put[key], dims) if key in self._put else dims

    def _corrected(self) -> bool:
        """Weakens the claims that turned out to be wrong, and makes those that can be made now; whether there were such."""
        for op, key in self._holders.items():
            if rules.shapes.holder.get(op.opdef) == "derives" and key[0] in self._put:  # zeros have the shape of the element
                self._add(key, self._put[key[0]])
        new = {key: self._put[key] for key in self._asked if key in self._put and key not in self._claims}
        if new:                                         # where nothing was claimed, what follows from it is not known yet
            self._claims.update(new)
            return True
        corrected = False
        for key in self._asked:
            if key in self._put:
                corrected |= self._weaken(key, self._put[key])
        for op, claimed in self._entered.items():
            for t in op.inputs:
                if _comes_later(t, self.step) and common(claimed, t.static_dims) != claimed:
                    corrected |= self._weaken(op, t.static_dims)
        return corrected

    def _weaken(self, key: Any, dims: Dims) -> bool:
        weaker = common(self._claims[key], dims) if key in self._claims else dims
        if key in self._claims and weaker == self._claims[key]:
            return False
        self._claims[key] = weaker
        return True


def _outputs(op: Node) -> list:
    out = ruled_shapes(op)
    return out if isinstance(out, list) else [out]


def _goes_round(op: Node) -> bool:
    """Whether an op has values from a later iteration, whose shapes are not known yet."""
    return any(t.op.opdef.back_edge for t in op.inputs)


def _comes_later(t: Value, step: StepGraph) -> bool:
    return t.op.opdef.back_edge and id(t) not in step.fed
