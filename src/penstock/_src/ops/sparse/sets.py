"""Sets along the last axis of dense or sparse tensors: size, union, intersection, difference.

An element of a set is identified by two numbers: its group (the position along all axes but the last) and the rank of its
value among all values. Both are packed into one int64 key, so that set operations become operations on sorted vectors of keys.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import merge, rank_at_least, rank_is
from penstock._src.graph.node import Tensor
from penstock._src.graph.sparse_tensor import SparseTensor, convert_to_tensor_or_sparse_tensor
from penstock._src.kernels import arrays, sparse, unsigned
from penstock._src.ops.registry import op
from penstock._src.ops.sparse.sparse_layout import check_ranks, parts_of

_TYPES = "int8 int16 int32 int64 uint8 uint16 string"
_ATTRS = f"validate_indices: bool = True, T: type in {{{_TYPES}}}"
_SET1 = "set1_indices: int64, set1_values: T, set1_shape: int64"
_SET2 = "set2_indices: int64, set2_values: T, set2_shape: int64"
_RESULT = "result_indices: int64, result_values: T, result_shape: int64"

size_op = op("SetSize", "set_indices: int64, set_values: T, set_shape: int64 -> size: int32", _ATTRS).no_gradient()
dense_op = op("DenseToDenseSetOperation", f"set1: T, set2: T -> {_RESULT}", f"set_operation: string, {_ATTRS}").no_gradient()
mixed_op = op("DenseToSparseSetOperation", f"set1: T, {_SET2} -> {_RESULT}", f"set_operation: string, {_ATTRS}").no_gradient()
sparse_op = op("SparseToSparseSetOperation", f"{_SET1}, {_SET2} -> {_RESULT}", f"set_operation: string, {_ATTRS}"
               ).no_gradient()


# -- shapes ----------------------------------------------------------------------------------------------------------
size_op.shape(lambda set_indices, set_values, set_shape: None)


def _of_rank(rank: int | None) -> list:
    return [(None, rank), (None,), (rank,)]


def _sparse_rank(indices: Any, values: Any, shape: Any) -> int | None:
    check_ranks(indices, values, shape)
    merge((rank_is(indices, 2)[0],), rank_is(values, 1))
    rank = merge((rank_is(indices, 2)[1],), rank_is(shape, 1))[0]
    if rank is not None and rank < 2:
        raise ValueError(f"expected rank >= 2, got {rank}.")
    return rank


def _same_rank(a: int | None, b: int | None) -> int | None:
    if None not in (a, b) and a != b:
        raise ValueError(f"Shape must be rank {a} but is rank {b}")
    return b if a is None else a


@dense_op.shape
def _dense_shape(set1, set2):
    set1, set2 = rank_at_least(set1, 2), rank_at_least(set2, 2)
    rank = _same_rank(set1 and len(set1), set2 and len(set2))
    if set1 is not None and set2 is not None:
        merge(set1[:-1], set2[:-1])
    return _of_rank(rank)


@mixed_op.shape
def _mixed_shape(set1, set2_indices, set2_values, set2_shape):
    set1 = rank_at_least(set1, 2)
    return _of_rank(_same_rank(set1 and len(set1), _sparse_rank(set2_indices, set2_values, set2_shape)))


@sparse_op.shape
def _sparse_shape(set1_indices, set1_values, set1_shape, set2_indices, set2_values, set2_shape):
    return _of_rank(_same_rank(_sparse_rank(set1_indices, set1_values, set1_shape),
                               _sparse_rank(set2_indices, set2_values, set2_shape)))


# -- kernels ---------------------------------------------------------------------------------------------------------
class _Sets:
    """The elements of many sets: the group of each, its value, and the sizes of the axes of the groups."""

    def __init__(self, group: torch.Tensor, values: Any, sizes: Sequence[int]):
        self.group, self.values, self.sizes = group, values, list(sizes)

    @staticmethod
    def dense(x: Any) -> _Sets:
        """Of a dense tensor."""
        dims = arrays.dims_of(x)
        if len(dims) < 2:
            raise errors.invalid(f"Shape {arrays.show(dims)} has rank {len(dims)} < 2")
        groups = torch.arange(math.prod(dims[:-1]), device=x.device if arrays.is_torch(x) else None)
        return _Sets(groups.repeat_interleave(dims[-1]), x.reshape(-1), dims[:-1])

    @staticmethod
    def sparse(indices: torch.Tensor, values: Any, shape: torch.Tensor, validate: bool) -> _Sets:
        """Of a sparse tensor; its indices must be in bounds, and in order where that is requested."""
        dims = sparse.check(indices, values, shape)
        if len(dims) < 2:
            raise errors.invalid(f"Shape {arrays.show(dims)} has rank {len(dims)} < 2")
        key = sparse.positions(indices, dims)
        if validate:
            sparse.check_sorted(indices, key)
        return _Sets(sparse.positions(indices[:, :-1], dims[:-1]), values, dims[:-1])


def _ranked(values: Any) -> tuple[Any, torch.Tensor]:
    """The distinct values in order, and the rank of each value among them."""
    if arrays.is_torch(values):
        wide = unsigned.is_wide(values)
        found, rank = torch.unique(unsigned.flip(values) if wide else values, return_inverse=True)
        return unsigned.flip(found) if wide else found, rank
    found, rank = np.unique(values, return_inverse=True) if values.size else (values, np.zeros(0, np.int64))
    return found, torch.from_numpy(np.asarray(rank).reshape(-1).astype(np.int64))


def _without(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a[~torch.isin(a, b)]


_OPERATIONS = {
    "a-b": _without,
    "b-a": lambda a, b: _without(b, a),
    "intersection": lambda a, b: a[torch.isin(a, b)],
    "union": lambda a, b: torch.unique(torch.cat([a, b])),
}


def _combined(a: _Sets, b: _Sets, operation: str) -> tuple:
    combine = _OPERATIONS.get(operation.lower())
    if combine is None:
        raise errors.invalid(f"Invalid set_operation {operation}.")
    if a.sizes != b.sizes:
        raise errors.invalid(f"Mismatched shapes {arrays.show(a.sizes)} vs {arrays.show(b.sizes)}")
    values, rank = _ranked(arrays.cat([a.values, b.values], 0))
    groups, group = torch.unique(torch.cat([a.group, b.group]), return_inverse=True)
    count = max(arrays.dims_of(values)[0], 1)
    pair = group * count + rank
    found = combine(*(torch.unique(p) for p in pair.split([a.group.numel(), b.group.numel()])))
    owner, which = torch.div(found, count, rounding_mode="floor"), found % count
    sizes = torch.bincount(owner, minlength=groups.numel())
    place = torch.arange(found.numel(), device=found.device) - (sizes.cumsum(0) - sizes)[owner]
    indices = torch.cat([sparse.coordinates(groups[owner], a.sizes), place.unsqueeze(1)], 1)
    shape = [*a.sizes, int(sizes.max()) if sizes.numel() else 0]
    return indices, sparse.take(values, which), sparse.vector(shape, indices)


@size_op.kernel
def _size_kernel(set_indices, set_values, set_shape, *, validate_indices):
    if set_shape.dim() != 1:
        raise errors.invalid(f"Shape must be a 1D tensor, got {arrays.show(set_shape.shape)}")
    s = _Sets.sparse(set_indices, set_values, set_shape, validate_indices)
    arrays.checked_dims(sparse.vector(s.sizes, set_shape))
    values, rank = _ranked(s.values)
    groups, group = torch.unique(s.group, return_inverse=True)
    count = max(arrays.dims_of(values)[0], 1)
    owner = torch.div(torch.unique(group * count + rank), count, rounding_mode="floor")
    out = torch.zeros(math.prod(s.sizes), dtype=torch.int32, device=owner.device)
    out[groups] = torch.bincount(owner, minlength=groups.numel()).int()
    return out.reshape(s.sizes)


@dense_op.kernel
def _dense_kernel(set1, set2, *, set_operation):
    return _combined(_Sets.dense(set1), _Sets.dense(set2), set_operation)


@mixed_op.kernel
def _mixed_kernel(set1, set2_indices, set2_values, set2_shape, *, set_operation, validate_indices):
    return _combined(_Sets.dense(set1), _Sets.sparse(set2_indices, set2_values, set2_shape, validate_indices), set_operation)


@sparse_op.kernel
def _sparse_kernel(set1_indices, set1_values, set1_shape, set2_indices, set2_values, set2_shape, *, set_operation,
                   validate_indices):
    return _combined(_Sets.sparse(set1_indices, set1_values, set1_shape, validate_indices),
                     _Sets.sparse(set2_indices, set2_values, set2_shape, validate_indices), set_operation)


# -- public functions --------------------------------------------------------------------------------------------------
_VALID = {dtypes.as_dtype(t) for t in _TYPES.split()}


@export("sets.size", v1=["sets.set_size"])
def set_size(a: Any, validate_indices: bool = True) -> Tensor:
    """How many distinct elements each set (last axis of a SparseTensor) has."""
    a = convert_to_tensor_or_sparse_tensor(a, name="a")
    if not isinstance(a, SparseTensor):
        raise TypeError(f"Expected `SparseTensor`, got {a}.")
    if a.values.dtype.base_dtype not in _VALID:
        raise TypeError(f"Invalid dtype {a.values.dtype}.")
    return size_op(*parts_of(a), validate_indices=validate_indices)


@export("sets.intersection", v1=["sets.set_intersection"])
def set_intersection(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """The intersection of two sets, along the last axis.

    >>> tf.sets.intersection([[1, 2, 3]], [[2, 3, 4]]).values         # [2, 3]
    """
    a, b, _ = _operands(a, b)
    return _apply(a, b, "intersection", validate_indices)


@export("sets.difference", v1=["sets.set_difference"])
def set_difference(a: Any, b: Any, aminusb: bool = True, validate_indices: bool = True) -> SparseTensor:
    """The set difference a - b (or b - a), along the last axis."""
    a, b, flipped = _operands(a, b)
    return _apply(a, b, "a-b" if bool(aminusb) != flipped else "b-a", validate_indices)


@export("sets.union", v1=["sets.set_union"])
def set_union(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """The union of two sets, along the last axis."""
    a, b, _ = _operands(a, b)
    return _apply(a, b, "union", validate_indices)


def _operands(a: Any, b: Any) -> tuple[Any, Any, bool]:
    """Both as tensors, a dense one first, and whether that swapped them."""
    a = convert_to_tensor_or_sparse_tensor(a, name="a")
    if a.dtype.base_dtype not in _VALID:
        raise TypeError(f"'a' invalid dtype {a.dtype}.")
    b = convert_to_tensor_or_sparse_tensor(b, name="b")
    if b.dtype.base_dtype != a.dtype.base_dtype:
        raise TypeError(f"Types don't match, {a.dtype} vs {b.dtype}.")
    if isinstance(a, SparseTensor) and not isinstance(b, SparseTensor):
        return b, a, True
    return a, b, False


def _apply(a: Any, b: Any, operation: str, validate_indices: bool) -> SparseTensor:
    attrs = {"set_operation": operation, "validate_indices": validate_indices}
    if isinstance(a, SparseTensor):
        return SparseTensor(*sparse_op(*parts_of(a), *parts_of(b), **attrs))
    if isinstance(b, SparseTensor):
        return SparseTensor(*mixed_op(a, *parts_of(b), **attrs))
    return SparseTensor(*dense_op(a, b, **attrs))
