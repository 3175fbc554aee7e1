"""Inception v4 and Inception-ResNet v2 (both https://arxiv.org/abs/1602.07261), from tables of their branches."""
from __future__ import annotations

from typing import Any

from penstock._src.compat.contrib.framework.arguments import arg_scope
from penstock._src.compat.contrib.layers.convolutions import convolution2d
from penstock._src.compat.contrib.layers.dense import dropout, fully_connected
from penstock._src.compat.contrib.layers.normalization import batch_norm
from penstock._src.compat.contrib.layers.pooling import avg_pool2d, max_pool2d
from penstock._src.compat.contrib.layers.regularizers import l2_regularizer
from penstock._src.compat.contrib.layers.reshaping import flatten
from penstock._src.compat.contrib.slim.nets.branches import (
    AVERAGE,
    SHRINK,
    conv,
    inception_arg_scope,
    joined,
    mixed,
    named,
    run,
)
from penstock._src.compat.contrib.slim.nets.support import net
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf

_A = [[conv("0a", 96, "1x1")], [conv("0a", 64, "1x1"), conv("0b", 96, "3x3")],
      [conv("0a", 64, "1x1"), conv("0b", 96, "3x3"), conv("0c", 96, "3x3")], [AVERAGE, conv("0b", 96, "1x1")]]
_B = [[conv("0a", 384, "1x1")], [conv("0a", 192, "1x1"), conv("0b", 224, "1x7"), conv("0c", 256, "7x1")],
      [conv("0a", 192, "1x1"), conv("0b", 192, "7x1"), conv("0c", 224, "1x7"), conv("0d", 224, "7x1"), conv("0e", 256, "1x7")],
      [AVERAGE, conv("0b", 128, "1x1")]]
_C = [[conv("0a", 256, "1x1")], [conv("0a", 384, "1x1"), (conv("0b", 256, "1x3"), conv("0c", 256, "3x1"))],
      [conv("0a", 384, "1x1"), conv("0b", 448, "3x1"), conv("0c", 512, "1x3"),
       (conv("0d", 256, "1x3"), conv("0e", 256, "3x1"))],
      [AVERAGE, conv("0b", 256, "1x1")]]
_V4 = {
    "Mixed_3a": [[("max", "MaxPool_0a_3x3", 2)], [conv("0a", 96, "3x3", 2)]],
    "Mixed_4a": [[conv("0a", 64, "1x1"), conv("1a", 96, "3x3")],
                 [conv("0a", 64, "1x1"), conv("0b", 64, "1x7"), conv("0c", 64, "7x1"), conv("1a", 96, "3x3")]],
    "Mixed_5a": [[conv("1a", 192, "3x3", 2)], [SHRINK]],
    **{f"Mixed_5{n}": _A for n in "bcde"},
    "Mixed_6a": [[conv("1a", 384, "3x3", 2)], [conv("0a", 192, "1x1"), conv("0b", 224, "3x3"), conv("1a", 256, "3x3", 2)],
                 [SHRINK]],
    **{f"Mixed_6{n}": _B for n in "bcdefgh"},
    "Mixed_7a": [[conv("0a", 192, "1x1"), conv("1a", 192, "3x3", 2)],
                 [conv("0a", 256, "1x1"), conv("0b", 256, "1x7"), conv("0c", 320, "7x1"), conv("1a", 320, "3x3", 2)], [SHRINK]],
    **{f"Mixed_7{n}": _C for n in "bcd"},
}
_MIXED_5B = [[named("Conv2d_1x1", 96, [1, 1])], [conv("0a", 48, "1x1"), conv("0b", 64, "5x5")],
             [conv("0a", 64, "1x1"), conv("0b", 96, "3x3"), conv("0c", 96, "3x3")], [AVERAGE, conv("0b", 64, "1x1")]]
_MIXED_7A = [[conv("0a", 256, "1x1"), conv("1a", 384, "3x3", 2)], [conv("0a", 256, "1x1"), conv("1a", 288, "3x3", 2)],
             [conv("0a", 256, "1x1"), conv("0b", 288, "3x3"), conv("1a", 320, "3x3", 2)], [SHRINK]]
_BLOCKS = {
    "block35": [[named("Conv2d_1x1", 32, [1, 1])], [conv("0a", 32, "1x1"), conv("0b", 32, "3x3")],
                [conv("0a", 32, "1x1"), conv("0b", 48, "3x3"), conv("0c", 64, "3x3")]],
    "block17": [[named("Conv2d_1x1", 192, [1, 1])], [conv("0a", 128, "1x1"), conv("0b", 160, "1x7"), conv("0c", 192, "7x1")]],
    "block8": [[named("Conv2d_1x1", 192, [1, 1])], [conv("0a", 192, "1x1"), conv("0b", 224, "1x3"), conv("0c", 256, "3x1")]],
}


def _plain(padding: str) -> Any:
    return lambda outputs, kernel, stride=1, border=padding: lambda x, n: convolution2d(
        x, outputs, [kernel, kernel], stride=stride, padding=border, scope=n)


@net("inception_v4", also=("inception",))
def inception_v4_base(inputs: Any, final_endpoint: str = "Mixed_7d", scope: Any = None) -> tuple[Tensor, dict]:
    """Inception v4 up to an end point: returns its output and those of all before."""
    first = _plain("VALID")
    stem = [("Conv2d_1a_3x3", first(32, 3, 2)), ("Conv2d_2a_3x3", first(32, 3)), ("Conv2d_2b_3x3", first(64, 3, 1, "SAME"))]
    with tf.variable_scope(scope, "InceptionV4", [inputs]), \
            arg_scope([convolution2d, max_pool2d, avg_pool2d], stride=1, padding="SAME"):
        return run(inputs, stem, _V4, final_endpoint)


def _auxiliary(x: Tensor, num_classes: int, names: tuple[str, str, str]) -> Tensor:
    """The logits of a network inside the network, which help it to learn."""
    pool, conv_name, last = names
    with tf.variable_scope("AuxLogits"):
        x = avg_pool2d(x, [5, 5], stride=3, padding="VALID", scope=pool)
        x = convolution2d(x, 128, [1, 1], scope="Conv2d_1b_1x1")
        x = convolution2d(x, 768, x.shape.as_list()[1:3], padding="VALID", scope=conv_name)
        return fully_connected(flatten(x), num_classes, activation_fn=None, scope=last)


def _pooled(x: Tensor, name: str) -> Tensor:
    """The mean over all points of an image."""
    size = x.shape.as_list()[1:3]
    if None in size:
        return tf.reduce_mean(x, [1, 2], keepdims=True, name="global_pool")
    return avg_pool2d(x, size, padding="VALID", scope=name)


@net("inception_v4", also=("inception",))
def inception_v4(inputs: Any, num_classes: int | None = 1001, is_training: Any = True, dropout_keep_prob: Any = 0.8,
                 reuse: Any = None, scope: Any = "InceptionV4", create_aux_logits: bool = True) -> tuple[Tensor, dict]:
    """Inception v4 for images of 299 points: returns logits and all outputs; without classes, the pooled features."""
    with tf.variable_scope(scope, "InceptionV4", [inputs], reuse=reuse) as inner, \
            arg_scope([batch_norm, dropout], is_training=is_training):
        x, ends = inception_v4_base(inputs, scope=inner)
        with arg_scope([convolution2d, max_pool2d, avg_pool2d], stride=1, padding="SAME"):
            if create_aux_logits and num_classes:
                ends["AuxLogits"] = _auxiliary(ends["Mixed_6h"], num_classes, ("AvgPool_1a_5x5", "Conv2d_2a", "Aux_logits"))
            with tf.variable_scope("Logits"):
                ends["global_pool"] = x = _pooled(x, "AvgPool_1a")
                if not num_classes:
                    return x, ends
                x = dropout(x, dropout_keep_prob, scope="Dropout_1b")
                ends["PreLogitsFlatten"] = x = flatten(x, scope="PreLogitsFlatten")
                ends["Logits"] = logits = fully_connected(x, num_classes, activation_fn=None, scope="Logits")
                ends["Predictions"] = tf.nn.softmax(logits, name="Predictions")
    return logits, ends


def _residual(name: str) -> Any:
    def block(net: Tensor, scale: float = 1.0, activation_fn: Any = tf.nn.relu, scope: Any = None, reuse: Any = None,
              rate: int = 1) -> Tensor:
        with tf.variable_scope(scope, name.capitalize(), [net], reuse=reuse):
            x = joined(net, _BLOCKS[name], rate=rate)
            x = convolution2d(x, net.shape.as_list()[3], 1, normalizer_fn=None, activation_fn=None, scope="Conv2d_1x1")
            x = net + scale * x
            return activation_fn(x) if activation_fn else x

    block.__name__ = block.__qualname__ = name
    block.__doc__ = f"Branches on a grid of {name[5:]} points, scaled, beside a short cut."
    return net("inception_resnet_v2", name)(block)


block35, block17, block8 = (_residual(name) for name in _BLOCKS)


def _repeat(block: Any, count: int, **kwargs: Any) -> Any:
    def many(x: Tensor, _: str) -> Tensor:
        with tf.variable_scope("Repeat" if block is block35 else f"Repeat_{1 if block is block17 else 2}"):
            for i in range(count):
                x = block(x, scope=f"{block.__name__}_{i + 1}", **kwargs)
        return x
    return many


@net("inception_resnet_v2", also=("inception",))
def inception_resnet_v2_base(inputs: Any, final_endpoint: str = "Conv2d_7b_1x1", output_stride: int = 16,
                             align_feature_maps: bool = False, scope: Any = None,
                             activation_fn: Any = tf.nn.relu) -> tuple[Tensor, dict]:
    """Inception-ResNet v2 up to an end point: returns its output and those of all before."""
    if output_stride not in (8, 16):
        raise ValueError("output_stride must be 8 or 16.")
    border, dense = "SAME" if align_feature_maps else "VALID", output_stride == 8
    first, step = _plain(border), 1 if dense else 2

    def pool(x: Tensor, n: str) -> Tensor:
        return max_pool2d(x, 3, stride=2, padding=border, scope=n)

    def blocks(table: list) -> Any:
        return lambda x, n: mixed(x, n, table, shrink=border)

    def last(x: Tensor, n: str) -> Tensor:
        if dense:
            raise ValueError("output_stride==8 is only supported up to the PreAuxlogits end_point for now.")
        return blocks(_MIXED_7A)(x, n)

    mixed_6a = [[conv("1a", 384, "3x3", step)], [conv("0a", 256, "1x1"), conv("0b", 256, "3x3"), conv("1a", 384, "3x3", step)],
                [("max", "MaxPool_1a_3x3", step)]]
    thirty_five, eight = _repeat(block35, 10, scale=0.17, activation_fn=activation_fn), \
        _repeat(block8, 9, scale=0.20, activation_fn=activation_fn)
    stem = [("Conv2d_1a_3x3", first(32, 3, 2)), ("Conv2d_2a_3x3", first(32, 3)), ("Conv2d_2b_3x3", first(64, 3, 1, "SAME")),
            ("MaxPool_3a_3x3", pool), ("Conv2d_3b_1x1", first(80, 1)), ("Conv2d_4a_3x3", first(192, 3)),
            ("MaxPool_5a_3x3", pool), ("Mixed_5b", blocks(_MIXED_5B)),
            ("Mixed_6a", lambda x, n: blocks(mixed_6a)(thirty_five(x, n), n)),
            ("PreAuxLogits", _repeat(block17, 20, scale=0.10, activation_fn=activation_fn, rate=2 if dense else 1)),
            ("Mixed_7a", last),
            ("Conv2d_7b_1x1", lambda x, n: first(1536, 1)(block8(eight(x, n), activation_fn=None), n))]
    with tf.variable_scope(scope, "InceptionResnetV2", [inputs]), \
            arg_scope([convolution2d, max_pool2d, avg_pool2d], stride=1, padding="SAME"):
        return run(inputs, stem, {}, final_endpoint)


@net("inception_resnet_v2", also=("inception",))
def inception_resnet_v2(inputs: Any, num_classes: int | None = 1001, is_training: Any = True, dropout_keep_prob: Any = 0.8,
                        reuse: Any = None, scope: Any = "InceptionResnetV2", create_aux_logits: bool = True,
                        activation_fn: Any = tf.nn.relu) -> tuple[Tensor, dict]:
    """Inception-ResNet v2 for images of 299 points: returns logits and all outputs; without classes, the pooled features."""
    with tf.variable_scope(scope, "InceptionResnetV2", [inputs], reuse=reuse) as inner, \
            arg_scope([batch_norm, dropout], is_training=is_training):
        x, ends = inception_resnet_v2_base(inputs, scope=inner, activation_fn=activation_fn)
        if create_aux_logits and num_classes:
            ends["AuxLogits"] = _auxiliary(ends["PreAuxLogits"], num_classes, ("Conv2d_1a_3x3", "Conv2d_2a_5x5", "Logits"))
        with tf.variable_scope("Logits"):
            ends["global_pool"] = x = _pooled(x, "AvgPool_1a_8x8")
            if not num_classes:
                return x, ends
            ends["PreLogitsFlatten"] = x = dropout(flatten(x), dropout_keep_prob, is_training=is_training, scope="Dropout")
            ends["Logits"] = logits = fully_connected(x, num_classes, activation_fn=None, scope="Logits")
            ends["Predictions"] = tf.nn.softmax(logits, name="Predictions")
    return logits, ends


@net("inception_resnet_v2", also=("inception",))
def inception_resnet_v2_arg_scope(weight_decay: float = 4e-5, batch_norm_decay: float = 0.9997,
                                  batch_norm_epsilon: float = 0.001, activation_fn: Any = tf.nn.relu) -> dict:
    """The default arguments of the layers of Inception-ResNet v2."""
    decay = l2_regularizer(weight_decay)
    with arg_scope([convolution2d, fully_connected], weights_regularizer=decay, biases_regularizer=decay), \
            arg_scope([convolution2d], activation_fn=activation_fn, normalizer_fn=batch_norm,
                      normalizer_params={"decay": batch_norm_decay, "epsilon": batch_norm_epsilon, "fused": None}) as scope:
        return scope


net("inception_v4", "inception_v4_arg_scope", also=("inception",))(inception_arg_scope)
inception_v4.default_image_size = inception_resnet_v2.default_image_size = 299
