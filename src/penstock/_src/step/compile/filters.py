"""The filters of convolutions: variables stored in the memory layout that the kernels read.

TensorFlow's filters are [height, width, in, out]; cuDNN and oneDNN read them with the outputs first. A variable that is used
as a filter keeps its shape but is stored in that order, so that no step rearranges it. Gradients have that
order too, and so do the optimizer's slots.
"""
from __future__ import annotations

from typing import Any

from penstock._src.ops import rules
from penstock._src.step.ir import Node, Value

OUTPUTS_FIRST = (3, 0, 1, 2)


def arrange_filters(ops: list[Node], values: dict[int, Any]) -> None:
    """Arranges the variables that the ops of a program use as filters; `values` has variables by tensor."""
    filters = set()
    for op in ops:
        at = rules.devices.filter_input.get(op.opdef)
        variable = None if at is None else values.get(id(_origin(op.inputs[at])))
        if hasattr(variable, "arrange"):
            filters.add(id(variable))
    if not filters:
        return
    for inputs in (group for op in ops for group in _groups(op)):
        together: list[Any] = [v for t in inputs if hasattr(v := values.get(id(t)), "arrange")]
        if any(id(v) in filters for v in together):
            for variable in together:
                variable.arrange(OUTPUTS_FIRST)


def _groups(op: Node) -> list[list[Value]]:
    """The inputs that belong together: for an op over lists, those at the same index of each list."""
    if all(count is None for count in op.counts):
        return [list(op.inputs)]
    lists, at = [], 0
    for count in op.counts:
        if count is not None:
            lists.append(op.inputs[at:at + count])
        at += 1 if count is None else count
    return [list(group) for group in zip(*lists, strict=False)]


def _origin(t: Value) -> Value:
    """The source of a filter, through reads, casts and other ops with one input that keep its shape."""
    while len(t.op.inputs) == 1:
        before = t.op.inputs[0]
        if before.static_dims != t.static_dims and before.dtype.base_dtype.name != "resource":
            break
        t = before
    return t
