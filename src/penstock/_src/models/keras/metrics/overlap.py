"""Metrics over whole confusion matrices: intersection over union, F-scores; and the coefficient of determination."""
from __future__ import annotations

import inspect
from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.models.keras.metrics.metric import Metric, public
from penstock._src.ops.core import group
from penstock._src.ops.math.confusion import confusion_matrix


class _Matrix(Metric):
    """A confusion matrix that grows batch by batch."""

    def __init__(self, num_classes: int, name: str | None = None, dtype: Any = None, ignore_class: int | None = None,
                 sparse_y_true: bool = True, sparse_y_pred: bool = True, axis: int = -1):
        super().__init__(name=name, dtype=dtype)
        self.num_classes, self.ignore_class, self.axis = num_classes, ignore_class, axis
        self.sparse_y_true, self.sparse_y_pred = sparse_y_true, sparse_y_pred
        self.total_cm = self._zeros("total_confusion_matrix", (num_classes, num_classes))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Counts a batch."""
        y_true = tf.cast(y_true, self.dtype) if self.sparse_y_true else tf.argmax(y_true, axis=self.axis)
        y_pred = tf.cast(y_pred, self.dtype) if self.sparse_y_pred else tf.argmax(y_pred, axis=self.axis)
        y_true, y_pred = tf.cast(tf.reshape(y_true, [-1]), "int64"), tf.cast(tf.reshape(y_pred, [-1]), "int64")
        if sample_weight is not None:
            sample_weight = tf.reshape(tf.cast(sample_weight, self.dtype), [-1])
        if self.ignore_class is not None:
            kept = tf.not_equal(y_true, self.ignore_class)
            y_true, y_pred = tf.boolean_mask(y_true, kept), tf.boolean_mask(y_pred, kept)
            sample_weight = None if sample_weight is None else tf.boolean_mask(sample_weight, kept)
        counts = confusion_matrix(y_true, y_pred, self.num_classes, weights=sample_weight, dtype=self.dtype)
        return self.total_cm.assign_add(counts)

    def _described(self) -> dict[str, Any]:
        """The arguments that 2.x has added, for the configuration."""
        taken = inspect.signature(type(self)).parameters if context.process.eager else ()
        return {n: getattr(self, n) for n in ("ignore_class", "sparse_y_true", "sparse_y_pred", "axis") if n in taken}

    def _ious(self) -> tuple[Any, Any]:
        """Intersection over union of each class, and which classes occur."""
        both = tf.cast(tf.linalg.diag_part(self.total_cm), self.dtype)
        either = tf.cast(tf.reduce_sum(self.total_cm, axis=0) + tf.reduce_sum(self.total_cm, axis=1), self.dtype) - both
        return tf.math.divide_no_nan(both, either), tf.cast(tf.not_equal(either, 0), self.dtype)


@public("MeanIoU")
class MeanIoU(_Matrix):
    """The mean intersection over union of the classes that occur.

    Args:
        num_classes: The number of classes.
        ignore_class: A label whose samples do not count.
        sparse_y_true: Whether labels are numbers of classes; otherwise the largest along `axis` is taken.
        sparse_y_pred: Whether predictions are numbers of classes; otherwise the largest along `axis` is taken.
        axis: The axis of classes.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.MeanIoU(num_classes=2)
    >>> _ = metric.update_state([0, 0, 1, 1], [0, 1, 0, 1])
    >>> round(float(metric.result()), 3)
    0.333
    """

    def result(self) -> Any:
        """The mean."""
        iou, valid = self._ious()
        return tf.math.divide_no_nan(tf.reduce_sum(iou, name="mean_iou"), tf.reduce_sum(valid))

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the metric."""
        return {"num_classes": self.num_classes, **super().get_config(), **self._described()}


@export("keras.metrics.IoU", v2=["metrics.IoU"])
class IoU(_Matrix):
    """The mean intersection over union of some classes.

    Args:
        num_classes: The number of classes.
        target_class_ids: The classes whose overlap is averaged.
        ignore_class: A label whose samples do not count.
        sparse_y_true: Whether labels are numbers of classes; otherwise the largest along `axis` is taken.
        sparse_y_pred: Whether predictions are numbers of classes; otherwise the largest along `axis` is taken.
        axis: The axis of classes.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.IoU(num_classes=2, target_class_ids=[0])
    >>> _ = metric.update_state([0, 0, 1, 1], [0, 1, 0, 1])
    >>> round(float(metric.result()), 3)
    0.333
    """

    _sizes_first = False                 # in configurations

    def __init__(self, num_classes: int, target_class_ids: Any, name: str | None = None, dtype: Any = None,
                 ignore_class: int | None = None, sparse_y_true: bool = True, sparse_y_pred: bool = True, axis: int = -1):
        super().__init__(num_classes, name, dtype, ignore_class, sparse_y_true, sparse_y_pred, axis)
        if max(target_class_ids) >= num_classes:
            raise ValueError(f"Target class id {max(target_class_ids)} is out of range, which is [0, {num_classes}).")
        self.target_class_ids = list(target_class_ids)

    def result(self) -> Any:
        """The mean."""
        iou, valid = (tf.gather(x, self.target_class_ids) for x in self._ious())
        return tf.math.divide_no_nan(tf.reduce_sum(iou), tf.reduce_sum(valid))

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the metric."""
        own = {"num_classes": self.num_classes, "target_class_ids": self.target_class_ids}
        base = {"name": self.name, "dtype": self.dtype}
        return {**(own | base if self._sizes_first else base | own), **self._described()}


@export("keras.metrics.BinaryIoU", v2=["metrics.BinaryIoU"])
class BinaryIoU(IoU):
    """IoU of labels 0 and 1 with predictions above and below a threshold.

    Args:
        target_class_ids: The classes whose overlap is averaged.
        threshold: Predictions above it count as class 1.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.BinaryIoU()
    >>> _ = metric.update_state([0, 1, 0, 1], [0.1, 0.2, 0.4, 0.7])
    >>> round(float(metric.result()), 3)
    0.583
    """

    def __init__(self, target_class_ids: Any = (0, 1), threshold: float = 0.5, name: str | None = None, dtype: Any = None):
        super().__init__(2, target_class_ids, name, dtype)
        self.threshold = threshold

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Counts a batch."""
        return super().update_state(y_true, tf.cast(tf.cast(y_pred, self.dtype) >= self.threshold, self.dtype), sample_weight)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the metric."""
        return {"target_class_ids": self.target_class_ids, "threshold": self.threshold, "name": self.name, "dtype": self.dtype}


@export("keras.metrics.OneHotIoU", v2=["metrics.OneHotIoU"])
class OneHotIoU(IoU):
    """IoU for labels that are one-hot.

    Args:
        num_classes: The number of classes.
        target_class_ids: The classes whose overlap is averaged.
        ignore_class: A label whose samples do not count.
        sparse_y_pred: Whether predictions are numbers of classes; otherwise the largest along `axis` is taken.
        axis: The axis of classes.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.OneHotIoU(num_classes=2, target_class_ids=[0, 1])
    >>> _ = metric.update_state([[1., 0.], [0., 1.]], [[0.9, 0.1], [0.2, 0.8]])
    >>> round(float(metric.result()), 3)
    1.0
    """

    _sizes_first = True

    def __init__(self, num_classes: int, target_class_ids: Any, name: str | None = None, dtype: Any = None,
                 ignore_class: int | None = None, sparse_y_pred: bool = False, axis: int = -1):
        super().__init__(num_classes, target_class_ids, name, dtype, ignore_class, False, sparse_y_pred, axis)


@export("keras.metrics.OneHotMeanIoU", v2=["metrics.OneHotMeanIoU"])
class OneHotMeanIoU(MeanIoU):
    """MeanIoU for labels that are one-hot.

    Args:
        num_classes: The number of classes.
        ignore_class: A label whose samples do not count.
        sparse_y_pred: Whether predictions are numbers of classes; otherwise the largest along `axis` is taken.
        axis: The axis of classes.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.OneHotMeanIoU(num_classes=2)
    >>> _ = metric.update_state([[1., 0.], [0., 1.]], [[0.9, 0.1], [0.2, 0.8]])
    >>> round(float(metric.result()), 3)
    1.0
    """

    def __init__(self, num_classes: int, name: str | None = None, dtype: Any = None, ignore_class: int | None = None,
                 sparse_y_pred: bool = False, axis: int = -1):
        super().__init__(num_classes, name, dtype, ignore_class, False, sparse_y_pred, axis)


@export("keras.metrics.FBetaScore", v2=["metrics.FBetaScore"])
class FBetaScore(Metric):
    """(1 + beta ** 2) * precision * recall / (beta ** 2 * precision + recall), per class or averaged.

    Args:
        average: None for a score per class, `"micro"`, `"macro"` or `"weighted"` for one of all classes.
        threshold: Predictions above it count as 1; by default only the largest of a sample does.
        beta: How many times recall counts as much as precision.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.FBetaScore(average="macro", beta=2.0)
    >>> _ = metric.update_state([[1., 0.], [0., 1.]], [[0.9, 0.1], [0.2, 0.8]])
    >>> round(float(metric.result()), 3)
    1.0
    """

    false_negatives: Any
    false_positives: Any
    intermediate_weights: Any
    true_positives: Any

    def __init__(self, average: str | None = None, beta: float = 1.0, threshold: float | None = None,
                 name: str | None = "fbeta_score", dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        if average not in (None, "micro", "macro", "weighted"):
            raise ValueError("Invalid `average` argument value. Expected one of: {None, 'micro', 'macro', 'weighted'}. "
                             f"Received: average={average}")
        if beta <= 0:
            raise ValueError(f"Invalid `beta` argument value. It should be > 0. Received: beta={beta}")
        if threshold is not None and not 0 < threshold <= 1:
            raise ValueError(f"`threshold` must be above 0 and at most 1; got {threshold}")
        self.average, self.beta, self.threshold = average, beta, threshold
        self.axis = None if average == "micro" else 0
        self._made = False

    def _make(self, shape: Any) -> None:
        shape = () if self.average == "micro" else (shape[-1],)
        for name in ("true_positives", "false_positives", "false_negatives", "intermediate_weights"):
            setattr(self, name, self._zeros(name, shape))
        self._made = True

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Counts a batch."""
        y_true, y_pred = tf.cast(y_true, self.dtype), tf.cast(y_pred, self.dtype)
        if not self._made:
            self._make(y_pred.shape)
        if self.threshold is None:
            y_pred = tf.logical_and(tf.equal(y_pred, tf.reduce_max(y_pred, axis=-1, keepdims=True)), tf.abs(y_pred) > 1e-9)
        else:
            y_pred = y_pred > self.threshold
        y_pred = tf.cast(y_pred, self.dtype)

        def total(x: Any) -> Any:
            return tf.reduce_sum(x if sample_weight is None else x * tf.expand_dims(tf.cast(sample_weight, self.dtype), 1),
                                 axis=self.axis)
        made = [self.true_positives.assign_add(total(y_pred * y_true)),
                self.false_positives.assign_add(total(y_pred * (1 - y_true))),
                self.false_negatives.assign_add(total((1 - y_pred) * y_true)),
                self.intermediate_weights.assign_add(total(y_true))]
        return None if context.executing_eagerly() else group(*made)

    def result(self) -> Any:
        """The score, or one per class."""
        precision = tf.math.divide_no_nan(self.true_positives, self.true_positives + self.false_positives)
        recall = tf.math.divide_no_nan(self.true_positives, self.true_positives + self.false_negatives)
        squared = self.beta ** 2
        score = tf.math.divide_no_nan(precision * recall * (1 + squared), precision * squared + recall)
        if self.average == "weighted":
            weights = tf.math.divide_no_nan(self.intermediate_weights, tf.reduce_sum(self.intermediate_weights))
            return tf.reduce_sum(score * weights)
        return score if self.average is None else tf.reduce_mean(score)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the metric."""
        return {**super().get_config(), "average": self.average, "beta": self.beta, "threshold": self.threshold}


@export("keras.metrics.F1Score", v2=["metrics.F1Score"])
class F1Score(FBetaScore):
    """The harmonic mean of precision and recall.

    Args:
        average: None for a score per class, `"micro"`, `"macro"` or `"weighted"` for one of all classes.
        threshold: Predictions above it count as 1; by default only the largest of a sample does.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.F1Score(average="macro")
    >>> _ = metric.update_state([[1., 0.], [0., 1.]], [[0.9, 0.1], [0.2, 0.8]])
    >>> round(float(metric.result()), 3)
    1.0
    """

    def __init__(self, average: str | None = None, threshold: float | None = None, name: str | None = "f1_score",
                 dtype: Any = None):
        super().__init__(average, 1.0, threshold, name, dtype)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the metric."""
        config = super().get_config()
        del config["beta"]
        return config


@export("keras.metrics.R2Score", v2=["metrics.R2Score"])
class R2Score(Metric):
    """1 - (residual variance) / (variance of the labels).

    Args:
        class_aggregation: `"uniform_average"`, `"variance_weighted_average"`, or None for a score per output.
        num_regressors: The number of inputs, for the adjusted score; 0 for the plain one.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.R2Score()
    >>> _ = metric.update_state([[1.], [2.], [3.]], [[1.], [2.], [3.]])
    >>> round(float(metric.result()), 3)
    1.0
    """

    count: Any
    squared_sum: Any
    sum: Any
    residual: Any

    def __init__(self, class_aggregation: str | None = "uniform_average", num_regressors: int = 0,
                 name: str | None = "r2_score", dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        if class_aggregation not in (None, "uniform_average", "variance_weighted_average"):
            raise ValueError("Invalid value for argument `class_aggregation`. Expected one of (None, 'uniform_average', "
                             f"'variance_weighted_average'). Received: class_aggregation={class_aggregation}")
        if num_regressors < 0:
            raise ValueError(f"Invalid value for argument `num_regressors`. Expected a value >= 0. Received: {num_regressors}")
        self.class_aggregation, self.num_regressors = class_aggregation, num_regressors
        self.num_samples = self._zeros("num_samples", dtype="int32")
        self._made = False

    def _make(self, size: int) -> None:
        for name in ("squared_sum", "sum", "residual", "count"):
            setattr(self, name, self._zeros(name, (size,)))
        self._made = True

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Adds a batch."""
        y_true, y_pred = tf.cast(y_true, self.dtype), tf.cast(y_pred, self.dtype)
        if not self._made:
            if (y_true.shape.rank, y_pred.shape.rank) != (2, 2):
                raise ValueError("R2Score expects 2D inputs with shape (batch_size, output_dim). Received input shapes: "
                                 f"y_pred.shape={y_pred.shape} and y_true.shape={y_true.shape}.")
            self._make(y_true.shape[-1])
        weights = tf.ones_like(y_true)
        if sample_weight is not None:
            given = tf.cast(sample_weight, self.dtype)
            weights = weights * (tf.expand_dims(given, 1) if given.shape.ndims == 1 else given)
        value = y_true * weights
        made = [self.sum.assign_add(tf.reduce_sum(value, axis=0)),
                self.squared_sum.assign_add(tf.reduce_sum(y_true * value, axis=0)),
                self.residual.assign_add(tf.reduce_sum((y_true - y_pred) ** 2 * weights, axis=0)),
                self.count.assign_add(tf.reduce_sum(weights, axis=0)), self.num_samples.assign_add(tf.size(y_true))]
        return None if context.executing_eagerly() else group(*made)

    def result(self) -> Any:
        """The score."""
        total = self.squared_sum - self.sum * (self.sum / self.count)
        score = 1 - self.residual / total
        score = tf.where(tf.math.is_inf(score), tf.zeros_like(score), score)        # labels that do not vary
        if self.class_aggregation == "uniform_average":
            score = tf.reduce_mean(score)
        elif self.class_aggregation == "variance_weighted_average":
            score = tf.reduce_sum(score * total) / tf.reduce_sum(total)
        if not self.num_regressors:
            return score
        n, p = tf.cast(self.num_samples, self.dtype), float(self.num_regressors)
        return tf.where(n - 1 > p, 1 - tf.math.divide_no_nan((1 - score) * (n - 1), n - p - 1), score)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the metric."""
        return {**super().get_config(), "class_aggregation": self.class_aggregation, "num_regressors": self.num_regressors}
