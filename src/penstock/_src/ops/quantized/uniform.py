"""Uniform quantization: q = round(x / scale) + zero point, one scale for a tensor or one per slice along an axis.

Halves are rounded up.
"""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.base.static_shape import broadcast, rank_is
from penstock._src.ops.registry import op


def _bounds(*prefixes: str) -> str:
    return ", ".join(f"{p}quantization_axis: int = -1, {p}quantization_min_val: int, {p}quantization_max_val: int"
                     for p in prefixes)


def _scales(prefix: str = "") -> str:
    return f"{prefix}scales: float32, {prefix}zero_points: int32"


def _along(scales: torch.Tensor, zeros: torch.Tensor, rank: int, axis: int, size: int | None) -> tuple:
    """Scales and zero points in a shape that broadcasts with a tensor."""
    if scales.shape != zeros.shape:
        raise errors.invalid(f"scales and zero_points must have the same shape: {list(scales.shape)}, {list(zeros.shape)}")
    if bool((scales <= 0).any()):
        raise errors.invalid("scales must be positive")
    if axis == -1:
        if scales.dim():
            raise errors.invalid(f"scales must be a scalar for quantization_axis=-1, got shape {list(scales.shape)}")
        return scales.double(), zeros.double()
    if not 0 <= axis < rank or scales.dim() != 1 or size is not None and scales.shape[0] != size:
        raise errors.invalid(f"scales of shape {list(scales.shape)} do not match quantization_axis={axis}")
    shape = [1] * rank
    shape[axis] = -1
    return scales.double().reshape(shape), zeros.double().reshape(shape)


def _size(x: torch.Tensor, axis: int) -> int | None:
    return x.shape[axis] if 0 <= axis < x.dim() else None


def _quantized(x: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor, axis: int, low: int, high: int, dtype: Any
               ) -> torch.Tensor:
    scale, zero = _along(scales, zeros, x.dim(), axis, _size(x, axis))
    if x.dtype == torch.float32:                                  # in float32 throughout, as TensorFlow
        x = x * (1 / scale.float())
        return (torch.floor(x + 0.5).double() + zero).clamp(low, high).to(dtype.torch)
    return (torch.floor(x / scale + 0.5) + zero).clamp(low, high).to(dtype.torch)


def _dequantized(q: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor, axis: int) -> torch.Tensor:
    scale, zero = _along(scales, zeros, q.dim(), axis, _size(q, axis))
    return (q.double() - zero) * scale


quantize = op("UniformQuantize", f"input: Tin, {_scales()} -> output: Tout",
              f"Tin: type in {{float32}}, Tout: type in {{qint8 quint8 qint32}}, {_bounds('')}").no_gradient()
dequantize = op("UniformDequantize", f"input: Tin, {_scales()} -> output: Tout",
                f"Tin: type in {{qint8 quint8 qint32}}, Tout: type in {{float32}}, {_bounds('')}").no_gradient()
requantize = op("UniformRequantize", f"input: Tin, {_scales('input_')}, {_scales('output_')} -> output: Tout",
                f"Tin: type in {{qint8 qint32}}, Tout: type in {{qint8 qint32}}, {_bounds('input_', 'output_')}").no_gradient()
clip = op("UniformQuantizedClipByValue", f"operand: T, min: T, max: T, {_scales()} -> output: T",
          f"T: type in {{qint32}}, {_bounds('')}").no_gradient()
_THREE = f"{_scales('lhs_')}, {_scales('rhs_')}, {_scales('output_')}"
add = op("UniformQuantizedAdd", f"lhs: T, rhs: T, {_THREE} -> output: T",
         f"{_bounds('lhs_', 'rhs_', 'output_')}, T: type in {{qint32}}").no_gradient()
dot = op("UniformQuantizedDot", f"lhs: Tin, rhs: Tin, {_THREE} -> output: Tout",
         f"Tin: type in {{qint8}}, Tout: type in {{qint32}}, {_bounds('lhs_', 'rhs_', 'output_')}").no_gradient()
dot_hybrid = op("UniformQuantizedDotHybrid", f"lhs: Tlhs, rhs: Trhs, {_scales('rhs_')} -> output: Tout",
                "Tlhs: type in {float32}, Trhs: type in {qint8}, Tout: type in {float32}, " + _bounds("rhs_")).no_gradient()
for _made in (quantize, dequantize, requantize, clip):
    _made.shape(lambda input, *others: input)
add.shape(lambda lhs, rhs, *others: broadcast(lhs, rhs))


def _dot_shape(lhs, rhs, *others):
    (rows, _), (_, columns) = rank_is(lhs, 2), rank_is(rhs, 2)
    return rows, columns


dot.shape(_dot_shape)
dot_hybrid.shape(_dot_shape)


@quantize.kernel
def _quantize_kernel(input, scales, zero_points, *, Tout, quantization_axis, quantization_min_val, quantization_max_val):
    return _quantized(input, scales, zero_points, quantization_axis, quantization_min_val, quantization_max_val, Tout)


@dequantize.kernel
def _dequantize_kernel(input, scales, zero_points, *, quantization_axis):
    return _dequantized(input, scales, zero_points, quantization_axis).float()


@requantize.kernel
def _requantize_kernel(input, input_scales, input_zero_points, output_scales, output_zero_points, *, Tout,
                       input_quantization_axis, output_quantization_axis, output_quantization_min_val,
                       output_quantization_max_val):
    x = _dequantized(input, input_scales, input_zero_points, input_quantization_axis)
    return _quantized(x, output_scales, output_zero_points, output_quantization_axis, output_quantization_min_val,
                      output_quantization_max_val, Tout)


@clip.kernel
def _clip_kernel(operand, min, max, scales, zero_points, *, quantization_axis):
    _along(scales, zero_points, operand.dim(), quantization_axis, _size(operand, quantization_axis))
    shape = [1] * operand.dim()
    if quantization_axis != -1:
        shape[quantization_axis] = -1
    low, high = (t.reshape(shape) if quantization_axis != -1 else t for t in (min, max))
    return torch.minimum(torch.maximum(operand, low), high)


@add.kernel
def _add_kernel(lhs, rhs, lhs_scales, lhs_zero_points, rhs_scales, rhs_zero_points, output_scales, output_zero_points, *, T,
                lhs_quantization_axis, rhs_quantization_axis, output_quantization_axis, output_quantization_min_val,
                output_quantization_max_val):
    """Both operands in the output's scale, and their sum there."""
    total: Any = 0
    for x, scales, zeros, axis in ((lhs, lhs_scales, lhs_zero_points, lhs_quantization_axis),
                                   (rhs, rhs_scales, rhs_zero_points, rhs_quantization_axis)):
        real = _dequantized(x, scales, zeros, axis)
        scale, _ = _along(output_scales, output_zero_points, x.dim(), output_quantization_axis, None)
        total = total + torch.floor(0.5 + real / scale)
    _, zero = _along(output_scales, output_zero_points, total.dim(), output_quantization_axis, None)
    return (total + zero).clamp(output_quantization_min_val, output_quantization_max_val).to(T.torch)


def _factors(lhs: torch.Tensor, rhs: torch.Tensor) -> None:
    if lhs.dim() != 2 or rhs.dim() != 2 or lhs.shape[1] != rhs.shape[0]:
        raise errors.invalid(f"lhs and rhs must be matrices that fit: shapes {list(lhs.shape)} and {list(rhs.shape)}")


@dot.kernel
def _dot_kernel(lhs, rhs, lhs_scales, lhs_zero_points, rhs_scales, rhs_zero_points, output_scales, output_zero_points, *, Tout,
                lhs_quantization_axis, rhs_quantization_axis, output_quantization_axis, output_quantization_min_val,
                output_quantization_max_val):
    _factors(lhs, rhs)
    product = _dequantized(lhs, lhs_scales, lhs_zero_points, lhs_quantization_axis) @ \
        _dequantized(rhs, rhs_scales, rhs_zero_points, rhs_quantization_axis)
    return _quantized(product, output_scales, output_zero_points, output_quantization_axis, output_quantization_min_val,
                      output_quantization_max_val, Tout)


def _eight_bits(x: torch.Tensor) -> torch.Tensor:
    """The rows of a matrix after quantization to eight bits and back, each in the range of its values and zero."""
    if not x.numel():
        return x.double()
    low, high = x.amin(1, keepdim=True).clamp(max=0).double(), x.amax(1, keepdim=True).clamp(min=0).double()
    scale = ((high - low) / 255).float().double()
    usable = (scale > 0) & torch.isfinite(255 / (high - low))
    scale = torch.where(usable, scale, torch.ones_like(scale))
    zero = torch.where(128 + (low / scale).abs() < 127 + (high / scale).abs(), -128 - low / scale, 127 - high / scale)
    zero = ((zero.abs() + 0.5).floor() * zero.sign()).clamp(-128, 127)
    inverse = torch.where(usable, 255 / (high - low), torch.zeros_like(low)).float()
    return ((torch.floor(x * inverse + 0.5).double() + zero).clamp(-128, 127) - zero) * scale


@dot_hybrid.kernel
def _dot_hybrid_kernel(lhs, rhs, rhs_scales, rhs_zero_points, *, rhs_quantization_axis):
    """Quantizes the floats to eight bits first, by their range."""
    _factors(lhs, rhs)
    return (_eight_bits(lhs) @ _dequantized(rhs, rhs_scales, rhs_zero_points, rhs_quantization_axis)).float()
