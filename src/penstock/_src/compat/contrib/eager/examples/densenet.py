"""DenseNet (https://arxiv.org/abs/1608.06993): each layer reads what all layers before it have made."""
from __future__ import annotations

from typing import Any

from penstock.compat import v1 as tf

_layers = tf.keras.layers


def _conv(filters: int, size: int, data_format: str, weight_decay: float, strides: int = 1) -> Any:
    return _layers.Conv2D(filters, size, strides, padding="same", use_bias=False, data_format=data_format,
                          kernel_initializer="he_normal", kernel_regularizer=tf.keras.regularizers.l2(weight_decay))


def _norm(data_format: str) -> Any:
    return _layers.BatchNormalization(axis=-1 if data_format == "channels_last" else 1)


class ConvBlock(tf.keras.Model):
    """Norm, ReLU and a 3×3 convolution; a bottleneck puts the same with 1×1 before it."""

    def __init__(self, num_filters: int, data_format: str, bottleneck: bool, weight_decay: float = 1e-4,
                 dropout_rate: float = 0):
        super().__init__()
        sizes = [(4 * num_filters, 1), (num_filters, 3)] if bottleneck else [(num_filters, 3)]
        self.norms = [_norm(data_format) for _ in sizes]
        self.convs = [_conv(filters, size, data_format, weight_decay) for filters, size in sizes]
        self.dropout = _layers.Dropout(dropout_rate)

    def call(self, x: Any, training: bool = True) -> Any:
        for norm, conv in zip(self.norms, self.convs):
            x = conv(tf.nn.relu(norm(x, training=training)))
        return self.dropout(x, training=training)


class TransitionBlock(tf.keras.Model):
    """Fewer channels, and half as many pixels each way."""

    def __init__(self, num_filters: int, data_format: str, weight_decay: float = 1e-4, dropout_rate: float = 0):
        super().__init__()
        self.norm, self.conv = _norm(data_format), _conv(num_filters, 1, data_format, weight_decay)
        self.pool = _layers.AveragePooling2D(data_format=data_format)

    def call(self, x: Any, training: bool = True) -> Any:
        return self.pool(self.conv(tf.nn.relu(self.norm(x, training=training))))


class DenseBlock(tf.keras.Model):
    """Convolution blocks whose outputs are put beside their inputs."""

    def __init__(self, num_layers: int, growth_rate: int, data_format: str, bottleneck: bool, weight_decay: float = 1e-4,
                 dropout_rate: float = 0):
        super().__init__()
        self.axis = -1 if data_format == "channels_last" else 1
        self.blocks = [ConvBlock(growth_rate, data_format, bottleneck, weight_decay, dropout_rate)
                       for _ in range(int(num_layers))]

    def call(self, x: Any, training: bool = True) -> Any:
        for block in self.blocks:
            x = tf.concat([x, block(x, training=training)], axis=self.axis)
        return x


class DenseNet(tf.keras.Model):
    """The whole network: dense blocks with transitions between them, and a classifier.

    >>> DenseNet(7, 2, 3, 10, -1, "channels_last")(images, training=False)
    """

    def __init__(self, depth_of_model: int, growth_rate: int, num_of_blocks: int, output_classes: int,
                 num_layers_in_each_block: Any, data_format: str, bottleneck: bool = True, compression: float = 0.5,
                 weight_decay: float = 1e-4, dropout_rate: float = 0, pool_initial: bool = False, include_top: bool = True):
        super().__init__()
        counts = _layers_in_blocks(depth_of_model, num_of_blocks, num_layers_in_each_block, bottleneck)
        self.num_layers_in_each_block, self.include_top = counts, include_top
        filters = 2 * growth_rate
        self.first = [_conv(filters, 7 if pool_initial else 3, data_format, weight_decay, 2 if pool_initial else 1)]
        self.first_norm = _norm(data_format) if pool_initial else None
        self.first_pool = _layers.MaxPooling2D(3, 2, padding="same", data_format=data_format) if pool_initial else None
        self.dense_blocks, self.transition_blocks = [], []
        for i, count in enumerate(counts):
            self.dense_blocks.append(DenseBlock(count, growth_rate, data_format, bottleneck, weight_decay, dropout_rate))
            filters = int((filters + growth_rate * count) * compression)
            if i + 1 < num_of_blocks:
                self.transition_blocks.append(TransitionBlock(filters, data_format, weight_decay, dropout_rate))
        self.last_norm = _norm(data_format)
        if include_top:
            self.last_pool = _layers.GlobalAveragePooling2D(data_format=data_format)
            self.classifier = _layers.Dense(output_classes)

    def call(self, x: Any, training: bool = True) -> Any:
        x = self.first[0](x)
        if self.first_pool is not None:
            x = self.first_pool(tf.nn.relu(self.first_norm(x, training=training)))
        for i, block in enumerate(self.dense_blocks):
            x = block(x, training=training)
            if i < len(self.transition_blocks):
                x = self.transition_blocks[i](x, training=training)
        x = tf.nn.relu(self.last_norm(x, training=training))
        return self.classifier(self.last_pool(x)) if self.include_top else x


def _layers_in_blocks(depth: int, blocks: int, given: Any, bottleneck: bool) -> list[int]:
    if isinstance(given, (list, tuple)):
        return list(given)
    if given != -1:
        return [given] * blocks
    if blocks != 3:
        raise ValueError("num_layers_in_each_block=-1 requires 3 blocks")
    if (depth - 4) % 3:
        raise ValueError("num_layers_in_each_block=-1 requires a depth of 3N+4")
    return [(depth - 4) // 3 // (2 if bottleneck else 1)] * blocks
