"""Grayscale morphology: dilation (the maximum of input plus filter in a window) and erosion, its dual.

The kernels loop over the elements of the filter, not of the image: each element is one shifted slice of the whole batch, which
leaves out the parts of windows outside of the image.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops.arguments import renamed
from penstock._src.ops.composite import dispatched
from penstock._src.ops.nn import windows
from penstock._src.ops.registry import get, op

_ATTRS = ("T: type in {float32 float64 int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64}, "
          "strides: list(int) >= 4, rates: list(int) >= 4, padding: string in {SAME VALID}")

dilation = op("Dilation2D", "input: T, filter: T -> output: T", _ATTRS)
dilation_to_input = op("Dilation2DBackpropInput", "input: T, filter: T, out_backprop: T -> in_backprop: T", _ATTRS)
dilation_to_filter = op("Dilation2DBackpropFilter", "input: T, filter: T, out_backprop: T -> filter_backprop: T", _ATTRS)


# -- geometry --------------------------------------------------------------------------------------------------------
def _check_attrs(strides: Sequence[int], rates: Sequence[int]) -> None:
    windows.check_steps("Dilation2D", strides, "NHWC", "strides")
    windows.check_steps("Dilation2D", rates, "NHWC", "rates")


@dilation.shape
def _dilation_shape(input, filter, *, strides, rates, padding):
    _check_attrs(strides, rates)
    x, w = shapes.rank_is(input, 4), shapes.rank_is(filter, 3)
    depth = shapes.merge(x[3:], w[2:])
    space = [windows.output_size(x[a], w[a - 1], strides[a], padding, (0, 0), rates[a]) for a in (1, 2)]
    return (x[0], *space, *depth)


dilation_to_input.shape(lambda input, filter, out_backprop: shapes.rank_is(input, 4))
dilation_to_filter.shape(lambda input, filter, out_backprop: shapes.rank_is(filter, 3))


class _Tap(NamedTuple):
    """One element of the filter: its place, the outputs it reaches, and the inputs they read."""
    at: tuple[int, int]
    out: tuple[slice, slice, slice]
    input: tuple[slice, slice, slice]


def _reach(size: int, count: int, stride: int, offset: int) -> tuple[slice, slice] | None:
    """For inputs at `stride * i + offset`: the i that are inside, and those inputs."""
    first = max(0, -(offset // stride))
    last = min(count - 1, (size - 1 - offset) // stride)
    if last < first:
        return None
    start = first * stride + offset
    return slice(first, last + 1), slice(start, start + (last - first) * stride + 1, stride)


class _Geometry:
    """The taps of a dilation and the shape of its output."""

    def __init__(self, x: torch.Tensor, w: torch.Tensor, strides: Sequence[int], rates: Sequence[int], padding: str):
        windows.checked(_check_attrs, strides, rates)
        if x.ndim != 4 or w.ndim != 3 or x.shape[3] != w.shape[2]:
            raise errors.invalid("input must be 4-dimensional, filter 3-dimensional, and both of one depth, got "
                                 f"{list(x.shape)} and {list(w.shape)}")
        self.axes = []
        for a in (1, 2):
            before, _ = windows.pads_of(x.shape[a], w.shape[a - 1], strides[a], padding, (0, 0), rates[a])
            count = windows.checked(windows.output_size, x.shape[a], w.shape[a - 1], strides[a], padding, (0, 0), rates[a])
            self.axes.append((x.shape[a], count, strides[a], rates[a], before, w.shape[a - 1]))
        self.output = (x.shape[0], self.axes[0][1], self.axes[1][1], x.shape[3])

    def taps(self) -> Iterator[_Tap]:
        every = slice(None)
        rows, cols = ([_reach(size, count, step, k * rate - before) for k in range(window)]
                      for size, count, step, rate, before, window in self.axes)
        for i, row in enumerate(rows):
            for j, col in enumerate(cols):
                if row is not None and col is not None:
                    yield _Tap((i, j), (every, row[0], col[0]), (every, row[1], col[1]))


def _wide(x: torch.Tensor) -> torch.Tensor:
    """In a type in which torch can compare."""
    return x if x.is_floating_point() else x.to(torch.int64)


def _lowest(dtype: torch.dtype) -> float | int:
    return float("-inf") if dtype.is_floating_point else torch.iinfo(dtype).min


@dilation.kernel
def _dilation_kernel(input, filter, *, strides, rates, padding):
    g = _Geometry(input, filter, strides, rates, padding)
    x, w = _wide(input), _wide(filter)
    best = x.new_full(g.output, _lowest(input.dtype))
    for tap in g.taps():
        view = best[tap.out]
        torch.maximum(view, _sum(x, w, tap, input.dtype), out=view)
    return best.to(input.dtype)


def _sum(x: torch.Tensor, w: torch.Tensor, tap: _Tap, dtype: torch.dtype) -> torch.Tensor:
    """Inputs plus one element of the filter, wrapped around in the type of the input."""
    return (x[tap.input] + w[tap.at]).to(dtype).to(x.dtype)


def _winners(input: torch.Tensor, filter: torch.Tensor, g: _Geometry) -> torch.Tensor:
    """The index of the tap with the maximum for each output; the first one of equals, -1 for none."""
    x, w = _wide(input), _wide(filter)
    best = x.new_full(g.output, _lowest(x.dtype))
    winner = torch.full(g.output, -1, dtype=torch.int32, device=x.device)
    for n, tap in enumerate(g.taps()):
        value = _sum(x, w, tap, input.dtype)
        better = value > best[tap.out]
        best[tap.out] = torch.where(better, value, best[tap.out])
        winner[tap.out] = torch.where(better, torch.full_like(winner[tap.out], n), winner[tap.out])
    return winner


def _check_backprop(g: _Geometry, out_backprop: torch.Tensor) -> None:
    if tuple(out_backprop.shape) != g.output:
        raise errors.invalid(f"out_backprop has incompatible size: {list(out_backprop.shape)}, expected {list(g.output)}")


@dilation_to_input.kernel
def _dilation_to_input_kernel(input, filter, out_backprop, *, strides, rates, padding):
    g = _Geometry(input, filter, strides, rates, padding)
    _check_backprop(g, out_backprop)
    winner = _winners(input, filter, g)
    out = torch.zeros_like(input)
    for n, tap in enumerate(g.taps()):
        out[tap.input] += out_backprop[tap.out] * (winner[tap.out] == n)
    return out


@dilation_to_filter.kernel
def _dilation_to_filter_kernel(input, filter, out_backprop, *, strides, rates, padding):
    g = _Geometry(input, filter, strides, rates, padding)
    _check_backprop(g, out_backprop)
    winner = _winners(input, filter, g)
    out = torch.zeros_like(filter)
    for n, tap in enumerate(g.taps()):
        out[tap.at] = (out_backprop[tap.out] * (winner[tap.out] == n)).sum((0, 1, 2), dtype=out.dtype)
    return out


@dilation.gradient
def _dilation_gradient(op, grad):
    attrs = {a: op.attrs[a] for a in ("strides", "rates", "padding")}
    return dilation_to_input(*op.inputs, grad, **attrs), dilation_to_filter(*op.inputs, grad, **attrs)


# -- public functions ------------------------------------------------------------------------------------------------
@export(v1=["nn.dilation2d"])
@dispatched
def dilation2d(input: Any, filter: Any = None, strides: Any = None, rates: Any = None, padding: Any = None,
               name: str | None = None, filters: Any = None, dilations: Any = None) -> Tensor:
    """The maximum of `input + filter` in each window; `filter` is [height, width, depth]."""
    return dilation(input, renamed("filters", filters, "filter", filter), strides=strides,
                    rates=renamed("dilations", dilations, "rates", rates), padding=padding, name=name)


def _only_nhwc(data_format: str) -> None:
    if data_format != "NHWC":
        raise ValueError("Data formats other than NHWC are not yet supported")


@export(v2=["nn.dilation2d"])
@dispatched
def dilation2d_v2(input: Any, filters: Any, strides: Any, padding: str, data_format: str, dilations: Any,
                  name: str | None = None) -> Tensor:
    """The maximum of `input + filters` in each window; `filters` is [height, width, depth]."""
    _only_nhwc(data_format)
    return dilation(input, filters, strides=strides, rates=dilations, padding=padding, name=name)


def _erosion(value: Any, kernel: Any, strides: Any, rates: Any, padding: str, name: str | None) -> Tensor:
    with name_scope(name, "erosion2d", [value, kernel]) as scope:
        turned = get("ReverseV2")(kernel, np.array([0, 1], np.int32))
        return get("Neg")(dilation(-convert(value), turned, strides=strides, rates=rates, padding=padding, name=scope))


@export(v1=["nn.erosion2d"])
@dispatched
def erosion2d(value: Any, kernel: Any, strides: Any, rates: Any, padding: str, name: str | None = None) -> Tensor:
    """The minimum of `value - kernel` in each window; `kernel` is [height, width, depth]."""
    return _erosion(value, kernel, strides, rates, padding, name)


@export(v2=["nn.erosion2d"])
@dispatched
def erosion2d_v2(value: Any, filters: Any, strides: Any, padding: str, data_format: str, dilations: Any,
                 name: str | None = None) -> Tensor:
    """The minimum of `value - filters` in each window; `filters` is [height, width, depth]."""
    _only_nhwc(data_format)
    return _erosion(value, filters, strides, dilations, padding, name)
