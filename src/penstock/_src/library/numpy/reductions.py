"""Sums, means, extrema and counts over axes."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import penstock as tf
from penstock._src.library.numpy.types import as_dtype, default_float, floating, name, promoted, tensor, value


def _reducer(names: str, function: Callable, extrema: bool = False) -> Callable:
    """Exports a reduction that keeps the type of its array."""
    first = names.split()[0]

    def call(a: Any, axis: Any = None, keepdims: Any = None) -> Any:
        return function(tensor(a), axis, bool(keepdims))

    def with_out(a: Any, axis: Any = None, out: Any = None, keepdims: Any = None) -> Any:
        if out is not None:
            raise ValueError(f"{first} does not take `out`")
        return function(tensor(a), axis, bool(keepdims))
    call.__name__ = call.__qualname__ = first
    call.__doc__ = with_out.__doc__ = f"NumPy's `{first}` on tensors."
    value(call, first)
    for n in names.split()[1:]:
        with_out.__name__ = n
        value(with_out if extrema else call, n)
    return call


def _of_bool(of_bool: Callable, otherwise: Callable) -> Callable:
    return lambda x, axis, keepdims: (of_bool if x.dtype == tf.bool else otherwise)(x, axis, keepdims)


_max = _reducer("max amax", _of_bool(tf.reduce_any, tf.reduce_max), extrema=True)
_min = _reducer("min amin", _of_bool(tf.reduce_all, tf.reduce_min), extrema=True)
_reducer("any", lambda x, axis, keepdims: tf.reduce_any(tf.cast(x, tf.bool), axis, keepdims))
_reducer("all", lambda x, axis, keepdims: tf.reduce_all(tf.cast(x, tf.bool), axis, keepdims))
_reducer("ptp", lambda x, axis, keepdims: tf.reduce_max(x, axis, keepdims) - tf.reduce_min(x, axis, keepdims))


def _summed(a: Any, dtype: Any, unsigned: Any = tf.uint64) -> Any:
    """The array in the type that NumPy adds it up in: small integers and booleans as int64."""
    a = tensor(a)
    if dtype is not None:
        return tf.cast(a, as_dtype(dtype))
    if a.dtype == tf.bool or a.dtype.is_integer and a.dtype.size < 8:
        return tf.cast(a, unsigned if a.dtype.is_unsigned else tf.int64)
    return a


@name("sum")
def sum(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = None) -> Any:
    """The sum over axes."""
    return tf.reduce_sum(_summed(a, dtype), axis, bool(keepdims))


@name("prod")
def prod(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = None) -> Any:
    """The product over axes."""
    return tf.reduce_prod(_summed(a, dtype), axis, bool(keepdims))


@name("mean")
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = None) -> Any:
    """The mean over axes."""
    if out is not None:
        raise ValueError("mean does not take `out`")
    a = floating(a) if dtype is None else tf.cast(tensor(a), as_dtype(dtype))
    return tf.reduce_mean(a, axis, bool(keepdims))


@name("var")
def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: Any = None) -> Any:
    """The variance over axes."""
    if out is not None:
        raise ValueError("var does not take `out`")
    a = floating(a)
    kind = as_dtype(dtype)
    if kind is not None:
        a = tf.cast(a, kind if kind.is_floating or kind.is_complex else default_float())
    centre = tf.reduce_mean(a, axis, True)
    square = tf.math.real((a - centre) * tf.math.conj(a - centre)) if a.dtype.is_complex else tf.square(a - centre)
    total = tf.reduce_sum(square, axis, bool(keepdims))
    count = tf.cast(tf.size(a) // tf.maximum(tf.size(tf.reduce_sum(tf.zeros_like(square), axis)), 1), total.dtype)
    out = total / (count - tf.cast(ddof, total.dtype))
    return out if kind is None else tf.cast(out, kind)


@name("std")
def std(a: Any, axis: Any = None, keepdims: Any = None) -> Any:
    """The standard deviation over axes."""
    return tf.sqrt(var(a, axis, keepdims=keepdims))


@name("average")
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False) -> Any:
    """The weighted mean."""
    if axis is not None and not isinstance(axis, int):
        raise ValueError(f"Argument `axis` must be an integer. Received axis={axis} (of type {type(axis)})")
    a = floating(a)
    if weights is None:
        out = tf.reduce_mean(a, axis)
        total = tf.cast(tf.size(a) / tf.size(out), a.dtype) + tf.zeros_like(out)
        return (out, total) if returned else out
    a, weights = promoted(a, weights)
    if weights.shape.rank == 1 and a.shape.rank != 1:
        if axis is None:
            raise ValueError("Axis must be specified when shapes of a and weights differ.")
        axis = axis % a.shape.rank
        weights = tf.reshape(weights, [-1] + [1] * (a.shape.rank - axis - 1))
    weights = tf.broadcast_to(weights, tf.shape(a))
    total = tf.reduce_sum(weights, axis)
    out = tf.reduce_sum(a * weights, axis) / total
    return (out, total) if returned else out


def _without_nan(a: Any, instead: int) -> Any:
    a = tensor(a)
    return a if not a.dtype.is_floating else tf.where(tf.math.is_nan(a), tf.cast(instead, a.dtype), a)


@name("nansum")
def nansum(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Any:
    """The sum of what is not NaN."""
    return sum(_without_nan(a, 0), axis, dtype, keepdims)


@name("nanprod")
def nanprod(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Any:
    """The product of what is not NaN."""
    return prod(_without_nan(a, 1), axis, dtype, keepdims)


@name("nanmean")
def nanmean(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = None) -> Any:
    """The mean of what is not NaN."""
    a = tensor(a)
    if not a.dtype.is_floating:
        return mean(a, axis, dtype, keepdims=keepdims)
    total = floating(nansum(a, axis, dtype, keepdims))
    return total / tf.reduce_sum(tf.cast(~tf.math.is_nan(a), total.dtype), axis, bool(keepdims))


@name("count_nonzero")
def count_nonzero(a: Any, axis: Any = None) -> Any:
    """How many elements are not zero."""
    return tf.math.count_nonzero(tensor(a), axis)


def _arg(title: str, function: Callable) -> None:
    def call(a: Any, axis: Any = None) -> Any:
        a = tensor(a)
        a = tf.cast(a, tf.int8) if a.dtype == tf.bool else a
        return function(tf.reshape(a, [-1]) if axis is None else tf.reshape(a, [1]) if a.shape.rank == 0 else a, axis or 0) \
            if a.shape.rank != 0 else tf.constant(0, tf.int64)
    call.__name__, call.__doc__ = title, f"NumPy's `{title}` on tensors."
    value(call, title)


_arg("argmax", tf.argmax)
_arg("argmin", tf.argmin)


def _cumulative(title: str, function: Callable) -> None:
    def call(a: Any, axis: Any = None, dtype: Any = None) -> Any:
        a = _summed(a, dtype, unsigned=tf.int64)
        if axis is None:
            a, axis = tf.reshape(a, [-1]), 0
        if a.shape.rank is not None and not -a.shape.rank <= axis < a.shape.rank:
            raise ValueError(f"axis {axis} is out of bounds for an array of dimension {a.shape.rank}")
        return function(a, axis)
    call.__name__, call.__doc__ = title, f"NumPy's `{title}` on tensors."
    value(call, title)


_cumulative("cumsum", tf.cumsum)
_cumulative("cumprod", tf.math.cumprod)


@name("diff")
def diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    """Differences of neighbours, `n` times."""
    a = tensor(a)
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    rank = a.shape.rank
    if rank is not None and not -rank <= axis < rank:
        raise ValueError(f"Argument `axis` (received axis={axis}) is out of bounds for input of rank {rank}.")
    axis = axis % rank
    later, earlier = ((slice(None),) * axis + (s,) for s in (slice(1, None), slice(None, -1)))
    for _ in range(n):
        a = tf.not_equal(a[later], a[earlier]) if a.dtype == tf.bool else a[later] - a[earlier]
    return a
