"""StateManager: the variables that a layer of a library makes for feature columns."""
from __future__ import annotations

from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.graph.trackable import no_automatic_dependency_tracking_scope


@export("__internal__.feature_column.StateManager")
class StateManager:
    """Creates and keeps variables by column and name, as weights of a layer."""

    def __init__(self, layer: Any, trainable: bool):
        self._trainable, self._layer = trainable, layer
        if not hasattr(layer, "_resources"):
            layer._resources = []
        self._cols_to_vars_map: dict[Any, dict[str, Any]] = {}

    def create_variable(self, feature_column: Any, name: str, shape: Any, dtype: Any = None, trainable: bool = True,
                        use_resource: bool = True, initializer: Any = None) -> Any:
        """Creates a variable; ValueError where the column has one of that name."""
        known = self._cols_to_vars_map.setdefault(feature_column, {})
        if name in known:
            raise ValueError("Variable already exists.")
        with no_automatic_dependency_tracking_scope(self._layer):
            made = self._layer.add_weight(name=name, shape=shape, dtype=dtype, initializer=initializer,
                                          trainable=self._trainable and trainable, use_resource=use_resource,
                                          getter=tf.get_variable)
        known[name] = made
        return made

    def get_variable(self, feature_column: Any, name: str) -> Any:
        """The variable of a column; ValueError where there is none of that name."""
        if name not in self._cols_to_vars_map.get(feature_column, {}):
            raise ValueError("Variable does not exist.")
        return self._cols_to_vars_map[feature_column][name]

    def add_resource(self, feature_column: Any, name: str, resource: Any) -> None:
        """Keeps a resource, such as a table, with the layer."""
        self._cols_to_vars_map.setdefault(feature_column, {})[name] = resource
        self._layer._resources.append(resource)

    def has_resource(self, feature_column: Any, name: str) -> bool:
        """Whether a column has a resource of that name."""
        return name in self._cols_to_vars_map.get(feature_column, {})

    def get_resource(self, feature_column: Any, name: str) -> Any:
        """The resource of a column."""
        if not self.has_resource(feature_column, name):
            raise ValueError("Resource does not exist.")
        return self._cols_to_vars_map[feature_column][name]
