"""Rows of coordinates: the base of the kernels of sparse tensors.

A sparse tensor at run time is three values: `indices`, an int64 matrix with one row of coordinates per element;
`values`, a vector (of torch's, or of numpy objects for strings); and the sizes of the dense tensor. Sorting, matching and
grouping of rows is done on one int64 key per row: the position in the dense tensor, or in the smallest box around
the rows where the dense sizes are not reliable.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.kernels import arrays
from penstock._src.kernels import rows as fast_rows
from penstock._src.kernels.host_threads import compiled

_LIMIT = 2 ** 63 - 1


# -- checks --------------------------------------------------------------------------------------------------------
def sizes(shape: torch.Tensor, what: str = "shape") -> list[int]:
    """The dense sizes: a vector, none of them negative, with a number of elements that int64 can count."""
    if shape.dim() != 1:
        raise errors.invalid(f"Input {what} should be a vector but received shape {arrays.show(shape.shape)}")
    dims = shape.tolist()
    for i, d in enumerate(dims):
        if d < 0:
            raise errors.invalid(f"{what}[{i}] = {d} must be >= 0, in {arrays.show(dims)}")
    check_product(dims)
    return dims


def check_product(dims: Sequence[int]) -> None:
    """InvalidArgumentError if int64 cannot count the elements of a tensor of these sizes."""
    if math.prod(dims) > _LIMIT:
        raise errors.invalid(f"Shape {arrays.show(dims)} would have more than 2**63 - 1 elements")


def check(indices: torch.Tensor, values: Any, shape: torch.Tensor, prefix: str = "") -> list[int]:
    """The dense sizes of a sparse tensor whose three parts fit together."""
    found = arrays.dims_of(values)
    if indices.dim() != 2:
        raise errors.invalid(f"Input {prefix}indices should be a matrix but received shape {arrays.show(indices.shape)}")
    if len(found) != 1:
        raise errors.invalid(f"Input {prefix}values should be a vector but received shape {arrays.show(found)}")
    dims = sizes(shape, prefix + "shape")
    if indices.shape[0] != found[0]:
        raise errors.invalid(f"Number of elements in {prefix}values and rows of {prefix}indices do not match: indices and "
                             f"values rows (indexing dimension) must match. (indices={indices.shape[0]}, values={found[0]})")
    if indices.shape[1] != len(dims):
        raise errors.invalid("Number of dimensions must match second dimension of indices. Got "
                             f"{len(dims)} dimensions, indices shape: {arrays.show(indices.shape)}")
    return dims


def first_outside(indices: torch.Tensor, dims: Sequence[int]) -> tuple[int, int] | None:
    """Row and column of the first coordinate that is not in [0, size), or None."""
    if not indices.numel():
        return None
    limit = torch.tensor(list(dims), dtype=torch.int64, device=indices.device)
    bad = (indices < 0) | (indices >= limit)
    if not bool(bad.any()):
        return None
    row, column = bad.nonzero()[0].tolist()
    return row, column


def check_bounds(indices: torch.Tensor, dims: Sequence[int]) -> None:
    """InvalidArgumentError unless every row is a position in a tensor of these sizes."""
    bad = first_outside(indices, dims)
    if bad is not None:
        raise errors.invalid(f"{_row(indices, bad[0])} is out of bounds: need 0 <= index < {arrays.show(dims)}: "
                             "Index out of range")


def check_sorted(indices: torch.Tensor, key: torch.Tensor) -> None:
    """InvalidArgumentError unless the keys of the rows grow strictly."""
    step = key[1:] - key[:-1]
    bad = step <= 0
    if bool(bad.any()):
        at = int(bad.nonzero()[0])
        if int(step[at]) == 0:
            raise errors.invalid(f"{_row(indices, at + 1)} is repeated")
        raise errors.invalid(f"{_row(indices, at + 1)} is out of order. Many sparse ops require sorted indices.\n"
                             "    Use `tf.sparse.reorder` to create a correctly ordered copy.")


def check_valid(indices: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    """The positions of rows that are in bounds, in order and without repeats."""
    if indices.is_cpu and indices.shape == (indices.shape[0], 1) and indices.shape[0]:
        column = indices.numpy()[:, 0]                     # for a vector: one comparison, by numpy, which has less overhead
        if column[0] >= 0 and column[-1] < dims[0] and (column[1:] > column[:-1]).all():
            return indices.reshape(-1).long()
    found = fast_rows.positions(indices, dims)
    if found is not None and found[1]:
        return found[0]
    key = positions(indices, dims)
    check_sorted(indices, key)
    return key


def _row(indices: torch.Tensor, at: int) -> str:
    return f"indices[{at}] = {arrays.show(indices[at].tolist())}"


# -- products ------------------------------------------------------------------------------------------------------
_SHORT = 1 << 20     # multiplications that one thread does


def short_product(indices: torch.Tensor, values: torch.Tensor, row: int, height: int, b: torch.Tensor) -> torch.Tensor | None:
    """A sparse matrix, whose coordinate `row` is that of rows, times a dense one, on the host in one call; None if it is
    large, of another type, or has coordinates outside."""
    width = b.shape[1]
    if indices.dtype is not torch.int64 or b.dtype not in (torch.float32, torch.float64) or not indices.is_cpu or \
            not b.is_cpu or indices.shape[0] * width > _SHORT or height * width > _SHORT:
        return None
    kernels = compiled("_sparse")
    if kernels is None:
        return None
    indices, values, b = indices.contiguous(), values.contiguous(), b.contiguous()
    out = torch.zeros((height, width), dtype=b.dtype)
    bad = kernels.multiply(indices.data_ptr(), values.data_ptr(), indices.shape[0], row, height, b.shape[0], b.data_ptr(),
                           width, out.data_ptr(), b.dtype is torch.float64)
    return out if bad < 0 else None


# -- keys ----------------------------------------------------------------------------------------------------------
def _steps(dims: Sequence[int]) -> list[int]:
    return [math.prod(dims[i + 1:]) for i in range(len(dims))]


def positions(indices: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    """The flat position of each row in a dense tensor of these sizes, checked."""
    found = fast_rows.positions(indices, dims)
    if found is not None:
        return found[0]
    check_bounds(indices, dims)
    if not indices.shape[0]:
        return torch.zeros(0, dtype=torch.int64, device=indices.device)
    return _dot(indices.long(), dims)


def _dot(rows: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    return (rows * torch.tensor(_steps(dims), dtype=torch.int64, device=rows.device)).sum(1)


def coordinates(key: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    """The rows of coordinates of flat positions: the inverse of `positions`."""
    if not key.numel() or not dims:
        return torch.zeros((key.numel(), len(dims)), dtype=torch.int64, device=key.device)
    found = fast_rows.apart(key, dims) if 0 not in dims else None
    if found is not None:
        return found
    step = torch.tensor(_steps(dims), dtype=torch.int64, device=key.device)
    size = torch.tensor(list(dims), dtype=torch.int64, device=key.device)
    return torch.div(key.unsqueeze(1), step, rounding_mode="floor") % size


def keys(*matrices: torch.Tensor) -> list[torch.Tensor]:
    """One key per row of each matrix, with the equality and order of the rows, for any coordinates."""
    rows = torch.cat([m.long() for m in matrices])
    counts = [m.shape[0] for m in matrices]
    if not rows.shape[0] or not rows.shape[1]:
        return list(torch.zeros(rows.shape[0], dtype=torch.int64, device=rows.device).split(counts))
    low, high = rows.amin(0), rows.amax(0)
    box = [h - l + 1 for l, h in zip(low.tolist(), high.tolist(), strict=True)]
    if math.prod(box) <= _LIMIT:
        key = _dot(rows - low, box)
    else:
        key = torch.unique(rows, dim=0, return_inverse=True)[1]
    return list(key.split(counts))


def order(indices: torch.Tensor) -> torch.Tensor:
    """The permutation that sorts rows; rows that are equal stay in order."""
    return torch.argsort(keys(indices)[0], stable=True)


def take(values: Any, index: torch.Tensor) -> Any:
    """values[index] along the first axis."""
    return arrays.take(values, index, 0)


def chosen(values: Any, mask: torch.Tensor) -> Any:
    """The rows of `values` for which `mask` holds."""
    return take(values, mask.nonzero().reshape(-1))


# -- matching two sparse tensors -------------------------------------------------------------------------------------
class Union:
    """The rows that are in one of two matrices or in both, sorted; and where the rows of each went."""

    def __init__(self, a: torch.Tensor, b: torch.Tensor):
        key_a, key_b = keys(a, b)
        found, where = torch.unique(torch.cat([key_a, key_b]), return_inverse=True)
        self.count = found.numel()
        self.a, self.b = where.split([a.shape[0], b.shape[0]])
        self.indices = torch.empty((self.count, a.shape[1]), dtype=torch.int64, device=a.device)
        self.indices[where] = torch.cat([a, b]).long()

    def spread(self, values: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        """Values of one side at their places among the rows; zeros elsewhere. Repeated rows add up."""
        out = torch.zeros(self.count, dtype=values.dtype, device=values.device)
        arrays.add_at(out, (where,), values)
        return out

    def present(self, where: torch.Tensor) -> torch.Tensor:
        """Which rows one side has."""
        out = torch.zeros(self.count, dtype=torch.bool, device=where.device)
        out[where] = True
        return out


def same_shape(a_shape: torch.Tensor, b_shape: torch.Tensor) -> None:
    """InvalidArgumentError unless two sparse tensors have the same dense sizes."""
    a, b = a_shape.tolist(), b_shape.tolist()
    if len(a) != len(b):
        raise errors.invalid(f"Operands do not have the same ranks; got shapes: {arrays.show(a)} and {arrays.show(b)}")
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        if x != y:
            raise errors.invalid(f"Operands' shapes do not match: got {x} and {y} for dimension {i}")


def vector(numbers: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    """An int64 vector on the device of `like`."""
    return torch.tensor(list(numbers), dtype=torch.int64, device=like.device)


def full(dims: Sequence[int], value: Any) -> Any:
    """A tensor of one repeated value (given as a scalar tensor) that may be written."""
    if arrays.is_torch(value):
        return value.reshape([1] * len(dims)).expand(tuple(dims)).clone()
    return np.full(tuple(dims), value.item(), dtype=object)


# -- batches of sparse tensors -----------------------------------------------------------------------------------------
_MAX_ROWS = 1 << 24


def unbatch(indices: torch.Tensor, values: Any, dims: Sequence[int]) -> list[tuple[torch.Tensor, Any]]:
    """Indices and values of each row (first axis) of a valid sparse tensor."""
    if len(dims) < 2:
        raise errors.invalid(f"Rank of input SparseTensor should be > 1, but saw rank: {len(dims)}")
    if dims[0] > _MAX_ROWS:
        raise errors.ResourceExhaustedError(None, None, f"a batch of {dims[0]} sparse tensors is too large")
    check_valid(indices, dims)
    ends = torch.bincount(indices[:, 0], minlength=dims[0]).cumsum(0).tolist()
    starts, empty = [0, *ends[:-1]], (indices[:0, 1:], values[:0])
    return [(indices[s:e, 1:], values[s:e]) if s < e else empty for s, e in zip(starts, ends, strict=True)]


def batch(items: Sequence[tuple[torch.Tensor, Any, list[int]]], lead: Sequence[int]) -> tuple[torch.Tensor, Any, list[int]]:
    """Sparse tensors (indices, values, sizes) of one rank as one, with axes of sizes `lead` put before.

    The other sizes are the largest among them.
    """
    inner = [max(column) for column in zip(*(dims for _, _, dims in items), strict=True)]
    first = items[0][0]
    counts = vector([i.shape[0] for i, _, _ in items], first)
    which = torch.repeat_interleave(torch.arange(len(items), device=first.device), counts)
    indices = torch.cat([coordinates(which, lead), torch.cat([i for i, _, _ in items])], 1)
    dims = [*lead, *inner]
    check_product(dims)
    return indices, arrays.cat([v for _, v, _ in items], 0), dims
