"""Comparisons and logic: everything that returns booleans from one or two tensors."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.base.static_shape import Dims
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import unsigned
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.math.math import binary, function
from penstock._src.ops.registry import OpDef, op

_BOTH = "x: T, y: T -> z: bool"


# -- order ------------------------------------------------------------------------------------------------------------
def _ordering(name: str, kernel: Callable, doc: str) -> OpDef:
    made = binary(name, kernel, "real", _BOTH, wide=unsigned.ordered).no_gradient()
    lower = "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")
    function(made, f"math.{lower}", lower, doc=doc)
    return made


less = _ordering("Less", torch.lt, """Whether x < y, elementwise.

    >>> tf.less([1, 5], [3, 2]).numpy()
    array([ True, False])
    """)
less_equal = _ordering("LessEqual", torch.le, """Whether x <= y, elementwise.

    >>> tf.less_equal([1, 5], [1, 2]).numpy()
    array([ True, False])
    """)
greater = _ordering("Greater", torch.gt, """Whether x > y, elementwise.

    >>> tf.greater([1, 5], [3, 2]).numpy()
    array([False,  True])
    """)
greater_equal = _ordering("GreaterEqual", torch.ge, """Whether x >= y, elementwise.

    >>> tf.greater_equal([1, 5], [1, 6]).numpy()
    array([ True, False])
    """)
rules.numbers.text.update({less: "{} < {}", less_equal: "{} <= {}", greater: "{} > {}", greater_equal: "{} >= {}"})
rules.pointwise.instruction.update({less: "LESS", less_equal: "LESS_EQUAL", greater: "GREATER", greater_equal: "GREATER_EQUAL"})
rules.regions.each.update({less: "LESS", less_equal: "LESS_EQUAL", greater: "GREATER", greater_equal: "GREATER_EQUAL"})


# -- equality ---------------------------------------------------------------------------------------------------------
def _compared(x: Dims, y: Dims) -> Dims:
    """The shape of `==`, which is a scalar for shapes that do not broadcast. An unknown size against a known one above 1
    may be either; two unknown sizes are assumed to broadcast, as in TensorFlow."""
    if x is None or y is None:
        return None
    rank = max(len(x), len(y))
    for a, b in zip((1,) * (rank - len(x)) + x, (1,) * (rank - len(y)) + y, strict=True):
        if 1 in (a, b) or a == b:
            continue
        return None if None in (a, b) else ()
    return shapes.broadcast(x, y)


def _equality(name: str, kernel: Callable, on_strings: Callable, unequal: bool) -> OpDef:
    made = op(name, _BOTH, "T: type, incompatible_shape_error: bool = True", commutative=True).no_gradient()

    @made.shape
    def _made_shape(x, y, *, incompatible_shape_error):
        return shapes.broadcast(x, y) if incompatible_shape_error else _compared(x, y)

    def run(x: Any, y: Any, compare: Callable, strict: bool) -> Any:
        if not strict:
            try:
                np.broadcast_shapes(tuple(x.shape), tuple(y.shape))
            except ValueError:
                return torch.full((), unequal, device=getattr(x, "device", None))
        return compare(x, y)

    def bound(compare: Callable) -> Callable:
        return lambda x, y, *, incompatible_shape_error: run(x, y, compare, incompatible_shape_error)

    made.kernel(bound(kernel))
    made.kernel(bound(on_strings), types="string")
    return made


equal_op = _equality("Equal", torch.eq, lambda x, y: torch.from_numpy(np.array(x == y)), False)
not_equal_op = _equality("NotEqual", torch.ne, lambda x, y: torch.from_numpy(np.array(x != y)), True)
rules.batching.elementwise.update((equal_op, not_equal_op))
rules.batching.broadcasts.update((equal_op, not_equal_op))
rules.numbers.text.update({equal_op: "{} == {}", not_equal_op: "{} != {}"})
rules.regions.each.update({equal_op: "EQUAL", not_equal_op: "NOT_EQUAL"})
rules.pointwise.instruction.update({equal_op: "EQUAL", not_equal_op: "NOT_EQUAL"})


@export("math.equal", "equal")
@dispatched
def equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Whether x == y, elementwise.

    Args:
        x: Tensor.
        y: Tensor of the type of `x`; shapes broadcast.
        name: Name of the operation.

    Returns:
        A boolean tensor.

    >>> tf.equal([1, 2], [1, 3]).numpy()
    array([ True, False])
    """
    return equal_op(x, y, name=name)


@export("math.not_equal", "not_equal")
@dispatched
def not_equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Whether x != y, elementwise.

    Args:
        x: Tensor.
        y: Tensor of the same type, whose shape broadcasts with that of `x`.
        name: Name of the operation.

    Returns:
        A boolean tensor of the broadcast shape.

    >>> tf.not_equal([1, 2], [1, 3]).numpy()
    array([False,  True])
    """
    return not_equal_op(x, y, name=name)


approximate_equal = op("ApproximateEqual", _BOTH, "T: type in {numeric quantized}, tolerance: float = 1e-05",
                       commutative=True).no_gradient()
rules.batching.elementwise.add(approximate_equal)
approximate_equal.shape(shapes.merge)


@approximate_equal.kernel
def _approximate_equal_kernel(x, y, *, tolerance):
    if x.shape != y.shape:
        raise ValueError(f"x and y must be of the same shape. x shape: {list(x.shape)}. y shape: {list(y.shape)}")
    if x.is_floating_point() or x.is_complex():
        return torch.abs(x - y) <= tolerance
    return torch.abs(x.to(torch.float64) - y.to(torch.float64)) <= tolerance


# -- logic ------------------------------------------------------------------------------------------------------------
def _logical(name: str, kernel: Callable, doc: str) -> OpDef:
    made = op(name, "x: bool, y: bool -> z: bool", commutative=True).no_gradient()
    rules.batching.elementwise.add(made)
    made.shape(shapes.broadcast)
    made.kernel(kernel)
    lower = f"logical_{name[7:].lower()}"
    function(made, f"math.{lower}", lower, doc=doc)
    return made


logical_and = _logical("LogicalAnd", torch.logical_and, """Whether x and y are true, elementwise.

    >>> tf.logical_and([True, True], [True, False]).numpy()
    array([ True, False])
    """)
logical_or = _logical("LogicalOr", torch.logical_or, """Whether x or y is true, elementwise.

    >>> tf.logical_or([True, False], [False, False]).numpy()
    array([ True, False])
    """)
logical_not_op = op("LogicalNot", "x: bool -> y: bool").no_gradient()
rules.batching.elementwise.add(logical_not_op)
rules.arithmetic.involution.add(logical_not_op)
logical_not_op.shape(lambda x: x)
logical_not_op.kernel(torch.logical_not)
rules.numbers.text.update({logical_and: "{} and {}", logical_or: "{} or {}", logical_not_op: "not {}"})
rules.regions.each.update({logical_and: "AND", logical_or: "OR", logical_not_op: "NOT"})
rules.pointwise.instruction.update({logical_and: "AND", logical_or: "OR", logical_not_op: "NOT"})


@export("math.logical_not", "logical_not")
@dispatched
def logical_not(x: Any, name: str | None = None) -> Tensor:
    """Whether x is false, elementwise.

    Args:
        x: Boolean tensor.
        name: Name of the operation.

    Returns:
        A boolean tensor of the shape of `x`.

    >>> tf.logical_not([True, False]).numpy()
    array([False,  True])
    """
    return logical_not_op(x, name=name)


@export("math.logical_xor", v1=["logical_xor"])
@dispatched
def logical_xor(x: Any, y: Any, name: str | None = "LogicalXor") -> Tensor:
    """Whether exactly one of x and y is true, elementwise.

    Args:
        x: Boolean tensor.
        y: Boolean tensor; shapes broadcast.
        name: Name of the operation.

    Returns:
        True where exactly one is.

    >>> tf.math.logical_xor([True, True], [True, False]).numpy().tolist()
    [False, True]
    """
    with name_scope(name, "LogicalXor", [x, y]) as scope:
        x, y = convert(x, dtypes.bool, "x"), convert(y, dtypes.bool, "y")
        return logical_and(logical_or(x, y), logical_not_op(logical_and(x, y)), name=scope)
