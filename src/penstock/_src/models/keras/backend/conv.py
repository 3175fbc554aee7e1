"""Convolutions and pools, over one, two or three spatial axes, with Keras' names for layouts and padding."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.models.keras.backend.config import checked_data_format
from penstock._src.models.keras.backend.tensors import int_shape, mixed_shape, temporal_padding
from penstock.compat import v1 as tf

_LAST = {1: "NWC", 2: "NHWC", 3: "NDHWC"}
_FIRST = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def layout(rank: int, data_format: Any) -> str:
    """TensorFlow's name for a layout of images with `rank` spatial axes."""
    return (_FIRST if checked_data_format(data_format) == "channels_first" else _LAST)[rank]


def padding_word(padding: str) -> str:
    """TensorFlow's name for 'same' or 'valid'."""
    if padding not in ("same", "valid"):
        raise ValueError(f"Invalid padding: {padding}")
    return padding.upper()


def _around(data_format: str, values: Any) -> list:
    """Strides or windows of spatial axes, with ones for batch and channels."""
    values = list(values)
    return [1, 1, *values] if data_format.startswith("NC") else [1, *values, 1]


def _numbers(value: Any, rank: int) -> tuple:
    return (value,) * rank if isinstance(value, int) else tuple(value)


OP_NAMES = {1: "conv1d", 2: "Conv2D", 3: "Conv3D"}          # the name of a layer's op, by rank


def _convolution(x: Any, kernel: Any, strides: Any, padding: str, data_format: Any, dilation_rate: Any, rank: int) -> Any:
    return tf.nn.convolution(x, kernel, padding_word(padding), strides=_numbers(strides, rank),
                             dilation_rate=_numbers(dilation_rate, rank), data_format=layout(rank, data_format))


@export("keras.backend.conv1d")
def conv1d(x: Any, kernel: Any, strides: Any = 1, padding: str = "valid", data_format: Any = None,
           dilation_rate: Any = 1) -> Any:
    """A convolution over one axis; padding may be 'causal', too: no output sees a later input."""
    if padding == "causal":
        before = (int_shape(kernel)[0] - 1) * (dilation_rate if isinstance(dilation_rate, int) else dilation_rate[0])
        if checked_data_format(data_format) == "channels_first":
            x = tf.pad(x, [[0, 0], [0, 0], [before, 0]])
        else:
            x = temporal_padding(x, (before, 0))
        padding = "valid"
    return _convolution(x, kernel, strides, padding, data_format, dilation_rate, 1)


@export("keras.backend.conv2d")
def conv2d(x: Any, kernel: Any, strides: Any = (1, 1), padding: str = "valid", data_format: Any = None,
           dilation_rate: Any = (1, 1)) -> Any:
    """A convolution over two axes."""
    return _convolution(x, kernel, strides, padding, data_format, dilation_rate, 2)


@export("keras.backend.conv3d")
def conv3d(x: Any, kernel: Any, strides: Any = (1, 1, 1), padding: str = "valid", data_format: Any = None,
           dilation_rate: Any = (1, 1, 1)) -> Any:
    """A convolution over three axes."""
    return _convolution(x, kernel, strides, padding, data_format, dilation_rate, 3)


def _output_dims(x: Any, output_shape: Any) -> Any:
    """The shape of a transposed convolution, with the batch size of `x` if it is not given."""
    if not isinstance(output_shape, (tuple, list)):
        return output_shape
    dims = list(output_shape)
    if dims[0] is None:
        dims[0] = tf.shape(x)[0]
    return tf.stack(dims) if any(not isinstance(d, int) for d in dims) else dims


@export("keras.backend.conv2d_transpose")
def conv2d_transpose(x: Any, kernel: Any, output_shape: Any, strides: Any = (1, 1), padding: str = "valid",
                     data_format: Any = None, dilation_rate: Any = (1, 1)) -> Any:
    """The transpose of a convolution over two axes; `kernel` is [height, width, out, in]."""
    form, dims = layout(2, data_format), _output_dims(x, output_shape)
    if tuple(dilation_rate) == (1, 1):
        return tf.nn.conv2d_transpose(x, kernel, dims, _around(form, strides), padding=padding_word(padding), data_format=form)
    if dilation_rate[0] != dilation_rate[1]:
        raise ValueError(f"conv2d_transpose takes the same dilation rate for both axes, got {dilation_rate}")
    if form == "NHWC":
        return tf.nn.atrous_conv2d_transpose(x, kernel, dims, rate=dilation_rate[0], padding=padding_word(padding))
    moved = tf.gather(dims, [0, 2, 3, 1])
    y = tf.nn.atrous_conv2d_transpose(tf.transpose(x, [0, 2, 3, 1]), kernel, moved, rate=dilation_rate[0],
                                      padding=padding_word(padding))
    return tf.transpose(y, [0, 3, 1, 2])


@export("keras.backend.conv3d_transpose")
def conv3d_transpose(x: Any, kernel: Any, output_shape: Any, strides: Any = (1, 1, 1), padding: str = "valid",
                     data_format: Any = None) -> Any:
    """The transpose of a convolution over three axes; `kernel` is [depth, height, width, out, in]."""
    form = layout(3, data_format)
    return tf.nn.conv3d_transpose(x, kernel, _output_dims(x, output_shape), _around(form, strides),
                                  padding=padding_word(padding), data_format=form)


@export("keras.backend.separable_conv1d")
def separable_conv1d(x: Any, depthwise_kernel: Any, pointwise_kernel: Any, strides: Any = 1, padding: str = "valid",
                     data_format: Any = None, dilation_rate: Any = 1) -> Any:
    """A convolution of each channel over one axis, then of channels with each other."""
    (stride,), (dilation,) = _numbers(strides, 1), _numbers(dilation_rate, 1)
    axis = 2 if checked_data_format(data_format) == "channels_first" else 1
    form = layout(2, data_format)
    y = tf.nn.separable_conv2d(tf.expand_dims(x, axis), tf.expand_dims(depthwise_kernel, 0),
                               tf.expand_dims(pointwise_kernel, 0), strides=_around(form, (stride, stride)),
                               padding=padding_word(padding), rate=(1, dilation), data_format=form)
    return tf.squeeze(y, [axis])


@export("keras.backend.separable_conv2d")
def separable_conv2d(x: Any, depthwise_kernel: Any, pointwise_kernel: Any, strides: Any = (1, 1), padding: str = "valid",
                     data_format: Any = None, dilation_rate: Any = (1, 1)) -> Any:
    """A convolution of each channel over two axes, then of channels with each other."""
    if len(strides) != 2:
        raise ValueError("`strides` must be a tuple of 2 integers.")
    form = layout(2, data_format)
    return tf.nn.separable_conv2d(x, depthwise_kernel, pointwise_kernel, strides=_around(form, strides),
                                  padding=padding_word(padding), rate=tuple(dilation_rate), data_format=form)


@export("keras.backend.depthwise_conv2d")
def depthwise_conv2d(x: Any, depthwise_kernel: Any, strides: Any = (1, 1), padding: str = "valid", data_format: Any = None,
                     dilation_rate: Any = (1, 1)) -> Any:
    """A convolution of each channel separately."""
    form = layout(2, data_format)
    return tf.nn.depthwise_conv2d(x, depthwise_kernel, strides=_around(form, strides), padding=padding_word(padding),
                                  rate=tuple(dilation_rate), data_format=form)


# -- pools --------------------------------------------------------------------------------------------------------------
def _pool(x: Any, pool_size: Any, strides: Any, padding: str, data_format: Any, pool_mode: str, rank: int) -> Any:
    form = layout(rank, data_format)
    for name, value in (("pool_size", pool_size), ("strides", strides)):
        if len(value) != rank:
            raise ValueError(f"`{name}` must be a tuple of {rank} integers.")
    functions = {(2, "max"): tf.nn.max_pool, (2, "avg"): tf.nn.avg_pool, (3, "max"): tf.nn.max_pool3d,
                 (3, "avg"): tf.nn.avg_pool3d}
    if (rank, pool_mode) not in functions:
        raise ValueError(f"Invalid pooling mode: {pool_mode}")
    return functions[rank, pool_mode](x, _around(form, pool_size), _around(form, strides), padding=padding_word(padding),
                                      data_format=form)


@export("keras.backend.pool2d")
def pool2d(x: Any, pool_size: Any, strides: Any = (1, 1), padding: str = "valid", data_format: Any = None,
           pool_mode: str = "max") -> Any:
    """The largest or the mean element of each window."""
    return _pool(x, pool_size, strides, padding, data_format, pool_mode, 2)


@export("keras.backend.pool3d")
def pool3d(x: Any, pool_size: Any, strides: Any = (1, 1, 1), padding: str = "valid", data_format: Any = None,
           pool_mode: str = "max") -> Any:
    """The largest or the mean element of each window."""
    return _pool(x, pool_size, strides, padding, data_format, pool_mode, 3)


# -- convolutions whose kernel differs from place to place ----------------------------------------------------------------
@export("keras.backend.local_conv")
def local_conv(inputs: Any, kernel: Any, kernel_size: Any, strides: Any, output_shape: Any, data_format: Any = None) -> Any:
    """A convolution with a separate kernel at each position: [places, window * channels, filters]."""
    first = checked_data_format(data_format) == "channels_first"
    _, features, filters = int_shape(kernel)
    rank, places = len(output_shape), tuple(int(d) for d in output_shape)
    dims = int_shape(inputs)
    space, channels = (dims[2:], dims[1]) if first else (dims[1:-1], dims[-1])
    windows = _windows(space, kernel_size, strides, places)             # [places, positions]
    flat = tf.reshape(inputs, [-1, channels, int(np.prod(space))] if first else [-1, int(np.prod(space)), channels])
    seen = tf.gather(flat, windows, axis=2 if first else 1)
    seen = tf.transpose(seen, [2, 0, 1, 3] if first else [1, 0, 2, 3])
    product = tf.matmul(tf.reshape(seen, [len(windows), -1, features]), kernel)           # [places, batch, filters]
    product = tf.reshape(product, [*places, mixed_shape(product)[1], filters])
    spatial = list(range(rank))
    return tf.transpose(product, [rank, rank + 1, *spatial] if first else [rank, *spatial, rank + 1])


def _windows(space: tuple, kernel_size: Any, strides: Any, places: tuple) -> Any:
    """The flat positions that each position sees."""
    grid = np.arange(int(np.prod(space))).reshape(space)
    found = [grid[tuple(slice(p * s, p * s + k) for p, s, k in zip(place, strides, kernel_size))].ravel()
             for place in itertools.product(*map(range, places))]
    return np.stack(found)


@export("keras.backend.local_conv1d")
def local_conv1d(inputs: Any, kernel: Any, kernel_size: Any, strides: Any, data_format: Any = None) -> Any:
    """A convolution over one axis with a separate kernel at each position."""
    return local_conv(inputs, kernel, kernel_size, strides, (int_shape(kernel)[0],), data_format)


@export("keras.backend.local_conv2d")
def local_conv2d(inputs: Any, kernel: Any, kernel_size: Any, strides: Any, output_shape: Any, data_format: Any = None) -> Any:
    """A convolution over two axes with a separate kernel at each position."""
    return local_conv(inputs, kernel, kernel_size, strides, output_shape, data_format)
