"""The filters of convolutions on GPUs: variables that are kept in memory as the kernels read them.

TensorFlow's filters are [height, width, in, out]; cuDNN reads them with the outputs first. A variable that is used as a filter
keeps its shape, but lies in memory in that other order, so that no step rearranges it. Gradients come out in that order too.
"""
from __future__ import annotations

from typing import Any

from penstock.graph.node import Operation, Tensor
from penstock.place.device import Device

OUTPUTS_FIRST = (3, 0, 1, 2)


def arrange_filters(ops: list[Operation], values: dict[int, Any], placed: dict[Operation, Device]) -> None:
    """Arranges the variables that the ops of a program on a GPU use as filters; `values` has variables by tensor."""
    for op in ops:
        at = op.opdef.filter_input
        if at is None or placed[op].host:
            continue
        variable: Any = values.get(id(_origin(op._inputs[at])))
        if hasattr(variable, "arrange"):
            variable.arrange(OUTPUTS_FIRST)


def _origin(t: Tensor) -> Tensor:
    """Where a filter comes from, through reads, casts and the like: ops with one input that keep its shape."""
    while len(t._op._inputs) == 1:
        before = t._op._inputs[0]
        if before._dims != t._dims and before.dtype.base_dtype.name != "resource":
            break
        t = before
    return t
