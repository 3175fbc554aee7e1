"""Metrics of scores in [0, 1] at many thresholds: counts, precision, recall, areas under curves."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock._src.base import tf_logging
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.library.metrics.state import aligned, graph_only, metric_variable, published
from penstock._src.library.weights import broadcast_weights
from penstock.compat import v1 as tf

_BEYOND = 1e-7          # distance of the outermost thresholds from [0, 1]
_TINY = 1e-6            # keeps rates of an empty class finite

# what is counted: its variable's name, the label, and whether the score is above the threshold
COUNTS = {"tp": ("true_positives", True, True), "fn": ("false_negatives", True, False),
           "tn": ("true_negatives", False, False), "fp": ("false_positives", False, True)}


def counted(labels: Any, predictions: Any, thresholds: Sequence[float], weights: Any, which: str = "tp fn tn fp"
             ) -> tuple[dict, dict]:
    """For each wanted count a vector with one number per threshold: the variables, and their updates."""
    predictions = convert(predictions, name="predictions")
    message = "predictions must be in [0, 1]"
    low, high = tf.cast(0.0, predictions.dtype), tf.cast(1.0, predictions.dtype)
    with tf.control_dependencies([tf.assert_greater_equal(predictions, low, message=message),
                                  tf.assert_less_equal(predictions, high, message=message)]):
        predictions, labels, weights = aligned(tf.cast(predictions, tf.float32), tf.cast(labels, tf.bool), weights)
    above = tf.greater(tf.reshape(predictions, [1, -1]), tf.constant([[t] for t in thresholds], tf.float32))
    label = tf.reshape(labels, [1, -1])
    if weights is not None:
        weights = tf.reshape(broadcast_weights(tf.cast(weights, tf.float32), predictions), [1, -1])
    values, updates = {}, {}
    for key in which.split():
        name, positive, over = COUNTS[key]
        hits = tf.logical_and(label if positive else tf.logical_not(label), above if over else tf.logical_not(above))
        hits = tf.cast(hits, tf.float32)
        values[key] = metric_variable([len(thresholds)], tf.float32, name)
        updates[key] = tf.assign_add(values[key], tf.reduce_sum(hits if weights is None else hits * weights, 1))
    return values, updates


def spread(count: int, last: float = 1.0 + _BEYOND) -> list[float]:
    """`count` thresholds evenly over [0, 1], the outermost just outside of it."""
    return [-_BEYOND, *((i + 1) / (count - 1) for i in range(count - 2)), last]


def streaming(default: str, compute: Callable, labels: Any, predictions: Any, thresholds: Sequence[float], weights: Any,
              which: str, metrics_collections: Any, updates_collections: Any, name: str | None) -> tuple[Any, Any]:
    """A metric that is compute(counts, name) of the counts at thresholds."""
    with tf.variable_scope(name, default, (predictions, labels, weights)):
        values, updates = counted(labels, predictions, thresholds, weights, which)
        values = {k: tf.convert_to_tensor(v) for k, v in values.items()}
        return published(compute(values, "value"), compute(updates, "update_op"), metrics_collections, updates_collections)


# -- counts, precision, recall ---------------------------------------------------------------------------------------
def _count_at_thresholds(key: str, labels: Any, predictions: Any, thresholds: Any, weights: Any, metrics_collections: Any,
                         updates_collections: Any, name: str | None) -> tuple[Any, Any]:
    with tf.variable_scope(name, COUNTS[key][0], (predictions, labels, weights)):
        values, updates = counted(labels, predictions, thresholds, weights, key)
        return published(tf.identity(values[key]), updates[key], metrics_collections, updates_collections)


@export(v1=["metrics.true_positives_at_thresholds"])
@graph_only
def true_positives_at_thresholds(labels: Any, predictions: Any, thresholds: Any, weights: Any = None,
                                 metrics_collections: Any = None, updates_collections: Any = None,
                                 name: str | None = None) -> tuple[Any, Any]:
    """For each threshold, the number of true examples with a score above it."""
    return _count_at_thresholds("tp", labels, predictions, thresholds, weights, metrics_collections, updates_collections, name)


@export(v1=["metrics.false_negatives_at_thresholds"])
@graph_only
def false_negatives_at_thresholds(labels: Any, predictions: Any, thresholds: Any, weights: Any = None,
                                  metrics_collections: Any = None, updates_collections: Any = None,
                                  name: str | None = None) -> tuple[Any, Any]:
    """For each threshold, the number of true examples with a score not above it."""
    return _count_at_thresholds("fn", labels, predictions, thresholds, weights, metrics_collections, updates_collections, name)


@export(v1=["metrics.true_negatives_at_thresholds"])
@graph_only
def true_negatives_at_thresholds(labels: Any, predictions: Any, thresholds: Any, weights: Any = None,
                                 metrics_collections: Any = None, updates_collections: Any = None,
                                 name: str | None = None) -> tuple[Any, Any]:
    """For each threshold, the number of false examples with a score not above it."""
    return _count_at_thresholds("tn", labels, predictions, thresholds, weights, metrics_collections, updates_collections, name)


@export(v1=["metrics.false_positives_at_thresholds"])
@graph_only
def false_positives_at_thresholds(labels: Any, predictions: Any, thresholds: Any, weights: Any = None,
                                  metrics_collections: Any = None, updates_collections: Any = None,
                                  name: str | None = None) -> tuple[Any, Any]:
    """For each threshold, the number of false examples with a score above it."""
    return _count_at_thresholds("fp", labels, predictions, thresholds, weights, metrics_collections, updates_collections, name)


@export(v1=["metrics.precision_at_thresholds"])
@graph_only
def precision_at_thresholds(labels: Any, predictions: Any, thresholds: Any, weights: Any = None,
                            metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None
                            ) -> tuple[Any, Any]:
    """For each threshold, the fraction of examples above it that are true."""
    def compute(c: dict, name: str) -> Any:
        return tf.div(c["tp"], _BEYOND + c["tp"] + c["fp"], name="precision_" + name)
    return streaming("precision_at_thresholds", compute, labels, predictions, thresholds, weights, "tp fp",
                     metrics_collections, updates_collections, name)


@export(v1=["metrics.recall_at_thresholds"])
@graph_only
def recall_at_thresholds(labels: Any, predictions: Any, thresholds: Any, weights: Any = None,
                         metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None
                         ) -> tuple[Any, Any]:
    """For each threshold, the fraction of true examples that are above it."""
    def compute(c: dict, name: str) -> Any:
        return tf.div(c["tp"], _BEYOND + c["tp"] + c["fn"], name="recall_" + name)
    return streaming("recall_at_thresholds", compute, labels, predictions, thresholds, weights, "tp fn",
                     metrics_collections, updates_collections, name)


# -- one rate where the other is given -------------------------------------------------------------------------------
@export(v1=["metrics.sensitivity_at_specificity"])
@graph_only
def sensitivity_at_specificity(labels: Any, predictions: Any, specificity: float, weights: Any = None,
                               num_thresholds: int = 200, metrics_collections: Any = None,
                               updates_collections: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """The sensitivity at the threshold whose specificity is nearest to `specificity`."""
    if not 0 <= specificity <= 1:
        raise ValueError("`specificity` must be in the range [0, 1].")

    def compute(c: dict, name: str) -> Any:
        found = tf.div(c["tn"], c["tn"] + c["fp"] + _BEYOND)
        at = tf.cast(tf.argmin(tf.abs(found - specificity), 0), tf.int32)
        return tf.div(c["tp"][at], c["tp"][at] + c["fn"][at] + _BEYOND, name)
    return streaming("sensitivity_at_specificity", compute, labels, predictions, spread(num_thresholds), weights,
                     "tp fn tn fp", metrics_collections, updates_collections, name)


@export(v1=["metrics.specificity_at_sensitivity"])
@graph_only
def specificity_at_sensitivity(labels: Any, predictions: Any, sensitivity: float, weights: Any = None,
                               num_thresholds: int = 200, metrics_collections: Any = None,
                               updates_collections: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """The specificity at the (highest) threshold whose sensitivity is nearest to `sensitivity`."""
    if not 0 <= sensitivity <= 1:
        raise ValueError("`sensitivity` must be in the range [0, 1].")

    def compute(c: dict, name: str) -> Any:
        off = tf.abs(tf.div(c["tp"], c["tp"] + c["fn"] + _BEYOND) - sensitivity)
        nearest = tf.cast(tf.equal(off, tf.reduce_min(off)), tf.int64)
        at = tf.cast(tf.argmax(tf.cumsum(nearest), 0), tf.int32)
        return tf.div(c["tn"][at], c["tn"][at] + c["fp"][at] + _BEYOND, name)
    return streaming("specificity_at_sensitivity", compute, labels, predictions, spread(num_thresholds, 1.0 - _BEYOND),
                     weights, "tp fn tn fp", metrics_collections, updates_collections, name)


# -- areas -----------------------------------------------------------------------------------------------------------
@export(v1=["metrics.auc"])
@graph_only
def auc(labels: Any, predictions: Any, weights: Any = None, num_thresholds: int = 200, metrics_collections: Any = None,
        updates_collections: Any = None, curve: str = "ROC", name: str | None = None,
        summation_method: str = "trapezoidal", thresholds: Any = None) -> tuple[Any, Any]:
    """The area under the ROC or the precision-recall ("PR") curve, from counts at thresholds."""
    if curve not in ("ROC", "PR"):
        raise ValueError(f"The curve must be ROC or PR: {curve} unknown")
    if summation_method not in _BETWEEN:
        raise ValueError(f"Invalid summation_method: {summation_method}")
    if thresholds is not None:
        thresholds = [-_BEYOND, *sorted(thresholds), 1.0 + _BEYOND]
    else:
        thresholds = spread(num_thresholds)
    if curve == "PR" and summation_method == "trapezoidal":
        tf_logging.warning("The trapezoidal rule is inaccurate for precision-recall curves: use "
                           'summation_method="careful_interpolation".')

    def compute(c: dict, name: str) -> Any:
        if curve == "PR" and summation_method == "careful_interpolation":
            return _interpolated(c["tp"], c["fp"], c["fn"])
        return _area(c, curve, _BETWEEN[summation_method], name)
    return streaming("auc", compute, labels, predictions, thresholds, weights, "tp fn tn fp", metrics_collections,
                     updates_collections, name)


# the height of the curve between two of its points
_BETWEEN: dict[str, Callable] = {
    "trapezoidal": lambda a, b: (a + b) / 2.0,
    "careful_interpolation": lambda a, b: (a + b) / 2.0,
    "minoring": lambda a, b: tf.minimum(a, b),
    "majoring": lambda a, b: tf.maximum(a, b),
}


def _area(c: dict, curve: str, between: Callable, name: str) -> Any:
    recall = tf.div(c["tp"] + _TINY, c["tp"] + c["fn"] + _TINY)
    if curve == "ROC":
        x, y = tf.div(c["fp"], c["fp"] + c["tn"] + _TINY), recall
    else:
        x, y = recall, tf.div(c["tp"] + _TINY, c["tp"] + c["fp"] + _TINY)
    return tf.reduce_sum((x[:-1] - x[1:]) * between(y[:-1], y[1:]), name=name)


def _interpolated(tp: Any, fp: Any, fn: Any) -> Any:
    """The area under the PR curve when true positives grow linearly with all positives between two thresholds.

    With TP = a + b P, precision is TP / P, and its integral over TP has a closed form: b (ΔTP + a log(P₁ / P₂)).
    """
    d_tp, p = tp[:-1] - tp[1:], tp + fp
    slope = tf.div_no_nan(d_tp, tf.maximum(p[:-1] - p[1:], 0))
    intercept = tp[1:] - slope * p[1:]
    ratio = tf.where(tf.logical_and(p[:-1] > 0, p[1:] > 0), tf.div_no_nan(p[:-1], tf.maximum(p[1:], 0)),
                     tf.ones_like(p[1:]))
    part = tf.div_no_nan(slope * (d_tp + intercept * tf.log(ratio)), tf.maximum(tp[1:] + fn[1:], 0))
    return tf.reduce_sum(part, name="interpolate_pr_auc")
