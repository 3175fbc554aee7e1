"""The common part of the Inception networks: blocks from tables of their branches, and the default arguments of their layers.

A branch is a list of layers: `conv(...)` or a pooling; a tuple of two layers in it represents both, joined.
"""
from __future__ import annotations

from typing import Any

from penstock._src.compat.contrib.framework.arguments import arg_scope
from penstock._src.compat.contrib.layers.convolutions import convolution2d
from penstock._src.compat.contrib.layers.dense import fully_connected
from penstock._src.compat.contrib.layers.initializers import variance_scaling_initializer
from penstock._src.compat.contrib.layers.normalization import batch_norm
from penstock._src.compat.contrib.layers.pooling import avg_pool2d, max_pool2d
from penstock._src.compat.contrib.layers.regularizers import l2_regularizer
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


def conv(label: str, outputs: int, kernel: str, stride: int = 1, stddev: float | None = None) -> tuple:
    """A convolution named after its place and kernel ("1x7"); with a spread of first weights, if it has its own."""
    return named(f"Conv2d_{label}_{kernel}", outputs, [int(k) for k in kernel.split("x")], stride, stddev)


def named(name: str, outputs: int, kernel: list, stride: int = 1, stddev: float | None = None) -> tuple:
    """A convolution with its own name."""
    return "conv", name, outputs, kernel, stride, stddev


POOL, AVERAGE = ("max", "MaxPool_0a_3x3", 1), ("avg", "AvgPool_0a_3x3", 1)
SHRINK = ("max", "MaxPool_1a_3x3", 2)


def same(d: int) -> int:
    """The depth of a network without a multiplier."""
    return d


def layer(x: Tensor, what: Any, depth: Any = same, shrink: str = "VALID", rate: int = 1) -> Tensor:
    """A layer of a branch; those that lose points (strides, names with 1a) have the padding `shrink`."""
    if isinstance(what[0], tuple):
        return tf.concat([layer(x, each, depth, shrink, rate) for each in what], 3)
    kind, name = what[:2]
    stride = what[2] if kind != "conv" else what[4]
    padding = shrink if stride != 1 or "_1a_" in name else "SAME"
    if kind != "conv":
        return (max_pool2d if kind == "max" else avg_pool2d)(x, [3, 3], stride=stride, padding=padding, scope=name)
    _, _, outputs, kernel, _, stddev = what
    own = {} if stddev is None else {"weights_initializer": tf.truncated_normal_initializer(0.0, stddev)}
    if rate != 1:
        own["rate"] = rate
    return convolution2d(x, depth(outputs), kernel, stride=stride, padding=padding, scope=name, **own)


def joined(x: Tensor, branches: list, depth: Any = same, shrink: str = "VALID", rate: int = 1) -> Tensor:
    """All branches, side by side."""
    found = []
    for number, branch in enumerate(branches):
        with tf.variable_scope(f"Branch_{number}"):
            y = x
            for each in branch:
                y = layer(y, each, depth, shrink, rate)
        found.append(y)
    return tf.concat(found, 3)


def mixed(x: Tensor, name: str, branches: list, depth: Any = same, shrink: str = "VALID") -> Tensor:
    """A block of branches in its own scope."""
    with tf.variable_scope(name):
        return joined(x, branches, depth, shrink)


def run(x: Tensor, stem: list, table: dict, final_endpoint: str, depth: Any = same,
        shrink: str = "VALID") -> tuple[Tensor, dict]:
    """The stem, then the table, as far as `final_endpoint`."""
    ends: dict[str, Tensor] = {}
    for name, make in [*stem, *table.items()]:
        if callable(make):
            x = make(x, name)
        elif isinstance(make, int):
            x = max_pool2d(x, [make, make], stride=2, scope=name)
        else:
            x = mixed(x, name, make, depth, shrink)
        ends[name] = x
        if name == final_endpoint:
            return x, ends
    raise ValueError(f"Unknown final endpoint {final_endpoint}")


def depth_of(min_depth: int, depth_multiplier: float) -> Any:
    """The function that makes a network thinner."""
    if depth_multiplier <= 0:
        raise ValueError("depth_multiplier is not greater than zero.")
    return lambda d: max(int(d * depth_multiplier), min_depth)


def at_most(x: Tensor, size: int) -> list[int]:
    """A kernel of a size, or that of the image if it is smaller."""
    height, width = x.shape.as_list()[1:3]
    return [size, size] if height is None or width is None else [min(height, size), min(width, size)]


def inception_arg_scope(weight_decay: float = 4e-5, batch_norm_var_collection: str = "moving_vars",
                        batch_norm_decay: float = 0.9997, batch_norm_epsilon: float = 0.001,
                        updates_collections: Any = tf.GraphKeys.UPDATE_OPS, use_fused_batchnorm: bool = True) -> dict:
    """The default arguments of the layers of Inception networks."""
    moving = [batch_norm_var_collection]
    norm = {"decay": batch_norm_decay, "epsilon": batch_norm_epsilon, "updates_collections": updates_collections,
            "fused": use_fused_batchnorm,
            "variables_collections": {"beta": None, "gamma": None, "moving_mean": moving, "moving_variance": moving}}
    with arg_scope([convolution2d, fully_connected], weights_regularizer=l2_regularizer(weight_decay)), \
            arg_scope([convolution2d], weights_initializer=variance_scaling_initializer(), activation_fn=tf.nn.relu,
                      normalizer_fn=batch_norm, normalizer_params=norm) as scope:
        return scope
