"""Convolutions in two and three dimensions, plain and depthwise, with their gradients as ops.

`Conv2D` slides a filter [height, width, in, out] over a batch of images. Its gradients are the ops
`Conv2DBackpropInput` (which is also the transposed convolution) and `Conv2DBackpropFilter`; the gradient of each of the
three is made of the other two. They share one kernel: `_Plan` computes the arguments of ATen's convolution, once per
combination of shapes and attributes.
"""
from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.base import static_shape as shapes
from penstock._src.kernels import pools, products
from penstock._src.ops import rules
from penstock._src.ops.array.array import shape_of
from penstock._src.ops.nn import windows
from penstock._src.ops.nn.windows import channels_first
from penstock._src.ops.registry import Known, OpDef, internal, op

aten = torch.ops.aten


class Packed:
    """A filter in the order in which oneDNN reads it, for one convolution. The tensor is opaque to other kernels."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor):
        self.tensor = tensor


# -- geometry --------------------------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True, slots=True)
class _Plan:
    """The parameters of one convolution for ATen: channels first, the filter as [out, in, *window]."""
    stride: list[int]
    pad: list[int]                       # on both sides alike
    dilation: list[int]
    zeros: list[int]
    groups: int
    extra: list[int] | None              # uneven padding, last axis first, that must be put on before
    input: tuple[int, ...]               # with the uneven padding
    filter: tuple[int, ...]
    output: tuple[int, ...]
    result: tuple[int, ...]              # the output's shape in the op's own data format
    empty: bool                          # nothing to compute: all results are zeros
    first: tuple[int, ...] | None        # the permutation that brings channels to the front, if they are not,
    back: tuple[int, ...] | None         # and its inverse
    window: tuple[int, ...]              # the permutation of the filter, and its inverse
    window_back: tuple[int, ...]
    merged: tuple[int, ...] | None       # depthwise: the filter's shape with its inputs and multipliers as outputs
    memory: torch.memory_format
    pointwise: bool                      # a window of one element in adjacent channels: a product of matrices
    mirrored: list[int] | None           # the padding with which a depthwise convolution of the gradient with the filter,
                                         # mirrored, is the gradient of the input; None if it is not
    few: bool                            # few adjacent channels, and windows that are not large beside the output's channels

    def enter(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor of the op with its channels first; a view."""
        return x if self.first is None else x.permute(self.first)

    def leave(self, x: torch.Tensor) -> torch.Tensor:
        """A result in the op's data format; a view."""
        return x if self.back is None else x.permute(self.back)

    def pack(self, w: torch.Tensor) -> Packed:
        """The filter arranged as oneDNN's kernel for this convolution reads it."""
        return Packed(torch.ops.mkldnn._reorder_convolution_weight(
            self.weights(w).contiguous(memory_format=self.memory), self.pad, self.stride, self.dilation, self.groups,
            list(self.input)))

    def convolve_packed(self, x: torch.Tensor, w: Packed, bias: torch.Tensor | None = None, relu: bool = False) -> torch.Tensor:
        if self.extra is not None:
            x = torch.constant_pad_nd(x, self.extra)
        out = torch.ops.mkldnn._convolution_pointwise(x, w.tensor, bias, self.pad, self.stride, self.dilation, self.groups,
                                                      "none", [], "")
        return out.relu_() if relu else out

    def weights(self, w: torch.Tensor) -> torch.Tensor:
        """The filter as ATen takes it; a view."""
        return (w if self.merged is None else w.reshape(self.merged)).permute(self.window)

    def unweights(self, w: torch.Tensor, sizes: tuple[int, ...]) -> torch.Tensor:
        """The inverse of `weights`, for the gradient of a filter of these sizes."""
        w = w.permute(self.window_back)
        return w if self.merged is None else w.reshape(sizes)

    def convolve(self, x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None = None, relu: bool = False) -> torch.Tensor:
        if self.empty:
            return x.new_zeros(self.output)
        if not x.dtype.is_floating_point:           # ATen's kernels lack cases; doubles hold such sums exactly
            return self.convolve(x.double(), w.double()).to(torch.int64).to(x.dtype)
        if products.in_float32(x):
            return self.convolve(x.float(), w.float(), None if bias is None else bias.float(), relu).half()
        if self.pointwise and _as_product(x):
            out = self._images(products.product(self._rows(x), w.flatten(1).t(), bias), self.output)
            return out.relu_() if relu else out
        if self.extra is not None:
            x = torch.constant_pad_nd(x, self.extra)
        if x.is_cuda:
            x, w = self._aligned(x), self._aligned(w)
        if relu and x.is_cuda and x.dtype is not torch.float64:
            return torch.cudnn_convolution_relu(x, w, bias, self.stride, self.pad, self.dilation, self.groups)
        out = torch.convolution(x, w, bias, self.stride, self.pad, self.dilation, False, self.zeros, self.groups)
        return out.relu_() if relu else out      # not oneDNN's ReLU, which turns NaN into zero

    def _aligned(self, x: torch.Tensor) -> torch.Tensor:
        """With channels that cuDNN's kernels for half precision take as they are: its own padding is slow."""
        if self.groups > 1 or x.dtype not in (torch.float16, torch.bfloat16) or x.shape[1] > 4 or x.ndim != 4:
            return x
        return torch.constant_pad_nd(x, (0, 0, 0, 0, 0, 8 - x.shape[1]))

    def to_input(self, w: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        if self.empty:
            return self._cropped(grad.new_zeros(self.input))
        if not grad.dtype.is_floating_point:
            return self.to_input(w.double(), grad.double()).to(torch.int64).to(grad.dtype)
        if products.in_float32(grad):
            return self.to_input(w.float(), grad.float()).half()
        if self.pointwise and _as_product(grad):
            return self._images(products.product(self._rows(grad), w.flatten(1)), self.input)
        if self.mirrored is not None and grad.is_cpu:
            return self._cropped(torch.convolution(grad, w.flip(*range(2, w.ndim)), None, self.stride, self.mirrored,
                                                   self.dilation, False, self.zeros, self.groups))
        if self.few and pools.takes_windows(grad, w):
            return self._cropped(self.enter(self._windows(w, grad)))
        like = torch.empty(self.input, dtype=grad.dtype, device=grad.device, memory_format=self.memory)
        return self._cropped(self._backward(grad, like, w, (True, False, False), self.pad)[0])

    def _windows(self, w: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        """The gradient of the input, channels last: a product gives what each position adds to its window. oneDNN computes 16
        channels where there are one to four."""
        rows, columns = self._rows(grad), w.permute(self.window_back).reshape(-1, w.shape[0]).t()
        images, channels, *size = self.input
        output = self.output[2:]
        out, positions = grad.new_empty((images, *size, channels)), math.prod(output)
        some = max(1, _COLUMNS // (positions * columns.shape[1]))
        for i in range(0, images, some):
            made = products.product(rows[i * positions:(i + some) * positions], columns)
            pools.add_windows(made, out[i:i + some], self.filter[2:], self.stride, self.pad, output)
        return out

    def to_filter(self, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        if self.empty:
            return x.new_zeros(self.filter)
        if products.in_float32(x):
            return self.to_filter(x.float(), grad.float()).half()
        if self.pointwise and _as_product(x) and math.prod(self.filter) >= _LEAST_PRODUCT:
            return products.product(self._rows(x).t(), self._rows(grad)).t().reshape(self.filter)
        if self.extra is not None:
            x = torch.constant_pad_nd(x, self.extra)
        channels = self.filter[1]
        if x.is_cuda:
            x = self._aligned(x)
        like = torch.empty((self.filter[0], x.shape[1] // self.groups, *self.filter[2:]), dtype=x.dtype, device=x.device,
                           memory_format=self.memory)
        pad = self.pad
        if x.is_cpu and x.ndim == 5 and x.dtype is torch.bfloat16:   # oneDNN reads memory of the padding before it writes it
            x, pad = torch.constant_pad_nd(x, [p for p in reversed(pad) for _ in range(2)]), self.zeros
        out = self._backward(grad, x, like, (False, True, False), pad)[1]
        return out if out.shape[1] == channels else out[:, :channels]

    def _backward(self, grad: torch.Tensor, x: torch.Tensor, w: torch.Tensor, mask: tuple, pad: list[int]) -> tuple:
        return aten.convolution_backward.default(grad, x, w, [0], self.stride, pad, self.dilation, False, self.zeros,
                                                 self.groups, mask)

    def _rows(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor with its channels first as a matrix with a row for each position."""
        return self.leave(x).reshape(-1, x.shape[1])

    def _images(self, rows: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        """The inverse of `_rows`."""
        return self.enter(rows.view(shape[0], *shape[2:], shape[1]))

    def _cropped(self, x: torch.Tensor) -> torch.Tensor:
        return x if self.extra is None else torch.constant_pad_nd(x, [-p for p in self.extra])


_FEW = 4                     # channels of an input whose gradient is a product and a sum of windows
_COLUMNS = 1 << 19           # numbers of such a product that are computed at once: what fits a cache
_LEAST_PRODUCT = 1 << 10     # elements of a filter whose gradient is a product of matrices: it has few, but long columns


def _as_product(x: torch.Tensor) -> bool:
    """Whether a pointwise convolution of x runs as a product, which needs no other layout. GPUs have kernels for both."""
    return x.is_cpu and x.dtype in (torch.float32, torch.float64)


@functools.lru_cache(maxsize=4096)
def _plan(name: str, x: tuple, w: tuple, strides: tuple, padding: str, explicit: tuple, data_format: str,
          dilations: tuple, depthwise: bool = False) -> _Plan:
    """The plan for an input and a filter [*window, in, out] in TensorFlow's layouts; checks that they fit."""
    return windows.checked(_make_plan, name, x, w, strides, padding, explicit, data_format, dilations, depthwise)


def _make_plan(name: str, x: tuple, w: tuple, strides: tuple, padding: str, explicit: tuple, data_format: str,
               dilations: tuple, depthwise: bool) -> _Plan:
    _check_attrs(name, strides, padding, explicit, data_format, dilations)
    n = len(data_format) - 2
    if len(x) != n + 2 or len(w) != n + 2:
        raise ValueError(f"input and filter must have {n + 2} dimensions, got shapes {list(x)} and {list(w)}")
    space, window = windows.spatial(x, data_format), w[:n]
    if any(k <= 0 for k in (w if depthwise else window)) and min(x) > 0:
        raise ValueError(f"filter must not have zero elements (i.e. all dimensions must be non-zero), got {list(w)}")
    channels = x[windows.channel_axis(data_format)]
    groups = _groups(channels, w[n], depthwise)
    if not depthwise and w[n + 1] % groups:
        raise ValueError(f"output depth must be evenly divisible by number of groups: {w[n + 1]} vs {groups}, where the groups "
                         f"are the channels of the input ({channels}) over those of the filter ({w[n]})")
    steps, rates = windows.spatial(strides, data_format), windows.spatial(dilations, data_format)
    given = windows.explicit_pads(explicit, data_format) or ((0, 0),) * n
    pads = [windows.pads_of(*a) for a in zip(space, window, steps, (padding,) * n, given, rates, strict=True)]
    out = [windows.output_size(s, k, t, padding, p, r)
           for s, k, t, p, r in zip(space, window, steps, pads, rates, strict=True)]
    even = [min(p) for p in pads]
    uneven = [(b - e, a - e) for (b, a), e in zip(pads, even, strict=True)]
    padded = [s + sum(u) for s, u in zip(space, uneven, strict=True)]
    filters = (w[n] * w[n + 1], 1) if depthwise else (w[n + 1], w[n])
    output = (x[0], filters[0], *out)
    last = not channels_first(data_format)
    first, back = windows.orders(n + 2)
    mirrored = [r * (k - 1) - e for r, k, e in zip(rates, window, even, strict=True)]
    return _Plan(
        stride=list(steps), pad=even, dilation=list(rates), zeros=[0] * n, groups=groups,
        extra=[v for pair in reversed(uneven) for v in pair] if any(map(any, uneven)) else None,
        input=(x[0], channels, *padded), filter=(*filters, *window), output=output,
        result=windows.assemble(x[0], out, filters[0], data_format),
        empty=not all(output) or not all(x) or not all(w), first=first if last else None, back=back if last else None,
        window=(n + 1, n, *range(n)), window_back=(*range(2, n + 2), 1, 0),
        merged=(*window, 1, filters[0]) if depthwise else None,
        memory=torch.contiguous_format if not last else torch.channels_last if n == 2 else torch.channels_last_3d,
        pointwise=last and groups == 1 and all(v == 1 for v in (*window, *steps)) and not any(map(any, pads)),
        few=last and groups == 1 and channels <= _FEW and all(r == 1 for r in rates) and
        math.prod(window) * channels <= 4 * filters[0] >= 32,
        mirrored=mirrored if groups == channels == filters[0] and max(steps) == 1 and min(mirrored) >= 0 else None)


def _groups(channels: int, filter_in: int, depthwise: bool) -> int:
    if depthwise:
        if channels != filter_in:
            raise ValueError(f"input and filter must have the same depth: {channels} vs {filter_in}")
        return channels
    if channels == filter_in:
        return 1
    if not filter_in or not channels or channels % filter_in:
        raise ValueError(f"input depth must be evenly divisible by filter depth: {channels} vs {filter_in}")
    return channels // filter_in


def _check_attrs(name: str, strides: Sequence, padding: str, explicit: Sequence, data_format: str,
                 dilations: Sequence) -> None:
    windows.check_steps(name, strides, data_format, "strides")
    windows.check_steps(name, dilations, data_format, "dilations")
    windows.check_explicit(padding, explicit, data_format)


def _sizes(name: str, value: torch.Tensor, rank: int) -> tuple[int, ...]:
    """A shape given as a tensor, checked to be one."""
    if value.ndim != 1 or value.numel() != rank:
        raise errors.invalid(f"{name} must be a vector of {rank} elements, got shape {list(value.shape)}")
    sizes = tuple(value.tolist())
    if min(sizes) < 0:
        raise errors.invalid(f"{name} must not have negative elements, got {list(sizes)}")
    return sizes


def _check_grad(plan: _Plan, grad: torch.Tensor) -> None:
    if grad.shape != plan.result:
        raise errors.invalid(f"out_backprop has shape {list(grad.shape)}, but the convolution has an output of shape "
                             f"{list(plan.result)}")


# -- shape rules -----------------------------------------------------------------------------------------------------
def _forward_shape(input, filter, *, strides, padding, explicit_paddings, data_format, dilations, name, depthwise):
    _check_attrs(name, strides, padding, explicit_paddings, data_format, dilations)
    n = len(data_format) - 2
    x, w = shapes.rank_is(input, n + 2), shapes.rank_is(filter, n + 2)
    channels, depth = x[windows.channel_axis(data_format)], w[n]
    if channels is not None and depth is not None:
        if depthwise and channels != depth or not depthwise and channels and (not depth or channels % depth):
            raise ValueError(f"Dimensions must be equal, but are {channels} and {depth}: the depth of the input and the "
                             "input depth of the filter")
    pads = windows.explicit_pads(explicit_paddings, data_format) or ((0, 0),) * n
    space = [windows.output_size(*a) for a in zip(
        windows.spatial(x, data_format), w[:n], windows.spatial(strides, data_format), (padding,) * n, pads,
        windows.spatial(dilations, data_format), strict=True)]
    out = w[n + 1]
    if depthwise:
        depth = channels if w[n] is None else w[n]
        out = None if depth is None or out is None else depth * out
    return windows.assemble(x[0], space, out, data_format)


def _input_shape(input_sizes, filter, out_backprop, *, strides, padding, explicit_paddings, data_format, dilations,
                 name, depthwise, c):
    _check_attrs(name, strides, padding, explicit_paddings, data_format, dilations)
    rank = len(data_format)
    shapes.rank_is(filter, rank)
    batch = shapes.rank_is(out_backprop, rank)[0]
    return shapes.merge(shapes.rank_is(c.dims("input_sizes"), rank), (batch, *(None,) * (rank - 1)))


def _filter_shape(input, filter_sizes, out_backprop, *, strides, padding, explicit_paddings, data_format, dilations,
                  name, depthwise, c):
    _check_attrs(name, strides, padding, explicit_paddings, data_format, dilations)
    rank = len(data_format)
    shapes.rank_is(input, rank)
    shapes.rank_is(out_backprop, rank)
    return shapes.rank_is(c.dims("filter_sizes"), rank)


# -- kernels ---------------------------------------------------------------------------------------------------------
def _forward(input, filter, *, strides, padding, explicit_paddings, data_format, dilations, name, depthwise):
    p = _plan(name, input.shape, filter.shape, tuple(strides), padding, tuple(explicit_paddings), data_format,
              tuple(dilations), depthwise)
    return p.leave(p.convolve(p.enter(input), p.weights(filter)))


def _to_input(input_sizes, filter, out_backprop, *, strides, padding, explicit_paddings, data_format, dilations, name,
              depthwise):
    sizes = _sizes("input_sizes", input_sizes, len(data_format))
    p = _plan(name, sizes, filter.shape, tuple(strides), padding, tuple(explicit_paddings), data_format,
              tuple(dilations), depthwise)
    _check_grad(p, out_backprop)
    return p.leave(p.to_input(p.weights(filter), p.enter(out_backprop)))


def _to_filter(input, filter_sizes, out_backprop, *, strides, padding, explicit_paddings, data_format, dilations, name,
               depthwise):
    sizes = _sizes("filter_sizes", filter_sizes, len(data_format))
    p = _plan(name, input.shape, sizes, tuple(strides), padding, tuple(explicit_paddings), data_format,
              tuple(dilations), depthwise)
    _check_grad(p, out_backprop)
    return p.unweights(p.to_filter(p.enter(input), p.enter(out_backprop)), sizes)


# -- kernels for shapes that are known when a step is compiled -------------------------------------------------------
def _plan_for(known: Known, x: tuple | None, w: tuple | None, name: str, explicit_paddings: Sequence = (),
              depthwise: bool = False) -> _Plan | None:
    if x is None or w is None:
        return None
    a = known.attrs
    explicit = tuple(a.get("explicit_paddings", explicit_paddings))
    return _plan(name, tuple(x), tuple(w), tuple(a["strides"]), a["padding"], explicit, a["data_format"], tuple(a["dilations"]),
                 depthwise)


def _prepare_forward(known: Known, **fixed: Any) -> Any:
    p = _plan_for(known, known.dims(0), known.dims(1), **fixed)
    if p is None:
        return None

    def run(input: torch.Tensor, filter: Any) -> torch.Tensor:
        if type(filter) is Packed:
            return p.leave(p.convolve_packed(p.enter(input), filter))
        return p.leave(p.convolve(p.enter(input), p.weights(filter)))
    return run


def _prepare_to_input(known: Known, **fixed: Any) -> Any:
    p = _plan_for(known, known.out(), known.dims(1), **fixed)
    if p is None or known.dims(2) != p.result or known.const(0) is None:
        return None
    return lambda _, filter, out_backprop: p.leave(p.to_input(p.weights(filter), p.enter(out_backprop)))


def _prepare_to_filter(known: Known, **fixed: Any) -> Any:
    sizes = known.out()
    p = _plan_for(known, known.dims(0), sizes, **fixed)
    if p is None or sizes is None or known.dims(2) != p.result or known.const(1) is None:
        return None
    return lambda input, _, out_backprop: p.unweights(p.to_filter(p.enter(input), p.enter(out_backprop)), sizes)


def _prepare_fused(known: Known, **fixed: Any) -> Any:
    p = _plan_for(known, known.dims(0), known.dims(1), **fixed)
    if p is None or known.dims(2) != p.result[-1:] or channels_first(known.attrs["data_format"]):
        return None
    relu = "Relu" in known.attrs["fused_ops"]

    def run(input: torch.Tensor, filter: Any, args: list[torch.Tensor]) -> torch.Tensor:
        if type(filter) is Packed:
            return p.leave(p.convolve_packed(p.enter(input), filter, args[0], relu))
        return p.leave(p.convolve(p.enter(input), p.weights(filter), args[0], relu))
    return run


_LEAST_PACKED = 1 << 11      # elements of a filter that takes time to rearrange


def _pack(known: Known, **fixed: Any) -> Any:
    """The layout of a filter that stays: oneDNN's, if it is large."""
    p = _plan_for(known, known.dims(0), known.dims(1), **fixed)
    if p is None or p.empty or not torch.backends.mkldnn.is_available() or known.op.inputs[0].dtype.name != "float32" or \
            math.prod(p.filter) < _LEAST_PACKED:
        return None
    return p.pack


def fuse_bias(op, f, value, bias):
    """A bias per channel, the last axis, added to a convolution that is used nowhere else."""
    made = f.only(value, op)
    fused = made and _FUSED.get(made.opdef)
    if made is None or fused is None or channels_first(made.attrs["data_format"]):
        return None
    return f.make(fused, [*made.inputs, bias], _with_bias(made.attrs), op, (None, None, 1))


def _with_bias(attrs: dict[str, Any]) -> dict[str, Any]:
    return {**attrs, "num_args": 1, "fused_ops": ["BiasAdd"]}


def _fused_conv(input, filter, args, *, strides, padding, explicit_paddings, data_format, dilations, fused_ops, name,
                depthwise):
    p = _plan(name, input.shape, filter.shape, tuple(strides), padding, tuple(explicit_paddings), data_format,
              tuple(dilations), depthwise)
    bias = args[0]
    if bias.ndim != 1 or bias.shape[0] != p.filter[0]:
        raise errors.invalid(f"Must provide as many biases as the last dimension of the input tensor: "
                             f"{tuple(bias.shape)} vs. {p.result}")
    return p.leave(p.convolve(p.enter(input), p.weights(filter), bias, "Relu" in fused_ops))


# -- gradients -------------------------------------------------------------------------------------------------------
_GEOMETRY = ("strides", "use_cudnn_on_gpu", "padding", "explicit_paddings", "data_format", "dilations")


def _geometry(op: Any) -> dict[str, Any]:
    return {a: op.attrs[a] for a in _GEOMETRY if a in op.attrs}


def _add_gradients(forward: OpDef, to_input: OpDef, to_filter: OpDef) -> None:
    """The gradient of each op of a convolution family, in terms of the other two."""
    @forward.gradient
    def _forward_gradient(op, grad):
        x, w = op.inputs
        attrs = _geometry(op)
        return to_input(shape_of(x), w, grad, **attrs), to_filter(x, shape_of(w), grad, **attrs)

    @to_input.gradient
    def _to_input_gradient(op, grad):
        _, w, dy = op.inputs
        attrs = _geometry(op)
        return None, to_filter(grad, shape_of(w), dy, **attrs), forward(grad, w, **attrs)

    @to_filter.gradient
    def _to_filter_gradient(op, grad):
        x, _, dy = op.inputs
        attrs = _geometry(op)
        return to_input(shape_of(x), grad, dy, **attrs), None, forward(x, grad, **attrs)


def _family(forward: OpDef, to_input: OpDef, to_filter: OpDef, depthwise: bool = False) -> None:
    """Gives the three ops of a convolution family their shape rules, kernels and gradients."""
    for made, rule, kernel, prepare in ((forward, _forward_shape, _forward, _prepare_forward),
                                        (to_input, _input_shape, _to_input, _prepare_to_input),
                                        (to_filter, _filter_shape, _to_filter, _prepare_to_filter)):
        fixed: dict[str, Any] = {"name": made.name, "depthwise": depthwise}
        if "explicit_paddings" not in made.attrs:
            fixed["explicit_paddings"] = []
        made.kernel(functools.partial(kernel, **fixed))
        made.shape(functools.partial(rule, **fixed))
        rules.program.prepare[made] = functools.partial(prepare, **fixed)
        if made is forward:
            rules.hoisting.pack[made] = functools.partial(_pack, **fixed)
    rules.costs.flops[forward] = lambda inputs, outputs: _flops(outputs[0], inputs[1])
    rules.costs.flops[to_input] = lambda inputs, outputs: _flops(inputs[2], inputs[1])
    rules.costs.flops[to_filter] = lambda inputs, outputs: _flops(inputs[2], outputs[0])
    _add_gradients(forward, to_input, to_filter)


def _flops(result: tuple, window: tuple) -> int:
    """Each element of the result of a convolution is a sum over a filter's window and its input channels."""
    return 2 * math.prod(result) * math.prod(window[:-1])


# -- the ops ---------------------------------------------------------------------------------------------------------
_T = "T: type in {half bfloat16 float32 float64}, "
_WITH_INTEGERS = "T: type in {half bfloat16 float32 float64 int32}, "
_2D_GEOMETRY = ("strides: list(int), use_cudnn_on_gpu: bool = True, padding: string in {SAME VALID EXPLICIT}, "
                "explicit_paddings: list(int) = [], data_format: string in {NHWC NCHW} = 'NHWC', "
                "dilations: list(int) = [1, 1, 1, 1]")
_2D = _T + _2D_GEOMETRY
_3D = (_T + "strides: list(int) >= 5, padding: string in {SAME VALID}, data_format: string in {NDHWC NCDHW} = 'NDHWC', "
       "dilations: list(int) = [1, 1, 1, 1, 1]")
_DEPTHWISE = (_T + "strides: list(int), padding: string in {SAME VALID EXPLICIT}, "
              "data_format: string in {NHWC NCHW} = 'NHWC', dilations: list(int) = [1, 1, 1, 1], "
              "explicit_paddings: list(int) = []")

fused_conv2d = internal("_FusedConv2D", "input: T, filter: T, args: num_args * T -> output: T",
                        _WITH_INTEGERS + _2D_GEOMETRY + ", num_args: int >= 0, fused_ops: list(string) = []")
conv2d_op = op("Conv2D", "input: T, filter: T -> output: T", _WITH_INTEGERS + _2D_GEOMETRY)
rules.batching.first[conv2d_op] = (0,)
conv2d_to_input = op("Conv2DBackpropInput", "input_sizes: int32, filter: T, out_backprop: T -> output: T",
                     _WITH_INTEGERS + _2D_GEOMETRY)
rules.batching.first[conv2d_to_input], rules.batching.sizes[conv2d_to_input] = (2,), 0
conv2d_to_filter = op("Conv2DBackpropFilter", "input: T, filter_sizes: int32, out_backprop: T -> output: T", _2D)
_family(conv2d_op, conv2d_to_input, conv2d_to_filter)
rules.devices.filter_input.update({conv2d_op: 1, conv2d_to_input: 1, fused_conv2d: 1})

conv3d_op = op("Conv3D", "input: T, filter: T -> output: T", _3D)
rules.batching.first[conv3d_op] = (0,)
conv3d_to_input = op("Conv3DBackpropInputV2", "input_sizes: Tshape, filter: T, out_backprop: T -> output: T",
                     _3D + ", Tshape: type in {index} = int32")
rules.batching.first[conv3d_to_input], rules.batching.sizes[conv3d_to_input] = (2,), 0
conv3d_to_filter = op("Conv3DBackpropFilterV2", "input: T, filter_sizes: int32, out_backprop: T -> output: T", _3D,
                      v1_as="nn.conv3d_backprop_filter nn.conv3d_backprop_filter_v2")
_family(conv3d_op, conv3d_to_input, conv3d_to_filter)

depthwise_op = op("DepthwiseConv2dNative", "input: T, filter: T -> output: T", _DEPTHWISE)
rules.batching.first[depthwise_op] = (0,)
depthwise_to_input = op("DepthwiseConv2dNativeBackpropInput",
                        "input_sizes: int32, filter: T, out_backprop: T -> output: T", _DEPTHWISE)
rules.batching.first[depthwise_to_input], rules.batching.sizes[depthwise_to_input] = (2,), 0
depthwise_to_filter = op("DepthwiseConv2dNativeBackpropFilter",
                         "input: T, filter_sizes: int32, out_backprop: T -> output: T", _DEPTHWISE)
_family(depthwise_op, depthwise_to_input, depthwise_to_filter, depthwise=True)

fused_depthwise = internal("_FusedDepthwiseConv2dNative", "input: T, filter: T, args: num_args * T -> output: T",
                           _DEPTHWISE + ", num_args: int >= 0, fused_ops: list(string) = []")
_FUSED = {conv2d_op: "_FusedConv2D", depthwise_op: "_FusedDepthwiseConv2dNative"}


def _fused_shape(input, filter, args, **attrs):
    return _forward_shape(input, filter, **attrs)


_KINDS: tuple[tuple[OpDef, dict[str, Any]], ...] = (
    (fused_conv2d, {"name": "Conv2D", "depthwise": False}),
    (fused_depthwise, {"name": "DepthwiseConv2dNative", "depthwise": True}))
for _made, _fixed in _KINDS:
    _made.kernel(functools.partial(_fused_conv, **_fixed))
    _made.shape(functools.partial(_fused_shape, **_fixed))
    rules.program.prepare[_made] = functools.partial(_prepare_fused, **_fixed)
    rules.hoisting.pack[_made] = functools.partial(_pack, **_fixed)


# -- batch norm of inference, folded into the convolution before it --------------------------------------------------------
fold_batch_norm = internal("_FoldBatchNorm", "filter: T, scale: T, offset: T, mean: T, variance: T, bias: N * T -> folded: T, "
                           "shift: T", "T: type, N: int >= 0, epsilon: float")


@fold_batch_norm.kernel
def _fold_batch_norm_kernel(filter, scale, offset, mean, variance, bias, *, epsilon):
    factor = (variance + epsilon).rsqrt_().mul_(scale)
    if filter.shape[3] == factor.shape[0]:
        folded = (filter * factor).permute(3, 0, 1, 2).contiguous().permute(1, 2, 3, 0)     # as kernels read it
    else:
        folded = filter * factor.view(filter.shape[2:])                                     # depthwise
    return folded, torch.addcmul(offset, (bias[0] - mean) if bias else -mean, factor)


def fuse_batch_norm(op: Any, f: Any) -> Any:
    """Folds a batch norm of inference into the convolution whose only consumer it is, on the CPU."""
    made = f.only(op.inputs[0], op)
    if made is None or not f.on_host(op) or op.attrs["T"].name != "float32" or op.attrs["data_format"] != "NHWC" or \
            any(f.users(t) != [] for t in op.outputs[1:]):
        return None
    fused = _FUSED.get(made.opdef) or (made.type if made.attrs.get("fused_ops") == ["BiasAdd"] else None)
    channels = op.outputs[0].static_dims and op.outputs[0].static_dims[-1:]
    if fused not in _FUSED.values() or made.attrs["data_format"] != "NHWC" or not channels or None in channels or \
            None in (made.inputs[1].static_dims or (None,)) or \
            any(t.static_dims != channels for t in (*op.inputs[1:], *made.inputs[2:])):
        return None
    x, filter, *bias = made.inputs
    attrs = {"T": op.attrs["T"], "N": len(bias), "epsilon": op.attrs["epsilon"]}
    folded = f.add(f.make("_FoldBatchNorm", [filter, *op.inputs[1:], *bias], attrs, made, (*[None] * 5, len(bias)),
                          outputs=[filter, op.inputs[2]]))
    return f.make(fused, [x, *folded], _with_bias(made.attrs), op, (None, None, 1), outputs=op.outputs[:1])


# -- the first versions of the 3-D gradients, which take tensors where the later ones take their shapes --------------
_3D_V1 = ("T: type in {half float32 float64}, strides: list(int) >= 5, padding: string in {SAME VALID}, "
          "dilations: list(int) = [1, 1, 1, 1, 1]")
conv3d_to_input_v1 = op("Conv3DBackpropInput", "input: T, filter: T, out_backprop: T -> output: T", _3D_V1)
conv3d_to_filter_v1 = op("Conv3DBackpropFilter", "input: T, filter: T, out_backprop: T -> output: T", _3D_V1)
_V1 = {"explicit_paddings": [], "data_format": "NDHWC", "depthwise": False}


@conv3d_to_input_v1.kernel
def _conv3d_to_input_v1_kernel(input, filter, out_backprop, *, strides, padding, dilations):
    return _to_input(torch.tensor(input.shape), filter, out_backprop, strides=strides, padding=padding,
                     dilations=dilations, name="Conv3DBackpropInput", **_V1)


@conv3d_to_filter_v1.kernel
def _conv3d_to_filter_v1_kernel(input, filter, out_backprop, *, strides, padding, dilations):
    return _to_filter(input, torch.tensor(filter.shape), out_backprop, strides=strides, padding=padding,
                      dilations=dilations, name="Conv3DBackpropFilter", **_V1)


conv3d_to_input_v1.shape(lambda input, filter, out_backprop: shapes.rank_is(input, 5))
conv3d_to_filter_v1.shape(lambda input, filter, out_backprop: shapes.rank_is(filter, 5))


@conv3d_to_input_v1.gradient
def _conv3d_to_input_v1_gradient(op, grad):
    _, w, dy = op.inputs
    attrs = _geometry(op)
    return None, conv3d_to_filter(grad, shape_of(w), dy, **attrs), conv3d_op(grad, w, **attrs)


@conv3d_to_filter_v1.gradient
def _conv3d_to_filter_v1_gradient(op, grad):
    x, _, dy = op.inputs
    attrs = _geometry(op)
    return conv3d_to_input(shape_of(x), grad, dy, **attrs), None, conv3d_op(x, grad, **attrs)
