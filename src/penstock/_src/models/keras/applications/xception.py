"""Xception (Chollet, 2016): separable convolutions with residual connections."""
from __future__ import annotations

from typing import Any

from penstock._src.models.keras.applications.common import family, finish, image_input, norm, top
from penstock.keras import layers as L


def _separable(x: Any, filters: int, name: str) -> Any:
    return norm(L.SeparableConv2D(filters, 3, padding="same", use_bias=False, name=name)(x), name + "_bn")


def _relu(x: Any, name: str) -> Any:
    return L.Activation("relu", name=name)(x)


def Xception(include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, input_shape: Any = None,
             pooling: Any = None, classes: int = 1000, classifier_activation: Any = "softmax") -> Any:
    """Xception.

    >>> model = tf.keras.applications.Xception(weights=None)
    """
    inputs = image_input(input_tensor, input_shape, 299, 71, include_top, weights, classes)
    x = norm(L.Conv2D(32, 3, strides=2, use_bias=False, name="block1_conv1")(inputs), "block1_conv1_bn")
    x = _relu(x, "block1_conv1_act")
    x = _relu(norm(L.Conv2D(64, 3, use_bias=False, name="block1_conv2")(x), "block1_conv2_bn"), "block1_conv2_act")
    for block, (first, second) in ((2, (128, 128)), (3, (256, 256)), (4, (728, 728))):
        x = _down(x, block, first, second)
    for block in range(5, 13):
        before = x
        for i in (1, 2, 3):
            x = _separable(_relu(x, f"block{block}_sepconv{i}_act"), 728, f"block{block}_sepconv{i}")
        x = L.add([x, before])
    x = _down(x, 13, 728, 1024)
    for i, filters in ((1, 1536), (2, 2048)):
        x = _relu(_separable(x, filters, f"block14_sepconv{i}"), f"block14_sepconv{i}_act")
    x = top(x, include_top, pooling, classes, classifier_activation)
    file = f"xception_weights_tf_dim_ordering_tf_kernels{'' if include_top else '_notop'}.h5"
    return finish(inputs, x, "xception", weights, input_tensor, file, "xception/")


def _down(x: Any, block: int, first: int, second: int) -> Any:
    """A block that halves the image."""
    shortcut = norm(L.Conv2D(second, 1, strides=2, padding="same", use_bias=False)(x))
    if block != 2:
        x = _relu(x, f"block{block}_sepconv1_act")
    x = _separable(x, first, f"block{block}_sepconv1")
    x = _separable(_relu(x, f"block{block}_sepconv2_act"), second, f"block{block}_sepconv2")
    x = L.MaxPooling2D(3, strides=2, padding="same", name=f"block{block}_pool")(x)
    return L.add([x, shortcut])


family("xception", "tf", Xception)
