"""The public functions of pooling: `tf.nn.max_pool`, `avg_pool` and `pool` in one, two and three dimensions."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops.arguments import renamed
from penstock._src.ops.composite import dispatched
from penstock._src.ops.nn import windows
from penstock._src.ops.nn.conv_functions import with_space_to_batch
from penstock._src.ops.nn.pool import avg_pool3d_op, avg_pool_op, max_pool3d_op, max_pool_op, max_pool_with_argmax_op
from penstock._src.ops.nn.windows import sequence
from penstock._src.ops.registry import OpDef, get

_CHANNELS_LAST = {1: "NWC", 2: "NHWC", 3: "NDHWC"}
_OPS: dict[tuple[str, int], OpDef] = {("MAX", 2): max_pool_op, ("MAX", 3): max_pool3d_op,
                                      ("AVG", 2): avg_pool_op, ("AVG", 3): avg_pool3d_op}


def _pool_nd(kind: str, n: int, input: Any, ksize: Any, strides: Any, padding: str, data_format: str | None,
             scope: str | None) -> Tensor:
    """Pooling over `n` spatial axes; one-dimensional pooling is two-dimensional with height one."""
    data_format = data_format or _CHANNELS_LAST[n]
    ksize = sequence(ksize, n, data_format, "ksize")
    strides = sequence(strides, n, data_format, "strides")
    if any(k == 0 for k in ksize):
        raise ValueError("ksize cannot be zero.")
    if isinstance(padding, (list, tuple)):
        input, padding = _padded(kind, n, input, padding, data_format), "VALID"
    if n > 1:
        return _OPS[kind, n](input, ksize=ksize, strides=strides, padding=padding, data_format=data_format, name=scope)
    axis, flat = (2, "NCHW") if data_format.startswith("NC") else (1, "NHWC")
    out = _OPS[kind, 2](get("ExpandDims")(input, np.int32(axis)), ksize=[1, *ksize], strides=[1, *strides],
                        padding=padding, data_format=flat, name=scope)
    return get("Squeeze")(out, squeeze_dims=[axis])


def _padded(kind: str, n: int, input: Any, padding: Any, data_format: str) -> Tensor:
    """`input` with explicit paddings, of values that are never the maximum."""
    if kind != "MAX" or n > 2:
        raise ValueError("Explicit padding is only for the maximum over one or two dimensions.")
    if len(padding) != n + 2 or any(not isinstance(p, (list, tuple)) or len(p) != 2 for p in padding):
        raise ValueError(f"When padding is a list, it must have {n + 2} pairs. Got: {padding}")
    if any(padding[0]) or any(padding[windows.channel_axis(data_format)]):
        raise ValueError(f"Nonzero explicit padding in the batch or depth dimensions is not supported: {padding}")
    input = convert(input, name="input")
    return get("PadV2")(input, np.array(padding, np.int32), convert(input.dtype.min, input.dtype))


def _rank(input: Any, data_format: str | None) -> int:
    """The number of spatial axes of an input, from its shape or from the data format."""
    rank = convert(input).shape.rank
    if rank is None and data_format is None:
        raise ValueError("Pass a data format if the rank of the input is unknown.")
    n = (len(data_format) if rank is None else rank) - 2  # type: ignore[arg-type]
    if not 1 <= n <= 3:
        raise ValueError(f"Input tensor must be of rank 3, 4 or 5 but was {n + 2}.")
    return n


# -- maximum ---------------------------------------------------------------------------------------------------------
@export(v1=["nn.max_pool"])
@dispatched
def max_pool(value: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NHWC", name: str | None = None,
             input: Any = None) -> Tensor:
    """The maximum of each window.

    Args:
        value: Images [n, height, width, channels].
        ksize: Size of the window per axis.
        strides: Step of the window per axis.
        padding: `"SAME"` pads with zeros so that stride 1 keeps the size; `"VALID"` uses only complete windows.
        data_format: `"NHWC"` (channels last) or `"NCHW"` (channels first).
        name: Name of the operation.
        input: Alias of `value`.

    Returns:
        Images with smaller height and width.

    >>> images = tf.reshape(tf.range(16.), [1, 4, 4, 1])
    >>> tf.nn.max_pool(images, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")[0, :, :, 0].numpy()
    array([[ 5.,  7.],
           [13., 15.]], dtype=float32)
    """
    value = renamed("input", input, "value", value)
    with name_scope(name, "MaxPool", [value]) as scope:
        return _pool_nd("MAX", 2, value, ksize, strides, padding, data_format, scope)


@export(v1=["nn.max_pool_v2"], v2=["nn.max_pool"])
@dispatched
def max_pool_v2(input: Any, ksize: Any, strides: Any, padding: str, data_format: str | None = None,
                name: str | None = None) -> Tensor:
    """The maximum of each window, in as many dimensions as `input` has.

    Args:
        input: Tensor [batch, sizes…, channels] with one to three sizes.
        ksize: Size of the window: a number, or one for each dimension.
        strides: Steps of the window, in the same form.
        padding: `"SAME"` or `"VALID"`.
        data_format: `"NWC"`, `"NHWC"`, `"NDHWC"`, or with the channels second.
        name: Name of the operation.

    Returns:
        Tensor with the maximum of each window.

    >>> tf.nn.max_pool([[[[1.], [2.]], [[3.], [4.]]]], 2, 2, "VALID").numpy().tolist()
    [[[[4.0]]]]
    """
    n = _rank(input, data_format)
    with name_scope(name, "MaxPool" if n == 2 else f"MaxPool{n}D", [input]) as scope:
        return _pool_nd("MAX", n, input, ksize, strides, padding, data_format, scope)


@export("nn.max_pool1d")
@dispatched
def max_pool1d(input: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NWC",
               name: str | None = None) -> Tensor:
    """The maximum of each window of a batch of sequences."""
    with name_scope(name, "MaxPool1d", [input]) as scope:
        return _pool_nd("MAX", 1, input, ksize, strides, padding, data_format, scope)


@export("nn.max_pool2d")
@dispatched
def max_pool2d(input: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NHWC",
               name: str | None = None) -> Tensor:
    """The maximum of each window of a batch of images.

    Args:
        input: Images [batch, height, width, channels].
        ksize: Size of the window: a number, or one for each dimension.
        strides: Steps of the window, in the same form.
        padding: `"SAME"`, `"VALID"`, or a list of pairs of numbers for each dimension.
        data_format: `"NHWC"` or `"NCHW"`.
        name: Name of the operation.

    Returns:
        Images with the maximum of each window.

    >>> tf.nn.max_pool2d([[[[1.], [2.]], [[3.], [4.]]]], 2, 2, "VALID").numpy().tolist()
    [[[[4.0]]]]
    """
    with name_scope(name, "MaxPool2d", [input]) as scope:
        return _pool_nd("MAX", 2, input, ksize, strides, padding, data_format, scope)


@export("nn.max_pool3d")
@dispatched
def max_pool3d(input: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NDHWC",
               name: str | None = None) -> Tensor:
    """The maximum of each window of a batch of volumes."""
    with name_scope(name, "MaxPool3D", [input]) as scope:
        return _pool_nd("MAX", 3, input, ksize, strides, padding, data_format, scope)


def _argmax(input: Any, ksize: Any, strides: Any, padding: str, data_format: str, index_type: Any, batch: bool,
            name: str | None) -> Any:
    if data_format != "NHWC":
        raise ValueError("Data formats other than 'NHWC' are not yet supported")
    return max_pool_with_argmax_op(input, ksize=sequence(ksize, 2, "NHWC", "ksize"),
                                   strides=sequence(strides, 2, "NHWC", "strides"), padding=padding, Targmax=index_type,
                                   include_batch_in_index=batch, name=name)


@export(v1=["nn.max_pool_with_argmax"])
@dispatched
def max_pool_with_argmax(input: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NHWC",
                         Targmax: Any = None, name: str | None = None, output_dtype: Any = None,
                         include_batch_in_index: bool = False) -> Any:
    """The maximum of each window, and its index (y * width + x) * channels + channel."""
    index_type = renamed("output_dtype", output_dtype, "Targmax", Targmax) or dtypes.int64
    return _argmax(input, ksize, strides, padding, data_format, index_type, include_batch_in_index, name)


@export(v2=["nn.max_pool_with_argmax"])
@dispatched
def max_pool_with_argmax_v2(input: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NHWC",
                            output_dtype: Any = dtypes.int64, include_batch_in_index: bool = False,
                            name: str | None = None) -> Any:
    """The maximum of each window, and its index (y * width + x) * channels + channel."""
    return _argmax(input, ksize, strides, padding, data_format, output_dtype, include_batch_in_index, name)


# -- mean ------------------------------------------------------------------------------------------------------------
@export(v1=["nn.avg_pool", "nn.avg_pool2d"])
@dispatched
def avg_pool(value: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NHWC", name: str | None = None,
             input: Any = None) -> Tensor:
    """The mean of each window; padding does not count.

    Args:
        value: Images [n, height, width, channels].
        ksize: Size of the window per axis.
        strides: Step of the window per axis.
        padding: `"SAME"` pads with zeros so that stride 1 keeps the size; `"VALID"` uses only complete windows.
        data_format: `"NHWC"` (channels last) or `"NCHW"` (channels first).
        name: Name of the operation.
        input: Alias of `value`.

    Returns:
        Images with smaller height and width.

    >>> tf.nn.avg_pool(tf.ones([1, 4, 4, 1]), 2, 2, "VALID").shape
    TensorShape([1, 2, 2, 1])
    """
    value = renamed("input", input, "value", value)
    with name_scope(name, "AvgPool", [value]) as scope:
        return _pool_nd("AVG", 2, value, ksize, strides, padding, data_format, scope)


@export(v1=["nn.avg_pool_v2"], v2=["nn.avg_pool"])
@dispatched
def avg_pool_v2(input: Any, ksize: Any, strides: Any, padding: str, data_format: str | None = None,
                name: str | None = None) -> Tensor:
    """The mean of each window, in as many dimensions as `input` has; padding does not count.

    Args:
        input: Tensor [batch, sizes…, channels] with one to three sizes.
        ksize: Size of the window: a number, or one for each dimension.
        strides: Steps of the window, in the same form.
        padding: `"SAME"` or `"VALID"`.
        data_format: `"NWC"`, `"NHWC"`, `"NDHWC"`, or with the channels second.
        name: Name of the operation.

    Returns:
        Tensor with the mean of each window.

    >>> tf.nn.avg_pool([[[[1.], [2.]], [[3.], [4.]]]], 2, 2, "VALID").numpy().tolist()
    [[[[2.5]]]]
    """
    n = _rank(input, data_format)
    with name_scope(name, "AvgPool" if n == 2 else f"AvgPool{n}D", [input]) as scope:
        return _pool_nd("AVG", n, input, ksize, strides, padding, data_format, scope)


@export("nn.avg_pool1d")
@dispatched
def avg_pool1d(input: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NWC",
               name: str | None = None) -> Tensor:
    """The mean of each window of a batch of sequences.

    Args:
        input: Tensor [batch, time, channels].
        ksize: Size of the window.
        strides: Steps of the window.
        padding: `"VALID"` or `"SAME"`.
        data_format: `"NWC"` or `"NCW"`.
        name: Name of the operation.

    Returns:
        The mean of each window.

    >>> tf.nn.avg_pool1d(tf.ones([1, 4, 1]), 2, 2, "VALID").shape
    TensorShape([1, 2, 1])
    """
    with name_scope(name, "AvgPool1D", [input]) as scope:
        return _pool_nd("AVG", 1, input, ksize, strides, padding, data_format, scope)


@export(v2=["nn.avg_pool2d"])
@dispatched
def avg_pool2d(input: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NHWC",
               name: str | None = None) -> Tensor:
    """The mean of each window of a batch of images.

    Args:
        input: Tensor [batch, height, width, channels].
        ksize: Size of the window.
        strides: Steps of the window.
        padding: `"VALID"` or `"SAME"`.
        data_format: `"NHWC"` or `"NCHW"`.
        name: Name of the operation.

    Returns:
        The mean of each window.

    >>> tf.nn.avg_pool2d(tf.ones([1, 4, 4, 1]), 2, 2, "VALID").shape
    TensorShape([1, 2, 2, 1])
    """
    with name_scope(name, "AvgPool2D", [input]) as scope:
        return _pool_nd("AVG", 2, input, ksize, strides, padding, data_format, scope)


@export("nn.avg_pool3d")
@dispatched
def avg_pool3d(input: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NDHWC",
               name: str | None = None) -> Tensor:
    """The mean of each window of a batch of volumes.

    Args:
        input: Tensor [batch, depth, height, width, channels].
        ksize: Size of the window.
        strides: Steps of the window.
        padding: `"VALID"` or `"SAME"`.
        data_format: `"NDHWC"` or `"NCDHW"`.
        name: Name of the operation.

    Returns:
        The mean of each window.

    >>> tf.nn.avg_pool3d(tf.ones([1, 4, 4, 4, 1]), 2, 2, "VALID").shape
    TensorShape([1, 2, 2, 2, 1])
    """
    with name_scope(name, "AvgPool3D", [input]) as scope:
        return _pool_nd("AVG", 3, input, ksize, strides, padding, data_format, scope)


# -- both ------------------------------------------------------------------------------------------------------------
def _steps(name: str, value: Any, n: int) -> list[int]:
    value = [1] * n if value is None else [int(v) for v in value]
    if len(value) != n:
        raise ValueError(f"len({name})={len(value)} but should be {n}")
    if any(v < 1 for v in value):
        raise ValueError(f"all values of {name} must be positive")
    return value


@export(v1=["nn.pool"])
@dispatched
def pool(input: Any, window_shape: Sequence[int], pooling_type: str, padding: str, dilation_rate: Any = None,
         strides: Any = None, name: str | None = None, data_format: str | None = None, dilations: Any = None) -> Tensor:
    """"MAX" or "AVG" pooling over one, two or three axes, with strides or dilations."""
    rate = renamed("dilations", dilations, "dilation_rate", dilation_rate)
    with name_scope(name, f"{pooling_type.lower()}_pool", [input]) as scope:
        input = convert(input, name="input")
        n = len(window_shape)
        if not 1 <= n <= 3:
            raise ValueError("The input must have 1, 2 or 3 spatial dimensions.")
        input.shape.with_rank(n + 2)
        rate, strides = _steps("dilation_rate", rate, n), _steps("strides", strides, n)
        if any(s > 1 for s in strides) and any(r > 1 for r in rate):
            raise ValueError("strides > 1 not supported in conjunction with dilation_rate > 1")
        if padding == "SAME" and any(r > 1 for r in rate):
            raise ValueError("pooling with SAME padding is not implemented for dilation_rate > 1")
        if any(s > w for s, w in zip(strides, window_shape, strict=True)):
            raise ValueError("strides must not be larger than window_shape")
        if pooling_type not in ("MAX", "AVG"):
            raise ValueError(f"{n}-D {pooling_type} pooling is not supported.")
        if n == 1 and data_format not in (None, "NWC", "NCW"):
            raise ValueError('data_format must be either "NWC" or "NCW".')
        first = 2 if data_format is not None and data_format.startswith("NC") else 1

        def once(x: Any, _: int, mode: str) -> Tensor:
            return _pool_nd(pooling_type, n, x, window_shape, strides, mode, data_format, scope)
        return with_space_to_batch(input, rate, padding, once, window_shape, range(first, n + first))


@export(v2=["nn.pool"])
@dispatched
def pool_v2(input: Any, window_shape: Sequence[int], pooling_type: str, strides: Any = None, padding: str = "VALID",
            data_format: str | None = None, dilations: Any = None, name: str | None = None) -> Tensor:
    """"MAX" or "AVG" pooling over one, two or three axes, with strides or dilations."""
    return pool(input, window_shape, pooling_type, padding, dilations, strides, name, data_format)
