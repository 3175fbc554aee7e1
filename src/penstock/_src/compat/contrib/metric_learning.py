"""tf.contrib.losses.metric_learning: losses that bring embeddings of one label together and take those of others apart."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.compat.contrib import same
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


def _export(function: Callable) -> Callable:
    return export(v1=[f"contrib.losses.metric_learning.{function.__name__}"])(function)


def _distances(embeddings: Tensor, squared: bool) -> Tensor:
    """The distance of each pair of rows; the gradient of a distance of zero is zero."""
    squares = tf.reduce_sum(tf.square(embeddings), 1)
    found = tf.maximum(squares[:, tf.newaxis] + squares - 2.0 * tf.matmul(embeddings, embeddings, transpose_b=True), 0.0)
    apart = tf.logical_and(found > 0, tf.logical_not(tf.eye(tf.shape(embeddings)[0], dtype=tf.bool)))
    found = tf.where(apart, found, tf.ones_like(found))
    return tf.where(apart, found if squared else tf.sqrt(found), tf.zeros_like(found))


def _pairs(labels: Any) -> tuple[Tensor, Tensor]:
    """Which pairs have the same label, without those of a row and itself; which pairs have different labels."""
    labels = tf.convert_to_tensor(labels)
    if labels.shape.ndims not in (None, 1):
        raise ValueError(f"labels must be a vector, got shape {labels.shape}")
    equal = tf.equal(labels[:, tf.newaxis], labels)
    return tf.logical_and(equal, tf.logical_not(tf.eye(tf.size(labels), dtype=tf.bool))), tf.logical_not(equal)


@_export
def contrastive_loss(labels: Any, embeddings_anchor: Any, embeddings_positive: Any, margin: float = 1.0) -> Tensor:
    """The mean of squared distances where the label is 1, and of squared shortfalls below the margin where it is 0."""
    distances = tf.sqrt(tf.reduce_sum(tf.squared_difference(embeddings_anchor, embeddings_positive), 1))
    same_label = tf.cast(labels, distances.dtype)
    return tf.reduce_mean(same_label * tf.square(distances) +
                          (1.0 - same_label) * tf.square(tf.maximum(margin - distances, 0.0)), name="contrastive_loss")


@_export
def triplet_semihard_loss(labels: Any, embeddings: Any, margin: float = 1.0) -> Tensor:
    """The triplet loss whose negatives are the nearest that are farther than the positive, else the farthest
    (https://arxiv.org/abs/1503.03832).

    >>> tf.contrib.losses.metric_learning.triplet_semihard_loss(labels, tf.nn.l2_normalize(embeddings, 1))
    """
    distances = _distances(tf.convert_to_tensor(embeddings), squared=True)
    positive, negative = _pairs(labels)
    others = distances[:, tf.newaxis, :] + tf.zeros_like(distances)[:, :, tf.newaxis]          # anchor, positive, negative
    farther = tf.logical_and(negative[:, tf.newaxis, :], others > distances[:, :, tf.newaxis])
    nearest = tf.reduce_min(tf.where(farther, others, tf.fill(tf.shape(others), tf.constant(np.inf, others.dtype))), 2)
    least = tf.zeros_like(distances) + tf.reduce_min(distances, 1, keepdims=True)
    farthest = tf.reduce_max(tf.where(negative, distances, least), 1, keepdims=True) + tf.zeros_like(distances)
    chosen = tf.where(tf.reduce_any(farther, 2), nearest, farthest)
    wrong = tf.where(positive, tf.maximum(margin + distances - chosen, 0.0), tf.zeros_like(distances))
    return tf.truediv(tf.reduce_sum(wrong), tf.reduce_sum(tf.cast(positive, wrong.dtype)), name="triplet_semihard_loss")


@_export
def lifted_struct_loss(labels: Any, embeddings: Any, margin: float = 1.0) -> Tensor:
    """The lifted structured loss: each positive pair against all negatives of both (https://arxiv.org/abs/1511.06452)."""
    distances = _distances(tf.convert_to_tensor(embeddings), squared=False)
    positive, negative = _pairs(labels)
    nothing = tf.fill(tf.shape(distances), tf.constant(-np.inf, distances.dtype))
    of_rows = tf.reduce_logsumexp(tf.where(negative, margin - distances, nothing), 1)
    both = tf.stack([of_rows[:, tf.newaxis] + tf.zeros_like(distances), of_rows + tf.zeros_like(distances)])
    wrong = tf.where(positive, tf.maximum(tf.reduce_logsumexp(both, 0) + distances, 0.0), tf.zeros_like(distances))
    pairs = tf.reduce_sum(tf.cast(positive, wrong.dtype)) / 2.0
    return tf.truediv(0.25 * tf.reduce_sum(tf.square(wrong)), pairs, name="liftedstruct_loss")


def _npairs(shared: Tensor, anchor: Any, positive: Any, reg_lambda: float, print_losses: bool) -> Tensor:
    """The cross entropy of similarities with the shares of common labels, and the penalty of large embeddings."""
    sizes = [tf.reduce_mean(tf.reduce_sum(tf.square(e), 1)) for e in (anchor, positive)]
    penalty = tf.multiply(0.25 * reg_lambda, sizes[0] + sizes[1], name="l2loss")
    wanted = shared / tf.reduce_sum(shared, 1, keepdims=True)
    losses = tf.nn.softmax_cross_entropy_with_logits(labels=wanted, logits=tf.matmul(anchor, positive, transpose_b=True))
    entropy = tf.reduce_mean(losses, name="xentropy")
    if print_losses:
        entropy = tf.Print(entropy, ["cross entropy:", entropy, "l2loss:", penalty])
    return penalty + entropy


@_export
def npairs_loss(labels: Any, embeddings_anchor: Any, embeddings_positive: Any, reg_lambda: float = 0.002,
                print_losses: bool = False) -> Tensor:
    """The N-pairs loss: each anchor must be most similar to the positives of its label."""
    labels = tf.convert_to_tensor(labels)
    shared = tf.cast(tf.equal(labels[:, tf.newaxis], labels), tf.float32)
    return _npairs(shared, embeddings_anchor, embeddings_positive, reg_lambda, print_losses)


@_export
def npairs_loss_multilabel(sparse_labels: Sequence[Any], embeddings_anchor: Any, embeddings_positive: Any,
                           reg_lambda: float = 0.002, print_losses: bool = False) -> Tensor:
    """The N-pairs loss of rows with several labels, each a sparse vector of booleans; common labels count."""
    if not all(isinstance(labels, tf.SparseTensor) for labels in sparse_labels):
        raise TypeError(f"sparse_labels must be a list of SparseTensors, but got {sparse_labels}")
    with tf.name_scope("NpairsLossMultiLabel"):
        rows = tf.stack([tf.reshape(tf.sparse.to_dense(tf.cast(labels, tf.float32)), [-1]) for labels in sparse_labels])
        shared = tf.matmul(rows, rows, transpose_b=True)
        return _npairs(shared, embeddings_anchor, embeddings_positive, reg_lambda, print_losses)


same("contrib.losses.metric_learning", "contrib.losses.python.metric_learning.metric_loss_ops")
