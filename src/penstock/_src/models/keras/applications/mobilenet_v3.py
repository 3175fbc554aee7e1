"""MobileNetV3 (Howard et al., 2019): inverted blocks with squeeze and excitation, and a swish of straight lines."""
from __future__ import annotations

from typing import Any

from penstock._src.models.keras import backend as K
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

# Of each block: expansion, filters, kernel (0: 5, or 3 in a minimalistic network), stride, squeeze and excitation, hard swish.
_SMALL = ((1, 16, 3, 2, True, False), (72 / 16, 24, 3, 2, False, False), (88 / 24, 24, 3, 1, False, False),
          (4, 40, 0, 2, True, True), (6, 40, 0, 1, True, True), (6, 40, 0, 1, True, True), (3, 48, 0, 1, True, True),
          (3, 48, 0, 1, True, True), (6, 96, 0, 2, True, True), (6, 96, 0, 1, True, True), (6, 96, 0, 1, True, True))
_LARGE = ((1, 16, 3, 1, False, False), (4, 24, 3, 2, False, False), (3, 24, 3, 1, False, False), (3, 40, 0, 2, True, False),
          (3, 40, 0, 1, True, False), (3, 40, 0, 1, True, False), (6, 80, 3, 2, False, True), (2.5, 80, 3, 1, False, True),
          (2.3, 80, 3, 1, False, True), (2.3, 80, 3, 1, False, True), (6, 112, 3, 1, True, True), (6, 112, 3, 1, True, True),
          (6, 160, 0, 2, True, True), (6, 160, 0, 1, True, True), (6, 160, 0, 1, True, True))


def _norm(x: Any, name: str) -> Any:
    return norm(x, name + "/BatchNorm", epsilon=1e-3, momentum=0.999)


def _conv(x: Any, filters: int, name: str, **options: Any) -> Any:
    return L.Conv2D(filters, options.pop("kernel", 1), padding="same", name=name, **options)(x)


def _hard_sigmoid(x: Any) -> Any:
    return L.Rescaling(1.0 / 6.0)(L.ReLU(6.0)(L.Rescaling(1.0, 3.0)(x)))


def _active(x: Any, hard_swish: bool) -> Any:
    return L.Multiply()([x, _hard_sigmoid(x)]) if hard_swish else L.ReLU()(x)


def _excited(x: Any, filters: int, prefix: str) -> Any:
    y = L.GlobalAveragePooling2D(keepdims=True, name=prefix + "squeeze_excite/AvgPool")(x)
    y = _conv(y, divisible(filters * 0.25), prefix + "squeeze_excite/Conv")
    y = _conv(L.ReLU(name=prefix + "squeeze_excite/Relu")(y), filters, prefix + "squeeze_excite/Conv_1")
    return L.Multiply(name=prefix + "squeeze_excite/Mul")([x, _hard_sigmoid(y)])


def _block(x: Any, i: int, expansion: float, filters: int, kernel: int, stride: int, squeeze: bool, hard_swish: bool) -> Any:
    before, width = x, K.int_shape(x)[channel_axis()]
    wide = divisible(width * expansion)
    prefix = f"expanded_conv_{i}/" if i else "expanded_conv/"
    if i:
        x = _active(_norm(_conv(x, wide, prefix + "expand", use_bias=False), prefix + "expand"), hard_swish)
    if stride == 2:
        x = L.ZeroPadding2D(correct_pad(x, kernel), name=prefix + "depthwise/pad")(x)
    x = L.DepthwiseConv2D(kernel, strides=stride, padding="same" if stride == 1 else "valid", use_bias=False,
                          name=prefix + "depthwise")(x)
    x = _active(_norm(x, prefix + "depthwise"), hard_swish)
    if squeeze:
        x = _excited(x, wide, prefix)
    x = _norm(_conv(x, filters, prefix + "project", use_bias=False), prefix + "project")
    return L.Add(name=prefix + "Add")([before, x]) if stride == 1 and width == filters else x


def _mobilenet(kind: str, plan: tuple, last: int, input_shape: Any, alpha: float, minimalistic: bool, include_top: bool,
               weights: Any, input_tensor: Any, classes: int, pooling: Any, dropout_rate: float, classifier_activation: Any,
               include_preprocessing: bool) -> Any:
    inputs = image_input(input_tensor, input_shape or ((3, None, None) if channel_axis() == 1 else (None, None, 3)), 224, 32,
                         False, weights, classes)
    full = not minimalistic
    x = L.Rescaling(1.0 / 127.5, -1.0)(inputs) if include_preprocessing else inputs
    x = _active(_norm(_conv(x, 16, "Conv", kernel=3, strides=2, use_bias=False), "Conv"), full)
    for i, (expansion, filters, kernel, stride, squeeze, hard_swish) in enumerate(plan):
        x = _block(x, i, expansion, divisible(filters * alpha), kernel or (5 if full else 3), stride, squeeze and full,
                   hard_swish and full)
    x = _conv(x, divisible(K.int_shape(x)[channel_axis()] * 6), "Conv_1", use_bias=False)
    x = _active(_norm(x, "Conv_1"), full)
    if include_top:
        x = L.GlobalAveragePooling2D(keepdims=True)(x)
        x = _active(_conv(x, divisible(last * alpha) if alpha > 1.0 else last, "Conv_2"), full)
        x = L.Dropout(dropout_rate)(x) if dropout_rate > 0 else x
        x = L.Flatten()(_conv(x, classes, "Logits"))
        x = L.Activation(classifier_activation, name="Predictions")(x)
    else:
        x = top(x, False, pooling, classes, None)
    file = f"weights_mobilenet_v3_{kind}{'_minimalistic' if minimalistic else ''}_224_{alpha}_float" \
           f"{'' if include_top else '_no_top_v2'}.h5"
    return finish(inputs, x, "MobilenetV3" + kind, weights, input_tensor, file, "mobilenet_v3/")


def MobileNetV3Small(input_shape: Any = None, alpha: float = 1.0, minimalistic: bool = False, include_top: bool = True,
                     weights: Any = "imagenet", input_tensor: Any = None, classes: int = 1000, pooling: Any = None,
                     dropout_rate: float = 0.2, classifier_activation: Any = "softmax",
                     include_preprocessing: bool = True) -> Any:
    """MobileNetV3, small. It takes pixels 0 … 255 as they are.

    >>> model = tf.keras.applications.MobileNetV3Small(weights=None)
    """
    return _mobilenet("small", _SMALL, 1024, input_shape, alpha, minimalistic, include_top, weights, input_tensor, classes,
                      pooling, dropout_rate, classifier_activation, include_preprocessing)


def MobileNetV3Large(input_shape: Any = None, alpha: float = 1.0, minimalistic: bool = False, include_top: bool = True,
                     weights: Any = "imagenet", input_tensor: Any = None, classes: int = 1000, pooling: Any = None,
                     dropout_rate: float = 0.2, classifier_activation: Any = "softmax",
                     include_preprocessing: bool = True) -> Any:
    """MobileNetV3, large. It takes pixels 0 … 255 as they are."""
    return _mobilenet("large", _LARGE, 1280, input_shape, alpha, minimalistic, include_top, weights, input_tensor, classes,
                      pooling, dropout_rate, classifier_activation, include_preprocessing)


family("mobilenet_v3", "none", MobileNetV3Small, MobileNetV3Large)
