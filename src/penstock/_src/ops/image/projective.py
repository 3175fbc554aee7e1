"""Images under projective maps: ImageProjectiveTransformV2 and V3.

A map [a0, a1, a2, b0, b1, b2, c0, c1] takes a point (x, y) of the output to ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k)
of the input, with k = c0 x + c1 y + 1. `fill_mode` says what is outside of the input: a value, the nearest pixel, the image
repeated, or the image repeated and mirrored.
"""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.base.static_shape import rank_is
from penstock._src.base.text import shown_text
from penstock._src.ops.registry import get, op

_TYPES = ("dtype: type in {uint8 int32 int64 half bfloat16 float32 float64}, interpolation: string, "
          "fill_mode: string = 'CONSTANT'")
_INPUTS = "images: dtype, transforms: float32, output_shape: int32"
_MODES = ("CONSTANT", "NEAREST", "REFLECT", "WRAP")
_LARGEST = 1 << 31

transform_v2 = op("ImageProjectiveTransformV2", f"{_INPUTS} -> transformed_images: dtype", _TYPES, host="output_shape")
transform_v3 = op("ImageProjectiveTransformV3", f"{_INPUTS}, fill_value: float32 -> transformed_images: dtype", _TYPES,
                  host="output_shape fill_value")


@transform_v2.shape
def _shape(images, transforms, output_shape, *, c):
    n, _, _, channels = rank_is(images, 4)
    rank_is(transforms, 2)
    size = c.const("output_shape")
    height, width = (None, None) if size is None else (int(v) for v in size)
    return (n, height, width, channels)


@transform_v3.shape
def _shape_v3(images, transforms, output_shape, fill_value, *, c):
    return _shape(images, transforms, output_shape, c=c)


@transform_v2.kernel
def _kernel(images, transforms, output_shape, *, interpolation, fill_mode):
    return _transformed(images, transforms, output_shape, 0.0, interpolation, fill_mode)


@transform_v3.kernel
def _kernel_v3(images, transforms, output_shape, fill_value, *, interpolation, fill_mode):
    if fill_value.dim():
        raise errors.invalid(f"fill_value must be a scalar, got shape {list(fill_value.shape)}")
    return _transformed(images, transforms, output_shape, float(fill_value), interpolation, fill_mode)


def _text(value: Any) -> str:
    return shown_text(value).upper()


def _transformed(images: torch.Tensor, maps: torch.Tensor, size: torch.Tensor, fill: float, interpolation: Any,
                 fill_mode: Any) -> torch.Tensor:
    if images.dim() != 4:
        raise errors.invalid(f"input images must have rank 4, got shape {list(images.shape)}")
    count = images.shape[0]
    if maps.dim() != 2 or maps.shape[1] != 8 or maps.shape[0] not in (1, count):
        raise errors.invalid(f"Input transform should be num_images x 8 or 1 x 8, got shape {list(maps.shape)}")
    if size.numel() != 2:
        raise errors.invalid(f"output shape must be 1-dimensional with two elements, got {list(size.shape)}")
    height, width = (int(v) for v in size.flatten())
    if height <= 0 or width <= 0 or count * height * width * images.shape[3] >= _LARGEST:
        raise errors.invalid(f"new dimensions must be positive, and not too large: {height} x {width}")
    mode, how = _text(fill_mode), _text(interpolation)
    if mode not in _MODES or how not in ("NEAREST", "BILINEAR"):
        raise errors.invalid(f"Invalid mode: {mode!r} is one of {_MODES}, the interpolation {how!r} NEAREST or BILINEAR")
    if not images.shape[1] or not images.shape[2]:
        return torch.full((count, height, width, images.shape[3]), fill, device=images.device).to(images.dtype)
    x, y = _points(maps, height, width)
    x, inside_x = _folded(x, images.shape[2], mode)
    y, inside_y = _folded(y, images.shape[1], mode)
    sample = _nearest if how == "NEAREST" else _bilinear
    out = sample(images, x, y, fill)
    known = (inside_x & inside_y).unsqueeze(-1)
    return out.masked_fill(~known, fill).to(images.dtype)


def _points(maps: torch.Tensor, height: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The places in the input of all output pixels, [n, height, width]; not a number where the map has none."""
    ys = torch.arange(height, dtype=torch.float32, device=maps.device)[:, None]
    xs = torch.arange(width, dtype=torch.float32, device=maps.device)[None, :]
    a0, a1, a2, b0, b1, b2, c0, c1 = (maps[:, i, None, None] for i in range(8))
    k = c0 * xs + c1 * ys + 1
    k = torch.where(k == 0, torch.nan, k)
    return (a0 * xs + a1 * ys + a2) / k, (b0 * xs + b1 * ys + b2) / k


def _folded(at: torch.Tensor, size: int, mode: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Coordinates mapped into the image by the mode, and which of them are valid."""
    known = torch.isfinite(at)
    at = torch.where(known, at, 0.0)
    if mode == "REFLECT":
        period = 2.0 * size
        at = torch.remainder(at + 0.5, period)
        at = torch.where(at < size, at, period - at) - 0.5
    elif mode == "WRAP":                                   # moved by whole images, counted in steps between pixels
        steps = max(size - 1, 1)
        below, above = torch.trunc(-at / steps) + 1, torch.trunc(at / steps)
        at = torch.where(at < 0, at + size * below, torch.where(at > size - 1, at - size * above, at))
    if mode != "CONSTANT":
        at = at.clamp(0, size - 1)
    return at, known


def _pixels(images: torch.Tensor, x: torch.Tensor, y: torch.Tensor, fill: float) -> torch.Tensor:
    """The pixels at whole coordinates, [n, height, width, channels]; `fill` outside."""
    n, rows, columns, _ = images.shape
    inside = (x >= 0) & (x < columns) & (y >= 0) & (y < rows)
    ix, iy = (v.clamp(0, limit - 1).to(torch.int64) for v, limit in ((x, columns), (y, rows)))
    which = torch.arange(n, device=images.device)[:, None, None].expand(n, *x.shape[1:])
    found = images[which, iy.expand_as(which), ix.expand_as(which)].to(torch.float64 if images.dtype == torch.float64
                                                                       or not images.is_floating_point() else torch.float32)
    return torch.where(inside.expand_as(which).unsqueeze(-1), found, fill)


def _nearest(images: torch.Tensor, x: torch.Tensor, y: torch.Tensor, fill: float) -> torch.Tensor:
    """Halves are rounded away from zero."""
    x, y = (torch.copysign(torch.floor(v.abs() + 0.5), v) for v in (x, y))
    return _pixels(images, x, y, fill)


def _bilinear(images: torch.Tensor, x: torch.Tensor, y: torch.Tensor, fill: float) -> torch.Tensor:
    x0, y0 = torch.floor(x), torch.floor(y)
    out: Any = 0.0
    for dy in (0, 1):
        for dx in (0, 1):
            weight = (1 - (x - x0 - dx).abs()) * (1 - (y - y0 - dy).abs())
            out = out + weight.unsqueeze(-1) * _pixels(images, x0 + dx, y0 + dy, fill)
    return out


def _matrices(maps: Any) -> Any:
    ones = get("OnesLike")(get("StridedSlice")(maps, [0, 0], [0, 1], [1, 1], begin_mask=3, end_mask=1))
    return get("Reshape")(get("ConcatV2")([maps, ones], 1), [-1, 3, 3])


def _inverted(maps: Any) -> Any:
    """The inverse maps, scaled so that their last number is one."""
    inverse = get("Reshape")(get("MatrixInverse")(_matrices(maps)), [-1, 9])
    scaled = inverse / get("StridedSlice")(inverse, [0, 8], [0, 9], [1, 1], begin_mask=1, end_mask=1)
    return get("StridedSlice")(scaled, [0, 0], [0, 8], [1, 1], begin_mask=3, end_mask=1)


def _gradient(op, grad, *more):
    """The gradient images, under the inverse maps: exact for maps that move pixels onto pixels."""
    images, maps = op.inputs[0], op.inputs[1]
    size = get("StridedSlice")(get("Shape")(images), [1], [3], [1])
    back = transform_v2(grad, _inverted(maps), size, interpolation=op.get_attr("interpolation"),
                        fill_mode=op.get_attr("fill_mode"))
    return [back, None, None, *more]


transform_v2.gradient(_gradient)
transform_v3.gradient(lambda op, grad: _gradient(op, grad, None))
