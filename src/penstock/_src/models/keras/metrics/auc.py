"""AUC: the area under the ROC or the precision-recall curve, as a Riemann sum over thresholds."""
from __future__ import annotations

import enum
from typing import Any

import penstock as tf
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.metrics.confusion import _FourCounts, count_matches, even_thresholds
from penstock._src.models.keras.metrics.metric import public
from penstock._src.models.keras.utils.generic_utils import uses_earlier_configs


class AUCCurve(enum.Enum):
    """Which curve."""

    ROC = "ROC"
    PR = "PR"


class AUCSummationMethod(enum.Enum):
    """The height between two thresholds: their mean, the larger or the smaller."""

    INTERPOLATION = "interpolation"
    MAJORING = "majoring"
    MINORING = "minoring"


def _chosen(kind: Any, value: Any, what: str) -> Any:
    """A member of an enumeration, from itself or from its name in any case."""
    if isinstance(value, kind):
        return value
    for member in kind:
        if isinstance(value, str) and value.lower() == member.value.lower():
            return member
    raise ValueError(f"Invalid {what} value \"{value}\".")


@public("AUC")
class AUC(_FourCounts):
    """The area under a curve of rates, from counts at `num_thresholds` thresholds.

    Args:
        num_thresholds: How many thresholds approximate the curve.
        curve: `"ROC"`, or `"PR"` for precision over recall.
        summation_method: `"interpolation"`, `"minoring"` or `"majoring"`: how the area between thresholds is approximated.
        thresholds: The thresholds, instead of `num_thresholds` even ones.
        multi_label: Whether each output is a problem of its own, whose areas are averaged.
        num_labels: The number of outputs if `multi_label`; by default known after the first batch.
        label_weights: Weights of the outputs in that average.
        from_logits: Whether predictions are logits; by default they are probabilities.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.AUC(num_thresholds=3)
    >>> _ = metric.update_state([0, 0, 1, 1], [0., 0.5, 0.3, 0.9])
    >>> round(float(metric.result()), 3)
    0.75
    """

    false_negatives: Any
    false_positives: Any
    true_negatives: Any
    true_positives: Any

    def __init__(self, num_thresholds: int = 200, curve: Any = "ROC", summation_method: Any = "interpolation",
                 name: str | None = None, dtype: Any = None, thresholds: Any = None, multi_label: bool = False,
                 num_labels: int | None = None, label_weights: Any = None, from_logits: bool = False):
        self_curve = _chosen(AUCCurve, curve, "AUC curve")
        self_method = _chosen(AUCSummationMethod, summation_method, "AUC summation method")
        if thresholds is None and num_thresholds <= 1:
            raise ValueError(f"`num_thresholds` must be an integer > 1. Received: num_thresholds={num_thresholds}")
        wrong = [t for t in thresholds or () if not 0 <= t <= 1]
        if wrong:
            raise ValueError(f"Threshold values must be in [0, 1]. Invalid values: {wrong}")
        super().__init__(name=name, dtype=dtype)
        self.curve, self.summation_method = self_curve, self_method
        self._given_thresholds = thresholds is not None
        inner = even_thresholds(num_thresholds) if thresholds is None else sorted(thresholds)
        self.num_thresholds = len(inner) + 2
        self.thresholds = [0.0 - K.epsilon(), *inner, 1.0 + K.epsilon()]
        self.multi_label, self.num_labels, self.label_weights = multi_label, num_labels, label_weights
        self._from_logits = from_logits
        if label_weights is not None and not multi_label:
            raise ValueError("`label_weights` are only for `multi_label=True`.")
        self._counting = False
        if not multi_label or num_labels:
            self._start((self.num_thresholds, num_labels) if multi_label else (self.num_thresholds,))

    def _start(self, shape: tuple) -> None:
        self._make_counts(shape)
        self._counting = True

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Counts a batch."""
        if not self._counting:
            self._start((self.num_thresholds, tf.convert_to_tensor(y_pred).shape[-1]))
        if self._from_logits:
            y_pred = tf.sigmoid(tf.cast(y_pred, "float32"))
        return count_matches(self._counts(), y_true, y_pred, self.thresholds, sample_weight=sample_weight,
                             multi_label=self.multi_label, label_weights=None if self.multi_label else self.label_weights)

    def interpolate_pr_auc(self) -> Any:
        """The area under the precision-recall curve, along the true curve between thresholds (Davis and Goadrich)."""
        tp, p = tf.identity(self.true_positives), self.true_positives + self.false_positives
        steps, span = tp[:-1] - tp[1:], p[:-1] - p[1:]
        slope = tf.math.divide_no_nan(steps, tf.maximum(span, 0))
        start = tp[1:] - slope * p[1:]
        both = tf.logical_and(p[:-1] > 0, p[1:] > 0)
        ratio = tf.where(both, tf.math.divide_no_nan(p[:-1], tf.maximum(p[1:], 0)), tf.ones_like(p[1:]))
        found = tf.maximum(tp[1:] + self.false_negatives[1:], 0)
        areas = tf.math.divide_no_nan(slope * (steps + start * tf.math.log(ratio)), found)
        return self._averaged(tf.reduce_sum(areas, axis=0)) if self.multi_label else tf.reduce_sum(areas)

    def _averaged(self, by_label: Any) -> Any:
        if self.label_weights is None:
            return tf.reduce_mean(by_label)
        weights = tf.cast(self.label_weights, by_label.dtype)
        return tf.math.divide_no_nan(tf.reduce_sum(by_label * weights), tf.reduce_sum(weights))

    def result(self) -> Any:
        """The area."""
        if self.curve == AUCCurve.PR and self.summation_method == AUCSummationMethod.INTERPOLATION:
            return self.interpolate_pr_auc()
        recall = tf.math.divide_no_nan(self.true_positives, self.true_positives + self.false_negatives)
        if self.curve == AUCCurve.ROC:
            x, y = tf.math.divide_no_nan(self.false_positives, self.false_positives + self.true_negatives), recall
        else:
            x, y = recall, tf.math.divide_no_nan(self.true_positives, self.true_positives + self.false_positives)
        if self.summation_method == AUCSummationMethod.INTERPOLATION:
            heights = (y[:-1] + y[1:]) / 2.0
        else:
            choose = tf.minimum if self.summation_method == AUCSummationMethod.MINORING else tf.maximum
            heights = choose(y[:-1], y[1:])
        areas = (x[:-1] - x[1:]) * heights
        return self._averaged(tf.reduce_sum(areas, axis=0)) if self.multi_label else tf.reduce_sum(areas, name=self.name)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the metric."""
        config = {"num_thresholds": self.num_thresholds, "curve": self.curve.value,
                  "summation_method": self.summation_method.value}
        if not uses_earlier_configs():
            own = {"thresholds": self.thresholds[1:-1]} if self._given_thresholds else {}
            return {**super().get_config(), **config, "multi_label": self.multi_label, "num_labels": self.num_labels,
                    "label_weights": self.label_weights, **own, "from_logits": self._from_logits}
        config["thresholds"] = self.thresholds[1:-1]
        if self.multi_label:
            config.update(multi_label=True, num_labels=self.num_labels, label_weights=self.label_weights)
        if self._from_logits:
            config["from_logits"] = True
        return {**super().get_config(), **config}
