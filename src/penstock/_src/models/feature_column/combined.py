"""Dense columns of categories: indicator_column (the count of each category) and embedding columns."""
from __future__ import annotations

import collections
import contextlib
import math
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.models.feature_column.base import Batch, CategoricalColumn, DenseColumn, SequenceDenseColumn


class IndicatorColumn(DenseColumn, SequenceDenseColumn, collections.namedtuple("IndicatorColumn", ("categorical_column",))):
    """A number for each category: its count, or the sum of its weights."""

    __slots__ = ()
    name = property(lambda self: f"{self.categorical_column.name}_indicator")
    parse_example_spec = property(lambda self: self.categorical_column.parse_example_spec)
    variable_shape = property(lambda self: tf.TensorShape([1, self.categorical_column.num_buckets]))

    def transform(self, batch: Batch) -> Any:
        """[rows, 1, categories]."""
        ids, weights = self.categorical_column.sparse(batch)
        if weights is not None:
            # Rows of (row, category): the sum of the weights of one category in a row.
            pair = tf.stack([ids.indices[:, 0], ids.values], 1)
            known = tf.where(ids.values >= 0)[:, 0]
            shape = tf.stack([ids.dense_shape[0], tf.constant(self.categorical_column.num_buckets, tf.int64)])
            return tf.scatter_nd(tf.gather(pair, known), tf.gather(weights.values, known), shape)
        dense = tf.sparse_tensor_to_dense(ids, default_value=-1, validate_indices=False)
        one_hot = tf.one_hot(dense, self.categorical_column.num_buckets, 1.0, 0.0)
        return tf.reduce_sum(one_hot, [-2])

    def dense(self, batch: Batch, weights: Any) -> Any:
        """The numbers."""
        refuse_sequence(self, "indicator_column")
        return batch.get(self)

    def dense_sequence(self, batch: Batch, weights: Any) -> tuple[Any, Any]:
        """[rows, steps, categories], and the number of steps of each row."""
        need_sequence(self, "indicator_column")
        ids = self.categorical_column.sparse(batch).id_tensor
        dense = tf.sparse_tensor_to_dense(ids, default_value=-1, validate_indices=False)
        return tf.reduce_sum(tf.one_hot(dense, self.categorical_column.num_buckets, 1.0, 0.0), [-2]), lengths(ids)


@export("feature_column.indicator_column")
def indicator_column(categorical_column: Any) -> IndicatorColumn:
    """Categories as numbers of a vector, one for each.

    Args:
        categorical_column: Column of ids.

    Returns:
        A dense column.

    >>> day = tf.feature_column.categorical_column_with_identity("day", 7)
    >>> column = tf.feature_column.indicator_column(day)
    >>> with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
    ...     print(sess.run(tf.compat.v1.feature_column.input_layer({"day": [[2]]}, [column])))
    [[0. 0. 1. 0. 0. 0. 0.]]
    """
    return IndicatorColumn(_categorical(categorical_column))


def _categorical(column: Any) -> Any:
    if not isinstance(column, CategoricalColumn):
        raise ValueError(f"categorical_column must be a categorical column. Given: {column}")
    return column


class SequenceColumn(CategoricalColumn):
    """A categorical column with categories per time step."""

    __slots__ = ()


def refuse_sequence(column: Any, kind: str) -> None:
    """ValueError if a column that returns one vector per row is based on categories per time step."""
    if isinstance(column.categorical_column, SequenceColumn):
        raise ValueError(f"In {kind}: {column.name}. categorical_column must not be of type SequenceCategoricalColumn. Use "
                         "another categorical column, or SequenceFeatures instead of DenseFeatures. "
                         f"Given (type {type(column.categorical_column)}): {column.categorical_column}")


def need_sequence(column: Any, kind: str) -> None:
    """ValueError unless a column is based on categories per time step."""
    if not isinstance(column.categorical_column, SequenceColumn):
        raise ValueError(f"In {kind}: {column.name}. categorical_column must be of type SequenceCategoricalColumn to use "
                         "SequenceFeatures. Use one of sequence_categorical_column_with_*. "
                         f"Given (type {type(column.categorical_column)}): {column.categorical_column}")


def lengths(ids: Any) -> Any:
    """The number of steps of each row of a SparseTensor of sequences."""
    last = tf.segment_max(ids.indices[:, 1] + 1, ids.indices[:, 0])
    missing = tf.cast(ids.dense_shape[0], tf.int64) - tf.size(last, out_type=tf.int64)
    return tf.concat([last, tf.zeros(tf.expand_dims(missing, 0), tf.int64)], 0)


class EmbeddingColumn(DenseColumn, SequenceDenseColumn, collections.namedtuple("EmbeddingColumn", (
        "categorical_column", "dimension", "combiner", "initializer", "ckpt_to_load_from", "tensor_name_in_ckpt", "max_norm",
        "trainable"))):
    """Categories as learned vectors."""

    __slots__ = ()
    name = property(lambda self: f"{self.categorical_column.name}_embedding")
    parse_example_spec = property(lambda self: self.categorical_column.parse_example_spec)
    variable_shape = property(lambda self: tf.TensorShape([self.dimension]))

    def transform(self, batch: Batch) -> Any:
        """Ids and weights."""
        return self.categorical_column.sparse(batch)

    def _table(self, weights: Any) -> Any:
        table = weights("embedding_weights", [self.categorical_column.num_buckets, self.dimension], tf.float32,
                        self.initializer, self.trainable)
        if self.ckpt_to_load_from is not None:
            tf.train.init_from_checkpoint(self.ckpt_to_load_from, {self.tensor_name_in_ckpt: table})
        return table

    def create_state(self, state_manager: Any) -> None:
        """Makes the table, and what the categories need."""
        super().create_state(state_manager)
        state_manager.create_table(self, "embedding_weights", [self.categorical_column.num_buckets, self.dimension], tf.float32,
                                   self.initializer, self.trainable)

    def dense(self, batch: Batch, weights: Any) -> Any:
        """The combined vectors of each row."""
        refuse_sequence(self, "embedding_column")
        ids, strengths = batch.get(self)
        return tf.nn.safe_embedding_lookup_sparse(self._table(weights), ids, strengths, combiner=self.combiner,
                                                  max_norm=self.max_norm, name=f"{self.name}_weights")

    def dense_sequence(self, batch: Batch, weights: Any) -> tuple[Any, Any]:
        """[rows, steps, dimension], and the number of steps of each row."""
        need_sequence(self, "embedding_column")
        ids, strengths = self.categorical_column.sparse(batch)
        out = tf.nn.safe_embedding_lookup_sparse(self._table(weights), ids, strengths, combiner=self.combiner,
                                                 max_norm=self.max_norm)
        return out, lengths(ids)


def _checked(dimension: Any, initializer: Any, ckpt: Any, tensor: Any) -> Any:
    if dimension is None or dimension < 1:
        raise ValueError(f"Invalid dimension {dimension}.")
    if (ckpt is None) != (tensor is None):
        raise ValueError("`ckpt_to_load_from` and `tensor_name_in_ckpt` are given together or not at all.")
    if initializer is not None and not callable(initializer):
        raise ValueError(f"initializer must be callable if specified. Given: {initializer}")
    return initializer or tf.truncated_normal_initializer(0.0, 1 / math.sqrt(dimension))


@export("feature_column.embedding_column")
def embedding_column(categorical_column: Any, dimension: int, combiner: str = "mean", initializer: Any = None,
                     ckpt_to_load_from: Any = None, tensor_name_in_ckpt: Any = None, max_norm: float | None = None,
                     trainable: bool = True, do_fusion: Any = None) -> EmbeddingColumn:
    """Categories as learned vectors. `do_fusion` is an argument of DeepRec's: the compiler fuses without being asked.

    Args:
        categorical_column: Column of ids.
        dimension: Size of the vectors.
        combiner: `"mean"`, `"sqrtn"` or `"sum"`: how the vectors of an example become one.
        initializer: Initializer of the table; a truncated normal distribution by default.
        ckpt_to_load_from: Checkpoint with initial values.
        tensor_name_in_ckpt: Name of the table there.
        max_norm: Length that longer vectors are scaled to.
        trainable: Whether the table is trained.
        do_fusion: Accepted for compatibility with DeepRec: lookups are fused where they can be.

    Returns:
        A dense column.

    >>> words = tf.feature_column.categorical_column_with_hash_bucket("word", 1000)
    >>> column = tf.feature_column.embedding_column(words, dimension=16)
    >>> with tf.Graph().as_default():
    ...     y = tf.compat.v1.feature_column.input_layer({"word": [["a"], ["b"]]}, [column])
    >>> y.shape
    TensorShape([2, 16])
    """
    initializer = _checked(dimension, initializer, ckpt_to_load_from, tensor_name_in_ckpt)
    made = (GroupedEmbeddingColumn if _groups else EmbeddingColumn)(
        _categorical(categorical_column), dimension, combiner, initializer, ckpt_to_load_from, tensor_name_in_ckpt, max_norm,
        trainable)
    if isinstance(made, GroupedEmbeddingColumn):
        made.group = _groups[-1]
    return made


_groups: list[tuple[str, int | None]] = []          # the scopes that are open


@export(v1=["feature_column.group_embedding_column_scope"])
@contextlib.contextmanager
def group_embedding_column_scope(name: str = "", params_num_per_group: int | None = None) -> Iterator[None]:
    """A scope for embedding columns whose tables are looked up together: by one op, if they are embedding variables on one
    device, or by one for every `params_num_per_group` of them.

    >>> with tf.feature_column.group_embedding_column_scope(name="items"):
    ...     column = tf.feature_column.embedding_column(items, 16)
    """
    _groups.append((name, params_num_per_group))
    try:
        yield
    finally:
        _groups.pop()


class GroupedEmbeddingColumn(EmbeddingColumn):
    """An embedding column whose table is looked up together with others of its group."""

    group: tuple[str, int | None] = ("", None)


def dense_of(columns: list, batch: Batch, within: Callable[[Any], Any]) -> list:
    """The numbers of all columns; those of a group are looked up together. `within(column)` is a context with the weights of
    a column."""
    made: list = [None] * len(columns)
    groups: dict[Any, list[tuple[int, Any, Any]]] = {}
    for i, column in enumerate(columns):
        with within(column) as weights:
            if isinstance(column, GroupedEmbeddingColumn) and column.max_norm is None:
                refuse_sequence(column, "embedding_column")
                ids, strengths = batch.get(column)
                table = column._table(weights)
                if strengths is None and getattr(table, "_keyed", False):
                    groups.setdefault(column.group, []).append((i, table, ids))
                    continue
            made[i] = column.dense(batch, weights)
    for (name, most), members in groups.items():
        positions, tables, ids = zip(*members, strict=True)
        found = tf.nn.group_embedding_lookup_sparse(list(tables), list(ids), [columns[i].combiner for i in positions],
                                                    params_num_per_group=most, name=name or None)
        for i, rows in zip(positions, found, strict=True):
            made[i] = rows
    return made


class SharedEmbeddingColumn(EmbeddingColumn):
    """An embedding column whose table others use too."""

    __slots__ = ()

    @property
    def name(self) -> str:                                       # type: ignore[override]
        """The name, marked as shared."""
        return f"{self.categorical_column.name}_shared_embedding"

    _var_scope_name = property(lambda self: self.initializer.name)


class SharedTable:
    """The shared state of the columns of one call: the name and the initializer of their table, and the table of each graph."""

    def __init__(self, name: str, initializer: Any):
        self.name, self.initializer = name, initializer
        self._eager: Any = None
        self._graphs: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.initializer(*args, **kwargs)

    def variable(self, shape: Any, dtype: Any, trainable: bool) -> Any:
        """The table, made if it does not exist."""
        with tf.init_scope(), tf.name_scope(None):
            graph = None if tf.executing_eagerly() else tf.get_default_graph()
            found = self._eager if graph is None else self._graphs.get(graph)
            if found is None:
                found = tf.Variable(lambda: self(shape, dtype=dtype), trainable=trainable, name=self.name, use_resource=True)
                if graph is None:
                    self._eager = found
                else:
                    self._graphs[graph] = found
            return found


def _shared(columns: Any, dimension: int, combiner: str, initializer: Any, name: str | None, ckpt: Any, tensor: Any,
            max_norm: Any, trainable: bool) -> list:
    initializer = _checked(dimension, initializer, ckpt, tensor)
    columns = [_categorical(c) for c in columns]
    if len({c.num_buckets for c in columns}) != 1:
        raise ValueError("To use shared_embedding_column, all categorical_columns must have the same number of buckets. Given: "
                         f"{[(c.name, c.num_buckets) for c in columns]}")

    table = SharedTable(name or "_".join(sorted(c.name for c in columns)) + "_shared_embedding", initializer)
    return [SharedEmbeddingColumn(c, dimension, combiner, table, ckpt, tensor, max_norm, trainable) for c in columns]


@export(v1=["feature_column.shared_embedding_columns"])
def shared_embedding_columns(categorical_columns: Any, dimension: int, combiner: str = "mean", initializer: Any = None,
                             shared_embedding_collection_name: str | None = None, ckpt_to_load_from: Any = None,
                             tensor_name_in_ckpt: Any = None, max_norm: float | None = None, trainable: bool = True) -> list:
    """Columns of categories that have one table of vectors.

    >>> tf.feature_column.shared_embedding_columns([watched, impressed], dimension=10)
    """
    return _shared(categorical_columns, dimension, combiner, initializer, shared_embedding_collection_name, ckpt_to_load_from,
                   tensor_name_in_ckpt, max_norm, trainable)


@export(v2=["feature_column.shared_embeddings"])
def shared_embeddings(categorical_columns: Any, dimension: int, combiner: str = "mean", initializer: Any = None,
                      shared_embedding_collection_name: str | None = None, ckpt_to_load_from: Any = None,
                      tensor_name_in_ckpt: Any = None, max_norm: float | None = None, trainable: bool = True) -> list:
    """Columns of categories that have one table of vectors.

    >>> tf.feature_column.shared_embeddings([watched, impressed], dimension=10)
    """
    return _shared(categorical_columns, dimension, combiner, initializer, shared_embedding_collection_name, ckpt_to_load_from,
                   tensor_name_in_ckpt, max_norm, trainable)
