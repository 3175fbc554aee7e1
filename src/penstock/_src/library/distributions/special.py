"""Functions of the normal and the Laplace distribution that stay accurate, and keep finite gradients, far from their centre."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf

# Beyond these, the direct formula loses the digits of a type: below `lower` the asymptotic series takes over, above `upper`
# log(1 - p) is -p.
_LOG_NDTR_RANGE = {np.float32: (-10.0, 5.0), np.float64: (-20.0, 8.0)}


def _floating(x: Any) -> Tensor:
    x = tf.convert_to_tensor(x, name="x")
    if x.dtype.as_numpy_dtype not in _LOG_NDTR_RANGE:
        raise TypeError(f"x.dtype={x.dtype} is not handled, see docstring for supported types.")
    return x


def ndtr(x: Any, name: str = "ndtr") -> Tensor:
    """The standard normal distribution function."""
    with tf.name_scope(name, values=[x]):
        x = _floating(x)
        half_sqrt_2 = tf.constant(0.5 * math.sqrt(2.0), x.dtype)
        w = x * half_sqrt_2
        z = tf.abs(w)
        tail = tf.where_v2(w > 0, 2.0 - tf.erfc(z), tf.erfc(z))
        return 0.5 * tf.where_v2(z < half_sqrt_2, 1.0 + tf.erf(w), tail)


def ndtri(p: Any, name: str = "ndtri") -> Tensor:
    """The quantile function of the standard normal distribution; its gradient is finite at 0 and 1, too."""
    with tf.name_scope(name, values=[p]):
        p = _floating(p)
        inside = (p > 0) & (p < 1)
        x = tf.math.ndtri(tf.where_v2(inside, p, tf.constant(0.5, p.dtype)))
        infinity = tf.constant(np.inf, p.dtype)
        return tf.where_v2(inside, x, tf.where_v2(tf.equal(p, 0), -infinity, tf.where_v2(
            tf.equal(p, 1), infinity, tf.constant(np.nan, p.dtype))))


def log_ndtr(x: Any, series_order: int = 3, name: str = "log_ndtr") -> Tensor:
    """The logarithm of the standard normal distribution function, by an asymptotic series of `series_order` far to the left."""
    if not isinstance(series_order, int):
        raise TypeError("series_order must be an int.")
    if not 0 <= series_order <= 30:
        raise ValueError("series_order must be non-negative." if series_order < 0 else "series_order must be <= 30.")
    with tf.name_scope(name, values=[x]):
        x = _floating(x)
        lower, upper = _LOG_NDTR_RANGE[x.dtype.as_numpy_dtype]
        middle = tf.log(ndtr(tf.maximum(x, tf.constant(lower, x.dtype))))
        return tf.where_v2(x > upper, -ndtr(-x), tf.where_v2(
            x > lower, middle, _log_ndtr_series(tf.minimum(x, tf.constant(lower, x.dtype)), series_order)))


def _log_ndtr_series(x: Tensor, order: int) -> Tensor:
    """log of phi(x) / -x * (1 - 1/x^2 + 3/x^4 - 15/x^6 ...)."""
    squared, total, power, double_factorial = tf.square(x), 1.0, 1.0, 1
    for n in range(1, order + 1):
        double_factorial *= -(2 * n - 1)
        power = power * squared
        total = total + double_factorial / power
    log_scale = -0.5 * squared - tf.log(-x) - 0.5 * math.log(2.0 * math.pi)
    return log_scale + tf.log(tf.convert_to_tensor(total, x.dtype))


def erfinv(x: Any, name: str = "erfinv") -> Tensor:
    """The inverse of the error function."""
    with tf.name_scope(name, values=[x]):
        x = _floating(x)
        return ndtri((x + 1.0) / 2.0) / math.sqrt(2.0)


def log_cdf_laplace(x: Any, name: str = "log_cdf_laplace") -> Tensor:
    """The logarithm of the standard Laplace distribution function."""
    with tf.name_scope(name, values=[x]):
        x = tf.convert_to_tensor(x, name="x")
        left = -math.log(2.0) + x
        right = tf.log1p(-0.5 * tf.exp(-tf.abs(x)))
        return tf.where_v2(x < 0, left, right)
