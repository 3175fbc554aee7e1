"""Merging neighbouring dimensions of a ragged tensor into one."""
from __future__ import annotations

from typing import Any

from penstock._src.library.ragged.segments import get_positive_axis
from penstock._src.library.ragged.tensor import RaggedTensor
from penstock.compat import v1 as tf


def merge_dims(value: Any, outer_axis: int, inner_axis: int) -> Any:
    """`value` with the dimensions `outer_axis` to `inner_axis` merged; a plain tensor where no ragged one is left."""
    rank = value.shape.rank
    outer, inner = get_positive_axis(outer_axis, rank, "outer_axis"), get_positive_axis(inner_axis, rank, "inner_axis")
    if outer > inner:
        raise ValueError(f"Expected outer_axis ({outer_axis}) to be less than or equal to inner_axis ({inner_axis}).")
    return _merged(value, outer, inner)


def _merged(value: Any, outer: int, inner: int) -> Any:
    if outer == inner:
        return value
    if not isinstance(value, RaggedTensor):
        sizes = tf.shape(value)
        return tf.reshape(value, tf.concat([sizes[:outer], [tf.reduce_prod(sizes[outer:inner + 1])], sizes[inner + 1:]], 0))
    if outer == 0:
        return _merged(value.values, 0, inner - 1)
    if outer > 1:
        return value.with_values(_merged(value.values, outer - 1, inner - 1))
    return _rows_merged(value, inner)


def _rows_merged(value: RaggedTensor, inner: int) -> RaggedTensor:
    """The dimensions 1 to `inner` merged: rows end where the last of their parts ends."""
    parts, splits = value.values, value.row_splits
    while inner > 1 and isinstance(parts, RaggedTensor):
        parts, splits, inner = parts.values, tf.gather(parts.row_splits, splits), inner - 1
    if inner > 1:
        each = tf.reduce_prod(tf.shape(parts, out_type=splits.dtype)[1:inner])
        parts, splits = _merged(parts, 0, inner - 1), splits * each
    return RaggedTensor.from_row_splits(parts, splits, validate=False)
