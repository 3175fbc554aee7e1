"""The base of Keras' metrics: a layer whose variables collect what batches say, and whose result is computed from them.

A subclass has `update_state` and `result`. An instance's own two methods are wrapped in what graphs need: an update is
remembered as one of the layer's updates, and a result is its own tensor. `update_state` of a user's class may change
variables and return nothing; in a graph it is therefore traced as a function, which keeps its order.
"""
from __future__ import annotations

import types
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.base.dtypes import as_dtype
from penstock._src.eager.function import function
from penstock._src.graph import context
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.scopes import control_dependencies, init_scope
from penstock._src.models.keras import backend as K
from penstock._src.models.keras import user_code
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.engine.replicas import current_replica
from penstock._src.ops.core import group, identity
from penstock._src.state.variables.policy import VariableAggregation, VariableSynchronization
from penstock.keras.initializers import Zeros


def public(name: str) -> Any:
    """Exports a metric under `keras.metrics` and its short 2.x name."""
    return export(f"keras.metrics.{name}", v2=[f"metrics.{name}"])


@public("Metric")
class Metric(Layer):
    """Base of the metrics.

    >>> m = tf.keras.metrics.Mean()
    >>> m.update_state([1., 3.])
    >>> m.result()                 # 2.0
    """

    def __init__(self, name: str | None = None, dtype: Any = None, **kwargs: Any):
        super().__init__(name=name, dtype=dtype, **kwargs)
        self.__dict__["update_state"] = types.MethodType(_updating(type(self)), self)
        self.__dict__["result"] = types.MethodType(_resulting(type(self)), self)
        self.stateful = True
        self.built = True
        self._metric_dtype = K.floatx() if dtype is None else getattr(dtype, "compute_dtype", None) or as_dtype(dtype).name

    dtype = property(lambda self: self._metric_dtype, doc="The type in which the metric is computed.")
    _dtype = property(lambda self: self._metric_dtype)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Collects a batch, and returns the result so far."""
        update = self.update_state(*args, **kwargs)
        with control_dependencies([] if update is None or context.executing_eagerly() else [update]):
            result = self.result()
        if isinstance(result, Tensor):
            result._metric_obj = self
        return result

    def __str__(self) -> str:
        return f"{type(self).__name__}({','.join(f'{k}={v}' for k, v in self.get_config().items())})"

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the metric, without its state."""
        return {"name": self.name, "dtype": self.dtype}

    def reset_state(self) -> None:
        """Resets the state."""
        K.batch_set_value([(v, np.zeros(v.shape.as_list())) for v in self.variables])

    def reset_states(self) -> None:
        """Resets the state, under the name of TensorFlow 1."""
        self.reset_state()

    def merge_state(self, metrics: Any) -> list:
        """Adds the states of other metrics of this kind, such as those of other workers.

        Args:
            metrics: Metrics with variables of the same shapes.

        Returns:
            The assignments.

        Raises:
            ValueError: if a metric has another number of variables.

        >>> total.merge_state([of_one_worker, of_another])
        """
        for metric in metrics:
            if len(metric.weights) != len(self.weights):
                raise ValueError(f"Metric {metric} is not compatible with {self}")
        return [v.assign_add(w) for metric in metrics for v, w in zip(self.weights, metric.weights, strict=True)]

    def update_state(self, *args: Any, **kwargs: Any) -> Any:
        """Adds a batch to the state."""
        raise NotImplementedError("Must be implemented in subclasses.")

    def result(self) -> Any:
        """The result so far, as a tensor."""
        raise NotImplementedError("Must be implemented in subclasses.")

    def add_weight(self, name: str, shape: Any = (), aggregation: Any = VariableAggregation.SUM,   # type: ignore[override]
                   synchronization: Any = VariableSynchronization.ON_READ, initializer: Any = None,
                   dtype: Any = None) -> Any:
        """A state variable."""
        with init_scope():
            return super().add_weight(name=name, shape=shape, dtype=self.dtype if dtype is None else dtype, trainable=False,
                                      initializer=initializer, collections=[], synchronization=synchronization,
                                      aggregation=aggregation)

    def _zeros(self, name: str, shape: Any = (), dtype: Any = None) -> Any:
        return self.add_weight(name, shape=shape, initializer=Zeros(), dtype=dtype)

    _object_identifier = property(lambda self: "_tf_keras_metric")


def _resets(cls: type) -> Any:
    """Which of the two names of reset a user's class has, if any: the other one then calls it."""
    own = [n for n in ("reset_state", "reset_states") if getattr(cls, n) is not getattr(Metric, n)]
    return own[0] if len(own) == 1 else None


def _updating(cls: type) -> Any:
    """Wraps `update_state` of a class for its instances."""
    method, ours = cls.update_state, cls.__module__.startswith("penstock._src.models.keras.metrics")  # type: ignore[attr-defined]
    if _resets(cls) == "reset_states":
        cls.reset_state = lambda self: self.reset_states()  # type: ignore[attr-defined]

    def update_state(self: Any, *args: Any, **kwargs: Any) -> Any:
        if context.executing_eagerly():
            return method(self, *args, **kwargs)
        graph = context.current_graph()
        if ours or graph.building_function:
            update = (method if ours else user_code.traced(method))(self, *args, **kwargs)
        else:
            update = _traced(self, method, args, kwargs)
        if graph.building_function:       # functions keep the order of updates on their own, and return no operations
            return None if isinstance(update, Operation) else update
        if update is not None:
            self.add_update(update)
        return update
    return update_state


def _traced(metric: Any, method: Any, args: tuple, kwargs: dict) -> Any:
    """The op of a function that runs a user's update."""
    graph = context.current_graph()
    count = len(graph._ops)
    function(lambda: method(metric, *args, **kwargs), autograph=False)()
    return group(*(op for op in graph._ops[count:] if op.opdef.stateful))


def _resulting(cls: type) -> Any:
    """Wraps `result` of a class for its instances."""
    method, ours = cls.result, not user_code.is_users(cls)  # type: ignore[attr-defined]

    def result(self: Any) -> Any:
        replica = current_replica()
        compute = method if ours else user_code.traced(method)
        found = compute(self) if replica is None else replica.merge_call(lambda strategy: compute(self))
        found = None if found is None else {k: identity(v) for k, v in found.items()} if isinstance(found, dict) else \
            identity(found)
        self.__dict__["_call_result"] = found
        return found
    return result


def clone_metric(metric: Any) -> Any:
    """A copy of a metric without its state; other values unchanged."""
    if not isinstance(metric, Metric):
        return metric
    with init_scope():
        return type(metric).from_config(metric.get_config())


def clone_metrics(metrics: Any) -> Any:
    """Metrics like these, without their state."""
    if metrics is None:
        return None
    if isinstance(metrics, dict):
        return {k: clone_metric(m) for k, m in metrics.items()}
    return [clone_metric(m) for m in metrics]
