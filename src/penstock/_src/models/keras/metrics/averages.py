"""Metrics that add up: sums and means of values, and of functions of labels and predictions."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import control_dependencies, init_scope
from penstock._src.models.keras import backend as K
from penstock._src.models.keras import user_code
from penstock._src.models.keras.losses.reduction import masked_weights
from penstock._src.models.keras.metrics.flat import flat_values, matched, weighted
from penstock._src.models.keras.metrics.metric import Metric, public
from penstock._src.ops.math.confusion import remove_squeezable_dimensions
from penstock._src.state.variables.variable import Variable

SUM, SUM_OVER_BATCH_SIZE, WEIGHTED_MEAN = "sum", "sum_over_batch_size", "weighted_mean"


def evaluated(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments as a configuration has them."""
    return {k: K.eval(v) if isinstance(v, (Tensor, Variable)) else v for k, v in kwargs.items()}


class Reduce(Metric):
    """A total of values, and for means a count of them."""

    def __init__(self, reduction: str, name: str | None, dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        self.reduction = reduction
        self.total = self._zeros("total")
        if reduction != SUM:
            self.count = self._zeros("count")

    def update_state(self, values: Any, sample_weight: Any = None) -> Any:
        """Adds values, each times its weight."""
        [values], sample_weight = flat_values([values], sample_weight)
        values = tf.cast(values, self.dtype)
        if sample_weight is not None:
            values, sample_weight = weighted(values, tf.cast(sample_weight, self.dtype), mean=self.reduction != SUM)
            values = values * sample_weight
        added = self.total.assign_add(tf.reduce_sum(values))
        if self.reduction == SUM:
            return added
        if sample_weight is None or self.reduction == SUM_OVER_BATCH_SIZE:
            count = tf.cast(tf.size(values), self.dtype)
        else:
            count = tf.reduce_sum(sample_weight)
        with control_dependencies([] if context.executing_eagerly() else [added]):
            return self.count.assign_add(count)

    def result(self) -> Any:
        """The sum, or the mean."""
        return tf.identity(self.total) if self.reduction == SUM else tf.math.divide_no_nan(self.total, self.count)


@public("Sum")
class Sum(Reduce):
    """The sum of values.

    Args:
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.Sum()
    >>> _ = metric.update_state([1., 2.])
    >>> float(metric.result())
    3.0
    """

    def __init__(self, name: str | None = "sum", dtype: Any = None):
        super().__init__(SUM, name, dtype)


@public("Mean")
class Mean(Reduce):
    """The weighted mean of values.

    Args:
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.Mean()
    >>> _ = metric.update_state([1., 3.], sample_weight=[1., 0.])
    >>> float(metric.result())
    1.0
    """

    def __init__(self, name: str | None = "mean", dtype: Any = None):
        super().__init__(WEIGHTED_MEAN, name, dtype)


class _OfFunction(Reduce):
    """A mean of a function of labels and predictions."""

    _fn: Callable
    _fn_kwargs: dict[str, Any]

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:      # type: ignore[override]
        """Adds the function's values for a batch."""
        y_true, y_pred = tf.cast(y_true, self.dtype), tf.cast(y_pred, self.dtype)
        [y_true, y_pred], sample_weight = flat_values([y_true, y_pred], sample_weight)
        y_true, y_pred = matched(y_true, y_pred)
        fn = user_code.traced(self._fn) if user_code.is_users(self._fn) else self._fn
        found = fn(y_true, y_pred, **self._fn_kwargs)
        mask = getattr(found, "_keras_mask", None)
        if mask is not None:
            sample_weight = masked_weights(sample_weight, mask, found.dtype)
        return super().update_state(found, sample_weight=sample_weight)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the metric."""
        return {**super().get_config(), **evaluated(self._fn_kwargs)}


@export("keras.metrics.MeanMetricWrapper", v2=["metrics.MeanMetricWrapper"])
class MeanMetricWrapper(_OfFunction, Mean):
    """The mean of a function of labels and predictions.

    Args:
        fn: A function of labels and predictions that returns a value per sample.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.
        **kwargs: Further arguments of `fn`.

    >>> metric = tf.keras.metrics.MeanMetricWrapper(tf.keras.losses.mean_absolute_error)
    >>> _ = metric.update_state([[0., 1.]], [[1., 3.]])
    >>> float(metric.result())
    1.5
    """

    def __init__(self, fn: Callable, name: str | None = None, dtype: Any = None, **kwargs: Any):
        Mean.__init__(self, name=name, dtype=dtype)
        self._fn, self._fn_kwargs = fn, self._no_dependency(kwargs)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the metric."""
        config = super().get_config()
        return {**config, "fn": self._fn} if type(self) is MeanMetricWrapper else config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The metric of a configuration."""
        config = dict(config)
        if cls is MeanMetricWrapper and isinstance(config.get("fn"), str):
            from penstock._src.models.keras.metrics.serialization import get
            config["fn"] = get(config["fn"])
        return cls(**config)


class SumOverBatchSize(Reduce):
    """The sum of weighted values, divided by how many there are."""

    def __init__(self, name: str | None = "sum_over_batch_size", dtype: Any = None):
        super().__init__(SUM_OVER_BATCH_SIZE, name, dtype)


class SumOverBatchSizeMetricWrapper(_OfFunction, SumOverBatchSize):
    """SumOverBatchSize of a function of labels and predictions."""

    def __init__(self, fn: Callable, name: str | None = None, dtype: Any = None, **kwargs: Any):
        SumOverBatchSize.__init__(self, name=name, dtype=dtype)
        self._fn, self._fn_kwargs = fn, self._no_dependency(kwargs)


@public("MeanRelativeError")
class MeanRelativeError(Mean):
    """The mean of absolute errors divided by `normalizer`.

    Args:
        normalizer: Errors are divided by it; 0 gives 0.
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.MeanRelativeError(normalizer=[[2.]])
    >>> _ = metric.update_state([[1.]], [[3.]])
    >>> round(float(metric.result()), 3)
    1.0
    """

    def __init__(self, normalizer: Any, name: str | None = None, dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        self.normalizer = tf.cast(normalizer, self.dtype)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:      # type: ignore[override]
        """Adds the relative errors of a batch."""
        y_true, y_pred = tf.cast(y_true, self.dtype), tf.cast(y_pred, self.dtype)
        [y_pred, y_true], sample_weight = flat_values([y_pred, y_true], sample_weight)
        y_true, y_pred = matched(y_true, y_pred)
        y_pred, normalizer = remove_squeezable_dimensions(y_pred, self.normalizer)
        y_pred.shape.assert_is_compatible_with(y_true.shape)
        return super().update_state(tf.math.divide_no_nan(tf.abs(y_true - y_pred), normalizer), sample_weight=sample_weight)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the metric."""
        return {**super().get_config(), **evaluated({"normalizer": self.normalizer})}


@public("RootMeanSquaredError")
class RootMeanSquaredError(Mean):
    """The root of the mean of squared errors.

    Args:
        name: Name of the metric.
        dtype: Type of the result, float32 by default.

    >>> metric = tf.keras.metrics.RootMeanSquaredError()
    >>> _ = metric.update_state([[0., 0.]], [[3., 3.]])
    >>> round(float(metric.result()), 3)
    3.0
    """

    def __init__(self, name: str | None = "root_mean_squared_error", dtype: Any = None):
        super().__init__(name, dtype)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:      # type: ignore[override]
        """Adds the squared errors of a batch."""
        y_true, y_pred = matched(tf.cast(y_true, self.dtype), tf.cast(y_pred, self.dtype))
        return super().update_state(tf.math.squared_difference(y_pred, y_true), sample_weight=sample_weight)

    def result(self) -> Any:
        """The root of the mean."""
        return tf.sqrt(tf.math.divide_no_nan(self.total, self.count))


@public("MeanTensor")
class MeanTensor(Metric):
    """The mean of tensors of one shape, element by element.

    Args:
        name: Name of the metric.
        dtype: Type of the result, float32 by default.
        shape: Shape of the values; by default that of the first ones.

    >>> metric = tf.keras.metrics.MeanTensor()
    >>> _ = metric.update_state([1., 2.])
    >>> _ = metric.update_state([3., 4.])
    >>> metric.result().numpy().tolist()
    [2.0, 3.0]
    """

    def __init__(self, name: str | None = "mean_tensor", dtype: Any = None, shape: Any = None):
        super().__init__(name=name, dtype=dtype)
        self._shape: Any = None
        self._total: Any = None
        self._count: Any = None
        if shape is not None:
            self._make(shape)

    def _make(self, shape: Any) -> None:
        self._shape = TensorShape(shape)
        self._total, self._count = self._zeros("total", self._shape), self._zeros("count", self._shape)
        with init_scope():
            if not context.executing_eagerly():
                K.get_session([self._total, self._count])

    total = property(lambda self: self._total, doc="The sum of the tensors, or None before the first.")
    count = property(lambda self: self._count, doc="The sum of their weights, or None before the first.")

    def update_state(self, values: Any, sample_weight: Any = None) -> Any:
        """Adds a tensor."""
        values = tf.cast(values, self.dtype)
        if self._shape is None:
            self._make(values.shape)
        elif values.shape != self._shape:
            raise ValueError("MeanTensor input values must always have the same shape. Expected shape (set during the first "
                             f"call): {self._shape}. Got: {values.shape}")
        count = tf.ones_like(values)
        if sample_weight is not None:
            values, sample_weight = weighted(values, tf.cast(sample_weight, self.dtype))
            count, values = count * sample_weight, values * sample_weight
        added = self._total.assign_add(values)
        with control_dependencies([] if context.executing_eagerly() else [added]):
            return self._count.assign_add(count)

    def result(self) -> Any:
        """The mean so far."""
        if self._shape is None:
            raise ValueError("MeanTensor does not have any result yet. Please call the MeanTensor instance or use "
                             "`.update_state(value)` before retrieving the result.")
        return tf.math.divide_no_nan(self._total, self._count)
