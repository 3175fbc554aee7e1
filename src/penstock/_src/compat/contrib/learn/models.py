"""tf.contrib.learn.models: linear models as parts of a graph, as model functions of 2016 use them."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock.compat import v1 as tf


def _export(function: Any) -> Any:
    return export(v1=[f"{p}.models.{function.__name__}" for p in ("contrib.learn", "contrib.learn.python.learn")])(function)


def _scores(x: Any, y: Any, outputs: Any, init_mean: float | None, init_stddev: float) -> Any:
    """The linear function, with its variables `weights` and `bias` and a summary of each value."""
    initializer = None if init_mean is None else tf.random_normal_initializer(init_mean, init_stddev, dtype=x.dtype.base_dtype)
    weights = tf.get_variable("weights", [x.shape[1], outputs], x.dtype.base_dtype, initializer)
    bias = tf.get_variable("bias", [outputs], x.dtype.base_dtype, initializer)
    scope = tf.get_variable_scope().name
    for name, value in (("x", x), ("y", y), ("weights", weights), ("bias", bias)):
        tf.summary.histogram(f"{scope}.{name}", value)
    return tf.nn.xw_plus_b(x, weights, bias)


@_export
def linear_regression(x: Any, y: Any, init_mean: float | None = None, init_stddev: float = 1.0) -> tuple[Any, Any]:
    """Predictions, and their mean squared error."""
    with tf.variable_scope("linear_regression"):
        found = _scores(x, y, 1 if y.shape.rank == 1 else y.shape[1], init_mean, init_stddev)
        if y.shape.rank == 1:
            found = tf.squeeze(found, axis=[1])
        return found, tf.losses.mean_squared_error(y, found)


@_export
def linear_regression_zero_init(x: Any, y: Any) -> tuple[Any, Any]:
    """`linear_regression` that begins with zeros."""
    return linear_regression(x, y, init_mean=0.0, init_stddev=0.0)


@_export
def logistic_regression(x: Any, y: Any, class_weight: Any = None, init_mean: float | None = None,
                        init_stddev: float = 1.0) -> tuple[Any, Any]:
    """Probabilities of classes, and their cross entropy. Labels are one-hot; the weights of classes multiply logits."""
    with tf.variable_scope("logistic_regression"):
        logits = _scores(x, y, y.shape[-1], init_mean, init_stddev)
        if class_weight is not None:
            logits = logits * class_weight
        return tf.nn.softmax(logits), tf.losses.softmax_cross_entropy(y, logits)


@_export
def logistic_regression_zero_init(x: Any, y: Any) -> tuple[Any, Any]:
    """`logistic_regression` that begins with zeros."""
    return logistic_regression(x, y, init_mean=0.0, init_stddev=0.0)
