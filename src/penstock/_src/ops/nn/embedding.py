"""Embedding lookups: rows of one table, or of a table that is split over several tensors or tasks.

A sharded lookup sends each id to its shard (dynamic_partition), gathers on the shard's device, and restores the order of rows
(dynamic_stitch). Gradients are sparse: only the looked-up rows are updated.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.convert import convert
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.ops.composite import dispatched
from penstock.compat import v1 as tf


@export(v1=["nn.embedding_lookup"])
@dispatched
def embedding_lookup(params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None,
                     validate_indices: bool = True, max_norm: float | None = None) -> Any:
    """Rows `ids` of a table, or of a list of tables that share one space of ids.

    Args:
        params: Table [rows, ...], or a list of tables.
        ids: Integer tensor of any shape.
        partition_strategy: How ids are distributed over several tables: `"mod"` in turns, `"div"` in contiguous blocks.
        name: Name of the operation.
        validate_indices: Accepted for compatibility and unused: indices are always checked.
        max_norm: If given, rows are scaled down to this L2 norm.

    Returns:
        A tensor of shape [shape of ids..., ...]. Its gradient is IndexedSlices: only the rows in `ids` are updated.

    >>> table = tf.constant([[0., 0.], [1., 1.], [2., 2.]])
    >>> tf.nn.embedding_lookup(table, [2, 1]).numpy()
    array([[2., 2.],
           [1., 1.]], dtype=float32)
    """
    return lookup(params, ids, partition_strategy, name, max_norm)


@export(v2=["nn.embedding_lookup"])
@dispatched
def embedding_lookup_v2(params: Any, ids: Any, max_norm: float | None = None, name: str | None = None) -> Any:
    """Rows `ids` of a table, or of tables that hold consecutive ranges of ids.

    Args:
        params: Table [rows, …], or a list of tables with consecutive rows.
        ids: Integers of any shape.
        max_norm: Rows with a larger norm are scaled to it.
        name: Name of the operation.

    Returns:
        Tensor of the shape of `ids`, followed by that of a row.

    >>> tf.nn.embedding_lookup(tf.constant([[1., 2.], [3., 4.]]), [1, 0, 1]).numpy().tolist()
    [[3.0, 4.0], [1.0, 2.0], [3.0, 4.0]]
    """
    return lookup(params, ids, "div", name, max_norm)


def shards(params: Any) -> list:
    """The tables as a list: the parts of a partitioned variable, a list, or one table."""
    if params is None:
        raise ValueError("params must be specified")
    if hasattr(params, "_get_partitions"):
        return list(params)
    if isinstance(params, (list, tuple)):
        if not params:
            raise ValueError("Need at least one param")
        return list(params)
    return [params]


def _table(p: Any) -> Any:
    """The handle of a resource variable, for gathers; anything else as a tensor."""
    return p if hasattr(p, "handle") else convert(p, name="params")


def lookup(params: Any, ids: Any, strategy: str = "mod", name: str | None = None, max_norm: float | None = None,
           transform: Callable | None = None) -> Any:
    """The lookup; `transform` is applied to the rows of each shard, on its device."""
    tables = shards(params)
    if hasattr(tables[0], "composed"):             # of several tables, each of which has a row for every id
        with tf.name_scope(name, "embedding_lookup", [ids]):
            rows = clipped(tables[0].composed(ids, lambda table, some: lookup(table, some, strategy)), ids, max_norm)
            return rows if transform is None else transform(rows)
    with tf.name_scope(name, "embedding_lookup", [*tables, ids]) as scope:
        tables = [_table(p) for p in tables]
        ids = convert(ids, name="ids")
        if len(tables) == 1 and (transform is None or ids.shape.ndims == 1):
            with tf.colocate_with(tables[0]):
                rows = clipped(tf.gather(tables[0], ids, name=scope), ids, max_norm)
                rows = transform(rows) if transform is not None else rows
            return tf.identity(rows)
        return _sharded(tables, ids, strategy, scope, max_norm, transform)


def _sharded(tables: list, ids: Any, strategy: str, scope: str, max_norm: Any, transform: Callable | None) -> Any:
    n = len(tables)
    flat = tf.reshape(ids, [-1])
    shard, local = _assign(flat, tables, strategy)
    shard = tf.cast(shard, dtypes.int32)
    wanted = tf.dynamic_partition(local, shard, n)
    places = tf.dynamic_partition(tf.range(tf.size(flat)), shard, n)
    parts = []
    for table, some in zip(tables, wanted, strict=True):
        with tf.colocate_with(table):
            rows = tf.gather(table, some)
            parts.append(transform(clipped(rows, some, max_norm)) if transform is not None else rows)
    out = tf.raw_ops.ParallelDynamicStitch(indices=places, data=parts, name=scope)
    static = out.shape[1:] if transform is not None else _row_shape(tables)
    if static.is_fully_defined():
        row: Any = list(static.static_dims)
    else:
        row = tf.shape(out)[1:] if transform is not None else tf.shape(tables[0])[1:]
    out = tf.reshape(out, tf.concat([tf.shape(ids), convert(row, dtypes.int32)], 0))
    out.set_shape(ids.shape.concatenate(static))
    return out if transform is not None else clipped(out, ids, max_norm)


def _row_shape(tables: list) -> TensorShape:
    shape = tables[0].shape[1:]
    for t in tables[1:]:
        shape = shape.merge_with(t.shape[1:])
    return shape


def _assign(ids: Any, tables: list, strategy: str) -> tuple[Any, Any]:
    """For each id the number of its shard, and its row there."""
    n = len(tables)
    if getattr(tables[0], "_keyed", False):
        return tf.strings.to_hash_bucket_fast(ids, n) if ids.dtype == dtypes.string else ids % n, ids
    if strategy == "mod":
        return ids % n, ids // n
    if strategy != "div":
        raise ValueError(f"Unrecognized partition strategy: {strategy}")
    sizes = [None if t.shape.static_dims is None else t.shape.static_dims[0] for t in tables]
    if all(s is not None for s in sizes):
        total = tf.constant(sum(sizes), ids.dtype)  # type: ignore[arg-type]
    else:
        known = [tf.shape(t)[0] if s is None else s for t, s in zip(tables, sizes, strict=True)]
        total = tf.reduce_sum(tf.cast(tf.stack(known), ids.dtype))
    each, extra = total // n, total % n                # the first `extra` shards hold one row more
    shard = tf.maximum(ids // (each + 1), (ids - extra) // each)
    return shard, tf.where(shard < extra, ids % (each + 1), (ids - extra) % each)


def clipped(rows: Any, ids: Any, max_norm: float | None) -> Any:
    """Rows scaled down to an l2 norm of at most `max_norm`."""
    if max_norm is None:
        return rows
    first, last = convert(ids).shape.ndims, rows.shape.ndims
    if first and last:
        return tf.clip_by_norm(rows, max_norm, axes=list(range(first, last)))
    return tf.clip_by_norm(rows, max_norm, axes=tf.range(tf.rank(ids), tf.rank(rows)))


COMBINERS = ("mean", "sqrtn", "sum")


@export(v1=["nn.embedding_lookup_sparse"])
@dispatched
def embedding_lookup_sparse(params: Any, sp_ids: Any, sp_weights: Any, partition_strategy: str = "mod",
                            name: str | None = None, combiner: str | None = None, max_norm: float | None = None,
                            allow_fast_lookup: bool = False) -> Any:
    """The embeddings of the ids in each row, weighted and combined: "sum", "mean", or "sqrtn".

    `allow_fast_lookup` is accepted and unused: ids are never sorted.

    >>> tf.nn.embedding_lookup_sparse(table, sparse_ids, None, combiner="mean")
    """
    combiner = "mean" if combiner is None else combiner
    if combiner not in COMBINERS:
        raise ValueError("combiner must be one of 'mean', 'sqrtn' or 'sum'")
    tables = shards(params)
    sp_ids, sp_weights = (x.to_sparse() if hasattr(x, "to_sparse") else x for x in (sp_ids, sp_weights))
    if not isinstance(sp_ids, SparseTensor):
        raise TypeError(f"sp_ids must be a SparseTensor or RaggedTensor, got {type(sp_ids)}")
    if sp_weights is not None:
        if not isinstance(sp_weights, SparseTensor):
            raise TypeError(f"sp_weights must be either None or like sp_ids, got {type(sp_weights)}")
        for part in ("values", "indices", "dense_shape"):
            getattr(sp_ids, part).shape.assert_is_compatible_with(getattr(sp_weights, part).shape)
    with tf.name_scope(name, "embedding_lookup_sparse", [*tables, sp_ids.values]) as scope:
        segments = tf.cast(sp_ids.indices[:, 0], dtypes.int32)
        ids, where = tf.unique(sp_ids.values)
        rows = lookup(tables, ids, partition_strategy, None, max_norm)
        if rows.dtype not in (dtypes.float16, dtypes.bfloat16):
            return _combined(rows, where, sp_weights, segments, combiner, scope)
        wide = _combined(tf.cast(rows, dtypes.float32), where, sp_weights, segments, combiner, None)
        return tf.cast(wide, rows.dtype, name=scope)


def _combined(rows: Any, where: Any, sp_weights: Any, segments: Any, combiner: str, scope: str | None) -> Any:
    if sp_weights is None:
        combine = {"sum": tf.sparse_segment_sum, "mean": tf.sparse_segment_mean, "sqrtn": tf.sparse_segment_sqrt_n}
        return combine[combiner](rows, where, segments, name=scope)
    return _weighted(tf.gather(rows, where), sp_weights.values, segments, combiner, scope)


def _weighted(rows: Any, weights: Any, segments: Any, combiner: str, scope: str | None) -> Any:
    weights = tf.cast(weights, rows.dtype)
    rank = rows.shape.ndims
    ones = [1] * (rank - 1) if rank is not None else tf.fill(tf.expand_dims(tf.rank(rows) - 1, 0), 1)
    weights = tf.reshape(weights, tf.concat([tf.shape(weights), convert(ones, dtypes.int32)], 0))
    total = tf.segment_sum(rows * weights, segments, name=scope if combiner == "sum" else None)
    if combiner == "sum":
        return total
    if combiner == "mean":
        return tf.div_no_nan(total, tf.segment_sum(weights, segments), name=scope)       # rows without ids are zeros
    return tf.div_no_nan(total, tf.sqrt(tf.segment_sum(tf.square(weights), segments)), name=scope)


@export(v2=["nn.embedding_lookup_sparse"])
@dispatched
def embedding_lookup_sparse_v2(params: Any, sp_ids: Any, sp_weights: Any, combiner: str | None = None,
                               max_norm: float | None = None, name: str | None = None, allow_fast_lookup: bool = False) -> Any:
    """The embeddings of the ids in each row, weighted and combined; tables hold consecutive ranges of ids."""
    return embedding_lookup_sparse(params, sp_ids, sp_weights, "div", name, combiner, max_norm)


@export(v1=["nn.safe_embedding_lookup_sparse"])
@dispatched
def safe_embedding_lookup_sparse(embedding_weights: Any, sparse_ids: Any, sparse_weights: Any = None,
                                 combiner: str = "mean", default_id: Any = None, name: str | None = None,
                                 partition_strategy: str = "div", max_norm: float | None = None,
                                 allow_fast_lookup: bool = False) -> Any:
    """embedding_lookup_sparse that ignores negative ids and weights that are not positive.

    A row without ids gets the embedding of `default_id`, or zeros. Ids may have any rank above 1; the last dimension is
    combined.
    """
    if embedding_weights is None or isinstance(embedding_weights, (list, tuple)) and not embedding_weights:
        raise ValueError(f"Missing embedding_weights {embedding_weights}.")
    tables = shards(embedding_weights)
    _same_float_type(tables, sparse_weights)
    with tf.name_scope(name, "embedding_lookup", [*tables, sparse_ids.values]) as scope:
        outer_rank = sparse_ids.dense_shape.shape.static_dims
        outer_rank = outer_rank[0] - 1 if outer_rank is not None and outer_rank[0] is not None \
            else tf.size(sparse_ids.dense_shape) - 1
        original = sparse_ids.dense_shape
        last = tf.gather(original, outer_rank)
        folded = [tf.reduce_prod(tf.slice(original, [0], [outer_rank])), last]
        sparse_ids = tf.sparse_reshape(sparse_ids, folded)
        if sparse_weights is not None:
            sparse_weights = SparseTensor(sparse_ids.indices, sparse_weights.values, sparse_ids.dense_shape)
        keyed = getattr(tables[0], "_keyed", False)
        sparse_ids, sparse_weights = _valid(sparse_ids, sparse_weights, combiner, keyed)
        missing: Any = "" if sparse_ids.values.dtype == dtypes.string else 0
        sparse_ids, empty = tf.sparse_fill_empty_rows(sparse_ids, default_id or missing)
        if sparse_weights is not None:
            sparse_weights, _ = tf.sparse_fill_empty_rows(sparse_weights, 1.0)
        out = embedding_lookup_sparse(tables, sparse_ids, sparse_weights, partition_strategy,
                                      None if default_id is None else scope, combiner, max_norm)
        if default_id is None:
            mask = tf.tile(tf.reshape(empty, [-1, 1]), tf.stack([1, tf.shape(out)[1]]))
            out = tf.where(mask, tf.zeros_like(out), out, name=scope)
        return _unfolded(out, original, outer_rank)


def _same_float_type(tables: list, weights: Any) -> None:
    """Raises TypeError if the tables differ in type, ValueError if the weights differ from them."""
    kinds = {convert(t).dtype.base_dtype if not hasattr(t, "dtype") else dtypes.as_dtype(t.dtype).base_dtype for t in tables}
    if len(kinds) > 1:
        raise TypeError(f"Embeddings must have one dtype, got {', '.join(sorted(k.name for k in kinds))}")
    kind, = kinds
    if weights is not None and weights.dtype.base_dtype != kind:
        raise ValueError(f"Embeddings and weights must have one dtype, got {kind.name} and "
                         f"{weights.dtype.base_dtype.name}")


def _valid(ids: SparseTensor, weights: SparseTensor | None, combiner: str, keyed: bool) -> tuple[SparseTensor, Any]:
    """Without negative ids (as keys they are valid), and (unless combiner is "sum") without weights that are not positive."""
    keep = None if keyed else tf.greater_equal(ids.values, 0)
    if weights is not None and combiner != "sum":
        positive = tf.greater(weights.values, tf.zeros_like(weights.values))
        keep = positive if keep is None else tf.logical_and(keep, positive)
    if keep is None:
        return ids, weights
    return tf.sparse_retain(ids, keep), None if weights is None else tf.sparse_retain(weights, keep)


def _unfolded(out: Any, original: Any, outer_rank: Any) -> Any:
    """Reshapes the combined rows to the leading dimensions of the ids."""
    rows = tf.reshape(out, tf.concat([tf.slice(tf.cast(original, dtypes.int32), [0], [outer_rank]),
                                      tf.slice(tf.shape(out), [1], [-1])], 0))
    if isinstance(outer_rank, int):
        rows.set_shape(TensorShape([None] * outer_rank).concatenate(out.shape[1:]))
    return rows


@export(v2=["nn.safe_embedding_lookup_sparse"])
@dispatched
def safe_embedding_lookup_sparse_v2(embedding_weights: Any, sparse_ids: Any, sparse_weights: Any = None,
                                    combiner: str = "mean", default_id: Any = None, max_norm: float | None = None,
                                    name: str | None = None, allow_fast_lookup: bool = False) -> Any:
    """embedding_lookup_sparse that ignores invalid ids and rows without any."""
    return safe_embedding_lookup_sparse(embedding_weights, sparse_ids, sparse_weights, combiner, default_id, name, "div",
                                        max_norm)
