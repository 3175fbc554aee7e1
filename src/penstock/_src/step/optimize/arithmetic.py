"""Arithmetic simplifications, bit for bit:

- a neutral operand (`neutral`: x * 1, x - 0, x / 1), or a broadcast of one (`repeats`), is removed;
- two applications of an involution (`involution`: -(-x), not not x) cancel;
- a reshape of a reshape (`reshapes`) takes the original, and a reshape to the same shape is removed, also if one size is
  unknown and -1;
- a reduction (`reduces`) along no axes is removed;
- consecutive transposes become one, or cancel.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.ops.rules import arithmetic as rules
from penstock._src.step.ir import Node, StepGraph, Value, is_free_constant
from penstock._src.step.optimize.folding import constant
from penstock._src.step.optimize.forwarding import anchored


def simplify_arithmetic(step: StepGraph) -> None:
    """Applies the rules to every op, in order, so that one simplification enables the next."""
    by: dict[int, Value] = {}
    kept = step.kept()
    made: list[Node] = []
    changed = False
    for op in step.ops:
        if by:
            op.substitute(by)
        opdef = op.opdef
        if op.inputs and not op.control_inputs and op not in kept and opdef.foldable and id(op.outputs[0]) not in step.fed:
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


def _same_as(op: Node, step: StepGraph) -> Value | None:
    """The input that an op returns unchanged, if it does."""
    opdef, out = op.opdef, op.outputs[0]
    for i, number in rules.neutral.get(opdef, {}).items():
        other = op.inputs[1 - i]
        value = _elements(op.inputs[i], step)
        dims = other.static_dims
        if value is not None and dims is not None and None not in dims and dims == out.static_dims and _all(value, number):
            return other
    if opdef in rules.involution:
        before = op.inputs[0].op
        if before.opdef is opdef and id(op.inputs[0]) not in step.fed and not before.control_inputs:
            return before.inputs[0]
    dims = out.static_dims
    if opdef in rules.reshapes and dims is not None and None not in dims and dims == op.inputs[0].static_dims and (
            len(op.inputs) < 2 or _const(op.inputs[1], step) is not None):
        return op.inputs[0]
    if opdef in rules.takes_shape and _keeps_shape(op.inputs[0].static_dims, _const(op.inputs[1], step)):
        return op.inputs[0]
    if opdef in rules.reduces:
        axes = _const(op.inputs[1], step)
        if axes is not None and not axes.size:
            return op.inputs[0]
    if opdef in rules.permutes:
        perm = _const(op.inputs[1], step)
        if perm is not None and perm.tolist() == list(range(perm.size)):
            return op.inputs[0]
    return None


def _keeps_shape(dims: tuple | None, wanted: np.ndarray | None) -> bool:
    """Whether a reshape to these sizes, one of them -1, changes nothing; the size there may be unknown."""
    if dims is None or wanted is None or wanted.shape != (len(dims),) or 0 in wanted:
        return False
    return wanted.tolist().count(-1) == 1 and all(w in (-1, d) for d, w in zip(dims, wanted.tolist(), strict=True))


def _shorten(op: Node, step: StepGraph, made: list[Node]) -> bool:
    """Lets a reshape or transpose take the input of the one before it."""
    before = op.inputs[0].op
    if id(op.inputs[0]) in step.fed or before.control_inputs or not step.together(op, before):
        return False
    if op.opdef in rules.reshapes and len(op.inputs) == 2 and before.opdef in rules.reshapes and \
            op.opdef in rules.takes_shape and not anchored(before.inputs[0], step):
        value = _const(op.inputs[1], step)
        if value is None or value.ndim != 1 or 0 in value:
            return False
        op.set_input(0, before.inputs[0])
        return True
    if op.opdef in rules.permutes and before.opdef is op.opdef:
        first, second = _const(before.inputs[1], step), _const(op.inputs[1], step)
        if first is None or second is None or first.shape != second.shape or min(*first, *second, 0) < 0:
            return False
        both = constant(step, first[second], op.inputs[1], [])
        made.append(both.op)
        op.set_inputs([before.inputs[0], both])
        return True
    return False


def _const(t: Value, step: StepGraph) -> np.ndarray | None:
    return t.op.attrs["value"] if is_free_constant(t, step) else None


def _elements(t: Value, step: StepGraph) -> np.ndarray | None:
    """The elements of a tensor, once or several times, if they are constant."""
    maker = t.op
    if maker.opdef in rules.repeats and id(t) not in step.fed and not maker.control_inputs:
        return _const(maker.inputs[rules.repeats[maker.opdef]], step)
    return _const(t, step)


def _all(value: np.ndarray, number: Any) -> bool:
    """Whether all elements are `number`, and zeros have its sign."""
    if value.dtype.kind not in "fiu" or not value.size or not bool((value == number).all()):
        return False
    return value.dtype.kind != "f" or number != 0 or bool((np.signbit(value) == np.signbit(number)).all())
