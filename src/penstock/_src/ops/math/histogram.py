"""Counting: how often each integer occurs, and how many values fall into each bin."""
from __future__ import annotations

import functools
from typing import Any

import torch

from penstock._src.base import dtypes, errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import control_dependencies, name_scope
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.kernels import indexing
from penstock._src.kernels import rows as fast_rows
from penstock._src.ops.composite import dispatched
from penstock._src.ops.control.checks import assert_
from penstock._src.ops.math.cast import cast
from penstock._src.ops.math.reduction import max_op, reduce
from penstock._src.ops.registry import get, op

_WEIGHTS = "T: type in {int32 int64 float32 float64}"


# -- integers ---------------------------------------------------------------------------------------------------------
bincount_op = op("Bincount", "arr: int32, size: int32, weights: T -> bins: T", _WEIGHTS).no_gradient()
dense_bincount = op("DenseBincount", "input: Tidx, size: Tidx, weights: T -> output: T",
                    f"Tidx: type in {{index}}, {_WEIGHTS}, binary_output: bool = False").no_gradient()


def _bins(size: Any, c: Any) -> int | None:
    shapes.rank_is(size, 0)
    known = c.const("size")
    if known is not None and int(known) < 0:
        raise ValueError(f"size ({int(known)}) must be non-negative")
    return None if known is None else int(known)


bincount_op.shape(lambda arr, size, weights, *, c: (_bins(size, c),))


@dense_bincount.shape
def _dense_bincount_shape(input, size, weights, *, c):
    shapes.rank_at_most(input, 2)
    if input is None:
        return None
    return (*input[:1], _bins(size, c)) if len(input) == 2 else (_bins(size, c),)


def _count(values: torch.Tensor, size: torch.Tensor, weights: torch.Tensor, binary: bool) -> torch.Tensor:
    """Counts of the integers in each row; those that are not below `size` are ignored."""
    if size.ndim:
        raise errors.invalid(f"Shape must be rank 0 but is rank {size.ndim}")
    n = int(size)
    if n < 0:
        raise errors.invalid(f"size ({n}) must be non-negative")
    if weights.numel() and weights.shape != values.shape:
        raise errors.invalid("`weights` must be the same shape as `arr` or a length-0 `Tensor`, in which case it acts "
                             "as all weights equal to 1.")
    if not weights.numel() and values.ndim == 1 and not binary:
        found = fast_rows.counts(values, n)
        if found is not None:
            return found.to(weights.dtype)
    if values.numel() and int(values.min()) < 0:
        raise errors.invalid("Input arr must be non-negative!")
    rows = values.reshape(-1, values.shape[-1]) if values.ndim == 2 else values.reshape(1, -1)
    index = rows.to(torch.int64)
    inside = index < n
    ones = torch.ones((), dtype=weights.dtype, device=weights.device).expand_as(index)
    amount = weights.reshape(index.shape) if weights.numel() else ones
    out = torch.zeros(rows.shape[0], n + 1, dtype=weights.dtype, device=values.device)
    out.scatter_add_(1, torch.where(inside, index, torch.full_like(index, n)), amount)
    out = out[:, :n]
    out = (out != 0).to(out.dtype) if binary else out
    return out if values.ndim == 2 else out[0]


bincount_op.kernel(lambda arr, size, weights: _count(arr.reshape(-1), size, weights.reshape(-1), False))


@dense_bincount.kernel
def _dense_bincount_kernel(input, size, weights, *, binary_output):
    if input.ndim > 2:
        raise errors.invalid(f"Shape must be at most rank 2 but is rank {input.ndim}")
    return _count(input, size, weights, binary_output)


def _bincount(arr: Any, weights: Any, minlength: Any, maxlength: Any, dtype: Any, axis: Any, binary: bool,
              name: str | None) -> Tensor:
    with name_scope(name or "bincount"):
        sparse = arr if isinstance(arr, SparseTensor) else None
        if sparse is not None:
            if weights is not None and not isinstance(weights, SparseTensor):
                raise ValueError(f"The weights of a sparse tensor are sparse, not {weights!r}")
            arr, weights = sparse.values, None if weights is None else weights.values
        arr = convert(arr, name="arr")
        if not arr.dtype.is_integer or arr.dtype.base_dtype not in (dtypes.int32, dtypes.int64):
            arr = cast(arr, dtypes.int32)
        if weights is not None and binary:
            raise ValueError("Arguments `binary_output` and `weights` are mutually exclusive. Please specify only one.")
        if axis not in (None, 0, -1):
            raise ValueError(f"Unsupported value for argument axis={axis}. Only 0 and -1 are currently supported.")
        kind = arr.dtype.base_dtype
        filled = cast(get("Greater")(get("Size")(arr), 0), kind)
        size = filled * (reduce(max_op, arr, None, False, None) + convert(1, kind))
        if minlength is not None:
            size = get("Maximum")(convert(minlength, kind, "minlength"), size)
        if maxlength is not None:
            size = get("Minimum")(convert(maxlength, kind, "maxlength"), size)
        weights = convert([], dtypes.as_dtype(dtype)) if weights is None else convert(weights, name="weights")
        if sparse is not None and axis == -1:
            return get("SparseBincount")(sparse.indices, arr, sparse.dense_shape, size, weights, binary_output=binary)
        if axis in (None, 0):
            arr, weights = get("Reshape")(arr, [-1]), get("Reshape")(weights, [-1])
        return dense_bincount(arr, size, weights, binary_output=binary)


@export(v1=["math.bincount", "bincount"])
@dispatched
def bincount_v1(arr: Any, weights: Any = None, minlength: Any = None, maxlength: Any = None,
                dtype: Any = dtypes.int32) -> Tensor:
    """How often each integer from 0 to the largest occurs; or the sum of the weights of its occurrences."""
    return _bincount(arr, weights, minlength, maxlength, dtype, None, False, None)


@export(v2=["math.bincount"])
@dispatched
def bincount(arr: Any, weights: Any = None, minlength: Any = None, maxlength: Any = None, dtype: Any = dtypes.int32,
             name: str | None = None, axis: Any = None, binary_output: bool = False) -> Tensor:
    """How often each integer from 0 to the largest occurs; or the sum of the weights of its occurrences.

    Args:
        arr: Integers that are not negative.
        weights: What each counts, by default 1.
        minlength: The least length of the result.
        maxlength: The most; larger integers do not count.
        dtype: Type of the counts without weights.
        axis: None to count all, or -1 to count each row.
        binary_output: Whether to give 1 for each integer that occurs, instead of its count.
        name: Name of the operation.

    Returns:
        The counts of 0, 1, 2, ...

    Raises:
        InvalidArgumentError: for negative integers.

    >>> tf.math.bincount([1, 1, 3]).numpy().tolist()
    [0, 2, 0, 1]
    """
    return _bincount(arr, weights, minlength, maxlength, dtype, axis, binary_output, name)


# -- bins of equal width ----------------------------------------------------------------------------------------------
_INT32_MAX = 2**31 - 1
histogram_op = op("HistogramFixedWidth", "values: T, value_range: T, nbins: int32 -> out: dtype",
                  f"{_WEIGHTS}, dtype: type in {{index}} = int32").no_gradient()


@histogram_op.shape
def _histogram_shape(values, value_range, nbins, *, c):
    size = shapes.rank_is(value_range, 1)[0]
    if size not in (None, 2):
        raise ValueError(f"Dimension must be 2 but is {size}")
    shapes.rank_is(nbins, 0)
    n = c.const("nbins")
    if n is not None and int(n) <= 0:
        raise ValueError(f"Requires nbins > 0: {int(n)}")
    if n is not None and int(n) >= _INT32_MAX:
        raise ValueError(f"Requires nbins < {_INT32_MAX}: {int(n)}")
    return (None if n is None else int(n),)


def _bin_of(values: torch.Tensor, low: torch.Tensor, high: torch.Tensor, n: int) -> torch.Tensor:
    """The bin of each value; values outside go to the first or the last."""
    step = (high - low) / n
    return torch.clamp(torch.floor((values.to(torch.float64) - low) / step), 0, n - 1).to(torch.int64)


@histogram_op.kernel
def _histogram_kernel(values, value_range, nbins, *, dtype):
    if value_range.shape != (2,):
        raise errors.invalid(f"value_range should be a vector of 2 elements, not of shape {list(value_range.shape)}")
    (low, high), n = value_range.to(torch.float64).unbind(), int(nbins)
    if not bool(low < high):
        raise errors.invalid(f"value_range should satisfy value_range[0] < value_range[1], but got "
                             f"[{low.item()}, {high.item()}]")
    if n <= 0:
        raise errors.invalid(f"nbins should be a positive number, but got {n}")
    if n >= _INT32_MAX:
        raise errors.invalid(f"nbins + 1 must not exceed the maximum value of int32_t, but nbins is {n}")
    return indexing.counts(_bin_of(values.reshape(-1), low, high, n), n).to(dtype.torch)


@export("histogram_fixed_width")
@dispatched
def histogram_fixed_width(values: Any, value_range: Any, nbins: Any = 100, dtype: Any = dtypes.int32,
                          name: str | None = None) -> Tensor:
    """How many values fall into each of `nbins` bins of equal width; values outside go to the outermost bins.

    Args:
        values: Tensor of numbers.
        value_range: The two ends of the range, of the type of `values`; what is outside counts in the first or the last
            bin.
        nbins: The number of bins.
        dtype: int32 or int64.
        name: Name of the operation.

    Returns:
        How many values are in each bin.

    >>> tf.histogram_fixed_width([0., 1., 9.], [0., 10.], nbins=2).numpy().tolist()
    [2, 1]
    """
    with name_scope(name, "histogram_fixed_width", [values, value_range, nbins]) as scope:
        return histogram_op(values, value_range, nbins, dtype=dtype, name=scope)


@export("histogram_fixed_width_bins")
@dispatched
def histogram_fixed_width_bins(values: Any, value_range: Any, nbins: Any = 100, dtype: Any = dtypes.int32,
                               name: str | None = None) -> Tensor:
    """The index of the bin into which each value falls, of `nbins` bins of equal width.

    Args:
        values: Tensor of numbers.
        value_range: The two ends of the range, of the type of `values`; what is outside counts in the first or the last
            bin.
        nbins: The number of bins.
        dtype: int32 or int64.
        name: Name of the operation.

    Returns:
        The bin of each value.

    >>> tf.histogram_fixed_width_bins([0., 1., 9.], [0., 10.], nbins=2).numpy().tolist()
    [0, 0, 1]
    """
    with name_scope(name, "histogram_fixed_width_bins", [values, value_range, nbins]):
        values = convert(values, name="values")
        value_range = convert(value_range, name="value_range")
        nbins = convert(nbins, dtypes.int32, "nbins")
        check = assert_(get("Greater")(nbins, 0), ["nbins must > 0:", nbins])
        with control_dependencies([check] if check is not None else []):
            count = cast(get("Identity")(nbins), values.dtype.base_dtype)
        scaled = (values - value_range[0]) / (value_range[1] - value_range[0])
        count = cast(count, scaled.dtype.base_dtype)
        index = get("Floor")(count * scaled)
        zero, one = (convert(v, scaled.dtype.base_dtype) for v in (0, 1))
        return cast(get("Maximum")(get("Minimum")(index, count - one), zero), dtypes.int32)


# -- given boundaries -------------------------------------------------------------------------------------------------
bucketize = op("Bucketize", "input: T -> output: int32",
               f"{_WEIGHTS}, boundaries: list(float)").no_gradient()
bucketize.shape(lambda input: input)


@bucketize.kernel
def _bucketize_kernel(input, *, boundaries):
    edges = indexing.beside(_sorted_edges(tuple(boundaries)), input)
    return torch.bucketize(input.to(torch.float64), edges, right=True, out_int32=True)


@functools.lru_cache(256)
def _sorted_edges(boundaries: tuple) -> torch.Tensor:
    edges = torch.tensor(boundaries, dtype=torch.float64)
    if bool(torch.any(edges[1:] < edges[:-1])):
        raise errors.invalid("Expected sorted boundaries")
    return edges
