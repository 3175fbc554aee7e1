"""Losses as metrics: their means over all batches."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.graph import context
from penstock._src.models.keras.losses import functions
from penstock._src.models.keras.metrics.averages import MeanMetricWrapper
from penstock._src.models.keras.metrics.metric import public


def cosine_similarity(y_true: Any, y_pred: Any, axis: int = -1) -> Any:
    """The cosine of the angle between labels and predictions; the loss of that name is minus this."""
    y_true, y_pred = tf.math.l2_normalize(y_true, axis=axis), tf.math.l2_normalize(y_pred, axis=axis)
    return tf.reduce_sum(y_true * y_pred, axis=axis)


@public("CosineSimilarity")
class CosineSimilarity(MeanMetricWrapper):
    """The mean cosine of the angle between labels and predictions.

    Args:
        axis: The axis of the vectors that are compared.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.CosineSimilarity()
    >>> _ = metric.update_state([[0., 1.]], [[0., 2.]])
    >>> round(float(metric.result()), 3)
    1.0
    """

    def __init__(self, name: str | None = "cosine_similarity", dtype: Any = None, axis: int = -1):
        super().__init__(cosine_similarity, name, dtype=dtype, axis=axis)


@public("MeanAbsoluteError")
class MeanAbsoluteError(MeanMetricWrapper):
    """The mean of absolute errors.

    Args:
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.MeanAbsoluteError()
    >>> _ = metric.update_state([[0., 1.]], [[1., 3.]])
    >>> round(float(metric.result()), 3)
    1.5
    """

    def __init__(self, name: str | None = "mean_absolute_error", dtype: Any = None):
        super().__init__(functions.mean_absolute_error, name, dtype=dtype)


@public("MeanAbsolutePercentageError")
class MeanAbsolutePercentageError(MeanMetricWrapper):
    """The mean of absolute errors in percent of the labels.

    Args:
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.MeanAbsolutePercentageError()
    >>> _ = metric.update_state([[2., 4.]], [[1., 4.]])
    >>> round(float(metric.result()), 3)
    25.0
    """

    def __init__(self, name: str | None = "mean_absolute_percentage_error", dtype: Any = None):
        super().__init__(functions.mean_absolute_percentage_error, name, dtype=dtype)


@public("MeanSquaredError")
class MeanSquaredError(MeanMetricWrapper):
    """The mean of squared errors.

    Args:
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.MeanSquaredError()
    >>> _ = metric.update_state([[0., 1.]], [[1., 1.]])
    >>> round(float(metric.result()), 3)
    0.5
    """

    def __init__(self, name: str | None = "mean_squared_error", dtype: Any = None):
        super().__init__(functions.mean_squared_error, name, dtype=dtype)


@public("MeanSquaredLogarithmicError")
class MeanSquaredLogarithmicError(MeanMetricWrapper):
    """The mean of squared differences of log(1 + x).

    Args:
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.MeanSquaredLogarithmicError()
    >>> _ = metric.update_state([[0., 0.]], [[0., 0.]])
    >>> round(float(metric.result()), 3)
    0.0
    """

    def __init__(self, name: str | None = "mean_squared_logarithmic_error", dtype: Any = None):
        super().__init__(functions.mean_squared_logarithmic_error, name, dtype=dtype)


@public("Hinge")
class Hinge(MeanMetricWrapper):
    """The mean hinge loss.

    Labels are -1 and 1, or 0 and 1.

    Args:
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.Hinge()
    >>> _ = metric.update_state([[-1., 1.]], [[0.5, 2.]])
    >>> round(float(metric.result()), 3)
    0.75
    """

    def __init__(self, name: str | None = "hinge", dtype: Any = None):
        super().__init__(functions.hinge, name, dtype=dtype)


@public("SquaredHinge")
class SquaredHinge(MeanMetricWrapper):
    """The mean squared hinge loss.

    Labels are -1 and 1, or 0 and 1.

    Args:
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.SquaredHinge()
    >>> _ = metric.update_state([[-1., 1.]], [[1., 2.]])
    >>> round(float(metric.result()), 3)
    2.0
    """

    def __init__(self, name: str | None = "squared_hinge", dtype: Any = None):
        super().__init__(functions.squared_hinge, name, dtype=dtype)


@public("CategoricalHinge")
class CategoricalHinge(MeanMetricWrapper):
    """The mean categorical hinge loss.

    Args:
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.CategoricalHinge()
    >>> _ = metric.update_state([[0., 1.]], [[0.5, 1.5]])
    >>> round(float(metric.result()), 3)
    0.0
    """

    def __init__(self, name: str | None = "categorical_hinge", dtype: Any = None):
        super().__init__(functions.categorical_hinge, name, dtype=dtype)


@public("LogCoshError")
class LogCoshError(MeanMetricWrapper):
    """The mean of log(cosh(error)).

    Args:
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.LogCoshError()
    >>> _ = metric.update_state([[0.]], [[1.]])
    >>> round(float(metric.result()), 3)
    0.434
    """

    def __init__(self, name: str | None = "logcosh", dtype: Any = None):
        super().__init__(functions.log_cosh, name, dtype=dtype)


@public("Poisson")
class Poisson(MeanMetricWrapper):
    """The mean Poisson loss.

    Args:
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.Poisson()
    >>> _ = metric.update_state([[0., 1.]], [[1., 1.]])
    >>> round(float(metric.result()), 3)
    1.0
    """

    def __init__(self, name: str | None = "poisson", dtype: Any = None):
        super().__init__(functions.poisson, name, dtype=dtype)


@public("KLDivergence")
class KLDivergence(MeanMetricWrapper):
    """The mean Kullback-Leibler divergence.

    Args:
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.KLDivergence()
    >>> _ = metric.update_state([[0.5, 0.5]], [[0.5, 0.5]])
    >>> round(float(metric.result()), 3)
    0.0
    """

    def __init__(self, name: str | None = "kullback_leibler_divergence", dtype: Any = None):
        super().__init__(functions.kl_divergence, name, dtype=dtype)


@public("BinaryCrossentropy")
class BinaryCrossentropy(MeanMetricWrapper):
    """The mean cross-entropy of labels 0 and 1.

    Args:
        from_logits: Whether predictions are logits; by default they are probabilities.
        label_smoothing: Between 0 and 1: how much of each label is spread evenly over the classes.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.BinaryCrossentropy()
    >>> _ = metric.update_state([[0., 1.]], [[0.5, 0.5]])
    >>> round(float(metric.result()), 3)
    0.693
    """

    def __init__(self, name: str | None = "binary_crossentropy", dtype: Any = None, from_logits: bool = False,
                 label_smoothing: Any = 0):
        super().__init__(functions.binary_crossentropy, name, dtype=dtype, from_logits=from_logits,
                         label_smoothing=label_smoothing)


@public("CategoricalCrossentropy")
class CategoricalCrossentropy(MeanMetricWrapper):
    """The mean cross-entropy of labels that are distributions.

    Args:
        from_logits: Whether predictions are logits; by default they are probabilities.
        label_smoothing: Between 0 and 1: how much of each label is spread evenly over the classes.
        axis: The axis of classes.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.CategoricalCrossentropy()
    >>> _ = metric.update_state([[0., 1.]], [[0.5, 0.5]])
    >>> round(float(metric.result()), 3)
    0.693
    """

    def __init__(self, name: str | None = "categorical_crossentropy", dtype: Any = None, from_logits: bool = False,
                 label_smoothing: Any = 0, axis: int = -1):
        extra = {} if axis == -1 and not context.process.eager else {"axis": axis}       # 1.x has no axis
        super().__init__(functions.categorical_crossentropy, name, dtype=dtype, from_logits=from_logits,
                         label_smoothing=label_smoothing, **extra)


@public("SparseCategoricalCrossentropy")
class SparseCategoricalCrossentropy(MeanMetricWrapper):
    """The mean cross-entropy of labels that are numbers of classes.

    Args:
        from_logits: Whether predictions are logits; by default they are probabilities.
        axis: The axis of classes.
        ignore_class: A label whose samples do not count.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.SparseCategoricalCrossentropy()
    >>> _ = metric.update_state([1], [[0.5, 0.5]])
    >>> round(float(metric.result()), 3)
    0.693
    """

    def __init__(self, name: str | None = "sparse_categorical_crossentropy", dtype: Any = None, from_logits: bool = False,
                 axis: int = -1, ignore_class: int | None = None):
        extra = {} if ignore_class is None and not context.process.eager else {"ignore_class": ignore_class}
        super().__init__(functions.sparse_categorical_crossentropy, name, dtype=dtype, from_logits=from_logits, **extra,
                         axis=axis)
