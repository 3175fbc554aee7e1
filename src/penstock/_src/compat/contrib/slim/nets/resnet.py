"""Residual networks, v1 (https://arxiv.org/abs/1512.03385) and v2 (https://arxiv.org/abs/1603.05027)."""
from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from penstock._src.compat.contrib.framework.arguments import add_arg_scope, arg_scope
from penstock._src.compat.contrib.layers.convolutions import convolution2d
from penstock._src.compat.contrib.layers.initializers import variance_scaling_initializer
from penstock._src.compat.contrib.layers.normalization import batch_norm
from penstock._src.compat.contrib.layers.pooling import max_pool2d
from penstock._src.compat.contrib.layers.regularizers import l2_regularizer
from penstock._src.compat.contrib.layers.reshaping import softmax
from penstock._src.compat.contrib.layers.support import collect_named_outputs, convert_collection_to_dict, last_dimension
from penstock._src.compat.contrib.slim.nets.support import net
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf

_DEPTHS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3), 200: (3, 24, 36, 3)}


@net("resnet_utils")
class Block(collections.namedtuple("Block", ["scope", "unit_fn", "args"])):
    """A block of units: its scope, the function of a unit, and the arguments of each."""


@net("resnet_utils")
def subsample(inputs: Tensor, factor: int, scope: Any = None) -> Tensor:
    """Every `factor`-th point."""
    return inputs if factor == 1 else max_pool2d(inputs, [1, 1], stride=factor, scope=scope)


@net("resnet_utils")
def conv2d_same(inputs: Tensor, num_outputs: int, kernel_size: int, stride: int, rate: int = 1, scope: Any = None) -> Tensor:
    """A convolution with padding that does not depend on the size of the image."""
    if stride == 1:
        return convolution2d(inputs, num_outputs, kernel_size, stride=1, rate=rate, padding="SAME", scope=scope)
    padding = kernel_size + (kernel_size - 1) * (rate - 1) - 1
    around = [padding // 2, padding - padding // 2]
    inputs = tf.pad(inputs, [[0, 0], around, around, [0, 0]])
    return convolution2d(inputs, num_outputs, kernel_size, stride=stride, rate=rate, padding="VALID", scope=scope)


@net("resnet_utils")
@add_arg_scope
def stack_blocks_dense(net: Tensor, blocks: Any, output_stride: int | None = None, outputs_collections: Any = None) -> Tensor:
    """The blocks in sequence; after `output_stride` is reached, dilation replaces strides."""
    current, rate = 1, 1
    for block in blocks:
        with tf.variable_scope(block.scope, "block", [net]) as sc:
            for i, unit in enumerate(block.args):
                if output_stride is not None and current > output_stride:
                    raise ValueError("The target output_stride cannot be reached.")
                with tf.variable_scope(f"unit_{i + 1}", values=[net]):
                    if output_stride is not None and current == output_stride:
                        net = block.unit_fn(net, rate=rate, **dict(unit, stride=1))
                        rate *= unit.get("stride", 1)
                    else:
                        net = block.unit_fn(net, rate=1, **unit)
                        current *= unit.get("stride", 1)
            net = collect_named_outputs(outputs_collections, sc.name, net)
    if output_stride is not None and current != output_stride:
        raise ValueError("The target output_stride cannot be reached.")
    return net


@net("resnet_utils", also=("resnet_v1", "resnet_v2"))
def resnet_arg_scope(weight_decay: float = 0.0001, batch_norm_decay: float = 0.997, batch_norm_epsilon: float = 1e-5,
                     batch_norm_scale: bool = True) -> dict:
    """The default arguments of the layers of residual networks."""
    norm = {"decay": batch_norm_decay, "epsilon": batch_norm_epsilon, "scale": batch_norm_scale,
            "updates_collections": tf.GraphKeys.UPDATE_OPS}
    with arg_scope([convolution2d], weights_regularizer=l2_regularizer(weight_decay), activation_fn=tf.nn.relu,
                   weights_initializer=variance_scaling_initializer(), normalizer_fn=batch_norm, normalizer_params=norm), \
            arg_scope([batch_norm], **norm), arg_scope([max_pool2d], padding="SAME") as scope:
        return scope


@add_arg_scope
def bottleneck_v1(inputs: Tensor, depth: int, depth_bottleneck: int, stride: int, rate: int = 1,
                  outputs_collections: Any = None, scope: Any = None) -> Tensor:
    """A unit of v1: three convolutions beside a short cut, then the activation."""
    with tf.variable_scope(scope, "bottleneck_v1", [inputs]) as sc:
        if depth == last_dimension(inputs.shape, min_rank=4):
            shortcut = subsample(inputs, stride, "shortcut")
        else:
            shortcut = convolution2d(inputs, depth, [1, 1], stride=stride, activation_fn=None, scope="shortcut")
        residual = convolution2d(inputs, depth_bottleneck, [1, 1], stride=1, scope="conv1")
        residual = conv2d_same(residual, depth_bottleneck, 3, stride, rate=rate, scope="conv2")
        residual = convolution2d(residual, depth, [1, 1], stride=1, activation_fn=None, scope="conv3")
        return collect_named_outputs(outputs_collections, sc.name, tf.nn.relu(shortcut + residual))


@add_arg_scope
def bottleneck_v2(inputs: Tensor, depth: int, depth_bottleneck: int, stride: int, rate: int = 1,
                  outputs_collections: Any = None, scope: Any = None) -> Tensor:
    """A unit of v2: normalization and activation first."""
    with tf.variable_scope(scope, "bottleneck_v2", [inputs]) as sc:
        preact = batch_norm(inputs, activation_fn=tf.nn.relu, scope="preact")
        plain = {"normalizer_fn": None, "activation_fn": None}
        if depth == last_dimension(inputs.shape, min_rank=4):
            shortcut = subsample(inputs, stride, "shortcut")
        else:
            shortcut = convolution2d(preact, depth, [1, 1], stride=stride, scope="shortcut", **plain)
        residual = convolution2d(preact, depth_bottleneck, [1, 1], stride=1, scope="conv1")
        residual = conv2d_same(residual, depth_bottleneck, 3, stride, rate=rate, scope="conv2")
        residual = convolution2d(residual, depth, [1, 1], stride=1, scope="conv3", **plain)
        return collect_named_outputs(outputs_collections, sc.name, shortcut + residual)


net("resnet_v1", "bottleneck")(bottleneck_v1)
net("resnet_v2", "bottleneck")(bottleneck_v2)


def _network(version: str, unit: Callable) -> Callable:
    name, before = f"resnet_{version}", version == "v2"

    def made(inputs: Any, blocks: Any, num_classes: int | None = None, is_training: Any = True, global_pool: bool = True,
             output_stride: int | None = None, include_root_block: bool = True, reuse: Any = None,
             scope: Any = None) -> tuple[Tensor, dict]:
        with tf.variable_scope(scope, name, [inputs], reuse=reuse) as sc:
            ends = sc.original_name_scope + "_end_points"
            with arg_scope([convolution2d, unit, stack_blocks_dense], outputs_collections=ends), \
                    arg_scope([batch_norm], is_training=is_training):
                x = inputs
                if include_root_block:
                    if output_stride is not None:
                        if output_stride % 4:
                            raise ValueError("The output_stride needs to be a multiple of 4.")
                        output_stride //= 4
                    root = {"activation_fn": None, "normalizer_fn": None} if before else {}
                    with arg_scope([convolution2d], **root):
                        x = conv2d_same(x, 64, 7, stride=2, scope="conv1")
                    x = max_pool2d(x, [3, 3], stride=2, scope="pool1")
                x = stack_blocks_dense(x, blocks, output_stride)
                if before:
                    x = batch_norm(x, activation_fn=tf.nn.relu, scope="postnorm")
                if global_pool:
                    x = tf.reduce_mean(x, [1, 2], name="pool5", keepdims=True)
                if num_classes is not None:
                    x = convolution2d(x, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="logits")
                outputs = convert_collection_to_dict(ends)
                if num_classes is not None:
                    outputs["predictions"] = softmax(x, scope="predictions")
                return x, outputs

    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"A residual network {version} of the given blocks: returns the last output and those of all layers."
    made.default_image_size = 224
    return net(name, name)(made)


resnet_v1, resnet_v2 = _network("v1", bottleneck_v1), _network("v2", bottleneck_v2)


def _block(version: str, unit: Callable) -> Callable:
    def block(scope: str, base_depth: int, num_units: int, stride: int) -> Block:
        arguments = {"depth": base_depth * 4, "depth_bottleneck": base_depth, "stride": 1}
        return Block(scope, unit, [arguments] * (num_units - 1) + [{**arguments, "stride": stride}])
    block.__name__, block.__doc__ = f"resnet_{version}_block", "A block of units; the last one has the stride."
    return net(f"resnet_{version}", block.__name__)(block)


def _sized(version: str, layers: int, whole: Callable, block: Callable) -> Callable:
    name = f"resnet_{version}_{layers}"

    def made(inputs: Any, num_classes: int | None = None, is_training: Any = True, global_pool: bool = True,
             output_stride: int | None = None, reuse: Any = None, scope: Any = name) -> tuple[Tensor, dict]:
        blocks = [block(f"block{i + 1}", 64 * 2**i, count, 1 if i == 3 else 2) for i, count in enumerate(_DEPTHS[layers])]
        return whole(inputs, blocks, num_classes, is_training, global_pool, output_stride, include_root_block=True, reuse=reuse,
                     scope=scope)

    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"The residual network {version} with {layers} layers."
    made.default_image_size = 224
    return net(f"resnet_{version}", name)(made)


for _version, _unit, _whole in (("v1", bottleneck_v1, resnet_v1), ("v2", bottleneck_v2, resnet_v2)):
    _made = _block(_version, _unit)
    for _layers in _DEPTHS:
        globals()[f"resnet_{_version}_{_layers}"] = _sized(_version, _layers, _whole, _made)
