"""Losses as functions: one number per sample, from labels and predictions."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.library.ragged.tensor import RaggedTensor
from penstock._src.models.keras import backend as K


def _both(*names: str, metrics: bool = True) -> Any:
    """Exports a function under keras.losses, keras.metrics and their short 2.x names."""
    places = ("losses", "metrics") if metrics else ("losses",)
    return export(*(f"keras.{p}.{n}" for p in places for n in names), v2=[f"{p}.{n}" for p in places for n in names])


def _pair(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Predictions as a tensor, and labels in their type."""
    y_pred = y_pred if isinstance(y_pred, Tensor) or hasattr(y_pred, "row_splits") else convert(y_pred)
    return tf.cast(y_true, y_pred.dtype), y_pred


def _by_element(fn: Callable) -> Callable:
    """Lets a function that is a mean along the last axis take ragged tensors: the mean of the elements that a row has."""
    @functools.wraps(fn)
    def call(y_true: Any, y_pred: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(y_pred, RaggedTensor):
            return fn(y_true, y_pred, *args, **kwargs)
        losses = tf.ragged.map_flat_values(lambda t, p: fn(t[..., None], p[..., None], *args, **kwargs),
                                           _rows_like(y_true, y_pred), y_pred)
        return tf.reduce_mean(losses, axis=-1)
    return call


def _by_row(fn: Callable) -> Callable:
    """Lets a function of the classes along the last axis take ragged tensors in whose innermost rows all classes are."""
    @functools.wraps(fn)
    def call(y_true: Any, y_pred: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(y_pred, RaggedTensor):
            return fn(y_true, y_pred, *args, **kwargs)
        return tf.ragged.map_flat_values(lambda t, p: fn(t, p, *args, **kwargs), _rows_like(y_true, y_pred), y_pred)
    return call


def _rows_like(y_true: Any, y_pred: Any) -> Any:
    """Labels as a ragged tensor with the rows of the predictions."""
    return y_true if isinstance(y_true, RaggedTensor) else \
        tf.RaggedTensor.from_tensor(y_true, y_pred.nested_row_lengths(), y_pred.ragged_rank)


@_both("mean_squared_error", "mse", "MSE")
def mean_squared_error(y_true: Any, y_pred: Any) -> Any:
    """The mean of squared differences, along the last axis.

    Args:
        y_true: Labels.
        y_pred: Predictions.

    Returns:
        The loss of each example.

    >>> tf.keras.losses.MSE([[0., 1.]], [[1., 1.]]).numpy()
    array([0.5], dtype=float32)
    """
    y_true, y_pred = _pair(y_true, y_pred)
    return tf.reduce_mean(tf.math.squared_difference(y_pred, y_true), axis=-1)


@_both("mean_absolute_error", "mae", "MAE")
def mean_absolute_error(y_true: Any, y_pred: Any) -> Any:
    """The mean of absolute differences, along the last axis.

    Args:
        y_true: The labels, with the shape of `y_pred` or one that broadcasts to it.
        y_pred: The predictions; the last axis belongs to one sample.

    Returns:
        A tensor of the shape of `y_pred` without its last axis: a loss per sample.

    >>> tf.keras.losses.mean_absolute_error([[0., 1.]], [[1., 3.]]).numpy().tolist()
    [1.5]
    """
    y_true, y_pred = _pair(y_true, y_pred)
    return tf.reduce_mean(tf.abs(y_pred - y_true), axis=-1)


@_both("mean_absolute_percentage_error", "mape", "MAPE")
def mean_absolute_percentage_error(y_true: Any, y_pred: Any) -> Any:
    """The mean of absolute differences in percent of the labels.

    Args:
        y_true: The labels, with the shape of `y_pred` or one that broadcasts to it.
        y_pred: The predictions; the last axis belongs to one sample.

    Returns:
        A tensor of the shape of `y_pred` without its last axis: a loss per sample.

    >>> tf.keras.losses.mean_absolute_percentage_error([[2., 4.]], [[1., 4.]]).numpy().tolist()
    [25.0]
    """
    y_true, y_pred = _pair(y_true, y_pred)
    share = tf.abs((y_true - y_pred) / tf.maximum(tf.abs(y_true), tf.cast(K.epsilon(), y_pred.dtype)))
    return 100.0 * tf.reduce_mean(share, axis=-1)


@_both("mean_squared_logarithmic_error", "msle", "MSLE")
def mean_squared_logarithmic_error(y_true: Any, y_pred: Any) -> Any:
    """The mean of squared differences of log(1 + x).

    Args:
        y_true: The labels, with the shape of `y_pred` or one that broadcasts to it.
        y_pred: The predictions; the last axis belongs to one sample.

    Returns:
        A tensor of the shape of `y_pred` without its last axis: a loss per sample.

    >>> tf.keras.losses.mean_squared_logarithmic_error([[0.]], [[0.]]).numpy().tolist()
    [0.0]
    """
    y_true, y_pred = _pair(y_true, y_pred)
    least = tf.cast(K.epsilon(), y_pred.dtype)
    logs = [tf.math.log(tf.maximum(y, least) + 1.0) for y in (y_pred, y_true)]
    return tf.reduce_mean(tf.math.squared_difference(*logs), axis=-1)


def _signed(y_true: Any) -> Any:
    """Labels 0 and 1 as -1 and 1; others unchanged."""
    binary = tf.reduce_all(tf.logical_or(tf.equal(y_true, 0), tf.equal(y_true, 1)))
    return tf.where(binary, 2.0 * y_true - 1.0, y_true)


@_both("hinge")
def hinge(y_true: Any, y_pred: Any) -> Any:
    """The mean of max(1 - y_true * y_pred, 0), for labels -1 and 1 (or 0 and 1).

    Args:
        y_true: The labels, with the shape of `y_pred` or one that broadcasts to it.
        y_pred: The predictions; the last axis belongs to one sample.

    Returns:
        A tensor of the shape of `y_pred` without its last axis: a loss per sample.

    >>> tf.keras.losses.hinge([[-1., 1.]], [[0.5, 2.]]).numpy().tolist()
    [0.75]
    """
    y_true, y_pred = _pair(y_true, y_pred)
    return tf.reduce_mean(tf.maximum(1.0 - _signed(y_true) * y_pred, 0.0), axis=-1)


@_both("squared_hinge")
def squared_hinge(y_true: Any, y_pred: Any) -> Any:
    """The mean of max(1 - y_true * y_pred, 0) ** 2.

    Args:
        y_true: The labels, with the shape of `y_pred` or one that broadcasts to it.
        y_pred: The predictions; the last axis belongs to one sample.

    Returns:
        A tensor of the shape of `y_pred` without its last axis: a loss per sample.

    >>> tf.keras.losses.squared_hinge([[-1., 1.]], [[1., 2.]]).numpy().tolist()
    [2.0]
    """
    y_true, y_pred = _pair(y_true, y_pred)
    return tf.reduce_mean(tf.square(tf.maximum(1.0 - _signed(y_true) * y_pred, 0.0)), axis=-1)


@_both("categorical_hinge", metrics=False)
def categorical_hinge(y_true: Any, y_pred: Any) -> Any:
    """The margin by which the best wrong class is within 1 of the right one, or above it.

    Args:
        y_true: The labels, with the shape of `y_pred` or one that broadcasts to it.
        y_pred: The predictions; the last axis belongs to one sample.

    Returns:
        A tensor of the shape of `y_pred` without its last axis: a loss per sample.

    >>> tf.keras.losses.categorical_hinge([[0., 1.]], [[0.5, 1.5]]).numpy().tolist()
    [0.0]
    """
    y_true, y_pred = _pair(y_true, y_pred)
    right = tf.reduce_sum(y_true * y_pred, axis=-1)
    wrong = tf.reduce_max((1.0 - y_true) * y_pred, axis=-1)
    return tf.maximum(wrong - right + 1.0, 0.0)


@export(v2=["keras.losses.huber", "keras.metrics.huber", "losses.huber", "metrics.huber", "keras.losses.huber_loss"])
@_by_element
def huber(y_true: Any, y_pred: Any, delta: Any = 1.0) -> Any:
    """Half the squared error up to `delta`, linear beyond.

    Args:
        y_true: The labels, with the shape of `y_pred` or one that broadcasts to it.
        y_pred: The predictions; the last axis belongs to one sample.
        delta: The error at which the square turns into a line.

    Returns:
        A tensor of the shape of `y_pred` without its last axis: a loss per sample.

    >>> tf.keras.losses.huber([[0., 0.]], [[1., 3.]]).numpy().tolist()
    [1.5]
    """
    dtype = K.floatx()
    error = tf.abs(tf.cast(y_pred, dtype) - tf.cast(y_true, dtype))
    delta = tf.cast(delta, dtype)
    small = tf.minimum(error, delta)
    return tf.reduce_mean(0.5 * small * small + delta * (error - small), axis=-1)


@_both("logcosh", "log_cosh", metrics=False)
def log_cosh(y_true: Any, y_pred: Any) -> Any:
    """The mean of log(cosh(error)): a square near zero, a line far from it.

    Args:
        y_true: The labels, with the shape of `y_pred` or one that broadcasts to it.
        y_pred: The predictions; the last axis belongs to one sample.

    Returns:
        A tensor of the shape of `y_pred` without its last axis: a loss per sample.

    >>> round(float(tf.keras.losses.log_cosh([[0.]], [[1.]])[0]), 3)
    0.434
    """
    y_true, y_pred = _pair(y_true, y_pred)
    x = y_pred - y_true
    return tf.reduce_mean(x + tf.nn.softplus(-2.0 * x) - tf.math.log(tf.cast(2.0, x.dtype)), axis=-1)


export.value(log_cosh, v1=["keras.metrics.logcosh"], v2=["keras.metrics.logcosh", "keras.metrics.log_cosh"])


def _smoothed(y_true: Any, smoothing: Any, towards: Any) -> Any:
    """Labels moved towards `towards()` by the fraction `smoothing`."""
    if isinstance(smoothing, (int, float)):
        return y_true * (1.0 - smoothing) + smoothing * towards() if smoothing else y_true
    smoothing = tf.cast(smoothing, y_true.dtype)
    return y_true * (1.0 - smoothing) + smoothing * towards()


@_both("categorical_crossentropy")
@_by_row
def categorical_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: Any = 0,
                             axis: int = -1) -> Any:
    """-sum(y_true * log(y_pred)), for labels that are distributions over classes.

    Args:
        y_true: Distributions over classes.
        y_pred: Probabilities, or logits, with the classes along `axis`.
        from_logits: Whether predictions are logits instead of probabilities.
        label_smoothing: Share of each label that is divided evenly among all classes.
        axis: Axis of the classes.

    Returns:
        The loss of each example.

    >>> tf.keras.losses.categorical_crossentropy([[0., 1.]], [[0.5, 0.5]]).numpy()
    array([0.6931472], dtype=float32)
    """
    y_true, y_pred = _pair(y_true, y_pred)
    y_true = _smoothed(y_true, label_smoothing, lambda: 1.0 / tf.cast(tf.shape(y_true)[axis], y_pred.dtype))
    return K.categorical_crossentropy(y_true, y_pred, from_logits=from_logits, axis=axis)


@_both("sparse_categorical_crossentropy")
@_by_row
def sparse_categorical_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False, axis: int = -1,
                                    ignore_class: int | None = None) -> Any:
    """-log(y_pred[y_true]), for labels that are numbers of classes. Positions of class `ignore_class` count as zero.

    Args:
        y_true: Numbers of classes.
        y_pred: Probabilities, or logits, with the classes along `axis`.
        from_logits: Whether predictions are logits instead of probabilities.
        axis: Axis of the classes.
        ignore_class: Number of a class whose positions have no loss.

    Returns:
        The loss of each example.

    >>> tf.keras.losses.sparse_categorical_crossentropy([1], [[0.5, 0.5]]).numpy()
    array([0.6931472], dtype=float32)
    """
    if ignore_class is None:
        return K.sparse_categorical_crossentropy(y_true, y_pred, from_logits=from_logits, axis=axis)
    kept = tf.not_equal(tf.cast(y_true, "int64"), ignore_class)
    labels = tf.where(kept, tf.cast(y_true, "int64"), tf.zeros_like(y_true, "int64"))
    losses = K.sparse_categorical_crossentropy(labels, y_pred, from_logits=from_logits, axis=axis)
    kept = tf.reshape(kept, tf.shape(losses))
    losses = losses * tf.cast(kept, losses.dtype)
    losses._keras_mask = kept                       # for means, which divide by the number of positions that count
    return losses


@_both("binary_crossentropy")
@_by_element
def binary_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: Any = 0, axis: int = -1) -> Any:
    """The mean of -(y_true * log(y_pred) + (1 - y_true) * log(1 - y_pred)).

    Args:
        y_true: The labels, with the shape of `y_pred` or one that broadcasts to it.
        y_pred: The predictions; the last axis belongs to one sample.
        from_logits: Whether predictions are logits; by default they are probabilities.
        label_smoothing: Between 0 and 1: how much of each label is spread evenly over the classes.
        axis: The axis along which the mean is taken.

    Returns:
        A tensor of the shape of `y_pred` without its last axis: a loss per sample.

    >>> round(float(tf.keras.losses.binary_crossentropy([[0., 1.]], [[0.5, 0.5]])[0]), 3)
    0.693
    """
    y_true, y_pred = _pair(y_true, y_pred)
    y_true = _smoothed(y_true, label_smoothing, lambda: 0.5)
    return tf.reduce_mean(K.binary_crossentropy(y_true, y_pred, from_logits=from_logits), axis=axis)


@export(v2=["keras.losses.binary_focal_crossentropy", "keras.metrics.binary_focal_crossentropy"])
@_by_element
def binary_focal_crossentropy(y_true: Any, y_pred: Any, apply_class_balancing: bool = False, alpha: float = 0.25,
                              gamma: float = 2.0, from_logits: bool = False, label_smoothing: Any = 0.0, axis: int = -1) -> Any:
    """Focal binary cross-entropy: well-classified examples are weighted less.

    Args:
        y_true: The labels, with the shape of `y_pred` or one that broadcasts to it.
        y_pred: The predictions; the last axis belongs to one sample.
        apply_class_balancing: Whether to weight the classes by `alpha` and 1 - `alpha`.
        alpha: The weight of label 1 if classes are balanced.
        gamma: The exponent of the weight (1 - probability of the right class); 0 is plain cross-entropy.
        from_logits: Whether predictions are logits; by default they are probabilities.
        label_smoothing: Between 0 and 1: how much of each label is spread evenly over the classes.
        axis: The axis along which the mean is taken.

    Returns:
        A tensor of the shape of `y_pred` without its last axis: a loss per sample.

    >>> loss = tf.keras.losses.binary_focal_crossentropy([[1.]], [[0.5]])
    >>> round(float(loss[0]), 3)
    0.173
    """
    y_true, y_pred = _pair(y_true, y_pred)
    y_true = _smoothed(y_true, label_smoothing, lambda: 0.5)
    y_pred = tf.sigmoid(y_pred) if from_logits else y_pred
    losses = K.binary_crossentropy(y_true, y_pred)
    right = y_true * y_pred + (1.0 - y_true) * (1.0 - y_pred)
    losses = tf.pow(1.0 - right, tf.cast(gamma, y_pred.dtype)) * losses
    if apply_class_balancing:
        losses = (y_true * alpha + (1.0 - y_true) * (1.0 - alpha)) * losses
    return tf.reduce_mean(losses, axis=axis)


@export(v2=["keras.losses.categorical_focal_crossentropy", "keras.metrics.categorical_focal_crossentropy"])
def categorical_focal_crossentropy(y_true: Any, y_pred: Any, alpha: Any = 0.25, gamma: float = 2.0, from_logits: bool = False,
                                   label_smoothing: Any = 0.0, axis: int = -1) -> Any:
    """Focal categorical cross-entropy: well-classified examples are weighted less.

    Args:
        y_true: The labels, with the shape of `y_pred` or one that broadcasts to it.
        y_pred: The predictions; the last axis belongs to one sample.
        alpha: A weight for all classes, or one per class.
        gamma: The exponent of the weight (1 - probability of the right class); 0 is plain cross-entropy.
        from_logits: Whether predictions are logits; by default they are probabilities.
        label_smoothing: Between 0 and 1: how much of each label is spread evenly over the classes.
        axis: The axis of classes.

    Returns:
        A tensor of the shape of `y_pred` without its last axis: a loss per sample.

    >>> loss = tf.keras.losses.categorical_focal_crossentropy([[0., 1.]], [[0.5, 0.5]], alpha=1.0)
    >>> round(float(loss[0]), 3)
    0.173
    """
    y_true, y_pred = _pair(y_true, y_pred)
    y_true = _smoothed(y_true, label_smoothing, lambda: 1.0 / tf.cast(tf.shape(y_true)[axis], y_pred.dtype))
    y_pred = tf.nn.softmax(y_pred, axis) if from_logits else y_pred / tf.reduce_sum(y_pred, axis, keepdims=True)
    least = K.epsilon()
    y_pred = tf.clip_by_value(y_pred, least, 1.0 - least)
    focus = tf.cast(alpha, y_pred.dtype) * tf.pow(1.0 - y_pred, tf.cast(gamma, y_pred.dtype))
    return tf.reduce_sum(-focus * y_true * tf.math.log(y_pred), axis=axis)


@_both("kullback_leibler_divergence", "kld", "KLD", "kl_divergence")
def kl_divergence(y_true: Any, y_pred: Any) -> Any:
    """sum(y_true * log(y_true / y_pred)).

    Args:
        y_true: The labels, with the shape of `y_pred` or one that broadcasts to it.
        y_pred: The predictions; the last axis belongs to one sample.

    Returns:
        A tensor of the shape of `y_pred` without its last axis: a loss per sample.

    >>> round(float(tf.keras.losses.kl_divergence([[0.5, 0.5]], [[0.5, 0.5]])[0]), 3)
    0.0
    """
    y_true, y_pred = _pair(y_true, y_pred)
    y_true, y_pred = K.clip(y_true, K.epsilon(), 1), K.clip(y_pred, K.epsilon(), 1)
    return tf.reduce_sum(y_true * tf.math.log(y_true / y_pred), axis=-1)


@_both("poisson")
def poisson(y_true: Any, y_pred: Any) -> Any:
    """The mean of y_pred - y_true * log(y_pred).

    Args:
        y_true: The labels, with the shape of `y_pred` or one that broadcasts to it.
        y_pred: The predictions; the last axis belongs to one sample.

    Returns:
        A tensor of the shape of `y_pred` without its last axis: a loss per sample.

    >>> round(float(tf.keras.losses.poisson([[0., 1.]], [[1., 1.]])[0]), 3)
    1.0
    """
    y_true, y_pred = _pair(y_true, y_pred)
    return tf.reduce_mean(y_pred - y_true * tf.math.log(y_pred + K.epsilon()), axis=-1)


@export(v1=["keras.losses.cosine", "keras.losses.cosine_proximity", "keras.losses.cosine_similarity", "keras.metrics.cosine",
            "keras.metrics.cosine_proximity"], v2=["keras.losses.cosine_similarity", "losses.cosine_similarity"])
def cosine_similarity(y_true: Any, y_pred: Any, axis: int = -1) -> Any:
    """Minus the cosine of the angle between labels and predictions, so that smaller is nearer.

    Args:
        y_true: The labels, with the shape of `y_pred` or one that broadcasts to it.
        y_pred: The predictions; the last axis belongs to one sample.
        axis: The axis of the vectors that are compared.

    Returns:
        Numbers from -1 (the same direction) to 1 (the opposite one).

    >>> tf.keras.losses.cosine_similarity([[0., 1.]], [[0., 2.]]).numpy().tolist()
    [-1.0]
    """
    y_true, y_pred = tf.math.l2_normalize(y_true, axis=axis), tf.math.l2_normalize(y_pred, axis=axis)
    return -tf.reduce_sum(y_true * y_pred, axis=axis)


@export(v2=["keras.losses.dice", "losses.dice"])
def dice(y_true: Any, y_pred: Any, axis: Any = None) -> Any:
    """1 - 2 * |both| / (|labels| + |predictions|), over all elements or along axes.

    Args:
        y_true: The labels, with the shape of `y_pred` or one that broadcasts to it.
        y_pred: The predictions; the last axis belongs to one sample.
        axis: The axes to sum over, by default all.

    Returns:
        A number, or one per remaining element if `axis` is given.

    >>> round(float(tf.keras.losses.dice([[0., 1.]], [[0., 1.]])), 3)
    0.0
    """
    y_true, y_pred = _pair(y_true, y_pred)
    both = tf.reduce_sum(y_true * y_pred, axis=axis)
    least = tf.cast(K.epsilon(), y_pred.dtype)
    return 1.0 - tf.math.divide_no_nan(2.0 * both, tf.reduce_sum(y_true, axis=axis) + tf.reduce_sum(y_pred, axis=axis) + least)


@export(v2=["keras.losses.tversky", "losses.tversky"])
def tversky(y_true: Any, y_pred: Any, alpha: float = 0.5, beta: float = 0.5, axis: Any = None) -> Any:
    """Dice with weights `alpha` for false positives and `beta` for false negatives.

    Args:
        y_true: The labels, with the shape of `y_pred` or one that broadcasts to it.
        y_pred: The predictions; the last axis belongs to one sample.
        alpha: The weight of false positives.
        beta: The weight of false negatives.
        axis: The axes to sum over, by default all.

    Returns:
        A number, or one per remaining element if `axis` is given.

    >>> round(float(tf.keras.losses.tversky([[0., 1.]], [[0., 1.]])), 3)
    0.0
    """
    y_true, y_pred = _pair(y_true, y_pred)
    both = tf.reduce_sum(y_true * y_pred, axis=axis)
    false_positives = tf.reduce_sum((1.0 - y_true) * y_pred, axis=axis)
    false_negatives = tf.reduce_sum(y_true * (1.0 - y_pred), axis=axis)
    least = tf.cast(K.epsilon(), y_pred.dtype)
    return 1.0 - tf.math.divide_no_nan(both, both + false_positives * alpha + false_negatives * beta + least)


