"""MobileNet and MobileNetV2: depthwise convolutions; in the second, between narrow layers that are added up."""
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
    warn_size,
)
from penstock.keras import layers as L


def MobileNet(input_shape: Any = None, alpha: float = 1.0, depth_multiplier: int = 1, dropout: float = 1e-3,
              include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, pooling: Any = None,
              classes: int = 1000, classifier_activation: Any = "softmax") -> Any:
    """MobileNet; `alpha` makes all layers wider or narrower.

    >>> model = tf.keras.applications.MobileNet(weights=None, alpha=0.5)
    """
    inputs = image_input(input_tensor, input_shape, 224, 32, include_top, weights, classes)
    x = L.Conv2D(int(32 * alpha), 3, padding="same", use_bias=False, strides=2, name="conv1")(inputs)
    x = L.ReLU(6.0, name="conv1_relu")(norm(x, "conv1_bn"))
    plan = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
    for i, (filters, stride) in enumerate(plan, 1):
        if stride == 2:
            x = L.ZeroPadding2D(((0, 1), (0, 1)), name=f"conv_pad_{i}")(x)
        x = L.DepthwiseConv2D(3, padding="same" if stride == 1 else "valid", depth_multiplier=depth_multiplier, strides=stride,
                              use_bias=False, name=f"conv_dw_{i}")(x)
        x = L.ReLU(6.0, name=f"conv_dw_{i}_relu")(norm(x, f"conv_dw_{i}_bn"))
        x = L.Conv2D(int(filters * alpha), 1, padding="same", use_bias=False, name=f"conv_pw_{i}")(x)
        x = L.ReLU(6.0, name=f"conv_pw_{i}_relu")(norm(x, f"conv_pw_{i}_bn"))
    if include_top:
        width = int(1024 * alpha)
        x = L.GlobalAveragePooling2D()(x)
        x = L.Reshape((width, 1, 1) if channel_axis() == 1 else (1, 1, width), name="reshape_1")(x)
        x = L.Dropout(dropout, name="dropout")(x)
        x = L.Conv2D(classes, 1, padding="same", name="conv_preds")(x)
        x = L.Reshape((classes,), name="reshape_2")(x)
        x = L.Activation(classifier_activation, name="predictions")(x)
    else:
        x = top(x, False, pooling, classes, None, None)
    rows = _rows(inputs, weights, "MobileNet", (128, 160, 192, 224))
    text = {1.0: "1_0", 0.75: "7_5", 0.5: "5_0"}.get(alpha, "2_5")
    file = f"mobilenet_{text}_{rows}_tf{'' if include_top else '_no_top'}.h5"
    return finish(inputs, x, f"mobilenet_{alpha:0.2f}_{rows}", weights, input_tensor, file, "mobilenet/")


def _rows(inputs: Any, weights: Any, name: str, sizes: tuple) -> Any:
    shape = K.int_shape(inputs)
    rows = shape[2] if channel_axis() == 1 else shape[1]
    return warn_size(name, rows, sizes) if weights == "imagenet" else rows


def _inverted(x: Any, expansion: int, stride: int, alpha: float, filters: int, block: int) -> Any:
    """Wide in the middle, narrow at both ends."""
    before, width = x, K.int_shape(x)[channel_axis()]
    out = divisible(int(filters * alpha))
    prefix = f"block_{block}_" if block else "expanded_conv_"
    options = {"epsilon": 1e-3, "momentum": 0.999}
    if block:
        x = L.Conv2D(expansion * width, 1, padding="same", use_bias=False, name=prefix + "expand")(x)
        x = L.ReLU(6.0, name=prefix + "expand_relu")(norm(x, prefix + "expand_BN", **options))
    if stride == 2:
        x = L.ZeroPadding2D(correct_pad(x, 3), name=prefix + "pad")(x)
    x = L.DepthwiseConv2D(3, strides=stride, use_bias=False, padding="same" if stride == 1 else "valid",
                          name=prefix + "depthwise")(x)
    x = L.ReLU(6.0, name=prefix + "depthwise_relu")(norm(x, prefix + "depthwise_BN", **options))
    x = L.Conv2D(out, 1, padding="same", use_bias=False, name=prefix + "project")(x)
    x = norm(x, prefix + "project_BN", **options)
    return L.Add(name=prefix + "add")([before, x]) if width == out and stride == 1 else x


def MobileNetV2(input_shape: Any = None, alpha: float = 1.0, include_top: bool = True, weights: Any = "imagenet",
                input_tensor: Any = None, pooling: Any = None, classes: int = 1000,
                classifier_activation: Any = "softmax") -> Any:
    """MobileNetV2; `alpha` makes all layers wider or narrower."""
    inputs = image_input(input_tensor, input_shape, 224, 32, include_top, weights, classes)
    options = {"epsilon": 1e-3, "momentum": 0.999}
    x = L.Conv2D(divisible(32 * alpha), 3, strides=2, padding="same", use_bias=False, name="Conv1")(inputs)
    x = L.ReLU(6.0, name="Conv1_relu")(norm(x, "bn_Conv1", **options))
    block = 0
    for filters, count, stride in ((16, 1, 1), (24, 2, 2), (32, 3, 2), (64, 4, 2), (96, 3, 1), (160, 3, 2), (320, 1, 1)):
        for i in range(count):
            x = _inverted(x, 6 if block else 1, stride if i == 0 else 1, alpha, filters, block)
            block += 1
    x = L.Conv2D(divisible(1280 * alpha) if alpha > 1.0 else 1280, 1, use_bias=False, name="Conv_1")(x)
    x = L.ReLU(6.0, name="out_relu")(norm(x, "Conv_1_bn", **options))
    x = top(x, include_top, pooling, classes, classifier_activation, None)
    rows = _rows(inputs, weights, "MobileNetV2", (96, 128, 160, 192, 224))
    file = f"mobilenet_v2_weights_tf_dim_ordering_tf_kernels_{float(alpha)}_{rows}{'' if include_top else '_no_top'}.h5"
    return finish(inputs, x, f"mobilenetv2_{alpha:0.2f}_{rows}", weights, input_tensor, file, "mobilenet_v2/")


family("mobilenet", "tf", MobileNet)
family("mobilenet_v2", "tf", MobileNetV2)
