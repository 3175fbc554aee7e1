"""EfficientNet (Tan and Le, 2019): B0, and wider and deeper networks after the same plan."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from penstock._src.models.keras.applications.common import (
    channel_axis,
    correct_pad,
    divisible,
    family,
    finish,
    image_input,
    norm,
    top,
)
from penstock.keras import layers as L

# kernel, repeats, filters in and out, expansion, stride
_PLAN = ((3, 1, 32, 16, 1, 1), (3, 2, 16, 24, 6, 2), (5, 2, 24, 40, 6, 2), (3, 3, 40, 80, 6, 2), (5, 3, 80, 112, 6, 1),
         (5, 4, 112, 192, 6, 2), (3, 1, 192, 320, 6, 1))
_SIZES = {"B0": (1.0, 1.0, 224, 0.2), "B1": (1.0, 1.1, 240, 0.2), "B2": (1.1, 1.2, 260, 0.3), "B3": (1.2, 1.4, 300, 0.3),
          "B4": (1.4, 1.8, 380, 0.4), "B5": (1.6, 2.2, 456, 0.4), "B6": (1.8, 2.6, 528, 0.5), "B7": (2.0, 3.1, 600, 0.5)}
_CONV = {"class_name": "VarianceScaling", "config": {"scale": 2.0, "mode": "fan_out", "distribution": "truncated_normal"}}


def _conv(x: Any, filters: int, size: int, name: str, **options: Any) -> Any:
    return L.Conv2D(filters, size, use_bias=options.pop("use_bias", False), kernel_initializer=_CONV, name=name, **options)(x)


def _swish(x: Any, name: str) -> Any:
    return L.Activation("swish", name=name)(x)


def _block(inputs: Any, kernel: int, width_in: int, width_out: int, expansion: int, stride: int, drop: float, name: str) -> Any:
    width, x = width_in * expansion, inputs
    if expansion != 1:
        x = norm(_conv(x, width, 1, name + "expand_conv", padding="same"), name + "expand_bn")
        x = _swish(x, name + "expand_activation")
    if stride == 2:
        x = L.ZeroPadding2D(correct_pad(x, kernel), name=name + "dwconv_pad")(x)
    x = L.DepthwiseConv2D(kernel, strides=stride, padding="valid" if stride == 2 else "same", use_bias=False,
                          depthwise_initializer=_CONV, name=name + "dwconv")(x)
    x = _swish(norm(x, name + "bn"), name + "activation")
    squeezed = L.GlobalAveragePooling2D(name=name + "se_squeeze")(x)
    squeezed = L.Reshape((width, 1, 1) if channel_axis() == 1 else (1, 1, width), name=name + "se_reshape")(squeezed)
    squeezed = _conv(squeezed, max(1, int(width_in * 0.25)), 1, name + "se_reduce", padding="same", activation="swish",
                     use_bias=True)
    squeezed = _conv(squeezed, width, 1, name + "se_expand", padding="same", activation="sigmoid", use_bias=True)
    x = L.multiply([x, squeezed], name=name + "se_excite")
    x = norm(_conv(x, width_out, 1, name + "project_conv", padding="same"), name + "project_bn")
    if stride == 1 and width_in == width_out:
        if drop > 0:
            x = L.Dropout(drop, noise_shape=(None, 1, 1, 1), name=name + "drop")(x)
        x = L.add([x, inputs], name=name + "add")
    return x


def _efficientnet(kind: str, include_top: bool, weights: Any, input_tensor: Any, input_shape: Any, pooling: Any, classes: int,
                  classifier_activation: Any) -> Any:
    wide, deep, size, dropout = _SIZES[kind]
    inputs = image_input(input_tensor, input_shape, size, 32, include_top, weights, classes)
    x = L.Normalization(axis=3 if channel_axis() == -1 else 1)(L.Rescaling(1.0 / 255.0)(inputs))
    if weights == "imagenet":
        x = L.Rescaling([1.0 / math.sqrt(d) for d in (0.229, 0.224, 0.225)])(x)
    x = L.ZeroPadding2D(correct_pad(x, 3), name="stem_conv_pad")(x)
    x = _conv(x, divisible(32 * wide), 3, "stem_conv", strides=2, padding="valid")
    x = _swish(norm(x, "stem_bn"), "stem_activation")
    total, done = float(sum(math.ceil(deep * p[1]) for p in _PLAN)), 0
    for i, (kernel, repeats, width_in, width_out, expansion, stride) in enumerate(_PLAN, 1):
        first, last = divisible(width_in * wide), divisible(width_out * wide)
        for j in range(math.ceil(deep * repeats)):
            x = _block(x, kernel, first if j == 0 else last, last, expansion, stride if j == 0 else 1, 0.2 * done / total,
                       f"block{i}{chr(j + 97)}_")
            done += 1
    x = _swish(norm(_conv(x, divisible(1280 * wide), 1, "top_conv", padding="same"), "top_bn"), "top_activation")
    x = top(x, include_top, pooling, classes, classifier_activation, before=L.Dropout(dropout, name="top_dropout"))
    name = f"efficientnet{kind.lower()}"
    return finish(inputs, x, name, weights, input_tensor, f"{name}{'' if include_top else '_notop'}.h5")


def _maker(kind: str) -> Callable:
    def build(include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, input_shape: Any = None,
              pooling: Any = None, classes: int = 1000, classifier_activation: Any = "softmax", **kwargs: Any) -> Any:
        return _efficientnet(kind, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation)
    build.__name__ = build.__qualname__ = f"EfficientNet{kind}"
    build.__doc__ = f"EfficientNet-{kind}. It takes pixels 0 … 255 as they are."
    return build


family("efficientnet", "none", *(_maker(kind) for kind in _SIZES))
