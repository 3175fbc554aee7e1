"""ResNet (He et al., 2015) and ResNetV2, whose activations precede the convolutions."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.models.keras.applications.common import (
    decode_predictions,
    family,
    finish,
    image_input,
    norm,
    preprocess,
    top,
)
from penstock.keras import layers as L

_BLOCKS = {"50": (3, 4, 6, 3), "101": (3, 4, 23, 3), "152": (3, 8, 36, 3)}


def _norm(x: Any, name: str) -> Any:
    return norm(x, name, epsilon=1.001e-5)


def _block(x: Any, filters: int, stride: int, first: bool, name: str) -> Any:
    shortcut = _norm(L.Conv2D(4 * filters, 1, strides=stride, name=name + "_0_conv")(x), name + "_0_bn") if first else x
    x = _norm(L.Conv2D(filters, 1, strides=stride, name=name + "_1_conv")(x), name + "_1_bn")
    x = L.Activation("relu", name=name + "_1_relu")(x)
    x = _norm(L.Conv2D(filters, 3, padding="same", name=name + "_2_conv")(x), name + "_2_bn")
    x = L.Activation("relu", name=name + "_2_relu")(x)
    x = _norm(L.Conv2D(4 * filters, 1, name=name + "_3_conv")(x), name + "_3_bn")
    return L.Activation("relu", name=name + "_out")(L.Add(name=name + "_add")([shortcut, x]))


def _block_v2(x: Any, filters: int, stride: int, first: bool, name: str) -> Any:
    before = L.Activation("relu", name=name + "_preact_relu")(_norm(x, name + "_preact_bn"))
    if first:
        shortcut = L.Conv2D(4 * filters, 1, strides=stride, name=name + "_0_conv")(before)
    else:
        shortcut = L.MaxPooling2D(1, strides=stride)(x) if stride > 1 else x
    x = _norm(L.Conv2D(filters, 1, use_bias=False, name=name + "_1_conv")(before), name + "_1_bn")
    x = L.Activation("relu", name=name + "_1_relu")(x)
    x = L.ZeroPadding2D(((1, 1), (1, 1)), name=name + "_2_pad")(x)
    x = _norm(L.Conv2D(filters, 3, strides=stride, use_bias=False, name=name + "_2_conv")(x), name + "_2_bn")
    x = L.Activation("relu", name=name + "_2_relu")(x)
    x = L.Conv2D(4 * filters, 1, name=name + "_3_conv")(x)
    return L.Add(name=name + "_out")([shortcut, x])


def _resnet(name: str, version: int, include_top: bool, weights: Any, input_tensor: Any, input_shape: Any, pooling: Any,
            classes: int, classifier_activation: Any) -> Any:
    inputs = image_input(input_tensor, input_shape, 224, 32, include_top, weights, classes)
    x = L.ZeroPadding2D(((3, 3), (3, 3)), name="conv1_pad")(inputs)
    x = L.Conv2D(64, 7, strides=2, name="conv1_conv")(x)
    if version == 1:
        x = L.Activation("relu", name="conv1_relu")(_norm(x, "conv1_bn"))
    x = L.ZeroPadding2D(((1, 1), (1, 1)), name="pool1_pad")(x)
    x = L.MaxPooling2D(3, strides=2, name="pool1_pool")(x)
    counts = _BLOCKS[name[6:].removesuffix("v2")]
    for stage, (count, filters) in enumerate(zip(counts, (64, 128, 256, 512), strict=True)):
        for i in range(1, count + 1):
            label = f"conv{stage + 2}_block{i}"
            if version == 1:
                x = _block(x, filters, 2 if i == 1 and stage else 1, i == 1, label)
            else:
                x = _block_v2(x, filters, 2 if i == count and stage < 3 else 1, i == 1, label)
    if version == 2:
        x = L.Activation("relu", name="post_relu")(_norm(x, "post_bn"))
    x = top(x, include_top, pooling, classes, classifier_activation)
    file = f"{name}_weights_tf_dim_ordering_tf_kernels{'' if include_top else '_notop'}.h5"
    return finish(inputs, x, name, weights, input_tensor, file, "resnet/")


def _maker(public: str, name: str, version: int) -> Callable:
    def build(include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, input_shape: Any = None,
              pooling: Any = None, classes: int = 1000, classifier_activation: Any = "softmax") -> Any:
        return _resnet(name, version, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation)
    build.__name__ = build.__qualname__ = public
    build.__doc__ = f"{public}.\n\n    >>> model = tf.keras.applications.{public}(weights=None)\n    "
    return build


ResNet50, ResNet101, ResNet152 = (_maker(f"ResNet{n}", f"resnet{n}", 1) for n in _BLOCKS)
ResNet50V2, ResNet101V2, ResNet152V2 = (_maker(f"ResNet{n}V2", f"resnet{n}v2", 2) for n in _BLOCKS)

family("resnet", "caffe", ResNet50, ResNet101, ResNet152)
family("resnet_v2", "tf", ResNet50V2, ResNet101V2, ResNet152V2)
export.value(ResNet50, "keras.applications.resnet50.ResNet50")
export.value(decode_predictions, "keras.applications.resnet50.decode_predictions")


@export("keras.applications.resnet50.preprocess_input")
def _preprocess_for_resnet50(x: Any, data_format: str | None = None) -> Any:
    """Preprocesses pixels 0 … 255 for ResNet50."""
    return preprocess(x, data_format, "caffe")
