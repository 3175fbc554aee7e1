"""Matching the shapes of metric values: flattens ragged ones, aligns ranks that differ by a dimension of one, broadcasts
weights."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.graph.scopes import control_dependencies
from penstock._src.library.ragged.tensor import RaggedTensor
from penstock._src.library.weights import broadcast_weights
from penstock._src.models.keras.losses.reduction import fitting_weights


def flat_values(values: list, mask: Any = None) -> tuple[list, Any]:
    """The values of ragged tensors with the same rows, one per line; others as they are."""
    ragged = [isinstance(v, RaggedTensor) for v in values]
    if all(ragged) and (mask is None or isinstance(mask, RaggedTensor)):
        if len({v.ragged_rank for v in (*values, *([] if mask is None else [mask]))}) > 1:
            raise ValueError("Inputs must have identical ragged splits, but their ranks differ.")
        rows = [tf.debugging.assert_equal(a, b, message="Inputs must have identical ragged splits")
                for v in (*values[1:], *([] if mask is None else [mask]))
                for a, b in zip(values[0].nested_row_splits, v.nested_row_splits, strict=True)]
        with control_dependencies([r for r in rows if r is not None]):
            made = [tf.expand_dims(tf.identity(v.flat_values), -1) for v in values]
            return made, None if mask is None else tf.expand_dims(tf.identity(mask.flat_values), -1)
    if any(ragged):
        raise TypeError("The metric does not support the type of one of its inputs.")
    if isinstance(mask, RaggedTensor):
        raise TypeError("Ragged mask is not allowed with non-ragged inputs.")
    return values, mask


def matched(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Labels and predictions of one rank."""
    a, b = y_true.shape.ndims, y_pred.shape.ndims
    if a is not None and b is not None:
        if b - a == 1 and y_pred.shape[-1] in (1, None):
            return y_true, tf.squeeze(y_pred, [-1])
        return (tf.squeeze(y_true, [-1]), y_pred) if a - b == 1 and y_true.shape[-1] in (1, None) else (y_true, y_pred)
    more = tf.rank(y_pred) - tf.rank(y_true)
    return _squeezed(y_true, tf.equal(more, -1)), _squeezed(y_pred, tf.equal(more, 1))


def _squeezed(x: Any, longer: Any) -> Any:
    """A tensor of unknown rank without its last dimension, if it has one more than another, and that is one."""
    def fits() -> Any:
        return tf.equal(tf.shape(x)[-1], 1)
    return tf.cond(tf.cond(longer, fits, lambda: False), lambda: tf.squeeze(x, [-1]), lambda: x)


def weighted(values: Any, weights: Any, mean: bool = True) -> tuple[Any, Any]:
    """Values and weights of one shape; values that have more dimensions than their weights are averaged (or summed) first."""
    weights = fitting_weights(values, weights)
    try:
        return values, broadcast_weights(weights, values)
    except ValueError:
        more = list(range(weights.shape.ndims, values.shape.ndims))
        return (tf.reduce_mean if mean else tf.reduce_sum)(values, axis=more), weights
