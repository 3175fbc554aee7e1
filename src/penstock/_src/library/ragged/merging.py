"""Merging neighbouring dimensions of a ragged tensor into one."""
from __future__ import annotations

from typing import Any

from penstock._src.library.ragged.tensor import RaggedTensor
from penstock.compat import v1 as tf


def merge_dims(value: Any, outer_axis: int, inner_axis: int) -> Any:
    """`value` with the dimensions `outer_axis` to `inner_axis` merged; a plain tensor where no ragged one is left."""
    outer, inner = (_axis(value, axis, which) for axis, which in ((outer_axis, "outer_axis"), (inner_axis, "inner_axis")))
    if outer > inner:
        raise ValueError(f"Expected outer_axis ({outer_axis}) to be less than or equal to inner_axis ({inner_axis}).")
    return _merged(value, outer, inner)


def _axis(value: Any, axis: int, which: str) -> int:
    if not isinstance(axis, int):
        raise TypeError(f"{which} must be an int; got {axis!r}")
    rank = value.shape.rank
    if rank is None:
        if axis < 0:
            raise ValueError(f"{which}={axis}: must be >= 0, because the number of dimensions is unknown")
        return axis
    if not -rank <= axis < rank:
        raise ValueError(f"{which}={axis} out of bounds: expected -{rank}<={which}<{rank}")
    return axis % rank


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
