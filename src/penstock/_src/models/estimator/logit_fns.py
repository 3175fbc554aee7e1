"""Functions that compute logits as the premade estimators do, for model functions and heads of the user's."""
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.models.estimator.canned import dnn_logits, linear_logits


@export(v1=["estimator.experimental.dnn_logit_fn_builder", "contrib.estimator.dnn_logit_fn_builder"])
def dnn_logit_fn_builder(units: int, hidden_units: Any, feature_columns: Any, activation_fn: Any, dropout: Any,
                         input_layer_partitioner: Any, batch_norm: bool) -> Callable:
    """A function from features and mode to the logits of dense layers, as DNNClassifier has them.

    >>> columns = [tf.feature_column.numeric_column("x")]
    >>> tf.estimator.experimental.dnn_logit_fn_builder(1, [4], columns, tf.nn.relu, None, None, False)
    """
    if not isinstance(units, int):
        raise ValueError(f"units must be an int.  Given type: {type(units)}")

    def logit_fn(features: Any, mode: str) -> Any:
        return dnn_logits(features, feature_columns, hidden_units, units, mode, activation_fn, dropout, input_layer_partitioner,
                          batch_norm)
    return logit_fn


@export(v1=["estimator.experimental.linear_logit_fn_builder", "contrib.estimator.linear_logit_fn_builder"])
def linear_logit_fn_builder(units: int, feature_columns: Any, sparse_combiner: str = "sum") -> Callable:
    """A function from features to the logits of a linear model, as LinearClassifier has them.

    >>> tf.estimator.experimental.linear_logit_fn_builder(1, [tf.feature_column.numeric_column("x")])
    """
    def logit_fn(features: Any) -> Any:
        return linear_logits(features, feature_columns, units, sparse_combiner, None)
    return logit_fn


@export("estimator.experimental.call_logit_fn", v1=["contrib.estimator.call_logit_fn"])
def call_logit_fn(logit_fn: Any, features: Any, mode: str, params: Any, config: Any) -> Any:
    """Calls a function that returns logits with those arguments that it takes.

    >>> logit_fn = tf.compat.v1.estimator.experimental.linear_logit_fn_builder(1, [tf.feature_column.numeric_column("x")])
    >>> with tf.Graph().as_default():
    ...     logits = tf.estimator.experimental.call_logit_fn(logit_fn, {"x": tf.zeros([2, 1])}, "infer", {}, None)
    """
    given = {"mode": mode, "params": params, "config": config}
    names = inspect.signature(logit_fn).parameters
    found = logit_fn(features=features, **{k: v for k, v in given.items() if k in names})
    if not isinstance(found, (tf.Tensor, dict)):
        raise ValueError(f"logit_fn should return a Tensor or a dictionary of Tensors, not {found!r}.")
    return found
