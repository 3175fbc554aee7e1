"""Quantization: floats as small integers with a range, and fake quantization of floats."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors, tracing
from penstock._src.base.api import export
from penstock._src.base.static_shape import Dims, merge, rank_at_least, rank_is
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.kernels import arrays
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import op

_QUANTIZED = "type in {quantized}"
_MODE = "mode: string in {MIN_COMBINED MIN_FIRST SCALED} = 'MIN_COMBINED'"
_float = np.float32


def _single(x: torch.Tensor, name: str) -> torch.Tensor:
    """An input that must have one element, as a tensor of rank 0."""
    if x.numel() != 1:
        raise errors.invalid(f"{name} must be rank 0, a single float element, but it contains {x.numel()} elements")
    return x.reshape(())


def scalar(x: torch.Tensor, name: str) -> np.float32:
    """The value of an input that must have one element."""
    return _float(_single(x, name).item())


def as_scalar(x: Any) -> torch.Tensor:
    """A float as an output of rank 0."""
    return torch.tensor(float(x), dtype=torch.float32)


def half_away(x: torch.Tensor) -> torch.Tensor:
    """The nearest integer; halves go away from zero."""
    whole = x.trunc()
    return torch.where((x - whole).abs() >= 0.5, whole + x.sign(), whole)


def limits(dtype: Any) -> tuple[int, int]:
    """The least and greatest integer of a quantized type."""
    info = torch.iinfo(dtype.torch)
    return int(info.min), int(info.max)


def to_type(x: torch.Tensor, dtype: Any) -> torch.Tensor:
    """Floats that hold integers, clamped into a quantized type."""
    low, high = limits(dtype)
    return x.double().clamp(low, high).to(torch.int64).to(dtype.torch)


# -- quantize, dequantize --------------------------------------------------------------
quantize_op = op("QuantizeV2", "input: float32, min_range: float32, max_range: float32 -> output: T, "
                               "output_min: float32, output_max: float32",
                 f"T: {_QUANTIZED}, {_MODE}, round_mode: string in {{HALF_AWAY_FROM_ZERO HALF_TO_EVEN}} = "
                 "'HALF_AWAY_FROM_ZERO', narrow_range: bool = False, axis: int = -1, ensure_minimum_range: float = 0.01")
quantize_op.shape(lambda input, min_range, max_range, *, axis: [input, *_range_shapes(input, min_range, max_range, axis)])


def _range_shapes(input: Dims, low: Dims, high: Dims, axis: int) -> list:
    """The shapes of a range: scalars, or one bound for each index along an axis."""
    if axis < -1:
        raise ValueError(f"axis should be at least -1, got {axis}")
    if input is not None and axis >= len(input):
        raise ValueError(f"Axis must be less than input dimension({len(input)}), got {axis}")
    if axis == -1:
        return [rank_is(low, 0), rank_is(high, 0)]
    n = (None if input is None else input[axis],)
    return [merge(rank_is(low, 1), n), merge(rank_is(high, 1), n)]


def quantization_range(low: np.float32, high: np.float32, least_width: float = 0.01) -> tuple[np.float32, np.float32]:
    """A range that holds zero and is not too narrow."""
    if high < low:
        raise errors.invalid("input_max_range must be larger than input_min_range.")
    least = min(_float(0), low)
    room = max(_float(1), abs(low), abs(high)) * _float(least_width)
    return least, max(_float(0), high, least + room)


def _slices(x: torch.Tensor, low: torch.Tensor, high: torch.Tensor, axis: int) -> list[tuple]:
    """The parts of `x` that have a range of their own, with it."""
    if axis == -1:
        return [(x, scalar(low, "min_range"), scalar(high, "max_range"))]
    if not 0 <= axis < x.dim():
        raise errors.invalid(f"Axis must be less than input dimension({x.dim()}) and at least -1, got {axis}")
    if not low.shape == high.shape == x.shape[axis:axis + 1]:
        raise errors.invalid(f"min_range of shape {list(low.shape)} and max_range of shape {list(high.shape)} do not fit axis "
                             f"{axis} of {list(x.shape)}")
    return list(zip(x.unbind(axis), map(_float, low.tolist()), map(_float, high.tolist()), strict=True))


def _joined(parts: list[torch.Tensor], like: torch.Tensor, axis: int, dtype: torch.dtype) -> torch.Tensor:
    if axis == -1:
        return parts[0]
    return torch.stack(parts, axis) if parts else torch.empty(like.shape, dtype=dtype)


@quantize_op.kernel
def _quantize_kernel(input, min_range, max_range, *, T, mode, round_mode, narrow_range, axis, ensure_minimum_range):
    if round_mode == "HALF_TO_EVEN" and mode != "SCALED":
        raise errors.invalid(f"Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED', but mode is '{mode}'.")
    made = []
    for x, low, high in _slices(input, min_range, max_range, axis):
        low, high = quantization_range(low, high, ensure_minimum_range)
        if mode == "MIN_COMBINED":
            out = _quantize_combined(x, low, high, T)
        elif mode == "MIN_FIRST":
            out = quantize_first(x, low, high, T)
        else:
            out, low, high = _quantize_scaled(x, low, high, T, round_mode, narrow_range)
        made.append((to_type(out, T), as_scalar(low), as_scalar(high)))
    values = _joined([m[0] for m in made], input, axis, T.torch)
    return values, *(_joined([m[i] for m in made], min_range, 0 if axis >= 0 else -1, torch.float32) for i in (1, 2))


def _quantize_combined(x: torch.Tensor, low: np.float32, high: np.float32, dtype: Any) -> torch.Tensor:
    least, most = limits(dtype)
    scale = float(_float((most - least) / float(high - low)))
    x = (x.clamp(float(low), float(high)) - float(low)) * scale
    return half_away(x - (most - least + 1) / 2) if least < 0 else (x + 0.5).floor()


def quantize_first(x: torch.Tensor, low: np.float32, high: np.float32, dtype: Any) -> torch.Tensor:
    """Mode MIN_FIRST: the range starts at the least integer, and zero is an integer."""
    least, most = limits(dtype)
    scale = _float(0) if low == high else _float((most - least) / float(high - low))
    start = float(half_away(torch.tensor(low * scale)))
    return half_away(x * float(scale)) - (start - least)


def _quantize_scaled(x: torch.Tensor, low: np.float32, high: np.float32, dtype: Any, round_mode: str, narrow: bool) -> tuple:
    least, most = limits(dtype)
    least += bool(narrow)
    huge = np.finfo(np.float32).max
    scale = min(_float(least) / low if least * low > 0 else huge, _float(most) / high if most * high > 0 else huge)
    low, high = _float(least) / scale, _float(most) / scale
    x = x.clamp(float(low), float(high)) * float(scale)
    return (x.round() if round_mode == "HALF_TO_EVEN" else half_away(x)), low, high


dequantize_op = op("Dequantize", "input: T, min_range: float32, max_range: float32 -> output: dtype",
                   f"T: {_QUANTIZED}, {_MODE}, narrow_range: bool = False, axis: int = -1, "
                   "dtype: type in {bfloat16 float32} = float32")


@dequantize_op.shape
def _dequantize_shape(input, min_range, max_range, *, axis):
    _range_shapes(input, min_range, max_range, axis)
    return input


@dequantize_op.kernel
def _dequantize_kernel(input, min_range, max_range, *, T, mode, narrow_range, axis, dtype):
    if dtype.torch != torch.float32 and mode != "SCALED":
        raise errors.invalid(f"When output type is not float, only mode SCALED is supported, got {mode}")
    made = [_dequantized(x, low, high, T, mode, narrow_range) for x, low, high in _slices(input, min_range, max_range, axis)]
    return _joined(made, input, axis, torch.float32).to(dtype.torch)


def _dequantized(x: torch.Tensor, low: np.float32, high: np.float32, dtype: Any, mode: str, narrow: bool) -> torch.Tensor:
    least, most = limits(dtype)
    if mode == "MIN_FIRST":
        return dequantize_first(x, low, high, dtype)
    x = x.to(torch.float32)
    if mode == "MIN_COMBINED":
        half = (most - least + 1) / 2 if least < 0 else 0.0
        return (x + half) * float((high - low) / _float(most - least)) + float(low)
    least += bool(narrow)
    scale = high / _float(most) if least >= 0 else max(low / _float(least), high / _float(most))
    return x * float(scale)


def dequantize_first(x: torch.Tensor, low: np.float32, high: np.float32, dtype: Any) -> torch.Tensor:
    """Mode MIN_FIRST, the reverse of `quantize_first`."""
    least, most = limits(dtype)
    scale = _float(float(high - low) / float(most - least))
    start = low if low == high else _float(float(half_away(torch.tensor(low / scale)))) * scale
    return (x.double() * float(scale) + (float(start) - least * float(scale))).float()


def _quantize(input: Any, min_range: Any, max_range: Any, T: Any, mode: str, round_mode: str, name: str | None,
              narrow_range: bool, axis: Any, ensure_minimum_range: float) -> Any:
    return quantize_op(input, min_range, max_range, T=T, mode=mode, round_mode=round_mode, narrow_range=narrow_range,
                       axis=_counted(input, axis), ensure_minimum_range=ensure_minimum_range, name=name)


@export("quantization.quantize", v1=["quantize"])
@dispatched
def quantize(input: Any, min_range: Any, max_range: Any, T: Any, mode: str = "MIN_COMBINED",
             round_mode: str = "HALF_AWAY_FROM_ZERO", name: str | None = None, narrow_range: bool = False,
             axis: Any = None, ensure_minimum_range: float = 0.01) -> Any:
    """Floats in a range as integers of the quantized type `T`, and the range that they represent.

    >>> values, low, high = tf.quantization.quantize([0., 1.], 0., 1., tf.quint8)
    """
    return _quantize(input, min_range, max_range, T, mode, round_mode, name, narrow_range, axis, ensure_minimum_range)


@export(v1=["quantize_v2"])
@dispatched
def quantize_v2(input: Any, min_range: Any, max_range: Any, T: Any, mode: str = "MIN_COMBINED",
                name: str | None = None, round_mode: str = "HALF_AWAY_FROM_ZERO", narrow_range: bool = False,
                axis: Any = None, ensure_minimum_range: float = 0.01) -> Any:
    """The older form of tf.quantization.quantize."""
    return _quantize(input, min_range, max_range, T, mode, round_mode, name, narrow_range, axis, ensure_minimum_range)


@export("quantization.dequantize", v1=["dequantize", "quantization.dequantize"])
@dispatched
def dequantize(input: Any, min_range: Any, max_range: Any, mode: str = "MIN_COMBINED", name: str | None = None,
               axis: Any = None, narrow_range: bool = False, dtype: Any = dtypes.float32) -> Any:
    """The floats that quantized values in a range stand for; with `axis`, each index along it has its own range.

    >>> tf.quantization.dequantize(tf.constant([0, 255], tf.quint8), 0., 1.)
    """
    return dequantize_op(input, min_range, max_range, mode=mode, narrow_range=narrow_range, axis=_counted(input, axis),
                         dtype=dtype, name=name)


# -- quantize and dequantize in one --------------------------------------------------------------
_FLOATS = "T: type in {float}"
_BOTH = "input: T, input_min: T, input_max: T"
quantize_and_dequantize_op = op(
    "QuantizeAndDequantize", "input: T -> output: T",
    f"signed_input: bool = True, num_bits: int = 8, range_given: bool = False, input_min: float = 0.0, "
    f"input_max: float = 0.0, {_FLOATS}")
quantize_and_dequantize_v2 = op(
    "QuantizeAndDequantizeV2", f"{_BOTH} -> output: T",
    f"signed_input: bool = True, num_bits: int = 8, range_given: bool = False, {_FLOATS}, "
    "round_mode: string in {HALF_TO_EVEN HALF_UP} = 'HALF_TO_EVEN', narrow_range: bool = False, axis: int = -1")
quantize_and_dequantize_v3 = op(
    "QuantizeAndDequantizeV3", f"{_BOTH}, num_bits: int32 -> output: T",
    f"signed_input: bool = True, range_given: bool = True, {_FLOATS}, narrow_range: bool = False, axis: int = -1")

quantize_and_dequantize_op.shape(lambda input: input)
quantize_and_dequantize_v2.shape(lambda input, input_min, input_max, *, axis: _ranged(input, input_min, input_max, axis))


@quantize_and_dequantize_v3.shape
def _quantize_and_dequantize_v3_shape(input, input_min, input_max, num_bits, *, axis):
    rank_is(num_bits, 0)
    return _ranged(input, input_min, input_max, axis)


quantize_and_dequantize_op.gradient(lambda op, grad: grad)
quantize_and_dequantize_v2.gradient(lambda op, grad: (grad, None, None))
quantize_and_dequantize_v3.gradient(lambda op, grad: (grad, None, None, None))


def _ranged(input: Dims, low: Dims, high: Dims, axis: int = -1) -> Dims:
    for dims in (low, high):
        rank_is(dims, 0 if axis == -1 else 1)
    return input


def _along(x: torch.Tensor, value: torch.Tensor, axis: int, name: str) -> torch.Tensor:
    """A bound of the range of `x`: one for all, or one for each index along `axis`."""
    if axis == -1:
        if value.numel() != 1:
            raise errors.invalid(f"{name} must contain a single float element, but it contains {value.numel()} elements")
        return value.reshape([])
    if not 0 <= axis < x.dim() or value.shape != x.shape[axis:axis + 1]:
        raise errors.invalid(f"{name} of shape {list(value.shape)} does not fit axis {axis} of {list(x.shape)}")
    return value.reshape([-1 if i == axis else 1 for i in range(x.dim())])


def rounded(x: torch.Tensor, low: torch.Tensor, high: torch.Tensor, *, signed: bool, bits: int, given: bool,
            round_mode: str = "HALF_TO_EVEN", narrow: bool = False, axis: int = -1) -> torch.Tensor:
    """Quantizes `x` to integers of so many bits and back; zero stays zero."""
    if not 1 <= bits <= (62 if signed else 63):
        raise errors.invalid(f"num_bits is out of range: {bits} with signed_input {int(signed)}")
    if not -1 <= axis < max(x.dim(), 1):
        raise errors.invalid(f"axis must be at least -1 and less than the rank, got {axis} for shape {list(x.shape)}")
    if given:
        low, high = _along(x, low, axis, "input_min").double(), _along(x, high, axis, "input_max").double()
        if low.is_cpu and bool((low > high).any()):
            raise errors.invalid(f"Invalid range: input_min {low.tolist()} > input_max {high.tolist()}")
    elif not x.numel():
        return x
    else:
        others = [i for i in range(x.dim()) if axis == -1 or i != axis]
        low, high = x.amin(others, keepdim=axis != -1).double(), x.amax(others, keepdim=axis != -1).double()
    least = (-2 ** (bits - 1) + bool(narrow)) if signed else 0
    most = 2 ** (bits - 1) - 1 if signed else 2 ** bits - 1
    huge = float(torch.finfo(x.dtype).max)
    from_low = torch.where(least * low > 0, least / low, huge)
    from_high = torch.where(most * high > 0, most / high, huge)
    by_low = from_low < from_high
    unit = torch.where(by_low, low / least if least else 0.0, high / most if most else 0.0)
    if given:
        x = x.clamp(torch.where(by_low, low, least * unit).to(x.dtype), torch.where(by_low, most * unit, high).to(x.dtype))
    x = x * torch.where(by_low, from_low, from_high).to(x.dtype)
    return (x.round() if round_mode == "HALF_TO_EVEN" else (x + 0.5).floor()) * unit.to(x.dtype)


@quantize_and_dequantize_op.kernel
def _quantize_and_dequantize_kernel(input, *, signed_input, num_bits, range_given, input_min, input_max):
    if range_given and input_min > input_max:
        raise errors.invalid(f"Invalid range: input_min {input_min} > input_max {input_max}")
    low, high = (torch.full([], v, device=input.device) for v in (input_min, input_max))
    return rounded(input, low, high, signed=signed_input, bits=num_bits, given=range_given)


@quantize_and_dequantize_v2.kernel
def _quantize_and_dequantize_v2_kernel(input, input_min, input_max, *, signed_input, num_bits, range_given, round_mode,
                                       narrow_range, axis):
    return rounded(input, input_min, input_max, signed=signed_input, bits=num_bits, given=range_given, round_mode=round_mode,
                   narrow=narrow_range, axis=axis)


@quantize_and_dequantize_v3.kernel
def _quantize_and_dequantize_v3_kernel(input, input_min, input_max, num_bits, *, signed_input, range_given, narrow_range,
                                       axis):
    if num_bits.numel() != 1:
        raise errors.invalid(f"The `num_bits` tensor should be a scalar. It has the shape {list(num_bits.shape)}")
    return rounded(input, input_min, input_max, signed=signed_input, bits=int(num_bits), given=range_given,
                   narrow=narrow_range, axis=axis)


def _counted(input: Any, axis: int | None) -> int:
    """The axis of ranges, counted from the first; -1 for one range."""
    if axis is None or axis >= 0:
        return -1 if axis is None else axis
    rank = convert(input).shape.rank
    if rank is None:
        raise ValueError("A negative `axis` needs an input of known rank.")
    return axis + rank


@export("quantization.quantize_and_dequantize")
@dispatched
def quantize_and_dequantize(input: Any, input_min: Any, input_max: Any, signed_input: bool = True, num_bits: int = 8,
                            range_given: bool = False, round_mode: str = "HALF_TO_EVEN", name: str | None = None,
                            narrow_range: bool = False, axis: int | None = None) -> Tensor:
    """Floats rounded to the values of `num_bits` integers; the gradient passes through. With `axis`, each index along it
    has its own range."""
    return quantize_and_dequantize_v2(input, input_min, input_max, signed_input=signed_input, num_bits=num_bits,
                                      range_given=range_given, round_mode=round_mode, narrow_range=narrow_range,
                                      axis=_counted(input, axis), name=name)


# Version 4 has a gradient that is zero outside of the range.
quantize_and_dequantize_v4 = op(
    "QuantizeAndDequantizeV4", f"{_BOTH} -> output: T",
    f"signed_input: bool = True, num_bits: int = 8, range_given: bool = False, {_FLOATS}, "
    "round_mode: string in {HALF_TO_EVEN HALF_UP} = 'HALF_TO_EVEN', narrow_range: bool = False, axis: int = -1")
quantize_and_dequantize_v4_grad = op(
    "QuantizeAndDequantizeV4Grad", f"gradients: T, {_BOTH} -> input_backprop: T, input_min_backprop: T, input_max_backprop: T",
    f"{_FLOATS}, axis: int = -1").no_gradient()
quantize_and_dequantize_v4.shape(lambda input, input_min, input_max, *, axis: _ranged(input, input_min, input_max, axis))
quantize_and_dequantize_v4.kernel(_quantize_and_dequantize_v2_kernel)
quantize_and_dequantize_v4_grad.shape(lambda gradients, input, input_min, input_max, *, axis:
                                      [_ranged(merge(gradients, input), input_min, input_max, axis), input_min, input_max])


@quantize_and_dequantize_v4_grad.kernel
def _quantize_and_dequantize_v4_grad_kernel(gradients, input, input_min, input_max, *, axis):
    if gradients.shape != input.shape:
        raise errors.invalid("gradient and input must have the same shape, got "
                             f"{list(gradients.shape)} and {list(input.shape)}")
    inside = (input >= _along(input, input_min, axis, "input_min")) & (input <= _along(input, input_max, axis, "input_max"))
    return torch.where(inside, gradients, 0), torch.zeros_like(input_min), torch.zeros_like(input_max)


@quantize_and_dequantize_v4.gradient
def _quantize_and_dequantize_v4_gradient(op, grad):
    return quantize_and_dequantize_v4_grad(grad, *op.inputs, axis=op.attrs["axis"])


@export("quantization.quantize_and_dequantize_v2")
@dispatched
def quantize_and_dequantize_public_v2(input: Any, input_min: Any, input_max: Any, signed_input: bool = True, num_bits: int = 8,
                                      range_given: bool = False, round_mode: str = "HALF_TO_EVEN", name: str | None = None,
                                      narrow_range: bool = False, axis: int | None = None) -> Tensor:
    """Floats rounded to the values of `num_bits` integers; the gradient passes through inside of the range.

    Args:
        input: Floats.
        input_min: Least value, a scalar; with `axis` a vector.
        input_max: Largest value, likewise.
        signed_input: Whether the integers have a sign.
        num_bits: Bits of the integers.
        range_given: Whether the range is given; that of `input` otherwise.
        round_mode: "HALF_TO_EVEN" or "HALF_UP".
        name: Name of the operation.
        narrow_range: Whether the least integer is not used.
        axis: Dimension along which each index has its own range.
    """
    return quantize_and_dequantize_v4(input, input_min, input_max, signed_input=signed_input, num_bits=num_bits,
                                      range_given=range_given, round_mode=round_mode, narrow_range=narrow_range,
                                      axis=_counted(input, axis), name=name)


# -- fake quantization --------------------------------------------------------------
_BITS = "num_bits: int = 8, narrow_range: bool = False"
_RANGE = "min: float = -6.0, max: float = 6.0, "
_VARS = "inputs: float32, min: float32, max: float32"
_BACK = "backprops_wrt_input: float32, backprop_wrt_min: float32, backprop_wrt_max: float32"


def _fake(name: str, args: str, attrs: str, public: str, doc: str) -> Any:
    return op(name, args, attrs, export_as=f"quantization.{public}", v1_as=public, doc=doc)


fake_args = _fake("FakeQuantWithMinMaxArgs", "inputs: float32 -> outputs: float32", _RANGE + _BITS,
                  "fake_quant_with_min_max_args", "Floats rounded to the levels of a fixed range.")
fake_args_gradient = _fake("FakeQuantWithMinMaxArgsGradient", "gradients: float32, inputs: float32 -> "
                           "backprops: float32", _RANGE + _BITS, "fake_quant_with_min_max_args_gradient",
                           "The gradient of fake_quant_with_min_max_args.").no_gradient()
fake_vars = _fake("FakeQuantWithMinMaxVars", f"{_VARS} -> outputs: float32", _BITS, "fake_quant_with_min_max_vars",
                  "Floats rounded to the levels of a range that can be trained.")
fake_vars_gradient = _fake("FakeQuantWithMinMaxVarsGradient", f"gradients: float32, {_VARS} -> {_BACK}", _BITS,
                           "fake_quant_with_min_max_vars_gradient",
                           "The gradient of fake_quant_with_min_max_vars.").no_gradient()
fake_channels = _fake("FakeQuantWithMinMaxVarsPerChannel", f"{_VARS} -> outputs: float32", _BITS,
                      "fake_quant_with_min_max_vars_per_channel",
                      "Floats rounded to the levels of a range per channel (last axis).")
fake_channels_gradient = _fake("FakeQuantWithMinMaxVarsPerChannelGradient", f"gradients: float32, {_VARS} -> {_BACK}",
                               _BITS, "fake_quant_with_min_max_vars_per_channel_gradient",
                               "The gradient of fake_quant_with_min_max_vars_per_channel.").no_gradient()


def _nudged(low: Any, high: Any, bits: int, narrow: bool) -> tuple:
    """A range nudged so that zero is one of its levels: low, high, the size of a level."""
    if not 2 <= bits <= 16:
        raise errors.invalid(f"num_bits must be between 2 and 16, inclusive, but is {bits}")
    least, most = float(narrow), float(2 ** bits - 1)
    if not isinstance(low, torch.Tensor):
        with np.errstate(all="ignore"):
            scale = (high - low) / np.float32(most - least)
            at = np.nan_to_num(np.float32(least) - low / scale, nan=0.0)
            whole = np.trunc(at)
            zero = np.clip(whole + np.sign(at) if abs(at - whole) >= 0.5 else whole, np.float32(least), np.float32(most))
            return (least - zero) * scale, (most - zero) * scale, scale
    scale = (high - low) / (most - least)
    zero = half_away((least - low / scale).nan_to_num(0.0)).clamp(least, most)
    return (least - zero) * scale, (most - zero) * scale, scale


def _numbers(low: torch.Tensor, high: torch.Tensor) -> tuple[Any, Any]:
    """One range for all channels as numbers of float32, if they can be read: a nudged range takes many ops on tensors."""
    if low.dim() or not low.is_cpu or tracing.lowering() or tracing.recording():
        return low, high
    return np.float32(low.item()), np.float32(high.item())


def _fake_quantized(x: torch.Tensor, low: torch.Tensor, high: torch.Tensor, bits: int, narrow: bool) -> torch.Tensor:
    low, high = _numbers(low, high)
    a, b, scale = _nudged(low, high, bits, narrow)
    if not isinstance(low, torch.Tensor):
        if low == 0 and high == 0:
            return torch.zeros_like(x)
        with np.errstate(all="ignore"):
            zero = float(np.floor(-a / scale + np.float32(0.5)))
        return x.clamp(float(a), float(b)).sub_(float(a)).div_(float(scale)).add_(0.5).floor_().sub_(zero).mul_(float(scale))
    zero = (-a / scale + 0.5).floor()
    out = (((x.clamp(a, b) - a) / scale + 0.5).floor() - zero) * scale
    return torch.where((low == 0) & (high == 0), torch.zeros_like(out), out)


def _fake_backward(grad: torch.Tensor, x: torch.Tensor, low: torch.Tensor, high: torch.Tensor, bits: int,
                   narrow: bool) -> tuple:
    """The gradients inside, below and above the range."""
    if grad.shape != x.shape:
        raise errors.invalid(f"gradient and input must be the same size: {arrays.show(grad.shape)} and "
                             f"{arrays.show(x.shape)}")
    low, high = _numbers(low, high)
    a, b, _ = _nudged(low, high, bits, narrow)
    zero = torch.zeros_like(grad)
    if not isinstance(low, torch.Tensor):
        if low == 0 and high == 0:
            return grad, zero, zero
        below, above = x < float(a), x > float(b)
        passed = grad.masked_fill(~((x >= float(a)) & (x <= float(b))), 0.0)
        return passed, torch.where(below, grad, zero), torch.where(above, grad, zero)
    none = (low == 0) & (high == 0)
    return (torch.where(none | (x >= a) & (x <= b), grad, zero), torch.where(~none & (x < a), grad, zero),
            torch.where(~none & (x > b), grad, zero))


def _fixed(x: torch.Tensor, low: float, high: float) -> tuple[torch.Tensor, torch.Tensor]:
    if low >= high:
        raise errors.invalid(f"min has to be smaller than max, was: {low} >= {high}")
    return x.new_full((), low), x.new_full((), high)


fake_args.shape(lambda inputs: inputs)
fake_args_gradient.shape(lambda gradients, inputs: merge(gradients, inputs))
fake_vars.shape(lambda inputs, min, max: _ranged(inputs, min, max))
fake_vars_gradient.shape(lambda gradients, inputs, min, max: [_ranged(merge(gradients, inputs), min, max), (), ()])


@fake_args.kernel
def _fake_args_kernel(inputs, *, min, max, num_bits, narrow_range):
    return _fake_quantized(inputs, *_fixed(inputs, min, max), num_bits, narrow_range)


@fake_args_gradient.kernel
def _fake_args_gradient_kernel(gradients, inputs, *, min, max, num_bits, narrow_range):
    return _fake_backward(gradients, inputs, *_fixed(inputs, min, max), num_bits, narrow_range)[0]


def _check_range(low: torch.Tensor, high: torch.Tensor, rank: int) -> None:
    for name, v in (("min", low), ("max", high)):
        if v.dim() != rank:
            raise errors.invalid(f"`{name}` must be rank {rank} but is rank {v.dim()}")


@fake_vars.kernel
def _fake_vars_kernel(inputs, min, max, *, num_bits, narrow_range):
    _check_range(min, max, 0)
    return _fake_quantized(inputs, min, max, num_bits, narrow_range)


@fake_vars_gradient.kernel
def _fake_vars_gradient_kernel(gradients, inputs, min, max, *, num_bits, narrow_range):
    _check_range(min, max, 0)
    passed, below, above = _fake_backward(gradients, inputs, min, max, num_bits, narrow_range)
    return passed, below.sum(), above.sum()


def _channel_shape(inputs: Dims, low: Dims, high: Dims) -> tuple[Dims, Dims]:
    rank_at_least(inputs, 1)
    (n,), (m,) = rank_is(low, 1), rank_is(high, 1)
    depth = inputs[-1] if inputs else None
    if len({d for d in (n, m, depth) if d is not None}) > 1:
        raise ValueError(f"Dimensions must be equal, but are {n}, {m} and {depth}: min, max and the last axis")
    depth = next((d for d in (n, m, depth) if d is not None), None)
    return inputs, (depth,)


fake_channels.shape(lambda inputs, min, max: _channel_shape(inputs, min, max)[0])


@fake_channels_gradient.shape
def _fake_channels_gradient_shape(gradients, inputs, min, max):
    whole, depth = _channel_shape(merge(gradients, inputs), min, max)
    return [whole, depth, depth]


def _check_channels(x: torch.Tensor, low: torch.Tensor, high: torch.Tensor) -> None:
    if not x.dim():
        raise errors.invalid("inputs must be at least 1-dimensional")
    _check_range(low, high, 1)
    for name, v in (("min", low), ("max", high)):
        if tuple(v.shape) != (x.shape[-1],):
            raise errors.invalid(f"{name} has incorrect size, expected {x.shape[-1]} was {arrays.show(v.shape)}")


@fake_channels.kernel
def _fake_channels_kernel(inputs, min, max, *, num_bits, narrow_range):
    _check_channels(inputs, min, max)
    return _fake_quantized(inputs, min, max, num_bits, narrow_range)


@fake_channels_gradient.kernel
def _fake_channels_gradient_kernel(gradients, inputs, min, max, *, num_bits, narrow_range):
    _check_channels(inputs, min, max)
    passed, below, above = _fake_backward(gradients, inputs, min, max, num_bits, narrow_range)
    depth = inputs.shape[-1]
    return passed, below.reshape(-1, depth).sum(0), above.reshape(-1, depth).sum(0)


def _bits(op: Any) -> dict[str, Any]:
    return {n: op.attrs[n] for n in ("num_bits", "narrow_range")}


fake_args.gradient(lambda op, grad: fake_args_gradient(grad, op.inputs[0], min=op.attrs["min"], max=op.attrs["max"],
                                                       **_bits(op)))
fake_vars.gradient(lambda op, grad: tuple(fake_vars_gradient(grad, *op.inputs, **_bits(op))))
fake_channels.gradient(lambda op, grad: tuple(fake_channels_gradient(grad, *op.inputs, **_bits(op))))
