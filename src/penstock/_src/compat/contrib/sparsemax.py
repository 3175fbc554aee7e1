"""tf.contrib.sparsemax: a softmax whose small probabilities are zero, and its loss (Martins and Astudillo, 2016)."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


@export(v1=["contrib.sparsemax.sparsemax"])
def sparsemax(logits: Any, name: str | None = None) -> Tensor:
    """The point of the probability simplex that is nearest to each row of logits; NaN if a row has NaN or plus infinity.

    >>> tf.contrib.sparsemax.sparsemax([[1.0, 0.9, -1.0]])  # [[0.55, 0.45, 0.0]]
    """
    with tf.name_scope(name, "sparsemax", [logits]):
        z = tf.convert_to_tensor(logits, name="logits")
        sizes = tf.range(1, tf.shape(z)[1] + 1, dtype=tf.int32)
        ordered = tf.sort(z, axis=1, direction="DESCENDING")
        sums = tf.cumsum(ordered, axis=1)
        inside = 1 + tf.cast(sizes, z.dtype) * ordered > sums
        size = tf.maximum(tf.reduce_sum(tf.cast(inside, tf.int32), axis=1), 1)
        total = tf.batch_gather(sums, size[:, tf.newaxis] - 1)
        threshold = (total - 1) / tf.cast(size, z.dtype)[:, tf.newaxis]
        found = tf.maximum(tf.zeros_like(z), z - threshold)
        bad = tf.is_nan(sums[:, -1:]) | tf.reduce_any(tf.is_inf(z) & (z > 0), axis=1, keepdims=True)
        return tf.where(tf.broadcast_to(bad, tf.shape(z)), tf.fill(tf.shape(z), tf.constant(float("nan"), z.dtype)), found)


@export(v1=["contrib.sparsemax.sparsemax_loss"])
def sparsemax_loss(logits: Any, sparsemax: Any, labels: Any, name: str | None = None) -> Tensor:
    """The loss of each row whose gradient by the logits is `sparsemax - labels`."""
    with tf.name_scope(name, "sparsemax_loss", [logits, sparsemax, labels]):
        z, p, q = tf.convert_to_tensor(logits), tf.convert_to_tensor(sparsemax), tf.convert_to_tensor(labels)
        inside = tf.where(p > 0, p * (z - p / 2), tf.zeros_like(p))
        zeros = tf.zeros_like(z)
        outside = tf.where(tf.equal(q, 0), tf.where(tf.is_nan(z), z, zeros), q * (q / 2 - z))
        return tf.reduce_sum(inside + outside, axis=1)
