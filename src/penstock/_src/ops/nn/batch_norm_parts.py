"""Batch norm in training as sums of columns and elementwise ops: on GPUs these are joined with their neighbours, such as a ReLU
and the sum of a residual block (step/optimize/on_device.py).

The moments are those of the differences to the first element of each channel, so that a large mean does not cancel the
variance, and the images are read once.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.ops.nn.windows import channels_first
from penstock._src.ops.parts import Parts

_TYPES = (dtypes.float32, dtypes.bfloat16, dtypes.float16)


def is_apart(op: Any, f: Any) -> bool:
    """Whether batch norm, or its gradient, is written as its parts: in training, of images of a known shape on a GPU whose
    channels are last."""
    dims = op.inputs[0].static_dims
    return not f.on_host(op) and f.step.joins_on_device and op.attrs["is_training"] and dims is not None and \
        None not in dims and dims[-1] > 1 and math.prod(dims[:-1]) > 1 and op.attrs["T"] in _TYPES and \
        not channels_first(op.attrs["data_format"]) and op.attrs.get("exponential_avg_factor") in (None, 1.0)


class _Images(Parts):
    """Images and vectors of their channels."""

    def __init__(self, op: Any, f: Any, x: Any):
        super().__init__(op, f)
        self.x = f.source(x)
        self.dims = tuple(self.x.static_dims)
        self.channels = (*[1] * (len(self.dims) - 1), self.dims[-1])
        self.count = math.prod(self.dims[:-1])

    def vector(self, t: Any) -> Any:
        """A vector of channels, to be repeated over images."""
        return self.reshaped(self.f.source(t), self.channels)

    def sum(self, t: Any, kind: str = "_ColumnSum") -> Any:
        """The sum of each channel."""
        return self.make(kind, [t], self.channels, T=dtypes.float32, keep_dims=True)

    def mean(self, t: Any) -> Any:
        """The mean of each channel."""
        return self.sum(t, "_ColumnMean")

    def deviation(self, variance: Any) -> Any:
        """One over the standard deviation."""
        return self.each("Rsqrt", self.each("AddV2", variance, self.number(self.op.attrs["epsilon"])))

    def first(self) -> Any:
        """The first element of each channel."""
        begin, size = np.zeros(len(self.dims), np.int32), np.array(self.channels, np.int32)
        return self.cast(self.make("Slice", [self.x, self.constant(begin), self.constant(size)], self.channels, self.x.dtype,
                                   T=self.x.dtype, Index=dtypes.int32))

    def outputs(self, *values: Any) -> list:
        """The results in the types and shapes of those of the op."""
        made = []
        for t, out in zip(values, self.op.outputs, strict=False):
            made.append(self.cast(self.reshaped(t, tuple(out.static_dims)), out.dtype))
        for out in self.op.outputs[len(made):]:
            made.append(self.constant(np.zeros(out.static_dims, out.dtype.as_numpy_dtype)))
        return made


def forward(op: Any, f: Any) -> list:
    """The results of batch norm."""
    p = _Images(op, f, op.inputs[0])
    first = p.first()
    moved = p.each("Sub", p.cast(p.x), first)
    rest = p.mean(moved)
    square = p.each("Sub", p.mean(p.each("Square", moved)), p.each("Square", rest))
    mean, variance = p.each("AddV2", first, rest), p.each("Maximum", square, p.number(0.0))
    factor = p.each("Mul", p.deviation(variance), p.vector(op.inputs[1]))
    y = p.each("AddV2", p.each("Mul", p.each("Sub", p.cast(p.x), mean), factor), p.vector(op.inputs[2]))
    unbiased = p.each("Mul", variance, p.number(p.count / (p.count - 1)))
    return p.outputs(y, mean, unbiased, mean, variance)


def backward(op: Any, f: Any) -> list:
    """The gradients of images, scale and offset."""
    p = _Images(op, f, op.inputs[1])
    dy = p.cast(f.source(op.inputs[0]))
    scale, mean, variance = (p.vector(t) for t in op.inputs[2:5])
    centered, deviation = p.each("Sub", p.cast(p.x), mean), p.deviation(variance)
    of_offset, covariance = p.sum(dy), p.sum(p.each("Mul", dy, centered))
    of_scale = p.each("Mul", covariance, deviation)
    one = p.number(1.0 / p.count)
    slope = p.each("Mul", p.each("Mul", of_scale, deviation), one)
    left = p.each("Sub", p.each("Sub", dy, p.each("Mul", of_offset, one)), p.each("Mul", centered, slope))
    return p.outputs(p.each("Mul", left, p.each("Mul", scale, deviation)), of_scale, of_offset)
