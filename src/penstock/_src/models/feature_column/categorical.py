"""Columns of categories: by identity, vocabulary or hash, crossed, and weighted."""
from __future__ import annotations

import collections
import contextlib
from typing import Any, NamedTuple

import numpy as np

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.models.feature_column.base import Batch, CategoricalColumn, IdWeightPair, check_key, to_sparse


class _Option:
    """The options of an embedding variable, as a part of columns, which are hashable."""

    def __init__(self, option: Any):
        self.value = tf.EmbeddingVariableOption() if option is None else option

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Option) and self.value == other.value

    def __hash__(self) -> int:
        return hash(type(self.value))


class KeySpace(NamedTuple):
    """In place of a number of rows: the keys of an embedding variable."""

    key_dtype: Any
    parts: int | None
    option: _Option

    def variable(self, name: str, dim: int, initializer: Any, trainable: bool, collections: Any = None) -> Any:
        """The embedding variable of a column, in the open variable scope."""
        cut = None if self.parts is None else tf.fixed_size_partitioner(self.parts)
        return tf.get_embedding_variable(name, dim, self.key_dtype, tf.float32, initializer, trainable, collections, cut,
                                         ev_option=self.option.value)


class _Keyed(CategoricalColumn):
    """The base of columns of one feature."""

    __slots__ = ()
    name = property(lambda self: self.key)
    _type = tf.int64

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """A feature of any length."""
        return {self.key: tf.VarLenFeature(self._type)}        # type: ignore[attr-defined]

    def _values(self, batch: Batch) -> Any:
        value = to_sparse(batch.get(self.key))                 # type: ignore[attr-defined]
        wanted = self._type
        if (value.dtype == tf.string) != (wanted == tf.string):
            raise ValueError(f"Column dtype and SparseTensors dtype must be compatible. key: {self.key}, "  # type: ignore[attr-defined]
                             f"column dtype: {wanted}, tensor dtype: {value.dtype}")
        return value


def _with(ids: Any, like: Any) -> Any:
    return tf.SparseTensor(like.indices, ids, like.dense_shape)


class IdentityCategoricalColumn(_Keyed, collections.namedtuple("IdentityCategoricalColumn",
                                                               ("key", "number_buckets", "default_value"))):
    """Integers that are ids themselves."""

    __slots__ = ()
    num_buckets = property(lambda self: self.number_buckets)

    def transform(self, batch: Batch) -> Any:
        """The ids, checked to be below num_buckets, or replaced by the default."""
        value = to_sparse(batch.get(self.key))
        if not value.dtype.is_integer:
            raise ValueError(f"Invalid input, not integer. key: {self.key} dtype: {value.dtype}")
        ids = tf.cast(value.values, tf.int64)
        wrong = tf.logical_or(ids < 0, ids >= self.num_buckets)
        if self.default_value is None:
            with tf.control_dependencies([tf.Assert(tf.logical_not(tf.reduce_any(wrong)), [
                    f"Ids of {self.key} must be in [0, {self.num_buckets}):", ids])]):
                ids = tf.identity(ids)
        else:
            ids = tf.where(wrong, tf.fill(tf.shape(ids), tf.constant(self.default_value, tf.int64)), ids)
        return _with(ids, value)


@export("feature_column.categorical_column_with_identity")
def categorical_column_with_identity(key: str, num_buckets: int, default_value: int | None = None) -> IdentityCategoricalColumn:
    """Integers below num_buckets; others are an error, or the default.

    >>> tf.feature_column.categorical_column_with_identity("day", 7)
    """
    check_key(key)
    if num_buckets < 1:
        raise ValueError(f"num_buckets {num_buckets} < 1, column_name {key}")
    if default_value is not None and not 0 <= default_value < num_buckets:
        raise ValueError(f"default_value {default_value} not in range [0, {num_buckets}), column_name {key}")
    return IdentityCategoricalColumn(key, num_buckets, default_value)


class HashedCategoricalColumn(_Keyed, collections.namedtuple("HashedCategoricalColumn", ("key", "hash_bucket_size", "dtype"))):
    """Strings or integers by their hash."""

    __slots__ = ()
    num_buckets = property(lambda self: self.hash_bucket_size)
    _type = property(lambda self: self.dtype)

    def transform(self, batch: Batch) -> Any:
        """The hashes."""
        value = self._values(batch)
        text = value.values if self.dtype == tf.string else tf.as_string(value.values)
        return _with(tf.strings.to_hash_bucket_fast(text, self.hash_bucket_size), value)


@export("feature_column.categorical_column_with_hash_bucket")
def categorical_column_with_hash_bucket(key: str, hash_bucket_size: int, dtype: Any = tf.string) -> HashedCategoricalColumn:
    """Categories that are not known in advance: ids by hash.

    Args:
        key: Name of the feature.
        hash_bucket_size: Number of ids.
        dtype: Type of the feature: strings or integers.

    Returns:
        A categorical column.

    >>> column = tf.feature_column.categorical_column_with_hash_bucket("word", 1000)
    >>> column.num_buckets
    1000
    """
    check_key(key)
    if hash_bucket_size is None:
        raise ValueError(f"hash_bucket_size must be set. key: {key}")
    if hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be at least 1. hash_bucket_size: {hash_bucket_size}, key: {key}")
    return HashedCategoricalColumn(key, hash_bucket_size, _text_or_integer(dtype, key))


class EmbeddingCategoricalColumn(_Keyed, collections.namedtuple(
        "EmbeddingCategoricalColumn", ("key", "dtype", "partition_num", "ev_option"))):
    """Categories that are keys of an embedding variable: their number is unbounded, and they never collide."""

    __slots__ = ()
    _type = property(lambda self: self.dtype)

    @property
    def num_buckets(self) -> KeySpace:                         # type: ignore[override]
        """Stands for the number of rows in the shapes of variables."""
        return KeySpace(tf.string if self.dtype == tf.string else tf.int64, self.partition_num, self.ev_option)

    def transform(self, batch: Batch) -> Any:
        """The keys."""
        value = self._values(batch)
        return value if self.dtype == tf.string else _with(tf.cast(value.values, tf.int64), value)


@export(v1=["feature_column.categorical_column_with_embedding"])
def categorical_column_with_embedding(key: str, dtype: Any = tf.string, partition_num: int | None = None,
                                      ev_option: Any = None) -> EmbeddingCategoricalColumn:
    """Categories by the keys of an embedding variable, which grows with them.

    >>> users = tf.feature_column.categorical_column_with_embedding("user", dtype=tf.int64)
    >>> tf.feature_column.embedding_column(users, 16)
    """
    check_key(key)
    return EmbeddingCategoricalColumn(key, _text_or_integer(dtype, key), partition_num, _Option(ev_option))


def _text_or_integer(dtype: Any, key: str, what: str = "dtype") -> Any:
    dtype = tf.as_dtype(dtype)
    if dtype != tf.string and not dtype.is_integer:
        raise ValueError(f"{what} must be string or integer. dtype: {dtype}, column_name: {key}")
    return dtype


class VocabularyListCategoricalColumn(_Keyed, collections.namedtuple(
        "VocabularyListCategoricalColumn", ("key", "vocabulary_list", "dtype", "default_value", "num_oov_buckets"))):
    """Categories of a list."""

    __slots__ = ()
    num_buckets = property(lambda self: len(self.vocabulary_list) + self.num_oov_buckets)
    _type = property(lambda self: self.dtype)

    def transform(self, batch: Batch) -> Any:
        """The positions in the list."""
        value = self._values(batch)
        key_dtype = self.dtype if self.dtype == tf.string else tf.int64
        table = batch.table(self, lambda: tf.contrib.lookup.index_table_from_tensor(
            tf.constant(self.vocabulary_list, key_dtype), self.num_oov_buckets, self.default_value, dtype=key_dtype,
            name=f"{self.key}_lookup"))
        keys = value if self.dtype == tf.string else tf.cast(value, tf.int64)
        return table.lookup(keys)


@export("feature_column.categorical_column_with_vocabulary_list")
def categorical_column_with_vocabulary_list(key: str, vocabulary_list: Any, dtype: Any = None, default_value: int = -1,
                                            num_oov_buckets: int = 0) -> VocabularyListCategoricalColumn:
    """Categories of a list; others are the default, or in separate buckets.

    Args:
        key: Name of the feature.
        vocabulary_list: The categories, in the order of their ids.
        dtype: Type of the feature: strings or integers.
        default_value: Id of values that are not in the list; -1 ignores them.
        num_oov_buckets: Number of further ids for values that are not in the list, by hash.

    Returns:
        A categorical column.

    >>> color = tf.feature_column.categorical_column_with_vocabulary_list("color", ["red", "green", "blue"])
    >>> column = tf.feature_column.indicator_column(color)
    >>> with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
    ...     y = tf.compat.v1.feature_column.input_layer({"color": [["green"], ["pink"]]}, [column])
    ...     sess.run(tf.compat.v1.tables_initializer())
    ...     print(sess.run(y))
    [[0. 1. 0.]
     [0. 0. 0.]]
    """
    check_key(key)
    if vocabulary_list is None or len(vocabulary_list) < 1:
        raise ValueError(f"vocabulary_list {vocabulary_list} must be non-empty, column_name: {key}")
    if len(set(vocabulary_list)) != len(vocabulary_list):
        raise ValueError(f"Duplicate keys in vocabulary_list {vocabulary_list}, column_name: {key}")
    found = tf.as_dtype(np.asarray(vocabulary_list).dtype) if np.asarray(vocabulary_list).dtype.kind not in "OUS" else tf.string
    _check_oov(num_oov_buckets, default_value, -1, key)
    _text_or_integer(found, key, "vocabulary dtype")
    dtype = _text_or_integer(found if dtype is None else dtype, key)
    if (dtype == tf.string) != (found == tf.string):
        raise ValueError(f"dtype {dtype} and vocabulary dtype {found} do not match, column_name: {key}")
    return VocabularyListCategoricalColumn(key, tuple(vocabulary_list), dtype, default_value, num_oov_buckets)


def _check_oov(num_oov_buckets: int, default_value: Any, none: Any, key: str) -> None:
    if num_oov_buckets and default_value != none:
        raise ValueError(f"Can't specify both num_oov_buckets and default_value in {key}.")
    if num_oov_buckets < 0:
        raise ValueError(f"Invalid num_oov_buckets {num_oov_buckets} in {key}.")


class VocabularyFileCategoricalColumn(_Keyed, collections.namedtuple(
        "VocabularyFileCategoricalColumn",
        ("key", "vocabulary_file", "vocabulary_size", "num_oov_buckets", "dtype", "default_value", "file_format"),
        defaults=(None,))):
    """Categories of the lines or records of a file."""

    __slots__ = ()
    num_buckets = property(lambda self: self.vocabulary_size + self.num_oov_buckets)
    _type = property(lambda self: self.dtype)

    def transform(self, batch: Batch) -> Any:
        """The numbers of the lines."""
        value = self._values(batch)
        table = batch.table(self, self._table)
        return table.lookup(value if self.dtype == tf.string else tf.cast(value, tf.int64))

    def _table(self) -> Any:
        key_dtype = self.dtype if self.dtype == tf.string else tf.int64
        if self.file_format is None:
            return tf.contrib.lookup.index_table_from_file(
                self.vocabulary_file, self.num_oov_buckets, self.vocabulary_size, self.default_value, key_dtype=key_dtype,
                name=f"{self.key}_lookup")
        records = tf.data.TFRecordDataset(self.vocabulary_file, "GZIP")
        if key_dtype != tf.string:
            records = records.map(lambda record: tf.strings.to_number(record, key_dtype))
        return tf.data.experimental.index_table_from_dataset(
            records, self.num_oov_buckets, self.vocabulary_size, self.default_value, key_dtype=key_dtype,
            name=f"{self.key}_lookup")


def _from_file(key: str, vocabulary_file: str, vocabulary_size: int | None, num_oov_buckets: int, default_value: int | None,
               dtype: Any, file_format: str | None = None) -> VocabularyFileCategoricalColumn:
    check_key(key)
    if file_format not in (None, "tfrecord_gzip"):
        raise ValueError(f"file_format should be one of [None, 'tfrecord_gzip']. Given {file_format} in {key}.")
    if not vocabulary_file:
        raise ValueError(f"Missing vocabulary_file in {key}.")
    if vocabulary_size is None:
        if not tf.gfile.Exists(vocabulary_file):
            raise ValueError(f"vocabulary_file in {key} does not exist.")
        with tf.gfile.GFile(vocabulary_file) if file_format is None else contextlib.nullcontext(tf.io.tf_record_iterator(
                vocabulary_file, tf.io.TFRecordOptions("GZIP"))) as f:
            vocabulary_size = sum(1 for _ in f)
        tf.logging.info("vocabulary_size = %d in %s is inferred from the number of elements in the vocabulary_file %s.",
                        vocabulary_size, key, vocabulary_file)
    if vocabulary_size < 1:
        raise ValueError(f"Invalid vocabulary_size in {key}.")
    _check_oov(num_oov_buckets, default_value, None, key)
    return VocabularyFileCategoricalColumn(key, vocabulary_file, vocabulary_size, num_oov_buckets, _text_or_integer(dtype, key),
                                           -1 if default_value is None else default_value, file_format)


@export(v1=["feature_column.categorical_column_with_vocabulary_file"])
def categorical_column_with_vocabulary_file(key: str, vocabulary_file: str, vocabulary_size: int | None = None,
                                            num_oov_buckets: int = 0, default_value: int | None = None,
                                            dtype: Any = tf.string) -> VocabularyFileCategoricalColumn:
    """Categories of the lines of a file; others are the default, or in separate buckets.

    >>> tf.feature_column.categorical_column_with_vocabulary_file("state", "states.txt", num_oov_buckets=5)
    """
    return _from_file(key, vocabulary_file, vocabulary_size, num_oov_buckets, default_value, dtype)


@export(v2=["feature_column.categorical_column_with_vocabulary_file"])
def categorical_column_with_vocabulary_file_v2(key: str, vocabulary_file: str, vocabulary_size: int | None = None,
                                               dtype: Any = tf.string, default_value: int | None = None,
                                               num_oov_buckets: int = 0,
                                               file_format: str | None = None) -> VocabularyFileCategoricalColumn:
    """Categories of the lines of a file, or with the `file_format` "tfrecord_gzip" of the records of a compressed TFRecord.

    >>> tf.feature_column.categorical_column_with_vocabulary_file("state", "states.txt", num_oov_buckets=5)
    """
    return _from_file(key, vocabulary_file, vocabulary_size, num_oov_buckets, default_value, dtype, file_format)


class CrossedColumn(CategoricalColumn, collections.namedtuple("CrossedColumn", ("keys", "hash_bucket_size", "hash_key"))):
    """Combinations of the categories of several columns, by hash."""

    __slots__ = ()
    num_buckets = property(lambda self: self.hash_bucket_size)

    @property
    def name(self) -> str:                                      # type: ignore[override]
        """The names of what is crossed, sorted."""
        return "_X_".join(sorted(k if isinstance(k, str) else k.name for k in self._leaves()))

    def _leaves(self) -> list:
        return [leaf for k in self.keys for leaf in (k._leaves() if isinstance(k, CrossedColumn) else [k])]

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The features of all that is crossed."""
        spec: dict[str, Any] = {}
        for key in self.keys:
            spec.update({key: tf.VarLenFeature(tf.string)} if isinstance(key, str) else key.parse_example_spec)
        return spec

    def transform(self, batch: Batch) -> Any:
        """The hashes of the combinations."""
        inputs = []
        for leaf in self._leaves():
            if isinstance(leaf, str):
                inputs.append(batch.get(leaf))
                continue
            pair = leaf.sparse(batch)
            if pair.weight_tensor is not None:
                raise ValueError("crossed_column does not support weight_tensor, but the given column populates "
                                 f"weight_tensor. Given column: {leaf.name}")
            inputs.append(pair.id_tensor)
        if self.hash_key is None:
            return tf.sparse.cross_hashed(inputs, self.hash_bucket_size)
        return tf.sparse.cross_hashed(inputs, self.hash_bucket_size, self.hash_key)


@export("feature_column.crossed_column")
def crossed_column(keys: Any, hash_bucket_size: int, hash_key: int | None = None) -> CrossedColumn:
    """Combinations of categories (of features by key, of categorical and bucketized columns), by hash.

    >>> tf.feature_column.crossed_column(["education", "occupation"], hash_bucket_size=1000)
    """
    if not hash_bucket_size or hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be > 1. hash_bucket_size: {hash_bucket_size}")
    if not keys or len(keys) < 2:
        raise ValueError(f"keys must be a list with length > 1. Given: {keys}")
    for key in keys:
        if not isinstance(key, (str, CategoricalColumn)):
            raise ValueError(f"Unsupported key type. All keys must be either string, or categorical column except "
                             f"HashedCategoricalColumn. Given: {key}")
        if isinstance(key, HashedCategoricalColumn):
            raise ValueError("categorical_column_with_hash_bucket is not supported for crossing. Hashing before crossing will "
                             f"increase probability of collision. Instead, use the feature name as a string. Given: {key}")
    return CrossedColumn(tuple(keys), hash_bucket_size, hash_key)


class WeightedCategoricalColumn(CategoricalColumn, collections.namedtuple(
        "WeightedCategoricalColumn", ("categorical_column", "weight_feature_key", "dtype"))):
    """Categories with a weight each."""

    __slots__ = ()
    name = property(lambda self: f"{self.categorical_column.name}_weighted_by_{self.weight_feature_key}")
    num_buckets = property(lambda self: self.categorical_column.num_buckets)

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The categories and their weights."""
        return {**self.categorical_column.parse_example_spec, self.weight_feature_key: tf.VarLenFeature(self.dtype)}

    def transform(self, batch: Batch) -> Any:
        """Ids and weights."""
        weights = to_sparse(batch.get(self.weight_feature_key), 0.0)
        if not weights.dtype.is_floating and not weights.dtype.is_integer or self.dtype != weights.dtype.base_dtype:
            raise ValueError(f"Bad dtype, expected {self.dtype}, but got {weights.dtype}.")
        return self.categorical_column.sparse(batch).id_tensor, tf.cast(weights, tf.float32)

    def sparse(self, batch: Batch) -> IdWeightPair:
        """Ids and weights."""
        return IdWeightPair(*batch.get(self))


@export("feature_column.weighted_categorical_column")
def weighted_categorical_column(categorical_column: Any, weight_feature_key: str,
                                dtype: Any = tf.float32) -> WeightedCategoricalColumn:
    """Categories with weights from another feature.

    >>> tf.feature_column.weighted_categorical_column(words, "frequencies")
    """
    dtype = tf.as_dtype(dtype)
    if dtype is None or not (dtype.is_integer or dtype.is_floating):
        raise ValueError(f"dtype {dtype} is not convertible to float.")
    return WeightedCategoricalColumn(categorical_column, weight_feature_key, dtype)
