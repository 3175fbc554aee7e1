"""Shapes, products of tensors, and moving elements around."""
from __future__ import annotations

from typing import Any

import numpy as np

import penstock
from penstock._src.base.api import export
from penstock._src.graph.scopes import name_scope, name_scope_v2
from penstock._src.models.keras.backend.config import checked_data_format
from penstock.compat import v1 as tf

export.value(name_scope, v1=["keras.backend.name_scope"])
export.value(name_scope_v2, v2=["keras.backend.name_scope"])


@export("keras.backend.shape")
def shape(x: Any) -> Any:
    """The shape, as a tensor."""
    return tf.shape(x)


@export("keras.backend.int_shape")
def int_shape(x: Any) -> tuple | Any:
    """The static shape as a tuple of integers and None; None if even the rank is unknown.

    >>> tf.keras.backend.int_shape(tf.keras.Input((3,)))
    (None, 3)
    """
    dims = x.shape
    if isinstance(dims, tuple):
        return dims
    return None if dims.rank is None else tuple(dims.as_list())


@export("keras.backend.ndim")
def ndim(x: Any) -> int | Any:
    """The number of axes."""
    dims = x.shape
    return len(dims) if isinstance(dims, tuple) else dims.rank


@export("keras.backend.dtype")
def dtype(x: Any) -> str:
    """The name of the dtype."""
    return x.dtype.base_dtype.name


@export("keras.backend.is_sparse")
def is_sparse(tensor: Any) -> bool:
    """Whether a tensor is a SparseTensor."""
    return isinstance(tensor, tf.SparseTensor)


@export("keras.backend.to_dense")
def to_dense(tensor: Any) -> Any:
    """A sparse tensor as a dense one; others as they are."""
    return tf.sparse_tensor_to_dense(tensor) if is_sparse(tensor) else tensor


@export("keras.backend.cast")
def cast(x: Any, dtype: Any) -> Any:
    """The elements as another type."""
    return tf.cast(x, dtype)


@export("keras.backend.identity")
def identity(x: Any, name: str | None = None) -> Any:
    """The same tensor under another name."""
    return tf.identity(x, name=name)


@export("keras.backend.zeros_like")
def zeros_like(x: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Zeros in the shape of `x`."""
    return tf.zeros_like(x, dtype=dtype, name=name)


@export("keras.backend.ones_like")
def ones_like(x: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Ones in the shape of `x`."""
    return tf.ones_like(x, dtype=dtype, name=name)


# -- products -----------------------------------------------------------------------------------------------------------
def mixed_shape(x: Any) -> list:
    """The sizes of the axes: integers where they are known, else scalar tensors."""
    dims = int_shape(x)
    if dims is None:
        raise ValueError(f"The rank of {x} must be known.")
    if None not in dims:
        return list(dims)
    sizes = tf.shape(x)
    return [sizes[i] if d is None else d for i, d in enumerate(dims)]


@export("keras.backend.dot")
def dot(x: Any, y: Any) -> Any:
    """The product of the last axis of `x` with the last but one of `y`.

    >>> tf.keras.backend.dot(tf.ones([2, 3, 4]), tf.ones([4, 5])).shape
    TensorShape([2, 3, 5])
    """
    if is_sparse(x):
        return tf.sparse_tensor_dense_matmul(x, y)
    if ndim(x) is None or (ndim(x) <= 2 and ndim(y) <= 2):
        return tf.matmul(x, y)
    dims, other = mixed_shape(x), mixed_shape(y)
    order = list(range(len(other)))
    order = [order.pop(-2), *order] if len(other) > 1 else order
    rows = other[-2] if len(other) > 1 else other[0]
    columns = tf.reshape(y if order == sorted(order) else tf.transpose(y, order), [rows, -1])
    flat = tf.matmul(tf.reshape(x, [-1, dims[-1]]), columns)
    return tf.reshape(flat, dims[:-1] + other[:-2] + other[-1:])


@export("keras.backend.batch_dot")
def batch_dot(x: Any, y: Any, axes: Any = None) -> Any:
    """The product of corresponding elements of two batches, over one axis of each.

    >>> tf.keras.backend.batch_dot(tf.ones([8, 3, 4]), tf.ones([8, 5, 4]), axes=2).shape
    TensorShape([8, 3, 5])
    """
    rank, other = ndim(x), ndim(y)
    if axes is None:
        axes = (rank - 1, other - 2)
    axes = [axes, axes] if isinstance(axes, int) else list(axes)
    a, b = (axis % n for axis, n in zip(axes, (rank, other)))
    if rank == 2 and other == 2:
        return tf.expand_dims(tf.reduce_sum(x * y if a == b else tf.transpose(x, [1, 0]) * y, b), 1)
    left, right = _last(x, a, rank), _last(y, b, other)
    dims, other_dims = mixed_shape(left), mixed_shape(right)
    if rank == 2:
        left = tf.expand_dims(left, 1)
    elif rank > 3:
        left = tf.reshape(left, [dims[0], -1, dims[-1]])
    if other == 2:
        right = tf.expand_dims(right, 1)
    elif other > 3:
        right = tf.reshape(right, [other_dims[0], -1, other_dims[-1]])
    product = tf.matmul(left, right, transpose_b=True)
    return tf.reshape(product, [dims[0], *dims[1:-1], *other_dims[1:-1]])


def _last(x: Any, axis: int, rank: int) -> Any:
    """`x` with one axis moved to the end."""
    if axis == rank - 1:
        return x
    return tf.transpose(x, [i for i in range(rank) if i != axis] + [axis])


@export("keras.backend.transpose")
def transpose(x: Any) -> Any:
    """The axes in reverse order."""
    return tf.transpose(x)


@export("keras.backend.gather")
def gather(reference: Any, indices: Any) -> Any:
    """Rows of `reference`."""
    return tf.gather(reference, indices)


# -- moving elements ------------------------------------------------------------------------------------------------------
@export("keras.backend.concatenate")
def concatenate(tensors: Any, axis: int = -1) -> Any:
    """Tensors concatenated along `axis`."""
    if axis < 0:
        axis = axis % ndim(tensors[0]) if ndim(tensors[0]) else 0
    if all(is_sparse(x) for x in tensors):
        return tf.sparse_concat(axis, tensors)
    return tf.concat([to_dense(x) for x in tensors], axis)


@export("keras.backend.reshape")
def reshape(x: Any, shape: Any) -> Any:
    """The same elements in another shape."""
    return tf.reshape(x, shape)


@export("keras.backend.permute_dimensions")
def permute_dimensions(x: Any, pattern: Any) -> Any:
    """The axes in another order."""
    return tf.transpose(x, perm=pattern)


@export("keras.backend.resize_images")
def resize_images(x: Any, height_factor: int, width_factor: int, data_format: str, interpolation: str = "nearest") -> Any:
    """Images made larger by whole factors."""
    if data_format not in ("channels_first", "channels_last"):
        raise ValueError(f"Invalid `data_format` argument: {data_format}")
    if interpolation not in ("nearest", "bilinear"):
        raise ValueError('interpolation should be one of "nearest" or "bilinear".')
    first = data_format == "channels_first"
    rows, columns = (2, 3) if first else (1, 2)
    dims = int_shape(x)
    size = tf.shape(x)[rows:columns + 1] * np.array([height_factor, width_factor], np.int32)
    if first:
        x = tf.transpose(x, [0, 2, 3, 1])
    x = penstock.image.resize(x, size, method=interpolation)
    if first:
        x = tf.transpose(x, [0, 3, 1, 2])
    known = [None] * 4
    for axis, factor in ((rows, height_factor), (columns, width_factor)):
        known[axis] = None if dims[axis] is None else dims[axis] * factor
    x.set_shape(known)
    return x


@export("keras.backend.resize_volumes")
def resize_volumes(x: Any, depth_factor: int, height_factor: int, width_factor: int, data_format: str) -> Any:
    """Volumes made larger by whole factors, elements repeated."""
    if data_format not in ("channels_first", "channels_last"):
        raise ValueError(f"Invalid data_format: {data_format}")
    first = 2 if data_format == "channels_first" else 1
    for axis, factor in enumerate((depth_factor, height_factor, width_factor), first):
        x = repeat_elements(x, factor, axis)
    return x


@export("keras.backend.repeat_elements")
def repeat_elements(x: Any, rep: int, axis: int) -> Any:
    """Each element along `axis` repeated.

    >>> tf.keras.backend.repeat_elements(tf.constant([[1, 2]]), 2, axis=1)      # [[1, 1, 2, 2]]
    """
    axis %= ndim(x)
    dims = mixed_shape(x)
    copies = tf.tile(tf.expand_dims(x, axis + 1), [rep if i == axis + 1 else 1 for i in range(len(dims) + 1)])
    return tf.reshape(copies, [d * rep if i == axis else d for i, d in enumerate(dims)])


@export("keras.backend.repeat")
def repeat(x: Any, n: Any) -> Any:
    """A matrix repeated along a new axis: [batch, n, size]."""
    if ndim(x) != 2:
        raise ValueError(f"repeat takes a 2D tensor, got {x}")
    return tf.tile(tf.expand_dims(x, 1), tf.stack([1, n, 1]))


@export("keras.backend.arange")
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = "int32") -> Any:
    """Evenly spaced integers."""
    if stop is None and start < 0:
        start = 0
    result = tf.range(start, limit=stop, delta=step, name="arange")
    return result if dtype == "int32" else tf.cast(result, dtype)


@export("keras.backend.tile")
def tile(x: Any, n: Any) -> Any:
    """The tensor repeated along its axes."""
    return tf.tile(x, [n] if isinstance(n, int) else n)


@export("keras.backend.flatten")
def flatten(x: Any) -> Any:
    """All elements on one axis."""
    return tf.reshape(x, [-1])


@export("keras.backend.batch_flatten")
def batch_flatten(x: Any) -> Any:
    """A matrix with one row for each element of the batch."""
    rest = (int_shape(x) or (None, None))[1:]
    size = tf.reduce_prod(tf.shape(x)[1:]) if None in rest else int(np.prod(rest))
    return tf.reshape(x, tf.stack([-1, size]) if not isinstance(size, int) else [-1, size])


@export("keras.backend.expand_dims")
def expand_dims(x: Any, axis: int = -1) -> Any:
    """A new axis of size 1."""
    return tf.expand_dims(x, axis)


@export("keras.backend.squeeze")
def squeeze(x: Any, axis: int) -> Any:
    """Without an axis of size 1."""
    return tf.squeeze(x, [axis])


@export("keras.backend.stack")
def stack(x: Any, axis: int = 0) -> Any:
    """Tensors along a new axis."""
    return tf.stack(x, axis=axis)


@export("keras.backend.one_hot")
def one_hot(indices: Any, num_classes: int) -> Any:
    """Indices as rows of zeros with a single one."""
    return tf.one_hot(indices, depth=num_classes, axis=-1)


@export("keras.backend.reverse")
def reverse(x: Any, axes: Any) -> Any:
    """Reversed along axes."""
    return tf.reverse(x, [axes] if isinstance(axes, int) else axes)


# -- padding ------------------------------------------------------------------------------------------------------------
@export("keras.backend.temporal_padding")
def temporal_padding(x: Any, padding: tuple = (1, 1)) -> Any:
    """Zeros before and after the middle axis."""
    if len(padding) != 2:
        raise ValueError(f"`padding` should have 2 elements, got {padding}")
    return tf.pad(x, [[0, 0], list(padding), [0, 0]])


def _spatial_padding(x: Any, padding: Any, data_format: Any, rank: int) -> Any:
    if len(padding) != rank or any(len(p) != 2 for p in padding):
        raise ValueError(f"`padding` should be {rank} pairs of integers, got {padding}")
    around = [list(p) for p in padding]
    around = [[0, 0], *around] if checked_data_format(data_format) == "channels_first" else [*around, [0, 0]]
    return tf.pad(x, [[0, 0], *around])


@export("keras.backend.spatial_2d_padding")
def spatial_2d_padding(x: Any, padding: tuple = ((1, 1), (1, 1)), data_format: Any = None) -> Any:
    """Zeros around images."""
    return _spatial_padding(x, padding, data_format, 2)


@export("keras.backend.spatial_3d_padding")
def spatial_3d_padding(x: Any, padding: tuple = ((1, 1), (1, 1), (1, 1)), data_format: Any = None) -> Any:
    """Zeros around volumes."""
    return _spatial_padding(x, padding, data_format, 3)

