"""The base of feature columns, and the features of a batch.

A column is a value (two columns with the same fields are the same column). A `DenseColumn` returns a dense tensor of a known
shape per row, a `CategoricalColumn` returns sparse ids. Columns may depend on others; a `Batch` caches the result of each.
"""
from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import penstock.compat.v1 as tf
from penstock._src.base.api import export

_PARENTS = ("key", "source_column", "categorical_column", "weight_feature_key")


@export("__internal__.feature_column.FeatureColumn")
class FeatureColumn:
    """The base of all columns."""

    __slots__ = ()
    name: str                                      # property of every column

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The features of the column for tf.io.parse_example."""
        raise NotImplementedError(f"{type(self).__name__} has to define parse_example_spec")

    @property
    def parents(self) -> list:
        """The columns and the keys of raw features that the column is made of."""
        fields = self._asdict()                                                   # type: ignore[attr-defined]
        return [*fields.get("keys", ()), *(fields[f] for f in _PARENTS if f in fields)]

    def get_config(self) -> dict[str, Any]:
        """The fields of the column as plain values."""
        return _serialization().config_of(self)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None, columns_by_name: Any = None) -> Any:
        """The column that `get_config` has described."""
        return _serialization().column_of(cls, config, custom_objects, columns_by_name)

    _get_config, _from_config = get_config, from_config
    _parse_example_spec = property(lambda self: self.parse_example_spec)
    _var_scope_name = property(lambda self: self.name)
    _is_v2_column = property(lambda self: True)

    def transform(self, batch: Batch) -> Any:
        """Transforms the features of a batch. The columns of user programs do it in `transform_feature`; the methods below
        follow their public counterparts in the same way."""
        if type(self).transform_feature is not FeatureColumn.transform_feature:
            return self.transform_feature(batch, batch.state_manager)
        raise NotImplementedError(f"{type(self).__name__} has to define transform")

    def transform_feature(self, transformation_cache: Batch, state_manager: Any) -> Any:
        """`transform`, as layers of other libraries call it: their `state_manager` keeps variables and tables."""
        return self.transform(transformation_cache.with_state(state_manager))

    def create_state(self, state_manager: Any) -> None:
        """Makes the variables of the column and of those that it depends on."""
        for parent in self.parents:
            if isinstance(parent, FeatureColumn):
                parent.create_state(state_manager)

    def __lt__(self, other: Any) -> bool:
        return str(self) < str(other)

    def __gt__(self, other: Any) -> bool:
        return str(self) > str(other)


@export("__internal__.feature_column.DenseColumn")
class DenseColumn(FeatureColumn):
    """A column that returns numbers: [rows, *variable_shape]."""

    __slots__ = ()
    variable_shape: Any                            # property of every dense column
    _variable_shape = property(lambda self: self.variable_shape)
    _num_elements = property(lambda self: self.variable_shape.num_elements())

    def dense(self, batch: Batch, weights: Any) -> Any:
        """The numbers of a batch; `weights(name, shape, dtype, initializer, trainable)` makes a variable."""
        if type(self).get_dense_tensor is not DenseColumn.get_dense_tensor:
            return self.get_dense_tensor(batch, batch.state_manager)
        raise NotImplementedError(f"{type(self).__name__} has to define dense")

    def get_dense_tensor(self, transformation_cache: Batch, state_manager: Any) -> Any:
        """`dense`, with the variables of a layer of another library."""
        return self.dense(transformation_cache.with_state(state_manager), _weights_of(state_manager, self))


@export("__internal__.feature_column.SequenceDenseColumn")
class SequenceDenseColumn(FeatureColumn):
    """A column that returns numbers per time step: [rows, steps, *variable_shape], and the steps of each row."""

    __slots__ = ()

    class TensorSequenceLengthPair(NamedTuple):
        """The numbers, and how many steps each row has."""
        dense_tensor: Any
        sequence_length: Any

    def dense_sequence(self, batch: Batch, weights: Any) -> tuple[Any, Any]:
        """The numbers of a batch and the steps of its rows; `weights` makes variables."""
        if type(self).get_sequence_dense_tensor is not SequenceDenseColumn.get_sequence_dense_tensor:
            return tuple(self.get_sequence_dense_tensor(batch, batch.state_manager))
        raise NotImplementedError(f"{type(self).__name__} has to define dense_sequence")

    def get_sequence_dense_tensor(self, transformation_cache: Batch, state_manager: Any) -> TensorSequenceLengthPair:
        """`dense_sequence`, with the variables of a layer of another library."""
        made = self.dense_sequence(transformation_cache.with_state(state_manager), _weights_of(state_manager, self))
        return self.TensorSequenceLengthPair(*made)


def _weights_of(state_manager: Any, column: Any) -> Any:
    """How a column gets its variables; None without a state manager, which columns without variables do not need."""
    return None if state_manager is None else state_manager.weights_of(column)


class IdWeightPair(NamedTuple):
    """Ids of categories as a SparseTensor, and perhaps a weight for each."""
    id_tensor: Any
    weight_tensor: Any


class CategoricalColumn(FeatureColumn):
    """A column that returns ids of categories, below num_buckets."""

    __slots__ = ()
    num_buckets: int                               # property of every categorical column
    _num_buckets = property(lambda self: self.num_buckets)

    def sparse(self, batch: Batch) -> IdWeightPair:
        """The ids of a batch."""
        if type(self).get_sparse_tensors is not CategoricalColumn.get_sparse_tensors:
            return self.get_sparse_tensors(batch, batch.state_manager)
        return IdWeightPair(batch.get(self), None)

    def get_sparse_tensors(self, transformation_cache: Batch, state_manager: Any) -> IdWeightPair:
        """`sparse`, with the tables of a layer of another library."""
        return self.sparse(transformation_cache.with_state(state_manager))

    def _get_sparse_tensors(self, inputs: Batch, weight_collections: Any = None, trainable: Any = None) -> IdWeightPair:
        """Alias for user programs of 1.x."""
        return self.sparse(inputs)


@export("__internal__.feature_column.FeatureTransformationCache")
class Batch:
    """The features of a batch, and what columns have made of them. `tables`, if given, keeps lookup tables for others."""

    def __init__(self, features: dict[str, Any], tables: dict[str, Any] | None = None):
        self._features, self._tables = dict(features), tables
        self.state_manager: Any = None
        self._made: dict[Any, Any] = {}

    def with_state(self, state_manager: Any) -> Batch:
        """This batch, from now on with the tables that a state manager keeps."""
        if state_manager is not None:
            self.state_manager = state_manager
            if self._tables is None:
                self._tables = getattr(state_manager, "tables", None)
        return self

    def table(self, column: Any, make: Callable[[], Any]) -> Any:
        """A column's lookup table: one that is kept, or a new one. Tables of graphs are not kept: others could not use them."""
        if self._tables is None:
            return make()
        with tf.init_scope():
            if not tf.executing_eagerly():
                return make()
            name = f"{column.key}_lookup_{zlib.crc32(repr(column).encode()):08x}"
            if name not in self._tables:
                self._tables[name] = make()
            return self._tables[name]

    def get(self, key: Any, state_manager: Any = None) -> Any:
        """A raw feature by its key, with at least two dimensions; or what a column makes of the batch."""
        self.with_state(state_manager)
        if key not in self._made:
            self._made[key] = self._raw(key) if isinstance(key, str) else self._checked(key)
        return self._made[key]

    def _checked(self, column: Any) -> Any:
        if not isinstance(column, FeatureColumn):
            raise TypeError(f'"key" must be either a "str" or "FeatureColumn". Provided: {column}')
        made = column.transform(self)
        if made is None:
            raise ValueError(f"Column {column.name} is not supported.")
        return made

    def _raw(self, key: str) -> Any:
        if key not in self._features:
            raise ValueError(f"Feature {key} is not in features dictionary.")
        value = self._features[key]
        if hasattr(value, "to_sparse") and hasattr(value, "row_splits"):
            value = value.to_sparse()
        value = tf.convert_to_tensor_or_sparse_tensor(value)
        rank = value.shape.rank
        if rank == 0:
            raise ValueError(f"Feature (key: {key}) cannot have rank 0. Given: {value}")
        return value if rank is not None and rank > 1 else _wider(value, key)


def _wider(value: Any, key: str) -> Any:
    """[rows] as [rows, 1]; other ranks stay, unless it turns out to be 0."""
    sparse, rank = isinstance(value, tf.SparseTensor), value.shape.rank
    wide = _wider_sparse if sparse else lambda v: tf.expand_dims(v, -1)
    if rank == 1:
        return wide(value)
    rank = tf.size(value.dense_shape) if sparse else tf.rank(value)
    with tf.control_dependencies([tf.assert_positive(rank, message=f"Feature (key: {key}) cannot have rank 0.")]):
        if not sparse:
            return tf.cond(tf.equal(rank, 1), lambda: wide(value), lambda: value)
        parts = tf.cond(tf.equal(rank, 1), lambda: _parts(wide(value)), lambda: _parts(value))
        return tf.SparseTensor(*parts)


def _wider_sparse(value: Any) -> Any:
    zeros = tf.zeros_like(value.indices[:, :1])
    return tf.SparseTensor(tf.concat([value.indices, zeros], 1), value.values,
                           tf.concat([value.dense_shape, tf.constant([1], tf.int64)], 0))


def _parts(value: Any) -> list:
    return [tf.identity(value.indices), tf.identity(value.values), tf.identity(value.dense_shape)]


def to_sparse(value: Any, ignored: Any = None) -> Any:
    """A SparseTensor of a dense tensor: without empty strings, and without -1."""
    if isinstance(value, tf.SparseTensor):
        return value
    if ignored is None:
        ignored = "" if value.dtype == tf.string else -1
    indices = tf.where(tf.not_equal(value, tf.cast(ignored, value.dtype)))
    return tf.SparseTensor(indices, tf.gather_nd(value, indices), tf.shape(value, out_type=tf.int64))


def check_key(key: Any) -> None:
    """Raises ValueError unless a key is a string."""
    if not isinstance(key, str):
        raise ValueError(f"key must be a string. Got: type {type(key)}. Given key: {key}.")


def as_shape(shape: Any) -> tuple[int, ...]:
    """A shape as positive numbers."""
    dims = tuple(shape) if isinstance(shape, (list, tuple, tf.TensorShape)) else (shape,)
    dims = tuple(getattr(d, "value", d) for d in dims)
    for d in dims:
        if not isinstance(d, int) and not (hasattr(d, "__index__")):
            raise TypeError(f"shape dimensions must be integer. shape: {shape}")
        if int(d) < 1:
            raise ValueError(f"shape dimensions must be greater than 0. shape: {shape}")
    return tuple(int(d) for d in dims)


def checked_numeric(key: Any, shape: Any, dtype: Any, normalizer_fn: Any) -> tuple[tuple[int, ...], Any]:
    """Shape and dtype of a column of numbers, after checking all of its arguments."""
    check_key(key)
    dims, dtype = as_shape(shape), tf.as_dtype(dtype)
    if not (dtype.is_integer or dtype.is_floating):
        raise ValueError(f"dtype must be convertible to float. dtype: {dtype}, key: {key}")
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")
    return dims, dtype


def _serialization() -> Any:
    from penstock._src.models.feature_column import serialization  # which knows all columns
    return serialization
