"""InceptionResNetV2 (Szegedy et al., 2016): the towers of Inception with residual connections."""
from __future__ import annotations

from typing import Any

from penstock._src.models.keras import backend as K
from penstock._src.models.keras.applications.common import channel_axis, family, finish, image_input, norm, top
from penstock.keras import layers as L

# The towers of each kind of block, each a chain of (filters, kernel).
_BLOCKS = {"block35": (((32, 1),), ((32, 1), (32, 3)), ((32, 1), (48, 3), (64, 3))),
           "block17": (((192, 1),), ((128, 1), (160, (1, 7)), (192, (7, 1)))),
           "block8": (((192, 1),), ((192, 1), (224, (1, 3)), (256, (3, 1))))}


def _conv(x: Any, filters: int, kernel: Any, strides: int = 1, padding: str = "same", name: str | None = None) -> Any:
    x = L.Conv2D(filters, kernel, strides=strides, padding=padding, use_bias=False, name=name)(x)
    x = norm(x, scale=False, name=name and name + "_bn")
    return L.Activation("relu", name=name and name + "_ac")(x)


def _chain(x: Any, *convolutions: tuple) -> Any:
    for c in convolutions:
        x = _conv(x, *c)
    return x


def _join(parts: list, name: str) -> Any:
    return L.Concatenate(axis=3 if channel_axis() == -1 else 1, name=name)(parts)


def _block(x: Any, kind: str, i: int, scale: float, activation: str | None = "relu") -> Any:
    name = f"{kind}_{i}"
    mixed = _join([_chain(x, *tower) for tower in _BLOCKS[kind]], name + "_mixed")
    up = L.Conv2D(K.int_shape(x)[channel_axis()], 1, padding="same", name=name + "_conv")(mixed)
    x = L.Lambda(lambda pair, scale: pair[0] + pair[1] * scale, output_shape=K.int_shape(x)[1:], arguments={"scale": scale},
                 name=name)([x, up])
    return x if activation is None else L.Activation(activation, name=name + "_ac")(x)


def InceptionResNetV2(include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, input_shape: Any = None,
                      pooling: Any = None, classes: int = 1000, classifier_activation: Any = "softmax") -> Any:
    """InceptionResNetV2.

    >>> model = tf.keras.applications.InceptionResNetV2(weights=None)
    """
    inputs = image_input(input_tensor, input_shape, 299, 75, include_top, weights, classes)
    x = _chain(inputs, (32, 3, 2, "valid"), (32, 3, 1, "valid"), (64, 3))
    x = L.MaxPooling2D(3, strides=2)(x)
    x = _chain(x, (80, 1, 1, "valid"), (192, 3, 1, "valid"))
    x = L.MaxPooling2D(3, strides=2)(x)
    x = _join([_conv(x, 96, 1), _chain(x, (48, 1), (64, 5)), _chain(x, (64, 1), (96, 3), (96, 3)),
               _conv(L.AveragePooling2D(3, strides=1, padding="same")(x), 64, 1)], "mixed_5b")
    for i in range(1, 11):
        x = _block(x, "block35", i, 0.17)
    x = _join([_conv(x, 384, 3, 2, "valid"), _chain(x, (256, 1), (256, 3), (384, 3, 2, "valid")),
               L.MaxPooling2D(3, strides=2)(x)], "mixed_6a")
    for i in range(1, 21):
        x = _block(x, "block17", i, 0.1)
    x = _join([_chain(x, (256, 1), (384, 3, 2, "valid")), _chain(x, (256, 1), (288, 3, 2, "valid")),
               _chain(x, (256, 1), (288, 3), (320, 3, 2, "valid")), L.MaxPooling2D(3, strides=2)(x)], "mixed_7a")
    for i in range(1, 10):
        x = _block(x, "block8", i, 0.2)
    x = _block(x, "block8", 10, 1.0, activation=None)
    x = _conv(x, 1536, 1, name="conv_7b")
    x = top(x, include_top, pooling, classes, classifier_activation, "avg_pool" if include_top else None)
    file = f"inception_resnet_v2_weights_tf_dim_ordering_tf_kernels{'' if include_top else '_notop'}.h5"
    return finish(inputs, x, "inception_resnet_v2", weights, input_tensor, file, "inception_resnet_v2/")


family("inception_resnet_v2", "tf", InceptionResNetV2)
