"""tf.contrib.losses and slim.losses: losses whose arguments are `predictions, labels`, which go to the collection of losses."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.compat.contrib.framework.arguments import add_arg_scope
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


def _export(function: Callable) -> Callable:
    scoped = add_arg_scope(function)
    export.value(scoped, v1=[f"contrib.{p}.{function.__name__}" for p in ("losses", "slim.losses")])
    return scoped


@_export
def add_loss(loss: Tensor, loss_collection: str | None = tf.GraphKeys.LOSSES) -> None:
    """Adds a loss to the collection."""
    if loss_collection:
        tf.add_to_collection(loss_collection, loss)


@_export
def get_losses(scope: Any = None, loss_collection: str = tf.GraphKeys.LOSSES) -> list:
    """The losses of a scope."""
    return tf.get_collection(loss_collection, scope)


@_export
def get_regularization_losses(scope: Any = None) -> list:
    """The losses of regularizers."""
    return tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES, scope)


@_export
def get_total_loss(add_regularization_losses: bool = True, name: str = "total_loss") -> Tensor:
    """The sum of all losses."""
    losses = get_losses()
    if add_regularization_losses:
        losses = losses + get_regularization_losses()
    return tf.add_n(losses, name=name)


def _scaled(losses: Tensor, weights: Tensor) -> Tensor:
    """The weighted sum of losses. Weights may have the first dimensions alone: each weight is that of all elements below it."""
    below = list(range(weights.shape.ndims, losses.shape.ndims))
    return tf.reduce_sum((tf.reduce_sum(losses, below) if below else losses) * weights)


def _present(losses: Tensor, weights: Tensor) -> Tensor:
    """How many elements of each row of losses have a weight other than zero."""
    used = tf.cast(tf.not_equal(weights, 0), tf.float32)
    below = tf.cast(tf.reduce_prod(tf.shape(losses)[max(weights.shape.ndims, 1):]), tf.float32)
    of_rows = tf.reduce_sum(used, list(range(1, weights.shape.ndims))) if weights.shape.ndims > 1 else used
    return tf.ones(tf.shape(losses)[:1]) * of_rows * below


def _checked(losses: Any, weights: Any) -> tuple[Tensor, Tensor]:
    losses, weights = tf.convert_to_tensor(losses), tf.convert_to_tensor(weights)
    for name, tensor in (("losses", losses), ("weights", weights)):
        if tensor.shape.ndims is None:
            raise ValueError(f"{name}.get_shape().ndims cannot be None: the rank of {name} must be known")
    return tf.cast(losses, tf.float32), tf.cast(weights, tf.float32)


@_export
def compute_weighted_loss(losses: Any, weights: Any = 1.0, scope: Any = None) -> Tensor:
    """The weighted mean of losses over those with a weight other than zero.

    Unlike those of tf.losses, weights may have fewer dimensions than losses: one weight for each row, for example.
    """
    with tf.name_scope(scope, "weighted_loss", [losses, weights]):
        dtype = tf.convert_to_tensor(losses).dtype
        losses, weights = _checked(losses, weights)
        if weights.shape.ndims > 1 and weights.shape.dims[-1].is_compatible_with(1):
            weights = tf.squeeze(weights, [-1])
        if weights.shape.ndims > losses.shape.ndims:
            raise ValueError(f"weights of shape {weights.shape} have more dimensions than losses of shape {losses.shape}")
        used = _present(losses, weights) if losses.shape.ndims else tf.cast(tf.not_equal(weights, 0), tf.float32)
        mean = tf.cast(tf.div_no_nan(_scaled(losses, weights), tf.reduce_sum(used), name="value"), dtype)
        add_loss(mean)
        return mean


def _mean(kind: str, scope: Any, weights: Any, *args: Any, **kwargs: Any) -> Tensor:
    """The weighted mean of a loss of tf.losses."""
    with tf.name_scope(scope, f"{kind}_loss" if kind.endswith("entropy") else kind, [*args, weights]) as name:
        losses = getattr(tf.losses, kind)(*args, loss_collection=None, reduction=tf.losses.Reduction.NONE, **kwargs)
        return compute_weighted_loss(losses, weights, scope=name)


@_export
def absolute_difference(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: Any = None) -> Tensor:
    """The mean of absolute differences."""
    return _mean("absolute_difference", scope, weights, labels, predictions)


@_export
def mean_squared_error(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: Any = None) -> Tensor:
    """The mean of squared differences."""
    return _mean("mean_squared_error", scope, weights, labels, predictions)


@_export
def mean_pairwise_squared_error(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: Any = None) -> Tensor:
    """The mean of squared differences between pairs of elements of a row. An element and itself count as a pair, unlike in
    tf.losses."""
    with tf.name_scope(scope, "mean_pairwise_squared_error", [predictions, labels, weights]):
        predictions, labels = tf.convert_to_tensor(predictions), tf.convert_to_tensor(labels)
        predictions.shape.assert_is_compatible_with(labels.shape)
        differences, weights = _checked(tf.cast(predictions, tf.float32) - tf.cast(labels, tf.float32), weights)
        inner = list(range(1, differences.shape.ndims))
        count = _present(differences, weights)
        squares = tf.div_no_nan(tf.reduce_sum(tf.square(differences), inner), count)
        products = tf.div_no_nan(tf.square(tf.reduce_sum(differences, inner)), tf.square(count))
        loss = _scaled(2.0 * squares - 2.0 * products, weights)
        mean = tf.where(tf.reduce_sum(count) > 0, loss, tf.zeros_like(loss), name="value")
        add_loss(mean)
        return mean


@_export
def cosine_distance(predictions: Any, labels: Any = None, axis: int | None = None, weights: Any = 1.0, scope: Any = None,
                    dim: int | None = None) -> Tensor:
    """One minus the cosine of the angle, for vectors of length one."""
    axis = dim if axis is None else axis
    if axis is None:
        raise ValueError("You must specify 'axis'.")
    return _mean("cosine_distance", scope, weights, labels, predictions, axis=axis)


@_export
def hinge_loss(logits: Any, labels: Any = None, scope: Any = None) -> Tensor:
    """The hinge loss of each element, for labels of 0 and 1; it goes to no collection."""
    with tf.name_scope(scope, "hinge_loss", [logits, labels]):
        logits, labels = tf.convert_to_tensor(logits), tf.convert_to_tensor(labels)
        logits.shape.assert_is_compatible_with(labels.shape)
        signs = 2 * tf.cast(labels, logits.dtype) - 1
        return tf.nn.relu(1 - signs * logits)


@_export
def log_loss(predictions: Any, labels: Any = None, weights: Any = 1.0, epsilon: float = 1e-7, scope: Any = None) -> Tensor:
    """The cross entropy of predicted probabilities."""
    return _mean("log_loss", scope, weights, labels, predictions, epsilon=epsilon)


@_export
def sigmoid_cross_entropy(logits: Any, multi_class_labels: Any, weights: Any = 1.0, label_smoothing: float = 0,
                          scope: Any = None) -> Tensor:
    """The cross entropy of independent classes."""
    return _mean("sigmoid_cross_entropy", scope, weights, multi_class_labels, logits, label_smoothing=label_smoothing)


@_export
def softmax_cross_entropy(logits: Any, onehot_labels: Any, weights: Any = 1.0, label_smoothing: float = 0,
                          scope: Any = None) -> Tensor:
    """The cross entropy of classes that exclude each other."""
    return _mean("softmax_cross_entropy", scope, weights, onehot_labels, logits, label_smoothing=label_smoothing)


@_export
def sparse_softmax_cross_entropy(logits: Any, labels: Any, weights: Any = 1.0, scope: Any = None) -> Tensor:
    """The same, with numbers of classes as labels."""
    return _mean("sparse_softmax_cross_entropy", scope, weights, labels, logits)
