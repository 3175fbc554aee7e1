"""True and false positives and negatives; precision and recall."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.library.metrics.state import aligned, graph_only, metric_variable, published
from penstock.compat import v1 as tf


def _booleans(labels: Any, predictions: Any, weights: Any) -> tuple[Any, Any, Any]:
    return aligned(tf.cast(predictions, tf.bool), tf.cast(labels, tf.bool), weights)


def _count(scope: str, label: bool, prediction: bool, labels: Any, predictions: Any, weights: Any,
           metrics_collections: Any, updates_collections: Any, name: str | None) -> tuple[Any, Any]:
    """The weighted number of examples with that label and that prediction."""
    with tf.variable_scope(name, scope, (predictions, labels, weights)):
        predictions, labels, weights = _booleans(labels, predictions, weights)
        hits = tf.cast(tf.logical_and(tf.equal(labels, label), tf.equal(predictions, prediction)), tf.float32)
        count = metric_variable([], tf.float32, "count")
        if weights is not None:
            with tf.control_dependencies([tf.assert_rank_in(weights, (0, tf.rank(hits)))]):
                hits = tf.multiply(hits, tf.cast(weights, tf.float32))
        update = tf.assign_add(count, tf.reduce_sum(hits))
        return published(tf.identity(count), update, metrics_collections, updates_collections)


@export(v1=["metrics.true_positives"])
@graph_only
def true_positives(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
                   updates_collections: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """The number of examples that are true and predicted to be."""
    return _count("true_positives", True, True, labels, predictions, weights, metrics_collections, updates_collections, name)


@export(v1=["metrics.false_positives"])
@graph_only
def false_positives(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
                    updates_collections: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """The number of examples that are false and predicted to be true."""
    return _count("false_positives", False, True, labels, predictions, weights, metrics_collections, updates_collections,
                  name)


@export(v1=["metrics.true_negatives"])
@graph_only
def true_negatives(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
                   updates_collections: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """The number of examples that are false and predicted to be."""
    return _count("true_negatives", False, False, labels, predictions, weights, metrics_collections, updates_collections,
                  name)


@export(v1=["metrics.false_negatives"])
@graph_only
def false_negatives(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
                    updates_collections: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """The number of examples that are true and predicted to be false."""
    return _count("false_negatives", True, False, labels, predictions, weights, metrics_collections, updates_collections,
                  name)


def _share(part: Any, rest: Any, name: str) -> Any:
    """part / (part + rest); 0 where there is neither."""
    whole = part + rest
    return tf.where(tf.greater(whole, 0), tf.div(part, whole), tf.zeros_like(whole), name)


@export(v1=["metrics.precision"])
@graph_only
def precision(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
              updates_collections: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """Of the examples predicted to be true, the fraction that are."""
    with tf.variable_scope(name, "precision", (predictions, labels, weights)):
        predictions, labels, weights = _booleans(labels, predictions, weights)
        hit, new_hit = true_positives(labels, predictions, weights)
        missed, new_missed = false_positives(labels, predictions, weights)
        return published(_share(hit, missed, "value"), _share(new_hit, new_missed, "update_op"), metrics_collections,
                         updates_collections)


@export(v1=["metrics.recall"])
@graph_only
def recall(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
           updates_collections: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """Of the examples that are true, the fraction predicted to be."""
    with tf.variable_scope(name, "recall", (predictions, labels, weights)):
        predictions, labels, weights = _booleans(labels, predictions, weights)
        hit, new_hit = true_positives(labels, predictions, weights)
        missed, new_missed = false_negatives(labels, predictions, weights)
        return published(_share(hit, missed, "value"), _share(new_hit, new_missed, "update_op"), metrics_collections,
                         updates_collections)
