"""Products of quantized matrices with a bias, and integers of 32 bits brought to 8 with a range per channel.

Both matrices are symmetric around zero or begin at zero, as oneDNN has them: a real number is an integer times a scale. Results
of 8 bits have one scale, too: negative values are clamped if they are unsigned.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.ops.quantized.quantize import as_scalar, to_type
from penstock._src.ops.quantized.quantized import _Q, _ranges, _rule_of
from penstock._src.ops.registry import op

_INPUTS = "a: T1, b: T2, bias: %s, min_a: float32, max_a: float32, min_b: float32, max_b: float32"
_FROZEN = ", min_freezed_output: float32, max_freezed_output: float32"
_OUTPUTS = "out: Toutput, min_out: float32, max_out: float32"
_TYPES = f"T1: {_Q}, T2: {_Q}, "
_BIAS = "Tbias: type in {float32 qint32}, "
_TURNED = "transpose_a: bool = False, transpose_b: bool = False, " \
          "input_quant_mode: string in {MIN_FIRST SCALED} = 'MIN_FIRST'"


def _most(dtype: Any) -> int:
    """The largest integer of a type."""
    return {"quint8": 255, "qint8": 127, "qint32": (1 << 31) - 1, "qint16": (1 << 15) - 1, "quint16": (1 << 16) - 1}[dtype.name]


def _scale(low: Any, high: Any, dtype: Any) -> float:
    """The real number of the integer 1."""
    return max(abs(low), abs(high)) / _most(dtype)


def _product(a: Any, b: Any, bias: Any, ranges: list, T1: Any, T2: Any, transpose_a: bool, transpose_b: bool,
             whole: bool = True) -> tuple:
    """The sums as exact floats, in units of the product of both scales, which comes with them."""
    if a.ndim != 2 or b.ndim != 2:
        raise errors.invalid(f"a and b must be matrices, not of shapes {list(a.shape)} and {list(b.shape)}")
    la, ha, lb, hb = ranges
    unit = _scale(la, ha, T1) * _scale(lb, hb, T2)
    if not unit > 0:
        raise errors.invalid("The ranges of a and b must not be empty")
    x, y = (m.double().t() if turned else m.double() for m, turned in ((a, transpose_a), (b, transpose_b)))
    if x.shape[1] != y.shape[0]:
        raise errors.invalid(f"Matrix size-incompatible: In[0]: {list(x.shape)}, In[1]: {list(y.shape)}")
    if bias.shape != (y.shape[1],):
        raise errors.invalid(f"bias must have one element per column, {y.shape[1]}, not shape {list(bias.shape)}")
    extra = bias.double() / unit if bias.is_floating_point() else bias.double()
    return x @ y + (extra.round() if whole else extra), unit


def _limits(unit: float) -> tuple:
    end = np.float32(unit * (1 << 31))
    return as_scalar(-end), as_scalar(end)


def _shape(results: int) -> Any:
    def rule(a, b, bias, *rest, transpose_a, transpose_b):
        dims = _rule_of("MatMul", a, b, transpose_a=transpose_a, transpose_b=transpose_b)
        return [dims, (), ()] if results == 3 else dims
    return rule


def _declare(name: str, bias: str, frozen: bool, relu: bool, default: str) -> None:
    """A product into 32 bits, or (`frozen`) into 8 bits with a given range."""
    made = op(name, f"{_INPUTS % bias}{_FROZEN if frozen else ''} -> {_OUTPUTS}",
              f"{_TYPES}{_BIAS if bias == 'Tbias' else ''}Toutput: {_Q} = {default}, {_TURNED}").no_gradient()
    made.shape(_shape(3))

    def compute(a, b, bias, *ends, T1, T2, Toutput, transpose_a, transpose_b):
        found = _ranges(*ends)
        sums, unit = _product(a, b, bias, found[:4], T1, T2, transpose_a, transpose_b)
        if relu:
            sums = sums.clamp(min=0)
        if not frozen:
            return to_type(sums, Toutput), *_limits(unit)
        low, high = found[4:]
        return to_type((sums * (unit / _scale(low, high, Toutput))).round(), Toutput), as_scalar(low), as_scalar(high)
    made.kernel(compute)


_declare("QuantizedMatMulWithBias", "Tbias", False, False, "qint32")
_declare("QuantizedMatMulWithBiasAndRelu", "float32", False, True, "qint32")
_declare("QuantizedMatMulWithBiasAndRequantize", "Tbias", True, False, "quint8")
_declare("QuantizedMatMulWithBiasAndReluAndRequantize", "Tbias", True, True, "quint8")

dequantized = op("QuantizedMatMulWithBiasAndDequantize", f"{_INPUTS % 'Tbias'}{_FROZEN} -> out: Toutput",
                 f"{_TYPES}{_BIAS}Toutput: type in {{float32}}, {_TURNED}").no_gradient()
dequantized.shape(_shape(1))


@dequantized.kernel
def _dequantized_kernel(a, b, bias, min_a, max_a, min_b, max_b, min_freezed_output, max_freezed_output, *, T1, T2, transpose_a,
                        transpose_b):
    sums, unit = _product(a, b, bias, _ranges(min_a, max_a, min_b, max_b), T1, T2, transpose_a, transpose_b,
                          whole=False)
    return (sums * unit).to(torch.float32)


# -- a range per channel ------------------------------------------------------------------------------------------------------
requantize_channels = op("RequantizePerChannel", "input: T, input_min: float32, input_max: float32, "
                         "requested_output_min: float32, requested_output_max: float32 -> "
                         "output: out_type, output_min: float32, output_max: float32",
                         f"T: {_Q} = qint32, out_type: {_Q} = quint8").no_gradient()
channel_range = op("RequantizationRangePerChannel", "input: T, input_min: float32, input_max: float32 -> output_min: float32, "
                   "output_max: float32", f"T: {_Q} = qint32, clip_value_max: float").no_gradient()
requantize_channels.shape(lambda input, *rest: [input, (), ()])
channel_range.shape(lambda input, input_min, input_max: [(), ()])


def _channel_scales(input: Any, input_min: Any, input_max: Any, T: Any) -> Any:
    """The real number of the integer 1 in each channel of an image."""
    if input.ndim != 4:
        raise errors.invalid(f"input must be in NHWC format, got shape {list(input.shape)}")
    for value, name in ((input_min, "input_min"), (input_max, "input_max")):
        if value.shape != (input.shape[3],):
            raise errors.invalid(f"{name} must have one element per channel, {input.shape[3]}, not shape {list(value.shape)}")
    return torch.maximum(input_min.abs(), input_max.abs()).double() / (_most(T) + (T == dtypes.qint32))


@requantize_channels.kernel
def _requantize_channels_kernel(input, input_min, input_max, requested_output_min, requested_output_max, *, T, out_type):
    low, high = _ranges(requested_output_min, requested_output_max)
    scale = _scale(low, high, out_type)
    if not scale > 0:
        raise errors.invalid("The requested range must not be empty")
    real = input.double() * _channel_scales(input, input_min, input_max, T)
    return to_type((real / scale).round(), out_type), as_scalar(low), as_scalar(high)


@channel_range.kernel
def _channel_range_kernel(input, input_min, input_max, *, T, clip_value_max):
    scales = _channel_scales(input, input_min, input_max, T)
    if not input.numel():
        raise errors.invalid("input must not be empty")
    flat = input.double().reshape(-1, input.shape[3])
    least, most = (flat.amin(0) * scales).min().item(), (flat.amax(0) * scales).max().item()
    end = min(max(abs(least), abs(most)), clip_value_max)
    return as_scalar(np.float32(-end if least < 0 else 0.0)), as_scalar(np.float32(end))
