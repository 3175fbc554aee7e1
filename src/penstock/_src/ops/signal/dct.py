"""Cosine transforms, computed by Fourier transforms of twice the length."""
from __future__ import annotations

import math
from typing import Any

import penstock as tf
from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops.composite import dispatched


def _check(input: Tensor, type: int, n: int | None, axis: int, norm: str | None) -> None:
    if axis != -1:
        raise NotImplementedError(f"axis must be -1. Got: {axis}")
    if n is not None and n < 1:
        raise ValueError("n should be a positive integer or None")
    if type not in (1, 2, 3, 4):
        raise ValueError("The types of a DCT are I, II, III and IV.")
    if type == 1:
        if norm == "ortho":
            raise ValueError("Normalization is not supported for the Type-I DCT.")
        size = input.shape.static_dims[-1] if input.shape.rank else None
        if size is not None and size < 2:
            raise ValueError("Type-I DCT requires the dimension to be greater than one.")
    if norm not in (None, "ortho"):
        raise ValueError(f"Unknown normalization. Expected None or 'ortho', got: {norm}")


def _length(x: Tensor) -> Any:
    size = x.shape.static_dims[-1] if x.shape.rank else None
    return tf.shape(x)[-1] if size is None else size


def _resized(x: Tensor, n: int) -> Tensor:
    """The first `n` samples, with zeros where there are fewer."""
    x = x[..., :n]
    missing = n - _length(x)
    lead = tf.zeros([tf.rank(x) - 1, 2], dtypes.int32)
    return tf.pad(x, tf.concat([lead, [[0, missing]]], 0))


def _turn(length: Any, dtype: Any, sign: float) -> Tensor:
    """2 exp(sign i pi k / 2N) for k < N."""
    size = tf.cast(length, dtype)
    angle = tf.cast(tf.range(length), dtype) * (sign * math.pi * 0.5) / size
    return 2.0 * tf.exp(tf.complex(tf.zeros([], dtype), angle))


def _first_and_rest(first: Tensor, rest: Tensor, length: Any) -> Tensor:
    """[first, rest, rest, ...]."""
    return tf.concat([tf.reshape(first, [1]), tf.fill([length - 1], rest)], 0)


@export("signal.dct", v1=["spectral.dct"])
@dispatched
def dct(input: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None,
        name: str | None = None) -> Tensor:
    """The cosine transform of type I, II, III or IV over the last dimension, as scipy.fft.dct defines it.

    `n` truncates the signal or pads it with zeros; `norm="ortho"` makes the transform orthonormal.

    >>> tf.signal.dct([1., 2., 3., 4.])
    """
    input = convert(input)
    _check(input, type, n, axis, norm)
    with name_scope(name, "dct", [input]):
        if n is not None:
            input = _resized(input, n)
        return _transforms[type](input, norm)


def _dct1(x: Tensor, norm: str | None) -> Tensor:
    return tf.math.real(tf.signal.rfft(tf.concat([x, x[..., -2:0:-1]], axis=-1)))


def _dct2(x: Tensor, norm: str | None) -> Tensor:
    length = _length(x)
    spectrum = tf.signal.rfft(x, fft_length=[2 * length])[..., :length]
    result = tf.math.real(spectrum * _turn(length, x.dtype, -1.0))
    if norm == "ortho":
        first = 0.5 * tf.math.rsqrt(tf.cast(length, x.dtype))
        result *= _first_and_rest(first, first * math.sqrt(2.0), length)
    return result


def _dct3(x: Tensor, norm: str | None) -> Tensor:
    length = _length(x)
    size = tf.cast(length, x.dtype)
    if norm == "ortho":
        x *= _first_and_rest(tf.sqrt(size), tf.sqrt(size) * math.sqrt(0.5), length)
    else:
        x *= size
    spectrum = _turn(length, x.dtype, 1.0) * tf.complex(x, tf.zeros([], x.dtype))
    return tf.signal.irfft(spectrum, fft_length=[2 * length])[..., :length]


def _dct4(x: Tensor, norm: str | None) -> Tensor:
    length = _length(x)
    zeros = tf.zeros_like(x)
    result = _dct2(tf.concat([x, zeros], axis=-1), None)[..., 1::2]
    if norm == "ortho":
        result *= math.sqrt(0.5) * tf.math.rsqrt(tf.cast(length, x.dtype))
    return result


_transforms = {1: _dct1, 2: _dct2, 3: _dct3, 4: _dct4}


@export("signal.idct", v1=["spectral.idct"])
@dispatched
def idct(input: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None,
         name: str | None = None) -> Tensor:
    """The inverse of `dct` of the same type, up to a factor 2N (2N - 2 for type I) without `norm`."""
    _check(convert(input), type, n, axis, norm)
    return dct(input, type={1: 1, 2: 3, 3: 2, 4: 4}[type], n=n, axis=axis, norm=norm, name=name)
