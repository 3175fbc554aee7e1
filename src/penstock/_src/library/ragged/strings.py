"""Joining strings along ragged dimensions."""
from __future__ import annotations

from typing import Any

from penstock._src.library.ragged.math import _segment_aggregate as segment_aggregate
from penstock._src.library.ragged.math import reduce_aggregate
from penstock.compat import v1 as tf


def reduce_join(inputs: Any, axis: Any = None, keepdims: Any = None, separator: str = "", name: str | None = None,
                reduction_indices: Any = None, keep_dims: Any = None) -> Any:
    """`tf.strings.reduce_join` of a ragged tensor: one string per row for the ragged dimension."""
    axis = axis if reduction_indices is None else reduction_indices
    keepdims = bool(keepdims if keep_dims is None else keep_dims)

    def dense(x: Any, a: Any, keepdims: Any = False, name: str | None = None) -> Any:
        return tf.strings.reduce_join(x, a, keepdims=bool(keepdims), separator=separator, name=name)

    def join(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
        return tf.strings.unsorted_segment_join(data, segment_ids, num_segments, separator, name)

    def segments(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
        return segment_aggregate(join, data, segment_ids, num_segments, name)
    return reduce_aggregate(dense, segments, inputs, axis, keepdims, name)
