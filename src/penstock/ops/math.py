"""Elementwise mathematics."""
from __future__ import annotations

from typing import Any

import torch

from penstock import shape as shapes
from penstock.api import export
from penstock.graph.node import Tensor
from penstock.ops.registry import get, op

add_v2 = op("AddV2", "x: T, y: T -> z: T", "T: type in {numeric}")
add_v2.shape(shapes.broadcast)
add_v2.kernel(torch.add)

mul_op = op("Mul", "x: T, y: T -> z: T", "T: type in {numeric}", commutative=True)
mul_op.shape(shapes.broadcast)
mul_op.kernel(torch.mul)


def unbroadcast(grad: Any, x: Tensor, out_dims: tuple | None) -> Any:
    """A gradient of a broadcast result summed down to the shape of the operand `x`."""
    if x._dims is not None and x._dims == out_dims and all(d is not None for d in x._dims):
        return grad
    shape = get("Shape")
    raise NotImplementedError(shape)


@mul_op.gradient
def _(op, grad):
    x, y = op.inputs
    return unbroadcast(grad * y, x, op.outputs[0]._dims), unbroadcast(grad * x, y, op.outputs[0]._dims)


@export("add", "math.add")
def add(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x + y, elementwise with broadcasting."""
    return add_v2(x, y, name=name)


Tensor.__add__ = lambda x, y: add_v2(x, y, name="add")  # type: ignore[attr-defined]
Tensor.__mul__ = lambda x, y: mul_op(x, y, name="mul")  # type: ignore[attr-defined]
ones_like = op("OnesLike", "x: T -> y: T", "T: type")
ones_like.shape(lambda x: x)
ones_like.kernel(torch.ones_like)
fill = op("Fill", "dims: index_type, value: T -> output: T", "T: type, index_type: type in {int32 int64} = int32")
fill.shape(lambda dims, value, *, c: c.dims("dims"))
fill.kernel(lambda dims, value: value.expand(dims.tolist()))

add_n = op("AddN", "inputs: N * T -> sum: T", "N: int >= 1, T: type")
add_n.shape(lambda inputs: inputs[0])
add_n.kernel(lambda inputs: sum(inputs[1:], inputs[0]))
