"""Initializers that inspect the number of inputs and outputs of a weight."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


def _export(*names: str) -> Callable:
    return export(v1=[f"contrib.{p}.{n}" for n in names for p in ("layers", "slim", "slim.initializers")])


@_export("variance_scaling_initializer")
def variance_scaling_initializer(factor: float = 2.0, mode: str = "FAN_IN", uniform: bool = False, seed: int | None = None,
                                 dtype: Any = tf.float32) -> Callable:
    """Random weights with variance `factor / n`, where n is the number of inputs, of outputs, or their mean.

    Args:
        factor: Factor of the variance.
        mode: `"FAN_IN"`, `"FAN_OUT"` or `"FAN_AVG"`.
        uniform: Whether to draw from a uniform distribution instead of a normal one.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.
        dtype: Floating-point type.

    Returns:
        An initializer.

    >>> with tf.Graph().as_default():
    ...     w = tf.get_variable("w", [3, 4], initializer=tf.contrib.layers.variance_scaling_initializer())
    >>> w.shape
    TensorShape([3, 4])
    """
    if not tf.as_dtype(dtype).is_floating:
        raise TypeError("Cannot create initializer for non-floating point type.")
    if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise TypeError(f"Unknown mode {mode} [FAN_IN, FAN_OUT, FAN_AVG]")

    def initializer(shape: Any, dtype: Any = dtype, partition_info: Any = None) -> Tensor:
        if not tf.as_dtype(dtype).is_floating:
            raise TypeError("Cannot create initializer for non-floating point type.")
        shape = [int(d) for d in shape]
        field = math.prod(shape[:-2])
        fan_in = float(shape[-2] if len(shape) > 1 else shape[-1]) * field if shape else 1.0
        fan_out = float(shape[-1]) * field if shape else 1.0
        n = {"FAN_IN": fan_in, "FAN_OUT": fan_out, "FAN_AVG": (fan_in + fan_out) / 2.0}[mode]
        if uniform:
            limit = math.sqrt(3.0 * factor / n)
            return tf.random_uniform(shape, -limit, limit, dtype, seed=seed)
        return tf.truncated_normal(shape, 0.0, math.sqrt(1.3 * factor / n), dtype, seed=seed)     # 1.3: what is cut off

    return initializer


@_export("xavier_initializer", "xavier_initializer_conv2d")
def xavier_initializer(uniform: bool = True, seed: int | None = None, dtype: Any = tf.float32) -> Callable:
    """Random weights that keep the scale of gradients about the same in all layers (Glorot and Bengio).

    Args:
        uniform: Whether to draw from a uniform distribution instead of a normal one.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.
        dtype: Floating-point type.

    Returns:
        An initializer.

    >>> with tf.Graph().as_default():
    ...     w = tf.get_variable("w", [3, 4], initializer=tf.contrib.layers.xavier_initializer())
    >>> w.shape
    TensorShape([3, 4])
    """
    return variance_scaling_initializer(factor=1.0, mode="FAN_AVG", uniform=uniform, seed=seed, dtype=dtype)
