"""Ragged ranges, reductions and segment reductions."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes
from penstock._src.graph.constant import constant_value
from penstock._src.graph.node import Tensor
from penstock._src.library.ragged.array import expand_dims
from penstock._src.library.ragged.ranges import ragged_range
from penstock._src.library.ragged.segments import get_positive_axis
from penstock._src.library.ragged.tensor import RaggedTensor, convert_to_tensor_or_ragged_tensor
from penstock.compat import v1 as tf


# -- segments --------------------------------------------------------------------------------------------------------
def _segment_aggregate(unsorted: Callable, data: Any, segment_ids: Any, num_segments: Any, name: str | None) -> Any:
    """Reduces rows of ragged data that share a segment."""
    with tf.name_scope(name, "RaggedSegment", [num_segments]):
        data = convert_to_tensor_or_ragged_tensor(data, name="data")
        segment_ids = convert_to_tensor_or_ragged_tensor(segment_ids, name="segment_ids")
        if isinstance(segment_ids, RaggedTensor):
            if not isinstance(data, RaggedTensor):
                raise ValueError("segment_ids.shape must be a prefix of data.shape, but segment_ids is ragged and data is not.")
            check = tf.debugging.assert_equal(segment_ids.row_splits, data.row_splits,
                                              message="segment_ids.shape must be a prefix of data.shape")
            with tf.control_dependencies([c for c in [check] if c is not None]):
                return _segment_aggregate(unsorted, data.values, segment_ids.values, num_segments, None)
        if not isinstance(data, RaggedTensor):
            return unsorted(data, segment_ids, num_segments)
        segment_ids = tf.cast(segment_ids, data.row_splits.dtype)
        lengths = data.row_lengths()
        longest = tf.maximum(tf.unsorted_segment_max(lengths, segment_ids, num_segments), 0)
        splits = tf.concat([tf.zeros([1], longest.dtype), tf.cumsum(longest)], 0)
        starts = tf.gather(splits, segment_ids)
        places = ragged_range(starts, starts + lengths).values
        values = _segment_aggregate(unsorted, data.values, places, splits[-1], None)
        return RaggedTensor.from_row_splits(values, splits, validate=False)


segment_sum = lambda data, segment_ids, num_segments, name=None: _segment_aggregate(  # noqa: E731
    tf.unsorted_segment_sum, data, segment_ids, num_segments, name)
segment_prod = lambda data, segment_ids, num_segments, name=None: _segment_aggregate(  # noqa: E731
    tf.unsorted_segment_prod, data, segment_ids, num_segments, name)
segment_min = lambda data, segment_ids, num_segments, name=None: _segment_aggregate(  # noqa: E731
    tf.unsorted_segment_min, data, segment_ids, num_segments, name)
segment_max = lambda data, segment_ids, num_segments, name=None: _segment_aggregate(  # noqa: E731
    tf.unsorted_segment_max, data, segment_ids, num_segments, name)


def segment_mean(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """The mean of the rows of each segment."""
    total = segment_sum(data, segment_ids, num_segments, name)
    ones = _with_flat(data, tf.ones_like)
    count = segment_sum(ones, segment_ids, num_segments)
    return _divided(total, count, lambda n: n)


def segment_sqrt_n(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """The sum of the rows of each segment over the square root of their number."""
    total = segment_sum(data, segment_ids, num_segments, name)
    count = segment_sum(_with_flat(data, tf.ones_like), segment_ids, num_segments)
    return _divided(total, count, tf.sqrt)


def _with_flat(data: Any, f: Callable) -> Any:
    data = convert_to_tensor_or_ragged_tensor(data)
    return data.with_flat_values(f(data.flat_values)) if isinstance(data, RaggedTensor) else f(data)


def _divided(total: Any, count: Any, f: Callable) -> Any:
    if isinstance(total, RaggedTensor):
        return total.with_flat_values(total.flat_values / f(count.flat_values))
    return total / f(count)


# -- reductions ------------------------------------------------------------------------------------------------------
def reduce_aggregate(reduce_dense: Callable, segment: Callable, rt: Any, axis: Any, keepdims: Any = False,
                     name: str | None = None) -> Any:
    """Reduces a ragged tensor over an axis, several axes, or (None) all."""
    if not isinstance(rt, RaggedTensor):
        return reduce_dense(rt, axis, keepdims=keepdims, name=name)
    if isinstance(axis, Tensor):
        known = constant_value(axis)
        if known is None:
            raise ValueError("axis must be known at graph construction time.")
        axis = known.tolist()
    with tf.name_scope(name, "RaggedReduce", [rt.flat_values]):
        if axis is None:
            out = reduce_dense(rt.flat_values, None, keepdims=False)
            for _ in range(rt.shape.ndims or 0 if keepdims else 0):
                out = tf.expand_dims(out, 0)
            return out
        if isinstance(axis, (list, tuple)):
            return _reduce_many(reduce_dense, segment, rt, list(axis), keepdims)
        rt = convert_to_tensor_or_ragged_tensor(rt)
        axis = get_positive_axis(axis, rt.shape.ndims)
        return _reduce_one(reduce_dense, segment, rt, axis, keepdims)


def _reduce_many(reduce_dense: Callable, segment: Callable, rt: Any, axis: list, keepdims: Any) -> Any:
    if not axis:
        return rt
    if len(axis) == 1:
        return reduce_aggregate(reduce_dense, segment, rt, axis[0], keepdims)
    axis = sorted(get_positive_axis(a, rt.shape.ndims) for a in axis)
    inner = reduce_aggregate(reduce_dense, segment, rt, axis[-1], keepdims)
    return reduce_aggregate(reduce_dense, segment, inner, axis[:-1], keepdims)


def _reduce_one(reduce_dense: Callable, segment: Callable, rt: RaggedTensor, axis: int, keepdims: Any) -> Any:
    if axis == 0:
        columns = ragged_range(rt.row_lengths(), row_splits_dtype=rt.row_splits.dtype).values
        longest = tf.maximum(tf.reduce_max(rt.row_lengths()), 0)
        out = segment(rt.values, columns, longest)
        return _expanded(out, 0) if keepdims else out
    if axis == 1:
        out = segment(rt.values, rt.value_rowids(), rt.nrows())
        return _expanded(out, 1) if keepdims else out
    return rt.with_values(reduce_aggregate(reduce_dense, segment, rt.values, axis - 1, keepdims))


def _expanded(value: Any, axis: int) -> Any:
    return expand_dims(value, axis)


def _reducer(dense: str, segment: Callable) -> Callable:
    def reduce(input_tensor: Any, axis: Any = None, keepdims: Any = None, name: str | None = None,
               reduction_indices: Any = None, keep_dims: Any = None) -> Any:
        axis = axis if reduction_indices is None else reduction_indices
        keepdims = keepdims if keep_dims is None else keep_dims
        f = getattr(tf, dense)
        return reduce_aggregate(lambda x, a, keepdims=False, name=None: f(x, a, keepdims=bool(keepdims), name=name),
                                segment, input_tensor, axis, bool(keepdims), name)
    return reduce


reduce_sum = _reducer("reduce_sum", segment_sum)
reduce_prod = _reducer("reduce_prod", segment_prod)
reduce_min = _reducer("reduce_min", segment_min)
reduce_max = _reducer("reduce_max", segment_max)


def reduce_mean(input_tensor: Any, axis: Any = None, keepdims: Any = None, name: str | None = None,
                reduction_indices: Any = None, keep_dims: Any = None) -> Any:
    """The mean over an axis of a ragged tensor: the sum over the number of values."""
    with tf.name_scope(name, "RaggedReduceMean", []):
        total = reduce_sum(input_tensor, axis, keepdims, None, reduction_indices, keep_dims)
        count = reduce_sum(_with_flat(input_tensor, tf.ones_like), axis, keepdims, None, reduction_indices, keep_dims)
        return _divided(total, count, lambda n: n)


def _as_int(x: Any) -> Any:
    return _with_flat(x, lambda v: tf.cast(v, dtypes.int32))


def _as_bool(x: Any) -> Any:
    return _with_flat(x, lambda v: tf.cast(v, dtypes.bool))


def reduce_all(input_tensor: Any, axis: Any = None, keepdims: Any = None, name: str | None = None,
                reduction_indices: Any = None, keep_dims: Any = None) -> Any:
    """Logical and over an axis of a ragged tensor."""
    return _as_bool(reduce_prod(_as_int(input_tensor), axis, keepdims, name, reduction_indices, keep_dims))


def reduce_any(input_tensor: Any, axis: Any = None, keepdims: Any = None, name: str | None = None,
                reduction_indices: Any = None, keep_dims: Any = None) -> Any:
    """Logical or over an axis of a ragged tensor."""
    return _as_bool(reduce_sum(_as_int(input_tensor), axis, keepdims, name, reduction_indices, keep_dims))


def reduce_variance(input_tensor: Any, axis: Any = None, keepdims: Any = None, name: str | None = None) -> Any:
    """The mean of squares less the square of the mean, over an axis of a ragged tensor."""
    with tf.name_scope(name, "RaggedReduceVariance", []):
        square = tf.square(input_tensor)
        return tf.maximum(reduce_mean(square, axis, keepdims) - tf.square(reduce_mean(input_tensor, axis, keepdims)),
                          0)


def reduce_std(input_tensor: Any, axis: Any = None, keepdims: Any = None, name: str | None = None) -> Any:
    """The root of the variance, over an axis of a ragged tensor."""
    with tf.name_scope(name, "RaggedReduceStd", []):
        return tf.sqrt(reduce_variance(input_tensor, axis, keepdims))


def reduce_logsumexp(input_tensor: Any, axis: Any = None, keepdims: Any = None, name: str | None = None,
                     reduction_indices: Any = None, keep_dims: Any = None) -> Any:
    """log(sum(exp(x))) over an axis of a ragged tensor; -inf for rows without values."""
    axis = axis if reduction_indices is None else reduction_indices
    keepdims = bool(keepdims if keep_dims is None else keep_dims)
    with tf.name_scope(name, "RaggedReduceLogSumExp", []):
        over = [get_positive_axis(a, input_tensor.shape.ndims) for a in ([] if axis is None else tf.nest.flatten(axis))]
        if 0 in over and len(over) < input_tensor.shape.ndims:
            return _down_columns(input_tensor, axis, keepdims)
        top = _with_flat(reduce_max(input_tensor, axis, True), _finite_or_zero)
        kept = top if keepdims else _with_flat(reduce_max(input_tensor, axis, False), _finite_or_zero)
        total = reduce_sum(tf.exp(tf.subtract(input_tensor, top)), axis, keepdims)
        return tf.add(tf.math.log(total), kept)


def _down_columns(rt: Any, axis: Any, keepdims: bool) -> Any:
    """The same over the rows: their maxima do not broadcast to rows of several lengths. In float64, from one maximum."""
    top = _finite_or_zero(reduce_max(_with_flat(rt, lambda v: tf.cast(v, dtypes.float64))))
    total = reduce_sum(_with_flat(rt, lambda v: tf.exp(tf.cast(v, dtypes.float64) - top)), axis, keepdims)
    return _with_flat(total, lambda v: tf.cast(tf.math.log(v) + top, rt.dtype))


def _finite_or_zero(x: Any) -> Any:
    """Without gradient, the numbers that are finite, and in range for their type once exp is applied to differences."""
    lowest = tf.constant(x.dtype.min, x.dtype)
    return tf.stop_gradient(tf.where(tf.math.is_finite(x) & (x > lowest), x, tf.zeros_like(x)))


def softmax(logits: Any, axis: Any = None, name: str | None = None) -> Any:
    """Softmax over an axis of ragged logits."""
    axis = -1 if axis is None else axis
    with tf.name_scope(name, "RaggedSoftmax", []):
        shifted = tf.exp(tf.subtract(logits, reduce_max(logits, axis, keepdims=True)))
        return tf.divide(shifted, reduce_sum(shifted, axis, keepdims=True))


def cumsum(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> RaggedTensor:
    """Sums of the values up to each one, along an axis: padded with zeros unless the axis is inside of the flat values."""
    with tf.name_scope(name, "RaggedCumSum", [x]):
        axis = get_positive_axis(axis, x.shape.ndims)
        if axis > x.ragged_rank:
            return x.with_flat_values(tf.cumsum(x.flat_values, axis - x.ragged_rank, exclusive, reverse))
        summed = tf.cumsum(x.to_tensor(), axis, exclusive, reverse)
        return RaggedTensor.from_tensor(summed, lengths=x.nested_row_lengths(), row_splits_dtype=x.row_splits.dtype)
