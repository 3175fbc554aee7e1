"""The filters of convolutions: variables that are kept in memory as the kernels read them.

TensorFlow's filters are [height, width, in, out]; cuDNN and oneDNN read them with the outputs first. A variable that is used
as a filter keeps its shape, but lies in memory in that other order, so that no step rearranges it. Gradients come out in that
order too, and what an optimizer keeps beside the variable follows it.
"""
from __future__ import annotations

from typing import Any

from penstock._src.graph.node import Operation, Tensor
from penstock._src.ops import rules

OUTPUTS_FIRST = (3, 0, 1, 2)


def arrange_filters(ops: list[Operation], values: dict[int, Any]) -> None:
    """Arranges the variables that the ops of a program use as filters; `values` has variables by tensor."""
    filters = set()
    for op in ops:
        at = rules.devices.filter_input.get(op.opdef)
        variable = None if at is None else values.get(id(_origin(op._inputs[at])))
        if hasattr(variable, "arrange"):
            filters.add(id(variable))
    if not filters:
        return
    for op in ops:
        together: list[Any] = [v for t in op._inputs if hasattr(v := values.get(id(t)), "arrange")]
        if any(id(v) in filters for v in together):
            for variable in together:
                variable.arrange(OUTPUTS_FIRST)


def _origin(t: Tensor) -> Tensor:
    """Where a filter comes from, through reads, casts and the like: ops with one input that keep its shape."""
    while len(t._op._inputs) == 1:
        before = t._op._inputs[0]
        if before._dims != t._dims and before.dtype.base_dtype.name != "resource":
            break
        t = before
    return t
