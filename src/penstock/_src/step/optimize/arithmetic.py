"""Arithmetic: what can be said with fewer ops and the same result, to the bit.

- an operand that changes nothing (`neutral`: x * 1, x - 0, x / 1), or that only repeats such a number (`repeats`), goes;
- an op that undoes itself (`involution`: -(-x), not not x) goes with its twin;
- a reshape of something that only has another shape (`reshapes`) takes the original, and one to the shape that is there goes;
- a sum (and the like, `reduces`) along no axes goes;
- transposes behind each other become one, or none.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.graph.node import Operation, Tensor
from penstock._src.ops.rules import arithmetic as rules
from penstock._src.step.ir import StepGraph, is_const
from penstock._src.step.optimize.folding import constant
from penstock._src.step.optimize.forwarding import anchored


def simplify_arithmetic(step: StepGraph) -> None:
    """Applies the rules to every op, in order, so that one may lead to the next."""
    by: dict[int, Tensor] = {}
    kept = step.kept()
    made: list[Operation] = []
    changed = False
    for op in step.ops:
        inputs = op._inputs
        if by:
            for i, t in enumerate(inputs):
                if id(t) in by:
                    inputs[i] = by[id(t)]
        opdef = op.opdef
        if inputs and not op._control_inputs and op not in kept and opdef.foldable and id(op.outputs[0]) not in step.fed:
            while (opdef in rules.reshapes or opdef in rules.permutes) and _shorten(op, step, made):
                changed = True
            same = _same_as(op, step)
            if same is not None and not anchored(same, step):
                by[id(op.outputs[0])] = same
        made.append(op)
    if by or changed:
        step.ops = made
        step.substitute(by)
        step.prune()


def _same_as(op: Operation, step: StepGraph) -> Tensor | None:
    """The input that an op returns unchanged, if it does."""
    opdef, out = op.opdef, op.outputs[0]
    for i, number in rules.neutral.get(opdef, {}).items():
        other = op._inputs[1 - i]
        value = _elements(op._inputs[i], step)
        if value is not None and other._dims is not None and None not in other._dims and other._dims == out._dims and \
                _all(value, number):
            return other
    if opdef in rules.involution:
        before = op._inputs[0]._op
        if before.opdef is opdef and id(op._inputs[0]) not in step.fed:
            return before._inputs[0]
    if opdef in rules.reshapes and out._dims is not None and None not in out._dims and out._dims == op._inputs[0]._dims and (
            len(op._inputs) < 2 or _const(op._inputs[1], step) is not None):
        return op._inputs[0]
    if opdef in rules.reduces:
        axes = _const(op._inputs[1], step)
        if axes is not None and not axes.size:
            return op._inputs[0]
    if opdef in rules.permutes:
        perm = _const(op._inputs[1], step)
        if perm is not None and perm.tolist() == list(range(perm.size)):
            return op._inputs[0]
    return None


def _shorten(op: Operation, step: StepGraph, made: list[Operation]) -> bool:
    """Lets a reshape or transpose take the input of the one before it."""
    before = op._inputs[0]._op
    if id(op._inputs[0]) in step.fed or before._control_inputs or not step.together(op, before):
        return False
    if op.opdef in rules.reshapes and len(op._inputs) == 2 and before.opdef in rules.reshapes and \
            op.opdef in rules.takes_shape and not anchored(before._inputs[0], step):
        value = _const(op._inputs[1], step)
        if value is None or value.ndim != 1 or 0 in value:
            return False
        op._inputs[0] = before._inputs[0]
        return True
    if op.opdef in rules.permutes and before.opdef is op.opdef:
        first, second = _const(before._inputs[1], step), _const(op._inputs[1], step)
        if first is None or second is None or first.shape != second.shape or min(*first, *second, 0) < 0:
            return False
        both = constant(step, first[second], op._inputs[1], [])
        made.append(both._op)
        op._inputs[0], op._inputs[1] = before._inputs[0], both
        return True
    return False


def _const(t: Tensor, step: StepGraph) -> np.ndarray | None:
    return t._op.attrs["value"] if is_const(t) and id(t) not in step.fed else None


def _elements(t: Tensor, step: StepGraph) -> np.ndarray | None:
    """The elements of a tensor, once or several times, if they are constant."""
    maker = t._op
    if maker.opdef in rules.repeats and id(t) not in step.fed and not maker._control_inputs:
        return _const(maker._inputs[rules.repeats[maker.opdef]], step)
    return _const(t, step)


def _all(value: np.ndarray, number: Any) -> bool:
    """Whether all elements are `number`, and zeros have its sign."""
    if value.dtype.kind not in "fiu" or not value.size or not bool((value == number).all()):
        return False
    return value.dtype.kind != "f" or number != 0 or bool((np.signbit(value) == np.signbit(number)).all())
