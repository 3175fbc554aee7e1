"""Ragged tensors from nested Python lists, and placeholders for them."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.library.ragged.tensor import RaggedTensor
from penstock._src.library.ragged.value import RaggedTensorValue
from penstock.compat import v1 as tf


@export("ragged.constant")
def constant(pylist: Any, dtype: Any = None, ragged_rank: int | None = None, inner_shape: Any = None,
             name: str | None = None, row_splits_dtype: Any = dtypes.int64) -> Any:
    """A ragged tensor from nested lists.

    >>> tf.ragged.constant([[1, 2], [3], []])
    """
    with tf.name_scope(name, "RaggedConstant"):
        splits_dtype = dtypes.as_dtype(row_splits_dtype)

        def ragged(values: Any, splits: list) -> Any:
            return RaggedTensor.from_row_splits(values, tf.constant(splits, splits_dtype, name="row_splits"),
                                                validate=False)

        def values(v: Any, d: Any, shape: Any) -> Any:
            if shape is None or np.prod(shape):
                try:
                    return tf.constant(v, d, shape, name="values")
                except TypeError as e:
                    if d is not None:
                        raise
                    raise ValueError(f"Can't convert Python sequence with mixed types to Tensor: {e}") from None
            return tf.zeros(shape, d or dtypes.float32)
        return _build(ragged, values, pylist, dtype, ragged_rank, inner_shape)


@export(v1=["ragged.constant_value"])
def constant_value(pylist: Any, dtype: Any = None, ragged_rank: int | None = None, inner_shape: Any = None,
                   row_splits_dtype: Any = "int64") -> Any:
    """A RaggedTensorValue from nested lists."""
    splits_dtype = dtypes.as_dtype(row_splits_dtype).as_numpy_dtype
    dtype = dtype.as_numpy_dtype if isinstance(dtype, dtypes.DType) else dtype

    def ragged(values: Any, splits: list) -> Any:
        return RaggedTensorValue(values, np.array(splits, splits_dtype))

    def values(v: Any, d: Any, shape: Any) -> Any:
        out = np.array(v, d) if d is None or not np.issubdtype(np.dtype(d), np.unsignedinteger) else np.array(v).astype(d)
        if shape is not None:
            out = out.reshape(shape)
        return out
    return _build(ragged, values, pylist, dtype, ragged_rank, inner_shape)


def _build(ragged: Any, values: Any, pylist: Any, dtype: Any, ragged_rank: int | None, inner_shape: Any) -> Any:
    if hasattr(pylist, "tolist") and not isinstance(pylist, (list, tuple)):
        pylist = pylist.tolist()
    if not isinstance(pylist, (list, tuple)):
        if ragged_rank is not None and ragged_rank != 0:
            raise ValueError(f"Invalid pylist={pylist!r}: incompatible with ragged_rank={ragged_rank}")
        if inner_shape is not None and tuple(inner_shape):
            raise ValueError(f"Invalid pylist={pylist!r}: incompatible with dim(inner_shape)={len(inner_shape)}")
        return values(pylist, dtype, ())
    if ragged_rank is not None and ragged_rank < 0:
        raise ValueError(f"Invalid ragged_rank={ragged_rank}: must be nonnegative")
    depth, scalars = _depths(pylist)
    if scalars is not None:
        depth = scalars
    if ragged_rank is not None and (depth if scalars is not None else max(depth, ragged_rank + 1)) <= ragged_rank:
        raise ValueError(f"Invalid pylist={pylist!r}: pylist has scalar values depth {depth}, but ragged_rank={ragged_rank} "
                         f"requires scalar value depth greater than {ragged_rank}")
    if inner_shape is not None and scalars is not None and len(tuple(inner_shape)) >= depth:
        raise ValueError(f"Invalid pylist={pylist!r}: incompatible with dim(inner_shape)={len(tuple(inner_shape))}")
    if inner_shape is not None and ragged_rank is None and scalars is None and depth - 1 <= len(tuple(inner_shape)):
        return values(pylist, dtype, tuple(inner_shape))          # empty, and nothing is ragged: the shape is as given
    inner_shape, ragged_rank = _inner(pylist, depth, scalars, ragged_rank, inner_shape)
    return _nest(ragged, values, pylist, dtype, ragged_rank, inner_shape)


def _inner(pylist: Any, depth: int, scalars: Any, ragged_rank: Any, inner_shape: Any) -> tuple[tuple, int]:
    """The shape of the innermost values, and how many ragged dimensions there are."""
    if inner_shape is not None:
        inner_shape = tuple(int(d) for d in inner_shape)
        if ragged_rank is None:
            return inner_shape, max(0, depth - 1 - len(inner_shape))
        if scalars is not None and ragged_rank + len(inner_shape) + 1 != depth:
            raise ValueError(f"Invalid pylist={pylist!r}: incompatible with ragged_rank={ragged_rank} and "
                             f"dim(inner_shape)={len(inner_shape)}")
        return inner_shape, ragged_rank
    if ragged_rank is None:
        return (), depth - 1
    return _default_inner_shape(pylist, ragged_rank), ragged_rank


def _default_inner_shape(pylist: Any, ragged_rank: int) -> tuple:
    """The uniform shape below the ragged dimensions."""
    level = list(pylist)
    for _ in range(ragged_rank):
        level = [x for row in level for x in row]
    shape: list[int] = []
    while level and all(isinstance(x, (list, tuple, np.ndarray)) for x in level):
        sizes = {len(x) for x in level}
        if len(sizes) > 1:
            raise ValueError("inner values have inconsistent shape")
        shape.append(sizes.pop())
        level = [y for x in level for y in x]
    if any(isinstance(x, (list, tuple)) for x in level):
        raise ValueError("inner values have inconsistent shape")
    return tuple(shape)


def _nest(ragged: Any, values: Any, pylist: Any, dtype: Any, ragged_rank: int, inner_shape: tuple) -> Any:
    if ragged_rank == 0:
        return values(pylist, dtype, (len(pylist), *inner_shape))
    all_splits, level = [], list(pylist)
    for _ in range(ragged_rank):
        inner: list[Any]
        splits, inner = [0], []
        for row in level:
            if not isinstance(row, (list, tuple, np.ndarray)):
                raise ValueError(f"Invalid pylist={pylist!r}: incompatible with ragged_rank={ragged_rank}")
            inner.extend(row)
            splits.append(len(inner))
        all_splits.append(splits)
        level = inner
    out = values(level, dtype, (len(level), *inner_shape))
    for splits in reversed(all_splits):
        out = ragged(out, splits)
    return out


def _depths(item: Any) -> tuple[int, int | None]:
    """(depth of the deepest list, depth at which scalars are found or None); ValueError if scalars differ in depth."""
    if not isinstance(item, (list, tuple, np.ndarray)) or isinstance(item, np.ndarray) and item.ndim == 0:
        return 0, 0
    deepest, found = 1, None
    for child in item:
        d, s = _depths(child)
        if s is not None:
            if found is not None and found != s + 1:
                raise ValueError("all scalar values must have the same nesting depth")
            found = s + 1
        deepest = max(deepest, d + 1)
    if found is not None and deepest > found:
        raise ValueError(f"Invalid pylist={item!r}: empty list nesting is greater than scalar value nesting")
    return deepest, found


@export(v1=["ragged.placeholder"])
def placeholder(dtype: Any, ragged_rank: int, value_shape: Any = None, name: str | None = None) -> Any:
    """A ragged tensor that must be fed."""
    if context.executing_eagerly():
        raise RuntimeError("tf.ragged.placeholder is not compatible with eager execution.")
    if ragged_rank == 0:
        return tf.placeholder(dtype, value_shape, name)
    with tf.name_scope(name, "RaggedPlaceholder"):
        out = tf.placeholder(dtype, TensorShape([None]).concatenate(TensorShape(value_shape)), "flat_values")
        for i in reversed(range(ragged_rank)):
            out = RaggedTensor.from_row_splits(out, tf.placeholder(dtypes.int64, [None], f"row_splits_{i}"),
                                               validate=False)
        return out
