"""Picking elements: where, take, nonzero."""
from __future__ import annotations

from typing import Any

import numpy as np

import penstock as tf
from penstock._src.library.numpy.types import name, promoted, static, tensor


@name("where")
def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Elements of `x` where the condition holds, else of `y`; without them, the positions where it holds."""
    condition = tf.cast(tensor(condition), tf.bool)
    if x is None and y is None:
        return nonzero(condition)
    if x is None or y is None:
        raise ValueError("Both x and y must be ndarrays, or both must be None.")
    return tf.where(condition, *promoted(x, y))


@name("nonzero")
def nonzero(a: Any) -> list:
    """The positions of what is not zero, one array for each axis."""
    a = tensor(a)
    if a.shape.rank == 0:
        a = tf.reshape(a, [1])
    return tf.unstack(tf.where(tf.cast(a, tf.bool)), a.shape.rank, axis=1)


@name("select")
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """For each element, the choice of the first condition that holds."""
    if len(condlist) != len(choicelist):
        raise ValueError(f"condlist and choicelist must have the same length ({len(condlist)} vs {len(choicelist)})")
    if not condlist:
        raise ValueError("condlist must be non-empty")
    *choices, out = promoted(*choicelist, default)
    for condition, choice in reversed(list(zip(condlist, choices, strict=True))):
        out = tf.where(tf.cast(tensor(condition), tf.bool), choice, out)
    return out


@name("take")
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "clip") -> Any:
    """Elements along an axis; indices beyond it are clipped, or wrapped around."""
    if out is not None:
        raise ValueError("out argument is not supported in take.")
    if mode not in ("raise", "clip", "wrap"):
        raise ValueError(f"Invalid mode '{mode}' for take")
    a, indices = tensor(a), tensor(indices)
    if axis is None:
        a, axis = tf.reshape(a, [-1]), 0
    size = tf.cast(tf.shape(a)[axis], indices.dtype)
    indices = tf.math.floormod(indices, size) if mode == "wrap" else tf.clip_by_value(indices, 0, size - 1) \
        if mode == "clip" else indices
    return tf.gather(a, indices, axis=axis)


@name("take_along_axis")
def take_along_axis(arr: Any, indices: Any, axis: Any) -> Any:
    """For each element of `indices`, the element of `arr` at that position of the axis."""
    arr, indices = tensor(arr), tensor(indices)
    if axis is None:
        return tf.gather(tf.reshape(arr, [-1]), tf.reshape(indices, [-1]))
    rank = arr.shape.rank
    if rank is None or indices.shape.rank is None:
        return _along_axis_of_any_rank(arr, indices, axis)
    if rank != indices.shape.rank:
        raise ValueError("`indices` and `arr` must have the same number of dimensions.")
    axis = axis % rank
    outer = [tf.maximum(a, b) if i != axis else None for i, (a, b) in enumerate(zip(
        tf.unstack(tf.shape(arr)), tf.unstack(tf.shape(indices)), strict=True))]
    arr = tf.broadcast_to(arr, [tf.shape(arr)[i] if d is None else d for i, d in enumerate(outer)])
    indices = tf.broadcast_to(indices, [tf.shape(indices)[i] if d is None else d for i, d in enumerate(outer)])
    indices = tf.where(indices < 0, indices + tf.cast(tf.shape(arr)[axis], indices.dtype), indices)
    order = [i for i in range(rank) if i != axis] + [axis]
    picked = tf.gather(tf.transpose(arr, order), tf.transpose(indices, order), batch_dims=rank - 1)
    return tf.transpose(picked, np.argsort(order))


def _along_axis_of_any_rank(arr: Any, indices: Any, axis: Any) -> Any:
    """`take_along_axis` where ranks are known only when it runs: the axis last, the others as one."""
    rank = tf.rank(arr)
    with tf.control_dependencies([tf.debugging.assert_equal(rank, tf.rank(indices))]):
        axis = tf.math.floormod(axis, rank)
    order = tf.concat([tf.range(axis), tf.range(axis + 1, rank), [axis]], 0)
    outer = tf.gather(tf.maximum(tf.shape(arr), tf.shape(indices)), order[:-1])

    def rows(x: Any) -> tuple[Any, Any]:
        dims = tf.concat([outer, [tf.shape(x)[axis]]], 0)
        return tf.reshape(tf.broadcast_to(tf.transpose(x, order), dims), [tf.reduce_prod(outer), dims[-1]]), dims
    (values, _), (places, dims) = rows(arr), rows(indices)
    places = tf.where(places < 0, places + tf.cast(tf.shape(values)[1], places.dtype), places)
    picked = tf.gather(values, places, batch_dims=1)
    return tf.transpose(tf.reshape(picked, dims), tf.math.invert_permutation(order))


@name("compress")
def compress(condition: Any, a: Any, axis: Any = None) -> Any:
    """Slices along an axis where the condition holds."""
    condition, a = tf.cast(tensor(condition), tf.bool), tensor(a)
    if condition.shape.rank != 1:
        raise ValueError("condition must be a 1-d array.")
    if axis is None:
        a, axis = tf.reshape(a, [-1]), 0
    axis = axis % a.shape.rank
    rest = tf.maximum(tf.shape(a)[axis] - tf.shape(condition)[0], 0)
    return tf.boolean_mask(a, tf.pad(condition, [[0, rest]]), axis=axis)


@name("ix_")
def ix_(*args: Any) -> list:
    """Index arrays that together pick a grid."""
    out = []
    for i, a in enumerate(args):
        a = tensor(a)
        if a.shape.rank != 1:
            raise ValueError(f"Arguments must be 1-d, got arg {i} of rank {a.shape.rank}")
        a = tf.reshape(tf.where(a), [-1]) if a.dtype == tf.bool else a
        if not a.dtype.is_integer:
            if static(tf.size(a)) == 0:
                a = tf.cast(a, tf.int64)
            else:
                raise ValueError("Only integer and bool dtypes are supported, got arg of type " + a.dtype.name)
        out.append(tf.reshape(a, [1] * i + [-1] + [1] * (len(args) - i - 1)))
    return out
