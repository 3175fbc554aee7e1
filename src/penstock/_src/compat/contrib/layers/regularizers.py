"""Regularizers: functions from a weight to a loss."""
from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


def _export(name: str) -> Callable:
    return export(v1=[f"contrib.{p}.{name}" for p in ("layers", "slim", "slim.regularizers")])


def _scaled(scale: Any, scope: str | None, name: str, measure: Callable) -> Callable:
    if isinstance(scale, numbers.Integral):
        raise ValueError(f"scale cannot be an integer: {scale}")
    if isinstance(scale, numbers.Real):
        if scale < 0.0:
            raise ValueError(f"The scale of a regularizer must not be negative: {scale:g}.")
        if scale == 0.0:
            logging.info("Scale of 0 disables regularizer.")
            return lambda _: None

    def regularize(weights: Tensor) -> Tensor:
        with tf.name_scope(scope, name, [weights]) as inside:
            factor = tf.convert_to_tensor(scale, dtype=weights.dtype.base_dtype, name="scale")
            return tf.multiply(factor, measure(weights), name=inside)

    return regularize


@_export("l1_regularizer")
def l1_regularizer(scale: Any, scope: str | None = None) -> Callable:
    """`scale` times the sum of absolute values.

    Args:
        scale: Factor; 0 returns a regularizer that adds nothing.
        scope: Prefix of the names of the layer's variables and operations.

    Returns:
        A function of weights.

    >>> tf.contrib.layers.l1_regularizer(0.1)(tf.constant([3., -4.])).numpy()
    np.float32(0.7)
    """
    return _scaled(scale, scope, "l1_regularizer", lambda w: tf.reduce_sum(tf.abs(w)))


@_export("l2_regularizer")
def l2_regularizer(scale: Any, scope: str | None = None) -> Callable:
    """`scale` times half the sum of squares.

    Args:
        scale: Factor; 0 returns a regularizer that adds nothing.
        scope: Prefix of the names of the layer's variables and operations.

    Returns:
        A function of weights.

    >>> tf.contrib.layers.l2_regularizer(0.1)(tf.constant([3., 4.])).numpy()
    np.float32(1.25)
    """
    return _scaled(scale, scope, "l2_regularizer", lambda w: tf.nn.l2_loss(w))


@_export("l1_l2_regularizer")
def l1_l2_regularizer(scale_l1: Any = 1.0, scale_l2: Any = 1.0, scope: str | None = None) -> Callable | None:
    """The sum of both."""
    for name, scale in (("scale_l1", scale_l1), ("scale_l2", scale_l2)):
        if isinstance(scale, numbers.Integral):
            raise ValueError(f"{name} cannot be an integer: {scale}")
    scope = scope or "l1_l2_regularizer"
    if scale_l1 == 0.0:
        return l2_regularizer(scale_l2, scope)
    if scale_l2 == 0.0:
        return l1_regularizer(scale_l1, scope)
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope=scope)


@_export("sum_regularizer")
def sum_regularizer(regularizer_list: Any, scope: str | None = None) -> Callable | None:
    """The sum of several; None of none."""
    regularizers = [r for r in regularizer_list if r is not None]
    if not regularizers:
        return None

    def summed(weights: Tensor) -> Tensor | None:
        with tf.name_scope(scope, "sum_regularizer", [weights]) as inside:
            losses = [loss for loss in (r(weights) for r in regularizers) if loss is not None]
            return tf.add_n(losses, name=inside) if losses else None

    return summed


@_export("apply_regularization")
def apply_regularization(regularizer: Callable, weights_list: Any = None) -> Tensor:
    """The sum of a regularizer over weights, which also goes to the collection of regularization losses."""
    weights_list = weights_list or tf.get_collection(tf.GraphKeys.WEIGHTS)
    if not weights_list:
        raise ValueError("No weights to regularize.")
    with tf.name_scope("get_regularization_penalty", values=weights_list) as scope:
        penalties = [tf.constant(0.0) if p is None else p for p in map(regularizer, weights_list)]
        for p in penalties:
            if p.shape.ndims != 0:
                raise ValueError(f"regularizer must return a scalar Tensor instead of a Tensor with rank {p.shape.ndims}.")
        total = tf.add_n(penalties, name=scope)
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, total)
        return total
