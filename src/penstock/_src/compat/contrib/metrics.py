"""tf.contrib.metrics: metrics over a stream of batches, under their old names and with predictions in front of labels."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export, resolve
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


def _export(*names: str) -> Callable:
    return export(v1=[f"contrib.{p}.{n}" for n in names for p in ("metrics", "slim.metrics")])


def _collected(value: Any, update: Any, metrics_collections: Any, updates_collections: Any) -> tuple:
    """The value and the update op of a metric, added to their collections."""
    if metrics_collections:
        tf.add_to_collections(metrics_collections, value)
    if updates_collections:
        tf.add_to_collections(updates_collections, update)
    return value, update


def _swapped(old: str, new: str) -> None:
    """A metric of tf.metrics with predictions in front of labels."""
    def metric(predictions: Any, labels: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(tf.metrics, new)(labels, predictions, *args, **kwargs)
    metric.__name__, metric.__doc__ = old, f"tf.metrics.{new}, with predictions in front of labels."
    _export(old)(metric)


for _old, _new in {
    "streaming_accuracy": "accuracy", "streaming_recall": "recall", "streaming_precision": "precision",
    "streaming_false_negatives": "false_negatives", "streaming_false_positives": "false_positives",
    "streaming_true_positives": "true_positives", "streaming_true_negatives": "true_negatives", "streaming_auc": "auc",
    "streaming_precision_at_thresholds": "precision_at_thresholds", "streaming_recall_at_thresholds": "recall_at_thresholds",
    "streaming_false_negatives_at_thresholds": "false_negatives_at_thresholds",
    "streaming_false_positives_at_thresholds": "false_positives_at_thresholds",
    "streaming_true_negatives_at_thresholds": "true_negatives_at_thresholds",
    "streaming_true_positives_at_thresholds": "true_positives_at_thresholds",
    "streaming_mean_absolute_error": "mean_absolute_error", "streaming_mean_squared_error": "mean_squared_error",
    "streaming_root_mean_squared_error": "root_mean_squared_error", "streaming_mean_iou": "mean_iou",
    "streaming_mean_relative_error": "mean_relative_error", "streaming_mean_cosine_distance": "mean_cosine_distance",
    "streaming_sensitivity_at_specificity": "sensitivity_at_specificity",
    "streaming_specificity_at_sensitivity": "specificity_at_sensitivity",
    "streaming_sparse_recall_at_k": "recall_at_k", "streaming_sparse_precision_at_k": "precision_at_k",
    "streaming_sparse_average_precision_at_k": "average_precision_at_k",
}.items():
    _swapped(_old, _new)
for _old, _new in {"streaming_mean": "metrics.mean", "streaming_mean_tensor": "metrics.mean_tensor",
                   "streaming_percentage_less": "metrics.percentage_below", "confusion_matrix": "math.confusion_matrix",
                   "set_difference": "sets.difference", "set_intersection": "sets.intersection", "set_size": "sets.size",
                   "set_union": "sets.union"}.items():
    export.later(lambda _new=_new: resolve("v1", _new), v1=[f"contrib.metrics.{_old}"])


@_export("accuracy")
def accuracy(predictions: Any, labels: Any, weights: Any = None, name: str | None = None) -> Tensor:
    """The share of predictions in this batch that are right."""
    if not (labels.dtype.is_integer or labels.dtype in (tf.bool, tf.string)):
        raise ValueError(f"Labels must be booleans, integers or strings, not {labels.dtype}")
    if labels.dtype != predictions.dtype:
        raise ValueError(f"Predictions and labels have different types: predictions ({predictions.dtype}) and labels "
                         f"({labels.dtype})")
    with tf.name_scope(name, "accuracy", [predictions, labels]):
        right = tf.cast(tf.equal(predictions, labels), tf.float32)
        if weights is None:
            return tf.reduce_mean(right)
        total = tf.reduce_sum(weights * tf.ones_like(right))
        return tf.where(tf.equal(total, 0), 0.0, tf.reduce_sum(right * weights) / total)


@_export("streaming_recall_at_k")
def streaming_recall_at_k(predictions: Any, labels: Any, k: int, weights: Any = None, metrics_collections: Any = None,
                          updates_collections: Any = None, name: str | None = None) -> Any:
    """The share of labels among the k highest predictions."""
    within = tf.cast(tf.nn.in_top_k(predictions, labels, k), tf.float32)
    return tf.metrics.mean(within, weights, metrics_collections, updates_collections, name or f"recall_at_{k}")


@_export("f1_score")
def f1_score(labels: Any, predictions: Any, weights: Any = None, num_thresholds: int = 200, metrics_collections: Any = None,
             updates_collections: Any = None, name: str | None = None) -> Any:
    """The best F1 score over thresholds of the predictions."""
    with tf.variable_scope(name, "f1", (labels, predictions, weights)):
        epsilon = 1e-7
        thresholds = [0.0 - epsilon, *((i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)), 1.0 + epsilon]
        (tp, up_tp), (fn, up_fn), (fp, up_fp) = (
            getattr(tf.metrics, f"{kind}_at_thresholds")(labels, predictions, thresholds, weights)
            for kind in ("true_positives", "false_negatives", "false_positives"))

        def best(tp: Tensor, fn: Tensor, fp: Tensor) -> Tensor:
            precision, recall = tp / (epsilon + tp + fp), tp / (epsilon + tp + fn)
            return tf.reduce_max(2.0 * precision * recall / (precision + recall + epsilon))

        value, update = best(tp, fn, fp), best(up_tp, up_fn, up_fp)
        return _collected(value, update, metrics_collections, updates_collections)


@_export("count")
def count(values: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
          name: str | None = None) -> Any:
    """How many values there have been, or the sum of their weights."""
    with tf.variable_scope(name, "count", (values, weights)):
        total = tf.get_variable("count", [], tf.float32, tf.zeros_initializer(), trainable=False,
                                collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES])
        values = tf.convert_to_tensor(values)
        size = tf.cast(tf.size(values), tf.float32) if weights is None else \
            tf.reduce_sum(tf.cast(weights, tf.float32) * tf.ones_like(values, dtype=tf.float32))
        value, update = tf.identity(total), tf.assign_add(total, size)
        return _collected(value, update, metrics_collections, updates_collections)


@_export("streaming_covariance")
def streaming_covariance(predictions: Any, labels: Any, weights: Any = None, metrics_collections: Any = None,
                         updates_collections: Any = None, name: str | None = None) -> Any:
    """The (unbiased) covariance of predictions and labels."""
    with tf.variable_scope(name, "covariance", (predictions, labels, weights)):
        predictions, labels = tf.cast(predictions, tf.float32), tf.cast(labels, tf.float32)
        w = tf.ones_like(predictions) if weights is None else tf.cast(weights, tf.float32) * tf.ones_like(predictions)
        local = [tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES]
        sums = [tf.get_variable(n, [], tf.float32, tf.zeros_initializer(), trainable=False, collections=local)
                for n in ("count", "mean_prediction", "mean_label", "comoment")]
        n, mx, my, c = sums
        batch = tf.reduce_sum(w)
        safe = tf.maximum(batch, 1e-12)
        bx, by = tf.reduce_sum(w * predictions) / safe, tf.reduce_sum(w * labels) / safe
        bc = tf.reduce_sum(w * (predictions - bx) * (labels - by))
        total = n + batch
        share = batch / tf.maximum(total, 1e-12)
        new = [total, mx + (bx - mx) * share, my + (by - my) * share, c + bc + (bx - mx) * (by - my) * n * share]
        with tf.control_dependencies(new):
            updates = [tf.assign(v, x) for v, x in zip(sums, new, strict=True)]

        def unbiased(comoment: Any, number: Any) -> Tensor:
            return tf.where(number < 2, tf.constant(float("nan")), comoment / tf.maximum(number - 1, 1e-12))

        value = unbiased(tf.identity(c), tf.identity(n))
        with tf.control_dependencies(updates):
            update = unbiased(new[3], new[0])
        return _collected(value, update, metrics_collections, updates_collections)


@_export("streaming_pearson_correlation")
def streaming_pearson_correlation(predictions: Any, labels: Any, weights: Any = None, metrics_collections: Any = None,
                                  updates_collections: Any = None, name: str | None = None) -> Any:
    """The correlation of predictions and labels."""
    with tf.variable_scope(name, "pearson_r", (predictions, labels, weights)):
        pairs = {"covariance": (predictions, labels), "variance_predictions": (predictions, predictions),
                 "variance_labels": (labels, labels)}
        (cov, up_cov), (vx, up_vx), (vy, up_vy) = (streaming_covariance(a, b, weights, name=n) for n, (a, b) in pairs.items())
        value = cov / (tf.sqrt(vx) * tf.sqrt(vy))
        update = up_cov / (tf.sqrt(up_vx) * tf.sqrt(up_vy))
        return _collected(value, update, metrics_collections, updates_collections)


@_export("aggregate_metrics")
def aggregate_metrics(*value_update_tuples: Any) -> tuple[list, list]:
    """The values and the updates of metrics, as two lists."""
    if not value_update_tuples:
        raise ValueError("Expected at least one value_tensor/update_op pair")
    values, updates = zip(*value_update_tuples, strict=True)
    return list(values), list(updates)


@_export("aggregate_metric_map")
def aggregate_metric_map(names_to_tuples: dict[str, Any]) -> tuple[dict, dict]:
    """The values and the updates of metrics, as two tables by name.

    Args:
        names_to_tuples: Pairs of value and update op by name.

    Returns:
        Two dictionaries: values and updates.

    >>> metrics = tf.contrib.slim.metrics
    >>> with tf.Graph().as_default():
    ...     values, updates = metrics.aggregate_metric_map({"mean": tf.metrics.mean([1., 2.])})
    >>> list(values), list(updates)
    (['mean'], ['mean'])
    """
    values, updates = zip(*names_to_tuples.values(), strict=True)
    return dict(zip(names_to_tuples, values, strict=True)), dict(zip(names_to_tuples, updates, strict=True))


def _rate(wrong: str, right: str) -> None:
    """A rate of wrong answers among the rows with one label."""
    def metric(predictions: Any, labels: Any, weights: Any = None, metrics_collections: Any = None,
               updates_collections: Any = None, name: str | None = None) -> tuple[Tensor, Tensor]:
        with tf.variable_scope(name, f"{wrong}_rate", (predictions, labels, weights)):
            predictions, labels = tf.cast(predictions, tf.bool), tf.cast(labels, tf.bool)
            parts = [getattr(tf.metrics, n)(labels, predictions, weights) for n in (f"{wrong}s", f"{right}s")]

            def ratio(a: Any, b: Any, name: str) -> Tensor:
                return tf.div_no_nan(a, a + b, name=name)
            value, update = ratio(parts[0][0], parts[1][0], "value"), ratio(parts[0][1], parts[1][1], "update_op")
        for collection, tensor in ((metrics_collections, value), (updates_collections, update)):
            if collection:
                tf.add_to_collections(collection, tensor)
        return value, update
    metric.__name__, metric.__doc__ = f"streaming_{wrong}_rate", f"The {wrong}s among all rows that are {wrong}s or {right}s."
    _export(metric.__name__)(metric)


_rate("false_positive", "true_negative")
_rate("false_negative", "true_positive")
