"""StateManager: the variables that a layer of a library makes for feature columns."""
from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.graph.trackable import no_automatic_dependency_tracking_scope
from penstock._src.models.feature_column.categorical import KeySpace
from penstock._src.models.feature_column.combined import SharedTable


@export("__internal__.feature_column.StateManager")
class StateManager:
    """Creates and keeps variables by column and name, as weights of a layer."""

    def __init__(self, layer: Any, trainable: bool):
        self._trainable, self._layer = trainable, layer
        if not hasattr(layer, "_resources"):
            layer._resources = []
        layer._column_tables = {}                           # of vocabularies: kept with the layer, also in SavedModels
        self._cols_to_vars_map: dict[Any, dict[str, Any]] = collections.defaultdict(dict)

    tables = property(lambda self: self._layer._column_tables, doc="The lookup tables of the columns, by name.")

    def create_table(self, column: Any, name: str, shape: list, dtype: Any, initializer: Any, trainable: bool) -> None:
        """Makes the variable of an embedding; one that columns share, or one by key, is made where it is first used."""
        if not isinstance(initializer, SharedTable) and not isinstance(shape[0], KeySpace):
            self.create_variable(column, name=name, shape=shape, dtype=dtype, trainable=trainable, use_resource=True,
                                 initializer=initializer)

    def weights_of(self, column: Any) -> Callable:
        """How a column gets a variable, as `DenseColumn.dense` expects."""
        def weights(name: str, shape: list, dtype: Any, initializer: Any, trainable: bool) -> Any:
            if name in self._cols_to_vars_map[column]:
                return self.get_variable(column, name)
            made = shape[0].variable(name, shape[1], initializer, trainable) if isinstance(shape[0], KeySpace) else \
                initializer.variable(shape, dtype, trainable)
            self.add_resource(column, name, made)
            return made
        return weights

    def create_variable(self, feature_column: Any, name: str, shape: Any, dtype: Any = None, trainable: bool = True,
                        use_resource: bool = True, initializer: Any = None) -> Any:
        """Creates a variable; ValueError where the column has one of that name."""
        known = self._cols_to_vars_map[feature_column]
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
        if name not in self._cols_to_vars_map[feature_column]:
            raise ValueError("Variable does not exist.")
        return self._cols_to_vars_map[feature_column][name]

    def add_resource(self, feature_column: Any, name: str, resource: Any) -> None:
        """Keeps a resource, such as a table, with the layer."""
        self._cols_to_vars_map[feature_column][name] = resource
        self._layer._resources.append(resource)

    def has_resource(self, feature_column: Any, name: str) -> bool:
        """Whether a column has a resource of that name."""
        return name in self._cols_to_vars_map[feature_column]

    def get_resource(self, feature_column: Any, name: str) -> Any:
        """The resource of a column."""
        if not self.has_resource(feature_column, name):
            raise ValueError("Resource does not exist.")
        return self._cols_to_vars_map[feature_column][name]
