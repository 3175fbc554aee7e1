"""Counting integers of sparse and ragged values, and counts as sparse tensors (tf.sparse.bincount)."""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.base import dtypes, errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.scopes import control_dependencies, name_scope
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.ops.math.cast import cast
from penstock._src.ops.math.reduction import all_op, reduce
from penstock._src.ops.registry import get, op

_INDEX = "Tidx: type in {int32 int64}, T: type in {int32 int64 float32 float64}, binary_output: bool = False"
_COUNT = ("T: type in {int32 int64}, minlength: int >= -1 = -1, maxlength: int >= -1 = -1, binary_output: bool, "
          "output_type: type in {int32 int64 float32 float64}")
_SPARSE_OUT = "output_indices: int64, output_values: output_type, output_dense_shape: int64"

ragged_bincount = op("RaggedBincount", "splits: int64, values: Tidx, size: Tidx, weights: T -> output: T", _INDEX).no_gradient()
sparse_bincount = op("SparseBincount", "indices: int64, values: Tidx, dense_shape: int64, size: Tidx, weights: T -> output: T",
                     _INDEX, gpu=False).no_gradient()
dense_counts = op("DenseCountSparseOutput", f"values: T, weights: output_type -> {_SPARSE_OUT}", _COUNT).no_gradient()
sparse_counts = op("SparseCountSparseOutput", f"indices: int64, values: T, dense_shape: int64, weights: output_type -> "
                   f"{_SPARSE_OUT}", _COUNT, gpu=False).no_gradient()
ragged_counts = op("RaggedCountSparseOutput", f"splits: int64, values: T, weights: output_type -> {_SPARSE_OUT}",
                   _COUNT).no_gradient()


def _known_size(c: Any) -> int | None:
    known = c.const("size")
    if known is not None and int(known) < 0:
        raise ValueError(f"size ({int(known)}) must be non-negative")
    return None if known is None else int(known)


@ragged_bincount.shape
def _ragged_bincount_shape(splits, values, size, weights, *, c):
    shapes.rank_is(size, 0)
    rows = None if splits is None or splits[0] is None else splits[0] - 1
    return (rows, _known_size(c))


@sparse_bincount.shape
def _sparse_bincount_shape(indices, values, dense_shape, size, weights, *, c):
    shapes.rank_is(size, 0)
    rank = None if dense_shape is None else dense_shape[0]
    if rank not in (None, 1, 2):
        raise ValueError(f"The rank of a sparse tensor to count is 1 or 2, not {rank}")
    dims = c.const("dense_shape")
    if rank is None:
        return None
    return (_known_size(c),) if rank == 1 else (None if dims is None else int(dims[0]), _known_size(c))


def _counts_shape(rank: int | None) -> list:
    return [(None, rank), (None,), (rank,)]


dense_counts.shape(lambda values, weights: _counts_shape(None if values is None else len(values)))
sparse_counts.shape(lambda indices, values, dense_shape, weights: _counts_shape(
    None if dense_shape is None else dense_shape[0]))
ragged_counts.shape(lambda splits, values, weights: _counts_shape(2))


def _check(values: torch.Tensor, weights: torch.Tensor) -> None:
    if weights.numel() and weights.shape != values.shape:
        raise errors.invalid(f"Weights and values must have the same shape. Weight shape: {tuple(weights.shape)}; values "
                             f"shape: {tuple(values.shape)}")
    if values.numel() and int(values.min()) < 0:
        raise errors.invalid("Input values must all be non-negative")


def _rows_of(splits: torch.Tensor, count: int) -> tuple[torch.Tensor, int]:
    """The row of each value, and the number of rows."""
    if splits.ndim != 1 or not len(splits):
        raise errors.invalid("Splits must be non-empty" if splits.ndim == 1 else f"splits must be 1-D; got {splits.ndim}-D")
    if int(splits[0]) != 0:
        raise errors.invalid(f"Splits must start with 0, not with {int(splits[0])}")
    lengths = splits.diff()
    if len(lengths) and int(lengths.min()) < 0 or int(splits[-1]) != count:
        raise errors.invalid(f"Splits must not decrease, and end with the number of values, got {int(splits[-1])} "
                             f"instead of {count}")
    return torch.arange(len(lengths), device=splits.device).repeat_interleave(lengths), len(lengths)


def _sparse_rows(indices: torch.Tensor, values: torch.Tensor, dense_shape: torch.Tensor) -> tuple[torch.Tensor, int]:
    rank = len(dense_shape)
    if dense_shape.ndim != 1 or rank not in (1, 2):
        raise errors.invalid(f"Input must be a 1 or 2-dimensional sparse tensor, got rank {rank}")
    if indices.ndim != 2:
        raise errors.invalid(f"indices must be a matrix, got shape {tuple(indices.shape)}")
    if indices.shape != (len(values), rank):
        raise errors.invalid(f"Number of values must match first dimension of indices. Got {len(values)} values, indices "
                             f"shape: {tuple(indices.shape)}")
    if len(indices) and (int(indices.min()) < 0 or bool((indices >= dense_shape.to(indices.device)).any())):
        raise errors.invalid("An index value along a dimension is out of bounds of dense_shape")
    rows = int(dense_shape[0]) if rank == 2 else 1
    if rows < 0:
        raise errors.invalid("dense_shape must not be negative")
    return (indices[:, 0] if rank == 2 else torch.zeros(len(values), dtype=torch.int64, device=values.device)), rows


def _totals(rows: torch.Tensor, n: int, values: torch.Tensor, size: torch.Tensor, weights: torch.Tensor,
            binary: bool) -> torch.Tensor:
    """Dense counts [n, size]; values that are not below `size` are left out."""
    if size.ndim:
        raise errors.invalid(f"Shape must be rank 0 but is rank {size.ndim}")
    bins = int(size)
    if bins < 0:
        raise errors.invalid(f"size ({bins}) must be non-negative")
    if n * bins > 2**31:
        raise errors.ResourceExhaustedError(None, None, f"counts of shape [{n}, {bins}] are too many")
    _check(values, weights)
    inside = values < bins
    at = rows[inside] * bins + values[inside].to(torch.int64)
    amount = weights[inside] if weights.numel() else torch.ones(len(at), dtype=weights.dtype, device=values.device)
    out = torch.zeros(n * bins, dtype=weights.dtype, device=values.device)
    if binary:
        out[at] = 1
    else:
        out.scatter_add_(0, at, amount)
    return out.reshape(n, bins)


@ragged_bincount.kernel
def _ragged_bincount_kernel(splits, values, size, weights, *, binary_output):
    rows, n = _rows_of(splits, values.numel())
    return _totals(rows, n, values.reshape(-1), size, weights.reshape(-1), binary_output)


@sparse_bincount.kernel
def _sparse_bincount_kernel(indices, values, dense_shape, size, weights, *, binary_output):
    rows, n = _sparse_rows(indices, values, dense_shape)
    out = _totals(rows, n, values, size, weights, binary_output)
    return out if len(dense_shape) == 2 else out[0]


def _sparse_output(rows: torch.Tensor | None, n: int, values: torch.Tensor, weights: torch.Tensor, minlength: int,
                   maxlength: int, binary: bool, dtype: torch.dtype) -> tuple:
    """Counts as indices, values and dense shape; `rows` is None for a vector."""
    _check(values, weights)
    keep = values < maxlength if maxlength >= 0 else torch.ones_like(values, dtype=torch.bool)
    found = values[keep].to(torch.int64)
    largest = int(found.max()) if len(found) else 0
    bins = maxlength if maxlength >= 0 else max(largest + 1, minlength)
    keys = found if rows is None else rows[keep] * bins + found
    unique, index = torch.unique(keys, return_inverse=True)
    amount = weights[keep].to(dtype) if weights.numel() else torch.ones(len(keys), dtype=dtype, device=values.device)
    counts = torch.zeros(len(unique), dtype=dtype, device=values.device).scatter_add_(0, index, amount)
    counts = torch.ones_like(counts) if binary else counts
    places = unique[:, None] if rows is None else torch.stack([unique // max(bins, 1), unique % max(bins, 1)], 1)
    shape = [bins] if rows is None else [n, bins]
    return places, counts, torch.tensor(shape, dtype=torch.int64, device=values.device)


@dense_counts.kernel
def _dense_counts_kernel(values, weights, *, minlength, maxlength, binary_output, output_type):
    if values.ndim not in (1, 2):
        raise errors.invalid(f"Input must be a 1 or 2-dimensional tensor. Got: {tuple(values.shape)}")
    _check(values, weights)
    rows = None if values.ndim == 1 else torch.arange(len(values), device=values.device).repeat_interleave(values.shape[1])
    return _sparse_output(rows, len(values), values.reshape(-1), weights.reshape(-1), minlength, maxlength, binary_output,
                          output_type.torch)


@sparse_counts.kernel
def _sparse_counts_kernel(indices, values, dense_shape, weights, *, minlength, maxlength, binary_output, output_type):
    rows, n = _sparse_rows(indices, values, dense_shape)
    return _sparse_output(rows if len(dense_shape) == 2 else None, n, values, weights, minlength, maxlength, binary_output,
                          output_type.torch)


@ragged_counts.kernel
def _ragged_counts_kernel(splits, values, weights, *, minlength, maxlength, binary_output, output_type):
    rows, n = _rows_of(splits, values.numel())
    return _sparse_output(rows, n, values.reshape(-1), weights.reshape(-1), minlength, maxlength, binary_output,
                          output_type.torch)


@export("sparse.bincount")
def bincount(values: Any, weights: Any = None, axis: int = 0, minlength: int | None = None, maxlength: int | None = None,
             binary_output: bool = False, name: str | None = None) -> SparseTensor:
    """How often each integer occurs, as a sparse tensor: in all of `values` (axis 0), or in each row (axis -1).

    >>> tf.sparse.bincount([[1, 1, 3], [0, 3, 3]], axis=-1)
    """
    with name_scope(name or "count"):
        if axis not in (None, 0, -1):
            raise ValueError(f"Unsupported axis value {axis}. Only 0 and -1 are currently supported.")
        for what, length in (("minlength", minlength), ("maxlength", maxlength)):
            if length is not None and length < 0:
                raise ValueError(f"Argument {what} must be at least 0. Received: {length}")
        if weights is not None and binary_output:
            raise ValueError("Arguments `binary_output` and `weights` are mutually exclusive. Please specify only one.")
        composite = hasattr(values, "ragged_rank") or isinstance(values, SparseTensor)
        values = values if composite else convert(values, name="values")
        if not values.dtype.is_integer:
            raise TypeError(f"Argument `values` must have an integer dtype. Received: {values.dtype}")
        weights = _weights_of(values, weights)
        lengths = dict(minlength=-1 if minlength is None else minlength, maxlength=-1 if maxlength is None else maxlength,
                       binary_output=binary_output)
        return SparseTensor(*_counted(values, weights, axis, lengths))


def _weights_of(values: Any, weights: Any) -> Any:
    """The flat weights, after a check that they have the positions of the values; empty if there are none."""
    if weights is None:
        return convert([], dtypes.int64 if values.dtype == dtypes.int64 else dtypes.int32)
    kinds = {"ragged_rank": "RaggedTensor", "dense_shape": "SparseTensor"}
    if any(hasattr(values, kind) != hasattr(weights, kind) for kind in kinds):
        wanted = next((what for kind, what in kinds.items() if hasattr(values, kind)), "tf.Tensor")
        raise ValueError(f"Argument `weights` must be a {wanted}, as `values` is. Received: {weights!r}")
    checked = get("Assert")
    equal = get("Equal")
    if hasattr(values, "ragged_rank"):
        checks, what = [(weights.row_splits, values.row_splits)], "row splits"
    elif isinstance(values, SparseTensor):
        checks, what = [(weights.indices, values.indices), (weights.dense_shape, values.dense_shape)], "indices"
    else:
        return convert(weights, name="weights")
    made = [checked(reduce(all_op, equal(a, b), None, False, None), [f"weights and values must have the same {what}", a, b])
            for a, b in checks]
    with control_dependencies([m for m in made if m is not None]):
        return get("Identity")(weights.values)


def _counted(values: Any, weights: Any, axis: Any, lengths: dict) -> Any:
    lengths = {**lengths, "output_type": weights.dtype}

    def index(v: Any) -> Any:
        return v if v.dtype.base_dtype in (dtypes.int32, dtypes.int64) else cast(v, dtypes.int32)
    if hasattr(values, "ragged_rank"):
        if axis in (None, 0):
            return dense_counts(index(get("Reshape")(values.flat_values, [-1])), weights, **lengths)
        return ragged_counts(cast(values.row_splits, dtypes.int64), index(values.values), weights, **lengths)
    if isinstance(values, SparseTensor):
        if axis in (None, 0):
            return dense_counts(index(values.values), weights, **lengths)
        return sparse_counts(values.indices, index(values.values), values.dense_shape, weights, **lengths)
    if axis in (None, 0):
        return dense_counts(index(get("Reshape")(values, [-1])), get("Reshape")(weights, [-1]), **lengths)
    return dense_counts(index(values), weights, **lengths)
