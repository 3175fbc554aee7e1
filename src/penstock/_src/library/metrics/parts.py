"""Parts of metrics that libraries build their own from, under the names of TensorFlow's private functions."""
from __future__ import annotations

from typing import Any

import penstock.compat.v1 as tf
from penstock._src.library.metrics import state
from penstock._src.library.metrics import thresholds as at_thresholds


def metric_variable(shape: Any, dtype: Any, validate_shape: bool = True, name: str | None = None) -> Any:
    """A local variable that starts at zero."""
    return state.metric_variable(shape, dtype, name or "Variable")


def _aggregate_variable(v: Any, collections: Any) -> Any:
    """The sum of a variable over all replicas, added to `collections`."""
    value = tf.convert_to_tensor(v)
    if collections:
        tf.add_to_collections(collections, value)
    return value


def _safe_scalar_div(numerator: Any, denominator: Any, name: str) -> Any:
    """The quotient, or 0 if the denominator is 0."""
    return tf.div_no_nan(tf.cast(numerator, tf.float64), tf.cast(denominator, tf.float64), name=name)


def _confusion_matrix_at_thresholds(labels: Any, predictions: Any, thresholds: Any, weights: Any = None,
                                    includes: Any = None) -> tuple[dict, dict]:
    """By kind ("tp", "fn", "tn", "fp"), counts at each threshold: their values, and their updates."""
    which = " ".join(includes or at_thresholds.COUNTS)
    values, updates = at_thresholds.counted(labels, predictions, thresholds, weights, which)
    return {k: tf.convert_to_tensor(v) for k, v in values.items()}, updates
