"""Networks that are one chain of layers: AlexNet, OverFeat and VGG."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.compat.contrib.framework.arguments import arg_scope
from penstock._src.compat.contrib.layers.convolutions import convolution2d
from penstock._src.compat.contrib.layers.dense import dropout, fully_connected, repeat
from penstock._src.compat.contrib.layers.pooling import max_pool2d
from penstock._src.compat.contrib.layers.regularizers import l2_regularizer
from penstock._src.compat.contrib.slim.nets.support import net, squeezed
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


def _arg_scope(weight_decay: float, biases: Any, pool: str | None) -> dict:
    with arg_scope([convolution2d, fully_connected], activation_fn=tf.nn.relu, biases_initializer=biases,
                   weights_regularizer=l2_regularizer(weight_decay)), arg_scope([convolution2d], padding="SAME") as scope:
        if pool is None:
            return scope
        with arg_scope([max_pool2d], padding=pool) as scope:
            return scope


def _classified(x: Tensor, features: tuple[int, int], kernel: int, num_classes: int, is_training: Any, keep: Any,
                zero: bool) -> Tensor:
    """The three fully connected layers at the end, as convolutions."""
    x = convolution2d(x, features[0], [kernel, kernel], padding="VALID", scope="fc6")
    x = dropout(x, keep, is_training=is_training, scope="dropout6")
    x = convolution2d(x, features[1], [1, 1], scope="fc7")
    x = dropout(x, keep, is_training=is_training, scope="dropout7")
    last = {"biases_initializer": tf.zeros_initializer()} if zero else {}
    return convolution2d(x, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="fc8", **last)


@net("alexnet")
def alexnet_v2_arg_scope(weight_decay: float = 0.0005) -> dict:
    """The default arguments of AlexNet's layers."""
    return _arg_scope(weight_decay, tf.constant_initializer(0.1), "VALID")


@net("alexnet")
def alexnet_v2(inputs: Any, num_classes: int = 1000, is_training: Any = True, dropout_keep_prob: Any = 0.5,
               spatial_squeeze: bool = True, scope: Any = "alexnet_v2") -> tuple[Tensor, dict]:
    """AlexNet (https://arxiv.org/abs/1404.5997) for images of 224 points: returns logits and all outputs."""
    with tf.variable_scope(scope, "alexnet_v2", [inputs]) as sc:
        ends = sc.original_name_scope + "_end_points"
        with arg_scope([convolution2d, fully_connected, max_pool2d], outputs_collections=[ends]):
            x = convolution2d(inputs, 64, [11, 11], 4, padding="VALID", scope="conv1")
            x = max_pool2d(x, [3, 3], 2, scope="pool1")
            x = convolution2d(x, 192, [5, 5], scope="conv2")
            x = max_pool2d(x, [3, 3], 2, scope="pool2")
            for number, depth in ((3, 384), (4, 384), (5, 256)):
                x = convolution2d(x, depth, [3, 3], scope=f"conv{number}")
            x = max_pool2d(x, [3, 3], 2, scope="pool5")
            with arg_scope([convolution2d], weights_initializer=tf.truncated_normal_initializer(0.0, 0.005),
                           biases_initializer=tf.constant_initializer(0.1)):
                x = _classified(x, (4096, 4096), 5, num_classes, is_training, dropout_keep_prob, True)
            return squeezed(x, sc, ends, spatial_squeeze)


alexnet_v2.default_image_size = 224


@net("overfeat")
def overfeat_arg_scope(weight_decay: float = 0.0005) -> dict:
    """The default arguments of OverFeat's layers."""
    return _arg_scope(weight_decay, tf.zeros_initializer(), "VALID")


@net("overfeat")
def overfeat(inputs: Any, num_classes: int = 1000, is_training: Any = True, dropout_keep_prob: Any = 0.5,
             spatial_squeeze: bool = True, scope: Any = "overfeat") -> tuple[Tensor, dict]:
    """OverFeat (https://arxiv.org/abs/1312.6229) for images of 231 points: returns logits and all outputs."""
    with tf.variable_scope(scope, "overfeat", [inputs]) as sc:
        ends = sc.name + "_end_points"
        with arg_scope([convolution2d, fully_connected, max_pool2d], outputs_collections=ends):
            x = convolution2d(inputs, 64, [11, 11], 4, padding="VALID", scope="conv1")
            x = max_pool2d(x, [2, 2], scope="pool1")
            x = convolution2d(x, 256, [5, 5], padding="VALID", scope="conv2")
            x = max_pool2d(x, [2, 2], scope="pool2")
            for number, depth in ((3, 512), (4, 1024), (5, 1024)):
                x = convolution2d(x, depth, [3, 3], scope=f"conv{number}")
            x = max_pool2d(x, [2, 2], scope="pool5")
            with arg_scope([convolution2d], weights_initializer=tf.truncated_normal_initializer(0.0, 0.005),
                           biases_initializer=tf.constant_initializer(0.1)):
                x = _classified(x, (3072, 4096), 6, num_classes, is_training, dropout_keep_prob, True)
            return squeezed(x, sc, ends, spatial_squeeze)


overfeat.default_image_size = 231


@net("vgg")
def vgg_arg_scope(weight_decay: float = 0.0005) -> dict:
    """The default arguments of VGG's layers."""
    return _arg_scope(weight_decay, tf.zeros_initializer(), None)


def _vgg(name: str, repetitions: tuple[int, ...], *names: str) -> Callable:
    def made(inputs: Any, num_classes: int = 1000, is_training: Any = True, dropout_keep_prob: Any = 0.5,
             spatial_squeeze: bool = True, scope: Any = name) -> tuple[Tensor, dict]:
        with tf.variable_scope(scope, name, [inputs]) as sc:
            ends, x = sc.original_name_scope + "_end_points", inputs
            with arg_scope([convolution2d, fully_connected, max_pool2d], outputs_collections=ends):
                for number, (count, depth) in enumerate(zip(repetitions, (64, 128, 256, 512, 512), strict=True), 1):
                    x = repeat(x, count, convolution2d, depth, [3, 3], scope=f"conv{number}")
                    x = max_pool2d(x, [2, 2], scope=f"pool{number}")
                x = _classified(x, (4096, 4096), 7, num_classes, is_training, dropout_keep_prob, False)
                return squeezed(x, sc, ends, spatial_squeeze)

    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"{name} (https://arxiv.org/abs/1409.1556) for images of 224 points: gives logits and all outputs."
    made.default_image_size = 224
    return net("vgg", name, *names)(made)


vgg_a = _vgg("vgg_a", (1, 1, 2, 2, 2))
vgg_16 = _vgg("vgg_16", (2, 2, 3, 3, 3), "vgg_d")
vgg_19 = _vgg("vgg_19", (2, 2, 4, 4, 4), "vgg_e")
