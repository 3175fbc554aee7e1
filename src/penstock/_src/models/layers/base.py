"""The base of tf.layers: Keras's Layer with variables from get_variable, in a variable scope of the layer's own.

The scope is found when the layer is first called; from then on its variables are reused. Losses of regularizers go to the
collection REGULARIZATION_LOSSES, updates to UPDATE_OPS.
"""
from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import LazyModule, export
from penstock._src.base.dtypes import as_dtype, float32
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.convert import is_tensor
from penstock._src.graph.scopes import init_scope, name_scope
from penstock._src.models.keras.engine import base_layer
from penstock._src.models.keras.engine.layer_weights import _checked_trainable
from penstock._src.models.keras.mixed_precision import Policy
from penstock._src.models.keras.utils.generic_utils import to_snake_case
from penstock._src.state.variables.partitioned import PartitionedVariable
from penstock._src.state.variables.policy import VariableAggregation, VariableSynchronization
from penstock._src.state.variables.scope import VariableScope, get_variable, variable_scope
from penstock.compat import v1 as tf

backend = LazyModule("penstock._src.models.keras.backend")
_style = {"keras": False}


@export(v1=["layers.experimental.keras_style_scope"])
@contextlib.contextmanager
def keras_style_scope() -> Iterator[None]:
    """A context in which layers own their variables, like Keras layers, independent of the variable scope."""
    before = _style["keras"]
    _style["keras"] = True
    try:
        yield
    finally:
        _style["keras"] = before


@export(v1=["layers.experimental.set_keras_style"])
def set_keras_style() -> None:
    """Makes layers that are created from now on own their variables, like Keras layers."""
    _style["keras"] = True


@export(v1=["layers.Layer"])
class Layer(base_layer.Layer):
    """The base of the layers of TensorFlow 1.

    >>> class Scale(tf.layers.Layer):
    ...     def build(self, input_shape): self.scale = self.add_weight("scale", [])
    ...     def call(self, inputs): return inputs * self.scale
    """

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None, **kwargs: Any):
        self._use_resource_variables = False
        scope = kwargs.pop("_scope", None)
        self._reuse = kwargs.pop("_reuse", None)
        self._keras_style = _style["keras"]
        kwargs.setdefault("autocast", False)
        super().__init__(trainable=trainable, name=name, dtype=Policy("infer") if dtype is None else dtype, **kwargs)
        if self._keras_style and scope is not None:
            raise ValueError(f"scope argument not allowed when keras style layers are enabled, but saw: {scope}")
        if self._keras_style and self._reuse is not None:
            raise ValueError(f"reuse argument not allowed when keras style layers are enabled, but saw: {self._reuse}")
        self._call_has_scope_arg = "scope" in self._call_fn_args
        self._scope: Any = None
        self._current_scope: Any = None
        self._reused: Any = None              # the scope in which later calls find the variables
        if scope:
            with variable_scope(scope) as captured:
                self._scope = captured

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)      # attributes are not tracked here: variables come from scopes

    # -- names and scopes --------------------------------------------------------------------------------------------
    @property
    def graph(self) -> None:
        """None: layers do not belong to a graph."""
        if context.executing_eagerly():
            raise RuntimeError("Layer.graph not supported when executing eagerly.")
        return None

    def _init_set_name(self, name: Any, zero_based: bool = False) -> None:
        if name and not isinstance(name, VariableScope):
            self._name = self._base_name = name
            return
        base = to_snake_case(type(self).__name__)
        self._name = backend.unique_object_name(base)
        self._base_name = name.name if name else base

    def _make_unique_name(self, name_uid_map: Any = None, avoid_names: Any = None, namespace: str = "",
                          zero_based: bool = False) -> tuple[str, str]:
        base = to_snake_case(type(self).__name__)
        return backend.unique_object_name(base, name_uid_map=name_uid_map, avoid_names=avoid_names, namespace=namespace,
                                          zero_based=zero_based), base

    @property
    def scope_name(self) -> str:
        """The name of the variable scope."""
        if not self._scope:
            raise ValueError(f"No name available for layer scope because the layer \"{self._name}\" has not been used yet. The "
                             "scope name  is determined the first time the layer instance is called. You must therefore call "
                             "the layer before querying `scope_name`.")
        return self._scope.name

    def _name_scope(self) -> str:
        return super()._name_scope() if self._keras_style else self._current_scope.original_name_scope

    def _set_scope(self, scope: Any = None) -> None:
        """Determines the variable scope on the first call."""
        if self._scope is not None:
            return
        if self._reuse:
            opened = variable_scope(scope if scope is not None else self._base_name)
        else:
            opened = variable_scope(scope, default_name=self._base_name)
        with opened as captured:
            self._scope = captured

    # -- variables and losses ----------------------------------------------------------------------------------------
    def add_weight(self, name: str, shape: Any, dtype: Any = None, initializer: Any = None,        # type: ignore[override]
                   regularizer: Any = None,
                   trainable: bool | None = None, constraint: Any = None, use_resource: bool | None = None,
                   synchronization: Any = VariableSynchronization.AUTO, aggregation: Any = VariableAggregation.NONE,
                   partitioner: Any = None, **kwargs: Any) -> Any:
        """A variable of the layer's scope: an existing one if the scope reuses variables, otherwise a new one."""
        for k in kwargs:
            if k != "experimental_autocast":
                raise TypeError(f"Unknown keyword argument: {k}")
        if self._keras_style:
            return super().add_weight(name=name, shape=shape, dtype=dtype, initializer=initializer, regularizer=regularizer,
                                      trainable=trainable and self.trainable, constraint=constraint, partitioner=partitioner,
                                      use_resource=use_resource, **kwargs)
        trainable = _checked_trainable(trainable, synchronization)
        graph, existing = _variables_so_far()
        self._set_scope()
        before = len(self._trainable_weights)
        with variable_scope(self._scope, reuse=self.built or self._reuse, auxiliary_name_scope=False) as scope:
            self._current_scope = scope
            with name_scope(self._name_scope()):
                made = super().add_weight(
                    name, shape, dtype=as_dtype(dtype or self.dtype or float32), trainable=trainable and self.trainable,
                    initializer=scope.initializer if initializer is None else initializer, constraint=constraint,
                    partitioner=partitioner, use_resource=use_resource or self._use_resource_variables or scope.use_resource,
                    synchronization=synchronization, aggregation=aggregation, getter=get_variable, **kwargs)
                if regularizer and (graph is None or context.eager_outside_functions() or _is_new(made, existing)):
                    self._handle_weight_regularization(name, made, regularizer)
                if graph is not None and trainable and self.trainable:
                    self._forget_frozen(graph, made, before)
        return made

    def _forget_frozen(self, graph: Any, made: Any, before: int) -> None:
        """Handles variables that a custom getter made untrainable."""
        with graph.as_default():
            trained = {id(v) for v in tf.trainable_variables()}
        parts = list(made) if isinstance(made, PartitionedVariable) else [made]
        if not any(id(v) in trained for v in parts):
            self._non_trainable_weights += self._trainable_weights[before:]
            self._trainable_weights = self._trainable_weights[:before]

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Adds losses to the layer, and where graphs are built to the collection REGULARIZATION_LOSSES."""
        n, n_callable = len(self._losses), len(self._callable_losses)
        super().add_loss(losses, inputs=inputs)
        if context.executing_eagerly():
            return
        new = self._losses[n:]
        for f in self._callable_losses[n_callable:]:
            loss = f()
            if loss is not None:
                new.append(loss)
        _add_to_collection(new, GraphKeys.REGULARIZATION_LOSSES)

    # -- the call ----------------------------------------------------------------------------------------------------
    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:        # type: ignore[override]
        scope = kwargs.pop("scope", None)
        if self._keras_style:
            if scope is not None:
                raise ValueError(f"scope argument not allowed when keras style layers are enabled, but saw: {scope}")
            return super().__call__(inputs, *args, **kwargs)
        self._set_scope(scope)
        if self.built:
            if self._reused is None:
                self._reused = variable_scope(self._scope, reuse=True, auxiliary_name_scope=False)
            opened = self._reused
        else:
            opened = variable_scope(self._scope, reuse=self._reuse, auxiliary_name_scope=False)
        with opened as scope:
            self._current_scope = scope
            if self._call_has_scope_arg:
                kwargs["scope"] = scope
            outputs = super().__call__(inputs, *args, **kwargs)
        if not context.executing_eagerly():
            _add_to_collection(self.updates, GraphKeys.UPDATE_OPS)
        return outputs

    def __deepcopy__(self, memo: dict) -> Any:
        result = memo[id(self)] = type(self).__new__(type(self))
        for k, v in self.__dict__.items():
            if k in ("_scope", "_reused", "_current_scope"):
                copied = copy.copy(v)
            elif is_tensor(v) or isinstance(v, (list, tuple)) and v and all(is_tensor(x) for x in v):
                copied = v
            else:
                copied = copy.deepcopy(v, memo)
            object.__setattr__(result, k, copied)
        return result

    _is_legacy_layer = property(lambda self: True)


def _variables_so_far() -> tuple[Any, set[int]]:
    """The graph that variables go to, and the ids of those that it has; None in eager mode."""
    if context.executing_eagerly():
        return None, set()
    graph = context.current_graph()
    if not graph.building_function:
        return graph, {id(v) for v in tf.global_variables()}
    with init_scope():
        if context.executing_eagerly():
            return None, set()
        return context.current_graph(), {id(v) for v in tf.global_variables()}


def _is_new(variable: Any, existing: set[int]) -> bool:
    parts = list(variable) if isinstance(variable, PartitionedVariable) else [variable]
    return not any(id(v) in existing for v in parts)


def _add_to_collection(elements: Any, name: str) -> None:
    collection = context.current_graph().get_collection_ref(name)
    known = {id(e) for e in collection}
    collection.extend(e for e in nest.flatten(elements) if id(e) not in known)
