"""Means over classes: accuracy, and intersection over union."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.library.metrics.state import flat, graph_only, metric_variable, published
from penstock.compat import v1 as tf


@export(v1=["metrics.mean_per_class_accuracy"])
@graph_only
def mean_per_class_accuracy(labels: Any, predictions: Any, num_classes: int, weights: Any = None,
                            metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None
                            ) -> tuple[Any, Any]:
    """The mean over classes of how often each was recognized; the update returns the accuracy of every class."""
    with tf.variable_scope(name, "mean_accuracy", (predictions, labels, weights)):
        labels = flat(tf.cast(labels, tf.int64))
        predictions = flat(predictions)
        predictions.shape.assert_is_compatible_with(labels.shape)
        total = metric_variable([num_classes], tf.float32, "total")
        count = metric_variable([num_classes], tf.float32, "count")
        seen = tf.ones([tf.size(labels)], tf.float32)
        right = tf.cast(tf.equal(tf.cast(predictions, labels.dtype), labels), tf.float32)
        if weights is not None:
            weights = tf.cast(flat(weights), tf.float32)
            right, seen = right * weights, seen * weights
        new_total = tf.scatter_add(total, labels, seen)
        new_count = tf.scatter_add(count, labels, right)
        each = tf.div_no_nan(count, tf.maximum(total, 0))
        update = tf.div_no_nan(new_count, tf.maximum(new_total, 0), name="update_op")
        return published(tf.reduce_mean(each, name="mean_accuracy"), update, metrics_collections, updates_collections)


@export(v1=["metrics.mean_iou"])
@graph_only
def mean_iou(labels: Any, predictions: Any, num_classes: int, weights: Any = None, metrics_collections: Any = None,
             updates_collections: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """The mean over classes of intersection over union; the update returns the confusion matrix."""
    with tf.variable_scope(name, "mean_iou", (predictions, labels, weights)):
        labels, predictions = convert(labels), convert(predictions)
        predictions.shape.assert_is_compatible_with(labels.shape)
        total = metric_variable([num_classes, num_classes], tf.float64, "total_confusion_matrix")
        current = tf.confusion_matrix(flat(tf.cast(labels, tf.int64)), flat(tf.cast(predictions, tf.int64)),
                                      tf.cast(num_classes, tf.int64), dtype=tf.float64,
                                      weights=None if weights is None else flat(weights))
        update = tf.assign_add(total, current)
        return published(_mean_over_classes(total), update, metrics_collections, updates_collections)


def _mean_over_classes(matrix: Any) -> Any:
    """The mean of the diagonal over the union, for the classes that occurred."""
    both = tf.cast(tf.diag_part(matrix), tf.float32)
    either = tf.cast(tf.reduce_sum(matrix, 0), tf.float32) + tf.cast(tf.reduce_sum(matrix, 1), tf.float32) - both
    classes = tf.reduce_sum(tf.cast(tf.not_equal(either, 0), tf.float32))
    share = tf.div(both, tf.where(tf.greater(either, 0), either, tf.ones_like(either)))
    return tf.div_no_nan(tf.reduce_sum(share), classes, name="mean_iou")
