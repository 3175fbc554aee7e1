"""Lookups in several tables at once, with DeepRec's names.

The tables of a group that are embedding variables on one device are looked up, and their rows combined, by one op; so is their
gradient. Other tables have lookups of their own.
"""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.text import shown_text
from penstock._src.graph import context
from penstock._src.graph.constant import constant_value
from penstock._src.graph.handles import handle_dims
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.recording import variable_accessed
from penstock._src.ops.nn.embedding import embedding_lookup_sparse, lookup
from penstock._src.ops.registry import internal
from penstock._src.ops.state.keyed import MAKE_ROWS, by_number, table_of
from penstock.compat import v1 as tf

_ATTRS = ("T: type in {floating}, Tkeys: type in {int32 int64 string}, N: int >= 1, M: int >= 0, combiners: list(string)")
group_lookup = internal(
    "GroupKvResourceLookup",
    "resources: N * resource, indices: N * Tkeys, segments: N * int64, weights: M * T, rows: N * int64 -> output: N * T",
    f"{_ATTRS}, insert: bool = True", stateful=True, gpu=by_number, host="indices rows")

MAKE_ROWS.add(group_lookup.name)


@group_lookup.shape
def _group_lookup_shape(resources, indices, segments, weights, rows, *, N, c):
    handles, counts = c.op.inputs[:N], [constant_value(t) for t in c.op.inputs[-N:]]
    dims = [handle_dims(t) for t in handles]
    return [(None if n is None else int(n), None if d is None else d[1]) for n, d in zip(counts, dims, strict=True)]


@group_lookup.kernel
def _group_lookup_kernel(resources, indices, segments, weights, rows, *, combiners, insert):
    made = []
    for i, (resource, keys, where, count) in enumerate(zip(resources, indices, segments, rows, strict=True)):
        found, count = table_of(resource).lookup(keys.reshape(-1), insert=insert), int(count)
        _check_segments(where, len(keys), count)
        scale = _scales(where, count, weights[i] if weights else None, shown_text(combiners[i]), found.dtype)
        found = found if scale is None else found * scale[:, None]
        made.append(found.new_zeros(count, found.shape[1]).index_add_(0, where, found))
    return made


def _check_segments(where: torch.Tensor, keys: int, count: int) -> None:
    if len(where) != keys:
        raise errors.invalid(f"{keys} keys have {len(where)} rows")
    if len(where) and where.device.type == "cpu" and not 0 <= int(where.min()) <= int(where.max()) < count:
        raise errors.invalid(f"The rows of keys must be between 0 and {count - 1}")


def _scales(where: torch.Tensor, count: int, weights: torch.Tensor | None, combiner: str,
            dtype: torch.dtype) -> torch.Tensor | None:
    """What the row of each key is multiplied by; None if by 1."""
    if combiner == "sum":
        return weights
    each = torch.ones(len(where), dtype=dtype, device=where.device) if weights is None else weights
    total = each.new_zeros(count).index_add_(0, where, each if combiner == "mean" else each * each)
    total = total if combiner == "mean" else total.sqrt()
    return torch.where(total[where] == 0, torch.zeros_like(each), each / total[where])


group_rows = internal("GroupKvResourceLookupGrad",
                      "grads: N * T, indices: N * Tkeys, segments: N * int64, weights: M * T -> output: N * T", _ATTRS,
                      gpu=True, host="indices").no_gradient()


@group_rows.shape
def _group_rows_shape(grads, indices, segments, weights, *, N):
    return [(None if s is None else s[0], None if g is None else g[1]) for g, s in zip(grads, segments, strict=True)]


@group_rows.kernel
def _group_rows_kernel(grads, indices, segments, weights, *, combiners):
    made = []
    for i, (grad, where) in enumerate(zip(grads, segments, strict=True)):
        scale = _scales(where, len(grad), weights[i] if weights else None, shown_text(combiners[i]), grad.dtype)
        made.append(grad[where] if scale is None else grad[where] * scale[:, None])
    return made


@group_lookup.gradient
def _group_lookup_gradient(op, *grads):
    n, m = op.attrs["N"], op.attrs["M"]
    inputs = list(op.inputs)
    keys, segments, weights = inputs[n:2 * n], inputs[2 * n:3 * n], inputs[3 * n:3 * n + m]
    rows = group_rows(list(grads), keys, segments, weights, combiners=op.attrs["combiners"])
    slices = [IndexedSlices(r, k) for r, k in zip(rows, keys, strict=True)]
    return [*slices, *[None] * (len(inputs) - n)]


# -- functions --------------------------------------------------------------------------------------------------------
@export(v1=["nn.group_embedding_lookup"])
def group_embedding_lookup(params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None) -> list:
    """The rows of several tables, each for its own ids. Embedding variables on one device are looked up by one op.

    >>> users, items = tf.nn.group_embedding_lookup([user_table, item_table], [user_ids, item_ids])
    """
    _check_group(params, ids, "ids")
    with tf.name_scope(name, "group_embedding_lookup"):
        keys = [tf.convert_to_tensor(i) for i in ids]
        found: list = [None] * len(keys)
        for group in _groups(params, None):
            flat = [tf.reshape(_keys(params[i], keys[i]), [-1]) for i in group]
            places = [tf.range(tf.size(k, out_type=dtypes.int64), dtype=dtypes.int64) for k in flat]
            sizes = [tf.size(k, out_type=dtypes.int64) for k in flat]
            for i, rows in zip(group, _looked_up([params[i] for i in group], flat, places, [], sizes, ["sum"] * len(group)),
                               strict=True):
                found[i] = tf.reshape(rows, tf.concat([tf.shape(keys[i]), [params[i].dim]], 0))
                found[i].set_shape([*(keys[i].shape.static_dims or []), params[i].dim] if keys[i].shape.ndims is not None
                                   else None)
        return [lookup(p, i, partition_strategy) if f is None else f for p, i, f in zip(params, ids, found, strict=True)]


@export(v1=["nn.group_embedding_lookup_sparse"])
def group_embedding_lookup_sparse(params: Any, sp_ids: Any, combiners: Any, sp_weights: Any = None,
                                  partition_strategy: str = "mod", is_sequence: bool = False,
                                  params_num_per_group: int | None = None, name: str | None = None) -> list:
    """The embeddings of several tables, each combined over its own ids. A row without ids has zeros.

    Args:
        params: List of tables. Embedding variables on one device are looked up by one op; others by one each.
        sp_ids: List of SparseTensors or RaggedTensors, one for each table.
        combiners: List of "sum", "mean" or "sqrtn".
        sp_weights: List of weights like `sp_ids`, or None.
        partition_strategy: As for `tf.nn.embedding_lookup`.
        is_sequence: Whether the result has a vector for each position, [rows, positions, columns], instead of a combined one.
        params_num_per_group: The number of tables that one op looks up at most; by default any number.
        name: Name of the operations.

    >>> tf.nn.group_embedding_lookup_sparse([users, items], [user_ids, item_ids], ["mean", "sum"])
    """
    weights = [None] * len(params) if sp_weights is None else list(sp_weights)
    for given, what in (sp_ids, "sp_ids"), (combiners, "combiners"), (weights, "sp_weights"):
        _check_group(params, given, what)
    unknown = set(combiners) - {"sum", "mean", "sqrtn"}
    if unknown:
        raise ValueError(f"combiners must be 'mean', 'sqrtn' or 'sum', got {sorted(unknown)[0]!r}")
    if params_num_per_group is not None and params_num_per_group < 1:
        raise ValueError(f"params_num_per_group must be positive, got {params_num_per_group}")
    with tf.name_scope(name, "group_embedding_lookup_sparse"):
        if is_sequence:
            return [_by_position(p, i, partition_strategy) for p, i in zip(params, sp_ids, strict=True)]
        found: list = [None] * len(params)
        for group in _groups(params, params_num_per_group, [w is not None for w in weights]):
            for i, rows in zip(group, _group([params[i] for i in group], [sp_ids[i] for i in group],
                                             [combiners[i] for i in group], [weights[i] for i in group]), strict=True):
                found[i] = rows
        return [_of_each_row(p, i, w, c, partition_strategy) if f is None else f for p, i, w, c, f in zip(
            params, sp_ids, weights, combiners, found, strict=True)]


def _group(tables: list, ids: list, combiners: list, weights: list) -> list:
    """The combined embeddings of tables that one op looks up."""
    ids = [_sparse(i) for i in ids]
    given = [tf.cast(_sparse(w).values, tables[0].dtype) for w in weights if w is not None]
    return _looked_up(tables, [_keys(t, i.values) for t, i in zip(tables, ids, strict=True)], [i.indices[:, 0] for i in ids],
                      given, [tf.cast(i.dense_shape[0], dtypes.int64) for i in ids], combiners)


def _looked_up(tables: list, keys: list, segments: list, weights: list, rows: list, combiners: list) -> list:
    for t in tables:
        if context.state.tapes:
            variable_accessed(t)
    with tables[0]._beside():
        return list(group_lookup([t.handle for t in tables], keys, segments, weights, rows, combiners=combiners,
                                 T=tables[0].dtype, insert=tables[0].makes_rows()))


def _keys(table: Any, keys: Any) -> Any:
    return table._keys(keys)


def _groups(params: list, most: int | None, weighted: list[bool] | None = None) -> list[list[int]]:
    """The positions of tables that one op can look up: with keys and values of one type on one device; all or none with
    weights."""
    found: dict[Any, list[int]] = {}
    for i, p in enumerate(params):
        if getattr(p, "_keyed", False) and hasattr(p, "_beside"):
            kind = p.dtype, p.key_dtype, p._handle_device(), bool(weighted and weighted[i])
            found.setdefault(kind, []).append(i)
    most = most or len(params)
    return [some[at:at + most] for some in found.values() for at in range(0, len(some), most)]


def _check_group(params: Any, given: Any, what: str) -> None:
    if not isinstance(params, (list, tuple)) or len(params) != len(given):
        raise ValueError(f"params must be a list with a table for each of {what}, got {params}")


def _sparse(ids: Any) -> Any:
    return ids.to_sparse() if hasattr(ids, "to_sparse") else ids


def _of_each_row(table: Any, ids: Any, weights: Any, combiner: str, strategy: str) -> Any:
    """Combined embeddings of all rows: also of those at the end that have no ids."""
    ids = _sparse(ids)
    made = embedding_lookup_sparse(table, ids, weights, strategy, None, combiner)
    rows = tf.cast(ids.dense_shape[0], dtypes.int32)
    made = tf.pad(made, [[0, rows - tf.shape(made)[0]], [0, 0]])
    made.set_shape([tf.get_static_value(rows), made.shape[1]])
    return made


def _by_position(table: Any, ids: Any, strategy: str) -> Any:
    """The embeddings of all positions; those without an id have zeros."""
    ids = _sparse(ids)
    rows = lookup(table, ids.values, strategy)
    shape = tf.concat([ids.dense_shape, tf.cast(tf.shape(rows)[1:], dtypes.int64)], 0)
    return tf.scatter_nd(ids.indices, rows, shape)
