"""Joining strings along ragged dimensions, and ragged tensors as text."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock._src.base import dtypes
from penstock._src.library.ragged.math import _segment_aggregate as segment_aggregate
from penstock._src.library.ragged.math import reduce_aggregate
from penstock._src.library.ragged.row_partition import RowPartition
from penstock._src.library.ragged.tensor import RaggedTensor, convert_to_tensor_or_ragged_tensor
from penstock.compat import v1 as tf


def reduce_join(inputs: Any, axis: Any = None, keepdims: Any = None, separator: str = "", name: str | None = None,
                reduction_indices: Any = None, keep_dims: Any = None) -> Any:
    """`tf.strings.reduce_join` of a ragged tensor: one string per row for the ragged dimension."""
    axis = axis if reduction_indices is None else reduction_indices
    keepdims = bool(keepdims if keep_dims is None else keep_dims)

    def dense(x: Any, a: Any, keepdims: Any = False, name: str | None = None) -> Any:
        return tf.strings.reduce_join(x, a, keepdims=bool(keepdims), separator=separator, name=name)

    def join(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
        return tf.strings.unsorted_segment_join(data, segment_ids, num_segments, separator, name)

    def segments(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
        return segment_aggregate(join, data, segment_ids, num_segments, name)
    return reduce_aggregate(dense, segments, inputs, axis, keepdims, name)


def ragged_text(rt: RaggedTensor, summarize: int | None = None) -> Any:
    """How tf.print shows a ragged tensor, as a scalar string: `[[1, 2], [], [3]]`.

    A row with more than twice `summarize` items shows as many from its beginning and from its end; -1 shows all.
    """
    flat = rt.flat_values
    if flat.dtype == dtypes.string:
        escaped = tf.strings.regex_replace(flat, r"(['\\\\])", r"\\\1")
        shown = tf.strings.join(["'", escaped, "'"])
    else:
        shown = tf.strings.as_string(flat)
    inner = shown.shape.rank - 1
    if inner:
        shown = RaggedTensor.from_tensor(shown, ragged_rank=inner, row_splits_dtype=rt.row_splits.dtype)
    out: Any = rt.with_flat_values(shown)
    partitions = [*(p for p in _partitions(out))]
    values = out.flat_values
    for partition in reversed(partitions):
        values = _row_texts(values, partition, summarize)
    whole = RowPartition.from_uniform_row_length(tf.size(values, out_type=tf.int64), nrows=1, validate=False)
    return _row_texts(values, whole, summarize)[0]


def string_format(template: str, inputs: Any, placeholder: str = "{}", summarize: int = 3, name: str | None = None) -> Any:
    """`tf.strings.format` with ragged tensors among the inputs."""
    values = [convert_to_tensor_or_ragged_tensor(v) for v in (inputs if isinstance(inputs, (list, tuple)) else [inputs])]
    pieces = template.split(placeholder)
    if len(pieces) != len(values) + 1:
        raise ValueError(f"{len(pieces) - 1} placeholders in the template for {len(values)} inputs")
    texts = [ragged_text(v, summarize) if isinstance(v, RaggedTensor) else tf.strings.format("{}", v, summarize=summarize)
             for v in values]
    return tf.strings.join([*(t for pair in zip(pieces, texts, strict=False) for t in pair), pieces[-1]], name=name)


def _partitions(rt: Any) -> Iterator:
    while isinstance(rt, RaggedTensor):
        yield rt._row_partition
        rt = rt.values


def _row_texts(values: Any, partition: RowPartition, summarize: int | None) -> Any:
    """The text of each row of strings."""
    if summarize is not None and summarize != -1:
        at, lengths = partition.offsets_in_rows(), tf.gather(partition.row_lengths(), partition.value_rowids())
        long = lengths > 2 * summarize
        values = tf.where(long & tf.equal(at, summarize), tf.fill(tf.shape(values), "..."), values)
        keep = tf.logical_not(long) | (at <= summarize) | (at >= lengths - summarize)
        kept = tf.boolean_mask(partition.value_rowids(), keep)
        values = tf.boolean_mask(values, keep)
        partition = RowPartition.from_value_rowids(kept, partition.nrows(), validate=False)
    rows = RaggedTensor._from_row_partition(values, partition, validate=False)
    return tf.strings.join(["[", tf.strings.reduce_join(rows, axis=-1, separator=", "), "]"])
