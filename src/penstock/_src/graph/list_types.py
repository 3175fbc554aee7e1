"""What is known before a run of the lists that a tensor of type variant holds: the type and static shape of their elements."""
from __future__ import annotations

from typing import Any

from penstock._src.graph.node import AnyTensor, is_edge
from penstock._src.ops import rules

_FAR = 1000          # ops to look back through


def elements_of(t: AnyTensor) -> tuple[Any, tuple | None] | None:
    """(dtype, static shape) of the elements of the lists in `t`; None if nothing is known."""
    for _ in range(_FAR):
        if hasattr(t, "_value"):
            value = t._value
            return (value.dtype, value.dims) if hasattr(value, "dims") and hasattr(value, "dtype") else None
        rule = rules.lists.elements.get(t.op.opdef)
        if rule is None:
            outer = outside(t)
            if outer is None:
                return None
            t = outer
            continue
        found = rule(t.op, t.value_index)
        if not is_edge(found):
            return found
        t = found
    return None


def outside(t: AnyTensor) -> AnyTensor | None:
    """The tensor that an input of a function graph was captured from."""
    captures = getattr(t.graph, "_captures", None)
    if not captures or t.op.inputs:
        return None
    return next((outer for outer, inner in captures.values() if inner is t), None)
