"""The cross entropy of sequences."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


@export(v1=["contrib.seq2seq.sequence_loss"])
def sequence_loss(logits: Any, targets: Any, weights: Any, average_across_timesteps: bool = True,
                  average_across_batch: bool = True, sum_over_timesteps: bool = False, sum_over_batch: bool = False,
                  softmax_loss_function: Callable | None = None, name: str | None = None) -> Tensor:
    """The weighted cross entropy of logits [batch, time, classes] and targets [batch, time].

    Args:
        logits: Tensor [batch, time, classes].
        targets: Numbers of classes [batch, time].
        weights: Weight of each position [batch, time].
        average_across_timesteps: Whether to divide by the weights of the steps.
        average_across_batch: Whether to divide by the weights of the batch.
        sum_over_timesteps: Whether to add up over steps.
        sum_over_batch: Whether to add up over the batch.
        softmax_loss_function: Function of labels and logits instead of the cross entropy.
        name: Name of the operation.

    Returns:
        A scalar, or a tensor over the dimensions that are not averaged or added up.

    >>> tf.contrib.seq2seq.sequence_loss(tf.zeros([2, 3, 5]), tf.zeros([2, 3], tf.int32), tf.ones([2, 3])).numpy()
    np.float32(1.609438)
    """
    for what, given, rank in (("Logits", logits, 3), ("Targets", targets, 2), ("Weights", weights, 2)):
        if len(given.shape) != rank:
            kind = {3: "[batch_size x sequence_length x logits]", 2: "[batch_size x sequence_length]"}[rank]
            raise ValueError(f"{what} must be a {kind} tensor")
    if average_across_timesteps and sum_over_timesteps or average_across_batch and sum_over_batch:
        raise ValueError("average_across and sum_over cannot both be set")
    with tf.name_scope(name, "sequence_loss", [logits, targets, weights]):
        logits, weights = tf.convert_to_tensor(logits), tf.convert_to_tensor(weights)
        classes = logits.shape.as_list()[2] or tf.shape(logits)[2]
        flat_logits, flat_targets = tf.reshape(logits, [-1, classes]), tf.reshape(targets, [-1])
        function = softmax_loss_function or tf.nn.sparse_softmax_cross_entropy_with_logits
        cross = function(labels=flat_targets, logits=flat_logits) * tf.reshape(weights, [-1])
        if average_across_timesteps and average_across_batch:
            return tf.reduce_sum(cross) / (tf.reduce_sum(weights) + 1e-12)
        if sum_over_timesteps and sum_over_batch:
            return tf.div_no_nan(tf.reduce_sum(cross), tf.cast(tf.count_nonzero(weights), cross.dtype))
        cross = tf.reshape(cross, tf.shape(logits)[:2])
        for axis, average, summed in ((1, average_across_timesteps, sum_over_timesteps),
                                      (0, average_across_batch, sum_over_batch)):
            if average:
                cross = tf.reduce_sum(cross, axis=axis) / (tf.reduce_sum(weights, axis=axis) + 1e-12)
            elif summed:
                cross = tf.reduce_sum(cross, axis=axis)
        return cross
