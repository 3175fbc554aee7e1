"""Columns of numbers: numeric_column and bucketized_column."""
from __future__ import annotations

import collections
from typing import Any

import numpy as np

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.models.feature_column.base import Batch, CategoricalColumn, DenseColumn, IdWeightPair, checked_numeric


class NumericColumn(DenseColumn, collections.namedtuple("NumericColumn",
                                                        ("key", "shape", "default_value", "dtype", "normalizer_fn"))):
    """Numbers as they are, or normalized."""

    __slots__ = ()
    name = property(lambda self: self.key)
    variable_shape = property(lambda self: tf.TensorShape(self.shape))

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """A dense feature."""
        return {self.key: tf.FixedLenFeature(self.shape, self.dtype, self.default_value)}

    def transform(self, batch: Batch) -> Any:
        """Float32 numbers."""
        value = batch.get(self.key)
        if isinstance(value, tf.SparseTensor):
            raise ValueError("The corresponding Tensor of numerical column must be a Tensor. SparseTensor is not supported. "
                             f"key: {self.key}")
        if self.normalizer_fn is not None:
            value = self.normalizer_fn(value)
        return tf.cast(value, tf.float32)

    def dense(self, batch: Batch, weights: Any) -> Any:
        """The numbers."""
        return batch.get(self)


@export("feature_column.numeric_column")
def numeric_column(key: str, shape: Any = (1,), default_value: Any = None, dtype: Any = tf.float32,
                   normalizer_fn: Any = None) -> NumericColumn:
    """Numbers: a feature of a shape, normalized by a function if one is given.

    Args:
        key: Name of the feature.
        shape: Shape of the values of an example.
        default_value: Value for examples without the feature.
        dtype: Element type.
        normalizer_fn: Function of the tensor, such as a scaling.

    Returns:
        A column.

    >>> column = tf.feature_column.numeric_column("price", normalizer_fn=lambda x: x / 100.)
    >>> with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
    ...     print(sess.run(tf.compat.v1.feature_column.input_layer({"price": [[50.], [120.]]}, [column])))
    [[0.5]
     [1.2]]
    """
    shape, dtype = checked_numeric(key, shape, dtype, normalizer_fn)
    return NumericColumn(key, shape, _default(default_value, shape, dtype, key), dtype, normalizer_fn)


def _default(value: Any, shape: tuple[int, ...], dtype: Any, key: str) -> Any:
    """A default of the shape, as nested tuples."""
    if value is None:
        return None
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or array.dtype.kind == "f" and dtype.is_integer:
        raise TypeError(f"default_value must be compatible with dtype. default_value: {value}, dtype: {dtype}, key: {key}")
    if array.shape not in ((), shape):
        raise ValueError(f"The shape of default_value must be equal to given shape. default_value: {value}, shape: {shape}, "
                         f"key: {key}")

    def nested(x: Any) -> Any:
        return tuple(nested(v) for v in x) if isinstance(x, list) else x
    return nested(np.broadcast_to(array, shape).astype(dtype.as_numpy_dtype).tolist())


class BucketizedColumn(DenseColumn, CategoricalColumn,
                       collections.namedtuple("BucketizedColumn", ("source_column", "boundaries"))):
    """The bucket of a number, one-hot or as an id."""

    __slots__ = ()
    name = property(lambda self: f"{self.source_column.name}_bucketized")
    parse_example_spec = property(lambda self: self.source_column.parse_example_spec)
    _count = property(lambda self: len(self.boundaries) + 1)
    variable_shape = property(lambda self: tf.TensorShape((*self.source_column.shape, self._count)))
    num_buckets = property(lambda self: self._count * int(np.prod(self.source_column.shape)))

    def transform(self, batch: Batch) -> Any:
        """The number of the bucket of each number."""
        return tf.raw_ops.Bucketize(input=batch.get(self.source_column), boundaries=[float(b) for b in self.boundaries])

    def dense(self, batch: Batch, weights: Any) -> Any:
        """One-hot numbers."""
        return tf.one_hot(tf.cast(batch.get(self), tf.int64), self._count, 1.0, 0.0)

    def sparse(self, batch: Batch) -> IdWeightPair:
        """Ids: the buckets of the second number of a row come after those of the first."""
        buckets = tf.cast(batch.get(self), tf.int64)
        rows, width = tf.shape(buckets, out_type=tf.int64)[0], int(np.prod(self.source_column.shape))
        flat = tf.reshape(buckets, [-1])
        place = tf.tile(tf.range(width, dtype=tf.int64), tf.expand_dims(rows, 0))
        row = tf.reshape(tf.tile(tf.expand_dims(tf.range(rows), 1), [1, width]), [-1])
        return IdWeightPair(tf.SparseTensor(tf.stack([row, place], 1), flat + self._count * place,
                                            tf.stack([rows, tf.constant(width, tf.int64)])), None)


@export("feature_column.bucketized_column")
def bucketized_column(source_column: Any, boundaries: Any) -> BucketizedColumn:
    """The bucket, between sorted boundaries, that a number falls in.

    Args:
        source_column: Numeric column.
        boundaries: Sorted numbers.

    Returns:
        A column with the ids 0 to the number of boundaries.

    >>> age = tf.feature_column.numeric_column("age")
    >>> column = tf.feature_column.bucketized_column(age, [18, 25, 40])
    >>> with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
    ...     print(sess.run(tf.compat.v1.feature_column.input_layer({"age": [[17.], [30.]]}, [column])))
    [[1. 0. 0. 0.]
     [0. 0. 1. 0.]]
    """
    if not isinstance(source_column, NumericColumn):
        raise ValueError(f"source_column must be a column generated with numeric_column(). Given: {source_column}")
    if len(source_column.shape) > 1:
        raise ValueError(f"source_column must be one-dimensional column. Given: {source_column}")
    if not boundaries:
        raise ValueError("boundaries must not be empty.")
    if not isinstance(boundaries, (list, tuple)) or \
            any(a >= b for a, b in zip(boundaries[:-1], boundaries[1:], strict=True)):
        raise ValueError(f"boundaries must be a sorted list. Given: {boundaries}")
    return BucketizedColumn(source_column, tuple(boundaries))
