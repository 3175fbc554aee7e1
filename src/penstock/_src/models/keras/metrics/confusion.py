"""Metrics that count true and false positives and negatives, at one threshold or at several."""
from __future__ import annotations

from typing import Any

import numpy as np

import penstock as tf
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.library.weights import broadcast_weights
from penstock._src.models.keras.losses.reduction import fitting_weights
from penstock._src.models.keras.metrics.flat import flat_values, matched
from penstock._src.models.keras.metrics.metric import Metric, public
from penstock._src.ops.core import group

NEG_INF = -1e10
_KINDS = {"tp": (True, True), "fp": (False, True), "tn": (False, False), "fn": (True, False)}     # label, prediction


def to_list(x: Any) -> list:
    """Wraps a value in a list, unless it is one."""
    return list(x) if isinstance(x, (list, tuple)) else [x]


def checked_thresholds(thresholds: Any, default: float = 0.5) -> list[float]:
    """Thresholds as a list; ValueError if one is not between 0 and 1."""
    if thresholds is None:
        return [default]
    wrong = [t for t in to_list(thresholds) if t is None or not 0 <= t <= 1]
    if wrong:
        raise ValueError(f"Threshold values must be in [0, 1]. Invalid values: {wrong}")
    return to_list(thresholds)


def even_thresholds(number: int) -> list[float]:
    """`number` thresholds between 0 and 1, without the ends."""
    return [(i + 1) / (number - 1) for i in range(number - 2)]


def _only_top(x: Any, k: int) -> Any:
    """The k largest of each row; the others become very small."""
    _, best = tf.math.top_k(x, k, sorted=False)
    kept = tf.reduce_sum(tf.one_hot(best, tf.shape(x)[-1], axis=-1, dtype=x.dtype), axis=-2)
    return x * kept + NEG_INF * (1 - kept)


def count_matches(variables: dict[str, Any], y_true: Any, y_pred: Any, thresholds: list, top_k: int | None = None,
                  class_id: int | None = None, sample_weight: Any = None, multi_label: bool = False,
                  label_weights: Any = None) -> Any:
    """Adds to `variables` (by kind: tp, fp, tn, fn) how many predictions are of each kind, at each threshold."""
    y_true, y_pred = tf.cast(y_true, "float32"), tf.cast(y_pred, "float32")
    [y_pred, y_true], sample_weight = flat_values([y_pred, y_true], sample_weight)
    y_true, y_pred = matched(y_true, y_pred)
    y_pred.shape.assert_is_compatible_with(y_true.shape)
    if top_k is not None:
        y_pred = _only_top(y_pred, top_k)
    if class_id is not None:
        y_true, y_pred = y_true[..., class_id], y_pred[..., class_id]
    weights = None
    if sample_weight is not None:
        weights = fitting_weights(y_pred, tf.cast(sample_weight, "float32"))
        weights = broadcast_weights(weights, y_pred)
    if label_weights is not None:
        spread = tf.ones_like(y_pred) * tf.cast(label_weights, "float32")
        weights = spread if weights is None else weights * spread
    add = _add_counts_of_buckets if _are_even(thresholds) else _add_counts
    made = add(variables, tf.cast(y_true, "bool"), y_pred, thresholds, weights, multi_label)
    return None if context.executing_eagerly() else group(*made)


def _are_even(thresholds: list) -> bool:
    """Whether thresholds have equal distances, from 0 to 1."""
    count = len(thresholds)
    return count > 2 and np.allclose(thresholds, np.arange(count, dtype="float32") / (count - 1), atol=1e-7)


def _add_counts_of_buckets(variables: dict[str, Any], labels: Any, y_pred: Any, thresholds: list, weights: Any,
                           multi_label: bool) -> list:
    """Adds counts at thresholds of equal distances: each prediction is compared with none of them, and counted between two.

    Predictions outside of 0 to 1 count as 0 or 1. A threshold below 0, as that of AUC, is exceeded by all.
    """
    count, width = len(thresholds), tf.shape(y_pred)[-1] if multi_label else 1
    buckets = tf.math.ceil(tf.clip_by_value(y_pred, 0.0, 1.0) * (count - 1)) - 1.0
    if thresholds[0] < 0:
        buckets = tf.maximum(buckets, 0.0)
    buckets = tf.cast(buckets, "int32")
    if multi_label:
        buckets = buckets * width + tf.range(width)
    made, above, all_of = [], {}, {}
    for label in {_KINDS[kind][0] for kind in variables}:
        values = tf.cast(labels if label else tf.logical_not(labels), "float32")
        values = values if weights is None else values * weights
        sums = tf.math.unsorted_segment_sum(tf.reshape(values, [-1]), tf.reshape(buckets, [-1]), count * width)
        sums = tf.reshape(sums, [count, -1]) if multi_label else sums
        above[label] = tf.cumsum(sums, axis=0, reverse=True)
        all_of[label] = tf.reduce_sum(values, 0) if multi_label else tf.reduce_sum(values)
    for kind, variable in variables.items():
        label, prediction = _KINDS[kind]
        found = above[label] if prediction else all_of[label] - above[label]
        made.append(variable.assign_add(tf.cast(found, variable.dtype)))
    return made


def _add_counts(variables: dict[str, Any], labels: Any, y_pred: Any, thresholds: list, weights: Any, multi_label: bool) -> list:
    """Adds counts at any thresholds."""
    shape = [1, -1, y_pred.shape[-1]] if multi_label else [1, -1]
    limits = tf.reshape(tf.constant(thresholds, dtype="float32"), [-1] + [1] * (len(shape) - 1))
    positive = tf.reshape(y_pred, shape) > limits
    labels = tf.reshape(labels, shape)
    weights = None if weights is None else tf.reshape(weights, shape)
    made = []
    for kind, variable in variables.items():
        label, prediction = _KINDS[kind]
        found = tf.logical_and(labels if label else tf.logical_not(labels),
                               positive if prediction else tf.logical_not(positive))
        found = tf.cast(found, "float32") if weights is None else tf.cast(found, "float32") * weights
        made.append(variable.assign_add(tf.cast(tf.reduce_sum(found, 1), variable.dtype)))
    return made


class _Count(Metric):
    """How many predictions are of one kind."""

    _kind = ""

    def __init__(self, thresholds: Any = None, name: str | None = None, dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        self.init_thresholds = thresholds
        self.thresholds = checked_thresholds(thresholds)
        self.accumulator = self._zeros("accumulator", (len(self.thresholds),))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Counts a batch."""
        return count_matches({self._kind: self.accumulator}, y_true, y_pred, self.thresholds, sample_weight=sample_weight)

    def result(self) -> Any:
        """The count, or one per threshold."""
        return self.accumulator[0] if len(self.thresholds) == 1 else tf.identity(self.accumulator)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the metric."""
        return {**super().get_config(), "thresholds": self.init_thresholds}


@public("FalsePositives")
class FalsePositives(_Count):
    """How often a label 0 is predicted as 1.

    Args:
        thresholds: A threshold of predictions, or a list of them, which gives a result for each; 0.5 by default.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.FalsePositives()
    >>> _ = metric.update_state([0, 1, 0], [0.7, 0.9, 0.1])
    >>> round(float(metric.result()), 3)
    1.0
    """

    _kind = "fp"


@public("FalseNegatives")
class FalseNegatives(_Count):
    """How often a label 1 is predicted as 0.

    Args:
        thresholds: A threshold of predictions, or a list of them, which gives a result for each; 0.5 by default.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.FalseNegatives()
    >>> _ = metric.update_state([1, 1, 0], [0.2, 0.9, 0.1])
    >>> round(float(metric.result()), 3)
    1.0
    """

    _kind = "fn"


@public("TrueNegatives")
class TrueNegatives(_Count):
    """How often a label 0 is predicted as 0.

    Args:
        thresholds: A threshold of predictions, or a list of them, which gives a result for each; 0.5 by default.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.TrueNegatives()
    >>> _ = metric.update_state([0, 1, 0], [0.7, 0.9, 0.1])
    >>> round(float(metric.result()), 3)
    1.0
    """

    _kind = "tn"


@public("TruePositives")
class TruePositives(_Count):
    """How often a label 1 is predicted as 1.

    Args:
        thresholds: A threshold of predictions, or a list of them, which gives a result for each; 0.5 by default.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.TruePositives()
    >>> _ = metric.update_state([0, 1, 0], [0.7, 0.9, 0.1])
    >>> round(float(metric.result()), 3)
    1.0
    """

    _kind = "tp"


class _Share(Metric):
    """The ratio of true positives to true positives plus another count."""

    _other, _other_name = "", ""

    def __init__(self, thresholds: Any = None, top_k: int | None = None, class_id: int | None = None, name: str | None = None,
                 dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        self.init_thresholds, self.top_k, self.class_id = thresholds, top_k, class_id
        self.thresholds = checked_thresholds(thresholds, 0.5 if top_k is None else NEG_INF)
        self.true_positives = self._zeros("true_positives", (len(self.thresholds),))
        setattr(self, self._other_name, self._zeros(self._other_name, (len(self.thresholds),)))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Counts a batch."""
        return count_matches({"tp": self.true_positives, self._other: getattr(self, self._other_name)}, y_true, y_pred,
                             self.thresholds, top_k=self.top_k, class_id=self.class_id, sample_weight=sample_weight)

    def result(self) -> Any:
        """The share, or one per threshold."""
        share = tf.math.divide_no_nan(self.true_positives, self.true_positives + getattr(self, self._other_name))
        return share[0] if len(self.thresholds) == 1 else share

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the metric."""
        return {**super().get_config(), "thresholds": self.init_thresholds, "top_k": self.top_k, "class_id": self.class_id}


@public("Precision")
class Precision(_Share):
    """The fraction of positive predictions that are correct.

    Args:
        thresholds: A threshold of predictions, or a list of them, which gives a result for each; 0.5 by default.
        top_k: Count only the k largest predictions of a sample, instead of a threshold.
        class_id: The class that is looked at, by default all.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.Precision()
    >>> _ = metric.update_state([0, 1, 1], [0.7, 0.9, 0.1])
    >>> round(float(metric.result()), 3)
    0.5
    """

    _other, _other_name = "fp", "false_positives"


@public("Recall")
class Recall(_Share):
    """The fraction of positive labels that are found.

    Args:
        thresholds: A threshold of predictions, or a list of them, which gives a result for each; 0.5 by default.
        top_k: Count only the k largest predictions of a sample, instead of a threshold.
        class_id: The class that is looked at, by default all.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.Recall()
    >>> _ = metric.update_state([0, 1, 1], [0.7, 0.9, 0.1])
    >>> round(float(metric.result()), 3)
    0.5
    """

    _other, _other_name = "fn", "false_negatives"


class _FourCounts(Metric):
    """All four counts, at many thresholds."""

    false_negatives: Any
    false_positives: Any
    true_negatives: Any
    true_positives: Any

    def _make_counts(self, shape: tuple) -> None:
        for name in ("true_positives", "true_negatives", "false_positives", "false_negatives"):
            setattr(self, name, self._zeros(name, shape))

    def _counts(self) -> dict[str, Any]:
        return {"tp": self.true_positives, "tn": self.true_negatives, "fp": self.false_positives, "fn": self.false_negatives}


class _AtValue(_FourCounts):
    """The best of one share where another is at least `value`."""

    false_negatives: Any
    false_positives: Any
    true_negatives: Any
    true_positives: Any

    def __init__(self, value: float, num_thresholds: int = 200, class_id: int | None = None, name: str | None = None,
                 dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        if num_thresholds <= 0:
            raise ValueError("`num_thresholds` must be > 0.")
        self.value, self.class_id, self.num_thresholds = value, class_id, num_thresholds
        self.thresholds = [0.5] if num_thresholds == 1 else [0.0, *even_thresholds(num_thresholds), 1.0]
        self._make_counts((num_thresholds,))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Counts a batch."""
        return count_matches(self._counts(), y_true, y_pred, self.thresholds, class_id=self.class_id,
                             sample_weight=sample_weight)

    def _class_config(self) -> dict[str, Any]:
        """The class, for the configuration; 1.x has no such argument."""
        return {"class_id": self.class_id} if context.process.eager or self.class_id is not None else {}

    def _best(self, wanted: Any, constrained: Any) -> Any:
        """The largest of `wanted` where `constrained` is at least the value; 0 where it never is."""
        return tf.reduce_max(tf.where(constrained >= tf.cast(self.value, constrained.dtype), wanted, tf.zeros_like(wanted)))

    def _rates(self) -> tuple[Any, Any, Any]:
        """Sensitivity, specificity and precision, at each threshold."""
        tp, tn, fp, fn = self.true_positives, self.true_negatives, self.false_positives, self.false_negatives
        return tuple(tf.math.divide_no_nan(a, a + b) for a, b in ((tp, fn), (tn, fp), (tp, fp)))


def _checked_share(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"`{name}` must be in the range [0, 1], got {value}.")
    return value


@public("SensitivityAtSpecificity")
class SensitivityAtSpecificity(_AtValue):
    """The best sensitivity at which the specificity is at least the given one.

    Args:
        specificity: The least specificity, from 0 to 1.
        num_thresholds: How many thresholds are tried.
        class_id: The class that is looked at, by default all.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.SensitivityAtSpecificity(0.5)
    >>> _ = metric.update_state([0, 0, 1, 1], [0.1, 0.6, 0.7, 0.9])
    >>> round(float(metric.result()), 3)
    1.0
    """

    def __init__(self, specificity: float, num_thresholds: int = 200, name: str | None = None, dtype: Any = None,
                 class_id: int | None = None):
        super().__init__(_checked_share("specificity", specificity), num_thresholds, class_id, name, dtype)
        self.specificity = specificity

    def result(self) -> Any:
        """The sensitivity."""
        sensitivity, specificity, _ = self._rates()
        return self._best(sensitivity, specificity)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the metric."""
        return {**super().get_config(), **self._class_config(), "num_thresholds": self.num_thresholds,
                "specificity": self.specificity}


@public("SpecificityAtSensitivity")
class SpecificityAtSensitivity(_AtValue):
    """The best specificity at which the sensitivity is at least the given one.

    Args:
        sensitivity: The least sensitivity, from 0 to 1.
        num_thresholds: How many thresholds are tried.
        class_id: The class that is looked at, by default all.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.SpecificityAtSensitivity(0.5)
    >>> _ = metric.update_state([0, 0, 1, 1], [0.1, 0.6, 0.7, 0.9])
    >>> round(float(metric.result()), 3)
    1.0
    """

    def __init__(self, sensitivity: float, num_thresholds: int = 200, name: str | None = None, dtype: Any = None,
                 class_id: int | None = None):
        super().__init__(_checked_share("sensitivity", sensitivity), num_thresholds, class_id, name, dtype)
        self.sensitivity = sensitivity

    def result(self) -> Any:
        """The specificity."""
        sensitivity, specificity, _ = self._rates()
        return self._best(specificity, sensitivity)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the metric."""
        return {**super().get_config(), **self._class_config(), "num_thresholds": self.num_thresholds,
                "sensitivity": self.sensitivity}


@export("keras.metrics.PrecisionAtRecall", v2=["metrics.PrecisionAtRecall"])
class PrecisionAtRecall(_AtValue):
    """The best precision at which the recall is at least the given one.

    Args:
        recall: The least recall, from 0 to 1.
        num_thresholds: How many thresholds are tried.
        class_id: The class that is looked at, by default all.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.PrecisionAtRecall(0.5)
    >>> _ = metric.update_state([0, 0, 1, 1], [0.1, 0.6, 0.7, 0.9])
    >>> round(float(metric.result()), 3)
    1.0
    """

    def __init__(self, recall: float, num_thresholds: int = 200, class_id: int | None = None, name: str | None = None,
                 dtype: Any = None):
        super().__init__(_checked_share("recall", recall), num_thresholds, class_id, name, dtype)
        self.recall = recall

    def result(self) -> Any:
        """The precision."""
        recall, _, precision = self._rates()
        return self._best(precision, recall)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the metric."""
        return {**super().get_config(), **self._class_config(), "num_thresholds": self.num_thresholds,
                "recall": self.recall}


@export("keras.metrics.RecallAtPrecision", v2=["metrics.RecallAtPrecision"])
class RecallAtPrecision(_AtValue):
    """The best recall at which the precision is at least the given one.

    Args:
        precision: The least precision, from 0 to 1.
        num_thresholds: How many thresholds are tried.
        class_id: The class that is looked at, by default all.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.RecallAtPrecision(0.8)
    >>> _ = metric.update_state([0, 0, 1, 1], [0.1, 0.6, 0.7, 0.9])
    >>> round(float(metric.result()), 3)
    1.0
    """

    def __init__(self, precision: float, num_thresholds: int = 200, class_id: int | None = None, name: str | None = None,
                 dtype: Any = None):
        super().__init__(_checked_share("precision", precision), num_thresholds, class_id, name, dtype)
        self.precision = precision

    def result(self) -> Any:
        """The recall."""
        recall, _, precision = self._rates()
        return self._best(recall, precision)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the metric."""
        return {**super().get_config(), **self._class_config(), "num_thresholds": self.num_thresholds,
                "precision": self.precision}
