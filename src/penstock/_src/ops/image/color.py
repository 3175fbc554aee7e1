"""Colours of images: HSV, hue, saturation, contrast."""
from __future__ import annotations

import torch

from penstock._src.base import errors
from penstock._src.base.static_shape import rank_at_least
from penstock._src.kernels import colours
from penstock._src.ops import rules
from penstock._src.ops.registry import op
from penstock.compat import v1 as tf

rgb_to_hsv = op("RGBToHSV", "images: T -> output: T", "T: type in {half bfloat16 float32 float64} = float32",
                export_as="image.rgb_to_hsv")
hsv_to_rgb = op("HSVToRGB", "images: T -> output: T", "T: type in {half bfloat16 float32 float64} = float32",
                export_as="image.hsv_to_rgb").no_gradient()
rules.batching.leading.update({rgb_to_hsv: (0,), hsv_to_rgb: (0,)})


def _three_channels(images):
    images = rank_at_least(images, 1)
    if images is not None and images[-1] not in (3, None):
        raise ValueError(f"Dimension must be 3 but is {images[-1]}")
    return images if images is None else (*images[:-1], 3)


rgb_to_hsv.shape(_three_channels)
hsv_to_rgb.shape(_three_channels)


_TINY = 1e-30


def check_channels(x: torch.Tensor) -> None:
    """InvalidArgumentError unless the last dimension has size 3."""
    if x.dim() < 1 or x.shape[-1] != 3:
        raise errors.invalid(f"input must have 3 channels but instead has {x.shape[-1] if x.dim() else 0} channels.")


def to_hsv(x: torch.Tensor) -> torch.Tensor:
    """RGB to HSV, all in [0, 1]."""
    v, span = _value_and_span(x)
    s = torch.where(v > 0, span / torch.where(v > 0, v, torch.ones_like(v)), torch.zeros_like(v))
    return torch.stack([_hue(x, v, span), s, v], -1)


def _value_and_span(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest channel, and by how much it is larger than the smallest."""
    r, g, b = x.unbind(-1)
    v = torch.maximum(torch.maximum(r, g), b)
    return v, v - torch.minimum(torch.minimum(r, g), b)


def _hue(x: torch.Tensor, v: torch.Tensor, span: torch.Tensor) -> torch.Tensor:
    r, g, b = x.unbind(-1)
    norm = 1 / (6 * torch.where(span > 0, span, torch.ones_like(span)))
    h = torch.where(r == v, norm * (g - b), torch.where(g == v, norm * (b - r) + 2 / 6, norm * (r - g) + 4 / 6))
    h = torch.where(span > 0, h, torch.zeros_like(h))
    return torch.where(h < 0, h + 1, h)


def to_rgb(x: torch.Tensor) -> torch.Tensor:
    """HSV to RGB."""
    h, s, v = x.unbind(-1)
    return torch.stack([((1 - s) + s * c) * v for c in _colours(h)], -1)


def _colours(h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The red, green and blue parts of a pure colour, by its hue."""
    h = h * 6
    return ((h - 3).abs() - 1).clamp(0, 1), (2 - (h - 2).abs()).clamp(0, 1), (2 - (h - 4).abs()).clamp(0, 1)


@rgb_to_hsv.kernel
def _rgb_to_hsv_kernel(images):
    check_channels(images)
    return to_hsv(images)


@hsv_to_rgb.kernel
def _hsv_to_rgb_kernel(images):
    check_channels(images)
    return to_rgb(images)


@rgb_to_hsv.gradient
def _rgb_to_hsv_gradient(op, grad):
    """Through the three formulas for hue, each where its channel is the largest. As in TensorFlow, the saturation does not
    depend on a smallest channel that is zero."""
    x = op.inputs[0]
    h, s, v = tf.unstack(op.outputs[0], axis=-1)
    gh, gs, gv = tf.unstack(grad, axis=-1)
    r, g, b = tf.unstack(x, axis=-1)
    top, low = v, tf.reduce_min(x, axis=-1)
    span = top - low

    def flag(c):
        return tf.cast(c, x.dtype)
    red = flag(tf.logical_and(tf.greater_equal(r, g), tf.greater_equal(r, b)))
    green = flag(tf.logical_and(tf.greater(g, r), tf.greater_equal(g, b)))
    blue = flag(tf.logical_and(tf.greater(b, r), tf.greater(b, g)))
    low_r = flag(tf.logical_and(tf.less(r, g), tf.less(r, b)))
    low_g = flag(tf.logical_and(tf.less_equal(g, r), tf.less(g, b)))
    low_b = flag(tf.logical_and(tf.less_equal(b, r), tf.less_equal(b, g)))
    some = flag(tf.not_equal(low, 0))
    del s
    out = []
    square = tf.multiply(span, span)
    for is_top, is_low, own in ((red, low_r, "r"), (green, low_g, "g"), (blue, low_b, "b")):
        dv = is_top
        ds = tf.div_no_nan(low * is_top, top * top) - tf.div_no_nan(is_low * some, top)
        d = {"r": {"r": 0.0, "g": -1.0, "b": 1.0}, "g": {"r": 1.0, "g": 0.0, "b": -1.0},
             "b": {"r": -1.0, "g": 1.0, "b": 0.0}}[own]
        numerator = red * (g - b) + green * (b - r) + blue * (r - g)
        slope = red * d["r"] + green * d["g"] + blue * d["b"]
        dspan = is_top - is_low
        dh = (tf.div_no_nan(slope, span) - tf.div_no_nan(numerator * dspan, square)) / 6.0
        out.append(gv * dv + gs * ds + gh * dh)
    del h
    return tf.stack(out, axis=-1)


# TensorFlow registers no gradient for the adjustments: asking for one raises LookupError.
adjust_contrast = op("AdjustContrastv2", "images: T, contrast_factor: float32 -> output: T",
                     "T: type in {half float32} = float32")
adjust_hue = op("AdjustHue", "images: T, delta: float32 -> output: T", "T: type in {half float32} = float32")
adjust_saturation = op("AdjustSaturation", "images: T, scale: float32 -> output: T",
                       "T: type in {half float32} = float32")


old_adjust_contrast = op("AdjustContrast", "images: T, contrast_factor: float32, min_value: float32, max_value: float32 -> "
                         "output: float32", "T: type in {uint8 int8 int16 int32 int64 float32 float64}")


def _image_and_scalar(images, factor):
    images = rank_at_least(images, 3)
    if factor is not None and len(factor) != 0:
        raise ValueError(f"Shape must be rank 0 but is rank {len(factor)}")
    return images


for _op in (adjust_contrast, adjust_hue, adjust_saturation):
    _op.shape(_image_and_scalar)


def _check(images: torch.Tensor, factor: torch.Tensor, channels: bool) -> None:
    if images.dim() < 3:
        raise errors.invalid(f"Images must have rank 3 or more, got shape {list(images.shape)}")
    if factor.numel() != 1:
        raise errors.invalid("the factor must be a scalar")
    if channels:
        check_channels(images)


@adjust_contrast.kernel
def _adjust_contrast_kernel(images, contrast_factor):
    _check(images, contrast_factor, False)
    if colours.takes(images, contrast_factor):
        return colours.contrast(images, float(contrast_factor))
    return _contrasted(images, contrast_factor).to(images.dtype)


def _contrasted(images, factor):
    """The elements in float32, moved away from the mean of their channel by a factor."""
    x = images.to(torch.float32)
    mean = x.mean((-3, -2), keepdim=True)
    return (x - mean) * factor + mean


@old_adjust_contrast.shape
def _old_adjust_contrast_shape(images, contrast_factor, min_value, max_value):
    for limit in (min_value, max_value):
        _image_and_scalar(None, limit)
    return _image_and_scalar(images, contrast_factor)


@old_adjust_contrast.kernel
def _old_adjust_contrast_kernel(images, contrast_factor, min_value, max_value):
    for factor in (contrast_factor, min_value, max_value):
        _check(images, factor, False)
    return torch.minimum(torch.maximum(_contrasted(images, contrast_factor), min_value), max_value)


@adjust_hue.kernel
def _adjust_hue_kernel(images, delta):
    _check(images, delta, True)
    if colours.takes(images, delta):
        return colours.turn(images, float(delta))
    x = images.to(torch.float32)
    v, span = _value_and_span(x)
    h = _hue(x, v, span) + delta
    return torch.stack([v - span * (1 - c) for c in _colours(h - h.floor())], -1).to(images.dtype)


@adjust_saturation.kernel
def _adjust_saturation_kernel(images, scale):
    _check(images, scale, True)
    if colours.takes(images, scale):
        return colours.saturate(images, max(0.0, float(scale)))
    x = images.to(torch.float32)
    v, span = _value_and_span(x)                  # the largest channel stays, and the others move away from it, or to it:
    most = (v / span.clamp(min=_TINY)).clamp(min=0)             # until the saturation is 1
    factor = torch.minimum(most, torch.as_tensor(scale).clamp(min=0))
    return torch.lerp(v[..., None], x, factor[..., None]).to(images.dtype)
