"""Reductions and elementwise functions. Their names are those of builtins, so this module uses none of them."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.models.keras.backend.config import floatx
from penstock.compat import v1 as tf


def _numbers(x: Any) -> Any:
    """Booleans as floats: they have no mean."""
    return tf.cast(x, floatx()) if x.dtype.base_dtype == tf.bool else x


@export("keras.backend.max")
def max(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The largest element along `axis`."""
    return tf.reduce_max(x, axis, keepdims)


@export("keras.backend.min")
def min(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The smallest element along `axis`."""
    return tf.reduce_min(x, axis, keepdims)


@export("keras.backend.sum")
def sum(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The sum along `axis`."""
    return tf.reduce_sum(x, axis, keepdims)


@export("keras.backend.prod")
def prod(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The product along `axis`."""
    return tf.reduce_prod(x, axis, keepdims)


@export("keras.backend.mean")
def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The mean along `axis`."""
    return tf.reduce_mean(_numbers(x), axis, keepdims)


@export("keras.backend.var")
def var(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The variance along `axis`."""
    return tf.math.reduce_variance(_numbers(x), axis=axis, keepdims=keepdims)


@export("keras.backend.std")
def std(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The standard deviation along `axis`."""
    return tf.math.reduce_std(_numbers(x), axis=axis, keepdims=keepdims)


@export("keras.backend.any")
def any(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether some element along `axis` is true."""
    return tf.reduce_any(tf.cast(x, tf.bool), axis, keepdims)


@export("keras.backend.all")
def all(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether all elements along `axis` are true."""
    return tf.reduce_all(tf.cast(x, tf.bool), axis, keepdims)


@export("keras.backend.argmax")
def argmax(x: Any, axis: int = -1) -> Any:
    """Where the largest element along `axis` is."""
    return tf.argmax(x, axis)


@export("keras.backend.argmin")
def argmin(x: Any, axis: int = -1) -> Any:
    """Where the smallest element along `axis` is."""
    return tf.argmin(x, axis)


@export("keras.backend.cumsum")
def cumsum(x: Any, axis: int = 0) -> Any:
    """The sums up to each element along `axis`."""
    return tf.cumsum(x, axis=axis)


@export("keras.backend.cumprod")
def cumprod(x: Any, axis: int = 0) -> Any:
    """The products up to each element along `axis`."""
    return tf.cumprod(x, axis=axis)


@export("keras.backend.logsumexp")
def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The logarithm of the sum of exponentials along `axis`."""
    return tf.reduce_logsumexp(x, axis, keepdims)


# -- elementwise --------------------------------------------------------------------------------------------------------
@export("keras.backend.square")
def square(x: Any) -> Any:
    """x * x."""
    return tf.square(x)


@export("keras.backend.abs")
def abs(x: Any) -> Any:
    """The absolute value."""
    return tf.abs(x)


@export("keras.backend.sqrt")
def sqrt(x: Any) -> Any:
    """The square root; that of a negative number is 0."""
    dtype = x.dtype.base_dtype
    return tf.sqrt(tf.clip_by_value(x, tf.constant(0., dtype), tf.constant(np.inf, dtype)))


@export("keras.backend.exp")
def exp(x: Any) -> Any:
    """The exponential."""
    return tf.exp(x)


@export("keras.backend.log")
def log(x: Any) -> Any:
    """The natural logarithm."""
    return tf.log(x)


@export("keras.backend.round")
def round(x: Any) -> Any:
    """The nearest integer, the even one of two."""
    return tf.round(x)


@export("keras.backend.sign")
def sign(x: Any) -> Any:
    """-1, 0 or 1."""
    return tf.sign(x)


@export("keras.backend.pow")
def pow(x: Any, a: Any) -> Any:
    """x to the power of a."""
    return tf.pow(x, a)


@export("keras.backend.sin")
def sin(x: Any) -> Any:
    """The sine."""
    return tf.sin(x)


@export("keras.backend.cos")
def cos(x: Any) -> Any:
    """The cosine."""
    return tf.cos(x)


@export("keras.backend.clip")
def clip(x: Any, min_value: Any, max_value: Any) -> Any:
    """Elements held between two values; None is no bound."""
    low = -np.inf if min_value is None else min_value
    high = np.inf if max_value is None else max_value
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and high < low:
        high = low
    dtype = x.dtype.base_dtype
    if dtype.is_integer:
        low, high = (v if np.isfinite(v) else end for v, end in ((low, dtype.min), (high, dtype.max)))
    return tf.clip_by_value(x, tf.cast(low, dtype), tf.cast(high, dtype))


@export("keras.backend.equal")
def equal(x: Any, y: Any) -> Any:
    """Whether elements are equal."""
    return tf.equal(x, y)


@export("keras.backend.not_equal")
def not_equal(x: Any, y: Any) -> Any:
    """Whether elements differ."""
    return tf.not_equal(x, y)


@export("keras.backend.greater")
def greater(x: Any, y: Any) -> Any:
    """Whether elements are greater."""
    return tf.greater(x, y)


@export("keras.backend.greater_equal")
def greater_equal(x: Any, y: Any) -> Any:
    """Whether elements are greater or equal."""
    return tf.greater_equal(x, y)


@export("keras.backend.less")
def less(x: Any, y: Any) -> Any:
    """Whether elements are smaller."""
    return tf.less(x, y)


@export("keras.backend.less_equal")
def less_equal(x: Any, y: Any) -> Any:
    """Whether elements are smaller or equal."""
    return tf.less_equal(x, y)


@export("keras.backend.maximum")
def maximum(x: Any, y: Any) -> Any:
    """The larger one of two elements."""
    return tf.maximum(x, y)


@export("keras.backend.minimum")
def minimum(x: Any, y: Any) -> Any:
    """The smaller one of two elements."""
    return tf.minimum(x, y)
