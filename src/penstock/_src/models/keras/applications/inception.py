"""InceptionV3 (Szegedy et al., 2015): convolutions of several sizes beside each other."""
from __future__ import annotations

from typing import Any

from penstock._src.models.keras.applications.common import channel_axis, family, finish, image_input, norm, top
from penstock.keras import layers as L


def _conv(x: Any, filters: int, rows: int, columns: int, padding: str = "same", strides: int = 1) -> Any:
    x = L.Conv2D(filters, (rows, columns), strides=strides, padding=padding, use_bias=False)(x)
    return L.Activation("relu")(norm(x, scale=False))


def _chain(x: Any, *convolutions: tuple) -> Any:
    for c in convolutions:
        x = _conv(x, *c)
    return x


def _pooled(x: Any, filters: int) -> Any:
    return _conv(L.AveragePooling2D(3, strides=1, padding="same")(x), filters, 1, 1)


def _join(parts: list, name: str | None) -> Any:
    return L.concatenate(parts, axis=3 if channel_axis() == -1 else 1, name=name)


def InceptionV3(include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, input_shape: Any = None,
                pooling: Any = None, classes: int = 1000, classifier_activation: Any = "softmax") -> Any:
    """InceptionV3.

    >>> model = tf.keras.applications.InceptionV3(weights=None)
    """
    inputs = image_input(input_tensor, input_shape, 299, 75, include_top, weights, classes)
    x = _chain(inputs, (32, 3, 3, "valid", 2), (32, 3, 3, "valid"), (64, 3, 3))
    x = L.MaxPooling2D(3, strides=2)(x)
    x = _chain(x, (80, 1, 1, "valid"), (192, 3, 3, "valid"))
    x = L.MaxPooling2D(3, strides=2)(x)
    for i, width in enumerate((32, 64, 64)):
        x = _join([_conv(x, 64, 1, 1), _chain(x, (48, 1, 1), (64, 5, 5)), _chain(x, (64, 1, 1), (96, 3, 3), (96, 3, 3)),
                   _pooled(x, width)], f"mixed{i}")
    x = _join([_conv(x, 384, 3, 3, "valid", 2), _chain(x, (64, 1, 1), (96, 3, 3), (96, 3, 3, "valid", 2)),
               L.MaxPooling2D(3, strides=2)(x)], "mixed3")
    for i, n in enumerate((128, 160, 160, 192), 4):
        x = _join([_conv(x, 192, 1, 1), _chain(x, (n, 1, 1), (n, 1, 7), (192, 7, 1)),
                   _chain(x, (n, 1, 1), (n, 7, 1), (n, 1, 7), (n, 7, 1), (192, 1, 7)), _pooled(x, 192)], f"mixed{i}")
    x = _join([_chain(x, (192, 1, 1), (320, 3, 3, "valid", 2)),
               _chain(x, (192, 1, 1), (192, 1, 7), (192, 7, 1), (192, 3, 3, "valid", 2)), L.MaxPooling2D(3, strides=2)(x)],
              "mixed8")
    for i in range(2):
        one = _conv(x, 320, 1, 1)
        y = _conv(x, 384, 1, 1)
        three = _join([_conv(y, 384, 1, 3), _conv(y, 384, 3, 1)], f"mixed9_{i}")
        y = _chain(x, (448, 1, 1), (384, 3, 3))
        double = _join([_conv(y, 384, 1, 3), _conv(y, 384, 3, 1)], None)
        x = _join([one, three, double, _pooled(x, 192)], f"mixed{9 + i}")
    x = top(x, include_top, pooling, classes, classifier_activation, "avg_pool" if include_top else None)
    file = f"inception_v3_weights_tf_dim_ordering_tf_kernels{'' if include_top else '_notop'}.h5"
    return finish(inputs, x, "inception_v3", weights, input_tensor, file, "inception_v3/")


family("inception_v3", "tf", InceptionV3)
