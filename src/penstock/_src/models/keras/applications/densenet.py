"""DenseNet (Huang et al., 2016): the input of each layer of a block is the outputs of all layers before it."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.models.keras import backend as K
from penstock._src.models.keras.applications.common import channel_axis, family, finish, image_input, norm, top
from penstock.keras import layers as L


def _activated(x: Any, name: str) -> Any:
    return L.Activation("relu", name=name + "relu")(norm(x, name + "bn", epsilon=1.001e-5))


def _layer(x: Any, growth: int, name: str) -> Any:
    y = L.Conv2D(4 * growth, 1, use_bias=False, name=name + "_1_conv")(_activated(x, name + "_0_"))
    y = L.Conv2D(growth, 3, padding="same", use_bias=False, name=name + "_2_conv")(_activated(y, name + "_1_"))
    return L.Concatenate(axis=3 if channel_axis() == -1 else 1, name=name + "_concat")([x, y])


def _densenet(name: str, blocks: tuple, include_top: bool, weights: Any, input_tensor: Any, input_shape: Any, pooling: Any,
              classes: int, classifier_activation: Any) -> Any:
    inputs = image_input(input_tensor, input_shape, 224, 32, include_top, weights, classes)
    x = L.ZeroPadding2D(((3, 3), (3, 3)))(inputs)
    x = _activated(L.Conv2D(64, 7, strides=2, use_bias=False, name="conv1_conv")(x), "conv1_")
    x = L.ZeroPadding2D(((1, 1), (1, 1)))(x)
    x = L.MaxPooling2D(3, strides=2, name="pool1")(x)
    for stage, count in enumerate(blocks, 2):
        for i in range(1, count + 1):
            x = _layer(x, 32, f"conv{stage}_block{i}")
        if stage < 5:
            half = K.int_shape(x)[channel_axis()] // 2
            x = L.Conv2D(half, 1, use_bias=False, name=f"pool{stage}_conv")(_activated(x, f"pool{stage}_"))
            x = L.AveragePooling2D(2, strides=2, name=f"pool{stage}_pool")(x)
    x = top(_activated(x, ""), include_top, pooling, classes, classifier_activation)
    file = f"{name}_weights_tf_dim_ordering_tf_kernels{'' if include_top else '_notop'}.h5"
    return finish(inputs, x, name, weights, input_tensor, file, "densenet/")


def _maker(depth: int, blocks: tuple) -> Callable:
    def build(include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, input_shape: Any = None,
              pooling: Any = None, classes: int = 1000, classifier_activation: Any = "softmax") -> Any:
        return _densenet(f"densenet{depth}", blocks, include_top, weights, input_tensor, input_shape, pooling, classes,
                         classifier_activation)
    build.__name__ = build.__qualname__ = f"DenseNet{depth}"
    build.__doc__ = f"DenseNet with {depth} layers."
    return build


DenseNet121, DenseNet169, DenseNet201 = (_maker(121, (6, 12, 24, 16)), _maker(169, (6, 12, 32, 32)),
                                         _maker(201, (6, 12, 48, 32)))
family("densenet", "torch", DenseNet121, DenseNet169, DenseNet201)
