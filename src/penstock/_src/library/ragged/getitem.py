"""Indexing ragged tensors: rt[i], rt[i:j], rt[:, k], new axes, and so on."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.graph.node import Tensor
from penstock._src.library.ragged.array import expand_dims
from penstock._src.library.ragged.gather import gather
from penstock._src.library.ragged.ranges import ragged_range
from penstock._src.library.ragged.segments import lengths_to_splits
from penstock._src.library.ragged.tensor import RaggedTensor
from penstock._src.ops.composite import dispatched
from penstock.compat import v1 as tf


@dispatched
def ragged_getitem(rt: RaggedTensor, key: Any) -> Any:
    """The piece of `rt` that a key of ints, slices, newaxis and ellipsis names."""
    if not isinstance(rt, RaggedTensor):
        raise TypeError(f"Expected a RaggedTensor, got {type(rt).__name__}")       # dispatchers of libraries take it from here
    with tf.name_scope(None, "RaggedGetItem", [rt.flat_values]):
        keys = list(key) if isinstance(key, (list, tuple)) else [key]
        if Ellipsis in [k for k in keys if k is Ellipsis]:
            keys = _expanded(rt, keys)
        return _get(rt, keys)


def _expanded(rt: RaggedTensor, keys: list) -> list:
    """The ellipsis as full slices."""
    at = next(i for i, k in enumerate(keys) if k is Ellipsis)
    used = sum(k is not Ellipsis and k is not tf.newaxis for k in keys)
    if rt.shape.ndims is None:
        raise ValueError("Ellipsis not supported for unknown shape RaggedTensors")
    if sum(k is Ellipsis for k in keys) > 1:
        raise ValueError("Multiple ellipses are not allowed")
    return keys[:at] + [slice(None)] * max(0, rt.shape.ndims - used) + keys[at + 1:]


def _get(rt: Any, keys: list) -> Any:
    if not keys:
        return rt
    if not isinstance(rt, RaggedTensor):
        return rt[tuple(keys)]
    first, rest = keys[0], keys[1:]
    if first is tf.newaxis:
        inner = _get(rt, rest)
        return _expand(inner)
    if isinstance(first, slice):
        return _columns(_sliced(rt, first), rest)
    return _get(_row(rt, first), rest)


def _expand(value: Any) -> Any:
    return expand_dims(value, 0)


_VALID = ("Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 tensors are "
          "valid indices")


def _index(value: Any, dtype: Any, message: str = _VALID) -> Any:
    """An int or an integer scalar tensor as a row number."""
    if isinstance(value, Tensor) and value.dtype.is_integer:
        return tf.cast(value, dtype)
    if isinstance(value, (bool, Tensor)) or not hasattr(value, "__index__"):
        raise TypeError(f"{message} (got {value!r})")
    return tf.constant(value.__index__(), dtype)


def _row(rt: RaggedTensor, key: Any) -> Any:
    """One row. Out of bounds fails as indexing a dense tensor does."""
    splits = rt.row_splits
    starts, limits = splits[:-1], splits[1:]
    if isinstance(key, Tensor) or hasattr(key, "__index__") and not isinstance(key, bool):
        key = _index(key, dtypes.int64) if isinstance(key, Tensor) else key
    else:
        _index(key, splits.dtype)
    start, limit = starts[key], limits[key]
    if isinstance(rt.values, RaggedTensor):
        return _sliced(rt.values, slice(start, limit))
    return rt.values[start:limit]


def _check_slice(key: slice, dtype: Any) -> None:
    for part, what in ((key.start, "offsets"), (key.stop, "offsets"), (key.step, "strides")):
        if part is not None:
            _index(part, dtype, f"slice {what} must be integers or None")


def _sliced(rt: RaggedTensor, key: slice) -> Any:
    """Some of the rows."""
    if key.start is None and key.stop is None and key.step is None:
        return rt
    _check_slice(key, rt.row_splits.dtype)
    starts, limits = rt.row_splits[:-1][key], rt.row_splits[1:][key]
    if key.step is None or isinstance(key.step, int) and key.step == 1:
        zero = tf.zeros([1], starts.dtype)
        first, last = tf.concat([starts[:1], zero], 0)[0], tf.concat([zero, limits[-1:]], 0)[-1]
        values = _get(rt.values, [slice(first, last)]) if isinstance(rt.values, RaggedTensor) else rt.values[first:last]
        splits = tf.concat([tf.zeros([1], starts.dtype), limits - first], 0)
        return RaggedTensor.from_row_splits(values, splits, validate=False)
    values = gather(rt.values, ragged_range(starts, limits).values)
    return RaggedTensor.from_row_splits(values, lengths_to_splits(limits - starts), validate=False)


def _columns(rt: RaggedTensor, keys: list) -> Any:
    """Keys after a slice act within each row."""
    if not keys:
        return rt
    first, rest = keys[0], keys[1:]
    if first is tf.newaxis:
        n = rt.nrows()
        out = RaggedTensor.from_row_splits(rt, tf.range(n + 1), validate=False)
        return out.with_values(_columns(out.values, rest)) if rest else out
    if not isinstance(first, slice):
        _index(first, rt.row_splits.dtype)
        raise ValueError("Cannot index into an inner ragged dimension.")
    if first.start is None and first.stop is None and first.step is None:
        inner = _columns(rt.values, rest) if isinstance(rt.values, RaggedTensor) else \
            rt.values[(slice(None), *rest)] if rest else rt.values
        return rt.with_values(inner)
    sliced = _slice_rows(rt, first)
    inner = _columns(sliced.values, rest) if isinstance(sliced.values, RaggedTensor) else \
        sliced.values[(slice(None), *rest)] if rest else sliced.values
    return sliced.with_values(inner)


def _slice_rows(rt: RaggedTensor, key: slice) -> RaggedTensor:
    """The same slice of every row."""
    _check_slice(key, rt.row_splits.dtype)
    lengths = rt.row_lengths()
    step = 1 if key.step is None else key.step
    dtype = rt.row_splits.dtype
    starts = rt.row_starts()
    step_t = _index(step, dtype)
    backwards = isinstance(step, int) and step < 0
    zero = tf.zeros_like(lengths)

    def bound(value: Any, default: Any, lowest: Any, highest: Any) -> Any:
        if value is None:
            return default
        value = _index(value, dtype)
        value = value + tf.where(tf.fill(tf.shape(lengths), value < 0), lengths, zero)
        return tf.minimum(tf.maximum(value, lowest), highest)
    if backwards:
        first = bound(key.start, lengths - 1, zero - 1, lengths - 1)
        last = bound(key.stop, zero - 1, zero - 1, lengths - 1)
    else:
        first = bound(key.start, zero, zero, lengths)
        last = bound(key.stop, lengths, zero, lengths)
    where = ragged_range(starts + first, starts + last, tf.fill(tf.shape(lengths), step_t), row_splits_dtype=dtype)
    return where.with_values(gather(rt.values, where.values))
