"""The public functions of convolution: `tf.nn.conv1d` … `conv3d`, transposed, dilated, depthwise and separable ones.

They convert strides, dilations and paddings to the form of the ops in `conv.py`. Dilated convolutions are one op, since the
kernels support dilation; `with_space_to_batch` is for other ops.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from typing import Any

import numpy as np

from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops.arguments import renamed
from penstock._src.ops.array.array import shape_of
from penstock._src.ops.array.space_batch import required_space_to_batch_paddings
from penstock._src.ops.composite import dispatched
from penstock._src.ops.core import static
from penstock._src.ops.nn import windows
from penstock._src.ops.nn.conv import (
    conv2d_op,
    conv2d_to_filter,
    conv2d_to_input,
    conv3d_op,
    conv3d_to_input,
    depthwise_op,
    depthwise_to_filter,
    depthwise_to_input,
)
from penstock._src.ops.nn.windows import sequence
from penstock._src.ops.registry import get

_CHANNELS_LAST = {1: "NWC", 2: "NHWC", 3: "NDHWC"}


# -- arguments -------------------------------------------------------------------------------------------------------
def _paddings(padding: Any) -> tuple[str, list[int]]:
    """The padding mode and the explicit paddings, from a mode or from [[before, after], ...]."""
    if isinstance(padding, str) and padding == "EXPLICIT":
        raise ValueError('"EXPLICIT" is not a valid value for the padding parameter. To use explicit padding, the '
                         "padding parameter must be a list.")
    if not isinstance(padding, (list, tuple)):
        return padding, []
    for i, pair in enumerate(padding):
        if not isinstance(pair, (list, tuple)):
            raise ValueError("When padding is a list, each element of padding must be a list/tuple of size 2. Element "
                             f"with index {i} of padding is not a list/tuple")
        if len(pair) != 2:
            raise ValueError("When padding is a list, each element of padding must be a list/tuple of size 2. Element "
                             f"with index {i} of padding has size {len(pair)}")
    if len(padding) != 4:
        raise ValueError(f"A list of paddings must have 4 entries, got {len(padding)}")
    return "EXPLICIT", [p for pair in padding for p in pair]


def _over_batches(convolve: Callable, input: Any, n: int) -> Tensor:
    """Convolves over `n` spatial axes; batch dimensions before the last one are merged, and split again."""
    if isinstance(input, np.ndarray) and input.ndim <= n + 2:
        return convolve(input)                      # eager ops give an array the type of the filters
    input = convert(input, name="input")
    rank = input.shape.rank
    if rank is None or rank <= n + 2:
        return convolve(input)
    lead, shape, reshape = rank - n - 1, get("Shape")(input), get("Reshape")
    out = convolve(reshape(input, get("ConcatV2")([[-1], shape[lead:]], 0)))
    result = reshape(out, get("ConcatV2")([shape[:lead], get("Shape")(out)[1:]], 0))
    result.set_shape(input.shape[:lead].concatenate(out.shape[1:]))
    return result


# -- two dimensions --------------------------------------------------------------------------------------------------
@export(v2=["nn.conv2d"])
@dispatched
def conv2d_v2(input: Any, filters: Any, strides: Any, padding: Any, data_format: str = "NHWC", dilations: Any = None,
              name: str | None = None) -> Tensor:
    """Slides `filters` [height, width, in, out] over a batch of images.

    Args:
        input: Images [batch, height, width, in].
        filters: Filters [height, width, in, out].
        strides: Steps of the window: a number, or one for each dimension.
        padding: `"SAME"`, `"VALID"`, or a list of pairs of numbers for each dimension.
        data_format: `"NHWC"`, or `"NCHW"` for [batch, in, height, width].
        dilations: Distances between the elements of a filter; 1 by default.
        name: Name of the operation.

    Returns:
        Images [batch, new height, new width, out].

    >>> tf.nn.conv2d(tf.ones([1, 5, 5, 1]), tf.ones([3, 3, 1, 2]), strides=1, padding="VALID").shape
    TensorShape([1, 3, 3, 2])
    """
    data_format = data_format or "NHWC"
    mode, explicit = _paddings(padding)
    return _over_batches(lambda x: conv2d_op(
        x, filters, strides=sequence(strides, 2, data_format, "strides"), padding=mode, explicit_paddings=explicit,
        data_format=data_format, dilations=sequence(dilations, 2, data_format, "dilations"), name=name), input, 2)


@export(v1=["nn.conv2d"])
@dispatched
def conv2d(input: Any, filter: Any = None, strides: Any = None, padding: Any = None, use_cudnn_on_gpu: bool = True,
           data_format: str = "NHWC", dilations: Any = (1, 1, 1, 1), name: str | None = None,
           filters: Any = None) -> Tensor:
    """Slides `filter` [height, width, in, out] over a batch of images.

    Args:
        input: Images [n, height, width, in].
        filter: Weights [height, width, in, out].
        strides: Step of the window per axis of `input`, or per image axis.
        padding: `"SAME"`, `"VALID"`, or a list of (before, after) pairs per axis.
        use_cudnn_on_gpu: Accepted for compatibility and unused.
        data_format: `"NHWC"` (channels last) or `"NCHW"` (channels first).
        dilations: Distance between the taps of the filter, per axis of `input`.
        name: Name of the operation.
        filters: Alias of `filter`.

    Returns:
        Images [n, height, width, out].

    Raises:
        ValueError: if the channels of `input` and `filter` do not fit.

    >>> tf.nn.conv2d(tf.ones([1, 4, 4, 1]), tf.ones([3, 3, 1, 1]), strides=[1, 1, 1, 1], padding="VALID").shape
    TensorShape([1, 2, 2, 1])
    """
    filters = renamed("filters", filters, "filter", filter)
    return conv2d_v2(input, filters, strides, padding, data_format, dilations, name)


@export(v1=["nn.conv2d_backprop_filter"])
@dispatched
def conv2d_backprop_filter(input: Any, filter_sizes: Any, out_backprop: Any, strides: Any, padding: Any,
                           use_cudnn_on_gpu: bool = True, data_format: str = "NHWC", dilations: Any = (1, 1, 1, 1),
                           name: str | None = None) -> Tensor:
    """The gradient of a convolution with respect to its filter."""
    mode, explicit = _paddings(padding)
    return conv2d_to_filter(input, filter_sizes, out_backprop, strides=strides, padding=mode,
                            explicit_paddings=explicit, use_cudnn_on_gpu=use_cudnn_on_gpu, data_format=data_format,
                            dilations=dilations, name=name)


@export(v1=["nn.conv2d_backprop_input"])
@dispatched
def conv2d_backprop_input(input_sizes: Any, filter: Any = None, out_backprop: Any = None, strides: Any = None,
                          padding: Any = None, use_cudnn_on_gpu: bool = True, data_format: str = "NHWC",
                          dilations: Any = (1, 1, 1, 1), name: str | None = None, filters: Any = None) -> Tensor:
    """The gradient of a convolution with respect to its input."""
    mode, explicit = _paddings(padding)
    return conv2d_to_input(input_sizes, renamed("filters", filters, "filter", filter), out_backprop, strides=strides,
                           padding=mode, explicit_paddings=explicit, use_cudnn_on_gpu=use_cudnn_on_gpu,
                           data_format=data_format, dilations=dilations, name=name)


@export(v2=["nn.conv2d_transpose"])
@dispatched
def conv2d_transpose_v2(input: Any, filters: Any, output_shape: Any, strides: Any, padding: Any = "SAME",
                        data_format: str = "NHWC", dilations: Any = None, name: str | None = None) -> Tensor:
    """The transpose (gradient) of a convolution; `filters` is [height, width, out, in].

    Args:
        input: Images [batch, height, width, in].
        filters: Filters [height, width, out, in].
        output_shape: Shape of the result.
        strides: Steps of the window in the result: a number, or one for each dimension.
        padding: `"SAME"` or `"VALID"`, as of the convolution.
        data_format: `"NHWC"` or `"NCHW"`.
        dilations: Distances between the elements of a filter; 1 by default.
        name: Name of the operation.

    Returns:
        Images of `output_shape`.

    >>> tf.nn.conv2d_transpose(tf.ones([1, 2, 2, 1]), tf.ones([2, 2, 3, 1]), [1, 4, 4, 3], strides=2).shape
    TensorShape([1, 4, 4, 3])
    """
    data_format = data_format or "NHWC"
    mode, explicit = _paddings(padding)
    with name_scope(name, "conv2d_transpose", [input, filters, output_shape]) as scope:
        return conv2d_to_input(output_shape, filters, input, strides=sequence(strides, 2, data_format, "strides"),
                               padding=mode, explicit_paddings=explicit, data_format=data_format,
                               dilations=sequence(dilations, 2, data_format, "dilations"), name=scope)


@export(v1=["nn.conv2d_transpose"])
@dispatched
def conv2d_transpose(value: Any = None, filter: Any = None, output_shape: Any = None, strides: Any = None,
                     padding: Any = "SAME", data_format: str = "NHWC", name: str | None = None, input: Any = None,
                     filters: Any = None, dilations: Any = None) -> Tensor:
    """The transpose (gradient) of a convolution; `filter` is [height, width, out, in].

    Args:
        value: Images [n, height, width, in].
        filter: Weights [height, width, out, in].
        output_shape: Shape of the result.
        strides: Step of the window per axis.
        padding: `"SAME"` pads with zeros so that stride 1 keeps the size; `"VALID"` uses only complete windows.
        data_format: `"NHWC"` (channels last) or `"NCHW"` (channels first).
        name: Name of the operation.
        input: Alias of `value`.
        filters: Alias of `filter`.
        dilations: Distance between the taps of the filter, per axis.

    Returns:
        Images of the shape `output_shape`.

    >>> out = tf.nn.conv2d_transpose(tf.ones([1, 4, 4, 1]), tf.ones([3, 3, 2, 1]), [1, 8, 8, 2], strides=[1, 2, 2, 1])
    >>> out.shape
    TensorShape([1, 8, 8, 2])
    """
    return conv2d_transpose_v2(renamed("input", input, "value", value), renamed("filters", filters, "filter", filter),
                               output_shape, strides, padding, data_format, dilations, name)


# -- one dimension ---------------------------------------------------------------------------------------------------
def _flat_format(data_format: str | None) -> tuple[str, int]:
    """The 2-D data format for a 1-D one, and where the axis of height 1 goes."""
    if data_format in (None, "NHWC", "NWC"):
        return "NHWC", 1
    if data_format in ("NCHW", "NCW"):
        return "NCHW", 2
    raise ValueError('data_format must be "NWC" or "NCW".')


def _flat_sequence(value: Any, data_format: str, name: str) -> list[int]:
    return [1, *sequence(value, 1, data_format, name)]


def _conv1d(input: Any, filters: Any, stride: Any, padding: Any, data_format: str | None, dilations: Any,
            name: str | None) -> Tensor:
    with name_scope(name, "conv1d", [input, filters]) as scope:
        data_format, axis = _flat_format(data_format)
        expand = get("ExpandDims")
        kernel, strides = expand(filters, np.int32(0)), _flat_sequence(stride, data_format, "stride")
        dilations = _flat_sequence(dilations, data_format, "dilations")
        return _over_batches(lambda x: get("Squeeze")(conv2d_op(
            expand(x, np.int32(axis)), kernel, strides=strides, padding=padding, data_format=data_format, dilations=dilations,
            name=scope), squeeze_dims=[axis]), input, 1)


@export(v1=["nn.conv1d"])
@dispatched
def conv1d(value: Any = None, filters: Any = None, stride: Any = None, padding: Any = None,
           use_cudnn_on_gpu: bool | None = None, data_format: str | None = None, name: str | None = None,
           input: Any = None, dilations: Any = None) -> Tensor:
    """Slides `filters` [width, in, out] over a batch of sequences."""
    return _conv1d(renamed("input", input, "value", value), filters, stride, padding, data_format, dilations, name)


@export(v2=["nn.conv1d"])
@dispatched
def conv1d_v2(input: Any, filters: Any, stride: Any, padding: Any, data_format: str = "NWC", dilations: Any = None,
              name: str | None = None) -> Tensor:
    """Slides `filters` over a batch of sequences.

    Args:
        input: [batch, width, in], or [batch, in, width] with `data_format="NCW"`.
        filters: [width of the window, in, out].
        stride: How far the window moves.
        padding: `"VALID"` or `"SAME"`, which pads with zeros.
        data_format: `"NWC"` or `"NCW"`.
        dilations: How far apart the elements of the window are.
        name: A name for the op.

    Returns:
        [batch, new width, out], or with the axes of `data_format`.

    Raises:
        InvalidArgumentError: if the numbers of channels differ (ValueError in graphs).

    >>> tf.nn.conv1d(tf.ones([1, 4, 1]), tf.ones([2, 1, 1]), 1, "VALID")[0, :, 0].numpy().tolist()
    [2.0, 2.0, 2.0]
    """
    return _conv1d(input, filters, stride, padding, data_format, dilations, name)


@export("nn.conv1d_transpose")
@dispatched
def conv1d_transpose(input: Any, filters: Any, output_shape: Any, strides: Any, padding: str = "SAME",
                     data_format: str = "NWC", dilations: Any = None, name: str | None = None) -> Tensor:
    """The transpose (gradient) of `conv1d`; `filters` is [width, out, in]."""
    with name_scope(name, "conv1d_transpose", [input, filters, output_shape]) as scope:
        data_format, axis = _flat_format(data_format)
        expand = get("ExpandDims")
        if isinstance(output_shape, Tensor):
            sizes = get("ConcatV2")([output_shape[:axis], [1], output_shape[axis:]], 0)
        else:
            sizes = [*output_shape[:axis], 1, *output_shape[axis:]]
        out = conv2d_to_input(sizes, expand(filters, np.int32(0)), expand(input, np.int32(axis)),
                              strides=_flat_sequence(strides, data_format, "stride"), padding=padding,
                              data_format=data_format, dilations=_flat_sequence(dilations, data_format, "dilations"),
                              name=scope)
        return get("Squeeze")(out, squeeze_dims=[axis])


# -- three dimensions ------------------------------------------------------------------------------------------------
@export(v2=["nn.conv3d"])
@dispatched
def conv3d_v2(input: Any, filters: Any, strides: Any, padding: str, data_format: str = "NDHWC", dilations: Any = None,
              name: str | None = None) -> Tensor:
    """Slides `filters` [depth, height, width, in, out] over a batch of volumes."""
    data_format = data_format or "NDHWC"
    return _over_batches(lambda x: conv3d_op(
        x, filters, strides=sequence(strides, 3, data_format, "strides"), padding=padding, data_format=data_format,
        dilations=sequence(dilations, 3, data_format, "dilations"), name=name), input, 3)


@export(v1=["nn.conv3d"])
@dispatched
def conv3d(input: Any, filter: Any = None, strides: Any = None, padding: Any = None, data_format: str = "NDHWC",
           dilations: Any = (1, 1, 1, 1, 1), name: str | None = None, filters: Any = None) -> Tensor:
    """Slides `filter` [depth, height, width, in, out] over a batch of volumes."""
    filters = renamed("filters", filters, "filter", filter)
    return conv3d_v2(input, filters, strides, padding, data_format, dilations, name)


@export(v2=["nn.conv3d_transpose"])
@dispatched
def conv3d_transpose_v2(input: Any, filters: Any, output_shape: Any, strides: Any, padding: str = "SAME",
                        data_format: str = "NDHWC", dilations: Any = None, name: str | None = None) -> Tensor:
    """The transpose (gradient) of `conv3d`; `filters` is [depth, height, width, out, in]."""
    data_format = data_format or "NDHWC"
    with name_scope(name, "conv3d_transpose", [input, filters, output_shape]) as scope:
        return conv3d_to_input(output_shape, filters, input, strides=sequence(strides, 3, data_format, "strides"),
                               padding=padding, data_format=data_format,
                               dilations=sequence(dilations, 3, data_format, "dilations"), name=scope)


@export(v1=["nn.conv3d_transpose"])
@dispatched
def conv3d_transpose(value: Any, filter: Any = None, output_shape: Any = None, strides: Any = None,
                     padding: str = "SAME", data_format: str = "NDHWC", name: str | None = None, input: Any = None,
                     filters: Any = None, dilations: Any = None) -> Tensor:
    """The transpose (gradient) of `conv3d`; `filter` is [depth, height, width, out, in]."""
    return conv3d_transpose_v2(renamed("input", input, "value", value), renamed("filters", filters, "filter", filter),
                               output_shape, strides, padding, data_format, dilations, name)


@export("nn.conv_transpose")
@dispatched
def conv_transpose(input: Any, filters: Any, output_shape: Any, strides: Any, padding: Any = "SAME",
                   data_format: Any = None, dilations: Any = None, name: str | None = None) -> Tensor:
    """The transpose of a convolution in as many dimensions as `output_shape` has."""
    with name_scope(name, "conv_transpose", [input, filters, output_shape]) as scope:
        if isinstance(output_shape, Tensor):
            n = output_shape.static_dims[0] - 2
        elif isinstance(output_shape, Sized):
            n = len(output_shape) - 2
        else:
            raise ValueError("output_shape must be a tensor or sized collection.")
        if not 1 <= n <= 3:
            raise ValueError(f"output_shape must be of length 3, 4 or 5 but was {n + 2}.")
        transpose = (conv1d_transpose, conv2d_transpose_v2, conv3d_transpose_v2)[n - 1]
        return transpose(input, filters, output_shape, strides, padding, data_format, dilations, scope)


# -- any number of dimensions ----------------------------------------------------------------------------------------
def _convolution(input: Any, filters: Any, strides: Any, padding: str, data_format: str | None, dilations: Any,
                 name: str | None) -> Tensor:
    input = convert(input, name="input")
    filters = convert(filters, None if isinstance(filters, Tensor) else input.dtype.base_dtype, name="filter")
    rank = filters.shape.rank if filters.shape.rank is not None else input.shape.rank
    if rank is None:
        raise ValueError("rank of input or filter must be known")
    n = rank - 2
    if not 1 <= n <= 3:
        raise ValueError(f"Input tensor must be of rank 3, 4 or 5 but was {rank}.")
    data_format = data_format or _CHANNELS_LAST[n]
    _check_channels(input, filters, n, data_format)
    strides = sequence(strides, n, data_format, "strides")
    dilations = sequence(dilations, n, data_format, "dilations")
    if any(s > 1 for s in strides) and any(d > 1 for d in dilations):
        raise ValueError("strides > 1 not supported in conjunction with dilation_rate > 1")
    if any(d < 1 for d in dilations):
        raise ValueError("dilation_rate must be positive")
    with name_scope(name, "convolution", [input, filters]) as scope:
        function: Callable = (_conv1d, conv2d_v2, conv3d_v2)[n - 1]
        return function(input, filters, strides, padding, data_format, dilations, scope)


def _check_channels(input: Tensor, filters: Tensor, n: int, data_format: str) -> None:
    if input.shape.rank is not None and input.shape.rank < n + 2:
        raise ValueError(f"input tensor must have rank {n + 2} at least, with a filter of rank {n + 2}; shapes {input.shape} "
                         f"and {filters.shape}")
    if input.static_dims is None or filters.static_dims is None:
        return
    channels, wanted = input.static_dims[windows.channel_axis(data_format) - len(data_format)], filters.static_dims[n]
    if channels is not None and wanted and channels % wanted:
        raise ValueError("number of input channels does not match corresponding dimension of filter, "
                         f"{channels} != {wanted}")


@export(v1=["nn.convolution"])
@dispatched
def convolution(input: Any, filter: Any, padding: str, strides: Any = None, dilation_rate: Any = None,
                name: str | None = None, data_format: str | None = None, filters: Any = None,
                dilations: Any = None) -> Tensor:
    """A convolution in one, two or three dimensions, depending on the rank of `input`."""
    filter = renamed("filters", filters, "filter", filter)
    rate = renamed("dilations", dilations, "dilation_rate", dilation_rate)
    return _convolution(input, filter, strides, padding, data_format, rate, name)


@export(v2=["nn.convolution"])
@dispatched
def convolution_v2(input: Any, filters: Any, strides: Any = None, padding: str = "VALID",
                   data_format: str | None = None, dilations: Any = None, name: str | None = None) -> Tensor:
    """A convolution in one, two or three dimensions, depending on the rank of `input`."""
    return _convolution(input, filters, strides, padding, data_format, dilations, name)


@export("nn.atrous_conv2d")
@dispatched
def atrous_conv2d(value: Any, filters: Any, rate: int, padding: str, name: str | None = None) -> Tensor:
    """A convolution whose filter takes every `rate`-th pixel."""
    return _convolution(value, filters, None, padding, None, [int(r) for r in np.broadcast_to(rate, (2,))], name)


@export("nn.atrous_conv2d_transpose")
@dispatched
def atrous_conv2d_transpose(value: Any, filters: Any, output_shape: Any, rate: int, padding: str,
                            name: str | None = None) -> Tensor:
    """The transpose (gradient) of `atrous_conv2d`; `filters` is [height, width, out, in]."""
    with name_scope(name, "atrous_conv2d_transpose", [value, filters, output_shape]) as scope:
        value, filters = convert(value, name="value"), convert(filters, name="filters")
        v, f = shapes.rank_is(value.static_dims, 4), shapes.rank_is(filters.static_dims, 4)
        if not shapes.compatible(v[3:], f[3:]):
            raise ValueError(f"value's input channels does not match filters' input channels, {v[3]} != {f[3]}")
        if rate < 1:
            raise ValueError(f"rate {rate} cannot be less than one")
        sizes = convert(output_shape, name="output_shape")
        if not shapes.compatible(sizes.static_dims, (4,)):
            raise ValueError(f"output_shape must have shape (4,), got {sizes.shape}")
        if isinstance(output_shape, (tuple, list, np.ndarray)) and not isinstance(output_shape[3], Tensor) \
                and not shapes.compatible(f[2:3], (int(output_shape[3]),)):
            raise ValueError(f"output_shape does not match filter's output channels, {output_shape[3]} != {f[2]}")
        if padding not in ("SAME", "VALID"):
            raise ValueError(f"padding must be VALID or SAME, got {padding}")
        return conv2d_to_input(sizes, filters, value, strides=[1, 1, 1, 1], padding=padding,
                               dilations=[1, rate, rate, 1], name=scope)


# -- depthwise and separable -----------------------------------------------------------------------------------------
def _depthwise(input: Any, filter: Any, strides: Sequence[int], padding: str, rate: Any, data_format: str | None,
               scope: str | None) -> Tensor:
    data_format = data_format or "NHWC"
    rates = sequence(rate, 2, data_format, "rate")
    if any(r > 1 for r in rates) and any(s > 1 for s in strides):
        raise ValueError("strides > 1 not supported in conjunction with dilation_rate > 1")
    mode, explicit = _paddings(padding)
    return depthwise_op(input, filter, strides=strides, padding=mode, data_format=data_format, dilations=rates,
                        explicit_paddings=explicit, name=scope)


@export(v1=["nn.depthwise_conv2d_native"])
@dispatched
def depthwise_conv2d_native(input: Any, filter: Any, strides: Any, padding: Any, data_format: str = "NHWC",
                            dilations: Any = (1, 1, 1, 1), name: str | None = None) -> Tensor:
    """A convolution of each channel separately with `filter` [height, width, in, multiplier], as one op."""
    mode, explicit = _paddings(padding)
    return depthwise_op(input, filter, strides=strides, padding=mode, explicit_paddings=explicit, data_format=data_format,
                        dilations=dilations, name=name)


@export("nn.depthwise_conv2d_backprop_input", v1=["nn.depthwise_conv2d_native_backprop_input"])
@dispatched
def depthwise_conv2d_backprop_input(input_sizes: Any, filter: Any, out_backprop: Any, strides: Any, padding: Any,
                                    data_format: str = "NHWC", dilations: Any = (1, 1, 1, 1),
                                    name: str | None = None) -> Tensor:
    """The gradient of a depthwise convolution with respect to its input."""
    mode, explicit = _paddings(padding)
    return depthwise_to_input(input_sizes, filter, out_backprop, strides=strides, padding=mode, explicit_paddings=explicit,
                              data_format=data_format, dilations=dilations, name=name)


@export("nn.depthwise_conv2d_backprop_filter", v1=["nn.depthwise_conv2d_native_backprop_filter"])
@dispatched
def depthwise_conv2d_backprop_filter(input: Any, filter_sizes: Any, out_backprop: Any, strides: Any, padding: Any,
                                     data_format: str = "NHWC", dilations: Any = (1, 1, 1, 1),
                                     name: str | None = None) -> Tensor:
    """The gradient of a depthwise convolution with respect to its filter."""
    mode, explicit = _paddings(padding)
    return depthwise_to_filter(input, filter_sizes, out_backprop, strides=strides, padding=mode, explicit_paddings=explicit,
                               data_format=data_format, dilations=dilations, name=name)


@export(v1=["nn.depthwise_conv2d"])
@dispatched
def depthwise_conv2d(input: Any, filter: Any, strides: Any, padding: str, rate: Any = None, name: str | None = None,
                     data_format: str | None = None, dilations: Any = None) -> Tensor:
    """A convolution of each channel separately with `filter` [height, width, in, multiplier]."""
    rate = renamed("dilations", dilations, "rate", rate)
    with name_scope(name, "depthwise", [input, filter]) as scope:
        return _depthwise(input, filter, strides, padding, rate, data_format, scope)


@export(v2=["nn.depthwise_conv2d"])
@dispatched
def depthwise_conv2d_v2(input: Any, filter: Any, strides: Any, padding: str, data_format: str | None = None,
                        dilations: Any = None, name: str | None = None) -> Tensor:
    """A convolution of each channel separately with `filter` [height, width, in, multiplier].

    Args:
        input: Images [batch, height, width, in].
        filter: Filters [height, width, in, multiplier].
        strides: Steps of the window, one for each of the four dimensions.
        padding: `"SAME"`, `"VALID"`, or a list of pairs of numbers for each dimension.
        data_format: `"NHWC"` or `"NCHW"`.
        dilations: Distances between the elements of a filter, for height and width.
        name: Name of the operation.

    Returns:
        Images with in * multiplier channels.

    >>> tf.nn.depthwise_conv2d(tf.ones([1, 4, 4, 2]), tf.ones([3, 3, 2, 3]), [1, 1, 1, 1], "VALID").shape
    TensorShape([1, 2, 2, 6])
    """
    return depthwise_conv2d(input, filter, strides, padding, dilations, name, data_format)


@export(v1=["nn.separable_conv2d"])
@dispatched
def separable_conv2d(input: Any, depthwise_filter: Any, pointwise_filter: Any, strides: Any, padding: str,
                     rate: Any = None, name: str | None = None, data_format: str | None = None,
                     dilations: Any = None) -> Tensor:
    """A depthwise convolution followed by one that mixes channels, `pointwise_filter` [1, 1, in * multiplier, out]."""
    rate = renamed("dilations", dilations, "rate", rate)
    with name_scope(name, "separable_conv2d", [input, depthwise_filter, pointwise_filter]) as scope:
        input = convert(input, name="tensor_in")
        depthwise_filter = convert(depthwise_filter, name="depthwise_filter")
        pointwise_filter = convert(pointwise_filter, name="pointwise_filter")
        point = shapes.rank_is(pointwise_filter.static_dims, 4)
        for size in point[:2]:
            if size not in (None, 1):
                raise ValueError(f"pointwise_filter must have height and width of 1, got {pointwise_filter.shape}")
        middle = _depthwise(input, depthwise_filter, strides, padding, rate, data_format, "depthwise")
        return conv2d_op(middle, pointwise_filter, strides=[1, 1, 1, 1], padding="VALID",
                         data_format=data_format or "NHWC", name=scope)


@export(v2=["nn.separable_conv2d"])
@dispatched
def separable_conv2d_v2(input: Any, depthwise_filter: Any, pointwise_filter: Any, strides: Any, padding: str,
                        data_format: str | None = None, dilations: Any = None, name: str | None = None) -> Tensor:
    """A depthwise convolution followed by one that mixes channels."""
    return separable_conv2d(input, depthwise_filter, pointwise_filter, strides, padding, dilations, name, data_format)


# -- dilation of any op ----------------------------------------------------------------------------------------------
@export("nn.with_space_to_batch")
@dispatched
def with_space_to_batch(input: Any, dilation_rate: Any, padding: str, op: Callable, filter_shape: Any = None,
                        spatial_dims: Sequence[int] | None = None, data_format: str | None = None) -> Tensor:
    """Dilates `op(input, num_spatial_dims, padding)` by moving space into the batch and back."""
    input = convert(input, name="input")
    rate = convert(dilation_rate, np.int32, name="dilation_rate")
    if rate.shape.rank not in (None, 1):
        raise ValueError("rate must be rank 1")
    if rate.static_dims is None or rate.static_dims[0] is None:
        raise ValueError("rate must have known shape")
    n = rate.static_dims[0]
    axes = _spatial_axes(input, n, spatial_dims, data_format)
    value = static(rate)
    if value is not None:
        if (value < 1).any():
            raise ValueError("dilation_rate must be positive")
        if (value == 1).all():
            return op(input, n, padding)
    base = _base_paddings(filter_shape, n, rate if value is None else value, padding)
    paddings, crops = _block_paddings(input, axes, base, rate)
    rate, paddings, crops = (_spread(t, fill, axes) for t, fill in ((rate, 1), (paddings, 0), (crops, 0)))
    result = op(get("SpaceToBatchND")(input, rate, paddings), n, "VALID")
    return get("BatchToSpaceND")(result, rate, crops)


def _spatial_axes(input: Tensor, n: int, spatial_dims: Sequence[int] | None, data_format: str | None) -> list[int]:
    first = 2 if data_format is not None and data_format.startswith("NC") else 1
    given = list(range(first, n + first) if spatial_dims is None else spatial_dims)
    axes = sorted({int(a) for a in given})
    if axes != given or any(a < 1 for a in axes):
        raise ValueError("spatial_dims must be a montonically increasing sequence of positive integers")
    rank = axes[-1] if first == 2 else axes[-1] + 1
    if input.shape.rank is not None and input.shape.rank < rank:
        raise ValueError(f"input tensor must have rank {rank} at least")
    return axes


def _base_paddings(filter_shape: Any, n: int, rate: Any, padding: str) -> Any:
    """The paddings [n, 2] that the dilated op would put around its input."""
    if padding == "VALID":
        return np.zeros([n, 2], np.int32)
    if padding != "SAME":
        raise ValueError(f"Invalid padding method {padding!r}")
    if filter_shape is None:
        raise ValueError("filter_shape must be specified for SAME padding")
    window = convert(filter_shape, name="filter_shape")
    value = static(window)
    total = ((window if value is None else value)[:n] - 1) * rate
    before = total // 2
    if isinstance(total, Tensor):
        return get("Pack")([before, total - before], axis=1)
    return np.stack([before, total - before], 1)


def _block_paddings(input: Tensor, axes: list[int], base: Any, rate: Tensor) -> tuple[Any, Any]:
    """Paddings that make the space a multiple of the rate, and the crops that undo the surplus."""
    dims = None if input.static_dims is None else [input.static_dims[a] for a in axes]
    if dims is None or None in dims:
        shape = shape_of(input)
        dims = get("Pack")([shape[a] for a in axes])
    return required_space_to_batch_paddings(dims, rate, base)


def _spread(per_axis: Any, fill: int, axes: list[int]) -> Any:
    """Values for the chosen axes, with `fill` for the axes between them, from axis 1 on."""
    value = static(per_axis)
    rows = [None] * axes[-1]
    for i, a in enumerate(axes):
        rows[a - 1] = i  # type: ignore[call-overload]
    if value is not None:
        blank = np.full(value.shape[1:], fill, value.dtype)
        return np.stack([blank if i is None else value[i] for i in rows])
    blank = np.full([d or 2 for d in per_axis.static_dims[1:]], fill, np.int32)
    return get("Pack")([blank if i is None else per_axis[i] for i in rows])
