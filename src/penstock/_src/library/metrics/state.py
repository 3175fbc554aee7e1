"""Shared by all metrics: variables, collections, and matching the shapes of labels, predictions and weights."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.convert import convert
from penstock._src.ops.math.confusion import remove_squeezable_dimensions
from penstock.compat import v1 as tf


def graph_only(metric: Callable) -> Callable:
    """Makes a metric raise RuntimeError in eager execution."""
    @functools.wraps(metric)
    def call(*args: Any, **kwargs: Any) -> Any:
        if context.executing_eagerly():
            raise RuntimeError(f"tf.metrics.{metric.__name__} is not supported when eager execution is enabled.")
        return metric(*args, **kwargs)
    return call


def metric_variable(shape: Any, dtype: Any, name: str) -> Any:
    """A local variable that starts at zero. Under a strategy, replicas add to their own, and read the sum of all."""
    made = tf.Variable(lambda: tf.zeros(shape, dtype), trainable=False, name=name,
                       collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES],
                       synchronization=tf.VariableSynchronization.ON_READ, aggregation=tf.VariableAggregation.SUM)
    made._sum_when_read = True
    return made


def published(value: Any, update: Any, metrics_collections: Any, updates_collections: Any) -> tuple[Any, Any]:
    """The two results of a metric, added to the collections that the caller named."""
    if metrics_collections:
        tf.add_to_collections(metrics_collections, value)
    if updates_collections:
        tf.add_to_collections(updates_collections, update)
    return value, update


def aligned(predictions: Any, labels: Any, weights: Any) -> tuple[Any, Any, Any]:
    """Predictions, labels and weights without a last axis of size 1 that only one of them has."""
    predictions = convert(predictions, name="predictions")
    if labels is not None:
        labels, predictions = remove_squeezable_dimensions(labels, predictions)
        predictions.shape.assert_is_compatible_with(labels.shape)
    return predictions, labels, None if weights is None else _aligned_weights(convert(weights, name="weights"), predictions)


def _aligned_weights(weights: Any, predictions: Any) -> Any:
    rank, wanted = weights.shape.ndims, predictions.shape.ndims
    if rank == 0:
        return weights
    if rank is not None and wanted is not None:
        if rank - wanted == 1:
            return tf.squeeze(weights, [-1])
        return tf.expand_dims(weights, -1) if wanted - rank == 1 else weights
    more = tf.rank(weights) - tf.rank(predictions)

    def widened() -> Any:
        return tf.cond(tf.equal(more, -1), lambda: tf.expand_dims(weights, -1), lambda: weights)
    if rank is not None and weights.shape.as_list()[-1] not in (1, None):
        fitted = widened
    else:
        def fitted() -> Any:
            return tf.cond(tf.equal(more, 1), lambda: tf.squeeze(weights, [-1]), widened)
    return tf.cond(tf.equal(tf.rank(weights), 0), lambda: weights, fitted)


def flat(x: Any) -> Any:
    """`x` as a vector, unless it is known to be one."""
    x = convert(x)
    return x if x.shape.ndims in (0, 1) else tf.reshape(x, [-1])
