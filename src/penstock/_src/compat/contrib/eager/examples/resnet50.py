"""ResNet-50 (https://arxiv.org/abs/1512.03385) as a subclassed model."""
from __future__ import annotations

from typing import Any

from penstock.compat import v1 as tf

_layers = tf.keras.layers
_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))           # filters, and blocks; stage 2 is the first


class _Block(tf.keras.Model):
    """Three convolutions with norms beside a shortcut, which is a convolution where the shape changes."""

    def __init__(self, filters: int, stage: int, letter: str, data_format: str, strides: int):
        super().__init__(name="")
        axis = 1 if data_format == "channels_first" else 3

        def pair(branch: str, count: int, size: int, stride: int = 1, padding: str = "valid") -> tuple[Any, Any]:
            end = f"{stage}{letter}_branch{branch}"
            return (_layers.Conv2D(count, size, stride, padding, data_format, name=f"res{end}"),
                    _layers.BatchNormalization(axis=axis, name=f"bn{end}"))
        self.main = [pair("2a", filters, 1, strides), pair("2b", filters, 3, padding="same"), pair("2c", 4 * filters, 1)]
        self.shortcut = pair("1", 4 * filters, 1, strides) if letter == "a" else None

    def call(self, inputs: Any, training: bool = False) -> Any:
        x = inputs
        for i, (conv, norm) in enumerate(self.main):
            x = norm(conv(tf.nn.relu(x) if i else x), training=training)
        if self.shortcut is not None:
            inputs = self.shortcut[1](self.shortcut[0](inputs), training=training)
        return tf.nn.relu(x + inputs)


class ResNet50(tf.keras.Model):
    """The network: logits of `classes` for images of 224 pixels; without its top, features, perhaps pooled (`avg`, `max`).

    >>> ResNet50("channels_last", classes=10)(images, training=False)
    """

    def __init__(self, data_format: str, name: str = "", trainable: bool = True, include_top: bool = True,
                 pooling: str | None = None, classes: int = 1000):
        super().__init__(name=name)
        if data_format not in ("channels_first", "channels_last"):
            raise ValueError(f"Unknown data_format: {data_format}. Valid values: ('channels_first', 'channels_last')")
        first = data_format == "channels_first"
        self.include_top, self.pooling, self._axes = include_top, pooling, [2, 3] if first else [1, 2]
        self.conv1 = _layers.Conv2D(64, 7, 2, "same", data_format, name="conv1")
        self.bn_conv1 = _layers.BatchNormalization(axis=1 if first else 3, name="bn_conv1")
        self.max_pool = _layers.MaxPooling2D(3, 2, data_format=data_format)
        self.blocks = [_Block(filters, stage, "abcdef"[i], data_format, 1 if i or stage == 2 else 2)
                       for stage, (filters, count) in enumerate(_STAGES, 2) for i in range(count)]
        self.avg_pool = _layers.AveragePooling2D(7, 7, data_format=data_format)
        if include_top:
            self.flatten, self.fc1000 = _layers.Flatten(), _layers.Dense(classes, name="fc1000")

    def call(self, inputs: Any, training: bool = True) -> Any:
        x = self.max_pool(tf.nn.relu(self.bn_conv1(self.conv1(inputs), training=training)))
        for block in self.blocks:
            x = block(x, training=training)
        x = self.avg_pool(x)
        if self.include_top:
            return self.fc1000(self.flatten(x))
        pool = {"avg": tf.reduce_mean, "max": tf.reduce_max}.get(self.pooling)
        return pool(x, self._axes) if pool else x
