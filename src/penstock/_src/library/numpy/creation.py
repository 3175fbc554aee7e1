"""Arrays from shapes, ranges and other arrays."""
from __future__ import annotations

from typing import Any

import numpy as np

import penstock as tf
from penstock._src.library.numpy import types
from penstock._src.library.numpy.types import as_dtype, default_float, floating, name, promoted, result_type, static, tensor


@name("array")
def array(val: Any, dtype: Any = None, copy: bool = True, ndmin: int = 0) -> Any:
    """A tensor of a value, with NumPy's types.

    >>> tf.experimental.numpy.array([1, 2.5])
    """
    out = tensor(val, dtype)
    if copy and out is val:
        out = tf.identity(out)
    rank = tf.rank(out) if out.shape.rank is None else out.shape.rank
    if not ndmin or out.shape.rank is not None and rank >= ndmin:
        return out
    return tf.reshape(out, tf.concat([tf.ones([tf.maximum(ndmin - rank, 0)], tf.int32), tf.shape(out)], 0))


@name("asarray")
def asarray(a: Any, dtype: Any = None) -> Any:
    """The value itself if it is a tensor of the type, else array(a, dtype)."""
    return tensor(a, dtype)


@name("asanyarray")
def asanyarray(a: Any, dtype: Any = None) -> Any:
    """Same as asarray."""
    return tensor(a, dtype)


@name("ascontiguousarray")
def ascontiguousarray(a: Any, dtype: Any = None) -> Any:
    """An array of at least one dimension."""
    return array(a, dtype, ndmin=1)


@name("copy")
def copy(a: Any) -> Any:
    """A copy."""
    return array(a, copy=True)


def _dims(shape: Any) -> Any:
    return [shape] if isinstance(shape, (int, np.integer)) or isinstance(shape, tf.Tensor) and shape.shape.rank == 0 else shape


@name("zeros")
def zeros(shape: Any, dtype: Any = float) -> Any:
    """Zeros of a shape."""
    return tf.zeros(_dims(shape), as_dtype(dtype) or tf.as_dtype(default_float()))


@name("ones")
def ones(shape: Any, dtype: Any = float) -> Any:
    """Ones of a shape."""
    return tf.ones(_dims(shape), as_dtype(dtype) or tf.as_dtype(default_float()))


@name("empty")
def empty(shape: Any, dtype: Any = float) -> Any:
    """An array whose values do not matter; here they are zeros."""
    return zeros(shape, dtype)


@name("full")
def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """An array of one value."""
    return tf.broadcast_to(tensor(fill_value, dtype), _dims(shape))


def _like(a: Any, dtype: Any) -> tuple[Any, Any]:
    a = tensor(a)
    return a, as_dtype(dtype) or a.dtype


@name("zeros_like")
def zeros_like(a: Any, dtype: Any = None) -> Any:
    """Zeros with the shape of an array."""
    a, dtype = _like(a, dtype)
    return tf.zeros_like(a, dtype)


@name("ones_like")
def ones_like(a: Any, dtype: Any = None) -> Any:
    """Ones with the shape of an array."""
    a, dtype = _like(a, dtype)
    return tf.ones_like(a, dtype)


@name("empty_like")
def empty_like(a: Any, dtype: Any = None) -> Any:
    """Zeros with the shape of an array."""
    return zeros_like(a, dtype)


@name("full_like")
def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None) -> Any:
    """One value, with the shape of an array."""
    if order != "K":
        raise ValueError(f"Non-standard orders are not supported: {order!r}")
    if not subok:
        raise ValueError("subok being False is not supported.")
    a, dtype = _like(a, dtype)
    return tf.broadcast_to(tensor(fill_value, dtype), tf.shape(a) if shape is None else _dims(shape))


@name("eye")
def eye(N: Any, M: Any = None, k: int = 0, dtype: Any = float) -> Any:
    """Ones on diagonal `k`, zeros elsewhere."""
    rows, columns = int(static(N)), int(static(N if M is None else M))
    return tf.cast(tf.equal(tf.range(columns)[None] - tf.range(rows)[:, None], k), as_dtype(dtype) or default_float())


@name("identity")
def identity(n: Any, dtype: Any = float) -> Any:
    """The identity matrix."""
    return eye(n, dtype=dtype)


@name("tri")
def tri(N: Any, M: Any = None, k: int = 0, dtype: Any = None) -> Any:
    """Ones at and below diagonal `k`."""
    rows, columns = int(static(N)), int(static(N if M is None else M))
    return tf.cast(tf.range(columns)[None] - tf.range(rows)[:, None] <= k, as_dtype(dtype) or default_float())


@name("arange")
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    """Evenly spaced values of an interval."""
    if not np.any(static(step)):
        raise ValueError("step must be non-zero")
    kind = as_dtype(dtype) or tf.as_dtype(result_type(start, stop if stop is not None else start, step))
    if stop is None:
        start, stop = 0, start
    if all(not isinstance(v, tf.Tensor) for v in (start, stop, step)):
        return tensor(np.arange(start, stop, step), kind)
    return tf.cast(tf.range(tensor(start, kind), tensor(stop, kind), tensor(step, kind)), kind)


def _spaced(start: Any, stop: Any, num: int, endpoint: bool, axis: int) -> Any:
    """The interpolation weights in [0, 1], and `start` and `stop` with a new dimension."""
    start, stop = map(floating, promoted(start, stop))
    parts = max(num - 1 if endpoint else num, 1)
    steps = tf.cast(tf.range(num), start.dtype) / parts
    start, stop = start + tf.zeros_like(stop), stop + tf.zeros_like(start)
    rank = start.shape.rank
    axis = axis + rank + 1 if axis < 0 else axis
    steps = tf.reshape(steps, [-1] + [1] * (rank - axis))
    start, stop = tf.expand_dims(start, axis), tf.expand_dims(stop, axis)
    out = start + (stop - start) * steps
    if endpoint and num > 1:                      # exactly `stop`, without rounding errors
        out = tf.where(tf.equal(steps, 1), stop + tf.zeros_like(out), out)
    return out, (stop - start) / parts


@name("linspace")
def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = float,
             axis: int = 0) -> Any:
    """`num` evenly spaced values from `start` to `stop`."""
    out, step = _spaced(start, stop, int(num), endpoint, axis)
    out = tf.cast(out, as_dtype(dtype)) if dtype and dtype is not float else out
    return (out, step) if retstep else out


@name("logspace")
def logspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: float = 10.0, dtype: Any = None,
             axis: int = 0) -> Any:
    """Powers of `base` whose exponents are evenly spaced."""
    out = linspace(start, stop, num, endpoint, axis=axis)
    out = tf.pow(tf.constant(base, out.dtype), out)
    return out if dtype is None else tf.cast(out, as_dtype(dtype))


@name("geomspace")
def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Any:
    """Values with a constant ratio."""
    kind = as_dtype(dtype) or tf.as_dtype(types.canonical(np.result_type(result_type(start, stop), float)))
    start, stop = (tf.cast(tensor(v), default_float()) for v in (start, stop))
    start, stop = start + tf.zeros_like(stop), stop + tf.zeros_like(start)
    sign = tf.sign(start)
    out, _ = _spaced(tf.math.log(start * sign), tf.math.log(stop * sign), int(num), endpoint, axis)
    return tf.cast(tf.exp(out) * tf.expand_dims(sign, axis), kind)


@name("diag")
def diag(v: Any, k: int = 0) -> Any:
    """The diagonal of a matrix, or a matrix with a diagonal."""
    v = tensor(v)
    rank = v.shape.rank
    if rank is None:
        return tf.cond(tf.equal(tf.rank(v), 2), lambda: tf.linalg.diag_part(v, k=k), lambda: tf.linalg.diag(v, k=k))
    if rank not in (1, 2):
        raise ValueError(f"Input to diag must be 1d or 2d only. Got shape {v.shape}")
    if rank == 1:
        return tf.linalg.diag(v, k=k)
    rows, columns = v.shape.as_list()
    if rows is not None and columns is not None and not -rows < k < columns:
        return tf.zeros([0], v.dtype)
    return tf.linalg.diag_part(v, k=k)


@name("diagflat")
def diagflat(v: Any, k: int = 0) -> Any:
    """A matrix with the flat values as a diagonal."""
    return diag(tf.reshape(tensor(v), [-1]), k)


@name("diag_indices")
def diag_indices(n: Any, ndim: int = 2) -> tuple:
    """The positions of a diagonal."""
    if n < 0:
        raise ValueError(f"n argument to diag_indices must be nonnegative. Got {n}")
    if ndim < 0:
        raise ValueError(f"ndim argument to diag_indices must be nonnegative. Got {ndim}")
    return (tf.range(n),) * ndim


@name("vander")
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Columns that are powers of `x`."""
    x = tensor(x)
    if x.shape.rank not in (None, 1):
        raise ValueError(f"x must be a one-dimensional array. Got shape {x.shape}")
    n = tf.shape(x)[0] if N is None else N
    if N is not None and N < 0:
        raise ValueError("N must be nonnegative")
    powers = tf.range(n) if increasing else tf.range(n - 1, -1, -1)
    return tf.pow(x[:, None], tf.cast(powers, x.dtype)[None])


@name("meshgrid")
def meshgrid(*xi: Any, **kwargs: Any) -> list:
    """Coordinate matrices from coordinate vectors."""
    if kwargs.get("sparse") or kwargs.get("copy") is False:
        raise ValueError("meshgrid takes neither sparse=True nor copy=False")
    return tf.meshgrid(*(tensor(x) for x in xi), indexing=kwargs.get("indexing", "xy"))
