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


@_export
def compute_weighted_loss(losses: Any, weights: Any = 1.0, scope: Any = None) -> Tensor:
    """The weighted mean of losses over those with a weight other than zero."""
    return tf.losses.compute_weighted_loss(losses, weights, scope=scope)


@_export
def absolute_difference(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: Any = None) -> Tensor:
    """The mean of absolute differences."""
    return tf.losses.absolute_difference(labels, predictions, weights, scope=scope)


@_export
def mean_squared_error(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: Any = None) -> Tensor:
    """The mean of squared differences."""
    return tf.losses.mean_squared_error(labels, predictions, weights, scope=scope)


@_export
def mean_pairwise_squared_error(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: Any = None) -> Tensor:
    """The mean of squared differences between pairs of elements."""
    return tf.losses.mean_pairwise_squared_error(labels, predictions, weights, scope=scope)


@_export
def cosine_distance(predictions: Any, labels: Any = None, axis: int | None = None, weights: Any = 1.0, scope: Any = None,
                    dim: int | None = None) -> Tensor:
    """One minus the cosine of the angle, for vectors of length one."""
    axis = dim if axis is None else axis
    if axis is None:
        raise ValueError("You must specify 'axis'.")
    return tf.losses.cosine_distance(labels, predictions, axis=axis, weights=weights, scope=scope)


@_export
def hinge_loss(logits: Any, labels: Any = None, scope: Any = None) -> Tensor:
    """The hinge loss of each element, for labels of 0 and 1; it goes to no collection."""
    with tf.name_scope(scope, "hinge_loss", [logits, labels]):
        logits = tf.convert_to_tensor(logits)
        signs = 2 * tf.cast(labels, logits.dtype) - 1
        return tf.nn.relu(1 - signs * logits)


@_export
def log_loss(predictions: Any, labels: Any = None, weights: Any = 1.0, epsilon: float = 1e-7, scope: Any = None) -> Tensor:
    """The cross entropy of predicted probabilities."""
    return tf.losses.log_loss(labels, predictions, weights, epsilon, scope=scope)


@_export
def sigmoid_cross_entropy(logits: Any, multi_class_labels: Any, weights: Any = 1.0, label_smoothing: float = 0,
                          scope: Any = None) -> Tensor:
    """The cross entropy of independent classes."""
    return tf.losses.sigmoid_cross_entropy(multi_class_labels, logits, weights, label_smoothing, scope=scope)


@_export
def softmax_cross_entropy(logits: Any, onehot_labels: Any, weights: Any = 1.0, label_smoothing: float = 0,
                          scope: Any = None) -> Tensor:
    """The cross entropy of classes that exclude each other."""
    return tf.losses.softmax_cross_entropy(onehot_labels, logits, weights, label_smoothing, scope=scope)


@_export
def sparse_softmax_cross_entropy(logits: Any, labels: Any, weights: Any = 1.0, scope: Any = None) -> Tensor:
    """The same, with numbers of classes as labels."""
    return tf.losses.sparse_softmax_cross_entropy(labels, logits, weights, scope=scope)
