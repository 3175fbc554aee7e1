"""Convolutions of one to three dimensions: plain, transposed, separable, in plane."""
from __future__ import annotations

from typing import Any

from penstock._src.compat.contrib.layers.initializers import xavier_initializer
from penstock._src.compat.contrib.layers.support import (
    channel_dimension,
    check_format,
    finish,
    last_dimension,
    layer,
    n_positive_integers,
    two_element_tuple,
    weight,
)
from penstock._src.graph.node import Tensor
from penstock._src.models.keras.backend.conv import OP_NAMES
from penstock.compat import v1 as tf

_XAVIER, _ZEROS = xavier_initializer(), tf.zeros_initializer()
_FORMATS = (None, "NWC", "NCW", "NHWC", "NCHW", "NDHWC", "NCDHW")


def _first(data_format: str | None) -> bool:
    return bool(data_format) and data_format.startswith("NC")


def _normalized(outputs: Tensor, channels: int, channels_first: bool, normalizer_fn: Any, normalizer_params: Any,
                biases_initializer: Any, biases_regularizer: Any, variables_collections: Any, trainable: bool) -> Tensor:
    """The normalizer, or else the biases."""
    if normalizer_fn is not None:
        return normalizer_fn(outputs, **normalizer_params or {})
    if biases_initializer is None:
        return outputs
    biases = weight("biases", "biases", [channels], outputs.dtype.base_dtype, biases_initializer, biases_regularizer,
                    variables_collections, trainable)
    return tf.nn.bias_add(outputs, biases, data_format="NCHW" if channels_first else "NHWC")


@layer("convolution")
def convolution(inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME",
                data_format: str | None = None, rate: Any = 1, activation_fn: Any = tf.nn.relu, normalizer_fn: Any = None,
                normalizer_params: Any = None, weights_initializer: Any = _XAVIER, weights_regularizer: Any = None,
                biases_initializer: Any = _ZEROS, biases_regularizer: Any = None, reuse: Any = None,
                variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True, scope: Any = None,
                conv_dims: int | None = None) -> Tensor:
    """A convolution over as many dimensions as the inputs have, with biases or a normalizer, and an activation.

    >>> tf.contrib.layers.conv2d(tf.ones([1, 8, 8, 3]), 16, [3, 3])
    """
    if data_format not in _FORMATS:
        raise ValueError(f"Invalid data_format: {data_format!r}")
    with tf.variable_scope(scope, "Conv", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if conv_dims is not None and conv_dims + 2 != rank:
            raise ValueError(f"Convolution expects input with rank {conv_dims + 2}, got {rank}")
        if rank not in (3, 4, 5):
            raise ValueError(f"Convolution not supported for input with rank {rank}")
        first, n = _first(data_format), rank - 2
        channels = channel_dimension(inputs.shape, "channels_first" if first else "channels_last", min_rank=rank)
        kernel = weight("weights", "weights", [*n_positive_integers(n, kernel_size), channels, num_outputs],
                        inputs.dtype.base_dtype, weights_initializer, weights_regularizer, variables_collections, trainable)
        spatial = {1: "W", 2: "HW", 3: "DHW"}[n]
        outputs = tf.nn.convolution(inputs, kernel, padding=padding.upper(), strides=n_positive_integers(n, stride),
                                    dilation_rate=n_positive_integers(n, rate),
                                    data_format=f"NC{spatial}" if first else f"N{spatial}C", name=OP_NAMES[n])
        outputs = _normalized(outputs, num_outputs, first, normalizer_fn, normalizer_params, biases_initializer,
                              biases_regularizer, variables_collections, trainable)
        return finish(outputs, activation_fn, outputs_collections, sc.name)


def _of_rank(dims: int, *names: str) -> Any:
    """`convolution` for inputs of one rank: its own layer, whose arguments have their own scope."""
    def made(inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME",
             data_format: str | None = None, rate: Any = 1, activation_fn: Any = tf.nn.relu, normalizer_fn: Any = None,
             normalizer_params: Any = None, weights_initializer: Any = _XAVIER, weights_regularizer: Any = None,
             biases_initializer: Any = _ZEROS, biases_regularizer: Any = None, reuse: Any = None,
             variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
             scope: Any = None) -> Tensor:
        return convolution(inputs, num_outputs, kernel_size, stride, padding, data_format, rate, activation_fn, normalizer_fn,
                           normalizer_params, weights_initializer, weights_regularizer, biases_initializer, biases_regularizer,
                           reuse, variables_collections, outputs_collections, trainable, scope, conv_dims=dims)

    made.__name__, made.__qualname__, made.__doc__ = names[0], names[0], convolution.__doc__
    return layer(*names)(made)


convolution1d = _of_rank(1, "convolution1d", "conv1d")
convolution2d = _of_rank(2, "convolution2d", "conv2d")
convolution3d = _of_rank(3, "convolution3d", "conv3d")


def _transposed(dims: int, default_scope: str, formats: tuple[str, str], *names: str) -> Any:
    def made(inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME",
             data_format: str = formats[1], activation_fn: Any = tf.nn.relu, normalizer_fn: Any = None,
             normalizer_params: Any = None, weights_initializer: Any = _XAVIER, weights_regularizer: Any = None,
             biases_initializer: Any = _ZEROS, biases_regularizer: Any = None, reuse: Any = None,
             variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
             scope: Any = None) -> Tensor:
        with tf.variable_scope(scope, default_scope, [inputs], reuse=reuse) as sc:
            check_format(data_format, formats)
            inputs = tf.convert_to_tensor(inputs)
            first = _first(data_format)
            channels = channel_dimension(inputs.shape, "channels_first" if first else "channels_last", min_rank=dims + 2)
            kernel_size, stride = n_positive_integers(dims, kernel_size), n_positive_integers(dims, stride)
            kernel = weight("weights", "weights", [*kernel_size, num_outputs, channels], inputs.dtype.base_dtype,
                            weights_initializer, weights_regularizer, variables_collections, trainable)
            outputs = _transposed_convolution(inputs, kernel, num_outputs, kernel_size, stride, padding.upper(), first,
                                              data_format)
            outputs = _normalized(outputs, num_outputs, first, normalizer_fn, normalizer_params, biases_initializer,
                                  biases_regularizer, variables_collections, trainable)
            return finish(outputs, activation_fn, outputs_collections, sc.name)

    made.__name__ = made.__qualname__ = names[0]
    made.__doc__ = f"A transposed convolution of {dims} dimensions: the gradient of a convolution, as a layer."
    return layer(*names)(made)


def _transposed_convolution(inputs: Tensor, kernel: Any, num_outputs: int, kernel_size: tuple, stride: tuple, padding: str,
                            first: bool, data_format: str) -> Tensor:
    dims = len(stride)
    start = 2 if first else 1
    static, dynamic = inputs.shape.as_list(), tf.shape(inputs)

    def length(i: int) -> Any:
        size = static[start + i] if static[start + i] is not None else dynamic[start + i]
        return size * stride[i] + (max(kernel_size[i] - stride[i], 0) if padding == "VALID" else 0)

    lengths = [length(i) for i in range(dims)]
    batch = static[0] if static[0] is not None else dynamic[0]
    shape = [batch, num_outputs, *lengths] if first else [batch, *lengths, num_outputs]
    transpose = tf.nn.conv2d_transpose if dims == 2 else tf.nn.conv3d_transpose
    strides = [1, 1, *stride] if first else [1, *stride, 1]
    outputs = transpose(inputs, kernel, tf.stack(shape) if any(tf.is_tensor(s) for s in shape) else shape, strides,
                        padding=padding, data_format=data_format)
    outputs.set_shape([s if isinstance(s, int) else None for s in shape])
    return outputs


convolution2d_transpose = _transposed(2, "Conv2d_transpose", ("NCHW", "NHWC"), "convolution2d_transpose", "conv2d_transpose")
convolution3d_transpose = _transposed(3, "Conv3d_transpose", ("NCDHW", "NDHWC"), "convolution3d_transpose", "conv3d_transpose")


@layer("convolution2d_in_plane", "conv2d_in_plane")
def convolution2d_in_plane(inputs: Any, kernel_size: Any, stride: Any = 1, padding: str = "SAME",
                           activation_fn: Any = tf.nn.relu, normalizer_fn: Any = None, normalizer_params: Any = None,
                           weights_initializer: Any = _XAVIER, weights_regularizer: Any = None,
                           biases_initializer: Any = _ZEROS, biases_regularizer: Any = None, reuse: Any = None,
                           variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
                           scope: Any = None) -> Tensor:
    """The same small filter on each channel by itself."""
    with tf.variable_scope(scope, "ConvInPlane", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        height, width = two_element_tuple(kernel_size)
        stride_h, stride_w = two_element_tuple(stride)
        channels = last_dimension(inputs.shape, min_rank=4)
        kernel = weight("weights", "weights", [height, width, 1, 1], inputs.dtype.base_dtype, weights_initializer,
                        weights_regularizer, variables_collections, trainable)
        outputs = tf.nn.depthwise_conv2d(inputs, tf.tile(kernel, [1, 1, channels, 1]), [1, stride_h, stride_w, 1], padding)
        outputs = _normalized(outputs, channels, False, normalizer_fn, normalizer_params, biases_initializer,
                              biases_regularizer, variables_collections, trainable)
        return finish(outputs, activation_fn, outputs_collections, sc.name)


@layer("separable_convolution2d", "separable_conv2d")
def separable_convolution2d(inputs: Any, num_outputs: int | None, kernel_size: Any, depth_multiplier: int = 1, stride: Any = 1,
                            padding: str = "SAME", data_format: str = "NHWC", rate: Any = 1, activation_fn: Any = tf.nn.relu,
                            normalizer_fn: Any = None, normalizer_params: Any = None, weights_initializer: Any = _XAVIER,
                            pointwise_initializer: Any = None, weights_regularizer: Any = None,
                            biases_initializer: Any = _ZEROS, biases_regularizer: Any = None, reuse: Any = None,
                            variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
                            scope: Any = None) -> Tensor:
    """A filter on each channel by itself, then one that mixes channels; without `num_outputs`, the first alone.

    >>> tf.contrib.layers.separable_conv2d(tf.ones([1, 8, 8, 3]), 16, [3, 3], depth_multiplier=2)
    """
    check_format(data_format)
    with tf.variable_scope(scope, "SeparableConv2d", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        dtype, first = inputs.dtype.base_dtype, _first(data_format)
        stride_h, stride_w = two_element_tuple(stride)
        rates = two_element_tuple(rate)
        channels = channel_dimension(inputs.shape, "channels_first" if first else "channels_last", min_rank=4)
        depthwise = weight("depthwise_weights", "weights", [*two_element_tuple(kernel_size), channels, depth_multiplier], dtype,
                           weights_initializer, weights_regularizer, variables_collections, trainable)
        strides = [1, 1, stride_h, stride_w] if first else [1, stride_h, stride_w, 1]
        padding = padding.upper()
        if num_outputs is None:
            num_outputs = depth_multiplier * channels
            outputs = tf.nn.depthwise_conv2d(inputs, depthwise, strides, padding, rate=rates, data_format=data_format)
        else:
            pointwise = weight("pointwise_weights", "weights", [1, 1, depth_multiplier * channels, num_outputs], dtype,
                               pointwise_initializer or weights_initializer, weights_regularizer, variables_collections,
                               trainable)
            outputs = tf.nn.separable_conv2d(inputs, depthwise, pointwise, strides, padding, rate=rates,
                                             data_format=data_format)
        outputs = _normalized(outputs, num_outputs, first, normalizer_fn, normalizer_params, biases_initializer,
                              biases_regularizer, variables_collections, trainable)
        return finish(outputs, activation_fn, outputs_collections, sc.name)
