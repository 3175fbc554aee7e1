"""Columns of sequences: categories or numbers per time step, and the layer that makes [rows, steps, numbers] of them."""
from __future__ import annotations

import collections
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.models.feature_column import categorical
from penstock._src.models.feature_column.base import (
    Batch,
    DenseColumn,
    IdWeightPair,
    SequenceDenseColumn,
    checked_numeric,
    to_sparse,
)
from penstock._src.models.feature_column.combined import SequenceColumn, lengths
from penstock._src.models.feature_column.layers import _weights, sorted_columns


class SequenceCategoricalColumn(SequenceColumn,
                                collections.namedtuple("SequenceCategoricalColumn", ("categorical_column",))):
    """Categories per time step."""

    __slots__ = ()
    name = property(lambda self: self.categorical_column.name)
    num_buckets = property(lambda self: self.categorical_column.num_buckets)
    parse_example_spec = property(lambda self: self.categorical_column.parse_example_spec)

    def transform(self, batch: Batch) -> Any:
        """Ids [rows, steps, 1]."""
        return self.sparse(batch)

    def sparse(self, batch: Batch) -> IdWeightPair:
        """Ids [rows, steps, 1]."""
        ids, weights = self.categorical_column.sparse(batch)

        def deeper(t: Any) -> Any:
            if t is None:
                return None
            steps = tf.concat([t.dense_shape[:2], [-1]], 0)
            return tf.sparse_reshape(t, steps)
        return IdWeightPair(deeper(ids), deeper(weights))


class SequenceNumericColumn(SequenceDenseColumn, DenseColumn, collections.namedtuple(
        "SequenceNumericColumn", ("key", "shape", "default_value", "dtype", "normalizer_fn"))):
    """Numbers per time step."""

    __slots__ = ()
    name = property(lambda self: self.key)
    variable_shape = property(lambda self: tf.TensorShape(self.shape))

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """A feature of any length."""
        return {self.key: tf.VarLenFeature(self.dtype)}

    def transform(self, batch: Batch) -> Any:
        """The numbers as a SparseTensor."""
        value = to_sparse(batch.get(self.key), 0)
        if self.normalizer_fn is not None:
            value = self.normalizer_fn(value)
        return value

    def dense_sequence(self, batch: Batch, weights: Any) -> tuple[Any, Any]:
        """[rows, steps, *shape], and the number of steps of each row."""
        value = batch.get(self)
        size = self.variable_shape.num_elements()
        dense = tf.sparse_tensor_to_dense(value, default_value=self.default_value)
        steps = tf.cast(lengths(value), tf.float32) / (size if value.shape.rank == 2 else 1)
        return tf.reshape(dense, [tf.shape(dense)[0], -1, *self.shape]), tf.cast(tf.ceil(steps), tf.int64)




@export("feature_column.sequence_categorical_column_with_identity")
def sequence_categorical_column_with_identity(key: str, num_buckets: int,
                                              default_value: int | None = None) -> SequenceCategoricalColumn:
    """Integers per time step."""
    return SequenceCategoricalColumn(categorical.categorical_column_with_identity(key, num_buckets, default_value))


@export("feature_column.sequence_categorical_column_with_hash_bucket")
def sequence_categorical_column_with_hash_bucket(key: str, hash_bucket_size: int,
                                                 dtype: Any = tf.string) -> SequenceCategoricalColumn:
    """Categories per time step, by hash."""
    return SequenceCategoricalColumn(categorical.categorical_column_with_hash_bucket(key, hash_bucket_size, dtype))


@export("feature_column.sequence_categorical_column_with_vocabulary_list")
def sequence_categorical_column_with_vocabulary_list(key: str, vocabulary_list: Any, dtype: Any = None,
                                                     default_value: int = -1,
                                                     num_oov_buckets: int = 0) -> SequenceCategoricalColumn:
    """Categories of a list per time step."""
    return SequenceCategoricalColumn(categorical.categorical_column_with_vocabulary_list(
        key, vocabulary_list, dtype, default_value, num_oov_buckets))


@export("feature_column.sequence_categorical_column_with_vocabulary_file")
def sequence_categorical_column_with_vocabulary_file(key: str, vocabulary_file: str, vocabulary_size: int | None = None,
                                                     num_oov_buckets: int = 0, default_value: int | None = None,
                                                     dtype: Any = tf.string) -> SequenceCategoricalColumn:
    """Categories of the lines of a file per time step."""
    return SequenceCategoricalColumn(categorical.categorical_column_with_vocabulary_file(
        key, vocabulary_file, vocabulary_size, num_oov_buckets, default_value, dtype))


@export("feature_column.sequence_numeric_column")
def sequence_numeric_column(key: str, shape: Any = (1,), default_value: float = 0., dtype: Any = tf.float32,
                            normalizer_fn: Any = None) -> SequenceNumericColumn:
    """Numbers per time step."""
    shape, dtype = checked_numeric(key, shape, dtype, normalizer_fn)
    return SequenceNumericColumn(key, shape, default_value, dtype, normalizer_fn)


@export(v1=["contrib.feature_column.sequence_input_layer"])
def sequence_input_layer(features: dict[str, Any], feature_columns: Any, weight_collections: Any = None,
                         trainable: bool = True) -> tuple[Any, Any]:
    """All sequence columns side by side: [rows, steps, numbers], and the number of steps of each row."""
    columns = sorted_columns(feature_columns, DenseColumn)
    batch, outputs, steps = Batch(features), [], None
    with tf.variable_scope(None, default_name="sequence_input_layer", values=list(features.values())):
        for column in columns:
            with tf.variable_scope(None, default_name=column._var_scope_name):
                made, count = column.dense_sequence(batch, _weights(None, trainable))
            size = column.variable_shape.num_elements()
            outputs.append(tf.reshape(made, [tf.shape(made)[0], tf.shape(made)[1], size]))
            steps = count if steps is None else steps
        return tf.concat(outputs, -1), steps
