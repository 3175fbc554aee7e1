"""Inception v1 (https://arxiv.org/abs/1409.4842), v2 (https://arxiv.org/abs/1502.03167) and v3
(https://arxiv.org/abs/1512.00567), from tables of their branches (see `branches.py`).
"""
from __future__ import annotations

from typing import Any

from penstock._src.compat.contrib.framework.arguments import arg_scope
from penstock._src.compat.contrib.layers.convolutions import convolution2d, separable_convolution2d
from penstock._src.compat.contrib.layers.dense import dropout, fully_connected
from penstock._src.compat.contrib.layers.normalization import batch_norm
from penstock._src.compat.contrib.layers.pooling import avg_pool2d, max_pool2d
from penstock._src.compat.contrib.layers.reshaping import softmax
from penstock._src.compat.contrib.slim.nets.branches import (
    AVERAGE,
    POOL,
    SHRINK,
    at_most,
    conv,
    depth_of,
    inception_arg_scope,
    named,
    run,
)
from penstock._src.compat.contrib.slim.nets.support import net
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


def _mixed_v1(a: int, b: tuple, c: tuple, d: int, last: str = "0b") -> list:
    return [[conv("0a", a, "1x1")], [conv("0a", b[0], "1x1"), conv("0b", b[1], "3x3")],
            [conv("0a", c[0], "1x1"), conv(last, c[1], "3x3")], [POOL, conv("0b", d, "1x1")]]


def _mixed_v2(a: int, b: tuple, c: tuple, d: int, pool: tuple = AVERAGE) -> list:
    return [[conv("0a", a, "1x1")], [conv("0a", b[0], "1x1", 1, 0.09), conv("0b", b[1], "3x3")],
            [conv("0a", c[0], "1x1", 1, 0.09), conv("0b", c[1], "3x3"), conv("0c", c[1], "3x3")],
            [pool, conv("0b", d, "1x1", 1, 0.1)]]


def _shrink_v2(a: tuple, b: tuple) -> list:
    return [[conv("0a", a[0], "1x1", 1, 0.09), conv("1a", a[1], "3x3", 2)],
            [conv("0a", b[0], "1x1", 1, 0.09), conv("0b", b[1], "3x3"), conv("1a", b[1], "3x3", 2)], [SHRINK]]


def _mixed_5(pool: int, first: tuple, second: tuple) -> list:
    return [[conv("0a", 64, "1x1")], [first, second],
            [conv("0a", 64, "1x1"), conv("0b", 96, "3x3"), conv("0c", 96, "3x3")], [AVERAGE, conv("0b", pool, "1x1")]]


def _mixed_6(n: int) -> list:
    return [[conv("0a", 192, "1x1")], [conv("0a", n, "1x1"), conv("0b", n, "1x7"), conv("0c", 192, "7x1")],
            [conv("0a", n, "1x1"), conv("0b", n, "7x1"), conv("0c", n, "1x7"), conv("0d", n, "7x1"),
             conv("0e", 192, "1x7")],
            [AVERAGE, conv("0b", 192, "1x1")]]


def _mixed_7(label: str) -> list:
    return [[conv("0a", 320, "1x1")], [conv("0a", 384, "1x1"), (conv("0b", 384, "1x3"), conv(label, 384, "3x1"))],
            [conv("0a", 448, "1x1"), conv("0b", 384, "3x3"), (conv("0c", 384, "1x3"), conv("0d", 384, "3x1"))],
            [AVERAGE, conv("0b", 192, "1x1")]]


_V1 = {
    "Mixed_3b": _mixed_v1(64, (96, 128), (16, 32), 32), "Mixed_3c": _mixed_v1(128, (128, 192), (32, 96), 64),
    "MaxPool_4a_3x3": 3, "Mixed_4b": _mixed_v1(192, (96, 208), (16, 48), 64),
    "Mixed_4c": _mixed_v1(160, (112, 224), (24, 64), 64), "Mixed_4d": _mixed_v1(128, (128, 256), (24, 64), 64),
    "Mixed_4e": _mixed_v1(112, (144, 288), (32, 64), 64), "Mixed_4f": _mixed_v1(256, (160, 320), (32, 128), 128),
    "MaxPool_5a_2x2": 2, "Mixed_5b": _mixed_v1(256, (160, 320), (32, 128), 128, "0a"),
    "Mixed_5c": _mixed_v1(384, (192, 384), (48, 128), 128),
}
_V2 = {
    "Mixed_3b": _mixed_v2(64, (64, 64), (64, 96), 32), "Mixed_3c": _mixed_v2(64, (64, 96), (64, 96), 64),
    "Mixed_4a": _shrink_v2((128, 160), (64, 96)), "Mixed_4b": _mixed_v2(224, (64, 96), (96, 128), 128),
    "Mixed_4c": _mixed_v2(192, (96, 128), (96, 128), 128), "Mixed_4d": _mixed_v2(160, (128, 160), (128, 160), 96),
    "Mixed_4e": _mixed_v2(96, (128, 192), (160, 192), 96), "Mixed_5a": _shrink_v2((128, 192), (192, 256)),
    "Mixed_5b": _mixed_v2(352, (192, 320), (160, 224), 128), "Mixed_5c": _mixed_v2(352, (192, 320), (192, 224), 128, POOL),
}
_V3 = {
    "Mixed_5b": _mixed_5(32, conv("0a", 48, "1x1"), conv("0b", 64, "5x5")),
    "Mixed_5c": _mixed_5(64, conv("0b", 48, "1x1"), named("Conv_1_0c_5x5", 64, [5, 5])),
    "Mixed_5d": _mixed_5(64, conv("0a", 48, "1x1"), conv("0b", 64, "5x5")),
    "Mixed_6a": [[named("Conv2d_1a_1x1", 384, [3, 3], 2)],
                 [conv("0a", 64, "1x1"), conv("0b", 96, "3x3"), named("Conv2d_1a_1x1", 96, [3, 3], 2)], [SHRINK]],
    "Mixed_6b": _mixed_6(128), "Mixed_6c": _mixed_6(160), "Mixed_6d": _mixed_6(160), "Mixed_6e": _mixed_6(192),
    "Mixed_7a": [[conv("0a", 192, "1x1"), conv("1a", 320, "3x3", 2)],
                 [conv("0a", 192, "1x1"), conv("0b", 192, "1x7"), conv("0c", 192, "7x1"), conv("1a", 192, "3x3", 2)],
                 [SHRINK]],
    "Mixed_7b": _mixed_7("0b"), "Mixed_7c": _mixed_7("0c"),
}


@net("inception_v1", also=("inception",))
def inception_v1_base(inputs: Any, final_endpoint: str = "Mixed_5c", scope: Any = "InceptionV1") -> tuple[Tensor, dict]:
    """Inception v1 up to an end point: returns its output and those of all before."""
    stem = [("Conv2d_1a_7x7", lambda x, n: convolution2d(x, 64, [7, 7], stride=2, scope=n)),
            ("MaxPool_2a_3x3", lambda x, n: max_pool2d(x, [3, 3], stride=2, scope=n)),
            ("Conv2d_2b_1x1", lambda x, n: convolution2d(x, 64, [1, 1], scope=n)),
            ("Conv2d_2c_3x3", lambda x, n: convolution2d(x, 192, [3, 3], scope=n)),
            ("MaxPool_3a_3x3", lambda x, n: max_pool2d(x, [3, 3], stride=2, scope=n))]
    with tf.variable_scope(scope, "InceptionV1", [inputs]), \
            arg_scope([convolution2d, fully_connected], weights_initializer=tf.truncated_normal_initializer(0.0, 0.01)), \
            arg_scope([convolution2d, max_pool2d], stride=1, padding="SAME"):
        return run(inputs, stem, _V1, final_endpoint)


@net("inception_v1", also=("inception",))
def inception_v1(inputs: Any, num_classes: int = 1000, is_training: Any = True, dropout_keep_prob: Any = 0.8,
                 prediction_fn: Any = softmax, spatial_squeeze: bool = True, reuse: Any = None,
                 scope: Any = "InceptionV1") -> tuple[Tensor, dict]:
    """Inception v1 for images of 224 points: returns logits and all outputs."""
    with tf.variable_scope(scope, "InceptionV1", [inputs, num_classes], reuse=reuse) as inner, \
            arg_scope([batch_norm, dropout], is_training=is_training):
        x, ends = inception_v1_base(inputs, scope=inner)
        with tf.variable_scope("Logits"):
            x = avg_pool2d(x, [7, 7], stride=1, scope="MaxPool_0a_7x7")
            x = dropout(x, dropout_keep_prob, scope="Dropout_0b")
            logits = convolution2d(x, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="Conv2d_0c_1x1")
            if spatial_squeeze:
                logits = tf.squeeze(logits, [1, 2], name="SpatialSqueeze")
        ends["Logits"], ends["Predictions"] = logits, prediction_fn(logits, scope="Predictions")
    return logits, ends


@net("inception_v2", also=("inception",))
def inception_v2_base(inputs: Any, final_endpoint: str = "Mixed_5c", min_depth: int = 16, depth_multiplier: float = 1.0,
                      scope: Any = None) -> tuple[Tensor, dict]:
    """Inception v2 up to an end point: returns its output and those of all before."""
    depth = depth_of(min_depth, depth_multiplier)
    narrow = {"weights_initializer": tf.truncated_normal_initializer(0.0, 0.1)}
    stem = [("Conv2d_1a_7x7", lambda x, n: separable_convolution2d(
                x, depth(64), [7, 7], depth_multiplier=min(depth(64) // 3, 8), stride=2, scope=n,
                weights_initializer=tf.truncated_normal_initializer(0.0, 1.0))),
            ("MaxPool_2a_3x3", lambda x, n: max_pool2d(x, [3, 3], stride=2, scope=n)),
            ("Conv2d_2b_1x1", lambda x, n: convolution2d(x, depth(64), [1, 1], scope=n, **narrow)),
            ("Conv2d_2c_3x3", lambda x, n: convolution2d(x, depth(192), [3, 3], scope=n)),
            ("MaxPool_3a_3x3", lambda x, n: max_pool2d(x, [3, 3], stride=2, scope=n))]
    with tf.variable_scope(scope, "InceptionV2", [inputs]), \
            arg_scope([convolution2d, separable_convolution2d, max_pool2d, avg_pool2d], stride=1, padding="SAME"):
        return run(inputs, stem, _V2, final_endpoint, depth, shrink="SAME")


@net("inception_v2", also=("inception",))
def inception_v2(inputs: Any, num_classes: int = 1000, is_training: Any = True, dropout_keep_prob: Any = 0.8,
                 min_depth: int = 16, depth_multiplier: float = 1.0, prediction_fn: Any = softmax, spatial_squeeze: bool = True,
                 reuse: Any = None, scope: Any = "InceptionV2") -> tuple[Tensor, dict]:
    """Inception v2 for images of 224 points: returns logits and all outputs."""
    with tf.variable_scope(scope, "InceptionV2", [inputs, num_classes], reuse=reuse) as inner, \
            arg_scope([batch_norm, dropout], is_training=is_training):
        x, ends = inception_v2_base(inputs, scope=inner, min_depth=min_depth, depth_multiplier=depth_multiplier)
        with tf.variable_scope("Logits"):
            kernel = at_most(x, 7)
            x = avg_pool2d(x, kernel, padding="VALID", scope=f"AvgPool_1a_{kernel[0]}x{kernel[1]}")
            x = dropout(x, keep_prob=dropout_keep_prob, scope="Dropout_1b")
            logits = convolution2d(x, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="Conv2d_1c_1x1")
            if spatial_squeeze:
                logits = tf.squeeze(logits, [1, 2], name="SpatialSqueeze")
        ends["Logits"], ends["Predictions"] = logits, prediction_fn(logits, scope="Predictions")
    return logits, ends


@net("inception_v3", also=("inception",))
def inception_v3_base(inputs: Any, final_endpoint: str = "Mixed_7c", min_depth: int = 16, depth_multiplier: float = 1.0,
                      scope: Any = None) -> tuple[Tensor, dict]:
    """Inception v3 up to an end point: returns its output and those of all before."""
    depth = depth_of(min_depth, depth_multiplier)

    def plain(outputs: int, kernel: int, stride: int = 1, padding: str = "VALID") -> Any:
        return lambda x, n: convolution2d(x, depth(outputs), [kernel, kernel], stride=stride, padding=padding, scope=n)

    def pool(x: Tensor, n: str) -> Tensor:
        return max_pool2d(x, [3, 3], stride=2, padding="VALID", scope=n)

    stem = [("Conv2d_1a_3x3", plain(32, 3, 2)), ("Conv2d_2a_3x3", plain(32, 3)), ("Conv2d_2b_3x3", plain(64, 3, 1, "SAME")),
            ("MaxPool_3a_3x3", pool), ("Conv2d_3b_1x1", plain(80, 1)), ("Conv2d_4a_3x3", plain(192, 3)),
            ("MaxPool_5a_3x3", pool)]
    with tf.variable_scope(scope, "InceptionV3", [inputs]):
        return run(inputs, stem, _V3, final_endpoint, depth)


@net("inception_v3", also=("inception",))
def inception_v3(inputs: Any, num_classes: int = 1000, is_training: Any = True, dropout_keep_prob: Any = 0.8,
                 min_depth: int = 16, depth_multiplier: float = 1.0, prediction_fn: Any = softmax, spatial_squeeze: bool = True,
                 reuse: Any = None, scope: Any = "InceptionV3") -> tuple[Tensor, dict]:
    """Inception v3 for images of 299 points: returns logits and all outputs, among them the auxiliary logits."""
    depth = depth_of(min_depth, depth_multiplier)
    plain = {"activation_fn": None, "normalizer_fn": None}
    with tf.variable_scope(scope, "InceptionV3", [inputs, num_classes], reuse=reuse) as inner, \
            arg_scope([batch_norm, dropout], is_training=is_training):
        x, ends = inception_v3_base(inputs, scope=inner, min_depth=min_depth, depth_multiplier=depth_multiplier)
        with tf.variable_scope("AuxLogits"):
            aux = avg_pool2d(ends["Mixed_6e"], [5, 5], stride=3, padding="VALID", scope="AvgPool_1a_5x5")
            aux = convolution2d(aux, depth(128), [1, 1], scope="Conv2d_1b_1x1")
            kernel = at_most(aux, 5)
            aux = convolution2d(aux, depth(768), kernel, weights_initializer=tf.truncated_normal_initializer(0.0, 0.01),
                                padding="VALID", scope=f"Conv2d_2a_{kernel[0]}x{kernel[1]}")
            aux = convolution2d(aux, num_classes, [1, 1], scope="Conv2d_2b_1x1",
                                weights_initializer=tf.truncated_normal_initializer(0.0, 0.001), **plain)
            ends["AuxLogits"] = tf.squeeze(aux, [1, 2], name="SpatialSqueeze") if spatial_squeeze else aux
        with tf.variable_scope("Logits"):
            kernel = at_most(x, 8)
            x = avg_pool2d(x, kernel, padding="VALID", scope=f"AvgPool_1a_{kernel[0]}x{kernel[1]}")
            ends["PreLogits"] = x = dropout(x, keep_prob=dropout_keep_prob, scope="Dropout_1b")
            logits = convolution2d(x, num_classes, [1, 1], scope="Conv2d_1c_1x1", **plain)
            if spatial_squeeze:
                logits = tf.squeeze(logits, [1, 2], name="SpatialSqueeze")
        ends["Logits"], ends["Predictions"] = logits, prediction_fn(logits, scope="Predictions")
    return logits, ends


inception_v1.default_image_size = inception_v2.default_image_size = 224
inception_v3.default_image_size = 299

for _name in ("inception_v1", "inception_v2", "inception_v3"):
    net(_name, f"{_name}_arg_scope", also=("inception",))(inception_arg_scope)
