"""Searching in sorted rows, and flat positions as coordinates."""
from __future__ import annotations

import math
from typing import Any

import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import Dims, rank_is, show
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.kernels import arrays, indexing, unsigned
from penstock._src.ops.array.array import reshape_op, shape_internal
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import get, op

_ATTRS = "T: type, out_type: type in {index} = int32"
lower_bound = op("LowerBound", "sorted_inputs: T, values: T -> output: out_type", _ATTRS).no_gradient()
upper_bound = op("UpperBound", "sorted_inputs: T, values: T -> output: out_type", _ATTRS).no_gradient()


def _bound_shape(sorted_inputs: Dims, values: Dims) -> Dims:
    (n, _), (m, k) = rank_is(sorted_inputs, 2), rank_is(values, 2)
    if None not in (n, m) and n != m:
        raise ValueError(f"Dimensions must be equal, but are {n} and {m}: {show(sorted_inputs)} and {show(values)}")
    return (n if n is not None else m, k)


def _bound(sorted_inputs: torch.Tensor, values: torch.Tensor, right: bool, out_type: Any) -> torch.Tensor:
    for x in (sorted_inputs, values):
        if x.dim() != 2:
            raise errors.invalid(f"Shape must be rank 2 but is rank {x.dim()}, in {arrays.show(x.shape)}")
    if sorted_inputs.shape[0] != values.shape[0]:
        raise errors.invalid(f"The leading dimensions of both tensors must match: {arrays.show(sorted_inputs.shape)} and "
                             f"{arrays.show(values.shape)}")
    if out_type is dtypes.int32 and values.numel() >= 2**31:
        raise errors.invalid("values tensor size must be less than INT_MAX")
    if unsigned.is_wide(values):
        sorted_inputs, values = unsigned.flip(sorted_inputs), unsigned.flip(values)
    if values.dtype is torch.bool:
        sorted_inputs, values = sorted_inputs.byte(), values.byte()
    return torch.searchsorted(sorted_inputs.contiguous(), values.contiguous(), right=right).to(out_type.torch)


lower_bound.shape(_bound_shape)
upper_bound.shape(_bound_shape)
lower_bound.kernel(lambda sorted_inputs, values, *, out_type: _bound(sorted_inputs, values, False, out_type))
upper_bound.kernel(lambda sorted_inputs, values, *, out_type: _bound(sorted_inputs, values, True, out_type))


@export("searchsorted")
@dispatched
def searchsorted(sorted_sequence: Any, values: Any, side: str = "left", out_type: Any = dtypes.int32,
                 name: str | None = None) -> Tensor:
    """Where `values` would go in sorted rows: before equal elements (left), or behind them (right).

    Args:
        sorted_sequence: Tensor sorted along its last axis.
        values: Tensor whose other axes are those of `sorted_sequence`.
        side: `"left"` or `"right"` of equal elements.
        out_type: int32 or int64.
        name: Name of the operation.

    Returns:
        Where each value would be inserted.

    >>> tf.searchsorted([1, 3, 5], [3, 4]).numpy().tolist()
    [1, 2]
    """
    if side not in ("left", "right"):
        raise ValueError(f"side must be 'left' or 'right', got {side}.")
    row = convert(sorted_sequence)
    values = convert(values, row.dtype)
    fn = lower_bound if side == "left" else upper_bound
    if row.ndim == 1 and values.ndim == 1:
        return reshape_op(fn(reshape_op(row, [1, -1]), reshape_op(values, [1, -1]), out_type=out_type, name=name), [-1])
    shape = shape_internal(values)
    flat = reshape_op(row, get("Pack")([-1, shape_internal(row)[-1]]))
    wanted = reshape_op(values, get("Pack")([-1, shape[-1]]))
    return reshape_op(fn(flat, wanted, out_type=out_type, name=name), shape)


unravel_index = op("UnravelIndex", "indices: Tidx, dims: Tidx -> output: Tidx", "Tidx: type in {index} = int32",
                   export_as="unravel_index", doc="Flat positions in a tensor of shape `dims` as coordinates, one row "
                                                  "per dimension.").no_gradient()


@unravel_index.shape
def _unravel_index_shape(indices, dims):
    (n,) = rank_is(dims, 1)
    return None if indices is None else (n, *indices) if len(indices) <= 1 else None


@unravel_index.kernel
def _unravel_index_kernel(indices, dims):
    if dims.dim() != 1:
        raise errors.invalid(f"The indices can only be scalar or vector, got dims of shape {arrays.show(dims.shape)}")
    sizes = arrays.ints(dims)
    total = math.prod(sizes)
    if total > torch.iinfo(dims.dtype).max:
        raise errors.invalid(f"Input dims product is causing integer overflow: {arrays.show(sizes)}")
    if any(s < 0 for s in sizes):
        raise errors.invalid(f"dims must be non-negative: {arrays.show(sizes)}")
    if 0 in sizes:
        raise errors.invalid(f"dims cannot contain a dim of zero, got {arrays.show(sizes)}")
    if indexing.first_bad(indices, total) is not None:
        raise errors.invalid(f"index is out of bound as with dims {arrays.show(sizes)}")
    coordinates = torch.unravel_index(indices.long(), tuple(sizes)) if sizes else ()
    if not coordinates:
        return torch.zeros((0, *indices.shape), dtype=indices.dtype, device=indices.device)
    return torch.stack([c.to(indices.dtype) for c in coordinates])
