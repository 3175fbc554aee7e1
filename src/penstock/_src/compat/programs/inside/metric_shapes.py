"""Of `ops.metrics_impl`: shapes of what metrics compare."""
from __future__ import annotations

from typing import Any

import penstock.compat.v1 as tf
from penstock._src.ops.math.confusion import remove_squeezable_dimensions


def _remove_squeezable_dimensions(predictions: Any, labels: Any, weights: Any) -> tuple[Any, Any, Any]:
    """Predictions, labels and weights, without a last dimension of size 1 that the others lack."""
    predictions = tf.convert_to_tensor(predictions)
    if labels is not None:
        labels, predictions = remove_squeezable_dimensions(labels, predictions)
        predictions.shape.assert_is_compatible_with(labels.shape)
    if weights is None:
        return predictions, labels, None
    weights = tf.convert_to_tensor(weights)
    ranks = weights.shape.rank, predictions.shape.rank
    if None not in ranks and ranks[0] and ranks[0] - ranks[1] == 1:
        weights = tf.squeeze(weights, [-1])
    elif None not in ranks and ranks[1] - ranks[0] == 1 and ranks[0]:
        weights = tf.expand_dims(weights, [-1])
    return predictions, labels, weights
