"""Resizing images: nearest, bilinear, bicubic, area, and scaled kernels (ScaleAndTranslate).

Every method but the nearest is separable: along each axis an output position is a weighted sum of a few input positions
(`taps`), or of a span (`spans`, as a matrix). The gradient is the transposed sum.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from penstock._src.base import errors, tracing
from penstock._src.base.static_shape import rank_is
from penstock._src.kernels import indexing, resizing
from penstock._src.ops.registry import get, op

_IMAGE = "T: type in {int8 uint8 int16 uint16 int32 int64 bfloat16 half float32 float64}"
_MAX = 1 << 31


def _resized(images: Any, size: Any, *, c: Any) -> Any:
    """The static shape [batch, new_height, new_width, channels]."""
    n, _, _, ch = rank_is(images, 4)
    new = c.const("size")
    if new is None:
        return (n, None, None, ch)
    if tuple(new.shape) != (2,):
        raise ValueError(f"Dimension must be 2 but is {tuple(new.shape)}")
    return (n, int(new[0]), int(new[1]), ch)


def _target(images: torch.Tensor, size: torch.Tensor) -> tuple[int, int]:
    if images.dim() != 4:
        raise errors.invalid(f"input must be 4-dimensional, got shape {list(images.shape)}")
    if size.numel() != 2:
        raise errors.invalid(f"shape_t must have two elements, got {size.numel()}")
    h, w = (int(v) for v in size)
    if h <= 0 or w <= 0:
        raise errors.invalid("output dimensions must be positive")
    if images.shape[1] <= 0 or images.shape[2] <= 0 or images.shape[3] <= 0:
        raise errors.invalid("Images to resize must not be empty")
    if images.shape[0] * h * w * images.shape[3] >= _MAX:
        raise errors.invalid(f"the resized image would have too many elements ({h} x {w})")
    return h, w


def scale(n_in: int, n_out: int, align_corners: bool) -> float:
    """Input steps per output step."""
    return (n_in - 1) / (n_out - 1) if align_corners and n_out > 1 else n_in / n_out


def positions(n_in: int, n_out: int, align: bool, half: bool) -> torch.Tensor:
    """The input coordinate of each output position."""
    s = torch.tensor(scale(n_in, n_out, align), dtype=torch.float32)
    i = torch.arange(n_out, dtype=torch.float32)
    return (i + 0.5) * s - 0.5 if half else i * s


Taps = tuple[torch.Tensor, torch.Tensor]          # indices and weights, both [n_out, taps]


@functools.lru_cache(256)
def bilinear_taps(n_in: int, n_out: int, align: bool, half: bool) -> Taps:
    """Two neighbours by distance."""
    x = positions(n_in, n_out, align, half)
    low = x.floor()
    index = torch.stack([low.clamp(min=0), (low + 1).clamp(max=n_in - 1)], 1).to(torch.int64)
    t = x - low
    return index.clamp(0, n_in - 1), torch.stack([1 - t, t], 1)


_TABLE = 1024


def _cubic(x: torch.Tensor, a: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys' kernel at distances x and x + 1."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    y = x + 1
    far = ((a * y - 5 * a) * y + 8 * a) * y - 4 * a
    return near, far


@functools.lru_cache(256)
def bicubic_taps(n_in: int, n_out: int, align: bool, half: bool) -> Taps:
    """Four neighbours; the distance is rounded to 1/1024, as TensorFlow's table does."""
    x = positions(n_in, n_out, align, half)
    low = x.floor()
    t = torch.round((x - low) * _TABLE) / _TABLE
    a = -0.5 if half else -0.75
    near, far = _cubic(t, a)
    near2, far2 = _cubic(1 - t, a)
    weights = torch.stack([far, near, near2, far2], 1)
    index = low.to(torch.int64)[:, None] + torch.arange(-1, 3)
    if half:                                     # neighbours outside of the image are ignored
        weights = weights * ((index >= 0) & (index < n_in))
        total = weights.sum(1, keepdim=True)
        weights = torch.where(total.abs() >= 1000 * torch.finfo(torch.float32).tiny, weights / total, weights)
    return index.clamp(0, n_in - 1), weights


@functools.lru_cache(64)
def area_matrix(n_in: int, n_out: int, align: bool, half: bool = False) -> torch.Tensor:
    """The mean over the input interval that each output pixel covers: [n_out, n_in]."""
    s = scale(n_in, n_out, align)
    start = torch.arange(n_out, dtype=torch.float64)[:, None] * s
    end = start + s
    pixel = torch.arange(n_in, dtype=torch.float64)[None]
    cover = (torch.minimum(end, pixel + 1) - torch.maximum(start, pixel)).clamp(min=0)
    beyond = (end - n_in).clamp(min=0)           # with align_corners the last interval may leave the image
    cover[:, -1:] += torch.where(start < n_in, beyond, torch.zeros_like(beyond)) if align else 0
    return (cover / s).to(torch.float32)


def apply_taps(x: torch.Tensor, axis: int, taps: Taps) -> torch.Tensor:
    """Weighted sums of slices of x along an axis."""
    index, weights = indexing.beside(taps[0], x), indexing.beside(taps[1].to(x.dtype), x)
    shape = [1] * x.dim()
    shape[axis] = -1
    out = None
    for k in range(index.shape[1]):
        part = x.index_select(axis, index[:, k]) * weights[:, k].reshape(shape)
        out = part if out is None else out.add_(part)
    return out  # type: ignore[return-value]


def spread_taps(g: torch.Tensor, axis: int, taps: Taps, n_in: int) -> torch.Tensor:
    """The transpose of apply_taps."""
    index, weights = indexing.beside(taps[0], g), indexing.beside(taps[1].to(g.dtype), g)
    shape = [1] * g.dim()
    shape[axis] = -1
    dims = list(g.shape)
    dims[axis] = n_in
    out = torch.zeros(dims, dtype=g.dtype, device=g.device)
    for k in range(index.shape[1]):
        out.index_add_(axis, index[:, k], g * weights[:, k].reshape(shape))
    return out


def apply_matrix(x: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """rows · x · columnsᵀ on the two middle axes."""
    n, h, w, ch = x.shape
    y = torch.matmul(indexing.beside(rows.to(x.dtype), x), x.reshape(n, h, w * ch)).reshape(n * rows.shape[0], w, ch)
    return torch.matmul(indexing.beside(columns.to(x.dtype), x), y).reshape(n, rows.shape[0], columns.shape[0], ch)


def _interpolated(x: torch.Tensor, h: int, w: int, align: bool) -> torch.Tensor:
    """ATen's bilinear resize, which reads channels-last images without a copy."""
    return torch.ops.aten.upsample_bilinear2d(x.permute(0, 3, 1, 2), (h, w), align).permute(0, 2, 3, 1).contiguous()


def _interpolated_back(g: torch.Tensor, h: int, w: int, align: bool) -> torch.Tensor:
    """The transpose of `_interpolated`."""
    n, _, _, ch = g.shape
    back = torch.ops.aten.upsample_bilinear2d_backward
    return back(g.permute(0, 3, 1, 2), list(g.shape[1:3]), [n, ch, h, w], align, None, None).permute(0, 2, 3, 1).contiguous()


def _declare(name: str, taps: Callable, trained: str, whole: tuple[Callable, Callable] | None = None) -> None:
    """A resize op by taps, and its gradient for images of the types `trained`.

    `whole` has faster kernels for both, which support aligned corners and half-pixel centers, but not TensorFlow 1's default
    coordinates.
    """
    corners = "align_corners: bool = False, half_pixel_centers: bool = False"
    forward = op(name, "images: T, size: int32 -> resized_images: float32", f"{_IMAGE}, {corners}")
    backward = op(f"{name}Grad", "grads: float32, original_image: T -> output: T",
                  f"T: type in {{{trained}}}, {corners}")
    forward.shape(_resized)
    backward.shape(lambda grads, original_image: original_image)

    @forward.kernel
    def _forward_kernel(images, size, *, align_corners, half_pixel_centers):
        h, w = _target(images, size)
        x = images if images.dtype is torch.uint8 else images.to(torch.float32)
        if (h, w) == tuple(images.shape[1:3]):
            return x.to(torch.float32)
        if resizing.fits(x):
            return resizing.resize(x, taps(images.shape[1], h, align_corners, half_pixel_centers),
                                   taps(images.shape[2], w, align_corners, half_pixel_centers))
        x = x.to(torch.float32)
        if whole is not None and align_corners != half_pixel_centers and x.numel():
            return whole[0](x, h, w, align_corners)
        x = apply_taps(x, 1, taps(images.shape[1], h, align_corners, half_pixel_centers))
        return apply_taps(x, 2, taps(images.shape[2], w, align_corners, half_pixel_centers))

    @backward.kernel
    def _backward_kernel(grads, original_image, *, align_corners, half_pixel_centers):
        if grads.dim() != 4 or original_image.dim() != 4 or 0 in grads.shape[1:3]:
            raise errors.invalid("resize gradients take 4-dimensional images")
        h, w = original_image.shape[1:3]
        if whole is not None and align_corners != half_pixel_centers and grads.numel() and original_image.numel():
            return whole[1](grads, h, w, align_corners).to(original_image.dtype)
        g = spread_taps(grads, 2, taps(w, grads.shape[2], align_corners, half_pixel_centers), w)
        g = spread_taps(g, 1, taps(h, grads.shape[1], align_corners, half_pixel_centers), h)
        return g.to(original_image.dtype)

    @forward.gradient
    def _forward_gradient(op, grad):
        if op.inputs[0].dtype.base_dtype not in (backward.attrs["T"].allowed or ()):
            return None, None
        return backward(grad, op.inputs[0], align_corners=op.attrs["align_corners"],
                        half_pixel_centers=op.attrs["half_pixel_centers"]), None

    @backward.gradient
    def _backward_gradient(op, grad):
        size = get("Shape")(op.inputs[0])[1:3]
        return forward(grad, size, align_corners=op.attrs["align_corners"],
                       half_pixel_centers=op.attrs["half_pixel_centers"]), None


_declare("ResizeBilinear", bilinear_taps, "float32 bfloat16 half float64", (_interpolated, _interpolated_back))
_declare("ResizeBicubic", bicubic_taps, "float32 float64")

resize_area = op("ResizeArea", "images: T, size: int32 -> resized_images: float32",
                 f"{_IMAGE}, align_corners: bool = False").no_gradient()
resize_area.shape(_resized)


@resize_area.kernel
def _resize_area_kernel(images, size, *, align_corners):
    h, w = _target(images, size)
    return apply_matrix(images.to(torch.float32), area_matrix(images.shape[1], h, align_corners),
                        area_matrix(images.shape[2], w, align_corners))


# -- nearest ------------------------------------------------------------------------------------------------------------
_CORNERS = "align_corners: bool = False, half_pixel_centers: bool = False"
nearest = op("ResizeNearestNeighbor", "images: T, size: int32 -> resized_images: T", f"{_IMAGE}, {_CORNERS}")
nearest_grad = op("ResizeNearestNeighborGrad", "grads: T, size: int32 -> output: T",
                  f"T: type in {{uint8 int8 int32 half float32 float64 bfloat16}}, {_CORNERS}")
nearest.shape(_resized)
nearest_grad.shape(lambda grads, size, *, c: _resized(grads, size, c=c))


def nearest_index(n_in: int, n_out: int, align: bool, half: bool) -> torch.Tensor:
    """The input position that each output position takes."""
    s = torch.tensor(scale(n_in, n_out, align), dtype=torch.float32)
    i = torch.arange(n_out, dtype=torch.float32)
    x = (i + 0.5) * s if half else i * s
    x = (x + 0.5).floor() if align else x.floor()
    return x.clamp(0, n_in - 1).to(torch.int64)


@functools.lru_cache(maxsize=256)
def _kept_index(n_in: int, n_out: int, align: bool, half: bool, device: torch.device) -> torch.Tensor:
    """`nearest_index` on a device: a CUDA graph cannot copy it there."""
    return nearest_index(n_in, n_out, align, half).to(device)


def _nearest(n_in: int, n_out: int, align: bool, half: bool, like: torch.Tensor) -> torch.Tensor:
    """`nearest_index` on the device of `like`; cached, except in a step that becomes a graph, which holds its own tensors."""
    if tracing.lowering():
        return indexing.beside(nearest_index(n_in, n_out, align, half), like)
    return _kept_index(n_in, n_out, align, half, like.device)


@nearest.kernel
def _nearest_kernel(images, size, *, align_corners, half_pixel_centers):
    h, w = _target(images, size)
    rows = _nearest(images.shape[1], h, align_corners, half_pixel_centers, images)
    columns = _nearest(images.shape[2], w, align_corners, half_pixel_centers, images)
    return images.index_select(1, rows).index_select(2, columns)


@nearest_grad.kernel
def _nearest_grad_kernel(grads, size, *, align_corners, half_pixel_centers):
    h, w = _target(grads, size)
    rows = _nearest(h, grads.shape[1], align_corners, half_pixel_centers, grads)
    columns = _nearest(w, grads.shape[2], align_corners, half_pixel_centers, grads)
    out = torch.zeros((grads.shape[0], h, grads.shape[2], grads.shape[3]), dtype=grads.dtype, device=grads.device)
    out.index_add_(1, rows, grads)
    wide = torch.zeros((grads.shape[0], h, w, grads.shape[3]), dtype=grads.dtype, device=grads.device)
    return wide.index_add_(2, columns, out)


@nearest.gradient
def _nearest_gradient(op, grad):
    dims = op.inputs[0].static_dims
    size = list(dims[1:3]) if dims is not None and None not in dims[1:3] else get("Shape")(op.inputs[0])[1:3]
    return nearest_grad(grad, size, align_corners=op.attrs["align_corners"],
                        half_pixel_centers=op.attrs["half_pixel_centers"]), None


@nearest_grad.gradient
def _nearest_grad_gradient(op, grad):
    return nearest(grad, get("Shape")(op.inputs[0])[1:3], align_corners=op.attrs["align_corners"],
                   half_pixel_centers=op.attrs["half_pixel_centers"]), None


# -- scaled kernels ------------------------------------------------------------------------------------------------------
def _lanczos(radius: float) -> Callable:
    def f(x: torch.Tensor) -> torch.Tensor:
        x = x.abs()
        y = torch.sinc(x) * torch.sinc(x / radius)
        return torch.where(x > radius, torch.zeros_like(y), y)
    return f


def _gaussian(x: torch.Tensor) -> torch.Tensor:
    x = x.abs()
    return torch.where(x >= 1.5, torch.zeros_like(x), torch.exp(-x * x / (2 * 0.5 * 0.5)))


def _box(x: torch.Tensor) -> torch.Tensor:
    x = x.abs()
    return (x < 0.5).to(x) + 0.5 * (x == 0.5).to(x)


def _mitchell(x: torch.Tensor) -> torch.Tensor:
    x = x.abs()
    near = (7 / 6 * x - 2) * x * x + 8 / 9
    far = ((-7 / 18 * x + 2) * x - 10 / 3) * x + 16 / 9
    return torch.where(x >= 2, torch.zeros_like(x), torch.where(x >= 1, far, near))


def _keys(x: torch.Tensor) -> torch.Tensor:
    x = x.abs()
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return torch.where(x >= 2, torch.zeros_like(x), torch.where(x >= 1, far, near))


KERNELS: dict[str, tuple[float, Callable]] = {
    "lanczos1": (1, _lanczos(1)), "lanczos3": (3, _lanczos(3)), "lanczos5": (5, _lanczos(5)),
    "gaussian": (1.5, _gaussian), "box": (0.5, _box), "triangle": (1, lambda x: (1 - x.abs()).clamp(min=0)),
    "keyscubic": (2, _keys), "mitchellcubic": (2, _mitchell)}


def span_matrix(n_in: int, n_out: int, factor: float, shift: float, kind: str, antialias: bool) -> torch.Tensor:
    """The weights of a scaled, shifted kernel, each row normalised: [n_out, n_in]."""
    if kind not in KERNELS:
        raise errors.invalid(f"Unrecognized kernel type: {kind}. Known: {', '.join(sorted(KERNELS))}")
    if not factor > 0 or not math.isfinite(factor):
        raise errors.invalid("Scale must be greater than zero.")
    radius, kernel = KERNELS[kind]
    inverse = 1.0 / factor
    width = max(inverse, 1.0) if antialias else 1.0
    centre = (torch.arange(n_out, dtype=torch.float64)[:, None] + 0.5) * inverse - inverse * shift
    pixel = torch.arange(n_in, dtype=torch.float64)[None] + 0.5
    weights = kernel((pixel - centre) / width)
    inside = (pixel - 0.5 >= torch.ceil(centre - radius * width - 0.5)) & (
        pixel - 0.5 <= torch.floor(centre + radius * width - 0.5))
    weights = weights * inside
    total = weights.sum(1, keepdim=True)
    weights = torch.where(total.abs() >= 1000 * torch.finfo(torch.float32).tiny, weights / total, weights)
    return (weights * ((centre >= 0) & (centre <= n_in))).to(torch.float32)


_SPAN = "kernel_type: string = 'lanczos3', antialias: bool = True"
scale_and_translate = op("ScaleAndTranslate", "images: T, size: int32, scale: float32, translation: float32 -> "
                         "resized_images: float32", f"{_IMAGE}, {_SPAN}")
scale_and_translate_grad = op("ScaleAndTranslateGrad", "grads: T, original_image: T, scale: float32, translation: float32 -> "
                              "output: T", f"T: type in {{float32}}, {_SPAN}").no_gradient()
scale_and_translate.shape(lambda images, size, scale, translation, *, c: _resized(images, size, c=c))
scale_and_translate_grad.shape(lambda grads, original_image, scale, translation: original_image)


def _matrices(h: int, w: int, oh: int, ow: int, scale: Any, translation: Any, kind: str, antialias: bool) -> tuple:
    if scale.numel() != 2 or translation.numel() != 2:
        raise errors.invalid("scale and translation must have two elements")
    (sy, sx), (ty, tx) = scale.tolist(), translation.tolist()
    return span_matrix(h, oh, sy, ty, kind, antialias), span_matrix(w, ow, sx, tx, kind, antialias)


@scale_and_translate.kernel
def _scale_and_translate_kernel(images, size, scale, translation, *, kernel_type, antialias):
    h, w = _target(images, size)
    return apply_matrix(images.to(torch.float32), *_matrices(images.shape[1], images.shape[2], h, w, scale, translation,
                                                             kernel_type, antialias))


@scale_and_translate_grad.kernel
def _scale_and_translate_grad_kernel(grads, original_image, scale, translation, *, kernel_type, antialias):
    rows, columns = _matrices(original_image.shape[1], original_image.shape[2], grads.shape[1], grads.shape[2], scale,
                              translation, kernel_type, antialias)
    return apply_matrix(grads, rows.T, columns.T)


@scale_and_translate.gradient
def _scale_and_translate_gradient(op, grad):
    image = op.inputs[0]
    if image.dtype.name != "float32":
        return None, None, None, None
    return scale_and_translate_grad(grad, image, op.inputs[2], op.inputs[3], kernel_type=op.attrs["kernel_type"],
                                    antialias=op.attrs["antialias"]), None, None, None
