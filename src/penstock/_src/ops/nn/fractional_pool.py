"""Fractional pooling (Graham, arXiv 1412.6071): pooling regions of random size that shrink by a ratio such as 1.44.

The forward ops also return the borders that they drew, rows and columns, from which the gradients compute the regions.
With seeds, the borders are those that TensorFlow draws.
"""
from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import torch

from penstock._src.base import dtypes, errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph import random_seed
from penstock._src.graph.node import Tensor
from penstock._src.kernels import philox
from penstock._src.ops.array.array import shape_of
from penstock._src.ops.composite import dispatched
from penstock._src.ops.nn.windows import sequence
from penstock._src.ops.registry import OpDef, op

_T = "T: type in {float32 float64 int32 int64}"
_ATTRS = ("pooling_ratio: list(float) >= 4, pseudo_random: bool = False, overlapping: bool = False, "
          f"deterministic: bool = False, seed: int = 0, seed2: int = 0, {_T}")
_ARGS = "value: T -> output: T, row_pooling_sequence: int64, col_pooling_sequence: int64"
_SEQUENCES = "row_pooling_sequence: int64, col_pooling_sequence: int64"


# -- regions ---------------------------------------------------------------------------------------------------------
def _borders(size: int, regions: int, stream: philox.Stream, pseudo_random: bool) -> list[int]:
    """Where the regions of one axis begin, and where the last one ends."""
    k, alpha = size // regions, size / regions
    if pseudo_random:
        words = stream.reserve(1).words(1)[0]
        most = min((k + 2) / alpha - 1, (size + 1 - k) / alpha - (regions - 1))
        u = philox.unit_float64(words[:1], words[1:2]).item() * most
        return [0, *(math.ceil(alpha * (i + u)) - 1 for i in range(1, regions)), size]
    lengths = [k + 1] * (size % regions) + [k] * (regions - size % regions)
    count = (regions + 3) // 4
    drawn = stream.reserve(count).words(count).reshape(-1).tolist()
    for i in range(regions - 1):
        j = i + drawn[i] % (regions - i)
        lengths[i], lengths[j] = lengths[j], lengths[i]
    out = [0]
    for n in lengths:
        out.append(out[-1] + n)
    return out


def _regions(borders: torch.Tensor, size: int, overlapping: bool, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The indices of each region along one axis [regions, longest], the last repeated, and which are real."""
    if borders.ndim != 1 or borders.numel() < 2:
        raise errors.invalid(f"{name} must be a vector of at least 2 borders, got shape {list(borders.shape)}")
    if bool((borders < 0).any()):
        raise errors.invalid(f"{name} values must not be negative, got {borders.tolist()[:64]}")
    start, stop = borders[:-1], borders[1:] + int(overlapping)
    stop = stop.clamp(max=size)
    if bool((start < 0).any()) or bool((start >= size).any()) or bool((stop <= start).any()):
        raise errors.invalid(f"{name} must rise from 0 to at most {size}, got {borders.tolist()[:64]}")
    index = start.unsqueeze(1) + torch.arange(int((stop - start).max()), device=borders.device)
    return torch.minimum(index, stop.unsqueeze(1) - 1), index < stop.unsqueeze(1)


def _check_attrs(pooling_ratio: Sequence[float], deterministic: bool, seed: int, seed2: int) -> None:
    if len(pooling_ratio) != 4:
        raise errors.invalid("pooling_ratio field must specify 4 dimensions")
    if any(not r >= 1 for r in pooling_ratio):
        raise errors.invalid(f"pooling_ratio cannot be smaller than 1, got: {list(pooling_ratio)}")
    if pooling_ratio[0] != 1 or pooling_ratio[3] != 1:
        raise errors.UnimplementedError(None, None, "Fractional pooling is not yet supported on the batch nor channel "
                                                    "dimension.")
    if not deterministic and (seed or seed2):
        raise errors.invalid("Both seed and seed2 should be 0 if deterministic is false.")


def _draw(value: torch.Tensor, pooling_ratio: Sequence[float], pseudo_random: bool, deterministic: bool, seed: int,
          seed2: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The borders of rows and columns for an input."""
    _check_attrs(pooling_ratio, deterministic, seed, seed2)
    if value.ndim != 4:
        raise errors.invalid(f"value must be 4-dimensional, got shape {list(value.shape)}")
    for i, (size, ratio) in enumerate(zip(value.shape, pooling_ratio, strict=True)):
        if size < ratio:
            raise errors.invalid(f"Pooling ratio is higher than input dimension size for dimension {i}. Input dim size: "
                                 f"{size} pooling ratio: {ratio}")
    if not seed and not seed2:
        seed, seed2 = random.getrandbits(63), random.getrandbits(63)
    stream = philox.Stream(seed, seed2)
    rows, cols = (torch.tensor(_borders(n, int(n / r), stream, pseudo_random), device=value.device)
                  for n, r in zip(value.shape[1:3], pooling_ratio[1:3], strict=True))
    return rows, cols


def _output_shape(value, *, pooling_ratio):
    x = shapes.rank_is(value, 4)
    if len(pooling_ratio) != 4:
        raise ValueError("pooling_ratio field must specify 4 dimensions")
    if any(r < 1 for r in pooling_ratio):
        raise ValueError(f"pooling_ratio cannot be smaller than 1, got: {list(pooling_ratio)}")
    out = tuple(None if d is None else int(d / r) for d, r in zip(x, pooling_ratio, strict=True))
    return [out, *((None,) if n is None else (n + 1,) for n in out[1:3])]


def _forward_op(name: str, reduce: Any) -> OpDef:
    made = op(name, _ARGS, _ATTRS, foldable=False)
    made.shape(_output_shape)

    @made.kernel
    def _made_kernel(value, *, pooling_ratio, pseudo_random, overlapping, deterministic, seed, seed2):
        rows, cols = _draw(value, pooling_ratio, pseudo_random, deterministic, seed, seed2)
        regions = [_regions(borders, value.shape[axis], overlapping, "pooling sequence")
                   for axis, borders in ((1, rows), (2, cols))]
        return reduce(value, regions), rows, cols
    return made


def _gathered(x: torch.Tensor, axis: int, index: torch.Tensor) -> torch.Tensor:
    """The elements of each region, with a new axis for them after `axis`."""
    return x.index_select(axis, index.reshape(-1)).unflatten(axis, tuple(index.shape))


# -- maximum ---------------------------------------------------------------------------------------------------------
def _max(x: torch.Tensor, regions: list) -> torch.Tensor:
    for axis, (index, _) in enumerate(regions, 1):
        x = _gathered(x, axis, index).amax(axis + 1)
    return x


max_op = _forward_op("FractionalMaxPool", _max)
max_grad = op("FractionalMaxPoolGrad", f"orig_input: T, orig_output: T, out_backprop: T, {_SEQUENCES} -> output: T",
              f"overlapping: bool = False, {_T}")


@max_grad.shape
def _max_grad_shape(orig_input, orig_output, out_backprop, row_pooling_sequence, col_pooling_sequence):
    return shapes.rank_is(orig_input, 4)


@max_grad.kernel
def _max_grad_kernel(orig_input, orig_output, out_backprop, row_pooling_sequence, col_pooling_sequence, *, overlapping):
    if orig_input.ndim != 4 or orig_output.shape != out_backprop.shape:
        raise errors.invalid("orig_input must be 4-dimensional, and orig_output and out_backprop of one shape")
    batch, height, width, depth = orig_input.shape
    rows, _ = _regions(row_pooling_sequence, height, overlapping, "Row sequence tensor")
    cols, _ = _regions(col_pooling_sequence, width, overlapping, "Column sequence tensor")
    shape = (batch, rows.shape[0], cols.shape[0], depth)
    if tuple(out_backprop.shape) != shape:
        raise errors.invalid(f"out_backprop must have shape {list(shape)}, got {list(out_backprop.shape)}")
    cells = (rows[:, None, :, None] * width + cols[None, :, None, :]).flatten(2)      # [out rows, out cols, elements]
    flat = orig_input.reshape(batch, height * width, depth)
    best = flat[:, cells].argmax(3)
    where = cells[None, :, :, :, None].expand(batch, -1, -1, -1, depth).gather(3, best.unsqueeze(3)).squeeze(3)
    out = torch.zeros_like(flat).scatter_add_(1, where.flatten(1, 2), out_backprop.reshape(batch, -1, depth))
    return out.view(orig_input.shape)


@max_op.gradient
def _max_gradient(op, grad, *_):
    return max_grad(op.inputs[0], op.outputs[0], grad, op.outputs[1], op.outputs[2],
                    overlapping=op.attrs["overlapping"])


# -- mean ------------------------------------------------------------------------------------------------------------
def _mean(x: torch.Tensor, regions: list) -> torch.Tensor:
    total, count = x, x.new_ones(1)
    for axis, (index, real) in enumerate(regions, 1):
        shape = [1] * axis + list(real.shape) + [1] * (x.ndim - axis - 1)
        total = (_gathered(total, axis, index) * real.view(shape)).sum(axis + 1, dtype=x.dtype)
        count = count * real.sum(1).view(shape[:axis + 1] + shape[axis + 2:]).to(x.dtype)
    return total / count if x.is_floating_point() else torch.div(total, count, rounding_mode="trunc")


avg_op = _forward_op("FractionalAvgPool", _mean)
avg_grad = op("FractionalAvgPoolGrad", f"orig_input_tensor_shape: int64, out_backprop: T, {_SEQUENCES} -> output: T",
              f"overlapping: bool = False, {_T}")


@avg_grad.shape
def _avg_grad_shape(orig_input_tensor_shape, out_backprop, row_pooling_sequence, col_pooling_sequence, *, c):
    return shapes.rank_is(c.dims("orig_input_tensor_shape"), 4)


@avg_grad.kernel
def _avg_grad_kernel(orig_input_tensor_shape, out_backprop, row_pooling_sequence, col_pooling_sequence, *, overlapping):
    if orig_input_tensor_shape.shape != (4,) or out_backprop.ndim != 4:
        raise errors.invalid("original input tensor shape must be 1-dimensional and 4 elements, and out_backprop "
                             "4-dimensional")
    batch, height, width, depth = orig_input_tensor_shape.tolist()
    parts = []
    for axis, borders, size, name in ((1, row_pooling_sequence, height, "Row sequence tensor"),
                                      (2, col_pooling_sequence, width, "Column sequence tensor")):
        index, real = _regions(borders, size, overlapping, name)
        if index.shape[0] != out_backprop.shape[axis]:
            raise errors.invalid(f"The pooling sequence has {index.shape[0]} regions, but out_backprop has shape "
                                 f"{list(out_backprop.shape)}")
        parts.append((axis, size, index, real))
    if (batch, depth) != (out_backprop.shape[0], out_backprop.shape[3]):
        raise errors.invalid(f"out_backprop of shape {list(out_backprop.shape)} does not match an input of shape "
                             f"{[batch, height, width, depth]}")
    out = out_backprop
    for axis, size, index, real in reversed(parts):
        out = _spread(out, axis, size, index, real)
    return out


def _spread(grad: torch.Tensor, axis: int, size: int, index: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """Shares the gradient of each region among its elements, along one axis."""
    grad = grad.movedim(axis, 0)
    count = real.sum(1).view(-1, *[1] * (grad.ndim - 1))
    share = grad / count if grad.is_floating_point() else torch.div(grad, count, rounding_mode="trunc")
    out = share.new_zeros((size, *share.shape[1:]))
    rows = torch.arange(index.shape[0], device=index.device).unsqueeze(1).expand_as(index)
    return out.index_add_(0, index[real], share[rows[real]]).movedim(0, axis)


@avg_op.gradient
def _avg_gradient(op, grad, *_):
    return avg_grad(shape_of(op.inputs[0], dtypes.int64), grad, op.outputs[1], op.outputs[2],
                    overlapping=op.attrs["overlapping"])


# -- public functions ------------------------------------------------------------------------------------------------
def _seeded(pool: OpDef, value: Any, ratio: Any, pseudo_random: bool, overlapping: bool, seed: int,
            name: str | None) -> Any:
    seed1, seed2 = random_seed.get_seed(seed) if seed else (0, 0)
    return pool(value, pooling_ratio=sequence(ratio, 2, "NHWC", "pooling_ratio"), pseudo_random=pseudo_random,
                overlapping=overlapping, deterministic=bool(seed), seed=seed1, seed2=seed2, name=name)


@export(v1=["nn.fractional_max_pool"])
@dispatched
def fractional_max_pool(value: Any, pooling_ratio: Any, pseudo_random: bool = False, overlapping: bool = False,
                        deterministic: bool = False, seed: int = 0, seed2: int = 0, name: str | None = None) -> Any:
    """The maximum of random regions; returns the output and the borders of rows and columns."""
    return max_op(value, pooling_ratio=pooling_ratio, pseudo_random=pseudo_random, overlapping=overlapping,
                  deterministic=deterministic, seed=seed, seed2=seed2, name=name)


@export(v2=["nn.fractional_max_pool"])
@dispatched
def fractional_max_pool_v2(value: Any, pooling_ratio: Any, pseudo_random: bool = False, overlapping: bool = False,
                           seed: int = 0, name: str | None = None) -> Any:
    """The maximum of random regions; returns the output and the borders of rows and columns."""
    return _seeded(max_op, value, pooling_ratio, pseudo_random, overlapping, seed, name)


@export(v1=["nn.fractional_avg_pool"])
@dispatched
def fractional_avg_pool(value: Any, pooling_ratio: Any, pseudo_random: bool = False, overlapping: bool = False,
                        deterministic: bool = False, seed: int = 0, seed2: int = 0, name: str | None = None) -> Any:
    """The mean of random regions; returns the output and the borders of rows and columns."""
    return avg_op(value, pooling_ratio=pooling_ratio, pseudo_random=pseudo_random, overlapping=overlapping,
                  deterministic=deterministic, seed=seed, seed2=seed2, name=name)


@export(v2=["nn.fractional_avg_pool"])
@dispatched
def fractional_avg_pool_v2(value: Any, pooling_ratio: Any, pseudo_random: bool = False, overlapping: bool = False,
                           seed: int = 0, name: str | None = None) -> Tensor:
    """The mean of random regions; returns the output and the borders of rows and columns."""
    return _seeded(avg_op, value, pooling_ratio, pseudo_random, overlapping, seed, name)
