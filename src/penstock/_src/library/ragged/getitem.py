"""Indexing ragged tensors: rt[i], rt[i:j], rt[:, k], new axes, and so on."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.graph import context
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
    if used > rt.shape.ndims:
        raise IndexError(f"Too many indices for RaggedTensor: {used} for {rt.shape.ndims} dimensions")
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
    """One row. A row behind the last one is an IndexError when executing eagerly, as Python's loops expect."""
    splits = rt.row_splits
    starts, limits = splits[:-1], splits[1:]
    if isinstance(key, Tensor) or hasattr(key, "__index__") and not isinstance(key, bool):
        key = _index(key, dtypes.int64) if isinstance(key, Tensor) else key
    else:
        _index(key, splits.dtype)
    if context.executing_eagerly() and int(key) >= len(starts):
        raise IndexError(f"Row key {int(key)} out of bounds")
    start, limit = starts[key], limits[key]
    if isinstance(rt.values, RaggedTensor):
        return _sliced(rt.values, slice(start, limit))
    return rt.values[start:limit]


def _check_slice(key: slice, dtype: Any, message: str | None = None) -> None:
    for part, what in ((key.start, "offsets"), (key.stop, "offsets"), (key.step, "strides")):
        if part is not None:
            _index(part, dtype, message or f"slice {what} must be integers or None")


def _sliced(rt: RaggedTensor, key: slice) -> Any:
    """Some of the rows."""
    if key.start is None and key.stop is None and key.step is None:
        return rt
    _check_slice(key, rt.row_splits.dtype, _VALID)
    starts, limits = rt.row_splits[:-1][key], rt.row_splits[1:][key]
    if key.step is None or isinstance(key.step, int) and key.step == 1:
        zero = tf.zeros([1], starts.dtype)
        first, last = tf.concat([starts[:1], zero], 0)[0], tf.concat([zero, limits[-1:]], 0)[-1]
        values = _get(rt.values, [slice(first, last)]) if isinstance(rt.values, RaggedTensor) else rt.values[first:last]
        if rt.uniform_row_length is not None:
            return _uniform(values, rt.uniform_row_length, tf.size(starts, out_type=starts.dtype))
        splits = tf.concat([tf.zeros([1], starts.dtype), limits - first], 0)
        return RaggedTensor.from_row_splits(values, splits, validate=False)
    values = gather(rt.values, ragged_range(starts, limits).values)
    if rt.uniform_row_length is not None:
        return _uniform(values, rt.uniform_row_length, tf.size(starts, out_type=starts.dtype))
    return RaggedTensor.from_row_splits(values, lengths_to_splits(limits - starts), validate=False)


def _uniform(values: Any, length: Any, nrows: Any) -> RaggedTensor:
    """Rows of one length."""
    return RaggedTensor.from_uniform_row_length(values, length, nrows=nrows, validate=False)


def _columns(rt: RaggedTensor, keys: list) -> Any:
    """Keys after a slice act within each row."""
    if not keys:
        return rt
    first, rest = keys[0], keys[1:]
    if first is tf.newaxis:
        out = _uniform(rt, tf.ones([], rt.row_splits.dtype), rt.nrows())
        return out.with_values(_columns(out.values, rest)) if rest else out
    if not isinstance(first, slice):
        at = _index(first, rt.row_splits.dtype)
        if rt.uniform_row_length is None:
            raise ValueError("Cannot index into an inner ragged dimension.")
        return _within(_column(rt, at), rest)
    if first.start is None and first.stop is None and first.step is None:
        return rt.with_values(_within(rt.values, rest))
    sliced = _slice_rows(rt, first)
    return sliced.with_values(_within(sliced.values, rest))


def _within(values: Any, keys: list) -> Any:
    """Keys that act within each of the values."""
    if isinstance(values, RaggedTensor):
        return _columns(values, keys)
    return values[(slice(None), *keys)] if keys else values


def _column(rt: RaggedTensor, at: Any) -> Any:
    """One value of each row, of rows of one length; InvalidArgumentError out of bounds."""
    length, message = rt.uniform_row_length, "Index out of bounds when indexing into a ragged tensor"
    checks = [tf.debugging.assert_less(at, length, message=message),
              tf.debugging.assert_greater_equal(at, -length, message=message)]
    with tf.control_dependencies([c for c in checks if c is not None]):
        return gather(rt.values, rt.row_starts() + tf.where(at < 0, at + length, at))


def _slice_rows(rt: RaggedTensor, key: slice) -> RaggedTensor:
    """The same slice of every row."""
    _check_slice(key, rt.row_splits.dtype)
    lengths, starts, dtype = rt.row_lengths(), rt.row_starts(), rt.row_splits.dtype
    step = _index(1 if key.step is None else key.step, dtype)
    first, last = _bounds(key, lengths)
    where = ragged_range(starts + first, starts + last, tf.fill(tf.shape(lengths), step), row_splits_dtype=dtype)
    values = gather(rt.values, where.values)
    if rt.uniform_row_length is None:
        return where.with_values(values)
    return _uniform(values, _uniform_size(rt, key, step), rt.nrows())


def _uniform_size(rt: RaggedTensor, key: slice, step: Any) -> Any:
    """The length of a slice of each row, of rows of one length."""
    length = tf.get_static_value(rt.uniform_row_length)
    if length is not None and not any(isinstance(k, Tensor) for k in (key.start, key.stop, key.step)):
        return tf.constant(len(range(int(length))[key]), step.dtype)
    first, last = _bounds(key, rt.uniform_row_length)
    return tf.maximum((last - first + step - tf.sign(step)) // step, 0)


def _bounds(key: slice, lengths: Any) -> tuple:
    """Where a slice of rows of some lengths begins and ends."""
    zero = tf.zeros_like(lengths)

    def bound(value: Any, default: Any, lowest: Any, highest: Any) -> Any:
        if value is None:
            return default
        value = _index(value, lengths.dtype)
        value = value + tf.where(tf.fill(tf.shape(lengths), value < 0), lengths, zero)
        return tf.minimum(tf.maximum(value, lowest), highest)
    backwards = (bound(key.start, lengths - 1, zero - 1, lengths - 1), bound(key.stop, zero - 1, zero - 1, lengths - 1))
    forwards = bound(key.start, zero, zero, lengths), bound(key.stop, lengths, zero, lengths)
    negative = tf.get_static_value(_index(1 if key.step is None else key.step, lengths.dtype) < 0)
    if negative is not None:
        return backwards if negative else forwards
    return tuple(tf.where(key.step < 0, b, f) for b, f in zip(backwards, forwards, strict=True))
