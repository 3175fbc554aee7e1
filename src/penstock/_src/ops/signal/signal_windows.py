"""Window functions of signal processing."""
from __future__ import annotations

import math
from typing import Any

import penstock as tf
from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops.composite import dispatched


def _checked(window_length: Any, dtype: Any) -> tuple[Tensor, Any]:
    dtype = dtypes.as_dtype(dtype)
    if not dtype.is_floating:
        raise ValueError(f"dtype must be a floating point type. Found {dtype}")
    window_length = convert(window_length, dtypes.int32, name="window_length")
    window_length.shape.assert_has_rank(0)
    return window_length, dtype


def _one_or(window_length: Tensor, dtype: Any, window: Any) -> Tensor:
    """window(), or [1] for a window of length 1."""
    known = constant_value(window_length)
    if known is not None:
        return tf.ones([1], dtype) if known == 1 else window()
    return tf.cond(tf.equal(window_length, 1), lambda: tf.ones([1], dtype), window)


def _raised_cosine(window_length: Any, periodic: Any, dtype: Any, name: str | None, scope: str, a: float,
                   b: float) -> Tensor:
    with name_scope(name, scope, [window_length, periodic]):
        length, dtype = _checked(window_length, dtype)
        periodic = tf.cast(convert(periodic, dtypes.bool, name="periodic"), dtypes.int32)
        periodic.shape.assert_has_rank(0)
        even = 1 - tf.math.floormod(length, 2)

        def window() -> Tensor:
            period = tf.cast(length + periodic * even - 1, dtype)
            return a - b * tf.cos(2 * math.pi * tf.cast(tf.range(length), dtype) / period)
        return _one_or(length, dtype, window)


@export("signal.hann_window")
@dispatched
def hann_window(window_length: Any, periodic: Any = True, dtype: Any = dtypes.float32,
                name: str | None = None) -> Tensor:
    """The Hann window, 0.5 - 0.5 cos.

    >>> tf.signal.hann_window(8)
    """
    return _raised_cosine(window_length, periodic, dtype, name, "hann_window", 0.5, 0.5)


@export("signal.hamming_window")
@dispatched
def hamming_window(window_length: Any, periodic: Any = True, dtype: Any = dtypes.float32,
                   name: str | None = None) -> Tensor:
    """The Hamming window, 0.54 - 0.46 cos."""
    return _raised_cosine(window_length, periodic, dtype, name, "hamming_window", 0.54, 0.46)


@export("signal.kaiser_window")
@dispatched
def kaiser_window(window_length: Any, beta: Any = 12.0, dtype: Any = dtypes.float32,
                  name: str | None = None) -> Tensor:
    """The Kaiser window I0(beta sqrt(1 - x^2)) / I0(beta), x from -1 to 1."""
    with name_scope(name, "kaiser_window", [window_length, beta]):
        length, dtype = _checked(window_length, dtype)
        beta = tf.abs(convert(beta, dtype, name="beta"))

        def window() -> Tensor:
            half = (tf.cast(length, dtype) - 1) / 2
            x = (tf.cast(tf.range(length), dtype) - half) / half
            z = beta * tf.sqrt(tf.maximum(1 - x * x, 0))
            return tf.exp(z - beta) * tf.math.bessel_i0e(z) / tf.math.bessel_i0e(beta)
        return _one_or(length, dtype, window)


@export("signal.kaiser_bessel_derived_window")
@dispatched
def kaiser_bessel_derived_window(window_length: Any, beta: Any = 12.0, dtype: Any = dtypes.float32,
                                 name: str | None = None) -> Tensor:
    """The window whose squares are running sums of a Kaiser window: used with modified cosine transforms."""
    with name_scope(name, "kaiser_bessel_derived_window", [window_length, beta]):
        length, dtype = _checked(window_length, dtype)
        sums = tf.cumsum(kaiser_window(length // 2 + 1, beta, dtype=dtype))
        half = tf.sqrt(sums[:-1] / sums[-1])
        return tf.concat([half, tf.reverse(half, [0])], 0)


@export("signal.vorbis_window")
@dispatched
def vorbis_window(window_length: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """The window of Vorbis: sin(pi/2 sin^2(pi (k + 1/2) / N))."""
    with name_scope(name, "vorbis_window", [window_length]):
        length, dtype = _checked(window_length, dtype)
        k = tf.cast(tf.range(length), dtype)
        return tf.sin(math.pi / 2 * tf.square(tf.sin(math.pi * (k + 0.5) / tf.cast(length, dtype))))
