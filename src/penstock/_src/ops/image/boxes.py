"""Boxes in images: suppression of overlaps, drawing, crops, glimpses, random crops."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.base.static_shape import rank_is
from penstock._src.ops.registry import get, op

# -- non-max suppression ---------------------------------------------------------------------------------------------------
_T = "T: type in {half float32} = float32"
_TH = f"{_T}, T_threshold: type in {{half float32}} = float32"
nms_v1 = op("NonMaxSuppression", "boxes: float32, scores: float32, max_output_size: int32 -> selected_indices: int32",
            "iou_threshold: float = 0.5").no_gradient()
nms_v2 = op("NonMaxSuppressionV2", "boxes: T, scores: T, max_output_size: int32, iou_threshold: T_threshold -> "
            "selected_indices: int32", _TH).no_gradient()
nms_v3 = op("NonMaxSuppressionV3", "boxes: T, scores: T, max_output_size: int32, iou_threshold: T_threshold, "
            "score_threshold: T_threshold -> selected_indices: int32", _TH).no_gradient()
nms_v4 = op("NonMaxSuppressionV4", "boxes: T, scores: T, max_output_size: int32, iou_threshold: T_threshold, "
            "score_threshold: T_threshold -> selected_indices: int32, valid_outputs: int32",
            f"{_TH}, pad_to_max_output_size: bool = False").no_gradient()
nms_v5 = op("NonMaxSuppressionV5", "boxes: T, scores: T, max_output_size: int32, iou_threshold: T, score_threshold: T, "
            "soft_nms_sigma: T -> selected_indices: int32, selected_scores: T, valid_outputs: int32",
            f"{_T}, pad_to_max_output_size: bool = False").no_gradient()
nms_overlaps = op("NonMaxSuppressionWithOverlaps", "overlaps: float32, scores: float32, max_output_size: int32, "
                  "overlap_threshold: float32, score_threshold: float32 -> selected_indices: int32").no_gradient()


def _selected(boxes: Any, scores: Any, *rest: Any) -> tuple:
    """Checks boxes [n, 4] and scores [n]; the number selected is known only when it runs."""
    boxes, scores = rank_is(boxes, 2), rank_is(scores, 1)
    if boxes[1] not in (4, None):
        raise ValueError(f"Dimension must be 4 but is {boxes[1]}")
    if None not in (boxes[0], scores[0]) and boxes[0] != scores[0]:
        raise ValueError(f"Dimensions must be equal, but are {boxes[0]} and {scores[0]}")
    for r in rest:
        rank_is(r, 0)
    return (None,)


for _op in (nms_v1, nms_v2, nms_v3):
    _op.shape(_selected)


def _padded(count: Any, pad: bool) -> tuple:
    return (int(count),) if pad and count is not None else (None,)


@nms_v4.shape
def _nms_v4_shape(boxes, scores, max_output_size, iou_threshold, score_threshold, *, pad_to_max_output_size, c):
    _selected(boxes, scores, max_output_size, iou_threshold, score_threshold)
    return [_padded(c.const("max_output_size"), pad_to_max_output_size), ()]


@nms_v5.shape
def _nms_v5_shape(boxes, scores, max_output_size, iou_threshold, score_threshold, soft_nms_sigma, *, pad_to_max_output_size, c):
    _selected(boxes, scores, max_output_size, iou_threshold, score_threshold, soft_nms_sigma)
    n = _padded(c.const("max_output_size"), pad_to_max_output_size)
    return [n, n, ()]


nms_overlaps.shape(lambda overlaps, scores, max_output_size, overlap_threshold, score_threshold: (None,))


def iou(boxes: torch.Tensor) -> torch.Tensor:
    """Intersection over union of every pair of boxes [y1, x1, y2, x2], corners in any order."""
    low, high = torch.minimum(boxes[:, :2], boxes[:, 2:]), torch.maximum(boxes[:, :2], boxes[:, 2:])
    area = (high - low).prod(1)
    sides = (torch.minimum(high[:, None], high[None]) - torch.maximum(low[:, None], low[None])).clamp(min=0)
    inter = sides.prod(2)
    union = area[:, None] + area[None] - inter
    valid = (area[:, None] > 0) & (area[None] > 0)
    return torch.where(valid, inter / torch.where(union > 0, union, torch.ones_like(union)), torch.zeros_like(inter))


def _check(boxes: torch.Tensor, scores: torch.Tensor, limit: torch.Tensor, threshold: float) -> int:
    if boxes.dim() != 2 or boxes.shape[1] != 4:
        raise errors.invalid(f"boxes must have shape [n, 4], got {list(boxes.shape)}")
    if scores.dim() != 1 or scores.shape[0] != boxes.shape[0]:
        raise errors.invalid(f"scores has incompatible shape {list(scores.shape)}")
    if limit.numel() != 1 or int(limit) < 0:
        raise errors.invalid("max_output_size must be a non-negative scalar")
    if not 0 <= threshold <= 1:
        raise errors.invalid("iou_threshold must be in [0, 1]")
    return int(limit)


def select(overlap: torch.Tensor, scores: torch.Tensor, limit: int, threshold: float, least: float,
           sigma: float = 0.0) -> tuple[list[int], list[float]]:
    """Greedy selection by score; with sigma > 0 the scores of overlapping boxes decay instead of being removed.

    One pass over the candidates per choice, each a vector operation.
    """
    alive = scores.to(torch.float64).clone()
    alive[alive <= least] = -torch.inf
    chosen: list[int] = []
    values: list[float] = []
    overlap = overlap.to(torch.float64)
    while len(chosen) < limit and alive.numel():
        best = int(alive.argmax())
        if alive[best] == -torch.inf:
            break
        chosen.append(best)
        values.append(float(alive[best]))
        row = overlap[best]
        if sigma > 0:
            alive = alive * torch.exp(-0.5 / sigma * row * row)
            alive = torch.where(alive <= least, -torch.inf, alive)
        alive = torch.where(row > threshold, -torch.inf, alive) if sigma <= 0 else alive
        alive[best] = -torch.inf
    return chosen, values


def _plain(boxes: Any, scores: Any, limit: Any, threshold: float, least: float = -torch.inf, sigma: float = 0.0) -> tuple:
    n = _check(boxes, scores, limit, threshold)
    return select(iou(boxes.to(torch.float32)), scores, n, threshold, least, sigma)


def _ints(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


nms_v1.kernel(lambda boxes, scores, max_output_size, *, iou_threshold:
              _ints(_plain(boxes, scores, max_output_size, iou_threshold)[0]))
nms_v2.kernel(lambda boxes, scores, max_output_size, iou_threshold:
              _ints(_plain(boxes, scores, max_output_size, float(iou_threshold))[0]))
nms_v3.kernel(lambda boxes, scores, max_output_size, iou_threshold, score_threshold:
              _ints(_plain(boxes, scores, max_output_size, float(iou_threshold), float(score_threshold))[0]))


def _missing(n: int, max_output_size: torch.Tensor) -> int:
    """How many zeros fill up n selected boxes."""
    size = int(max_output_size)
    if size > _MAX_PADDED:
        raise errors.ResourceExhaustedError(None, None, f"max_output_size is too large to pad to: {size}")
    return size - n


_MAX_PADDED = 1 << 28


@nms_v4.kernel
def _nms_v4_kernel(boxes, scores, max_output_size, iou_threshold, score_threshold, *, pad_to_max_output_size):
    chosen, _ = _plain(boxes, scores, max_output_size, float(iou_threshold), float(score_threshold))
    n = len(chosen)
    short = _missing(n, max_output_size) if pad_to_max_output_size else 0
    return torch.constant_pad_nd(_ints(chosen), [0, short]), torch.tensor(n, dtype=torch.int32)


@nms_v5.kernel
def _nms_v5_kernel(boxes, scores, max_output_size, iou_threshold, score_threshold, soft_nms_sigma, *, pad_to_max_output_size):
    sigma = float(soft_nms_sigma)
    if sigma < 0:
        raise errors.invalid("soft_nms_sigma must be non-negative")
    chosen, values = _plain(boxes, scores, max_output_size, float(iou_threshold), float(score_threshold), sigma)
    n = len(chosen)
    short = _missing(n, max_output_size) if pad_to_max_output_size else 0
    return torch.constant_pad_nd(_ints(chosen), [0, short]), torch.constant_pad_nd(
        torch.tensor(values, dtype=scores.dtype), [0, short]), torch.tensor(n, dtype=torch.int32)


@nms_overlaps.kernel
def _nms_overlaps_kernel(overlaps, scores, max_output_size, overlap_threshold, score_threshold):
    if overlaps.dim() != 2 or overlaps.shape[0] != overlaps.shape[1]:
        raise errors.invalid("overlaps must be square")
    if scores.dim() != 1 or scores.shape[0] != overlaps.shape[0]:
        raise errors.invalid("scores has incompatible shape")
    return _ints(select(overlaps, scores, max(0, int(max_output_size)), float(overlap_threshold),
                        float(score_threshold))[0])


combined = op("CombinedNonMaxSuppression", "boxes: float32, scores: float32, max_output_size_per_class: int32, "
              "max_total_size: int32, iou_threshold: float32, score_threshold: float32 -> nmsed_boxes: float32, "
              "nmsed_scores: float32, nmsed_classes: float32, valid_detections: int32",
              "pad_per_class: bool = False, clip_boxes: bool = True").no_gradient()


@combined.shape
def _combined_shape(boxes, scores, max_output_size_per_class, max_total_size, iou_threshold, score_threshold):
    n = rank_is(boxes, 4)[0]
    return [(n, None, 4), (n, None), (n, None), (n,)]


@combined.kernel
def _combined_kernel(boxes, scores, max_output_size_per_class, max_total_size, iou_threshold, score_threshold, *,
                     pad_per_class, clip_boxes):
    if boxes.dim() != 4 or boxes.shape[3] != 4 or scores.dim() != 3 or boxes.shape[:2] != scores.shape[:2]:
        raise errors.invalid(f"boxes [b, n, q, 4] and scores [b, n, c] do not match: {list(boxes.shape)}, {list(scores.shape)}")
    classes, per_class, total = scores.shape[2], int(max_output_size_per_class), int(max_total_size)
    if boxes.shape[2] not in (1, classes):
        raise errors.invalid("boxes must have 1 or num_classes entries per anchor")
    if total <= 0 or per_class <= 0:
        raise errors.invalid("max_total_size and max_output_size_per_class must be positive")
    size = min(total, per_class * classes) if pad_per_class else total
    out = [_combined_image(b, s, per_class, size, float(iou_threshold), float(score_threshold), clip_boxes)
           for b, s in zip(boxes, scores, strict=True)]
    if not out:
        return (torch.zeros(0, size, 4), torch.zeros(0, size), torch.zeros(0, size), torch.zeros(0, dtype=torch.int32))
    return tuple(torch.stack(part) for part in zip(*out, strict=True))


def _combined_image(boxes: Any, scores: Any, per_class: int, size: int, threshold: float, least: float, clip: bool) -> tuple:
    found: list[tuple[float, int, int]] = []
    for c in range(scores.shape[1]):
        mine = boxes[:, min(c, boxes.shape[1] - 1)]
        chosen, values = select(iou(mine), scores[:, c], per_class, threshold, least)
        found.extend((v, c, i) for i, v in zip(chosen, values, strict=True))
    found.sort(key=lambda t: -t[0])
    found = found[:size]
    b = torch.zeros(size, 4)
    s, k = torch.zeros(size), torch.zeros(size)
    for row, (v, c, i) in enumerate(found):
        b[row] = boxes[i, min(c, boxes.shape[1] - 1)]
        s[row], k[row] = v, c
    return b.clamp(0, 1) if clip else b, s, k, torch.tensor(len(found), dtype=torch.int32)


# -- drawing -------------------------------------------------------------------------------------------------------------
draw_v1 = op("DrawBoundingBoxes", "images: T, boxes: float32 -> output: T", "T: type in {float32 half} = float32").no_gradient()
draw_v2 = op("DrawBoundingBoxesV2", "images: T, boxes: float32, colors: float32 -> output: T",
             "T: type in {float32 half} = float32").no_gradient()
draw_v1.shape(lambda images, boxes: rank_is(images, 4))
draw_v2.shape(lambda images, boxes, colors: rank_is(images, 4))
_COLOURS = [[1, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1], [0.5, 0, 0.5, 1], [0.5, 0.5, 0, 1], [0.5, 0, 0, 1],
            [0, 0, 0.5, 1], [0, 1, 1, 1], [1, 0, 1, 1]]


def _draw(images: torch.Tensor, boxes: torch.Tensor, colours: torch.Tensor) -> torch.Tensor:
    if images.dim() != 4 or images.shape[3] not in (1, 3, 4):
        raise errors.invalid(f"Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA), got shape {list(images.shape)}")
    if boxes.dim() != 3 or boxes.shape[0] != images.shape[0] or boxes.shape[2] != 4:
        raise errors.invalid(f"boxes must have shape [batch, n, 4], got {list(boxes.shape)}")
    if colours.dim() != 2 or colours.shape[0] == 0 or colours.shape[1] < images.shape[3]:
        raise errors.invalid("colors must have shape [n, at least the image's channels]")
    out = images.clone()
    h, w, ch = images.shape[1:]
    for image, rows in zip(out, boxes.tolist(), strict=True):
        for k, (y1, x1, y2, x2) in enumerate(rows):
            if not all(np.isfinite([y1, x1, y2, x2])):
                raise errors.invalid("boxes must be finite")
            colour = colours[k % colours.shape[0], :ch].to(image)
            if ch == 1:
                colour = torch.ones(1, dtype=image.dtype)
            _rectangle(image, [int(np.clip(v, -1e9, 1e9)) for v in (y1 * (h - 1), x1 * (w - 1), y2 * (h - 1), x2 * (w - 1))],
                       colour)
    return out


def _rectangle(image: torch.Tensor, box: list[int], colour: torch.Tensor) -> None:
    top, left, bottom, right = box
    h, w = image.shape[:2]
    if top > bottom or left > right or bottom < 0 or right < 0 or top >= h or left >= w:
        return
    t, b, lo, hi = max(top, 0), min(bottom, h - 1), max(left, 0), min(right, w - 1)
    if top >= 0:
        image[top, lo:hi + 1] = colour
    if bottom < h:
        image[bottom, lo:hi + 1] = colour
    if left >= 0:
        image[t:b + 1, left] = colour
    if right < w:
        image[t:b + 1, right] = colour


draw_v1.kernel(lambda images, boxes: _draw(images, boxes, torch.tensor(_COLOURS)))
draw_v2.kernel(lambda images, boxes, colors: _draw(images, boxes, colors if colors.numel() else torch.tensor(_COLOURS)))


# -- crop and resize --------------------------------------------------------------------------------------------------------
_NUMBERS = "T: type in {uint8 uint16 int8 int16 int32 int64 half float32 float64}"
crop = op("CropAndResize", "image: T, boxes: float32, box_ind: int32, crop_size: int32 -> crops: float32",
          f"{_NUMBERS}, method: string in {{bilinear nearest}} = 'bilinear', extrapolation_value: float = 0.0")
crop_grad_image = op("CropAndResizeGradImage", "grads: float32, boxes: float32, box_ind: int32, image_size: int32 -> output: T",
                     "T: type in {float32 half float64}, method: string in {bilinear nearest} = 'bilinear'").no_gradient()
crop_grad_boxes = op("CropAndResizeGradBoxes", "grads: float32, image: T, boxes: float32, box_ind: int32 -> output: float32",
                     f"{_NUMBERS}, method: string in {{bilinear}} = 'bilinear'").no_gradient()


@crop.shape
def _crop_shape(image, boxes, box_ind, crop_size, *, c):
    image, boxes = rank_is(image, 4), rank_is(boxes, 2)
    if boxes[1] not in (4, None):
        raise ValueError(f"Dimension must be 4 but is {boxes[1]}")
    ind = rank_is(box_ind, 1)
    if None not in (ind[0], boxes[0]) and ind[0] != boxes[0]:
        raise ValueError(f"Dimensions must be equal, but are {boxes[0]} and {ind[0]}")
    size = c.const("crop_size")
    h, w = (None, None) if size is None else (int(size[0]), int(size[1]))
    return (boxes[0] if boxes[0] is not None else ind[0], h, w, image[3])


crop_grad_image.shape(lambda grads, boxes, box_ind, image_size, *, c: c.dims("image_size"))
crop_grad_boxes.shape(lambda grads, image, boxes, box_ind: boxes)


def _grid(boxes: torch.Tensor, box_ind: torch.Tensor, batch: int, h: int, w: int, ch: int, cw: int) -> tuple:
    """The input coordinates of each crop's rows and columns."""
    if boxes.dim() != 2 or boxes.shape[1] != 4 or box_ind.dim() != 1 or box_ind.shape[0] != boxes.shape[0]:
        raise errors.invalid("boxes must have shape [n, 4] and box_ind [n]")
    if box_ind.numel() and (int(box_ind.min()) < 0 or int(box_ind.max()) >= batch):
        raise errors.OutOfRangeError(None, None, f"box_index has values outside [0, {batch})")
    if h <= 0 or w <= 0 or ch <= 0 or cw <= 0:
        raise errors.invalid("image and crop dimensions must be positive")
    if boxes.shape[0] * ch * cw >= 1 << 31:
        raise errors.invalid("the crops would have too many elements")
    y1, x1, y2, x2 = boxes.unbind(1)

    def axis(low: Any, high: Any, n_in: int, n_out: int) -> torch.Tensor:
        if n_out > 1:
            step = (high - low) * (n_in - 1) / (n_out - 1)
            steps = torch.arange(n_out, dtype=torch.float32, device=boxes.device)[None] * step[:, None]
            return (low * (n_in - 1))[:, None] + steps
        return (0.5 * (low + high) * (n_in - 1))[:, None]
    return axis(y1, y2, h, ch), axis(x1, x2, w, cw)


def _bilinear_parts(y: torch.Tensor, x: torch.Tensor, h: int, w: int) -> tuple:
    inside = ((y >= 0) & (y <= h - 1))[:, :, None] & ((x >= 0) & (x <= w - 1))[:, None, :]
    y0, x0 = y.floor(), x.floor()
    rows = [y0.clamp(0, h - 1).long(), y.ceil().clamp(0, h - 1).long()]
    columns = [x0.clamp(0, w - 1).long(), x.ceil().clamp(0, w - 1).long()]
    return inside, rows, columns, (y - y0)[:, :, None, None], (x - x0)[:, None, :, None]


@crop.kernel
def _crop_kernel(image, boxes, box_ind, crop_size, *, method, extrapolation_value):
    if image.dim() != 4 or crop_size.numel() != 2:
        raise errors.invalid("image must be 4-D and crop_size must have two elements")
    ch, cw = (int(v) for v in crop_size)
    batch, h, w, depth = image.shape
    y, x = _grid(boxes, box_ind, batch, h, w, ch, cw)
    b = box_ind.long()[:, None, None]
    inside, rows, columns, fy, fx = _bilinear_parts(y, x, h, w)
    if method == "nearest":
        r, c = torch.round(y).clamp(0, h - 1).long(), torch.round(x).clamp(0, w - 1).long()
        out = image[b, r[:, :, None], c[:, None, :]].to(torch.float32)
    else:
        def at(i: int, j: int) -> torch.Tensor:
            return image[b, rows[i][:, :, None], columns[j][:, None, :]].to(torch.float32)
        top = at(0, 0) + (at(0, 1) - at(0, 0)) * fx
        bottom = at(1, 0) + (at(1, 1) - at(1, 0)) * fx
        out = top + (bottom - top) * fy
    return torch.where(inside[..., None], out, torch.tensor(extrapolation_value, device=out.device))


@crop_grad_image.kernel
def _crop_grad_image_kernel(grads, boxes, box_ind, image_size, *, T, method):
    if grads.dim() != 4 or image_size.numel() != 4:
        raise errors.invalid("grads must be 4-D and image_size must have four elements")
    batch, h, w, depth = (int(v) for v in image_size)
    if batch * h * w * depth >= 1 << 31 or min(batch, h, w, depth) <= 0 or depth != grads.shape[3]:
        raise errors.invalid(f"image_size {image_size.tolist()} is not valid for gradients of shape {list(grads.shape)}")
    y, x = _grid(boxes, box_ind, batch, h, w, grads.shape[1], grads.shape[2])
    out = torch.zeros(batch * h * w, depth, dtype=torch.float32, device=grads.device)
    b = box_ind.long()[:, None, None]
    inside, rows, columns, fy, fx = _bilinear_parts(y, x, h, w)
    grads = grads * inside[..., None]

    def add(r: torch.Tensor, c: torch.Tensor, g: torch.Tensor) -> None:
        where = (b * h + r[:, :, None]) * w + c[:, None, :]
        out.index_add_(0, where.expand(g.shape[:3]).reshape(-1), g.reshape(-1, depth))
    if method == "nearest":
        add(torch.round(y).clamp(0, h - 1).long(), torch.round(x).clamp(0, w - 1).long(), grads)
    else:
        for i, wy in ((0, 1 - fy), (1, fy)):
            for j, wx in ((0, 1 - fx), (1, fx)):
                add(rows[i], columns[j], grads * wy * wx)
    return out.reshape(batch, h, w, depth).to(T.torch)


@crop_grad_boxes.kernel
def _crop_grad_boxes_kernel(grads, image, boxes, box_ind):
    if grads.dim() != 4 or image.dim() != 4 or grads.shape[3] != image.shape[3]:
        raise errors.invalid("grads and image must be 4-D with the same depth")
    batch, h, w, _ = image.shape
    ch, cw = grads.shape[1:3]
    y, x = _grid(boxes, box_ind, batch, h, w, ch, cw)
    inside, rows, columns, fy, fx = _bilinear_parts(y, x, h, w)
    b = box_ind.long()[:, None, None]

    def at(i: int, j: int) -> torch.Tensor:
        return image[b, rows[i][:, :, None], columns[j][:, None, :]].to(torch.float32)
    a, q, c, d = at(0, 0), at(0, 1), at(1, 0), at(1, 1)
    grads = grads * inside[..., None]
    gy = (((1 - fx) * (c - a) + fx * (d - q)) * grads).sum(3)
    gx = (((1 - fy) * (q - a) + fy * (d - c)) * grads).sum(3)

    def ends(g: torch.Tensor, n_in: int, n_out: int, axis: int) -> tuple:
        if n_out > 1:
            t = torch.arange(n_out, dtype=torch.float32, device=g.device) / (n_out - 1) * (n_in - 1)
            t = t[None, :, None] if axis == 1 else t[None, None, :]
            return (g * ((n_in - 1) - t)).sum((1, 2)), (g * t).sum((1, 2))
        half = (g * 0.5 * (n_in - 1)).sum((1, 2))
        return half, half
    (dy1, dy2), (dx1, dx2) = ends(gy, h, ch, 1), ends(gx, w, cw, 2)
    return torch.stack([dy1, dx1, dy2, dx2], 1)


@crop.gradient
def _crop_gradient(op, grad):
    image = op.inputs[0]
    method = op.attrs["method"]
    to_image = None
    if image.dtype.name in ("float16", "float32", "float64"):
        to_image = crop_grad_image(grad, op.inputs[1], op.inputs[2], get("Shape")(image), T=image.dtype, method=method)
    # The boxes' gradient is the bilinear one for either method: that of the nearest pixel would be zero.
    return to_image, crop_grad_boxes(grad, image, op.inputs[1], op.inputs[2]), None, None


# -- glimpses ------------------------------------------------------------------------------------------------------------
_GLIMPSE = ("input: float32, size: int32, offsets: float32 -> glimpse: float32", "centered: bool = True, "
            "normalized: bool = True, uniform_noise: bool = True, noise: string = 'uniform'")
glimpse = op("ExtractGlimpse", *_GLIMPSE, foldable=False).no_gradient()
glimpse_v2 = op("ExtractGlimpseV2", *_GLIMPSE, foldable=False).no_gradient()


@glimpse.shape
@glimpse_v2.shape
def _glimpse_shape(input, size, offsets, *, c):
    n, _, _, ch = rank_is(input, 4)
    wanted = c.const("size")
    return (n, *((None, None) if wanted is None else (int(wanted[0]), int(wanted[1]))), ch)


@glimpse.kernel(device="cpu")
def _glimpse_kernel(input, size, offsets, *, centered, normalized, uniform_noise, noise):
    return _glimpses(input, size, offsets, _first_corner, centered, normalized, uniform_noise, noise)


@glimpse_v2.kernel(device="cpu")
def _glimpse_v2_kernel(input, size, offsets, *, centered, normalized, uniform_noise, noise):
    return _glimpses(input, size, offsets, _second_corner, centered, normalized, uniform_noise, noise)


def _first_corner(offset: float, image: int, window: int, centered: bool, normalized: bool) -> int:
    """Version 1: an offset is the window's center."""
    offset = offset * image if normalized else offset
    return int((offset / 2 + image / 2 if centered else offset) - window / 2)


def _second_corner(offset: float, image: int, window: int, centered: bool, normalized: bool) -> int:
    """Version 2: an offset is where the window begins, unless it is normalized and centered."""
    if normalized:
        return _first_corner(offset, image, window, True, True) if centered else int(offset * image)
    return int(offset + image / 2 if centered else offset)


def _glimpses(input, size, offsets, corner, centered, normalized, uniform_noise, noise):
    if input.dim() != 4 or size.numel() != 2 or offsets.dim() != 2 or tuple(offsets.shape) != (input.shape[0], 2):
        raise errors.invalid("input must be 4-D, size must have 2 elements and offsets shape [batch, 2]")
    gh, gw = (int(v) for v in size)
    if gh <= 0 or gw <= 0 or input.shape[0] * gh * gw * input.shape[3] >= 1 << 31:
        raise errors.invalid(f"size {size.tolist()} is not valid")
    _, h, w, ch = input.shape
    out = []
    for image, (oy, ox) in zip(input, offsets.tolist(), strict=True):
        y, x = corner(oy, h, gh, centered, normalized), corner(ox, w, gw, centered, normalized)
        if noise == "zero":
            canvas = torch.zeros(gh, gw, ch)
        elif uniform_noise or noise == "uniform":
            canvas = torch.rand(gh, gw, ch) * (input.max() - input.min()) + input.min()
        else:
            canvas = torch.randn(gh, gw, ch)
        t, lft, b, r = max(y, 0), max(x, 0), min(y + gh, h), min(x + gw, w)
        if t < b and lft < r:
            canvas[t - y:b - y, lft - x:r - x] = image[t:b, lft:r]
        out.append(canvas)
    return torch.stack(out) if out else torch.zeros(0, gh, gw, ch)


# -- random crops ----------------------------------------------------------------------------------------------------------
_SAMPLE = ("T: type in {uint8 int8 int16 int32 int64}, seed: int = 0, seed2: int = 0, %saspect_ratio_range: list(float) = "
           "[0.75, 1.33], area_range: list(float) = [0.05, 1.0], max_attempts: int = 100, use_image_if_no_bounding_boxes: "
           "bool = False")
sample_v1 = op("SampleDistortedBoundingBox", "image_size: T, bounding_boxes: float32 -> begin: T, size: T, bboxes: float32",
               _SAMPLE % "min_object_covered: float = 0.1, ", stateful=True).no_gradient()
sample_v2 = op("SampleDistortedBoundingBoxV2", "image_size: T, bounding_boxes: float32, min_object_covered: float32 -> "
               "begin: T, size: T, bboxes: float32", _SAMPLE % "", stateful=True).no_gradient()
sample_v1.shape(lambda image_size, bounding_boxes: [(3,), (3,), (1, 1, 4)])
sample_v2.shape(lambda image_size, bounding_boxes, min_object_covered: [(3,), (3,), (1, 1, 4)])


@sample_v1.kernel
def _sample_v1_kernel(image_size, bounding_boxes, *, seed, seed2, min_object_covered, aspect_ratio_range, area_range,
                      max_attempts, use_image_if_no_bounding_boxes, ctx, node):
    return _sample(image_size, bounding_boxes, min_object_covered, _generator(seed, seed2, ctx, node), aspect_ratio_range,
                   area_range, max_attempts, use_image_if_no_bounding_boxes)


@sample_v2.kernel
def _sample_v2_kernel(image_size, bounding_boxes, min_object_covered, *, seed, seed2, aspect_ratio_range, area_range,
                      max_attempts, use_image_if_no_bounding_boxes, ctx, node):
    return _sample(image_size, bounding_boxes, float(min_object_covered), _generator(seed, seed2, ctx, node),
                   aspect_ratio_range, area_range, max_attempts, use_image_if_no_bounding_boxes)


sample_stateless = op("StatelessSampleDistortedBoundingBox", "image_size: T, bounding_boxes: float32, min_object_covered: "
                      "float32, seed: Tseed -> begin: T, size: T, bboxes: float32",
                      "T: type in {uint8 int8 int16 int32 int64}, Tseed: type in {int32 int64}, aspect_ratio_range: "
                      "list(float) = [0.75, 1.33], area_range: list(float) = [0.05, 1.0], max_attempts: int = 100, "
                      "use_image_if_no_bounding_boxes: bool = False").no_gradient()
sample_stateless.shape(lambda image_size, bounding_boxes, min_object_covered, seed: [(3,), (3,), (1, 1, 4)])


@sample_stateless.kernel(device="cpu")
def _sample_stateless_kernel(image_size, bounding_boxes, min_object_covered, seed, *, aspect_ratio_range, area_range,
                             max_attempts, use_image_if_no_bounding_boxes):
    if seed.numel() != 2:
        raise errors.invalid(f"seed must have two elements, got {seed.numel()}")
    rng = np.random.default_rng([int(s) & (2 ** 64 - 1) for s in seed.reshape(-1)])
    return _sample(image_size, bounding_boxes, float(min_object_covered), rng, aspect_ratio_range, area_range, max_attempts,
                   use_image_if_no_bounding_boxes)


_ATTEMPTS = 20_000              # that one call makes at most: what fails so often is taken to be impossible


def _generator(seed: int, seed2: int, ctx: Any, node: Any) -> np.random.Generator:
    """One generator per op and session; seeded ones repeat."""
    fresh = None if not (seed or seed2) else [seed & 0xFFFFFFFF, seed2 & 0xFFFFFFFF]
    return ctx.resources.get_or_create("", f"box sampler {node.name}", np.random.Generator,
                                       lambda: np.random.default_rng(fresh))


def _sample(image_size: Any, boxes: Any, covered: float, rng: np.random.Generator, ratios: list, areas: list, attempts: int,
            whole: bool) -> tuple:
    if image_size.numel() != 3:
        raise errors.invalid(f"image_size must contain 3 elements, got {image_size.numel()}")
    h, w = int(image_size[0]), int(image_size[1])
    if h <= 0 or w <= 0:
        raise errors.invalid("Image height and width must be positive.")
    rows = boxes.reshape(-1, 4).tolist()
    if not rows:
        if not whole:
            raise errors.invalid("No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes if you "
                                 "wish to not provide any bounding boxes.")
        rows = [[0.0, 0.0, 1.0, 1.0]]
    for r in rows:
        if not (0 <= r[0] < r[2] <= 1 and 0 <= r[1] < r[3] <= 1):
            raise errors.invalid("All bounding box coordinates must be in [0.0, 1.0] with min below max")
    if len(ratios) != 2 or ratios[0] <= 0 or ratios[0] > ratios[1] or len(areas) != 2 or not 0 < areas[0] <= areas[1] <= 1:
        raise errors.invalid("aspect_ratio_range must be positive and area_range in (0, 1], both with the smaller bound first")
    top, left, ch, cw = 0, 0, h, w
    for _ in range(min(attempts, _ATTEMPTS)):
        got = _attempt(rng, h, w, ratios, areas)
        if got is not None and _covers(got, rows, h, w, covered):
            top, left, ch, cw = got
            break
    kind = image_size.dtype
    box = torch.tensor([[[top / h, left / w, (top + ch) / h, (left + cw) / w]]], dtype=torch.float32)
    return torch.tensor([top, left, 0], dtype=kind), torch.tensor([ch, cw, -1], dtype=kind), box


def _attempt(rng: np.random.Generator, h: int, w: int, ratios: list, areas: list) -> tuple | None:
    ratio = rng.uniform(*ratios)
    low, high = areas[0] * h * w, areas[1] * h * w
    least = int(np.round(np.sqrt(low / ratio)))
    most = int(np.round(np.sqrt(high / ratio)))
    if int(np.round(most * ratio)) > w:
        most = int((w + 0.5 - 1e-7) / ratio)
    most = min(most, h)
    least = min(least, most)
    ch = least if least >= most else int(rng.integers(least, most + 1))
    cw = int(np.round(ch * ratio))
    if not low <= ch * cw <= high or ch <= 0 or cw <= 0 or ch > h or cw > w:
        return None
    return int(rng.integers(0, h - ch + 1)), int(rng.integers(0, w - cw + 1)), ch, cw


def _covers(crop_: tuple, rows: list, h: int, w: int, covered: float) -> bool:
    top, left, ch, cw = crop_
    for y1, x1, y2, x2 in rows:
        inter = max(0.0, min(y2 * h, top + ch) - max(y1 * h, top)) * max(0.0, min(x2 * w, left + cw) - max(x1 * w, left))
        if inter >= covered * (y2 - y1) * h * (x2 - x1) * w - 1e-6:
            return True
    return False
