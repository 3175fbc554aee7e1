"""tf.io.RaggedFeature: a feature whose values other features of the example divide into rows.

The values and the partitions are parsed as lists of any length. Partitions are applied from the innermost one outwards, for
all examples of a batch at once: each turns into the lengths of its rows, example after example.
"""
from __future__ import annotations

import collections
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock.compat import v1 as tf


class RowSplits(collections.namedtuple("RowSplits", ["key"])):
    """Where rows begin, and the end of the last."""


class RowLengths(collections.namedtuple("RowLengths", ["key"])):
    """How long rows are."""


class RowStarts(collections.namedtuple("RowStarts", ["key"])):
    """Where rows begin."""


class RowLimits(collections.namedtuple("RowLimits", ["key"])):
    """Where rows end."""


class ValueRowIds(collections.namedtuple("ValueRowIds", ["key"])):
    """The row of each value."""


class UniformRowLength(collections.namedtuple("UniformRowLength", ["length"])):
    """Rows of one length."""


_KINDS = (RowSplits, RowLengths, RowStarts, RowLimits, ValueRowIds, UniformRowLength)


@export("io.RaggedFeature")
class RaggedFeature(collections.namedtuple("RaggedFeature", ["dtype", "value_key", "partitions", "row_splits_dtype",
                                                             "validate"])):
    """A feature that becomes a RaggedTensor.

    Args:
        dtype: `tf.int64`, `tf.float32` or `tf.string`.
        value_key: Key of the values; that of the feature by default.
        partitions: What divides the values into rows, the outermost first: `RaggedFeature.RowSplits(key)`, `RowLengths`,
            `RowStarts`, `RowLimits`, `ValueRowIds`, or `UniformRowLength(length)`. An integer is the latter.
        row_splits_dtype: `tf.int32` or `tf.int64`.
        validate: Whether partitions are checked against the values.

    >>> tf.io.parse_example(records, {"x": tf.io.RaggedFeature(tf.float32, partitions=[tf.io.RaggedFeature.RowLengths("n")])})
    """

    RowSplits, RowLengths, RowStarts = RowSplits, RowLengths, RowStarts
    RowLimits, ValueRowIds, UniformRowLength = RowLimits, ValueRowIds, UniformRowLength

    def __new__(cls, dtype: Any, value_key: str | None = None, partitions: Any = (), row_splits_dtype: Any = dtypes.int32,
                validate: bool = False) -> RaggedFeature:
        if value_key is not None and not isinstance(value_key, str):
            raise ValueError(f"Argument `value_key` must be a string; got {value_key!r}")
        if not isinstance(partitions, (list, tuple)):
            raise TypeError(f"Argument `partitions` must be a list or tuple, got {partitions!r}")
        kept = []
        for partition in partitions:
            if isinstance(partition, int):
                partition = UniformRowLength(partition)
            if not isinstance(partition, _KINDS):
                raise TypeError(f"Argument `partitions` cannot be cast to any of the partition types "
                                f"{[k.__name__ for k in _KINDS]}, got {partition!r}")
            kept.append(partition)
        if not isinstance(validate, bool):
            raise TypeError(f"`validate` must be a bool, got {validate!r}")
        return super().__new__(cls, dtypes.as_dtype(dtype), value_key, tuple(kept), dtypes.as_dtype(row_splits_dtype), validate)


def keys_of(key: str, feature: RaggedFeature) -> list[tuple[str, Any]]:
    """The keys that are parsed for a feature, with their types."""
    parts = [(p.key, dtypes.int64) for p in feature.partitions if not isinstance(p, UniformRowLength)]
    return [(feature.value_key or key, feature.dtype), *parts]


def assembled(key: str, feature: RaggedFeature, found: dict[str, SparseTensor], single: bool, rows: int | None) -> Any:
    """The tensor of a feature from the lists that were parsed: of a batch (of `rows`, if known), or of a single example."""
    lists = {k: _rows(found[k], feature.row_splits_dtype, single) for k, _ in keys_of(key, feature)}
    return _divided(key, feature, lists, single, rows)


def assembled_steps(key: str, feature: RaggedFeature, found: dict[str, tuple], single: bool) -> Any:
    """The tensor of a feature of sequences: what `assembled` makes of an example, for each step of each sequence.

    `found` has the values of all steps, the splits of sequences into steps, and of steps into values.
    """
    splits, own = feature.row_splits_dtype, feature.value_key or key
    lists = {k: tf.RaggedTensor.from_row_splits(found[k][0], tf.cast(found[k][2], splits), validate=False)
             for k, _ in keys_of(key, feature)}
    outer = {k: tf.cast(found[k][1], splits) for k in lists}
    if single:
        outer = {k: tf.stack([0, rows.nrows()]) for k, rows in lists.items()}
    if feature.validate:
        message = f"Feature {key}: values and partitions are not aligned"
        checks = [tf.debugging.assert_equal(outer[own], other, message=message) for k, other in outer.items() if k != own]
        with tf.control_dependencies([c for c in checks if c is not None]):      # None in eager mode
            outer[own] = tf.identity(outer[own])
            lists[own] = tf.identity(lists[own])
    steps = _divided(key, feature, lists, False, None)
    return steps if single else tf.RaggedTensor.from_row_splits(steps, outer[own], validate=feature.validate)


def _divided(key: str, feature: RaggedFeature, lists: dict[str, Any], single: bool, rows: int | None) -> Any:
    """The values of a feature, divided by its partitions."""
    values = lists[feature.value_key or key]
    flat, counts = values.values, values.row_lengths()
    for partition in reversed(feature.partitions):
        if isinstance(partition, UniformRowLength):
            flat, counts = _uniform(flat, partition.length), counts // max(1, partition.length)
        else:
            lengths = _lengths(partition, lists[partition.key], counts)
            flat = tf.RaggedTensor.from_row_lengths(flat, lengths.values, validate=feature.validate)
            counts = lengths.row_lengths()
    if single:
        return flat
    counts.set_shape([rows])
    return tf.RaggedTensor.from_row_lengths(flat, counts, validate=feature.validate)


def _rows(parsed: SparseTensor, splits: Any, single: bool) -> Any:
    """The lists of all examples as one ragged tensor."""
    if single:
        values = parsed.values
        return tf.RaggedTensor.from_row_splits(values, tf.cast(tf.stack([0, tf.size(values)]), splits), validate=False)
    return tf.RaggedTensor.from_sparse(parsed, row_splits_dtype=splits)


def _uniform(flat: Any, length: int) -> Any:
    if isinstance(flat, tf.RaggedTensor):
        return tf.RaggedTensor.from_uniform_row_length(flat, length)
    return tf.reshape(flat, tf.concat([[-1, length], tf.shape(flat)[1:]], 0))


def _lengths(partition: Any, given: Any, counts: Any) -> Any:
    """The lengths of the rows of each example. `counts` is the number of values of each example."""
    given = given.with_values(tf.cast(given.values, counts.dtype))
    if isinstance(partition, RowLengths):
        return given
    if isinstance(partition, RowSplits):
        return given[:, 1:] - given[:, :-1]
    if isinstance(partition, RowLimits):
        before = tf.concat([tf.zeros_like(given[:, :1]), given[:, :-1]], axis=1)
        return given - before
    if isinstance(partition, RowStarts):
        last = tf.RaggedTensor.from_tensor(counts[:, None], row_splits_dtype=counts.dtype)
        after = tf.concat([given, last], axis=1)[:, 1:]
        return given.with_values(after.values - given.values)
    rows = tf.reduce_max(tf.concat([given, -tf.ones_like(counts)[:, None]], axis=1), axis=1) + 1      # ValueRowIds
    starts = tf.cumsum(rows, exclusive=True)
    row_of_value = given.values + tf.gather(starts, given.value_rowids())
    total = tf.reduce_sum(rows)
    found = tf.math.unsorted_segment_sum(tf.ones_like(row_of_value), row_of_value, total)
    return tf.RaggedTensor.from_row_lengths(found, rows, validate=False)
