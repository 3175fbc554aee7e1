"""Accuracies: as functions, one number per sample, and as metrics."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.metrics.averages import MeanMetricWrapper
from penstock._src.models.keras.metrics.flat import flat_values
from penstock._src.models.keras.metrics.metric import public


def accuracy(y_true: Any, y_pred: Any) -> Any:
    """1 where predictions equal labels, 0 elsewhere."""
    [y_pred, y_true], _ = flat_values([y_pred, y_true])
    y_true, y_pred = convert(y_true), convert(y_pred)
    y_pred.shape.assert_is_compatible_with(y_true.shape)
    return tf.cast(tf.equal(y_true, tf.cast(y_pred, y_true.dtype)), K.floatx())


@export("keras.metrics.binary_accuracy", v2=["metrics.binary_accuracy"])
def binary_accuracy(y_true: Any, y_pred: Any, threshold: float = 0.5) -> Any:
    """The fraction of predictions on the label's side of `threshold`.

    >>> tf.keras.metrics.binary_accuracy([[1., 0.]], [[0.9, 0.8]])     # [0.5]
    """
    return tf.reduce_mean(_binary_matches(y_true, y_pred, threshold), axis=-1)


def _binary_matches(y_true: Any, y_pred: Any, threshold: float = 0.5) -> Any:
    """1 for each prediction on the label's side of `threshold`, 0 for the others."""
    y_pred = convert(y_pred)
    said = tf.cast(y_pred > tf.cast(threshold, y_pred.dtype), y_pred.dtype)
    return tf.cast(tf.equal(tf.cast(y_true, y_pred.dtype), said), K.floatx())


@export("keras.metrics.categorical_accuracy", v2=["metrics.categorical_accuracy"])
def categorical_accuracy(y_true: Any, y_pred: Any) -> Any:
    """1 where the largest prediction is that of the label's class, for labels that are distributions.

    Args:
        y_true: Distributions over classes.
        y_pred: Probabilities of the classes.

    Returns:
        A tensor of 0 and 1, one per example.

    >>> tf.keras.metrics.categorical_accuracy([[0., 1.], [1., 0.]], [[0.2, 0.8], [0.3, 0.7]]).numpy()
    array([1., 0.], dtype=float32)
    """
    return tf.cast(tf.equal(tf.argmax(y_true, axis=-1), tf.argmax(y_pred, axis=-1)), K.floatx())


def _numbers(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Labels that are numbers of classes, without a last dimension of one."""
    y_true, y_pred = convert(y_true), convert(y_pred)
    if y_true.shape.ndims is not None and y_true.shape.ndims == y_pred.shape.ndims:
        y_true = tf.squeeze(y_true, [-1])
    return y_true, y_pred


@export("keras.metrics.sparse_categorical_accuracy", v2=["metrics.sparse_categorical_accuracy"])
def sparse_categorical_accuracy(y_true: Any, y_pred: Any) -> Any:
    """1 where the largest prediction is that of the label's class, for labels that are numbers of classes.

    Args:
        y_true: The labels.
        y_pred: The predictions, one per class along the last axis.

    Returns:
        A tensor of zeros and ones, one per sample.

    >>> tf.keras.metrics.sparse_categorical_accuracy([1], [[0.2, 0.8]]).numpy().tolist()
    [1.0]
    """
    y_true, y_pred = _numbers(y_true, y_pred)
    return tf.cast(tf.equal(y_true, tf.cast(tf.argmax(y_pred, axis=-1), y_true.dtype)), K.floatx())


def _in_top(y_pred: Any, classes: Any, k: int) -> Any:
    """Whether the classes are among the k best; for any number of leading dimensions."""
    if y_pred.shape.ndims in (None, 0, 1, 2):        # in_top_k rejects all but matrices
        return tf.cast(tf.math.in_top_k(classes, y_pred, k), K.floatx())
    rows = tf.reshape(y_pred, [-1, tf.shape(y_pred)[-1]])
    found = tf.math.in_top_k(tf.reshape(classes, [-1]), rows, k)
    return tf.reshape(tf.cast(found, K.floatx()), tf.shape(classes))


@export("keras.metrics.top_k_categorical_accuracy", v2=["metrics.top_k_categorical_accuracy"])
def top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Any:
    """1 where the label's class is among the k largest predictions.

    Args:
        y_true: The labels.
        y_pred: The predictions, one per class along the last axis.
        k: How many of the largest predictions are looked at.

    Returns:
        A tensor of zeros and ones, one per sample.

    >>> tf.keras.metrics.top_k_categorical_accuracy([[0., 1., 0.]], [[0.5, 0.3, 0.2]], k=2).numpy().tolist()
    [1.0]
    """
    return _in_top(convert(y_pred), tf.argmax(y_true, axis=-1), k)


@export("keras.metrics.sparse_top_k_categorical_accuracy", v2=["metrics.sparse_top_k_categorical_accuracy"])
def sparse_top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Any:
    """1 where the label's class is among the k largest predictions, for labels that are numbers of classes.

    Args:
        y_true: The labels.
        y_pred: The predictions, one per class along the last axis.
        k: How many of the largest predictions are looked at.

    Returns:
        A tensor of zeros and ones, one per sample.

    >>> tf.keras.metrics.sparse_top_k_categorical_accuracy([2], [[0.5, 0.3, 0.2]], k=2).numpy().tolist()
    [0.0]
    """
    y_true, y_pred = _numbers(y_true, y_pred)
    return _in_top(y_pred, tf.cast(y_true, "int32"), k)


@public("Accuracy")
class Accuracy(MeanMetricWrapper):
    """How often predictions equal labels.

    Args:
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.Accuracy()
    >>> _ = metric.update_state([1, 2, 3], [1, 2, 0])
    >>> round(float(metric.result()), 3)
    0.667
    """

    def __init__(self, name: str | None = "accuracy", dtype: Any = None):
        super().__init__(accuracy, name, dtype=dtype)


@public("BinaryAccuracy")
class BinaryAccuracy(MeanMetricWrapper):
    """How often predictions are on the label's side of a threshold.

    Args:
        threshold: Predictions above it count as 1.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.BinaryAccuracy()
    >>> _ = metric.update_state([[1.], [0.]], [[0.9], [0.8]])
    >>> round(float(metric.result()), 3)
    0.5
    """

    def __init__(self, name: str | None = "binary_accuracy", dtype: Any = None, threshold: float = 0.5):
        super().__init__(_binary_matches, name, dtype=dtype, threshold=threshold)


@public("CategoricalAccuracy")
class CategoricalAccuracy(MeanMetricWrapper):
    """How often the largest prediction is that of the label's class.

    Args:
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.CategoricalAccuracy()
    >>> _ = metric.update_state([[0., 1.]], [[0.2, 0.8]])
    >>> round(float(metric.result()), 3)
    1.0
    """

    def __init__(self, name: str | None = "categorical_accuracy", dtype: Any = None):
        super().__init__(categorical_accuracy, name, dtype=dtype)


@public("SparseCategoricalAccuracy")
class SparseCategoricalAccuracy(MeanMetricWrapper):
    """CategoricalAccuracy for labels that are numbers of classes.

    Args:
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.SparseCategoricalAccuracy()
    >>> _ = metric.update_state([1, 0], [[0.2, 0.8], [0.2, 0.8]])
    >>> round(float(metric.result()), 3)
    0.5
    """

    def __init__(self, name: str | None = "sparse_categorical_accuracy", dtype: Any = None):
        super().__init__(sparse_categorical_accuracy, name, dtype=dtype)


@public("TopKCategoricalAccuracy")
class TopKCategoricalAccuracy(MeanMetricWrapper):
    """How often the label's class is among the k largest predictions.

    Args:
        k: How many of the largest predictions are looked at.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.TopKCategoricalAccuracy(k=2)
    >>> _ = metric.update_state([[0., 0., 1.]], [[0.5, 0.3, 0.2]])
    >>> round(float(metric.result()), 3)
    0.0
    """

    def __init__(self, k: int = 5, name: str | None = "top_k_categorical_accuracy", dtype: Any = None):
        super().__init__(top_k_categorical_accuracy, name, dtype=dtype, k=k)


@public("SparseTopKCategoricalAccuracy")
class SparseTopKCategoricalAccuracy(MeanMetricWrapper):
    """TopKCategoricalAccuracy for labels that are numbers of classes.

    Args:
        k: How many of the largest predictions are looked at.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.SparseTopKCategoricalAccuracy(k=2)
    >>> _ = metric.update_state([1], [[0.5, 0.3, 0.2]])
    >>> round(float(metric.result()), 3)
    1.0
    """

    def __init__(self, k: int = 5, name: str | None = "sparse_top_k_categorical_accuracy", dtype: Any = None):
        super().__init__(sparse_top_k_categorical_accuracy, name, dtype=dtype, k=k)
