"""Shapes: reshaping, moving axes, repeating, padding."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import penstock as tf
from penstock._src.library.numpy.types import as_dtype, name, static, tensor, value


@name("shape")
def shape(a: Any) -> Any:
    """The shape: a TensorShape where it is known."""
    a = tensor(a)
    return a.shape if a.shape.is_fully_defined() else tf.shape(a)


@name("size")
def size(x: Any, axis: Any = None) -> Any:
    """The number of elements, a NumPy integer where it is known."""
    if axis is not None:
        raise NotImplementedError("axis argument is not supported in the current `np.size` implementation")
    if isinstance(x, (int, float, np.int32, np.int64, np.float32, np.float64)):
        return 1
    x = tensor(x)
    known = x.shape.num_elements()
    return tf.size(x) if known is None else np.int64(known)


@name("ndim")
def ndim(a: Any) -> Any:
    """The number of dimensions, an int where it is known."""
    a = tensor(a)
    return tf.rank(a) if a.shape.rank is None else a.shape.rank


@name("reshape")
def reshape(a: Any, newshape: Any, order: str = "C") -> Any:
    """The elements in another shape; with order F, the first axis varies fastest."""
    a = tensor(a)
    if order == "C":
        return tf.reshape(a, [newshape] if isinstance(newshape, int) else newshape)
    if order != "F":
        raise ValueError(f"Unsupported order argument `{order}`")
    newshape = [newshape] if isinstance(newshape, int) else newshape
    return tf.transpose(tf.reshape(tf.transpose(a), newshape[::-1]))


@name("ravel")
def ravel(a: Any) -> Any:
    """All elements in one dimension."""
    return tf.reshape(tensor(a), [-1])


@name("flatten")
def flatten(a: Any, order: str = "C") -> Any:
    """All elements in one dimension; order F goes column by column."""
    if order not in ("C", "A", "K", "F"):
        raise ValueError(f"order can only be C, A, K (all row major) or F (column major). Got {order}")
    return ravel(tf.transpose(tensor(a)) if order == "F" else a)


@name("expand_dims")
def expand_dims(a: Any, axis: Any) -> Any:
    """A dimension of size one."""
    return tf.expand_dims(tensor(a), axis)


@name("squeeze")
def squeeze(a: Any, axis: Any = None) -> Any:
    """Without dimensions of size one."""
    return tf.squeeze(tensor(a), axis)


@name("transpose")
def transpose(a: Any, axes: Any = None) -> Any:
    """Axes in another order."""
    return tf.transpose(tensor(a), None if axes is None else tensor(axes))


def _axes(axis: Any, rank: int) -> list:
    given = np.atleast_1d(np.asarray(static(axis))).tolist()
    for x in given:
        if not -rank <= x < rank:
            raise ValueError(f"axis {x} is out of bounds for an array of dimension {rank}")
    return [x % rank for x in given]


@name("moveaxis")
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """Axes moved to other positions."""
    a = tensor(a)
    if a.shape.rank is None:
        return tf.transpose(a, _moved(tf.rank(a), source, destination))
    source, destination = _axes(source, a.shape.rank), _axes(destination, a.shape.rank)
    if len(source) != len(destination):
        raise ValueError("The numbers of source and destination axes differ.")
    order = [i for i in range(a.shape.rank) if i not in source]
    for to, axis in sorted(zip(destination, source, strict=True)):
        order.insert(to, axis)
    return tf.transpose(a, order)


def _moved(rank: Any, source: Any, destination: Any) -> Any:
    """The order of axes after some have moved, for a rank that only the run knows."""
    source, destination = (tf.math.floormod(tf.reshape(tf.cast(v, tf.int32), [-1]), rank) for v in (source, destination))

    def others(axes: Any) -> Any:
        return tf.reshape(tf.where(tf.equal(tf.math.bincount(axes, minlength=rank, maxlength=rank), 0)), [-1])
    places = tf.concat([others(destination), tf.cast(destination, tf.int64)], 0)
    return tf.scatter_nd(places[:, None], tf.concat([tf.cast(others(source), tf.int32), source], 0),
                         tf.cast(rank[None], tf.int64))


@name("swapaxes")
def swapaxes(a: Any, axis1: Any, axis2: Any) -> Any:
    """Two axes exchanged."""
    a = tensor(a)
    if a.shape.rank is None:
        return tf.transpose(a, _moved(tf.rank(a), [axis1, axis2], [axis2, axis1]))
    order = list(range(a.shape.rank))
    (i,), (j,) = _axes(axis1, a.shape.rank), _axes(axis2, a.shape.rank)
    order[i], order[j] = order[j], order[i]
    return tf.transpose(a, order)


@name("flip")
def flip(m: Any, axis: Any = None) -> Any:
    """Reverses the order of elements."""
    m = tensor(m)
    if m.shape.rank is None:
        return tf.reverse(m, tf.range(tf.rank(m)) if axis is None else np.atleast_1d(np.asarray(static(axis))))
    return tf.reverse(m, list(range(m.shape.rank)) if axis is None else _axes(axis, m.shape.rank))


@name("flipud")
def flipud(m: Any) -> Any:
    """Rows in reverse order."""
    m = tensor(m)
    return m if m.shape.rank == 0 else flip(m, 0)


@name("fliplr")
def fliplr(m: Any) -> Any:
    """Columns in reverse order."""
    return flip(m, 1)


@name("rot90")
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    """Rotates by 90 degrees, `k` times."""
    m = tensor(m)
    if k % 4 == 0:
        return m
    i, j = axes if m.shape.rank is None else _axes(list(axes), m.shape.rank)
    if k % 4 == 2:
        return tf.reverse(m, [i, j])
    return swapaxes(tf.reverse(m, [j]), i, j) if k % 4 == 1 else tf.reverse(swapaxes(m, i, j), [j])


@name("roll")
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Rolls elements along an axis; those beyond the end reappear at the beginning."""
    a = tensor(a)
    if axis is not None:
        return tf.roll(a, shift, axis)
    return tf.reshape(tf.roll(tf.reshape(a, [-1]), shift, 0), tf.shape(a))


@name("broadcast_to")
def broadcast_to(array: Any, shape: Any) -> Any:
    """An array repeated to a shape."""
    return tf.broadcast_to(tensor(array), [shape] if isinstance(shape, int) else shape)


@name("broadcast_arrays")
def broadcast_arrays(*args: Any, **kwargs: Any) -> list:
    """Arrays repeated to the shape that they share."""
    if kwargs.get("subok"):
        raise ValueError(f"subok=True is not supported. Received: {kwargs}")
    arrays = [tensor(a) for a in args]
    common = tf.shape(arrays[0]) if arrays else None
    for a in arrays[1:]:
        common = tf.broadcast_dynamic_shape(common, tf.shape(a))
    return [tf.broadcast_to(a, common) for a in arrays]


def _at_least(count: int) -> None:
    def call(*arys: Any) -> Any:
        out = [_padded(tensor(a), count) for a in arys]
        return out[0] if len(out) == 1 else out
    call.__name__ = f"atleast_{count}d"
    call.__doc__ = f"Arrays of at least {count} dimension(s)."
    value(call, call.__name__)


def _padded(a: Any, count: int) -> Any:
    """The array with dimensions of size one: before its own up to the second, the third after them."""
    rank = tf.rank(a) if a.shape.rank is None else a.shape.rank
    missing = tf.maximum(count - rank, 0)
    before = tf.minimum(missing, tf.maximum(2 - rank, 0))
    return tf.reshape(a, tf.concat([tf.ones([before], tf.int32), tf.shape(a), tf.ones([missing - before], tf.int32)], 0)) \
        if a.shape.rank is None or a.shape.rank < count else a


for _count in (1, 2, 3):
    _at_least(_count)


@name("tile")
def tile(a: Any, reps: Any) -> Any:
    """An array repeated along each axis."""
    a, reps = tensor(a), np.atleast_1d(static(reps)) if not isinstance(static(reps), tf.Tensor) else reps
    count = len(reps) if isinstance(reps, np.ndarray) else reps.shape[0]
    rank = a.shape.rank
    if rank is None:
        missing = tf.rank(a) - tf.size(reps)
        a = tf.reshape(a, tf.concat([tf.ones([tf.maximum(-missing, 0)], tf.int32), tf.shape(a)], 0))
        return tf.tile(a, tf.concat([tf.ones([tf.maximum(missing, 0)], tf.int32), tf.cast(reps, tf.int32)], 0))
    if rank < count:
        a = tf.reshape(a, tf.concat([tf.ones([count - rank], tf.int32), tf.shape(a)], 0))
    elif count < rank:
        reps = tf.concat([tf.ones([rank - count], tf.int32), tf.cast(reps, tf.int32)], 0)
    return tf.tile(a, reps)


@name("repeat")
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    """Elements repeated."""
    return tf.repeat(tensor(a), tf.cast(tensor(repeats), tf.int32), axis=axis)


@name("pad")
def pad(array: Any, pad_width: Any, mode: str, **kwargs: Any) -> Any:
    """Pads with a constant, by reflection or symmetrically."""
    mode = mode.upper()
    if mode not in ("CONSTANT", "REFLECT", "SYMMETRIC"):
        raise ValueError(f"Unsupported padding mode: {mode}")
    array = tensor(array)
    widths = pad_width if isinstance(pad_width, tf.Tensor) else np.broadcast_to(np.asarray(pad_width), (array.shape.rank, 2))
    fill = tensor(kwargs.get("constant_values", 0), array.dtype)
    return tf.pad(array, tf.cast(widths, tf.int32), mode, fill)


def _triangle(title: str, keep: Callable) -> None:
    def call(m: Any, k: int = 0) -> Any:
        m = tensor(m)
        if m.shape.rank is None or m.shape.rank < 2:
            raise ValueError(f"Argument to {title} must have known rank of at least 2: {m.shape}")
        rows, columns = tf.unstack(tf.shape(m)[-2:])
        mask = keep(tf.range(columns)[None] - tf.range(rows)[:, None], k)
        return tf.where(mask, m, tf.zeros_like(m))
    call.__name__, call.__doc__ = title, f"NumPy's `{title}` on tensors."
    value(call, title)


_triangle("tril", tf.less_equal)
_triangle("triu", tf.greater_equal)


@name("diagonal")
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """A diagonal of two axes, as the last axis."""
    a = moveaxis(a, (axis1, axis2), (-2, -1))
    rows, columns = (None, None) if a.shape.rank is None else a.shape.as_list()[-2:]
    if rows is not None and columns is not None and not -rows < offset < columns:
        return tf.zeros([*a.shape.as_list()[:-2], 0], a.dtype)
    return tf.linalg.diag_part(a, k=offset)


@name("trace")
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    """The sum of a diagonal."""
    found = diagonal(a, offset, axis1, axis2)
    return tf.reduce_sum(found if dtype is None else tf.cast(found, as_dtype(dtype)), -1)
