"""Patches of images and volumes laid out in the depth of a smaller image."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import Dims, rank_is
from penstock._src.graph.node import Tensor
from penstock._src.kernels import arrays
from penstock._src.ops.array.array import known, reshape_op
from penstock._src.ops.composite import dispatched
from penstock._src.ops.nn.windows import checked, output_size, pads_of
from penstock._src.ops.registry import get, op

_TYPES = "T: type in {real bool complex}"

image_patches_op = op("ExtractImagePatches", "images: T -> patches: T",
                      "ksizes: list(int) >= 4, strides: list(int) >= 4, rates: list(int) >= 4, " + _TYPES
                      + ", padding: string in {SAME VALID}")
volume_patches_op = op("ExtractVolumePatches", "input: T -> patches: T",
                       "ksizes: list(int) >= 5, strides: list(int) >= 5, " + _TYPES
                       + ", padding: string in {SAME VALID}", export_as="extract_volume_patches",
                       doc="Patches of volumes, `strides` apart, laid out in the depth of the result.")


def _inner(values: Sequence[int], rank: int, what: str) -> tuple[int, ...]:
    """The spatial part of an attribute with one entry per axis."""
    if len(values) != rank:
        raise ValueError(f"the {what} attribute must contain {rank} values, but got: {len(values)}")
    if values[0] != 1 or values[-1] != 1:
        raise ValueError(f"{what} must be 1 along batch and depth: {list(values)}")
    if min(values) < 1:
        raise ValueError(f"{what} must be positive: {list(values)}")
    return tuple(values[1:-1])


def _geometry(rank: int, ksizes: list, strides: list, rates: list) -> tuple:
    return _inner(ksizes, rank, "ksizes"), _inner(strides, rank, "strides"), _inner(rates, rank, "rates")


def _patches_shape(dims: Dims, rank: int, ksizes: list, strides: list, rates: list, padding: str) -> Dims:
    dims = rank_is(dims, rank)
    k, s, r = _geometry(rank, ksizes, strides, rates)
    space = [output_size(*axis[:3], padding, (0, 0), axis[3]) for axis in zip(dims[1:-1], k, s, r, strict=True)]
    return (dims[0], *space, None if dims[-1] is None else dims[-1] * math.prod(k))


image_patches_op.shape(lambda images, *, ksizes, strides, rates, padding: _patches_shape(
    images, 4, ksizes, strides, rates, padding))
volume_patches_op.shape(lambda input, *, ksizes, strides, padding: _patches_shape(
    input, 5, ksizes, strides, [1] * 5, padding))


def _patches(x: torch.Tensor, rank: int, ksizes: list, strides: list, rates: list, padding: str) -> torch.Tensor:
    """Windows as a strided view of the padded image, copied out once."""
    if x.dim() != rank:
        raise errors.invalid(f"input must be {rank}-dimensional: {arrays.show(x.shape)}")
    k, s, r = checked(_geometry, rank, ksizes, strides, rates)
    axes = list(zip(x.shape[1:-1], k, s, r, strict=True))
    counts = [checked(output_size, n, w, step, padding, (0, 0), rate) for n, w, step, rate in axes]
    if x.shape[0] * x.shape[-1] * math.prod(counts) * math.prod(k) >= 2 ** 63:
        raise errors.invalid(f"Output size would overflow: {math.prod(k)} elements of each channel in {math.prod(counts)} "
                             "patches")
    if not x.numel() or not math.prod(counts):
        return x.new_zeros((x.shape[0], *counts, x.shape[-1] * math.prod(k)))
    pads = [p for n, w, step, rate in reversed(axes) for p in pads_of(n, w, step, padding, (0, 0), rate)]
    x = torch.nn.functional.pad(x, [0, 0, *pads]).contiguous()
    jump = x.stride()
    steps = [j * step for j, step in zip(jump[1:-1], s, strict=True)]
    within = [j * rate for j, rate in zip(jump[1:-1], r, strict=True)]
    view = x.as_strided((x.shape[0], *counts, *k, x.shape[-1]), (jump[0], *steps, *within, jump[-1]))
    return view.reshape(x.shape[0], *counts, math.prod(k) * x.shape[-1])


image_patches_op.kernel(lambda images, *, ksizes, strides, rates, padding: _patches(
    images, 4, ksizes, strides, rates, padding))
volume_patches_op.kernel(lambda input, *, ksizes, strides, padding: _patches(
    input, 5, ksizes, strides, [1] * 5, padding))


def _patches_gradient(x: Tensor, grad: Tensor, patches: Any) -> Tensor:
    """Each element of a patch is added to the pixel it came from; patches of pixel indices determine which one."""
    if known(x.static_dims):
        batch, *space, depth = x.static_dims
        pixels: Any = math.prod(space)
        numbers: Any = np.arange(1, pixels + 1, dtype=np.int32).reshape(1, *space, 1)
    else:
        shape = get("Shape")(x)
        batch, *space, depth = [shape[i] for i in range(grad.ndim or 0)]
        pixels = get("Prod")(shape[1:-1], [0])
        numbers = reshape_op(get("Range")(1, pixels + 1, 1), get("Pack")([1, *space, 1]))
    source = reshape_op(patches(numbers) - 1, [-1])               # -1: padding, which is dropped
    each = reshape_op(grad, _shape([batch, -1, depth]))
    each = reshape_op(get("Transpose")(each, [1, 0, 2]), _shape([-1, _times(batch, depth)]))
    total = get("UnsortedSegmentSum")(each, source, pixels)
    total = get("Transpose")(reshape_op(total, _shape([pixels, batch, depth])), [1, 0, 2])
    return reshape_op(total, _shape([batch, *space, depth]))


def _times(a: Any, b: Any) -> Any:
    return a * b if not isinstance(a, Tensor) and not isinstance(b, Tensor) else get("Mul")(a, b)


def _shape(sizes: list) -> Any:
    return get("Pack")(sizes) if any(isinstance(s, Tensor) for s in sizes) else np.array(sizes, np.int32)


@image_patches_op.gradient
def _image_patches_gradient(op, grad):
    attrs = {n: op.attrs[n] for n in ("ksizes", "strides", "rates", "padding")}
    return _patches_gradient(op.inputs[0], grad, lambda x: image_patches_op(x, **attrs))


@volume_patches_op.gradient
def _volume_patches_gradient(op, grad):
    attrs = {n: op.attrs[n] for n in ("ksizes", "strides", "padding")}
    return _patches_gradient(op.inputs[0], grad, lambda x: volume_patches_op(x, **attrs))


@export(v1=["image.extract_image_patches", "extract_image_patches"])
@dispatched
def extract_image_patches(images: Any, ksizes: Any = None, strides: Any = None, rates: Any = None,
                          padding: Any = None, name: str | None = None, sizes: Any = None) -> Tensor:
    """Patches of images, `strides` apart, laid out in the depth of the result."""
    if ksizes is not None and sizes is not None:
        raise ValueError("Cannot specify both 'sizes' and 'ksizes'")
    return image_patches_op(images, ksizes=ksizes if sizes is None else sizes, strides=strides, rates=rates,
                            padding=padding, name=name)


@export("image.extract_patches")
@dispatched
def extract_patches(images: Any, sizes: Any, strides: Any, rates: Any, padding: Any,
                    name: str | None = None) -> Tensor:
    """Patches of images, `strides` apart, laid out in the depth of the result.

    Args:
        images: Images [batch, height, width, channels].
        sizes: The size of a patch, as [1, height, width, 1].
        strides: How far apart patches begin, as [1, height, width, 1].
        rates: How far apart the pixels of a patch are, as [1, height, width, 1].
        padding: `"VALID"` or `"SAME"`, which pads with zeros.
        name: A name for the op.

    Returns:
        [batch, rows, columns, height * width * channels of a patch].

    >>> images = tf.reshape(tf.range(16), [1, 4, 4, 1])
    >>> tf.image.extract_patches(images, [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID")[0, 0, 1].numpy().tolist()
    [2, 3, 6, 7]
    """
    return image_patches_op(images, ksizes=sizes, strides=strides, rates=rates, padding=padding, name=name)
