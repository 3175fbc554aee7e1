"""Row splits and segment ids, and the small helpers that ragged ops share."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock.compat import v1 as tf


def get_positive_axis(axis: Any, ndims: int | None, what: str = "axis", rank: str = "ndims") -> int:
    """A Python int from 0 to ndims - 1. In messages the argument is called `what`, and its bound `rank`."""
    if not isinstance(axis, int) or isinstance(axis, bool):
        raise TypeError(f"{what} must be an int; got {type(axis).__name__}")
    if ndims is not None:
        if not -ndims <= axis < ndims:
            raise ValueError(f"{what}={axis} out of bounds: expected {-ndims}<={what}<{ndims}")
        return axis % ndims
    if axis < 0:
        shown = what if what == "axis" else f"{what}={axis}"        # as in TensorFlow 1.15 and in 2.x
        raise ValueError(f"{shown} may only be negative if {rank} is statically known.")
    return axis


@export("ragged.row_splits_to_segment_ids")
def row_splits_to_segment_ids(splits: Any, name: str | None = None, out_type: Any = None) -> Any:
    """[0, 3, 3, 5] → [0, 0, 0, 2, 2]: the row of each value."""
    with tf.name_scope(name, "RaggedSplitsToSegmentIds", [splits]):
        splits = convert(splits, name="splits", preferred_dtype=dtypes.int64)
        if splits.dtype not in (dtypes.int32, dtypes.int64):
            raise ValueError("splits must have dtype int32 or int64")
        splits.shape.assert_has_rank(1)
        if splits.static_dims == (0,):
            raise ValueError("Invalid row_splits: []")
        out_type = splits.dtype if out_type is None else dtypes.as_dtype(out_type)
        return tf.searchsorted(splits[1:], tf.range(splits[0], splits[-1]), "right", out_type=out_type)


@export("ragged.segment_ids_to_row_splits")
def segment_ids_to_row_splits(segment_ids: Any, num_segments: Any = None, out_type: Any = None,
                              name: str | None = None) -> Any:
    """[0, 0, 0, 2, 2] → [0, 3, 3, 5]."""
    with tf.name_scope(name, "SegmentIdsToRaggedSplits", [segment_ids]):
        ids = convert(segment_ids, name="segment_ids", preferred_dtype=dtypes.int64 if out_type is None else out_type)
        if out_type is None:
            out_type = dtypes.int32 if ids.dtype is dtypes.int32 else dtypes.int64
        out_type = dtypes.as_dtype(out_type)
        ids = int_tensor(ids, "segment_ids", ids.dtype if ids.dtype in (dtypes.int32, dtypes.int64) else dtypes.int64)
        ids.shape.assert_has_rank(1)
        count = None if num_segments is None else tf.cast(convert(num_segments), dtypes.int32)
        if count is not None:
            count.shape.assert_has_rank(0)
        lengths = tf.bincount(tf.cast(ids, dtypes.int32), minlength=count, maxlength=count, dtype=out_type)
        splits = tf.concat([tf.zeros([1], out_type), tf.cumsum(lengths)], 0)
        if num_segments is not None:
            known = constant_value(convert(num_segments))
            if known is not None:
                splits.set_shape([int(known) + 1])
        return splits


def repeat(data: Any, counts: Any, axis: int = 0) -> Any:
    """data[i] counts[i] times, along axis 0."""
    return tf.repeat(data, counts, axis=axis)


def lengths_to_splits(lengths: Any) -> Any:
    """Row splits from row lengths."""
    return tf.concat([tf.zeros([1], lengths.dtype), tf.cumsum(lengths)], 0)


def int_tensor(value: Any, name: str, dtype: Any = dtypes.int32) -> Any:
    """An integer tensor of `dtype`."""
    t = convert(value, name=name, preferred_dtype=dtype)
    if not t.dtype.is_integer:
        raise TypeError(f"Argument `tensor` (name: {name}) must be of type integer. Received {t.dtype.name}.")
    return tf.cast(t, dtype)
