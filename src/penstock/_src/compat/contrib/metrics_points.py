"""Metrics of tf.contrib.metrics that are points on curves of precision, recall and rates, and agreement of two raters."""
from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock._src.library.metrics.ranking import average_precision_of
from penstock._src.library.metrics.state import aligned, graph_only, metric_variable, published
from penstock._src.library.metrics.thresholds import spread, streaming
from penstock.compat import v1 as tf

_EPSILON = 1e-7

PrecisionRecallData = collections.namedtuple("PrecisionRecallData",
                                             ["tp", "fp", "tn", "fn", "precision", "recall", "thresholds"])


def _export(name: str) -> Callable:
    return export(v1=[f"contrib.{p}.{name}" for p in ("metrics", "slim.metrics")])


# -- points ---------------------------------------------------------------------------------------------------------------
@_export("streaming_curve_points")
def streaming_curve_points(labels: Any = None, predictions: Any = None, weights: Any = None, num_thresholds: int = 200,
                           metrics_collections: Any = None, updates_collections: Any = None, curve: str = "ROC",
                           name: str | None = None) -> tuple[Any, Any]:
    """Points of the ROC or precision-recall ("PR") curve at evenly spread thresholds, one per row."""
    if curve not in ("ROC", "PR"):
        raise ValueError(f"curve must be either ROC or PR, {curve} unknown")
    tiny = 1e-6

    def points(c: dict, name: str) -> Any:
        recall = (c["tp"] + tiny) / (c["tp"] + c["fn"] + tiny)
        if curve == "ROC":
            return tf.stack([c["fp"] / (c["fp"] + c["tn"] + tiny), recall], 1)
        return tf.stack([recall, (c["tp"] + tiny) / (c["tp"] + c["fp"] + tiny)], 1)
    return streaming("curve_points", points, labels, predictions, spread(num_thresholds), weights, "tp fn tn fp",
                     metrics_collections, updates_collections, name)


@_export("recall_at_precision")
def recall_at_precision(labels: Any, predictions: Any, precision: float, weights: Any = None, num_thresholds: int = 200,
                        metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None,
                        strict_mode: bool = False) -> tuple[Any, Any]:
    """The recall at the threshold whose precision is nearest to `precision`.

    With `strict_mode`, the threshold is the one with the lowest precision that is at least `precision`; the recall is 0 if
    there is none.
    """
    if not 0 <= precision <= 1:
        raise ValueError("`precision` must be in the range [0, 1].")

    def compute(c: dict, name: str) -> Any:
        found = c["tp"] / (c["tp"] + c["fp"] + _EPSILON)
        off = 1.0 / (found - precision + _EPSILON) if strict_mode else -tf.abs(found - precision)
        at = tf.argmax(off, 0, output_type=tf.int32)
        recall = tf.div(c["tp"][at], c["tp"][at] + c["fn"][at] + _EPSILON, name)
        return tf.where(found[at] >= precision, recall, tf.zeros_like(recall)) if strict_mode else recall
    return streaming("recall_at_precision", compute, labels, predictions, spread(num_thresholds), weights, "tp fn tn fp",
                     metrics_collections, updates_collections, name)


@_export("precision_at_recall")
@graph_only
def precision_at_recall(labels: Any, predictions: Any, target_recall: float, weights: Any = None,
                        num_thresholds: int = 200, metrics_collections: Any = None, updates_collections: Any = None,
                        name: str | None = None) -> tuple[Any, Any]:
    """The precision at the highest threshold whose recall is at least `target_recall`."""
    if not 0 <= target_recall <= 1:
        raise ValueError("`target_recall` must be in the range [0, 1].")

    def compute(c: dict, name: str) -> Any:
        enough = c["tp"] / (c["tp"] + c["fn"] + _EPSILON) >= target_recall
        at = tf.reduce_sum(tf.cast(enough, tf.int32)) - 1            # recall falls as thresholds rise
        return tf.div(c["tp"][at] + _EPSILON, c["tp"][at] + c["fp"][at] + _EPSILON, name)
    return streaming("precision_at_recall", compute, labels, predictions, spread(num_thresholds), weights, "tp fn tn fp",
                     metrics_collections, updates_collections, name)


def _rate_at_thresholds(wrong: str, missed: str, right: str, short: str) -> None:
    """A rate of wrong answers among the rows of one label, at each threshold."""
    def metric(predictions: Any, labels: Any, thresholds: Any, weights: Any = None, metrics_collections: Any = None,
               updates_collections: Any = None, name: str | None = None) -> tuple[Any, Any]:
        def compute(c: dict, name: str) -> Any:
            return tf.div(c[missed], _EPSILON + c[missed] + c[right], name=f"{short}_{name}")
        return streaming(f"{wrong}_rate_at_thresholds", compute, labels, predictions, thresholds, weights,
                         f"{missed} {right}", metrics_collections, updates_collections, name)
    metric.__name__ = f"streaming_{wrong}_rate_at_thresholds"
    metric.__doc__ = f"At each threshold, the {wrong} rate."
    _export(metric.__name__)(metric)


_rate_at_thresholds("false_positive", "fp", "tn", "fpr")
_rate_at_thresholds("false_negative", "fn", "tp", "fnr")


@_export("precision_recall_at_equal_thresholds")
def precision_recall_at_equal_thresholds(labels: Any, predictions: Any, weights: Any = None,
                                         num_thresholds: int | None = None, use_locking: bool | None = None,
                                         name: str | None = None) -> tuple[PrecisionRecallData, Any]:
    """Counts, precision and recall at evenly spread thresholds (201 by default) from 0 to 1, by one pass over the rows."""
    count = 201 if num_thresholds is None else num_thresholds
    predictions = tf.convert_to_tensor(predictions)
    tf.debugging.assert_type(labels, tf.bool)
    with tf.variable_scope(name, "precision_recall_at_equal_thresholds", (labels, predictions)):
        message = "predictions must be in [0, 1]"
        low, high = tf.cast(0.0, predictions.dtype), tf.cast(1.0, predictions.dtype)
        with tf.control_dependencies([tf.assert_greater_equal(predictions, low, message=message),
                                      tf.assert_less_equal(predictions, high, message=message)]):
            predictions, labels, weights = aligned(predictions, labels, 1.0 if weights is None else weights)
        weights, positive = tf.cast(weights, tf.float64), tf.cast(labels, tf.float64)
        bucket = tf.cast(tf.floor(tf.reshape(predictions, [-1]) * (count - 1)), tf.int32)
        sums, updates = [], []
        for kind, amount in (("tp", positive * weights), ("fp", (1.0 - positive) * weights)):
            buckets = metric_variable([count], tf.float64, f"variables/{kind}_buckets")
            updates.append(tf.scatter_add(buckets, bucket, tf.reshape(amount, [-1]), use_locking is not False))
            sums.append(tf.cumsum(buckets, reverse=True, name=kind))
        tp, fp = sums
        parts = {"tp": tp, "fp": fp, "tn": fp[0] - fp, "fn": tp[0] - tp, "precision": tp / tf.maximum(tp + fp, 1e-7),
                 "recall": tp / tf.maximum(tp[0], 1e-7), "thresholds": tf.linspace(0.0, 1.0, count)}
        return (PrecisionRecallData(**{k: tf.cast(v, predictions.dtype) for k, v in parts.items()}), tf.group(*updates))


# -- ids of the best classes ----------------------------------------------------------------------------------------------
def _at_k(metric: str, class_id: int | None) -> str:
    return f"{metric}_at_k" if class_id is None else f"{metric}_at_k_class{class_id}"


@_export("streaming_sparse_precision_at_top_k")
def streaming_sparse_precision_at_top_k(top_k_predictions: Any, labels: Any, class_id: int | None = None,
                                        weights: Any = None, metrics_collections: Any = None,
                                        updates_collections: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """The fraction of predicted ids that are among the labels."""
    with tf.name_scope(name, _at_k("precision", class_id), (top_k_predictions, labels, weights)) as scope:
        return tf.metrics.precision_at_top_k(labels, top_k_predictions, None, class_id, weights, metrics_collections,
                                             updates_collections, scope)


@_export("sparse_recall_at_top_k")
def sparse_recall_at_top_k(labels: Any, top_k_predictions: Any, class_id: int | None = None, weights: Any = None,
                           metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None
                           ) -> tuple[Any, Any]:
    """The fraction of labels that are among the predicted ids."""
    with tf.name_scope(name, _at_k("recall", class_id), (top_k_predictions, labels, weights)) as scope:
        return tf.metrics.recall_at_top_k(labels, top_k_predictions, None, class_id, weights, metrics_collections,
                                          updates_collections, scope)


@_export("streaming_sparse_average_precision_at_top_k")
def streaming_sparse_average_precision_at_top_k(top_k_predictions: Any, labels: Any, weights: Any = None,
                                                metrics_collections: Any = None, updates_collections: Any = None,
                                                name: str | None = None) -> tuple[Any, Any]:
    """The mean over examples of the average precision of predicted ids."""
    return average_precision_of(labels, top_k_predictions, weights, metrics_collections, updates_collections, name)


# -- agreement ------------------------------------------------------------------------------------------------------------
@_export("cohen_kappa")
@graph_only
def cohen_kappa(labels: Any, predictions_idx: Any, num_classes: int, weights: Any = None, metrics_collections: Any = None,
                updates_collections: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """Cohen's kappa: how much more often labels and predictions agree than they would by chance."""
    if num_classes < 2:
        raise ValueError(f"`num_classes` must be >= 2. Found: {num_classes}")
    with tf.variable_scope(name, "cohen_kappa", (labels, predictions_idx, weights)):
        labels.shape.with_rank_at_most(2)
        if labels.shape.ndims == 2:
            labels = tf.squeeze(labels, [-1])
        predictions_idx, labels, weights = aligned(predictions_idx, labels, weights)
        dtype = tf.int64 if weights is None or weights.dtype.is_integer else tf.float32
        table = tf.math.confusion_matrix(labels, predictions_idx, num_classes, dtype, weights=weights)
        now = {"po": tf.diag_part(table), "pe_row": tf.reduce_sum(table, 0), "pe_col": tf.reduce_sum(table, 1)}
        sums = {n: metric_variable([num_classes], dtype, n) for n in now}
        updates = {n: tf.assign_add(sums[n], now[n]) for n in now}

        def kappa(parts: dict, name: str) -> Tensor:
            agreed, row, column = (tf.cast(parts[n], tf.float64) for n in ("po", "pe_row", "pe_col"))
            total = tf.reduce_sum(row)
            chance = tf.reduce_sum(tf.div_no_nan(row * column, total))
            return tf.div_no_nan(tf.reduce_sum(agreed) - chance, total - chance, name=name)
        return published(kappa(sums, "value"), kappa(updates, "update_op"), metrics_collections, updates_collections)


@_export("auc_using_histogram")
def auc_using_histogram(boolean_labels: Any, scores: Any, score_range: Any, nbins: int = 100, collections: Any = None,
                        check_shape: bool = True, name: str | None = None) -> tuple[Any, Any]:
    """The area under the ROC curve, from histograms of the scores of both classes."""
    with tf.variable_scope(name, "auc_using_histogram", [boolean_labels, scores, score_range]):
        labels, scores = tf.convert_to_tensor(boolean_labels), tf.convert_to_tensor(scores)
        if labels.dtype != tf.bool:
            raise ValueError(f"Argument boolean_labels should have dtype bool.  Found: {labels.dtype}")
        scores, labels, _ = aligned(scores, labels, None)
        checks = [tf.assert_rank(x, 1, message=f"Argument {n} should have rank 1.") for n, x in
                  (("boolean_labels", labels), ("scores", scores))] if check_shape else []
        shares, updates = [], []
        for kind, rows in (("true", labels), ("false", tf.logical_not(labels))):
            with tf.control_dependencies(checks):
                counts = tf.histogram_fixed_width(tf.boolean_mask(scores, rows), score_range, nbins, tf.int64)
            total = tf.get_variable(f"hist_accumulate/hist_{kind}_acc", [nbins], tf.int64, tf.zeros_initializer(),
                                    trainable=False, collections=collections or [tf.GraphKeys.LOCAL_VARIABLES])
            updates.append(tf.assign_add(total, counts))
            shares.append(tf.cast(tf.reverse(total / tf.reduce_sum(total), [0]), tf.float32))
        rise, run = shares
        top = tf.cumsum(rise)
        return tf.reduce_sum(run * (top - rise / 2.0), name="auc"), tf.group(*updates, name="update_op")
