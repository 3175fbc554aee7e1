"""Convolutions of images that are resized and padded by mirrors first, as one op each.

They exist for graphs that were rewritten for inference; they run the same steps as the separate ops.
"""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.base.static_shape import merge, rank_is
from penstock._src.ops.array.pad import mirror_pad
from penstock._src.ops.nn import windows
from penstock._src.ops.nn.conv import conv2d_op
from penstock._src.ops.registry import get, op

_ATTRS = ("T: type in {half float32 float64}, mode: string in {REFLECT SYMMETRIC}, strides: list(int), "
          "padding: string in {SAME VALID}")
pad_conv = op("FusedPadConv2D", "input: T, paddings: int32, filter: T -> output: T", _ATTRS).no_gradient()
resize_pad_conv = op("FusedResizeAndPadConv2D", "input: T, size: int32, paddings: int32, filter: T -> output: T",
                     f"{_ATTRS}, resize_align_corners: bool = False").no_gradient()


def _shape(input: Any, paddings: Any, filter: Any, strides: Any, padding: str, c: Any) -> tuple:
    if len(strides) != 4:
        raise ValueError(f"FusedResizeAndPadConv2D requires the stride attribute to contain 4 values, but got: {len(strides)}")
    rank_is(paddings, 2)
    x, w = rank_is(input, 4), rank_is(filter, 4)
    amounts = c.const("paddings")
    if amounts is None:
        padded: tuple = (None,) * 4
    else:
        padded = tuple(None if d is None else d + int(a.sum()) for d, a in zip(x, amounts, strict=True))
    merge(padded[3:], w[2:3])
    space = [windows.output_size(padded[a], w[a - 1], strides[a], padding) for a in (1, 2)]
    return (padded[0], *space, w[3])


@pad_conv.shape
def _pad_conv_shape(input, paddings, filter, *, strides, padding, c):
    return _shape(input, paddings, filter, strides, padding, c)


@resize_pad_conv.shape
def _resize_pad_conv_shape(input, size, paddings, filter, *, strides, padding, c):
    x, to = rank_is(input, 4), c.dims("size")
    return _shape((x[0], *(rank_is(to, 2)), x[3]), paddings, filter, strides, padding, c)


def _conv(x: torch.Tensor, paddings: torch.Tensor, filter: torch.Tensor, mode: str, strides: Any, padding: str) -> Any:
    if x.ndim != 4 or tuple(paddings.shape) != (4, 2):
        raise errors.invalid(f"paddings must be a matrix with 2 columns and 4 rows: {list(paddings.shape)} for an input of "
                             f"shape {list(x.shape)}")
    padded = mirror_pad.kernels["any"].fn(x, paddings, mode=mode)
    return conv2d_op.kernels["any"].fn(padded, filter, strides=strides, padding=padding, explicit_paddings=[],
                                       data_format="NHWC", dilations=[1, 1, 1, 1])


@pad_conv.kernel
def _pad_conv_kernel(input, paddings, filter, *, mode, strides, padding):
    return _conv(input, paddings, filter, mode, strides, padding)


@resize_pad_conv.kernel
def _resize_pad_conv_kernel(input, size, paddings, filter, *, mode, strides, padding, resize_align_corners):
    resized = get("ResizeBilinear").kernels["any"].fn(input, size, align_corners=resize_align_corners,
                                                      half_pixel_centers=False)
    return _conv(resized.to(input.dtype), paddings, filter, mode, strides, padding)
