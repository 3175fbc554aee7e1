"""Arithmetic on quantized tensors: integers that carry the range of floats they represent.

A value q in the range [low, high] of a type with the integers least … most represents low + (q - least) * step, with
low moved so that zero is an integer. Products are computed on integers less their zero, in double precision, which
holds every sum of 32-bit products of reasonable length exactly.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.static_shape import Dims, broadcast, rank_is, show
from penstock._src.kernels import arrays
from penstock._src.ops.array.array import reshape_op
from penstock._src.ops.array.concat import concat_op
from penstock._src.ops.quantized.quantize import as_scalar, dequantize_first, half_away, limits, quantize_first, scalar, to_type
from penstock._src.ops.registry import get, op

_Q = "type in {quantized}"
_float = np.float32


def _ranges(*values: torch.Tensor) -> list[np.float32]:
    return [scalar(v, "a range") for v in values]


def _scalars(*dims: Dims) -> None:
    """The shape rule of ranges."""
    for d in dims:
        rank_is(d, 0)


def _filled_ranges(**ranges: np.float32) -> None:
    """InvalidArgumentError for a range that is empty: `min_x` and `max_x`, `min_y` and `max_y`."""
    for name in ("x", "y"):
        if not ranges[f"max_{name}"] > ranges[f"min_{name}"]:
            raise errors.invalid(f"max_{name} must be larger than min_{name}.")


def zero_of(low: np.float32, high: np.float32, dtype: Any) -> int:
    """The integer that represents 0.0."""
    least, most = limits(dtype)
    if low == high:
        return least
    scale = (most - least) / float(high - low)
    return least - int(half_away(torch.tensor(float(low) * scale, dtype=torch.float64)))


def _centred(x: torch.Tensor, low: np.float32, high: np.float32, dtype: Any) -> torch.Tensor:
    return x.double() - zero_of(low, high, dtype)


def product_range(a: tuple, b: tuple, out: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The range of a product of quantized values; a and b are (low, high, dtype)."""
    def step(low: np.float32, high: np.float32, dtype: Any) -> np.float32:
        least, most = limits(dtype)
        return _float((high - low) / _float(most - least))
    unit = step(*a) * step(*b)
    least, most = limits(out)
    return as_scalar(unit * _float(least)), as_scalar(unit * _float(most))


def requantized(x: torch.Tensor, low: np.float32, high: np.float32, dtype: Any, new_low: np.float32,
                new_high: np.float32, new_dtype: Any) -> torch.Tensor:
    """Quantized values in another range and type."""
    if dtype is dtypes.qint32 and new_dtype is dtypes.quint8:
        return _to_bytes(x, low, high, new_low, new_high)
    return to_type(quantize_first(dequantize_first(x, low, high, dtype), new_low, new_high, new_dtype), new_dtype)


def _to_bytes(x: torch.Tensor, low: np.float32, high: np.float32, new_low: np.float32,
              new_high: np.float32) -> torch.Tensor:
    """Converts 32 bits to 8 in fixed point with 16 fractional bits, bit for bit like TensorFlow."""
    one, span = 2 ** 16, float(new_high - new_low)
    if span == 0:
        return torch.zeros(x.shape, dtype=torch.uint8, device=x.device)
    scale = int(255.0 * one * float(high - low) / span)
    middle = int(float((low + high) / _float(2)) * float(_float(255.0 / span)) * one)
    start = int(one * (float(new_low) * 255.0) / span)
    # x * scale does not fit 64 bits when the range shrinks a lot: its upper and lower half are multiplied apart
    upper, lower = divmod(scale, 2 ** 32)
    wide = x.to(torch.int64)
    scaled = wide * upper + ((wide * lower) >> 32)
    return ((scaled + (middle - start + one // 2)) >> 16).clamp(0, 255).to(torch.uint8)


# -- moved about --------------------------------------------------------------
quantized_reshape = op("QuantizedReshape", "tensor: T, shape: Tshape, input_min: float32, input_max: float32 -> "
                                           "output: T, output_min: float32, output_max: float32",
                       "T: type, Tshape: type in {index} = int32")
quantized_reshape.shape(lambda tensor, shape, input_min, input_max, *, c: [
    reshape_op.shapes_of((tensor, shape), {"c": c}), rank_is(input_min, 0), rank_is(input_max, 0)])
quantized_reshape.kernel(lambda tensor, shape, input_min, input_max: (
    reshape_op.kernels["any"].fn(tensor, shape), input_min, input_max))

quantized_concat = op("QuantizedConcat", "concat_dim: int32, values: N * T, input_mins: N * float32, "
                                         "input_maxes: N * float32 -> output: T, output_min: float32, "
                                         "output_max: float32",
                      "N: int >= 2, T: type", export_as="quantization.quantized_concat", v1_as="quantized_concat",
                      doc="Quantized tensors joined along an axis, brought to one range.")


@quantized_concat.shape
def _quantized_concat_shape(concat_dim, values, input_mins, input_maxes, *, c):
    for d in (*input_mins, *input_maxes):
        rank_is(d, 0)
    return [concat_op.shapes_of((concat_dim, values), {"c": c}), (), ()]


@quantized_concat.kernel
def _quantized_concat_kernel(concat_dim, values, input_mins, input_maxes, *, T):
    lows, highs = _ranges(*input_mins), _ranges(*input_maxes)
    low, high = min(_float(0), *lows), max(highs)
    if limits(T)[0] < 0:
        high = max(abs(low), abs(high))
        low = -high
    same = [v if (a, b) == (low, high) else requantized(v, a, b, T, low, high, T)
            for v, a, b in zip(values, lows, highs, strict=True)]
    return concat_op.kernels["any"].fn(concat_dim, same), as_scalar(low), as_scalar(high)


# -- elementwise --------------------------------------------------------------
def _activation(name: str, args: str, public: str = "") -> Any:
    made = op(name, f"features: Tinput, {args}min_features: float32, max_features: float32 -> activations: out_type, "
                    "min_activations: float32, max_activations: float32",
              f"Tinput: {_Q}, out_type: {_Q} = quint8", v1_as=public,
              doc="A rectifier on quantized values, whose range stays.")
    made.shape(lambda features, *rest: [features, (), ()])
    return made


quantized_relu = _activation("QuantizedRelu", "")
quantized_relu6 = _activation("QuantizedRelu6", "")
quantized_relu_x = _activation("QuantizedReluX", "max_value: float32, ", "nn.quantized_relu_x")


def _clamped(x: torch.Tensor, low: torch.Tensor, high: torch.Tensor, top: Any, dtype: Any, out_type: Any) -> tuple:
    if dtype is not out_type:
        raise errors.UnimplementedError(None, None, f"{dtype.name} is not rectified into {out_type.name}")
    a, b = _ranges(low, high)
    edges = to_type(quantize_first(torch.tensor([0.0, 0.0 if top is None else float(top)]), a, b, dtype), dtype).tolist()
    return x.clamp(edges[0], limits(dtype)[1] if top is None else edges[1]), as_scalar(a), as_scalar(b)


@quantized_relu.kernel
def _quantized_relu_kernel(features, min_features, max_features, *, Tinput, out_type):
    return _clamped(features, min_features, max_features, None, Tinput, out_type)


@quantized_relu6.kernel
def _quantized_relu6_kernel(features, min_features, max_features, *, Tinput, out_type):
    return _clamped(features, min_features, max_features, 6, Tinput, out_type)


@quantized_relu_x.kernel
def _quantized_relu_x_kernel(features, max_value, min_features, max_features, *, Tinput, out_type):
    return _clamped(features, min_features, max_features, scalar(max_value, "max_value"), Tinput, out_type)


_BINARY = ("x: T1, y: T2, min_x: float32, max_x: float32, min_y: float32, max_y: float32 -> z: Toutput, "
           "min_z: float32, max_z: float32", f"T1: {_Q}, T2: {_Q}, Toutput: {_Q} = qint32")
quantized_add = op("QuantizedAdd", *_BINARY, commutative=True)
quantized_mul = op("QuantizedMul", *_BINARY, commutative=True)
quantized_bias_add = op("QuantizedBiasAdd", "input: T1, bias: T2, min_input: float32, max_input: float32, "
                        "min_bias: float32, max_bias: float32 -> output: out_type, min_out: float32, max_out: float32",
                        f"T1: {_Q}, T2: {_Q}, out_type: {_Q}")
for _made in (quantized_add, quantized_mul):
    _made.shape(lambda x, y, min_x, max_x, min_y, max_y: [broadcast(x, y), (), ()])


@quantized_mul.kernel
def _quantized_mul_kernel(x, y, min_x, max_x, min_y, max_y, *, T1, T2, Toutput):
    ax, bx, ay, by = _ranges(min_x, max_x, min_y, max_y)
    _filled_ranges(min_x=ax, max_x=bx, min_y=ay, max_y=by)
    out = _centred(x, ax, bx, T1) * _centred(y, ay, by, T2)
    return to_type(out, Toutput), *product_range((ax, bx, T1), (ay, by, T2), Toutput)


def _sum_range(ax: np.float32, bx: np.float32, ay: np.float32, by: np.float32, headroom: int) -> tuple:
    """A range for a sum, symmetric around zero, with so many bits of headroom."""
    high = max(bx, -ax, by, -ay) * _float(2 ** headroom)
    return -high, high


def _stretched(x: torch.Tensor, low: np.float32, high: np.float32, dtype: Any, new_low: np.float32,
               new_high: np.float32, new_dtype: Any) -> torch.Tensor:
    """Bytes in a wider type: the codes of 0 and 1 return a whole step, as TensorFlow computes it."""
    if dtype is not dtypes.quint8 or new_dtype is not dtypes.qint32:
        return requantized(x, low, high, dtype, new_low, new_high, new_dtype)
    ends = dequantize_first(torch.tensor([0, 1]), low, high, dtype).double()
    scale = (2 ** 32 - 1) / float(new_high - new_low)
    start, next_one = (half_away(ends * scale) - half_away(torch.tensor(float(new_low) * scale, dtype=torch.float64))
                       + limits(new_dtype)[0]).tolist()
    return to_type(start + x.double() * (next_one - start), new_dtype)


@quantized_add.kernel
def _quantized_add_kernel(x, y, min_x, max_x, min_y, max_y, *, T1, T2, Toutput):
    ax, bx, ay, by = _ranges(min_x, max_x, min_y, max_y)
    _filled_ranges(min_x=ax, max_x=bx, min_y=ay, max_y=by)
    low, high = _sum_range(ax, bx, ay, by, 14)
    total = _stretched(x, ax, bx, T1, low, high, Toutput).double() + _stretched(y, ay, by, T2, low, high, Toutput)
    return to_type(total, Toutput), as_scalar(low), as_scalar(high)


@quantized_bias_add.shape
def _quantized_bias_add_shape(input, bias, min_input, max_input, min_bias, max_bias):
    (n,) = rank_is(bias, 1)
    if input is not None and (len(input) < 2 or None not in (n, input[-1]) and n != input[-1]):
        raise ValueError(f"Must provide as many biases as the last dimension of the input tensor: {show(bias)} vs. "
                         f"{show(input)}")
    return [input, (), ()]


@quantized_bias_add.kernel
def _quantized_bias_add_kernel(input, bias, min_input, max_input, min_bias, max_bias, *, T1, T2, out_type):
    if bias.dim() != 1 or input.dim() < 2 or input.shape[-1] != bias.shape[0]:
        raise errors.invalid("Must provide as many biases as the last dimension of the input tensor: "
                             f"{arrays.show(bias.shape)} vs. {arrays.show(input.shape)}")
    ax, bx, ay, by = _ranges(min_input, max_input, min_bias, max_bias)
    low, high = _sum_range(ax, bx, ay, by, 17)
    total = requantized(input, ax, bx, T1, low, high, out_type).double() + requantized(bias, ay, by, T2, low, high, out_type)
    return to_type(total, out_type), as_scalar(low), as_scalar(high)


# -- products --------------------------------------------------------------
quantized_mat_mul = op("QuantizedMatMul", "a: T1, b: T2, min_a: float32, max_a: float32, min_b: float32, "
                                          "max_b: float32 -> out: Toutput, min_out: float32, max_out: float32",
                       f"T1: {_Q}, T2: {_Q}, Toutput: {_Q} = qint32, transpose_a: bool = False, "
                       f"transpose_b: bool = False, Tactivation: {_Q} = quint8")


@quantized_mat_mul.shape
def _quantized_mat_mul_shape(a, b, min_a, max_a, min_b, max_b, *, transpose_a, transpose_b):
    (m, k), (j, n) = rank_is(a, 2), rank_is(b, 2)
    m, k = (k, m) if transpose_a else (m, k)
    j, n = (n, j) if transpose_b else (j, n)
    if None not in (j, k) and j != k:
        raise ValueError(f"Dimensions must be equal, but are {k} and {j}: {show(a)} and {show(b)}")
    return [(m, n), (), ()]


@quantized_mat_mul.kernel
def _quantized_mat_mul_kernel(a, b, min_a, max_a, min_b, max_b, *, T1, T2, Toutput, transpose_a, transpose_b):
    if a.dim() != 2 or b.dim() != 2:
        raise errors.invalid(f"a and b must be matrices, not {arrays.show(a.shape)} and {arrays.show(b.shape)}")
    la, ha, lb, hb = _ranges(min_a, max_a, min_b, max_b)
    x, y = _centred(a, la, ha, T1), _centred(b, lb, hb, T2)
    x, y = x.t() if transpose_a else x, y.t() if transpose_b else y
    if x.shape[1] != y.shape[0]:
        raise errors.invalid(f"Matrix size-incompatible: In[0]: {arrays.show(a.shape)}, In[1]: {arrays.show(b.shape)}")
    return to_type(x @ y, Toutput), *product_range((la, ha, T1), (lb, hb, T2), Toutput)


quantized_conv2d = op("QuantizedConv2D", "input: Tinput, filter: Tfilter, min_input: float32, max_input: float32, "
                      "min_filter: float32, max_filter: float32 -> output: out_type, min_output: float32, "
                      "max_output: float32",
                      f"Tinput: {_Q}, Tfilter: {_Q}, out_type: {_Q} = qint32, strides: list(int), "
                      "padding: string in {SAME VALID}, dilations: list(int) = [1, 1, 1, 1]",
                      v1_as="nn.quantized_conv2d", doc="A convolution of quantized images and filters.")


def _conv_attrs(strides: list, padding: str, dilations: list) -> dict[str, Any]:
    return {"strides": strides, "padding": padding, "dilations": dilations, "data_format": "NHWC",
            "explicit_paddings": [], "use_cudnn_on_gpu": False}


def _rule_of(name: str, *shapes: Dims, **attrs: Any) -> Dims:
    made = get(name)
    return made.shapes_of(shapes, attrs)


@quantized_conv2d.shape
def _quantized_conv2d_shape(input, filter, min_input, max_input, min_filter, max_filter, *, strides, padding, dilations):
    _scalars(min_input, max_input, min_filter, max_filter)
    return [_rule_of("Conv2D", input, filter, **_conv_attrs(strides, padding, dilations)), (), ()]


@quantized_conv2d.kernel
def _quantized_conv2d_kernel(input, filter, min_input, max_input, min_filter, max_filter, *, Tinput, Tfilter, out_type,
                             strides, padding, dilations):
    li, hi, lf, hf = _ranges(min_input, max_input, min_filter, max_filter)
    kernel = get("Conv2D").kernel_for("cpu").bind(_conv_attrs(strides, padding, dilations))
    out = kernel(_centred(input, li, hi, Tinput), _centred(filter, lf, hf, Tfilter))
    return to_type(half_away(out), out_type), *product_range((li, hi, Tinput), (lf, hf, Tfilter), out_type)


# -- pooling --------------------------------------------------------------
def _pool(name: str, plain: str, public: str) -> None:
    """A pooling of quantized images: that of floats on the integers, rounded to integers (halves to even)."""
    made = op(name, "input: T, min_input: float32, max_input: float32 -> output: T, min_output: float32, "
                    "max_output: float32",
              f"T: {_Q}, ksize: list(int), strides: list(int), padding: string in {{SAME VALID}}", v1_as=public,
              doc=f"{plain} of quantized images, whose range stays.")

    @made.shape
    def _made_shape(input, min_input, max_input, *, ksize, strides, padding):
        _scalars(min_input, max_input)
        return [_rule_of(plain, input, ksize=ksize, strides=strides, padding=padding, data_format="NHWC"), (), ()]

    @made.kernel
    def _made_kernel(input, min_input, max_input, *, T, ksize, strides, padding):
        low, high = _ranges(min_input, max_input)
        kernel = get(plain).kernel_for("cpu").bind(
            {"T": dtypes.float64, "ksize": ksize, "strides": strides, "padding": padding, "data_format": "NHWC"})
        return to_type(kernel(input.double()).round(), T), as_scalar(low), as_scalar(high)


_pool("QuantizedMaxPool", "MaxPool", "nn.quantized_max_pool")
_pool("QuantizedAvgPool", "AvgPool", "nn.quantized_avg_pool")


# -- other ranges --------------------------------------------------------------
_RESULT = "output: out_type, output_min: float32, output_max: float32"
requantize = op("Requantize", "input: Tinput, input_min: float32, input_max: float32, requested_output_min: float32, "
                              f"requested_output_max: float32 -> {_RESULT}", f"Tinput: {_Q}, out_type: {_Q}")
requantization_range = op("RequantizationRange", "input: Tinput, input_min: float32, input_max: float32 -> "
                                                 "output_min: float32, output_max: float32", f"Tinput: {_Q}")
shrink_range = op("QuantizeDownAndShrinkRange", "input: Tinput, input_min: float32, input_max: float32 -> " + _RESULT,
                  f"Tinput: {_Q}, out_type: {_Q}")
requantize.shape(lambda input, *rest: [input, (), ()])
requantization_range.shape(lambda input, *rest: [(), ()])
shrink_range.shape(lambda input, *rest: [input, (), ()])


@requantize.kernel
def _requantize_kernel(input, input_min, input_max, requested_output_min, requested_output_max, *, Tinput, out_type):
    low, high, new_low, new_high = _ranges(input_min, input_max, requested_output_min, requested_output_max)
    if new_low > 0:
        raise errors.invalid(f"requested_output_min must be <= 0, but got {new_low}")
    if new_high < new_low:
        raise errors.invalid(f"requested_output_max must be >= requested_output_min, but got {new_high} and {new_low}")
    return (requantized(input, low, high, Tinput, new_low, new_high, out_type), as_scalar(new_low),
            as_scalar(new_high))


def _used_range(x: torch.Tensor, low: np.float32, high: np.float32, dtype: Any) -> tuple[np.float32, np.float32]:
    """The actual range of the values, including zero."""
    least, most = limits(dtype)
    ends = torch.stack(torch.aminmax(x)) if x.numel() else torch.tensor([most, least])
    used = dequantize_first(ends, low, high, dtype).tolist()
    return min(_float(0), _float(used[0])), _float(used[1])


@requantization_range.kernel
def _requantization_range_kernel(input, input_min, input_max, *, Tinput):
    low, high = _ranges(input_min, input_max)
    return tuple(as_scalar(v) for v in _used_range(input, low, high, Tinput))


@shrink_range.kernel
def _shrink_range_kernel(input, input_min, input_max, *, Tinput, out_type):
    low, high = _ranges(input_min, input_max)
    new_low, new_high = _used_range(input, low, high, Tinput)
    return (requantized(input, low, high, Tinput, new_low, new_high, out_type), as_scalar(new_low),
            as_scalar(new_high))
