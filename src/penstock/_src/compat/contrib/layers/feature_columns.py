"""The feature columns of contrib.layers: old names and arguments for those of tf.feature_column."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.models.feature_column.categorical import HashedCategoricalColumn
from penstock.compat import v1 as tf


def _column(function: Any) -> Any:
    return export(v1=[f"contrib.layers.{function.__name__}", f"contrib.layers.feature_column.{function.__name__}"])(function)


def _only_sum(combiner: str, name: str) -> None:
    if combiner != "sum":
        raise ValueError(f"combiner={combiner!r} of the column {name!r}: sparse columns have no combiner. Pass it to "
                         "embedding_column, or pass sparse_combiner to the linear model.")


@_column
def real_valued_column(column_name: str, dimension: int | None = 1, default_value: Any = None, dtype: Any = tf.float32,
                       normalizer: Any = None) -> Any:
    """A column of numbers, `dimension` in a row.

    >>> tf.contrib.layers.real_valued_column("age")
    """
    if dimension is None:
        raise ValueError(f"The dimension of the column {column_name!r} must be known. Pad rows of different lengths first.")
    return tf.feature_column.numeric_column(column_name, dimension, default_value, dtype, normalizer)


@_column
def sparse_column_with_hash_bucket(column_name: str, hash_bucket_size: int, combiner: str = "sum",
                                   dtype: Any = tf.string) -> Any:
    """A column of words or numbers, put in buckets by their hash."""
    _only_sum(combiner, column_name)
    return tf.feature_column.categorical_column_with_hash_bucket(column_name, hash_bucket_size, dtype)


@_column
def sparse_column_with_keys(column_name: str, keys: Any, default_value: int = -1, combiner: str = "sum",
                            dtype: Any = tf.string) -> Any:
    """A column of words of a known list."""
    _only_sum(combiner, column_name)
    return tf.feature_column.categorical_column_with_vocabulary_list(column_name, keys, dtype, default_value)


@_column
def sparse_column_with_vocabulary_file(column_name: str, vocabulary_file: str, num_oov_buckets: int = 0,
                                       vocab_size: int | None = None, default_value: int = -1, combiner: str = "sum",
                                       dtype: Any = tf.string) -> Any:
    """A column of words from a file, one per line."""
    _only_sum(combiner, column_name)
    default = None if num_oov_buckets else default_value
    return tf.feature_column.categorical_column_with_vocabulary_file(column_name, vocabulary_file, vocab_size, num_oov_buckets,
                                                                     default, dtype)


@_column
def sparse_column_with_integerized_feature(column_name: str, bucket_size: int, combiner: str = "sum",
                                           dtype: Any = tf.int64) -> Any:
    """A column of numbers from 0 that name classes."""
    _only_sum(combiner, column_name)
    if not tf.as_dtype(dtype).is_integer:
        raise ValueError(f"dtype must be an integer. dtype: {dtype}, column_name: {column_name}")
    return tf.feature_column.categorical_column_with_identity(column_name, bucket_size)


@_column
def weighted_sparse_column(sparse_id_column: Any, weight_column_name: str, dtype: Any = tf.float32) -> Any:
    """A column of classes whose weights are another feature."""
    return tf.feature_column.weighted_categorical_column(sparse_id_column, weight_column_name, dtype)


@_column
def one_hot_column(sparse_id_column: Any) -> Any:
    """Classes as numbers: how often each one is in a row."""
    return tf.feature_column.indicator_column(sparse_id_column)


@_column
def embedding_column(sparse_id_column: Any, dimension: int, combiner: str = "mean", initializer: Any = None,
                     ckpt_to_load_from: Any = None, tensor_name_in_ckpt: Any = None, max_norm: float | None = None,
                     trainable: bool = True) -> Any:
    """Classes as learned vectors.

    >>> tf.contrib.layers.embedding_column(tf.contrib.layers.sparse_column_with_hash_bucket("word", 1000), 16)
    """
    return tf.feature_column.embedding_column(sparse_id_column, dimension, combiner, initializer, ckpt_to_load_from,
                                              tensor_name_in_ckpt, max_norm, trainable)


@_column
def shared_embedding_columns(sparse_id_columns: Any, dimension: int, combiner: str = "mean",
                             shared_embedding_name: str | None = None, initializer: Any = None, ckpt_to_load_from: Any = None,
                             tensor_name_in_ckpt: Any = None, max_norm: float | None = None, trainable: bool = True) -> Any:
    """Several columns of classes with one table of vectors."""
    return tf.feature_column.shared_embedding_columns(sparse_id_columns, dimension, combiner, initializer,
                                                      shared_embedding_name, ckpt_to_load_from, tensor_name_in_ckpt, max_norm,
                                                      trainable)


@_column
def bucketized_column(source_column: Any, boundaries: Any) -> Any:
    """The numbers of a column by the range in which they are."""
    return tf.feature_column.bucketized_column(source_column, boundaries)


@_column
def crossed_column(columns: Any, hash_bucket_size: int, combiner: str = "sum", ckpt_to_load_from: Any = None,
                   tensor_name_in_ckpt: Any = None, hash_key: int | None = None) -> Any:
    """Every combination of classes, put in buckets by its hash; columns that hash cross by their words.

    >>> tf.contrib.layers.crossed_column([education, occupation], hash_bucket_size=1000)
    """
    if ckpt_to_load_from is not None or tensor_name_in_ckpt is not None:
        raise ValueError("Weights of crossed columns from a checkpoint: use tf.train.init_from_checkpoint on the model.")
    keys = [c.key if isinstance(c, HashedCategoricalColumn) else c for c in columns]
    _only_sum(combiner, "_X_".join(str(getattr(k, "name", k)) for k in keys))
    return tf.feature_column.crossed_column(keys, hash_bucket_size, hash_key)


@_column
def create_feature_spec_for_parsing(feature_columns: Any) -> dict[str, Any]:
    """What tf.parse_example needs to know to read the columns."""
    return tf.feature_column.make_parse_example_spec(_listed(feature_columns))


def _listed(columns: Any) -> list:
    return list(columns.values() if isinstance(columns, dict) else columns)


@export(v1=["contrib.layers.input_from_feature_columns"])
def input_from_feature_columns(columns_to_tensors: dict[str, Any], feature_columns: Any, weight_collections: Any = None,
                               trainable: bool = True, scope: Any = None) -> Any:
    """All columns side by side, as the first layer of a network: [rows, numbers]."""
    with tf.variable_scope(scope, "input_from_feature_columns", list(columns_to_tensors.values())):
        return tf.feature_column.input_layer(columns_to_tensors, _listed(feature_columns), weight_collections, trainable)


@export(v1=["contrib.layers.weighted_sum_from_feature_columns"])
def weighted_sum_from_feature_columns(columns_to_tensors: dict[str, Any], feature_columns: Any, num_outputs: int,
                                      weight_collections: Any = None, trainable: bool = True, scope: Any = None) -> tuple:
    """A linear model of the columns: returns its output, the variables of each column, and the bias."""
    with tf.variable_scope(scope, "weighted_sum_from_feature_columns", list(columns_to_tensors.values())):
        variables: dict[Any, Any] = {}
        out = tf.feature_column.linear_model(columns_to_tensors, _listed(feature_columns), num_outputs,
                                             weight_collections=weight_collections, trainable=trainable, cols_to_vars=variables)
        return out, variables, variables.pop("bias")[0]
