"""tf.experimental.numpy.random."""
from __future__ import annotations

from typing import Any

import numpy as np

import penstock as tf
from penstock._src.library.numpy.types import as_dtype, default_float, name, promoted, result_type


@name("random.seed")
def seed(s: Any) -> None:
    """Sets the seed of all random functions."""
    try:
        s = int(s)
    except TypeError:
        raise ValueError(f"Argument `s` got an invalid value {s}. Only integers are supported.") from None
    tf.random.set_seed(s)


def _shape(size: Any) -> Any:
    return [] if size is None else [size] if isinstance(size, (int, np.integer)) else size


@name("random.randn")
def randn(*args: int) -> Any:
    """Standard normal numbers of a shape given by the arguments."""
    return standard_normal(args)


@name("random.standard_normal")
def standard_normal(size: Any = None) -> Any:
    """Standard normal numbers."""
    return tf.random.normal(_shape(size), dtype=tf.as_dtype(default_float()))


@name("random.uniform")
def uniform(low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
    """Numbers between `low` and `high`."""
    kind = tf.as_dtype(default_float())
    low, high = (tf.cast(v, kind) for v in promoted(low, high))
    shape = tf.broadcast_dynamic_shape(tf.shape(low), tf.shape(high)) if size is None else _shape(size)
    return tf.random.uniform(shape, dtype=kind) * (high - low) + low


@name("random.random")
def random(size: Any = None) -> Any:
    """Numbers between 0 and 1."""
    return uniform(0.0, 1.0, size)


@name("random.rand")
def rand(*size: int) -> Any:
    """Numbers between 0 and 1, of a shape given by the arguments."""
    return uniform(0.0, 1.0, size)


@name("random.randint")
def randint(low: int, high: int | None = None, size: Any = None, dtype: Any = np.int64) -> Any:
    """Integers from `low` up to, not including, `high`."""
    if high is None:
        low, high = 0, low
    wanted = as_dtype(np.int64 if dtype is int else dtype)
    if not wanted.is_integer:
        raise ValueError(f"Argument `dtype` got an invalid value {dtype}. Only integer types are supported.")
    drawn = wanted if wanted in (tf.int32, tf.int64) else tf.int64
    return tf.cast(tf.random.uniform(_shape(size), low, high, dtype=drawn), wanted)


@name("random.poisson")
def poisson(lam: Any = 1.0, size: Any = None) -> Any:
    """Numbers of events where `lam` are expected."""
    shape = [] if size is None else _shape(size)
    out = tf.random.poisson(shape, tf.cast(lam, tf.as_dtype(default_float())), dtype=tf.float64)
    return tf.cast(out, tf.as_dtype(result_type(np.int64)))
