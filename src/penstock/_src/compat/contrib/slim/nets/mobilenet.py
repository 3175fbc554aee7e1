"""MobileNet v1 (https://arxiv.org/abs/1704.04861) and v2 (https://arxiv.org/abs/1801.04381): filters on each channel by
itself, then ones that mix channels.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from penstock._src.compat.contrib.framework.arguments import add_arg_scope, arg_scope
from penstock._src.compat.contrib.layers.convolutions import convolution2d, separable_convolution2d
from penstock._src.compat.contrib.layers.dense import dropout, fully_connected
from penstock._src.compat.contrib.layers.initializers import xavier_initializer
from penstock._src.compat.contrib.layers.normalization import batch_norm
from penstock._src.compat.contrib.layers.pooling import avg_pool2d
from penstock._src.compat.contrib.layers.regularizers import l2_regularizer
from penstock._src.compat.contrib.layers.reshaping import softmax
from penstock._src.compat.contrib.slim.nets.branches import at_most, depth_of
from penstock._src.compat.contrib.slim.nets.support import net
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


@net("mobilenet_v1")
class Conv(NamedTuple):
    """A convolution of v1."""

    kernel: list[int]
    stride: int
    depth: int


@net("mobilenet_v1")
class DepthSepConv(NamedTuple):
    """A convolution of v1 in two parts: of each channel, then between channels."""

    kernel: list[int]
    stride: int
    depth: int


_V1 = (Conv([3, 3], 2, 32), *(DepthSepConv([3, 3], stride, depth) for stride, depth in (
    (1, 64), (2, 128), (1, 128), (2, 256), (1, 256), (2, 512), *[(1, 512)] * 5, (2, 1024), (1, 1024))))
_V2 = ((1, 16), (2, 24), (1, 24), (2, 32), (1, 32), (1, 32), (2, 64), *[(1, 64)] * 3, *[(1, 96)] * 3, (2, 160), (1, 160),
       (1, 160), (1, 320))      # stride and depth of the blocks between the first and the last convolution


def _strides(wanted: list[int], output_stride: int | None) -> Iterator[tuple[int, int]]:
    """The stride and the dilation of each layer, if strides stop at `output_stride`."""
    current, rate = 1, 1
    for stride in wanted:
        if output_stride is not None and current == output_stride:
            yield 1, rate
            rate *= stride
        else:
            yield stride, 1
            current *= stride


@net("mobilenet_v1")
def mobilenet_v1_base(inputs: Any, final_endpoint: str = "Conv2d_13_pointwise", min_depth: int = 8,
                      depth_multiplier: float = 1.0, conv_defs: Any = None, output_stride: int | None = None,
                      scope: Any = None) -> tuple[Tensor, dict]:
    """MobileNet v1 up to an end point: returns its output and those of all before."""
    depth, layers = depth_of(min_depth, depth_multiplier), conv_defs or _V1
    if output_stride not in (None, 8, 16, 32):
        raise ValueError("Only allowed output_stride values are 8, 16, 32.")
    x, ends = inputs, {}
    with tf.variable_scope(scope, "MobilenetV1", [inputs]), \
            arg_scope([convolution2d, separable_convolution2d], padding="SAME", normalizer_fn=batch_norm):
        steps = _strides([each.stride for each in layers], output_stride)
        for i, (what, (stride, rate)) in enumerate(zip(layers, steps, strict=True)):
            name = f"Conv2d_{i}"
            if isinstance(what, Conv):
                parts = [(name, functools.partial(convolution2d, num_outputs=depth(what.depth), kernel_size=what.kernel,
                                                  stride=stride))]
            else:
                parts = [(f"{name}_depthwise", functools.partial(separable_convolution2d, num_outputs=None, stride=stride,
                                                                 kernel_size=what.kernel, rate=rate)),
                         (f"{name}_pointwise", functools.partial(convolution2d, num_outputs=depth(what.depth),
                                                                 kernel_size=[1, 1], stride=1))]
            for end, make in parts:
                ends[end] = x = make(x, scope=end)
                if end == final_endpoint:
                    return x, ends
    raise ValueError(f"Unknown final endpoint {final_endpoint}")


@net("mobilenet_v1")
def mobilenet_v1(inputs: Any, num_classes: int | None = 1000, dropout_keep_prob: Any = 0.999, is_training: Any = True,
                 min_depth: int = 8, depth_multiplier: float = 1.0, conv_defs: Any = None, prediction_fn: Any = softmax,
                 spatial_squeeze: bool = True, reuse: Any = None, scope: Any = "MobilenetV1",
                 global_pool: bool = False) -> tuple[Tensor, dict]:
    """MobileNet v1 for images of 224 points: returns logits and all outputs; without classes, the pooled features."""
    _check_rank(inputs)
    with tf.variable_scope(scope, "MobilenetV1", [inputs], reuse=reuse) as inner, \
            arg_scope([batch_norm, dropout], is_training=is_training):
        x, ends = mobilenet_v1_base(inputs, scope=inner, min_depth=min_depth, depth_multiplier=depth_multiplier,
                                    conv_defs=conv_defs)
        with tf.variable_scope("Logits"):
            if global_pool:
                ends["global_pool"] = x = tf.reduce_mean(x, [1, 2], keepdims=True, name="global_pool")
            else:
                ends["AvgPool_1a"] = x = avg_pool2d(x, at_most(x, 7), padding="VALID", scope="AvgPool_1a")
            if not num_classes:
                return x, ends
            x = dropout(x, keep_prob=dropout_keep_prob, scope="Dropout_1b")
            logits = convolution2d(x, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="Conv2d_1c_1x1")
            if spatial_squeeze:
                logits = tf.squeeze(logits, [1, 2], name="SpatialSqueeze")
        ends["Logits"] = logits
        if prediction_fn:
            ends["Predictions"] = prediction_fn(logits, scope="Predictions")
    return logits, ends


def _check_rank(inputs: Any) -> None:
    rank = inputs.shape.rank
    if rank != 4:
        raise ValueError(f"Invalid input tensor rank, expected 4, was: {rank}")


@net("mobilenet_v1")
def mobilenet_v1_arg_scope(is_training: Any = True, weight_decay: float = 4e-5, stddev: float = 0.09,
                           regularize_depthwise: bool = False, batch_norm_decay: float = 0.9997,
                           batch_norm_epsilon: float = 0.001,
                           batch_norm_updates_collections: Any = tf.GraphKeys.UPDATE_OPS) -> dict:
    """The default arguments of the layers of MobileNet v1."""
    norm = {"center": True, "scale": True, "decay": batch_norm_decay, "epsilon": batch_norm_epsilon,
            "updates_collections": batch_norm_updates_collections}
    if is_training is not None:
        norm["is_training"] = is_training
    decay = l2_regularizer(weight_decay)
    with arg_scope([convolution2d, separable_convolution2d], activation_fn=tf.nn.relu6, normalizer_fn=batch_norm,
                   weights_initializer=tf.truncated_normal_initializer(stddev=stddev)), \
            arg_scope([batch_norm], **norm), arg_scope([convolution2d], weights_regularizer=decay), \
            arg_scope([separable_convolution2d], weights_regularizer=decay if regularize_depthwise else None) as scope:
        return scope


def _divisible(value: float, divisor: int, least: int) -> int:
    """The nearest multiple of the divisor that loses no more than a tenth."""
    found = max(least, int(value + divisor / 2) // divisor * divisor)
    return found + divisor if found < 0.9 * value else found


def _expanded(x: Tensor, name: str, outputs: int, factor: int, stride: int, rate: int, ends: dict) -> Tensor:
    """A block of v2: more channels, a filter on each, fewer channels; beside a short cut, where the shape stays."""
    channels = x.shape.as_list()[3]
    with tf.variable_scope(None, "expanded_conv") as scope, tf.name_scope(scope.original_name_scope):
        y = x = tf.identity(x, "input")
        if factor > 1:
            y = convolution2d(y, _divisible(channels * factor, 8, 8), [1, 1], scope="expand")
            ends[f"{name}/expansion_output"] = y = tf.identity(y, "expansion_output")
        y = separable_convolution2d(y, None, [3, 3], stride=stride, rate=rate, scope="depthwise")
        ends[f"{name}/depthwise_output"] = y = tf.identity(y, "depthwise_output")
        y = convolution2d(y, outputs, [1, 1], activation_fn=tf.identity, scope="project")
        if stride == 1 and channels == outputs:
            y = y + x
        ends[f"{name}/output"] = y = tf.identity(y, "output")
    return y


@add_arg_scope
def mobilenet_v2(input_tensor: Any, num_classes: int | None = 1001, depth_multiplier: float = 1.0, scope: Any = "MobilenetV2",
                 finegrain_classification_mode: bool = False, min_depth: int = 8, divisible_by: int = 8,
                 activation_fn: Any = None, prediction_fn: Any = softmax, reuse: Any = None, base_only: bool = False,
                 final_endpoint: str | None = None, output_stride: int | None = None,
                 is_training: Any = False) -> tuple[Tensor, dict]:
    """MobileNet v2 for images of 224 points: returns logits and all outputs. For training, build it in `training_scope()`."""
    _check_rank(input_tensor)
    if depth_multiplier <= 0:
        raise ValueError("multiplier is not greater than zero.")
    if output_stride is not None and (output_stride == 0 or (output_stride > 1 and output_stride % 2)):
        raise ValueError("Output stride must be None, 1 or a multiple of 2.")
    with tf.variable_scope(scope, "MobilenetV2", reuse=reuse) as inner:
        x, ends = tf.identity(input_tensor, "input"), {}
        wide = 1280 / depth_multiplier if finegrain_classification_mode and depth_multiplier < 1 else 1280
        with tf.name_scope(inner.original_name_scope), arg_scope([batch_norm], is_training=is_training), \
                arg_scope([batch_norm], center=True, scale=True), \
                arg_scope([convolution2d, fully_connected, separable_convolution2d], normalizer_fn=batch_norm,
                          activation_fn=activation_fn or tf.nn.relu6), \
                arg_scope([convolution2d, separable_convolution2d], padding="SAME"):
            x = _v2_layers(x, ends, lambda d: _divisible(d * depth_multiplier, divisible_by, min_depth), wide, final_endpoint,
                           output_stride)
        if base_only:
            return x, ends
        x = tf.identity(x, name="embedding")
        with tf.variable_scope("Logits"):
            ends["global_pool"] = x = tf.reduce_mean(x, [1, 2], keepdims=True)
            if not num_classes:
                return x, ends
            x = dropout(x, scope="Dropout", is_training=is_training)
            x = convolution2d(x, num_classes, [1, 1], activation_fn=None, normalizer_fn=None,
                              biases_initializer=tf.zeros_initializer(), scope="Conv2d_1c_1x1")
            ends["Logits"] = logits = tf.identity(tf.squeeze(x, [1, 2]), name="output")
        if prediction_fn:
            ends["Predictions"] = prediction_fn(logits, "Predictions")
    return logits, ends


def _v2_layers(x: Tensor, ends: dict, depth: Callable, wide: float, final_endpoint: str | None,
               output_stride: int | None) -> Tensor:
    steps = list(_strides([2, *(stride for stride, _ in _V2), 1], output_stride))
    for i, (stride, rate) in enumerate(steps):
        name = f"layer_{i + 1}"
        if i == 0:
            x = convolution2d(x, depth(32), [3, 3], stride=stride, rate=rate)
        elif i == len(steps) - 1:
            x = convolution2d(x, depth(wide), [1, 1], stride=stride, rate=rate)
        else:
            x = _expanded(x, name, depth(_V2[i - 1][1]), 1 if i == 1 else 6, stride, rate, ends)
        ends[name] = x
        if name == final_endpoint:
            break
    return x


def mobilenet_v2_base(input_tensor: Any, depth_multiplier: float = 1.0, **kwargs: Any) -> tuple[Tensor, dict]:
    """MobileNet v2 without pooling and logits."""
    return mobilenet_v2(input_tensor, depth_multiplier=depth_multiplier, base_only=True, **kwargs)


def training_scope(is_training: Any = True, weight_decay: float = 4e-5, stddev: float = 0.09, dropout_keep_prob: Any = 0.8,
                   bn_decay: float = 0.997) -> dict:
    """The arguments with which MobileNet v2 is trained."""
    initializer = xavier_initializer() if stddev < 0 else tf.truncated_normal_initializer(stddev=stddev)
    with arg_scope([convolution2d, fully_connected, separable_convolution2d], weights_initializer=initializer,
                   normalizer_fn=batch_norm), \
            arg_scope([mobilenet_v2], is_training=is_training), \
            arg_scope([batch_norm], is_training=is_training, decay=bn_decay), \
            arg_scope([dropout], is_training=is_training, keep_prob=dropout_keep_prob), \
            arg_scope([convolution2d], weights_regularizer=l2_regularizer(weight_decay)), \
            arg_scope([separable_convolution2d], weights_regularizer=None) as scope:
        return scope


def _thinner(whole: Callable, name: str, module: str, also: tuple[str, ...] = (), **fixed: Any) -> Callable:
    made: Any = functools.partial(whole, **fixed)
    functools.update_wrapper(made, whole)
    made.__name__ = name
    return net(module, name, also=also)(made)


mobilenet_v1.default_image_size = mobilenet_v2.default_image_size = 224
net("mobilenet_v2", "mobilenet", "mobilenet_v2", also=("mobilenet.mobilenet_v2",))(mobilenet_v2)
net("mobilenet_v2", "mobilenet_base", also=("mobilenet.mobilenet_v2",))(mobilenet_v2_base)
net("mobilenet_v2", "training_scope", also=("mobilenet.mobilenet_v2",))(training_scope)
for _percent in (75, 50, 25):
    _thinner(mobilenet_v1, f"mobilenet_v1_{_percent:03}", "mobilenet_v1", depth_multiplier=_percent / 100)
for _percent in (140, 50, 35):
    _thinner(mobilenet_v2, f"mobilenet_v2_{_percent:03}", "mobilenet_v2", ("mobilenet.mobilenet_v2",),
             depth_multiplier=_percent / 100, finegrain_classification_mode=_percent < 100)
