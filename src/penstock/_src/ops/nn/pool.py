"""Pooling: the maximum or the mean of sliding windows, in two and three dimensions, with gradients.

Where the padding of "SAME" is uneven, ATen's ceil mode covers it without a copy (a window may extend beyond the far edge);
only stride-one windows of even size must be padded first. The gradient of the maximum goes to the first largest
element of a window, which the kernels recompute from the input, as TensorFlow's do.
"""
from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import torch

from penstock._src.base import dtypes, errors, tracing
from penstock._src.base import static_shape as shapes
from penstock._src.kernels import pools, triton_nn, unsigned
from penstock._src.ops import rules
from penstock._src.ops.array.array import shape_of
from penstock._src.ops.nn import pool_places, windows
from penstock._src.ops.nn.windows import channels_first, from_channels_first, to_channels_first
from penstock._src.ops.registry import OpDef, get, internal, op

aten = torch.ops.aten


# -- geometry --------------------------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True, slots=True)
class _Plan:
    """The parameters of one pooling for ATen."""
    window: list[int]
    stride: list[int]
    pad: list[int]
    ones: list[int]
    ceil: bool
    extra: list[int] | None              # padding that ATen cannot do, last axis first
    full: list[int]                      # all of the padding, last axis first
    before: list[int]                    # the padding before the elements of each axis
    small: bool                          # an axis of the input is shorter than the window
    output: tuple[int, ...]              # the spatial sizes of the result
    result: tuple[int, ...]              # the shape of the result in the op's data format
    empty: bool


@functools.lru_cache(maxsize=4096)
def plan_of(name: str, shape: tuple, ksize: tuple, strides: tuple, padding: str, data_format: str) -> _Plan:
    """The plan for an input of some shape; checks everything that the kernels rely on."""
    if len(shape) != len(data_format):
        raise errors.invalid(f"tensor_in must be {len(data_format)}-dimensional, got shape {list(shape)}")
    windows.checked(_check, name, len(data_format), ksize, strides)
    channel = windows.channel_axis(data_format)
    if ksize[channel] != 1 or strides[channel] != 1:
        raise _unsupported(f"{name}: pooling is not yet supported on the depth dimension.")
    return windows.checked(_make_plan, shape, windows.spatial(ksize, data_format),
                           windows.spatial(strides, data_format), padding, data_format)


def _make_plan(shape: tuple, window: tuple, stride: tuple, padding: str, data_format: str) -> _Plan:
    space = windows.spatial(shape, data_format)
    pads = [windows.pads_of(s, k, t, padding) for s, k, t in zip(space, window, stride, strict=True)]
    sizes = (windows.output_size(s, k, t, padding) for s, k, t in zip(space, window, stride, strict=True))
    out = [s for s in sizes if s is not None]           # all of them: the shape is a tensor's
    overhang = [a - b for b, a in pads]
    by_ceil = all(not o or o < t for o, t in zip(overhang, stride, strict=True))
    result = windows.assemble(shape[0], out, shape[windows.channel_axis(data_format)], data_format)
    return _Plan(
        window=list(window), stride=list(stride), pad=[b for b, _ in pads], ones=[1] * len(window),
        ceil=padding == "SAME" and by_ceil, extra=None if by_ceil else [v for o in reversed(overhang) for v in (0, o)],
        full=[v for pair in reversed(pads) for v in pair], before=[b for b, _ in pads],
        small=any(s < k for s, k in zip(space, window, strict=True)), output=tuple(out), result=result,
        empty=not all(result) or not all(shape))


def _unsupported(message: str) -> errors.OpError:
    return errors.UnimplementedError(None, None, message)


def _check(name: str, rank: int, ksize: Sequence[int], strides: Sequence[int]) -> None:
    """Refuses windows that no kernel supports, for any shapes."""
    for what, values in (("ksize", ksize), ("strides", strides)):
        if len(values) != rank:
            raise ValueError(f"{name} requires the {what} attribute to contain {rank} values, but got: {len(values)}")
        if any(v <= 0 for v in values):
            raise ValueError(f"Sliding window {what} for {name} must be positive, got {list(values)}")
    if ksize[0] != 1 or strides[0] != 1:
        raise _unsupported("Pooling is not yet supported on the batch dimension.")


def expect(name: str, x: torch.Tensor, shape: Sequence[int]) -> None:
    if x.shape != shape:
        wanted, found = (",".join(map(str, dims)) for dims in (shape, x.shape))
        raise errors.invalid(f"Expected {name} shape to be [{wanted}], but got [{found}]")


def _output_dims(input: Any, ksize: Sequence[int], strides: Sequence[int], padding: str, data_format: str,
                 name: str, depth_too: bool = True) -> Any:
    rank = len(data_format)
    _check(name, rank, ksize, strides)
    x = shapes.rank_is(input, rank)
    skip = {0} if depth_too else {0, windows.channel_axis(data_format)}
    return tuple(d if i in skip else windows.output_size(d, k, s, padding)
                 for i, (d, k, s) in enumerate(zip(x, ksize, strides, strict=True)))


# -- maximum ---------------------------------------------------------------------------------------------------------
def _lowest(dtype: torch.dtype) -> float | int:
    return float("-inf") if dtype.is_floating_point else torch.iinfo(dtype).min


def _max_and_indices(x: torch.Tensor, p: _Plan) -> tuple[torch.Tensor, torch.Tensor]:
    """The maxima, and where in its plane (with the plan's extra padding) each first occurs."""
    if x.device.type != "cpu" and not x.dtype.is_floating_point:
        out, where = _max_and_indices(_as_double(x), p)
        return out.to(x.dtype), where
    if p.extra:
        x = torch.constant_pad_nd(x, p.extra, _lowest(x.dtype))
    pool = aten.max_pool2d_with_indices if len(p.window) == 2 else aten.max_pool3d_with_indices
    return pool(x, p.window, p.stride, p.pad, p.ones, p.ceil)


def _max(x: torch.Tensor, p: _Plan) -> torch.Tensor:
    """The maxima alone."""
    if x.device.type != "cpu" and not x.dtype.is_floating_point:
        return _max(_as_double(x), p).to(x.dtype)
    if p.extra:
        x = torch.constant_pad_nd(x, p.extra, _lowest(x.dtype))
    pool = torch.max_pool2d if len(p.window) == 2 else torch.max_pool3d
    return pool(x, p.window, p.stride, p.pad, p.ones, p.ceil)


def _as_double(x: torch.Tensor) -> torch.Tensor:
    """Converts integers for the pooling kernels of accelerators, which support only floats."""
    if x.dtype is torch.int64:
        raise _unsupported("Pooling of int64 runs only on the CPU.")
    return x.double()


def _first_maxima(x: torch.Tensor, p: _Plan) -> torch.Tensor:
    """The indices of the maxima for gradients: NaN counts only as the first element of a window, and then always."""
    maxima, indices = _max_and_indices(x, p)
    if x.device.type != "cpu" or tracing.lowering() or not x.is_floating_point() or not bool(maxima.isnan().any()):
        return indices
    indices = _max_and_indices(x.nan_to_num(nan=float("-inf"), posinf=float("inf"), neginf=float("-inf")), p)[1]
    sizes = list(x.shape[2:]) if p.extra is None else [n + e for n, e in zip(x.shape[2:], p.extra[::-2], strict=True)]
    first = torch.zeros((), dtype=torch.int64)
    for size, step, pad, count in zip(sizes, p.stride, p.pad, p.output, strict=True):
        first = first.unsqueeze(-1) * size + (torch.arange(count) * step - pad).clamp(min=0)
    if p.extra:
        x = torch.constant_pad_nd(x, p.extra)
    starts = x.flatten(2)[:, :, first.reshape(-1)].view_as(indices).isnan()
    return torch.where(starts, first.expand_as(indices), indices).contiguous(memory_format=_memory_format(indices))


def _memory_format(like: torch.Tensor) -> torch.memory_format:
    last = torch.channels_last if like.ndim == 4 else torch.channels_last_3d
    return last if like.is_contiguous(memory_format=last) else torch.contiguous_format


def _in_triton(x: torch.Tensor, p: _Plan, data_format: str) -> bool:
    """Whether penstock's GPU kernels support it."""
    return x.is_cuda and not tracing.lowering() and data_format == "NHWC" and x.dtype in triton_nn.TYPES and \
        x.is_contiguous() and p.window[0] * p.window[1] < 255 and triton_nn.available()


def _ours(x: torch.Tensor, p: _Plan, data_format: str) -> bool:
    """Whether penstock's CPU kernels support it."""
    return not channels_first(data_format) and pools.takes(x, p.window)


def _max_pool(input, *, ksize, strides, padding, data_format, name, relu=False):
    if ksize[windows.channel_axis(data_format)] > 1:
        return _max_over_depth(input, ksize, strides, data_format)
    p = plan_of(name, input.shape, tuple(ksize), tuple(strides), padding, data_format)
    if p.empty:
        return input.new_zeros(p.result)
    if _in_triton(input, p, data_format):
        return triton_nn.max_pool(input, p.window, p.stride, p.before, p.output)
    if _ours(input, p, data_format):
        return pools.max_pool(input, p.window, p.stride, p.before, p.output, relu)[0]
    x = to_channels_first(input, data_format)
    out = from_channels_first(_max(x, p), data_format)
    return out.relu_() if relu else out


def _max_over_depth(x: torch.Tensor, ksize: Sequence[int], strides: Sequence[int], data_format: str) -> torch.Tensor:
    """Pooling of neighbouring channels, which must not overlap."""
    axis = windows.channel_axis(data_format)
    window = ksize[axis]
    if any(k != 1 for i, k in enumerate(ksize) if i != axis):
        raise _unsupported("MaxPooling supports exactly one of pooling across depth or pooling across width/height.")
    if x.ndim != len(data_format):
        raise errors.invalid(f"tensor_in must be {len(data_format)}-dimensional, got shape {list(x.shape)}")
    if x.shape[axis] % window:
        raise _unsupported("Depthwise max pooling requires the depth window to evenly divide the input depth.")
    if strides[axis] != window:
        raise _unsupported("Max pooling over channels needs the depth window to equal the depth stride.")
    return x.unflatten(axis, (-1, window)).amax(axis + 1)


def _max_pool_grad(orig_input, orig_output, grad, *, ksize, strides, padding, data_format, name):
    p = plan_of(name, orig_input.shape, tuple(ksize), tuple(strides), padding, data_format)
    expect("orig_output", orig_output, p.result)
    expect("grad", grad, p.result)
    if p.empty:
        return torch.zeros_like(orig_input)
    if _in_triton(orig_input, p, data_format) and orig_input.dtype is grad.dtype:
        return triton_nn.max_pool_grad(orig_input, grad.contiguous(), p.window, p.stride, p.before)
    if grad.dtype is torch.float32 and _ours(orig_input, p, data_format):
        _, places = pools.max_pool(orig_input, p.window, p.stride, p.before, p.output, places=True)
        assert places is not None
        return pools.max_pool_grad(grad, places, orig_input.shape[1:-1], p.window, p.stride, p.before)[0]
    if not grad.dtype.is_floating_point:        # ATen has no such kernel; doubles hold sums of gradients exactly
        return _max_pool_grad(orig_input.double(), orig_output, grad.double(), ksize=ksize, strides=strides,
                              padding=padding, data_format=data_format, name=name).to(torch.int64).to(grad.dtype)
    x = to_channels_first(orig_input, data_format)
    grad, indices = to_channels_first(grad, data_format), _first_maxima(x, p)
    if x.dtype is not grad.dtype:               # MaxPool3DGrad has a type for each; from here on only the shape of x counts
        x = x.to(grad.dtype)
    if p.extra:
        x = torch.constant_pad_nd(x, p.extra)
    backward = aten.max_pool2d_with_indices_backward if x.ndim == 4 else aten.max_pool3d_with_indices_backward
    out = backward(grad, x, p.window, p.stride, p.pad, p.ones, p.ceil, indices)
    if p.extra:
        out = torch.constant_pad_nd(out, [-e for e in p.extra])
    return from_channels_first(out, data_format)


def _max_pool_grad_grad(orig_input, orig_output, grad, *, ksize, strides, padding, data_format, name):
    """The value of `grad`, which has the shape of the input, at the maximum of each window."""
    p = plan_of(name, orig_input.shape, tuple(ksize), tuple(strides), padding, data_format)
    expect("orig_output", orig_output, p.result)
    expect("grad", grad, orig_input.shape)
    if p.empty:
        return torch.zeros_like(orig_output)
    x = to_channels_first(orig_input, data_format)
    grad, indices = to_channels_first(grad, data_format), _first_maxima(x, p)
    if p.extra:
        grad = torch.constant_pad_nd(grad, p.extra)
    out = grad.flatten(2).gather(2, indices.flatten(2)).reshape(indices.shape)
    return from_channels_first(out, data_format)


def _indexed_max_pool(input, *, ksize, strides, padding, data_format, relu):
    out, indices = _maxima_with_indices(input, ksize, strides, padding, data_format)
    return out.relu_() if relu else out, indices


def _maxima_with_indices(input, ksize, strides, padding, data_format):
    p = plan_of("MaxPool", input.shape, tuple(ksize), tuple(strides), padding, data_format)
    if p.empty:
        return input.new_zeros(p.result), None
    if _in_triton(input, p, data_format):
        return triton_nn.max_pool_with_places(input, p.window, p.stride, p.before, p.output)
    out, indices = _max_and_indices(to_channels_first(input, data_format), p)
    return from_channels_first(out, data_format), indices


def _indexed_max_pool_grad(orig_input, orig_output, grad, indices, *, ksize, strides, padding, data_format):
    """The gradient for given positions of the maxima. If one is NaN, they are recomputed."""
    p = plan_of("MaxPoolGrad", orig_input.shape, tuple(ksize), tuple(strides), padding, data_format)
    if indices is not None and indices.dtype is torch.uint8 and grad.shape == p.result:
        return triton_nn.max_pool_grad(orig_input, grad.contiguous(), p.window, p.stride, p.before, indices)
    if indices is None or p.extra or orig_output.shape != grad.shape or tracing.lowering() or \
            math.isnan(orig_output.amax().item()):
        return _max_pool_grad(orig_input, orig_output, grad, ksize=ksize, strides=strides, padding=padding,
                              data_format=data_format, name="MaxPoolGrad")
    x, grad = to_channels_first(orig_input, data_format), to_channels_first(grad, data_format)
    return from_channels_first(aten.max_pool2d_with_indices_backward(grad, x, p.window, p.stride, p.pad, p.ones, p.ceil,
                                                                     indices), data_format)


_POOL = "ksize: list(int) >= 4, strides: list(int) >= 4, padding: string in {SAME VALID}"
_FORMAT = ", data_format: string in {NHWC NCHW} = 'NHWC'"
_REAL = "T: type in {float32 float64 int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64}"
_MAX_T = "T: type in {half bfloat16 float32 float64 int32 int64 uint8 int16 int8 uint16 qint8} = float32"
_GRAD_ARGS = "orig_input: T, orig_output: T, grad: T -> output: T"

max_pool_op = op("MaxPool", "input: T -> output: T",
                 f"{_MAX_T}, {_POOL}, data_format: string in {{NHWC NCHW NCHW_VECT_C}} = 'NHWC'")
rules.batching.first[max_pool_op] = (0,)
max_pool_grad = op("MaxPoolGrad", _GRAD_ARGS, f"{_POOL}{_FORMAT}, {_REAL} = float32")
rules.batching.first[max_pool_grad] = (0, 1, 2)
max_pool_grad_grad = op("MaxPoolGradGrad", _GRAD_ARGS, f"{_POOL}{_FORMAT}, {_REAL}")


_WINDOW = ("ksize", "strides", "padding", "data_format")
_FLOAT_T = ", T: type in {float32 float64}"
indexed_max_pool = internal("_MaxPoolWithIndices", "input: T -> output: T, indices: int64",
                            f"{_POOL}{_FORMAT}{_FLOAT_T}, relu: bool = False")
indexed_max_pool.kernel(_indexed_max_pool)
indexed_max_pool_grad = internal("_MaxPoolGradWithIndices", _GRAD_ARGS.replace(" ->", ", indices: int64 ->"),
                                 f"{_POOL}{_FORMAT}{_FLOAT_T}")
indexed_max_pool_grad.kernel(_indexed_max_pool_grad)


@rules.fusion.fuse(max_pool_grad)
def _max_pool_grad_fuse(op, f):
    """Reuses the positions of the maxima from the pooling, if that is in the same step."""
    pool = f.maker(op.inputs[1], op)
    if pool is None or pool.opdef not in (max_pool_op, indexed_max_pool, pool_places.max_pool_places) or \
            f.source(pool.inputs[0]) is not f.source(op.inputs[0]) or not op.attrs["T"].is_floating:
        return None
    if any(pool.attrs.get(n, "NHWC") != op.attrs[n] for n in _WINDOW) or \
            op.attrs["ksize"][windows.channel_axis(op.attrs["data_format"])] != 1:
        return None
    placed = pool_places.fuse_grad(op, f, pool)
    if placed is not None or pool.opdef is pool_places.max_pool_places:
        return placed
    attrs = {n: op.attrs[n] for n in (*_WINDOW, "T")}
    if pool.opdef is max_pool_op:
        made = f.make("_MaxPoolWithIndices", pool.inputs, attrs, pool, extra=[f.result(dtypes.int64)])
        f.put(made, pool)
        pool = made
    return f.make("_MaxPoolGradWithIndices", [*op.inputs, pool.outputs[1]], attrs, op)


# A ReLU and the pooling after it can change places, for both keep the order of numbers: the gradient of what is not
# positive is zero either way. So the ReLU, its gradient and that of a bias before it work on what the pooling has left.
max_pool_relu = internal("_MaxPoolRelu", "input: T -> output: T", f"{_POOL}{_FORMAT}{_FLOAT_T}")


@max_pool_relu.kernel
def _max_pool_relu_kernel(input, *, ksize, strides, padding, data_format):
    return _max_pool(input, ksize=ksize, strides=strides, padding=padding, data_format=data_format, name="MaxPool", relu=True)


@rules.fusion.fuse(max_pool_op)
def _max_pool_fuse(op, f):
    """On the CPU, pools first and applies the ReLU to the maxima, if the ReLU has no other consumer."""
    if op.attrs["T"] not in (dtypes.float32, dtypes.float64) or not f.on_host(op) or \
            op.attrs["ksize"][windows.channel_axis(op.attrs["data_format"])] != 1:
        return None
    before = without_relu(f, f.only(op.inputs[0], op))
    return None if before is None else f.make("_MaxPoolRelu", [before], {n: op.attrs[n] for n in ("T", *_WINDOW)}, op)


def without_relu(f: Any, made: Any) -> Any:
    """The input of the ReLU in `made`, an op that can absorb it; None if it is another op."""
    if made is None:
        return None
    if made.opdef is get("Relu"):
        return made.inputs[0]
    if made.attrs.get("fused_ops") != ["BiasAdd", "Relu"]:
        return None
    plain = f.make(made.type, made.inputs, {**made.attrs, "fused_ops": ["BiasAdd"]}, made, made.counts)
    f.put(plain, made)
    return plain.outputs[0]


def fuse_relu_grad(op: Any, f: Any) -> Any:
    """The gradient of a ReLU with a pooling behind it: zero where the maxima are not positive, then to their places."""
    grad = f.only(op.inputs[0], op)
    if grad is not None and grad.opdef is pool_places.max_pool_grad_places:
        return pool_places.fuse_relu_grad(op, f, grad)
    if grad is None or grad.opdef is not indexed_max_pool_grad:
        return None
    x, y, dy, places = grad.inputs
    if f.source(x) is not f.source(op.inputs[1]):
        return None
    features, users = f.maker(x, op), f.users(x)
    pool = f.maker(y, op)
    masked = f.make("ReluGrad", [dy, y], {"T": op.attrs["T"]}, grad, outputs=[f.source(y)])
    if f.on_host(op) and users is not None and pool is not None and {*users} == {pool, grad, op}:
        before = without_relu(f, features)
        if before is not None:
            first = f.make("_MaxPoolWithIndices", [before], {**pool.attrs, "relu": True}, pool)
            f.put(first, pool)
            x = before
    f.put(masked, grad)
    return f.make("_MaxPoolGradWithIndices", [x, y, masked.outputs[0], places], grad.attrs, op)


def _vect_c(data_format: str) -> bool:
    return data_format == "NCHW_VECT_C"


@max_pool_op.shape
def _max_pool_shape(input, *, ksize, strides, padding, data_format):
    if _vect_c(data_format):
        return shapes.rank_is(None, 5)
    return _output_dims(input, ksize, strides, padding, data_format, "MaxPool")


@max_pool_op.kernel
def _max_pool_kernel(input, *, ksize, strides, padding, data_format):
    if _vect_c(data_format):
        raise _unsupported("MaxPool has no kernel for the data format NCHW_VECT_C.")
    return _max_pool(input, ksize=ksize, strides=strides, padding=padding, data_format=data_format, name="MaxPool")


max_pool_op.kernel(unsigned.ordered(_max_pool_kernel), types=unsigned.TYPES)
max_pool_grad.shape(lambda orig_input, orig_output, grad: shapes.rank_is(orig_input, 4))
max_pool_grad_grad.shape(lambda orig_input, orig_output, grad: shapes.rank_is(orig_output, 4))
max_pool_grad.kernel(functools.partial(_max_pool_grad, name="MaxPoolGrad"))
max_pool_grad_grad.kernel(functools.partial(_max_pool_grad_grad, name="MaxPoolGradGrad"))
max_pool_grad_grad.kernel(unsigned.ordered(functools.partial(_max_pool_grad_grad, name="MaxPoolGradGrad")),
                          types=unsigned.TYPES)


def _geometry(op: Any) -> dict[str, Any]:
    return {a: op.attrs[a] for a in ("ksize", "strides", "padding", "data_format") if a in op.attrs}


def _no_effect(op: Any) -> tuple:
    """Zeros as the gradients of the two inputs that only determine the positions of the maxima."""
    zeros = get("ZerosLike")
    return zeros(op.inputs[0]), zeros(op.inputs[1])


@max_pool_op.gradient
def _max_pool_gradient(op, grad):
    return max_pool_grad(op.inputs[0], op.outputs[0], grad, **_geometry(op))


@max_pool_grad.gradient
def _max_pool_grad_gradient(op, grad):
    return *_no_effect(op), max_pool_grad_grad(op.inputs[0], op.inputs[1], grad, **_geometry(op))


@max_pool_grad_grad.gradient
def _max_pool_grad_grad_gradient(op, grad):
    return *_no_effect(op), max_pool_grad(op.inputs[0], op.inputs[1], grad, **_geometry(op))


# -- maximum with attributes as inputs -------------------------------------------------------------------------------
_V2 = "padding: string in {SAME VALID}"
_V2_GRAD_ARGS = "orig_input: T, orig_output: T, grad: T, ksize: int32, strides: int32 -> output: T"

max_pool_v2_op = op("MaxPoolV2", "input: T, ksize: int32, strides: int32 -> output: T",
                    f"{_MAX_T}, {_V2}, data_format: string in {{NHWC NCHW NCHW_VECT_C}} = 'NHWC'")
max_pool_grad_v2 = op("MaxPoolGradV2", _V2_GRAD_ARGS, f"{_V2}{_FORMAT}, {_REAL} = float32")
max_pool_grad_grad_v2 = op("MaxPoolGradGradV2", _V2_GRAD_ARGS, f"{_V2}{_FORMAT}, {_REAL}")


@max_pool_v2_op.shape
def _max_pool_v2_shape(input, ksize, strides, *, padding, data_format, c):
    window, step = c.const("ksize"), c.const("strides")
    if window is None or step is None or _vect_c(data_format):
        return shapes.rank_is(None, 5 if _vect_c(data_format) else 4)
    return _output_dims(input, window.tolist(), step.tolist(), padding, data_format, "MaxPoolV2")


def _vector(name: str, value: torch.Tensor) -> list[int]:
    if value.ndim != 1:
        raise errors.invalid(f"{name} must be a vector, got shape {list(value.shape)}")
    return value.tolist()


@max_pool_v2_op.kernel
def _max_pool_v2_kernel(input, ksize, strides, *, padding, data_format):
    if _vect_c(data_format):
        raise _unsupported("MaxPoolV2 has no kernel for the data format NCHW_VECT_C.")
    return _max_pool(input, ksize=_vector("ksize", ksize), strides=_vector("strides", strides), padding=padding,
                     data_format=data_format, name="MaxPoolV2")


max_pool_v2_op.kernel(unsigned.ordered(_max_pool_v2_kernel), types=unsigned.TYPES)


@max_pool_grad_v2.kernel
def _max_pool_grad_v2_kernel(orig_input, orig_output, grad, ksize, strides, *, padding, data_format):
    return _max_pool_grad(orig_input, orig_output, grad, ksize=_vector("ksize", ksize), padding=padding,
                          strides=_vector("strides", strides), data_format=data_format, name="MaxPoolGradV2")


@max_pool_grad_grad_v2.kernel
def _max_pool_grad_grad_v2_kernel(orig_input, orig_output, grad, ksize, strides, *, padding, data_format):
    return _max_pool_grad_grad(orig_input, orig_output, grad, ksize=_vector("ksize", ksize), padding=padding,
                               strides=_vector("strides", strides), data_format=data_format, name="MaxPoolGradGradV2")


max_pool_grad_grad_v2.kernel(unsigned.ordered(_max_pool_grad_grad_v2_kernel), types=unsigned.TYPES)


max_pool_grad_v2.shape(lambda orig_input, orig_output, grad, ksize, strides: shapes.rank_is(orig_input, 4))
max_pool_grad_grad_v2.shape(lambda orig_input, orig_output, grad, ksize, strides: shapes.rank_is(orig_output, 4))


@max_pool_v2_op.gradient
def _max_pool_v2_gradient(op, grad):
    x, ksize, strides = op.inputs
    return max_pool_grad_v2(x, op.outputs[0], grad, ksize, strides, **_geometry(op)), None, None


@max_pool_grad_v2.gradient
def _max_pool_grad_v2_gradient(op, grad):
    x, y, _, ksize, strides = op.inputs
    return *_no_effect(op), max_pool_grad_grad_v2(x, y, grad, ksize, strides, **_geometry(op)), None, None


@max_pool_grad_grad_v2.gradient
def _max_pool_grad_grad_v2_gradient(op, grad):
    x, y, _, ksize, strides = op.inputs
    return *_no_effect(op), max_pool_grad_v2(x, y, grad, ksize, strides, **_geometry(op)), None, None


# -- maximum and where it was ----------------------------------------------------------------------------------------
_BATCH = "include_batch_in_index: bool = False"
_ARGMAX_GRAD = f"{_POOL}, {_BATCH}, Targmax: type in {{index}}, {_REAL}"

max_pool_with_argmax_op = op(
    "MaxPoolWithArgmax", "input: T -> output: T, argmax: Targmax",
    "ksize: list(int) >= 4, strides: list(int) >= 4, Targmax: type in {index} = int64, "
    f"padding: string in {{SAME VALID}}, {_BATCH}, {_REAL}")
max_pool_grad_with_argmax = op("MaxPoolGradWithArgmax", "input: T, grad: T, argmax: Targmax -> output: T", _ARGMAX_GRAD)
max_pool_grad_grad_with_argmax = op("MaxPoolGradGradWithArgmax", "input: T, grad: T, argmax: Targmax -> output: T",
                                    _ARGMAX_GRAD)


@max_pool_with_argmax_op.shape
def _max_pool_with_argmax_shape(input, *, ksize, strides, padding):
    out = _output_dims(input, ksize, strides, padding, "NHWC", "MaxPoolWithArgmax")
    return [out, out]


@max_pool_with_argmax_op.kernel
def _max_pool_with_argmax_kernel(input, *, ksize, strides, padding, Targmax, include_batch_in_index):
    p = plan_of("MaxPoolWithArgmax", input.shape, tuple(ksize), tuple(strides), padding, "NHWC")
    if p.empty:
        return input.new_zeros(p.result), input.new_zeros(p.result, dtype=Targmax.torch)
    x = to_channels_first(input, "NHWC")
    out, where = _max_and_indices(x, p)
    height, width = x.shape[2:]
    stored = width + (p.extra[1] if p.extra else 0)          # the width that the indices count with
    where = (torch.div(where, stored, rounding_mode="floor") * width + where % stored).permute(0, 2, 3, 1)
    index = where * x.shape[1] + torch.arange(x.shape[1], device=x.device)
    if include_batch_in_index:
        index = index + _batch_offsets(input)
    return out.permute(0, 2, 3, 1), index.to(Targmax.torch)


@max_pool_with_argmax_op.kernel(types=unsigned.TYPES)
def _unsigned_max_pool_with_argmax_kernel(input, *, ksize, strides, padding, Targmax, include_batch_in_index):
    out, where = _max_pool_with_argmax_kernel(unsigned.flip(input), ksize=ksize, strides=strides, padding=padding,
                                              Targmax=Targmax,
                                              include_batch_in_index=include_batch_in_index)
    return unsigned.flip(out), where


def _batch_offsets(x: torch.Tensor) -> torch.Tensor:
    """Where each example of `x` starts in its flat form."""
    return torch.arange(x.shape[0], device=x.device).view(-1, 1, 1, 1) * (x.numel() // max(1, x.shape[0]))


def _flat_index(input: torch.Tensor, argmax: torch.Tensor, include_batch: bool) -> torch.Tensor:
    """`argmax` as indices into the flat input, checked."""
    index = argmax.to(torch.int64)
    if not include_batch:
        index = index + _batch_offsets(input)
    if index.numel():
        low, high = torch.aminmax(index)
        if low < 0 or high >= input.numel():
            raise errors.invalid(f"Invalid input index {int(low) if low < 0 else int(high)} in argmax for an input "
                                 f"with {input.numel()} elements")
    return index.reshape(-1)


def _pooled_shape(name: str, input: torch.Tensor, ksize: list, strides: list, padding: str) -> tuple:
    return plan_of(name, input.shape, tuple(ksize), tuple(strides), padding, "NHWC").result


@max_pool_grad_with_argmax.kernel
def _max_pool_grad_with_argmax_kernel(input, grad, argmax, *, ksize, strides, padding, include_batch_in_index):
    shape = _pooled_shape("MaxPoolGradWithArgmax", input, ksize, strides, padding)
    expect("grad", grad, shape)
    expect("argmax", argmax, shape)
    flat = grad.new_zeros(input.numel())
    return flat.index_add_(0, _flat_index(input, argmax, include_batch_in_index), grad.reshape(-1)).view(input.shape)


max_pool_grad_with_argmax.kernel(unsigned.wrapping(_max_pool_grad_with_argmax_kernel), types=unsigned.TYPES)


@max_pool_grad_grad_with_argmax.kernel
def _max_pool_grad_grad_with_argmax_kernel(input, grad, argmax, *, ksize, strides, padding, include_batch_in_index):
    expect("grad", grad, input.shape)
    expect("argmax", argmax, _pooled_shape("MaxPoolGradGradWithArgmax", input, ksize, strides, padding))
    return grad.reshape(-1)[_flat_index(input, argmax, include_batch_in_index)].view(argmax.shape)


max_pool_grad_with_argmax.shape(lambda input, grad, argmax: shapes.rank_is(input, 4))
max_pool_grad_grad_with_argmax.shape(lambda input, grad, argmax: shapes.rank_is(argmax, 4))


def _argmax_attrs(op: Any) -> dict[str, Any]:
    return {**_geometry(op), "include_batch_in_index": op.attrs["include_batch_in_index"]}


@max_pool_with_argmax_op.gradient
def _max_pool_with_argmax_gradient(op, grad, _):
    return max_pool_grad_with_argmax(op.inputs[0], grad, op.outputs[1], **_argmax_attrs(op))


@max_pool_grad_with_argmax.gradient
def _max_pool_grad_with_argmax_gradient(op, grad):
    x, _, argmax = op.inputs
    return None, max_pool_grad_grad_with_argmax(x, grad, argmax, **_argmax_attrs(op)), None


@max_pool_grad_grad_with_argmax.gradient
def _max_pool_grad_grad_with_argmax_gradient(op, grad):
    x, _, argmax = op.inputs
    return None, max_pool_grad_with_argmax(x, grad, argmax, **_argmax_attrs(op)), None


# -- maximum in three dimensions -------------------------------------------------------------------------------------
_POOL_3D = ("ksize: list(int) >= 5, strides: list(int) >= 5, padding: string in {SAME VALID}, "
            "data_format: string in {NDHWC NCDHW} = 'NDHWC'")
_SHORT = "type in {half bfloat16 float32}"

max_pool3d_op = op("MaxPool3D", "input: T -> output: T", f"{_POOL_3D}, T: {_SHORT}")
rules.batching.first[max_pool3d_op] = (0,)
max_pool3d_grad = op("MaxPool3DGrad", "orig_input: TInput, orig_output: TInput, grad: T -> output: T",
                     f"{_POOL_3D}, T: {_SHORT} = float32, TInput: {_SHORT} = float32")
rules.batching.first[max_pool3d_grad] = (0, 1, 2)
max_pool3d_grad_grad = op("MaxPool3DGradGrad", _GRAD_ARGS, f"{_POOL_3D}, {_REAL}")


@max_pool3d_op.shape
def _max_pool3d_shape(input, *, ksize, strides, padding, data_format):
    return _output_dims(input, ksize, strides, padding, data_format, "MaxPool3D")


max_pool3d_op.kernel(functools.partial(_max_pool, name="MaxPool3D"))
max_pool3d_grad.shape(lambda orig_input, orig_output, grad: shapes.rank_is(orig_input, 5))
max_pool3d_grad.kernel(functools.partial(_max_pool_grad, name="MaxPool3DGrad"))
max_pool3d_grad_grad.shape(lambda orig_input, orig_output, grad: shapes.rank_is(orig_output, 5))
max_pool3d_grad_grad.kernel(functools.partial(_max_pool_grad_grad, name="MaxPool3DGradGrad"))


@max_pool3d_op.gradient
def _max_pool3d_gradient(op, grad):
    return max_pool3d_grad(op.inputs[0], op.outputs[0], grad, **_geometry(op))


@max_pool3d_grad.gradient
def _max_pool3d_grad_gradient(op, grad):
    return *_no_effect(op), max_pool3d_grad_grad(op.inputs[0], op.inputs[1], grad, **_geometry(op))


@max_pool3d_grad_grad.gradient
def _max_pool3d_grad_grad_gradient(op, grad):
    return *_no_effect(op), max_pool3d_grad(op.inputs[0], op.inputs[1], grad, **_geometry(op))


# -- mean ------------------------------------------------------------------------------------------------------------
def _counts(p: _Plan, space: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    """How many elements of the input each window covers."""
    total = like.new_ones(())
    for size, k, step, pad, n in zip(space, p.window, p.stride, p.pad, p.output, strict=True):
        start = torch.arange(n, device=like.device) * step - pad
        covered = (start + k).clamp(max=size) - start.clamp(min=0)
        total = total.unsqueeze(-1) * covered.to(like.dtype)
    return total


def _avg_pool(input, *, ksize, strides, padding, data_format, name):
    p = plan_of(name, input.shape, tuple(ksize), tuple(strides), padding, data_format)
    if p.empty:
        return input.new_zeros(p.result)
    if _ours(input, p, data_format):
        return pools.mean_pool(input, p.window, p.stride, p.before, p.output)
    x = to_channels_first(input, data_format)
    if x.ndim == 5 and x.dtype in (torch.float16, torch.bfloat16):       # ATen's 3-D kernel does not support 16-bit types
        return from_channels_first(_mean(x.float(), p).to(x.dtype), data_format)
    return from_channels_first(_mean(x, p), data_format)


def _mean(x: torch.Tensor, p: _Plan) -> torch.Tensor:
    pool = torch.nn.functional.avg_pool2d if x.ndim == 4 else torch.nn.functional.avg_pool3d
    if not p.extra and not p.small:
        return pool(x, p.window, p.stride, p.pad, p.ceil, False)
    none = [0] * len(p.pad)
    total = pool(torch.constant_pad_nd(x, p.full), p.window, p.stride, none, False, True, 1)
    return total / _counts(p, x.shape[2:], x)


def _avg_pool_grad(orig_input_shape, grad, *, ksize, strides, padding, data_format, name):
    rank = len(data_format)
    sizes = _vector("orig_input_shape", orig_input_shape)
    if len(sizes) != rank or any(s < 0 for s in sizes):
        raise errors.invalid(f"out_backprop must come with the shape of a {rank}-dimensional input, got {sizes}")
    p = plan_of(name, tuple(sizes), tuple(ksize), tuple(strides), padding, data_format)
    expect("grad", grad, p.result)
    if p.empty:
        return grad.new_zeros(sizes)
    space = windows.spatial(sizes, data_format)
    if _ours(grad, p, data_format):
        return pools.mean_pool_grad(grad, space, p.window, p.stride, p.before)
    grad = to_channels_first(grad, data_format)
    if grad.ndim == 5 and grad.dtype in (torch.float16, torch.bfloat16):
        return from_channels_first(_mean_grad(space, grad.float(), p).to(grad.dtype), data_format)
    return from_channels_first(_mean_grad(space, grad, p), data_format)


def _mean_grad(space: tuple[int, ...], grad: torch.Tensor, p: _Plan) -> torch.Tensor:
    backward = aten.avg_pool2d_backward if grad.ndim == 4 else aten.avg_pool3d_backward
    memory, padded = _memory_format(grad), bool(p.extra) or p.small
    if grad.device.type != "cpu" and any(p.full):    # CUDA's kernel for channels last is wrong where there is padding
        memory, grad = torch.contiguous_format, grad.contiguous()
    shape = [*grad.shape[:2], *space]
    if padded:
        for i, (after, before) in enumerate(zip(p.full[::-2], p.full[-2::-2], strict=True)):
            shape[2 + i] += before + after
    like = torch.empty(shape, dtype=grad.dtype, device=grad.device, memory_format=memory)
    if not padded:
        return backward(grad, like, p.window, p.stride, p.pad, p.ceil, False, None)
    share = grad / _counts(p, space, grad)
    out = backward(share, like, p.window, p.stride, [0] * len(p.pad), False, True, 1)
    return torch.constant_pad_nd(out, [-v for v in p.full])


_FLOAT = "T: type in {half bfloat16 float32 float64}"

avg_pool_op = op("AvgPool", "value: T -> output: T", f"{_POOL}{_FORMAT}, {_FLOAT}")
rules.batching.first[avg_pool_op] = (0,)
avg_pool_grad = op("AvgPoolGrad", "orig_input_shape: int32, grad: T -> output: T", f"{_POOL}{_FORMAT}, {_FLOAT}")
rules.batching.first[avg_pool_grad], rules.batching.sizes[avg_pool_grad] = (1,), 0
avg_pool3d_op = op("AvgPool3D", "input: T -> output: T", f"{_POOL_3D}, {_FLOAT}")
rules.batching.first[avg_pool3d_op] = (0,)
avg_pool3d_grad = op("AvgPool3DGrad", "orig_input_shape: int32, grad: T -> output: T", f"{_POOL_3D}, {_FLOAT}")
rules.batching.first[avg_pool3d_grad], rules.batching.sizes[avg_pool3d_grad] = (1,), 0


def _mean_family(forward: OpDef, backward: OpDef, rank: int) -> None:
    """Shape rules, kernels and gradients of a mean pooling and of its gradient."""
    @forward.shape
    def _forward_shape(input, *, ksize, strides, padding, data_format):
        return _output_dims(input, ksize, strides, padding, data_format, forward.name, depth_too=False)

    @backward.shape
    def _backward_shape(orig_input_shape, grad, *, c):
        return shapes.rank_is(c.dims("orig_input_shape"), rank)

    forward.kernel(functools.partial(_avg_pool, name=forward.name))
    backward.kernel(functools.partial(_avg_pool_grad, name=backward.name))
    forward.gradient(lambda op, grad: backward(shape_of(op.inputs[0]), grad, **_geometry(op)))
    backward.gradient(lambda op, grad: (None, forward(grad, **_geometry(op))))


_mean_family(avg_pool_op, avg_pool_grad, 4)
_mean_family(avg_pool3d_op, avg_pool3d_grad, 5)
