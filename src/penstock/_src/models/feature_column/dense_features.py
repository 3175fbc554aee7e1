"""Feature columns as Keras layers: DenseFeatures (a vector per row) and SequenceFeatures (a vector per time step of a row)."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.models.feature_column import serialization
from penstock._src.models.feature_column.base import Batch, DenseColumn
from penstock._src.models.feature_column.categorical import KeySpace
from penstock._src.models.feature_column.combined import SharedTable, dense_of
from penstock._src.models.feature_column.layers import check_rows, sorted_columns
from penstock._src.models.keras.engine.base_layer import Layer


class _Features(Layer):
    """The base of both layers."""

    def __init__(self, feature_columns: Any, trainable: bool = True, name: str | None = None, **kwargs: Any):
        kwargs.pop("partitioner", None)                     # of TensorFlow's configurations
        super().__init__(name=name, trainable=trainable, **kwargs)
        self._feature_columns = sorted_columns(feature_columns, DenseColumn)
        self._column_weights: dict[str, Any] = {}
        self._tables: dict[str, Any] = {}                   # of vocabularies: kept with the layer, also in SavedModels

    @property
    def _is_feature_layer(self) -> bool:
        return True

    def build(self, _: Any) -> None:
        """Weights are created by the columns when they are first used."""
        self.built = True

    def _weight(self, column: Any) -> Any:
        """The function with which columns create variables, in the current name scope."""
        def make(name: str, shape: Any, dtype: Any, initializer: Any, trainable: bool) -> Any:
            key = f"{column._var_scope_name}/{name}"
            if key in self._column_weights:
                return self._column_weights[key]
            trainable = bool(self.trainable and trainable)
            if isinstance(initializer, SharedTable) or isinstance(shape[0], KeySpace):
                made = shape[0].variable(name, shape[1], initializer, trainable) if isinstance(shape[0], KeySpace) else \
                    initializer.variable(shape, dtype, trainable)
                (self._trainable_weights if trainable else self._non_trainable_weights).append(made)
            else:
                made = self.add_weight(name, shape, dtype, initializer, trainable=trainable)
            self._column_weights[key] = made
            return made
        return make

    def get_config(self) -> dict[str, Any]:
        """The columns as plain values, and what every layer has."""
        return {**super().get_config(), "feature_columns": serialization.serialize_feature_columns(self._feature_columns)}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The layer that `get_config` has described."""
        columns = serialization.deserialize_feature_columns(config["feature_columns"], custom_objects)
        return cls(**{**config, "feature_columns": columns})


def _checked(features: Any) -> dict[str, Any]:
    if not isinstance(features, dict):
        raise ValueError(f"We expected a dictionary here. Instead we got: {features}")
    return features


@export("keras.layers.DenseFeatures")
class DenseFeatures(_Features):
    """A layer of feature columns: takes a dictionary of features, returns [rows, numbers].

    >>> tf.keras.layers.DenseFeatures([tf.feature_column.numeric_column("x")])({"x": [[1.], [2.]]})
    """

    def call(self, features: dict[str, Any], cols_to_output_tensors: Any = None) -> Any:
        """The columns of a batch, side by side."""
        @contextlib.contextmanager
        def within(column: Any) -> Iterator[Any]:
            with tf.name_scope(column.name):
                yield self._weight(column)
        found = dense_of(self._feature_columns, Batch(_checked(features), self._tables), within)
        outputs = [tf.reshape(made, [tf.shape(made)[0], column.variable_shape.num_elements()])
                   for column, made in zip(self._feature_columns, found, strict=True)]
        if cols_to_output_tensors is not None:
            cols_to_output_tensors.update(zip(self._feature_columns, outputs, strict=True))
        check_rows(self._feature_columns, outputs)
        return tf.concat(outputs, 1)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """[rows, numbers]."""
        return input_shape[0], sum(c.variable_shape.num_elements() for c in self._feature_columns)


@export("keras.experimental.SequenceFeatures")
class SequenceFeatures(_Features):
    """A layer of sequence columns: takes a dictionary of features, returns [rows, steps, numbers] and the steps of each row.

    >>> layer = tf.keras.experimental.SequenceFeatures([tf.feature_column.sequence_numeric_column("x")])
    >>> numbers, steps = layer({"x": tf.sparse.from_dense([[1., 2.], [3., 0.]])})
    """

    def call(self, features: dict[str, Any]) -> tuple[Any, Any]:
        """The columns of a batch, side by side, and the number of steps of each row."""
        batch, outputs, steps = Batch(_checked(features), self._tables), [], []
        for column in self._feature_columns:
            with tf.name_scope(column.name):
                made, count = column.dense_sequence(batch, self._weight(column))
                shape = tf.shape(made)
                outputs.append(tf.reshape(made, [shape[0], shape[1], column.variable_shape.num_elements()]))
                steps.append(count)
        same = [tf.assert_equal(count, steps[0]) for count in steps[1:]]
        with tf.control_dependencies([check for check in same if check is not None]):
            return tf.concat(outputs, 2), tf.identity(steps[0])

    def compute_output_shape(self, input_shape: Any) -> Any:
        """[rows, steps, numbers]."""
        return input_shape[0], input_shape[1], sum(c.variable_shape.num_elements() for c in self._feature_columns)
