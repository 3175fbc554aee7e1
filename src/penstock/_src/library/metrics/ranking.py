"""Metrics of the k best predictions against sets of labels: precision, recall and average precision at k.

Labels are class ids along the last axis, dense or sparse (a SparseTensor may have fewer labels in some rows).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.sparse_tensor import SparseTensor, convert_to_tensor_or_sparse_tensor
from penstock._src.library.metrics.state import graph_only, metric_variable, published
from penstock._src.library.weights import assert_broadcastable, broadcast_weights
from penstock.compat import v1 as tf


def _at_k_name(name: str, k: int | None = None, class_id: int | None = None) -> str:
    name = f"{name}_at_k" if k is None else f"{name}_at_{k}"
    return name if class_id is None else f"{name}_class{class_id}"


# -- sets of ids -----------------------------------------------------------------------------------------------------
def _expanded(labels: Any, predictions: Any) -> Any:
    """Labels with a last axis where there is one per example."""
    with tf.name_scope(None, "expand_labels", (predictions,)) as scope:
        labels = convert_to_tensor_or_sparse_tensor(labels)
        thin = isinstance(labels, SparseTensor)

        def expanded() -> Any:
            return tf.sparse.expand_dims(labels, -1, name=scope) if thin else tf.expand_dims(labels, -1, name=scope)
        rank, wanted = labels.shape.ndims, predictions.shape.ndims
        if rank is not None and wanted is not None:
            if rank == wanted:
                return labels
            if rank + 1 == wanted:
                return expanded()
            raise ValueError(f"Unexpected labels shape {labels.shape} for predictions shape {predictions.shape}.")
        return tf.cond(tf.equal(tf.rank(predictions), tf.rank(labels) + 1), expanded, lambda: labels)


def _only(ids: Any, class_id: int) -> SparseTensor:
    """The ids that are `class_id`, at their places."""
    ids = convert_to_tensor_or_sparse_tensor(ids)
    if isinstance(ids, SparseTensor):
        return tf.sparse.retain(ids, tf.equal(ids.values, tf.cast(class_id, ids.values.dtype)))
    where = tf.where(tf.equal(ids, tf.cast(class_id, ids.dtype)))
    return SparseTensor(where, tf.gather_nd(ids, where), tf.shape(ids, out_type=tf.int64))


def _sizes(scope: str, combine: Callable, labels: Any, predictions: Any, class_id: int | None, weights: Any = None) -> Any:
    """The weighted sizes of the sets combine(predictions, labels), as float64."""
    with tf.name_scope(None, scope, (predictions, weights)):
        if class_id is not None:
            labels, predictions = _only(labels, class_id), _only(predictions, class_id)
        sizes = tf.cast(tf.sets.size(combine(predictions, labels)), tf.float64)
        if weights is None:
            return sizes
        with tf.control_dependencies([assert_broadcastable(weights, sizes)]):
            return tf.multiply(sizes, tf.cast(weights, tf.float64))


_TRUE_POSITIVE = ("true_positive", lambda predictions, labels: tf.sets.intersection(predictions, labels))
_FALSE_POSITIVE = ("false_positive", lambda predictions, labels: tf.sets.difference(predictions, labels))
_FALSE_NEGATIVE = ("false_negative", lambda predictions, labels: tf.sets.difference(predictions, labels, aminusb=False))


def _total(kind: tuple, labels: Any, predictions: Any, k: int | None, class_id: int | None, weights: Any) -> tuple:
    """A variable with the number of such ids over all batches, and its update."""
    name, combine = kind
    with tf.name_scope(None, _at_k_name(name, k, class_id), (predictions, weights)) as scope:
        now = tf.reduce_sum(_sizes(name + "s", combine, labels, predictions, class_id, weights))
        total = metric_variable([], tf.float64, scope)
        return total, tf.assign_add(total, now, name="update")


def _share_at_top_k(metric: str, missed: tuple, labels: Any, predictions_idx: Any, k: int | None, class_id: int | None,
                    weights: Any, metrics_collections: Any, updates_collections: Any, name: str | None) -> tuple[Any, Any]:
    """The ratio of correct ids to correct ids plus those that `missed` counts."""
    predictions_idx = convert(predictions_idx)
    with tf.name_scope(name, _at_k_name(metric, k, class_id), (predictions_idx, weights)) as scope:
        labels = _expanded(labels, predictions_idx)
        top = tf.cast(predictions_idx, tf.int64)
        labels = labels.with_values(tf.cast(labels.values, tf.int64)) if isinstance(labels, SparseTensor) \
            else tf.cast(labels, tf.int64)
        right, new_right = _total(_TRUE_POSITIVE, labels, top, k, class_id, weights)
        wrong, new_wrong = _total(missed, labels, top, k, class_id, weights)
        return published(tf.div(right, tf.add(right, wrong), name=scope),
                         tf.div(new_right, tf.add(new_right, new_wrong), name="update"), metrics_collections,
                         updates_collections)


# -- precision and recall ---------------------------------------------------------------------------------------------
@export(v1=["metrics.recall_at_top_k"])
@graph_only
def recall_at_top_k(labels: Any, predictions_idx: Any, k: int | None = None, class_id: int | None = None,
                    weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
                    name: str | None = None) -> tuple[Any, Any]:
    """The fraction of labels that are among the predicted ids."""
    return _share_at_top_k("recall", _FALSE_NEGATIVE, labels, predictions_idx, k, class_id, weights, metrics_collections,
                           updates_collections, name)


@export(v1=["metrics.recall_at_k"])
@graph_only
def recall_at_k(labels: Any, predictions: Any, k: int, class_id: int | None = None, weights: Any = None,
                metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None
                ) -> tuple[Any, Any]:
    """The fraction of labels that are among the k classes with the highest scores.

    >>> recall, update = tf.metrics.recall_at_k(labels, logits, k=5)
    """
    with tf.name_scope(name, _at_k_name("recall", k, class_id), (predictions, weights)) as scope:
        _, top = tf.nn.top_k(predictions, k)
        return recall_at_top_k(labels, top, k, class_id, weights, metrics_collections, updates_collections, scope)


@export(v1=["metrics.precision_at_top_k"])
@graph_only
def precision_at_top_k(labels: Any, predictions_idx: Any, k: int | None = None, class_id: int | None = None,
                       weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
                       name: str | None = None) -> tuple[Any, Any]:
    """The fraction of predicted ids that are among the labels."""
    return _share_at_top_k("precision", _FALSE_POSITIVE, labels, predictions_idx, k, class_id, weights, metrics_collections,
                           updates_collections, name)


@export(v1=["metrics.precision_at_k"])
@graph_only
def precision_at_k(labels: Any, predictions: Any, k: int, class_id: int | None = None, weights: Any = None,
                   metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None
                   ) -> tuple[Any, Any]:
    """The fraction of the k classes with the highest scores that are among the labels."""
    with tf.name_scope(name, _at_k_name("precision", k, class_id), (predictions, weights)) as scope:
        _, top = tf.nn.top_k(predictions, k)
        return precision_at_top_k(labels, top, k, class_id, weights, metrics_collections, updates_collections, scope)


@export(v1=["metrics.sparse_precision_at_k"])
@graph_only
def sparse_precision_at_k(labels: Any, predictions: Any, k: int, class_id: int | None = None, weights: Any = None,
                          metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None
                          ) -> tuple[Any, Any]:
    """The older name of precision_at_k."""
    return precision_at_k(labels, predictions, k, class_id, weights, metrics_collections, updates_collections, name)


# -- average precision -------------------------------------------------------------------------------------------------
def _repeated(labels: Any, times: int) -> Any:
    """Labels with an axis of size `times` put before the last, the same everywhere along it."""
    with tf.name_scope(None, "labels_per_k"):
        if isinstance(labels, SparseTensor):
            one = tf.sparse.expand_dims(labels, -2)
            return tf.sparse.concat(-2, [one] * times) if times > 1 else one
        ones = tf.ones_like(tf.shape(labels))
        return tf.tile(tf.expand_dims(labels, -2), tf.concat([ones[:-1], [times], ones[-1:]], 0))


def _relevant(labels: Any, k: int) -> Any:
    """How many labels there are, at most k."""
    with tf.name_scope(None, "num_relevant") as scope:
        if isinstance(labels, SparseTensor):
            return tf.minimum(tf.sets.size(labels), k, name=scope)
        count = tf.reduce_sum(tf.cast(tf.greater_equal(labels, 0), tf.int32), axis=-1)
        return tf.minimum(count, k, name=scope)


def _average_precision(labels: Any, predictions_idx: Any) -> Any:
    """The mean, over the labels, of the precision up to the place at which each was predicted."""
    with tf.name_scope(None, "average_precision") as scope:
        top = tf.cast(predictions_idx, tf.int64, name="predictions_idx")
        if top.shape.ndims == 0:
            raise ValueError("The rank of predictions_idx must be at least 1.")
        k = top.shape.as_list()[-1] if top.shape.ndims is not None else None
        if k is None:
            raise ValueError("The last dimension of predictions_idx must be set.")
        labels = _expanded(labels, top)
        hit = _sizes("relevant_per_k", _TRUE_POSITIVE[1], _repeated(labels, k), tf.expand_dims(top, -1), None)
        precision = tf.div(tf.cumsum(hit, axis=-1), tf.cumsum(tf.ones_like(hit), axis=-1))
        total = tf.reduce_sum(precision * hit, axis=-1)
        return tf.div(total, tf.cast(_relevant(labels, k), tf.float64), name=scope)


def _known_only(labels: Any, num_classes: Any) -> Any:
    """Labels with -1 in place of those that are not classes."""
    labels = convert_to_tensor_or_sparse_tensor(labels)
    ids = labels.values if isinstance(labels, SparseTensor) else labels
    ids = tf.cast(ids, tf.int64)
    ids = tf.where(tf.greater_equal(ids, num_classes), -tf.ones_like(ids), ids)
    return labels.with_values(ids) if isinstance(labels, SparseTensor) else ids


@export(v1=["metrics.average_precision_at_k"])
@graph_only
def average_precision_at_k(labels: Any, predictions: Any, k: int, weights: Any = None, metrics_collections: Any = None,
                           updates_collections: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """The mean over examples of the average precision of the k classes with the highest scores."""
    if k < 1:
        raise ValueError(f"Invalid k={k}.")
    with tf.name_scope(name, _at_k_name("average_precision", k), (predictions, weights)) as scope:
        predictions = convert(predictions)
        _, top = tf.nn.top_k(predictions, k)
        labels = _known_only(labels, tf.cast(tf.shape(predictions)[-1], tf.int64))
        return _streaming_average(_average_precision(labels, top), weights, metrics_collections, updates_collections, scope)


def average_precision_of(labels: Any, predictions_idx: Any, weights: Any, metrics_collections: Any, updates_collections: Any,
                         name: str | None) -> tuple[Any, Any]:
    """The mean over examples of the average precision of predicted ids."""
    with tf.name_scope(name, "average_precision_at_k", (predictions_idx, weights)) as scope:
        return _streaming_average(_average_precision(labels, predictions_idx), weights, metrics_collections,
                                  updates_collections, scope)


def _streaming_average(precision: Any, weights: Any, metrics_collections: Any, updates_collections: Any, scope: str
                       ) -> tuple[Any, Any]:
    with tf.name_scope(scope):
        if weights is not None:
            weights = broadcast_weights(tf.cast(weights, tf.float64), precision)
            precision = tf.multiply(precision, weights)
        number = tf.cast(tf.size(precision), tf.float64) if weights is None else tf.reduce_sum(weights)
        parts = []
        for part, now in (("max", number), ("total", tf.reduce_sum(precision))):
            with tf.name_scope(None, part) as inner:
                variable = metric_variable([], tf.float64, inner)
                parts.append((variable, tf.assign_add(variable, now, name="update")))
        (most, new_most), (total, new_total) = parts
        return published(tf.div_no_nan(total, most, name="mean"), tf.div_no_nan(new_total, new_most, name=scope),
                         metrics_collections, updates_collections)


@export(v1=["metrics.sparse_average_precision_at_k"])
@graph_only
def sparse_average_precision_at_k(labels: Any, predictions: Any, k: int, weights: Any = None,
                                  metrics_collections: Any = None, updates_collections: Any = None,
                                  name: str | None = None) -> tuple[Any, Any]:
    """The older name of average_precision_at_k."""
    return average_precision_at_k(labels, predictions, k, weights, metrics_collections, updates_collections, name)
