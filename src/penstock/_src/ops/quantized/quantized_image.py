"""Quantized images: resizing, and normalization by batch or by instance, in TensorFlow's fixed-point arithmetic."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.static_shape import merge, rank_is
from penstock._src.ops.quantized.quantize import as_scalar, dequantize_first, quantize_first, scalar, to_type
from penstock._src.ops.registry import op

_Q = "type in {quantized}"
_BITS = {torch.uint8: 7, torch.int32: 30}        # of a weight of an interpolation

# -- resizing -----------------------------------------------------------------------------------------------------------
resize = op("QuantizedResizeBilinear", "images: T, size: int32, min: float32, max: float32 -> resized_images: T, "
            "out_min: float32, out_max: float32",
            "T: type in {quint8 qint32 float32}, align_corners: bool = False, half_pixel_centers: bool = False",
            v1_as="image.quantized_resize_bilinear").no_gradient()


@resize.shape
def _resize_shape(images, size, min, max, *, c):
    rank_is(min, 0), rank_is(max, 0)
    x, wanted = rank_is(images, 4), c.dims("size")
    return [(x[0], *rank_is(wanted, 2), x[3]), (), ()]


def _taps(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> tuple:
    """For each place of the result, the two places it is between, and how far it is from the first."""
    scale = np.float32((size - 1) / (out - 1)) if align_corners and out > 1 else np.float32(size / out)
    places = np.arange(out, dtype=np.float32)
    places = (places + np.float32(0.5)) * scale - np.float32(0.5) if half_pixel_centers else places * scale
    floor = np.floor(places)
    lower, upper = (torch.from_numpy(np.clip(p, 0, size - 1).astype(np.int64)) for p in (floor, np.ceil(places)))
    return lower, upper, torch.from_numpy(places - floor)


def _by_integers(corners: list, wx: torch.Tensor, wy: torch.Tensor, bits: int) -> torch.Tensor:
    """The interpolation with weights of some bits; divisions drop the fraction."""
    one = 1 << bits
    (tl, tr), (bl, br) = [[v.to(torch.int64) for v in row] for row in corners]
    wx, wy = ((w * one).to(torch.int64) for w in (wx, wy))
    top, bottom = tl * one + (tr - tl) * wx, bl * one + (br - bl) * wx
    out = top + torch.div(bottom - top, one, rounding_mode="trunc") * wy
    return torch.div(out + one // 2, one, rounding_mode="trunc")


@resize.kernel
def _resize_kernel(images, size, min, max, *, align_corners, half_pixel_centers):
    low, high = as_scalar(scalar(min, "min")), as_scalar(scalar(max, "max"))
    if images.ndim != 4 or tuple(size.shape) != (2,):
        raise errors.invalid(f"images must be 4-dimensional and size have two elements, got {list(images.shape)} and "
                             f"{list(size.shape)}")
    height, width = size.tolist()
    if height <= 0 or width <= 0 or 0 in images.shape[1:3] or images.numel() // (images.shape[1] * images.shape[2]) * \
            height * width > 2 ** 31:
        raise errors.invalid(f"output dimensions must be positive, and not too large: {height} x {width}")
    if (height, width) == tuple(images.shape[1:3]):
        return images, low, high
    top, bottom, wy = (t.to(images.device) for t in _taps(images.shape[1], height, align_corners, half_pixel_centers))
    left, right, wx = (t.to(images.device) for t in _taps(images.shape[2], width, align_corners, half_pixel_centers))
    corners = [[images[:, rows][:, :, cols] for cols in (left, right)] for rows in (top, bottom)]
    wx, wy = wx[:, None], wy[:, None, None]
    if images.dtype in _BITS:
        return _by_integers(corners, wx, wy, _BITS[images.dtype]).to(images.dtype), low, high
    first, second = (a + (b - a) * wx for a, b in corners)
    return first + (second - first) * wy, low, high


# -- normalization ------------------------------------------------------------------------------------------------------
instance_norm = op("QuantizedInstanceNorm", "x: T, x_min: float32, x_max: float32 -> y: T, y_min: float32, y_max: float32",
                   f"T: {_Q}, output_range_given: bool = False, given_y_min: float = 0.0, given_y_max: float = 0.0, "
                   "variance_epsilon: float = 1e-05, min_separation: float = 0.001").no_gradient()
instance_norm.shape(lambda x, x_min, x_max: [rank_is(x, 4), rank_is(x_min, 0), rank_is(x_max, 0)])


def _only(dtype: Any, wanted: Any, name: str) -> None:
    if dtype != wanted:
        raise errors.UnimplementedError(None, None, f"{name} has a kernel for {wanted.name}, not for {dtype.name}")


@instance_norm.kernel
def _instance_norm_kernel(x, x_min, x_max, *, T, output_range_given, given_y_min, given_y_max, variance_epsilon,
                          min_separation):
    _only(T, dtypes.quint8, "QuantizedInstanceNorm")
    low, high = scalar(x_min, "x_min"), scalar(x_max, "x_max")
    if x.ndim != 4 or not low < high or not x.numel():
        raise errors.invalid(f"x must be 4-dimensional and not empty, and x_min less than x_max, got shape {list(x.shape)} "
                             f"and the range {low}, {high}")
    if output_range_given and not given_y_min < given_y_max:
        raise errors.invalid(f"given_y_min must be less than given_y_max : {given_y_min} >= {given_y_max}")
    away = x.float() - x.float().mean((1, 2), keepdim=True)
    scaled = away * float((high - low) / np.float32(255))
    normed = scaled * torch.rsqrt(scaled.square().mean((1, 2), keepdim=True) + variance_epsilon)
    least, most = (given_y_min, given_y_max) if output_range_given else (float(normed.min()), float(normed.max()))
    if most - least < min_separation:
        most = least + min_separation
    if not (math.isfinite(least) and math.isfinite(most)):
        raise errors.invalid(f"The range of the result is {least}, {most}")
    first, last = np.float32(least), np.float32(most)
    return to_type(quantize_first(normed, first, last, T), T), as_scalar(first), as_scalar(last)


_PARTS = ("t", "m", "v", "beta", "gamma")
batch_norm = op("QuantizedBatchNormWithGlobalNormalization",
                ", ".join(f"{p}: Tinput, {p}_min: float32, {p}_max: float32" for p in _PARTS)
                + " -> result: out_type, result_min: float32, result_max: float32",
                f"Tinput: {_Q}, out_type: {_Q}, variance_epsilon: float, scale_after_normalization: bool").no_gradient()
_RANGE = np.float32(1 << 20)                     # of the result: one million up and down, with ten binary places


@batch_norm.shape
def _batch_norm_shape(*shapes):
    x, channels = rank_is(shapes[0], 4), (None,)
    for part in shapes[3::3]:
        channels = merge(channels, rank_is(part, 1))
    return [(*x[:3], *merge(x[3:], channels)), (), ()]


@batch_norm.kernel
def _batch_norm_kernel(*inputs, Tinput, out_type, variance_epsilon, scale_after_normalization):
    _only(Tinput, dtypes.quint8, "QuantizedBatchNormWithGlobalNormalization")
    _only(out_type, dtypes.qint32, "QuantizedBatchNormWithGlobalNormalization")
    x = inputs[0]
    if x.ndim != 4 or any(tuple(p.shape) != (x.shape[3],) for p in inputs[3::3]):
        raise errors.invalid("t must be 4-dimensional, and the others have one element for each channel, got shapes "
                             f"{[list(p.shape) for p in inputs[::3]]}")
    value, mean, variance, beta, gamma = (
        dequantize_first(v, scalar(low, "a range"), scalar(high, "a range"), Tinput)
        for v, low, high in zip(inputs[::3], inputs[1::3], inputs[2::3], strict=True))
    scale = 1.0 / torch.sqrt(variance + variance_epsilon)
    if scale_after_normalization:
        scale = scale * gamma

    def fixed(v: torch.Tensor) -> torch.Tensor:
        return to_type(quantize_first(v, -_RANGE, _RANGE, out_type), out_type).to(torch.int64)
    product = (fixed(value) * fixed(scale)).to(torch.int32).to(torch.int64)              # wraps as 32 bits do
    whole = torch.div(product, fixed(torch.ones(())), rounding_mode="trunc")
    return (whole + fixed(beta - mean * scale)).to(torch.int32), as_scalar(-_RANGE), as_scalar(_RANGE)
