"""Broadcasting of ragged and dense tensors with each other.

All operands are first expanded to the same number of dimensions and row partitions. Then, from the outermost dimension inwards,
each row of the result knows the row of every operand that it comes from; a dimension of size one is repeated. Where rows are
known to be
those of an operand, in order, the index is None: a dense column is then added to a ragged tensor by one gather.
"""
from __future__ import annotations

from typing import Any

from penstock._src.library.ragged.row_partition import RowPartition
from penstock._src.library.ragged.tensor import RaggedTensor, convert_to_tensor_or_ragged_tensor, match_row_splits_dtypes
from penstock.compat import v1 as tf


def aligned(*operands: Any) -> tuple[list[RowPartition], list]:
    """The row partitions of the result, and the flat values of each operand as rows of it (inner dimensions as they are)."""
    values = list(match_row_splits_dtypes(*(convert_to_tensor_or_ragged_tensor(x) for x in operands)))
    ranks = [v.shape.rank for v in values]
    if None in ranks:
        raise ValueError("Unable to broadcast: unknown rank")
    rank = max(ranks)
    depth = max((v.ragged_rank + rank - r for v, r in zip(values, ranks, strict=True) if isinstance(v, RaggedTensor)),
                default=0)
    dtype = next((v.row_splits.dtype for v in values if isinstance(v, RaggedTensor)), tf.int64)
    partitions, flats = zip(*(_parts(v, rank - r, depth, dtype) for v, r in zip(values, ranks, strict=True)), strict=True)
    if not depth:
        return [], list(flats)
    index = _outer_rows([p[0] for p in partitions], dtype)
    found = []
    for level in range(depth):
        layer = [p[level] for p in partitions]
        partition, index = _next_level(layer, index, dtype)
        found.append(partition)
    return found, [f if i is None else tf.gather(f, i) for f, i in zip(flats, index, strict=True)]


def _parts(value: Any, missing: int, depth: int, dtype: Any) -> tuple[list[RowPartition], Any]:
    """`depth` row partitions and the flat values of an operand that lacks some outer dimensions."""
    for _ in range(missing):
        value = RaggedTensor.from_uniform_row_length(value, value.nrows(), nrows=1) if isinstance(value, RaggedTensor) else \
            tf.expand_dims(value, 0)
    own: list[RowPartition] = []
    while isinstance(value, RaggedTensor):
        own.append(value._row_partition.with_dtype(dtype))
        value = value.values
    for _ in range(depth - len(own)):
        sizes = tf.shape(value, out_type=dtype)
        own.append(RowPartition.from_uniform_row_length(sizes[1], nvals=sizes[0] * sizes[1], nrows=sizes[0], dtype=dtype))
        value = tf.reshape(value, tf.concat([[sizes[0] * sizes[1]], sizes[2:]], 0))
    return own, value


def _outer_rows(layer: list[RowPartition], dtype: Any) -> list:
    """For each operand, the rows that the outermost dimension of the result is made of; None for all of them, in order."""
    known = [p.static_nrows for p in layer]
    sizes = {n for n in known if n is not None and n != 1} or {1}
    if None not in known and len(sizes) == 1:
        size = sizes.pop()
        return [None if n == size else tf.zeros([size], dtype) for n in known]
    counts = [p.nrows() for p in layer]
    common = counts[0]
    for c in counts[1:]:
        common = tf.where(tf.equal(common, 1), c, common)
    checks = [tf.debugging.Assert(tf.equal(c, common) | tf.equal(c, 1), ["Unable to broadcast: dimension size mismatch in "
                                  "dimension 0. lengths:", *counts]) for c in counts]
    with tf.control_dependencies([c for c in checks if c is not None]):
        rows = tf.range(tf.identity(common))
    return [tf.where(tf.equal(c, 1), tf.zeros_like(rows), rows) for c in counts]


def _taken(values: Any, index: Any) -> Any:
    return values if index is None else tf.gather(values, index)


def _next_level(layer: list[RowPartition], index: list, dtype: Any) -> tuple[RowPartition, list]:
    """The partition of the result at one level, and for each operand the values that the result is made of."""
    wide = [j for j, p in enumerate(layer) if p.static_uniform_row_length != 1]
    if wide and all(layer[j] is layer[wide[0]] and index[j] is None for j in wide):
        rows = layer[wide[0]].value_rowids()
        return layer[wide[0]], [None if j in wide else rows if i is None else tf.gather(i, rows) for j, i in enumerate(index)]
    lengths = [_taken(p.row_lengths(), i) for p, i in zip(layer, index, strict=True)]
    single = [tf.reduce_all(tf.equal(n, 1)) for n in lengths]              # a dimension is repeated as a whole
    common = lengths[0]
    for n, one in zip(lengths[1:], single[1:], strict=True):
        common = tf.where(tf.reduce_all(tf.equal(common, 1)) & tf.logical_not(one), n, common)
    checks = [tf.debugging.Assert(one | tf.reduce_all(tf.equal(n, common)), ["Unable to broadcast: dimension size mismatch: "
                                  "row lengths", n, common]) for n, one in zip(lengths, single, strict=True)]
    with tf.control_dependencies([c for c in checks if c is not None]):
        uniform = [p.static_uniform_row_length for p in layer]
        widest = None if None in uniform else max(uniform, key=lambda n: (n != 1, n))
        partition = RowPartition.from_row_lengths(tf.identity(common), validate=False, dtype=dtype) if widest is None else \
            RowPartition.from_uniform_row_length(tf.constant(widest, dtype), nrows=tf.size(common, out_type=dtype),
                                                 nvals=tf.reduce_sum(common), dtype=dtype)
    rows, offsets = partition.value_rowids(), partition.offsets_in_rows()
    return partition, [tf.gather(_taken(p.row_starts(), i), rows) + tf.where(one, tf.zeros_like(offsets), offsets)
                       for p, i, one in zip(layer, index, single, strict=True)]


def with_partitions(flat: Any, partitions: list[RowPartition]) -> Any:
    """Flat values as rows of rows."""
    for partition in reversed(partitions):
        flat = RaggedTensor._from_row_partition(flat, partition, validate=False)
    return flat
