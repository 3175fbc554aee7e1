"""Choosing elements by a condition: tf.where in its three forms, and boolean masks."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import Dims, broadcast, compatible, merge, num_elements, show
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import arrays
from penstock._src.ops import rules
from penstock._src.ops.array.array import canonical, reshape_op, shape_internal
from penstock._src.ops.composite import dispatched
from penstock._src.ops.math.math import unbroadcast
from penstock._src.ops.registry import get, op

# -- Select --------------------------------------------------------------
select_op = op("Select", "condition: bool, t: T, e: T -> output: T", "T: type")
rules.raw_ops.arguments[select_op] = {"t": "x", "e": "y"}
select_v2 = op("SelectV2", "condition: bool, t: T, e: T -> output: T", "T: type")
rules.batching.elementwise.add(select_v2)
rules.batching.broadcasts.add(select_v2)


@rules.batching.rule(select_op)
def _select_batching(op, rows, condition, t, e):
    rank = rows.rank(t)
    if rank is None or rows.rank(condition) is None:
        return None
    condition, t, e = (rows.stack(v) for v in (condition, t, e))
    shape = get("Shape")(condition)
    ones = np.ones(rank + 1 - len(condition.static_dims), np.int32)        # a vector chooses among rows
    return [select_v2(get("Reshape")(condition, get("ConcatV2")([shape, ones], np.int32(0))), t, e)]

rules.pointwise.instruction[select_op] = rules.pointwise.instruction[select_v2] = rules.regions.each[select_v2] = "SELECT"
rules.pointwise.by_rows.add(select_op)
rules.memory.cheap.update([select_op, select_v2])


@select_op.shape
def _select_shape(condition, t, e):
    dims = merge(t, e)
    if condition is None or dims is None or condition == ():
        return dims
    if len(condition) == 1 and len(dims) != 1:
        if not dims or dims[0] is not None and condition[0] is not None and dims[0] != condition[0]:
            raise ValueError(f"Dimensions must be equal: a vector condition {show(condition)} needs as many rows as "
                             f"it has elements, not {show(dims)}")
        return dims
    return merge(condition, dims)


def _choose(condition: torch.Tensor, t: Any, e: Any) -> Any:
    if isinstance(t, torch.Tensor):
        return torch.where(condition.to(t.device), t, e)
    out = np.where(condition.cpu().numpy(), arrays.boxed(t), arrays.boxed(e))
    return np.asarray(out, dtype=object)


@select_op.kernel
def _select_kernel(condition, t, e):
    found, dims, other = tuple(condition.shape), arrays.dims_of(t), arrays.dims_of(e)
    if dims != other:
        raise errors.invalid(f"'then' and 'else' must have the same size.  but received: {arrays.show(dims)} vs. "
                             f"{arrays.show(other)}")
    if len(found) == 1 and len(dims) > 1 and found[0] == dims[0]:
        condition = condition.reshape(found + (1,) * (len(dims) - 1))
    elif found not in ((), dims):
        raise errors.invalid(f"Inputs to operation Select must have the same size and shape, or the condition must be "
                             f"a scalar or a vector of rows.  Input 0: {arrays.show(found)} != input 1: "
                             f"{arrays.show(dims)}")
    return _choose(condition, t, e)


@select_op.gradient
def _select_gradient(op, grad):
    condition = op.inputs[0]
    zeros = get("ZerosLike")(op.inputs[1])
    return None, select_op(condition, grad, zeros), select_op(condition, zeros, grad)


@select_v2.shape
def _select_v2_shape(condition, t, e):
    try:
        return broadcast(broadcast(condition, t), e)
    except ValueError:
        raise ValueError(f"condition {show(condition)}, then {show(t)}, and else {show(e)} must be broadcastable") from None


@select_v2.kernel
def _select_v2_kernel(condition, t, e):
    return _choose(condition, t, e)


@select_v2.gradient
def _select_v2_gradient(op, grad):
    condition, t, e = op.inputs
    out = op.outputs[0]
    zero = convert(0, grad.dtype)
    return (None, unbroadcast(select_v2(condition, grad, zero), t, out),
            unbroadcast(select_v2(condition, zero, grad), e, out))


# -- Where --------------------------------------------------------------
where_op = op("Where", "input: T -> index: int64", "T: type in {numeric qint8 quint8 qint32 bool} = bool").no_gradient()
rules.raw_ops.arguments[where_op] = {"input": "condition"}
where_op.shape(lambda input: (None, None if input is None else len(input)))
where_op.kernel(lambda input: arrays.signed(input).nonzero())


def _where(condition: Any, x: Any, y: Any, name: str | None, select: Any) -> Tensor:
    if x is None and y is None:
        with name_scope(name, "Where", [condition]) as scope:
            return where_op(convert(condition, name="condition", preferred_dtype=dtypes.bool), name=scope)
    if x is None or y is None:
        raise ValueError("Pass both x and y, or neither.")
    return select(condition, x, y, name=name)


@export(v1=["where"])
@dispatched
def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """Elements of `x` where `condition` holds, of `y` elsewhere; without them, the coordinates where it holds.

    A vector `condition` chooses rows. tf.where_v2 broadcasts instead.

    Args:
        condition: Boolean tensor.
        x: Values where `condition` is true; of the shape of `condition`, or with as many rows if it is a vector.
        y: Values elsewhere, of the type and shape of `x`.
        name: Name of the operation.

    Returns:
        A tensor of the type of `x`; without `x` and `y`, an int64 matrix of coordinates, one row per true element.

    Raises:
        ValueError: if only one of `x` and `y` is given.

    >>> tf.where([True, False], [1, 2], [3, 4]).numpy()
    array([1, 4], dtype=int32)
    >>> tf.where([[True, False], [False, True]]).numpy()
    array([[0, 0],
           [1, 1]])
    """
    return _where(condition, x, y, name, select_op)


@export(v1=["where_v2"], v2=["where"])
@dispatched
def where_v2(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """Elements of `x` where `condition` holds, of `y` elsewhere (with broadcasting); without them, coordinates.

    Args:
        condition: Boolean tensor.
        x: Values where it is true; broadcast with `condition` and `y`.
        y: Values elsewhere.
        name: Name of the operation.

    Returns:
        The chosen values. Without `x` and `y`, the int64 coordinates of the true elements, a row for each.

    Raises:
        ValueError: if only one of `x` and `y` is given.

    >>> tf.where([True, False], [1, 2], [3, 4]).numpy().tolist()
    [1, 4]
    >>> tf.where([False, True]).numpy().tolist()
    [[1]]
    """
    return _where(condition, x, y, name, select_v2)


# -- boolean masks --------------------------------------------------------------
@export(v1=["boolean_mask"])
@dispatched
def boolean_mask(tensor: Any, mask: Any, name: str | None = "boolean_mask", axis: int | None = None) -> Tensor:
    """The slices of `tensor` where `mask` holds; the mask covers axes from `axis` on.

    Args:
        tensor: Tensor.
        mask: Boolean tensor with a static rank, of the shape of a part of `tensor`.
        name: Name of the operation.
        axis: First axis that the mask covers, 0 by default.

    Returns:
        The slices, along one axis in place of those of the mask.

    >>> tf.boolean_mask([1, 2, 3], [True, False, True]).numpy()
    array([1, 3], dtype=int32)
    """
    return boolean_mask_v2(tensor, mask, axis, name)


@export(v2=["boolean_mask"])
@dispatched
def boolean_mask_v2(tensor: Any, mask: Any, axis: int | None = None, name: str | None = "boolean_mask") -> Tensor:
    """The slices of `tensor` where `mask` holds; the mask covers axes from `axis` on.

    Args:
        tensor: Tensor of rank 1 or more.
        mask: Boolean tensor whose shape begins that of `tensor` from `axis` on.
        axis: The axis where the mask begins, 0 by default.
        name: Name of the operation.

    Returns:
        The rows where the mask is true, in order.

    Raises:
        ValueError: if the shapes do not fit, or the mask is a scalar.

    >>> tf.boolean_mask([1, 2, 3], [True, False, True]).numpy().tolist()
    [1, 3]
    """
    with name_scope(name, "boolean_mask", [tensor, mask]):
        tensor, mask = convert(tensor, name="tensor"), convert(mask, name="mask")
        masked = mask.static_dims
        if masked is None:
            raise ValueError("Number of mask dimensions must be specified, even if some dimensions are None.  E.g. "
                             "shape=[None] is ok, but shape=None is not.")
        if not masked:
            raise ValueError("mask cannot be scalar.")
        place = constant_value(0 if axis is None else axis)
        if place is None:
            return _masked_along(tensor, mask, convert(axis))
        first = int(place)
        first = canonical(first, tensor.ndim) if tensor.ndim is not None else first
        last = first + len(masked)
        if tensor.static_dims is not None and not compatible(tensor.static_dims[first:last], masked):
            raise ValueError(f"Shapes {show(tensor.static_dims[first:last])} and {show(masked)} are incompatible: the mask "
                             "must match the axes that it covers")
        flat = reshape_op(tensor, _merged_shape(tensor, first, last))
        flat.set_shape(_merged(tensor.static_dims, masked, first, last))
        return get("GatherV2")(flat, _true_places(mask), first)


def _true_places(mask: Tensor) -> Tensor:
    return get("Squeeze")(where_op(reshape_op(mask, [-1])), squeeze_dims=[1])


def _masked_along(tensor: Tensor, mask: Tensor, axis: Tensor) -> Tensor:
    """boolean_mask with an axis that only the run knows."""
    shape = shape_internal(tensor)
    axis = get("FloorMod")(get("Cast")(axis, DstT=dtypes.int32), get("Rank")(tensor))
    last = axis + len(mask.static_dims)
    merged = get("Prod")(shape[axis:last], [0], keep_dims=True)
    flat = reshape_op(tensor, get("ConcatV2")([shape[:axis], merged, shape[last:]], 0))
    return get("GatherV2")(flat, _true_places(mask), axis)


def _merged(dims: Dims, masked: tuple, first: int, last: int) -> Dims:
    if dims is None:
        return None
    return dims[:first] + (num_elements(merge(dims[first:last], masked)),) + dims[last:]


def _merged_shape(tensor: Tensor, first: int, last: int) -> Any:
    """The shape of `tensor` with the axes from first to last as one."""
    dims = tensor.static_dims
    if dims is not None and None not in dims:
        return np.array(_merged(dims, dims[first:last], first, last), np.int32)
    shape = shape_internal(tensor)
    return get("ConcatV2")([shape[:first], get("Prod")(shape[first:last], [0], keep_dims=True), shape[last:]], 0)
