"""Isotonic regression: the non-increasing sequence nearest to each row, and its segments of equal values."""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

import penstock as tf
from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import rank_is
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import op

_T = "T: type in {float32 float64 int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64}"
isotonic_op = op("IsotonicRegression", "input: T -> output: output_dtype, segments: int32",
                 f"{_T}, output_dtype: type in {{half bfloat16 float32 float64}} = float32")
isotonic_op.shape(lambda input: [rank_is(input, 2)] * 2)


@isotonic_op.kernel
def _isotonic_kernel(input, *, output_dtype):
    rows = input.to(torch.float64).cpu().numpy()
    out, segments = np.empty_like(rows), np.empty(rows.shape, np.int32)
    for i, row in enumerate(rows):
        means, sizes = _pooled(row)
        out[i], segments[i] = np.repeat(means, sizes), np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    return torch.from_numpy(out).to(output_dtype.torch), torch.from_numpy(segments)


def _pooled(row: np.ndarray) -> tuple[list[float], list[int]]:
    """The pool adjacent violators algorithm: a segment that is above the one before it joins it."""
    means: list[float] = []
    sizes: list[int] = []
    for value in row.tolist():
        mean, size = value, 1
        while means and means[-1] < mean:
            before, count = means.pop(), sizes.pop()
            mean, size = (before * count + mean * size) / (count + size), count + size
        means.append(mean)
        sizes.append(size)
    return means, sizes


@isotonic_op.gradient
def _isotonic_gradient(op, grad, _):
    """The mean of the gradients within each segment."""
    segments = op.outputs[1]
    shape = tf.shape(segments)
    ids = tf.reshape(segments + tf.range(shape[0])[:, tf.newaxis] * shape[1], [-1])
    mean = tf.math.unsorted_segment_mean(tf.reshape(grad, [-1]), ids, shape[0] * shape[1])
    return tf.cast(tf.reshape(tf.gather(mean, ids), shape), op.inputs[0].dtype)


class IsotonicRegression(NamedTuple):
    """The results of `tf.nn.isotonic_regression`."""

    output: Tensor
    segments: Tensor


@export("nn.isotonic_regression")
@dispatched
def isotonic_regression(inputs: Any, decreasing: bool = True, axis: int = -1) -> IsotonicRegression:
    """The non-increasing (or non-decreasing) sequences nearest to those along `axis`, and the segments of equal values.

    >>> tf.nn.isotonic_regression([[3., 1., 2.]])[0]       # [[3., 1.5, 1.5]]
    """
    inputs = convert(inputs, name="inputs")
    out = inputs.dtype if inputs.dtype.is_floating else dtypes.float64 if inputs.dtype.size >= 4 else dtypes.float32
    rank = inputs.shape.rank
    if rank is None and axis != -1:
        raise TypeError(f"isotonic_regression along axis {axis} needs an input of known rank")
    order = None if axis == -1 or not rank else [i for i in range(rank) if i != axis % rank] + [axis % rank]
    moved = inputs if order is None else tf.transpose(inputs, order)
    shape = tf.shape(moved)
    flat = tf.reshape(moved, tf.concat([[-1], shape[-1:]], 0) if rank != 0 else [1, 1])
    found, segments = isotonic_op(flat if decreasing else -flat, output_dtype=out)
    results = (tf.reshape(x, shape) for x in (found if decreasing else -found, segments))
    return IsotonicRegression(*(x if order is None else tf.transpose(x, np.argsort(order)) for x in results))
