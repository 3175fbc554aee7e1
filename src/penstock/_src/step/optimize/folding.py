"""Constant folding: an op whose inputs are constants is computed once, when the step is compiled.

An op that reads only the shape of an input (`metadata`: Shape, Size, Rank …; `fills`: ZerosLike) is folded if that shape is
known. An op whose result is much larger than its inputs is not folded, so that large fills are not kept in memory.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.graph.build import group_inputs
from penstock._src.kernels.bridge import to_numpy, to_torch
from penstock._src.ops import rules
from penstock._src.step.ir import Node, StepGraph, Value, is_const

_LARGE = 1 << 19      # bytes: a larger result is kept only if its inputs are as large


def fold_constants(step: StepGraph) -> set[int]:
    """Replaces known values by constants; returns the ids of those that are used."""
    by: dict[int, Value] = {}
    kept = step.kept()
    ops: list[Node] = []
    for op in step.ops:
        if by:
            op.substitute(by)
        if op.inputs and op.opdef.foldable and op not in kept and _known(op, step):
            for t, c in _folded(op, step):
                by[id(t)] = c
                ops.append(c.op)
        ops.append(op)
    if by:
        step.ops = ops
        step.substitute(by)
    passed = {op: list(op.control_inputs) for op in step.ops if op.opdef in rules.folding.checks and _is_true(op, step)}
    if passed:
        _drop_checks(step, passed)
    if by or passed:
        step.prune()
    return {id(t) for t in by.values() if t.users}           # an op that others wait for stays, and is folded again


def _is_true(op: Node, step: StepGraph) -> bool:
    condition = op.inputs[0]
    return is_const(condition) and id(condition) not in step.fed and bool(np.all(condition.op.attrs["value"]))


def _drop_checks(step: StepGraph, passed: dict[Node, list[Node]]) -> None:
    """Removes checks that cannot fail. Their dependents inherit their control inputs, and run in the same place."""
    if step.has_control_flow:
        return

    def before(op: Node) -> list[Node]:
        waits = list(passed[op])
        for t in op.inputs:
            waits += t.op.control_inputs if is_const(t) else [] if id(t) in step.fed else [t.op]
        return [b for c in waits for b in (before(c) if c in passed else [c])]
    for op in step.ops:
        if any(c in passed for c in op.control_inputs):
            op.control_inputs = list(dict.fromkeys(b for c in op.control_inputs for b in (before(c) if c in passed else [c])))
    step.targets = list(dict.fromkeys(b for op in step.targets for b in (before(op) if op in passed else [op])))
    step.ops = [op for op in step.ops if op not in passed]


def _known(op: Node, step: StepGraph) -> bool:
    if op.opdef in rules.algebra.metadata or op.opdef in rules.folding.fills and op.outputs[0].dtype.torch is not None:
        return all(t.static_dims is not None and None not in t.static_dims and not t.dtype._is_ref_dtype for t in op.inputs)
    return all(is_const(t) and id(t) not in step.fed for t in op.inputs)


def _size(t: Value) -> float:
    """Bytes of a tensor; infinite if it is not known, or not data."""
    if t.static_dims is None or None in t.static_dims or t.dtype.torch is None and t.dtype != dtypes.string:
        return float("inf")
    return float(np.prod(t.static_dims, dtype=float)) * (t.dtype.size or 8)


def _folded(op: Node, step: StepGraph) -> list[tuple[Value, Value]]:
    size = sum(map(_size, op.outputs if op.opdef not in rules.folding.selects else op.inputs))
    if size > _LARGE and (op.opdef in rules.algebra.metadata or op.opdef in rules.folding.fills or
                          size > sum(map(_size, op.inputs))):
        return []
    values = _compute(op)
    if values is None:
        return []
    waits = dict.fromkeys([*op.control_inputs, *(c for t in op.inputs for c in t.op.control_inputs if is_const(t))])
    if step.has_control_flow:                    # the result exists only where its inputs do: in that loop, on that branch
        waits.update(dict.fromkeys(t.op for t in op.inputs if not is_const(t) and id(t) not in step.fed))
    return [(t, constant(step, v, t, list(waits))) for t, v in zip(op.outputs, values) if id(t) not in step.fed]


def constant(step: StepGraph, value: np.ndarray, t: Value, waits: list[Node]) -> Value:
    """A Const op with `value` that represents `t`."""
    made = step.make("Const", [], {"value": value, "dtype": t.dtype.base_dtype}, t.op, [value.shape],
                     [t.dtype.base_dtype], waits)
    return made.outputs[0]


class _OfShape:
    """The stand-in for a value, for kernels that only read shapes."""

    __slots__ = ("shape",)

    def __init__(self, dims: Any):
        self.shape = dims


def _compute(op: Node) -> list[np.ndarray] | None:
    """The outputs of an op on constant inputs; None if it fails: the run reports the error."""
    if op.opdef in rules.folding.fills:
        return [np.full(t.static_dims or (), rules.folding.fills[op.opdef], t.dtype.as_numpy_dtype) for t in op.outputs]
    if op.opdef in rules.algebra.metadata:
        return _computed(op, [_OfShape(t.static_dims) for t in op.inputs])
    return computed(op, [t.op.attrs["value"] for t in op.inputs])


def computed(op: Node, values: list[np.ndarray]) -> list[np.ndarray] | None:
    """The outputs of an op on some values; None if it fails."""
    return _computed(op, [to_torch(v, t.dtype.base_dtype) for v, t in zip(values, op.inputs, strict=True)])


def _computed(op: Node, values: list[Any]) -> list[np.ndarray] | None:
    kernel = op.opdef.kernel_for("cpu")
    if kernel is None or kernel.wants_ctx:
        return None
    try:
        out = kernel.bind(op.attrs, op)(*group_inputs(op.opdef, values, op.counts))
    except Exception:                                 # the run reports it
        return None
    return [np.array(to_numpy(v, t.dtype)) for v, t in zip(op.opdef.flat(out), op.outputs, strict=True)]
