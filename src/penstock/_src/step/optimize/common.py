"""Common-subexpression elimination."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.step.ir import Node, StepGraph, Value

_LARGE = 4096        # the most bytes of an array in a list that is compared
_SAMPLES = 16        # elements of a constant in its key


def merge_common(step: StepGraph) -> None:
    """Replaces later duplicates by the first op."""
    known: dict[tuple, list[Node]] = {}
    by: dict[int, Value] = {}
    kept = step.kept()
    for op in step.ops:
        if by:
            op.substitute(by)
        if not op.opdef.foldable or op in kept or not op.outputs:
            continue
        key = (op.opdef, *map(id, op.inputs)) if op.inputs else _constant_key(op)
        likely = known.setdefault(key, [])
        twin = next((o for o in likely if step.together(o, op) and _same(o, op)), None)
        if twin is None:
            likely.append(op)
        elif step.fed.isdisjoint(map(id, (*op.outputs, *twin.outputs))):
            for t, other in zip(op.outputs, twin.outputs):
                by[id(t)] = other
    if by:
        step.substitute(by)
        step.prune()


def _constant_key(op: Node) -> tuple:
    """A hash key for ops without inputs."""
    value = op.attrs.get("value")
    if not isinstance(value, np.ndarray) or value.dtype == object:
        return (op.opdef, None)
    return op.opdef, value.shape, value.dtype.str, value.flat[::max(1, value.size // _SAMPLES)].tobytes()


def _same(a: Node, b: Node) -> bool:
    """Whether two ops with the same inputs return the same result."""
    if set(a.control_inputs) != set(b.control_inputs):
        return False
    try:
        return all(_equal(v, b.attrs[n]) for n, v in a.attrs.items())
    except TypeError:
        return False


def _equal(a: Any, b: Any) -> bool:
    """Whether two attributes have the same content. Constants of any size are compared: duplicates are often what a gradient
    begins with, and keep all that is computed from them apart."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and object not in (a.dtype, b.dtype):
        return a is b or a.shape == b.shape and a.dtype == b.dtype and np.array_equal(_bytes(a), _bytes(b))
    return _plain(a) == _plain(b)


def _bytes(value: np.ndarray) -> np.ndarray:
    """The memory of an array; NaN and the sign of zero count."""
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)


def _plain(value: Any) -> Any:
    """An attribute as a key that compares by content."""
    if isinstance(value, np.ndarray):
        if value.dtype == object or value.nbytes > _LARGE:
            raise TypeError
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, (list, tuple)):
        return tuple([_plain(v) for v in value])
    if isinstance(value, (str, bytes, int, float, bool, type(None))):
        return type(value), value
    dims = getattr(value, "static_dims", value)
    return dims if dims is not value else value
