"""Metrics as objects: a call with values updates them; `result` returns the current value."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


def _export(name: str) -> Callable:
    return export(v1=[f"contrib.eager.metrics.{name}", f"contrib.eager.python.tfe.metrics.{name}",
                      f"contrib.eager.python.metrics.{name}"])


@_export("Metric")
class Metric(tf.Module):
    """The base of metrics: `build` makes variables with `add_variable`, `call` updates them, `result` reads them."""

    def __init__(self, name: str | None = None, use_global_variables: bool = False):
        super().__init__(name=None)
        self._built, self._vars, self._use_global_variables = False, [], use_global_variables
        name = name or type(self).__name__
        base = re.sub("[^A-Za-z0-9.]", "_", name)
        with tf.variable_scope(None, default_name=base, use_resource=True, reuse=False) as scope:
            self._metric_name = name + scope.name[scope.name.rfind(base) + len(base):]
            self._scope = scope

    name = property(lambda self: self._metric_name)
    variables = property(lambda self: self._vars)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._built:
            with tf.variable_scope(self._scope):
                self.build(*args, **kwargs)
            self._built = True
        return self.call(*args, **kwargs)

    def build(self, *args: Any, **kwargs: Any) -> None:
        """Makes the variables."""
        raise NotImplementedError("A metric needs a method build()")

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Takes in values."""
        raise NotImplementedError("A metric needs a method call()")

    def result(self) -> Any:
        """The current value."""
        raise NotImplementedError("A metric needs a method result()")

    def value(self) -> Any:
        """The result; eagerly, a function that returns it."""
        return self.result if context.executing_eagerly() else self.result()

    def init_variables(self) -> Any:
        """Begins again."""
        if context.executing_eagerly():
            for v in self._vars:
                v.assign(tf.zeros(v.shape, v.dtype))
            return None
        return tf.group([v.initializer for v in self._vars])

    def aggregate(self, metrics: Any) -> None:
        """Adds the values of other metrics of the same kind."""
        for m in metrics:
            if type(self) is not type(m):
                raise TypeError(f"All metrics must be the same type, '{type(self)}' != '{type(m)}'.")
        for i, v in enumerate(self._vars):
            v.assign_add(tf.add_n([tf.convert_to_tensor(m._vars[i]) for m in metrics]))

    def add_variable(self, name: str, shape: Any = None, dtype: Any = None, initializer: Any = None) -> Any:
        """A variable, in `build`."""
        if self._built:
            raise RuntimeError("add_variable() is for build() only.")
        collections = None
        if not context.executing_eagerly():
            where = tf.GraphKeys.GLOBAL_VARIABLES if self._use_global_variables else tf.GraphKeys.LOCAL_VARIABLES
            collections = [where, tf.GraphKeys.METRIC_VARIABLES]
        made = tf.get_variable(name, shape=shape, dtype=dtype, initializer=initializer, trainable=False,
                               collections=collections, use_resource=True)
        self._vars.append(made)
        return made


@_export("Mean")
class Mean(Metric):
    """The (weighted) mean.

    >>> mean = tfe.metrics.Mean("loss"); mean(1.0); mean(3.0); mean.result()
    """

    def __init__(self, name: str | None = None, dtype: Any = tf.float64, use_global_variables: bool = False):
        super().__init__(name=name, use_global_variables=use_global_variables)
        self.dtype = dtype

    def build(self, *args: Any, **kwargs: Any) -> None:
        """Makes the variables."""
        self.numer = self.add_variable("numer", shape=(), dtype=self.dtype, initializer=tf.zeros_initializer())
        self.denom = self.add_variable("denom", shape=(), dtype=self.dtype, initializer=tf.zeros_initializer())

    def call(self, values: Any, weights: Any = None) -> Any:
        """Takes in values."""
        count, total = tf.cast(tf.size(values), self.dtype), tf.cast(values, self.dtype)
        if weights is not None:
            weights = tf.cast(weights, self.dtype)
            count, total = tf.reduce_sum(weights), total * weights
        updates = [self.denom.assign_add(count), self.numer.assign_add(tf.reduce_sum(total))]
        result = values if weights is None else (values, weights)
        if context.executing_eagerly():
            return result
        with tf.control_dependencies(updates):
            return tf.identity(values) if weights is None else (tf.identity(values), weights)

    def result(self, write_summary: bool = True) -> Tensor:
        """The mean of what has come so far; also written as a summary, where summaries are recorded."""
        mean = self.numer / self.denom
        if write_summary:
            tf.contrib.summary.scalar(name=self.name, tensor=mean)
        return mean


class _Matches(Mean):
    """The share of matches between labels and predictions."""

    def __init__(self, name: str | None = None, dtype: Any = tf.float64):
        super().__init__(name=name, dtype=dtype)

    def _matches(self, labels: Any, predictions: Any) -> Tensor:
        raise NotImplementedError

    def call(self, labels: Any, predictions: Any, weights: Any = None) -> Any:
        """Takes in labels and predictions."""
        matches = super().call(tf.cast(self._matches(labels, predictions), self.dtype), weights=weights)
        result = (labels, predictions) if weights is None else (labels, predictions, weights)
        if context.executing_eagerly():
            return result
        with tf.control_dependencies([matches if weights is None else matches[0]]):
            return tuple(tf.identity(x) for x in result)


def _same_shape(labels: Any, predictions: Any) -> None:
    labels, predictions = tf.convert_to_tensor(labels), tf.convert_to_tensor(predictions)
    if not labels.shape.is_compatible_with(predictions.shape):
        raise tf.errors.InvalidArgumentError(None, None, "Labels and predictions have different shapes")


@_export("Accuracy")
class Accuracy(_Matches):
    """How often predictions equal labels."""

    def _matches(self, labels: Any, predictions: Any) -> Tensor:
        _same_shape(labels, predictions)
        return tf.equal(labels, predictions)


@_export("CategoricalAccuracy")
class CategoricalAccuracy(_Matches):
    """How often the highest prediction is that of the label; labels are one-hot."""

    def _matches(self, labels: Any, predictions: Any) -> Tensor:
        _same_shape(labels, predictions)
        return tf.equal(tf.argmax(labels, axis=-1), tf.argmax(predictions, axis=-1))


@_export("SparseAccuracy")
class SparseAccuracy(_Matches):
    """How often the highest prediction is that of the label; labels are numbers of classes."""

    def _matches(self, labels: Any, predictions: Any) -> Tensor:
        return tf.equal(tf.cast(labels, tf.int64), tf.argmax(predictions, axis=-1))


@_export("BinaryAccuracy")
class BinaryAccuracy(_Matches):
    """How often predictions are on the label's side of a threshold."""

    def __init__(self, threshold: float, name: str | None = None, dtype: Any = tf.float64):
        super().__init__(name=name, dtype=dtype)
        self.threshold = threshold

    def _matches(self, labels: Any, predictions: Any) -> Tensor:
        _same_shape(labels, predictions)
        above = tf.greater(predictions, tf.constant(self.threshold, tf.convert_to_tensor(predictions).dtype))
        return tf.equal(tf.cast(labels, tf.bool), above)
