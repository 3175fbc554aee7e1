"""The variables of a layer: created with add_weight, set as attributes, and those of the inner layers."""
from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock._src.base import nest
from penstock._src.base.api import LazyModule
from penstock._src.base.dtypes import as_dtype
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.scopes import init_scope, name_scope
from penstock._src.graph.trackable import delete_tracking
from penstock._src.state.asset import Asset
from penstock._src.state.containers import TrackableDataStructure, sticky_attribute_assignment
from penstock._src.state.module import Module
from penstock._src.state.variables.partitioned import PartitionedVariable
from penstock._src.state.variables.policy import VariableAggregation, VariableSynchronization
from penstock._src.state.variables.variable import Variable, VariableV1

backend = LazyModule("penstock._src.models.keras.backend")
initializers = LazyModule("penstock._src.models.keras.initializers")
regularizers = LazyModule("penstock._src.models.keras.regularizers")
constraints = LazyModule("penstock._src.models.keras.constraints")
metric = LazyModule("penstock._src.models.keras.metrics.metric")

_PLAIN = (bool, int, float, str, bytes, type(None))
_ADD_WEIGHT_KEYWORDS = ("getter", "collections", "experimental_autocast", "caching_device", "layout")


def has_weights(obj: Any) -> bool:
    """Whether an object is a layer, or a container that may have layers in it."""
    kind = type(obj)
    return hasattr(kind, "trainable_weights") and hasattr(kind, "non_trainable_weights") and not isinstance(obj, type)


def nested_layers(layers: Any) -> Iterator[Any]:
    """The layers among `layers`, with those in containers; each once."""
    seen: set[int] = set()
    waiting = list(layers)[::-1]
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, TrackableDataStructure) or not hasattr(item, "_is_layer"):
            waiting.extend(reversed(getattr(item, "layers", ())))
        else:
            yield item


def unique(items: Any) -> list:
    """Each item once, by identity, in order."""
    return list({id(v): v for v in items}.values())


def make_variable(name: Any, shape: Any = None, dtype: Any = None, initializer: Any = None, trainable: Any = None,
                  caching_device: Any = None, validate_shape: bool = True, constraint: Any = None, use_resource: Any = None,
                  collections: Any = None, synchronization: Any = VariableSynchronization.AUTO,
                  aggregation: Any = VariableAggregation.NONE, partitioner: Any = None) -> Any:
    """A variable with an initial value, or an initializer to be called; how layers make theirs."""
    if initializer is not None and not callable(initializer):
        value, dtype = initializer, None
    else:
        if isinstance(initializer, type):
            initializer = initializer()
        value = functools.partial(initializer, shape, dtype=dtype)
        dtype = dtype.base_dtype
    known = TensorShape(shape)
    return VariableV1(initial_value=value, name=name, trainable=trainable, caching_device=caching_device, dtype=dtype,
                      validate_shape=validate_shape, constraint=constraint, collections=collections,
                      use_resource=True if use_resource is None else use_resource, synchronization=synchronization,
                      aggregation=aggregation, shape=known if known.rank else None)


class Weighted(Module):
    """The part of Layer that has variables."""

    _TF_MODULE_IGNORED_PROPERTIES = frozenset((
        "_layers", "_modules", "_inbound_nodes", "_outbound_nodes", "_thread", "_metrics_own",
        *Module._TF_MODULE_IGNORED_PROPERTIES))

    _trainable = True
    _trainable_weights: list
    _non_trainable_weights: list
    _layers: list

    # -- making ------------------------------------------------------------------------------------------------------
    def add_weight(self, name: str | None = None, shape: Any = None, dtype: Any = None, initializer: Any = None,
                   regularizer: Any = None, trainable: bool | None = None, constraint: Any = None, partitioner: Any = None,
                   use_resource: bool | None = None, synchronization: Any = VariableSynchronization.AUTO,
                   aggregation: Any = VariableAggregation.NONE, **kwargs: Any) -> Any:
        """A new variable of the layer.

        >>> self.kernel = self.add_weight("kernel", [3, 4], initializer="glorot_uniform", regularizer="l2")
        """
        for k in kwargs:
            if k not in _ADD_WEIGHT_KEYWORDS:
                raise TypeError(f"Unknown keyword argument: {k}")
        shape = () if shape is None else (shape,) if isinstance(shape, (int, np.integer)) or hasattr(shape, "value") else shape
        dtype = as_dtype(dtype or self.dtype or backend.floatx())         # type: ignore[attr-defined]
        self._infer_policy(dtype)                                         # type: ignore[attr-defined]
        trainable = _checked_trainable(trainable, synchronization)
        initializer = _found(initializers, initializer)
        if initializer is None:
            initializer = self._default_initializer(name, dtype)
        getter = kwargs.pop("getter", None) or make_variable
        if kwargs.get("caching_device") is None:
            kwargs.pop("caching_device", None)
        kwargs.pop("layout", None)
        if kwargs.pop("experimental_autocast", True):
            getter = self._casting_getter(getter, dtype)                  # type: ignore[attr-defined]
        made = self._add_variable_with_custom_getter(
            name=name, shape=shape, getter=getter, overwrite=True, initializer=initializer, dtype=dtype,
            constraint=_found(constraints, constraint), trainable=trainable, partitioner=partitioner, use_resource=use_resource,
            collections=kwargs.pop("collections", None), synchronization=synchronization, aggregation=aggregation, **kwargs)
        backend.track_variable(made)
        regularizer = _found(regularizers, regularizer)
        if regularizer is not None:
            self._handle_weight_regularization(made.name[:made.name.find(":")], made, regularizer)
        weights = self._trainable_weights if trainable else self._non_trainable_weights
        weights.extend(made if hasattr(made, "is_sharded_variable") else [made])
        return made

    def add_variable(self, *args: Any, **kwargs: Any) -> Any:
        """Alias of add_weight."""
        return self.add_weight(*args, **kwargs)

    def _default_initializer(self, name: str | None, dtype: Any) -> Any:
        if dtype.is_floating:
            return initializers.get("glorot_uniform")
        if dtype.is_integer or dtype.is_unsigned or dtype.is_bool:
            return initializers.get("zeros")
        raise ValueError(f"An initializer for variable {name} of type {dtype.base_dtype} is required for layer {self.name}")

    def _handle_weight_regularization(self, name: str, variable: Any, regularizer: Any) -> None:
        def loss_of(v: Any) -> Any:
            with name_scope(name + "/Regularizer"):
                return regularizer(v)
        for v in variable if isinstance(variable, PartitionedVariable) else [variable]:
            self.add_loss(functools.partial(loss_of, v))                  # type: ignore[attr-defined]

    # -- setting attributes ------------------------------------------------------------------------------------------
    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if type(value) in _PLAIN and name not in own.get("_self_unconditional_dependency_names", ()) \
                and name not in own.get("_layers", ()):
            _plain_set(self, name, value)
            return
        if name.startswith("_self_") or not own.get("_self_setattr_tracking", True) or hasattr(type(self), name) \
                or own.get("_is_graph_network", False) and not isinstance(value, (Variable, Asset)) \
                and not context.eager_outside_functions():
            _plain_set(self, name, value)
            return
        value = sticky_attribute_assignment(self, name, value)
        if name in own and own[name] is not value:
            self._remove(name)
        if has_weights(value) and self._tracks_layers():
            layers = own.setdefault("_layers", [])
            if not any(layer is value for layer in layers):
                layers.append(value)
                if hasattr(value, "_use_resource_variables"):
                    value._use_resource_variables = True
        elif isinstance(value, Module) and self._tracks_layers() and context.eager_outside_functions():
            own["_modules"] = [m for m in own.get("_modules", ()) if m is not value] + [value]
        for v in nest.flatten(value):
            if isinstance(v, Variable):
                self._track_variable(v)
        self._track_metrics(value)
        object.__setattr__(self, name, value)

    def _tracks_layers(self) -> bool:
        return True

    def _track_metrics(self, value: Any) -> None:
        metrics = self.__dict__.get("_metrics")
        if metrics is not None:
            for v in nest.flatten(value):
                if isinstance(v, metric.Metric) and not any(v is m for m in metrics):
                    metrics.append(v)

    def _track_variable(self, v: Any) -> None:
        weights = self.__dict__.setdefault("_trainable_weights" if v.trainable else "_non_trainable_weights", [])
        if not any(v is w for w in weights):
            weights.append(v)
            backend.track_variable(v)

    def __delattr__(self, name: str) -> None:
        self._maybe_initialize_trackable()
        delete_tracking(self, name)
        self._remove(name)

    def _remove(self, name: str) -> None:
        value = self.__dict__.get(name)
        object.__delattr__(self, name)
        if value is None or any(v is value for v in self.__dict__.values()):
            return
        if "_modules" in self.__dict__:
            self.__dict__["_modules"] = [m for m in self.__dict__["_modules"] if m is not value]
        if has_weights(value):
            self.__dict__["_layers"] = [v for v in self.__dict__.get("_layers", ()) if v is not value]
        if isinstance(value, Variable):
            for key in ("_trainable_weights", "_non_trainable_weights"):
                self.__dict__[key] = [w for w in self.__dict__.get(key, ()) if w is not value]

    # -- which there are ---------------------------------------------------------------------------------------------
    def _nested(self, metrics: bool = False) -> list:
        """The layers directly inside. In 2.x, metrics are not among them unless `metrics`."""
        found = nested_layers(self.__dict__.get("_layers", ()))
        if metrics or not context.eager_outside_functions():
            return list(found)
        return [layer for layer in found if not isinstance(layer, metric.Metric)]

    def _gather(self, attribute: str, metrics: bool = False) -> list:
        return list(itertools.chain.from_iterable(getattr(layer, attribute) for layer in self._nested(metrics)))

    def _flatten_layers(self, recursive: bool = True, include_self: bool = True) -> Iterator[Any]:
        """This layer and those inside, depth first."""
        if include_self:
            yield self
        for layer in self._nested():
            if recursive and hasattr(layer, "_flatten_layers"):
                yield from layer._flatten_layers()
            else:
                yield layer

    @property
    def trainable(self) -> bool:
        """Whether training changes the variables."""
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._trainable = value
        for layer in self._nested():
            layer.trainable = value

    @property
    def trainable_weights(self) -> list:
        """The variables that training changes."""
        if not self.trainable:
            return []
        return unique(self._trainable_weights + self._gather("trainable_weights") + self._of_modules("trainable_variables"))

    @property
    def non_trainable_weights(self) -> list:
        """The variables that training does not change."""
        if self.trainable:
            return unique(self._non_trainable_weights + self._gather("non_trainable_weights") +
                          self._of_modules("non_trainable_variables"))
        return unique(self._trainable_weights + self._non_trainable_weights + self._gather("weights") +
                      self._of_modules("variables"))

    def _own_variables(self) -> list:
        """The variables of this layer without those of inner layers."""
        return [*self._trainable_weights, *self._non_trainable_weights]

    def save_own_variables(self, store: Any) -> None:
        """Writes the layer's own variables to a group of a `.keras` file; a subclass may write others.

        Args:
            store: Maps names to arrays; by default these are numbers.
        """
        for i, value in enumerate(backend.batch_get_value(self._own_variables())):
            store[str(i)] = np.asarray(value)

    def load_own_variables(self, store: Any) -> None:
        """Sets the layer's own variables from what `save_own_variables` has written.

        Raises:
            ValueError: if their number differs.
        """
        own = self._own_variables()
        if len(store) != len(own):
            raise ValueError(f"Layer '{self.name}' expected {len(own)} variables, but received {len(store)} variables during "
                             f"loading. Expected: {[v.name for v in own]}")
        backend.batch_set_value([(v, np.asarray(store[str(i)])) for i, v in enumerate(own)])

    def _of_modules(self, attribute: str) -> list:
        """The variables of the modules that are attributes and no layers."""
        return [v for module in self.__dict__.get("_modules", ()) for v in getattr(module, attribute)]

    weights = property(lambda self: unique(self.trainable_weights + self.non_trainable_weights), doc="All variables.")
    variables = property(lambda self: self.weights, doc="All variables.")
    trainable_variables = property(lambda self: self.trainable_weights, doc="The variables that training changes.")
    non_trainable_variables = property(lambda self: self.non_trainable_weights, doc="The others.")
    _dedup_weights = staticmethod(unique)                    # layers of other libraries call it
    _unique_trainable_weights = property(lambda self: unique(self.trainable_weights))

    # -- their values ------------------------------------------------------------------------------------------------
    def get_weights(self) -> list[np.ndarray]:
        """The values of all variables."""
        return backend.batch_get_value(self.weights)

    def set_weights(self, weights: Any) -> None:
        """Sets the values of all variables, in the order of `get_weights`."""
        params = self.weights
        if len(params) != len(weights):
            raise ValueError(f"You called `set_weights(weights)` on layer \"{self.name}\" with a  weight list of length "
                             f"{len(weights)}, but the layer was expecting {len(params)} weights. Provided weights: "
                             f"{str(weights)[:50]}...")
        values = [np.asarray(w) if not hasattr(w, "shape") else w for w in weights]
        for p, w in zip(params, values, strict=True):
            if not p.shape.is_compatible_with(w.shape):
                raise ValueError(f"Layer weight shape {p.shape} not compatible with provided weight shape {w.shape}: "
                                 f"weight {p.name} of layer {self.name}")
        if params:
            backend.batch_set_value(list(zip(params, values)))

    def count_params(self) -> int:
        """The number of values in the variables."""
        if not self.built:                                                # type: ignore[attr-defined]
            if not getattr(self, "_is_graph_network", False):
                raise ValueError(f"You tried to call `count_params` on {self.name}, but the layer isn't built. You can build "
                                 f"it manually via: `{self.name}.build(batch_input_shape)`.")
            with init_scope():
                self._maybe_build(self.inputs)                            # type: ignore[attr-defined]
        return int(sum(np.prod(w.shape.as_list()) for w in self.weights))

    def _get_trainable_state(self) -> dict[int, tuple]:
        return {id(layer): (layer, layer.trainable) for layer in self._flatten_layers()}

    def _set_trainable_state(self, state: dict[int, tuple]) -> None:
        for layer in self._flatten_layers():
            if id(layer) in state:
                layer._trainable = state[id(layer)][1]


def _found(module: Any, value: Any) -> Any:
    """An initializer, regularizer or constraint from its name or config; callables are used directly."""
    return value if value is None or callable(value) and not isinstance(value, type) else module.get(value)


def _checked_trainable(trainable: bool | None, synchronization: Any) -> bool:
    if synchronization == VariableSynchronization.ON_READ:
        if trainable:
            raise ValueError("Synchronization value can be set to VariableSynchronization.ON_READ only for non-trainable "
                             "variables. You have specified trainable=True and "
                             "synchronization=VariableSynchronization.ON_READ.")
        return False
    return True if trainable is None else trainable


def _plain_set(obj: Any, name: str, value: Any) -> None:
    try:
        object.__setattr__(obj, name, value)
    except AttributeError:
        raise AttributeError(f"Can't set the attribute \"{name}\", likely because it conflicts with an existing read-only "
                             "@property of the object. Please choose a different name.") from None
