"""From one loss per element to one number: weights, masks and reductions, and ranks that differ by a dimension of one."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.library.ragged.tensor import RaggedTensor
from penstock._src.ops.registry import get


@export(v1=["keras.losses.Reduction"], v2=["keras.losses.Reduction", "losses.Reduction"])
class Reduction:
    """How the losses of a batch are reduced."""

    AUTO = "auto"
    NONE = "none"
    SUM = "sum"
    SUM_OVER_BATCH_SIZE = "sum_over_batch_size"
    MEAN = "mean"
    MEAN_WITH_SAMPLE_WEIGHT = "mean_with_sample_weight"

    @classmethod
    def all(cls) -> tuple:
        """All of them."""
        return (cls.AUTO, cls.NONE, cls.SUM, cls.SUM_OVER_BATCH_SIZE, cls.MEAN, cls.MEAN_WITH_SAMPLE_WEIGHT)

    @classmethod
    def validate(cls, key: Any) -> None:
        """ValueError if `key` is not one of them."""
        if key not in cls.all():
            raise ValueError(f"Invalid reduction {key!r}: use one of {cls.all()}.")


def same_rank(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Labels and predictions of one rank, where one has a last dimension of one more than the other."""
    a, b = y_true.shape.ndims, y_pred.shape.ndims
    if a is None or b is None:
        return y_true, y_pred
    if a == b + 1 and y_true.shape[-1] == 1:
        return (y_true, tf.expand_dims(y_pred, -1)) if b == 1 else (tf.squeeze(y_true, [-1]), y_pred)
    if b == a + 1 and y_pred.shape[-1] == 1:
        return (tf.expand_dims(y_true, -1), y_pred) if a == 1 else (y_true, tf.squeeze(y_pred, [-1]))
    return y_true, y_pred


def fitting_weights(values: Any, weights: Any) -> Any:
    """Weights with the rank of the values: adds or removes a last dimension of one."""
    w, v = weights.shape.ndims, values.shape.ndims
    if w == 0:
        return weights
    if w is not None and v is not None:
        if w - v == 1:
            return tf.squeeze(weights, [-1])
        return tf.expand_dims(weights, [-1]) if v - w == 1 else weights
    more = tf.rank(weights) - tf.rank(values)
    return tf.cond(tf.equal(more, 1), lambda: tf.squeeze(weights, [-1]),
                   lambda: tf.cond(tf.logical_and(tf.equal(more, -1), tf.not_equal(tf.rank(weights), 0)),
                                   lambda: tf.expand_dims(weights, -1), lambda: weights))


def masked_weights(weights: Any, mask: Any, dtype: Any, reduction: str = Reduction.NONE) -> Any:
    """Weights that are zero where a mask is; for a mean, scaled so that masked elements do not count in it."""
    mask = tf.cast(mask, dtype)
    if reduction in (Reduction.AUTO, Reduction.SUM_OVER_BATCH_SIZE):
        mask = mask * get("DivNoNan")(tf.cast(tf.size(mask), dtype), tf.reduce_sum(mask))
    if weights is None:
        return mask
    weights = tf.cast(weights, dtype)
    while weights.shape.rank is not None and mask.shape.rank is not None and weights.shape.rank < mask.shape.rank:
        weights = tf.expand_dims(weights, -1)
    return weights * mask


@export(v2=["keras.__internal__.losses.compute_weighted_loss"])
def compute_weighted_loss(losses: Any, sample_weight: Any = None, reduction: str = Reduction.SUM_OVER_BATCH_SIZE,
                          name: str | None = None) -> Any:
    """Losses times weights, reduced; in the type of the losses.

    >>> float(tf.keras.__internal__.losses.compute_weighted_loss([1., 3.], [1., 0.]))
    0.5
    """
    Reduction.validate(reduction)
    with tf.name_scope(name or "weighted_loss"):
        if not context.executing_eagerly():
            context.current_graph()._last_loss_reduction = reduction
        losses = losses if isinstance(losses, (Tensor, RaggedTensor)) else convert(losses)
        dtype = losses.dtype
        if sample_weight is None:
            weighted, weights = losses, None
        else:
            single = dtype.name in ("float16", "bfloat16") or not dtype.is_floating
            values = tf.cast(losses, "float32") if single else losses
            weights = fitting_weights(values, tf.cast(sample_weight, values.dtype))
            weighted = values * weights
        return tf.cast(_reduced(weighted, weights, reduction), dtype)


def _reduced(losses: Any, weights: Any, reduction: str) -> Any:
    if reduction == Reduction.NONE:
        return losses
    total = tf.reduce_sum(losses)
    if reduction == Reduction.SUM:
        return total
    if reduction == Reduction.MEAN_WITH_SAMPLE_WEIGHT and weights is not None:
        return get("DivNoNan")(total, tf.reduce_sum(weights * tf.ones_like(losses)))
    if losses.shape.is_fully_defined():
        return total / losses.shape.num_elements() if losses.shape.num_elements() else total * 0
    return get("DivNoNan")(total, tf.cast(tf.size(losses), losses.dtype), name="value")
