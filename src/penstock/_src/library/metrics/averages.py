"""Means over all batches: of values, errors and accuracies."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.library.metrics.state import aligned, graph_only, metric_variable, published
from penstock._src.library.weights import broadcast_weights
from penstock._src.ops.math.confusion import remove_squeezable_dimensions
from penstock.compat import v1 as tf


def _weighted(values: Any, weights: Any) -> tuple[Any, Any]:
    """Values times their weights, and the weights in the values' shape."""
    values, _, weights = aligned(values, None, weights)
    weights = broadcast_weights(tf.cast(weights, tf.float32), values)
    return tf.multiply(values, weights), weights


def _ratio(total: Any, count: Any, name: str) -> Any:
    """total / count; 0 where nothing was counted."""
    return tf.div_no_nan(total, tf.maximum(count, 0), name=name)


@export(v1=["metrics.mean"])
@graph_only
def mean(values: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
         name: str | None = None) -> tuple[Any, Any]:
    """The weighted mean of all elements.

    Args:
        values: Tensor.
        weights: Coefficient per element, broadcast to `values`.
        metrics_collections: Collections that the value is added to.
        updates_collections: Collections that the update op is added to.
        name: Name of the operation.

    Returns:
        The mean so far, and the op that adds a batch to it.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     mean, update = tf.metrics.mean([1., 2., 6.])
    ...     sess.run(tf.local_variables_initializer())
    ...     print(sess.run(update), sess.run(mean))
    3.0 3.0
    """
    with tf.variable_scope(name, "mean", (values, weights)):
        values = tf.cast(values, tf.float32)
        total = metric_variable([], tf.float32, "total")
        count = metric_variable([], tf.float32, "count")
        if weights is None:
            number = tf.cast(tf.size(values), tf.float32)
        else:
            values, weights = _weighted(values, weights)
            number = tf.reduce_sum(weights)
        new_total = tf.assign_add(total, tf.reduce_sum(values))
        with tf.control_dependencies([values]):
            new_count = tf.assign_add(count, number)
        return published(_ratio(total, count, "value"), _ratio(new_total, new_count, "update_op"), metrics_collections,
                         updates_collections)


@export(v1=["metrics.mean_tensor"])
@graph_only
def mean_tensor(values: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
                name: str | None = None) -> tuple[Any, Any]:
    """The weighted mean of each element over the batches."""
    with tf.variable_scope(name, "mean", (values, weights)):
        values = tf.cast(values, tf.float32)
        total = metric_variable(values.shape, tf.float32, "total_tensor")
        count = metric_variable(values.shape, tf.float32, "count_tensor")
        number = tf.ones_like(values)
        if weights is not None:
            values, weights = _weighted(values, weights)
            number = tf.multiply(number, weights)
        new_total = tf.assign_add(total, values)
        with tf.control_dependencies([values]):
            new_count = tf.assign_add(count, number)
        return published(_ratio(total, count, "value"), _ratio(new_total, new_count, "update_op"), metrics_collections,
                         updates_collections)


@export(v1=["metrics.accuracy"])
@graph_only
def accuracy(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
             updates_collections: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """How often predictions equal labels.

    Args:
        labels: The true values.
        predictions: The predicted values, of the shape of `labels`.
        weights: Coefficient per element; 0 leaves it out.
        metrics_collections: Collections that the value is added to.
        updates_collections: Collections that the update op is added to.
        name: Name of the operation.

    Returns:
        The accuracy so far, and the op that adds a batch to it.

    Raises:
        RuntimeError: in eager execution; use `tf.keras.metrics`.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     accuracy, update = tf.metrics.accuracy(labels=[1, 2, 3, 4], predictions=[1, 2, 0, 0])
    ...     sess.run(tf.local_variables_initializer())
    ...     print(sess.run(update), sess.run(accuracy))
    0.5 0.5
    """
    predictions, labels, weights = aligned(predictions, labels, weights)
    if labels.dtype != predictions.dtype:
        predictions = tf.cast(predictions, labels.dtype)
    right = tf.cast(tf.equal(predictions, labels), tf.float32)
    return mean(right, weights, metrics_collections, updates_collections, name or "accuracy")


@export(v1=["metrics.percentage_below"])
@graph_only
def percentage_below(values: Any, threshold: Any, weights: Any = None, metrics_collections: Any = None,
                     updates_collections: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """The fraction of values below `threshold`."""
    below = tf.cast(tf.less(values, threshold), tf.float32)
    return mean(below, weights, metrics_collections, updates_collections, name or "percentage_below_threshold")


# -- errors ----------------------------------------------------------------------------------------------------------
@export(v1=["metrics.mean_absolute_error"])
@graph_only
def mean_absolute_error(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
                        updates_collections: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """The mean of |predictions - labels|."""
    predictions, labels, weights = aligned(predictions, labels, weights)
    return mean(tf.abs(predictions - labels), weights, metrics_collections, updates_collections,
                name or "mean_absolute_error")


@export(v1=["metrics.mean_squared_error"])
@graph_only
def mean_squared_error(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
                       updates_collections: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """The mean of (predictions - labels)²."""
    predictions, labels, weights = aligned(predictions, labels, weights)
    return mean(tf.squared_difference(labels, predictions), weights, metrics_collections, updates_collections,
                name or "mean_squared_error")


def _of_both(function: Callable, results: tuple[Any, Any]) -> tuple[Any, Any]:
    value, update = results
    return function(value), function(update)


@export(v1=["metrics.root_mean_squared_error"])
@graph_only
def root_mean_squared_error(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
                            updates_collections: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """The square root of the mean of (predictions - labels)².

    Args:
        labels: The true values.
        predictions: The predicted values.
        weights: Coefficient per element, broadcast to the values; 0 leaves an element out.
        metrics_collections: Collections that the value is added to.
        updates_collections: Collections that the update op is added to.
        name: Name of the operation.

    Returns:
        The value and the op that updates it.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     error, update = tf.metrics.root_mean_squared_error(labels=[1., 2.], predictions=[1., 4.])
    ...     sess.run(tf.local_variables_initializer())
    ...     print(sess.run(update), sess.run(error))
    1.4142135 1.4142135
    """
    squared = mean_squared_error(labels, predictions, weights, None, None, name or "root_mean_squared_error")
    return published(*_of_both(tf.sqrt, squared), metrics_collections, updates_collections)


@export(v1=["metrics.mean_relative_error"])
@graph_only
def mean_relative_error(labels: Any, predictions: Any, normalizer: Any, weights: Any = None,
                        metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None
                        ) -> tuple[Any, Any]:
    """The mean of |labels - predictions| / normalizer; 0 where the normalizer is 0."""
    predictions, labels, weights = aligned(predictions, labels, weights)
    predictions, normalizer = remove_squeezable_dimensions(predictions, normalizer)
    predictions.shape.assert_is_compatible_with(normalizer.shape)
    relative = tf.where(tf.equal(normalizer, 0.0), tf.zeros_like(labels), tf.div(tf.abs(labels - predictions), normalizer))
    return mean(relative, weights, metrics_collections, updates_collections, name or "mean_relative_error")


@export(v1=["metrics.mean_cosine_distance"])
@graph_only
def mean_cosine_distance(labels: Any, predictions: Any, dim: int, weights: Any = None, metrics_collections: Any = None,
                         updates_collections: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """One minus the mean of the products, along `dim`, of unit vectors."""
    predictions, labels, weights = aligned(predictions, labels, weights)
    cosine = tf.reduce_sum(tf.multiply(predictions, labels), axis=[dim], keepdims=True)
    similar = mean(cosine, weights, None, None, name or "mean_cosine_distance")
    return published(*_of_both(lambda t: tf.subtract(1.0, t), similar), metrics_collections, updates_collections)
