"""DenseFeatures: dense columns side by side, as a Keras layer."""
from __future__ import annotations

from typing import Any

import penstock.compat.v1 as tf
from penstock.api import export
from penstock.feature_column.base import Batch, DenseColumn
from penstock.feature_column.layers import sorted_columns
from penstock.keras.engine.base_layer import Layer


@export("keras.layers.DenseFeatures")
class DenseFeatures(Layer):
    """A layer of feature columns: takes a dictionary of features, gives [rows, numbers].

    >>> tf.keras.layers.DenseFeatures([tf.feature_column.numeric_column("x")])({"x": [[1.], [2.]]})
    """

    def __init__(self, feature_columns: Any, trainable: bool = True, name: str | None = None, **kwargs: Any):
        super().__init__(name=name, trainable=trainable, **kwargs)
        self._feature_columns = sorted_columns(feature_columns, DenseColumn)
        self._column_weights: dict[str, Any] = {}

    @property
    def _is_feature_layer(self) -> bool:
        return True

    def build(self, _: Any) -> None:
        """Weights are made by the columns when they are first used."""
        self.built = True

    def _weight(self, column: Any) -> Any:
        def make(name: str, shape: Any, dtype: Any, initializer: Any, trainable: bool) -> Any:
            full = f"{column._var_scope_name}/{name}"
            if full not in self._column_weights:
                self._column_weights[full] = self.add_weight(full, shape, dtype, initializer,
                                                             trainable=self.trainable and trainable)
            return self._column_weights[full]
        return make

    def call(self, features: dict[str, Any], cols_to_output_tensors: Any = None) -> Any:
        """The columns of a batch, side by side."""
        if not isinstance(features, dict):
            raise ValueError(f"We expected a dictionary here. Instead we got: {features}")
        batch, outputs = Batch(features), []
        for column in self._feature_columns:
            with tf.name_scope(column.name):
                made = column.dense(batch, self._weight(column))
                outputs.append(tf.reshape(made, [tf.shape(made)[0], column.variable_shape.num_elements()]))
            if cols_to_output_tensors is not None:
                cols_to_output_tensors[column] = outputs[-1]
        return tf.concat(outputs, 1)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """[rows, numbers]."""
        total = sum(c.variable_shape.num_elements() for c in self._feature_columns)
        return tf.TensorShape([None, total])
