"""Construction and densification of sparse tensors: placeholders, from_dense, eye, to_dense, merge, indicators, masks."""
from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import torch

from penstock._src.base import dtypes, errors, nest
from penstock._src.base.api import export
from penstock._src.base.static_shape import rank_is
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.sparse_tensor import SparseTensor, SparseTensorValue
from penstock._src.kernels import arrays, sparse
from penstock._src.kernels import rows as fast_rows
from penstock._src.ops.registry import get, op
from penstock._src.ops.sparse.sparse_layout import as_sparse, sparse_reorder
from penstock.compat import v1 as tf


@export(v1=["sparse.placeholder", "sparse_placeholder"])
def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SparseTensor:
    """A sparse tensor that must be fed, with a SparseTensorValue or a triple of arrays.

    Args:
        dtype: Type of the values.
        shape: Dense shape, as far as it is known.
        name: Name of the operation.

    Returns:
        A SparseTensor. Evaluating it without a feed is an error.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     x = tf.sparse_placeholder(tf.float32)
    ...     total = tf.sparse_reduce_sum(x)
    ...     print(sess.run(total, {x: tf.SparseTensorValue([[0, 1]], [5.], [1, 2])}))
    5.0
    """
    if context.executing_eagerly():
        raise RuntimeError("tf.sparse.placeholder() is not compatible with eager execution.")

    def named(part: str) -> str | None:
        return None if name is None else f"{name}/{part}"
    rank = None
    if isinstance(shape, Tensor):
        rank = shape.shape.as_list()[0] if shape.shape.ndims is not None else None
    elif shape is not None:
        shape = shape.as_list() if hasattr(shape, "as_list") else list(shape)
        rank = len(shape)
    if shape is None or not isinstance(shape, Tensor) and None in shape:
        dense_shape = tf.placeholder(dtypes.int64, [rank], name=named("shape"))
    else:
        dense_shape = convert(shape, dtypes.int64, named("shape"))
    values = tf.placeholder(dtype, [None], name=named("values"))
    indices = tf.placeholder(dtypes.int64, [None, rank], name=named("indices"))
    made = SparseTensor(indices, values, dense_shape)
    if rank is not None and not isinstance(shape, Tensor):
        made.set_shape(shape)
    return made


@export("sparse.from_dense")
def from_dense(tensor: Any, name: str | None = None) -> SparseTensor:
    """The elements of a dense tensor that are not zero (or not the empty string).

    Args:
        tensor: The dense tensor.
        name: A name for the op.

    Returns:
        A SparseTensor.

    >>> tf.sparse.from_dense([[0, 3], [0, 0]]).indices.numpy().tolist()
    [[0, 1]]
    """
    with tf.name_scope(name, "dense_to_sparse"):
        tensor = convert(tensor)
        zero = tf.zeros([], tensor.dtype.base_dtype)                # the empty string, False
        indices = tf.where_v2(tf.not_equal(tensor, zero))
        return SparseTensor(indices, tf.gather_nd(tensor, indices), tf.shape(tensor, out_type=dtypes.int64))


@export("sparse.eye")
def sparse_eye(num_rows: Any, num_columns: Any = None, dtype: Any = dtypes.float32, name: str | None = None) -> SparseTensor:
    """The identity matrix, or as much of it as fits into the given size."""
    with tf.name_scope(name, "eye", [num_rows, num_columns]):
        rows = _int64(num_rows, "num_rows")
        columns = rows if num_columns is None else _int64(num_columns, "num_columns")
        size = tf.minimum(rows, columns)
        places = tf.range(size, dtype=dtypes.int64)
        return SparseTensor(tf.stack([places, places], axis=1), tf.ones(tf.expand_dims(size, 0), dtype),
                            tf.stack([rows, columns]))


def _int64(value: Any, name: str) -> Tensor:
    if isinstance(value, numbers.Integral):
        return convert(int(value), dtypes.int64, name)
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be an integer value")
    return tf.cast(value, dtypes.int64)


# -- SparseToDense ---------------------------------------------------------------------------------------------------
to_dense_op = op("SparseToDense", "sparse_indices: Tindices, output_shape: Tindices, sparse_values: T, default_value: T -> "
                                  "dense: T", "validate_indices: bool = True, T: type, Tindices: type in {index}")


@to_dense_op.shape
def _to_dense_shape(sparse_indices, output_shape, sparse_values, default_value, *, c):
    rank_is(output_shape, 1)
    return c.dims("output_shape")


@to_dense_op.kernel
def _to_dense_kernel(sparse_indices, output_shape, sparse_values, default_value, *, validate_indices):
    indices, dims = _checked(sparse_indices, output_shape, sparse_values, default_value)
    if _is_whole(indices, dims, sparse_values):
        return sparse_values.clone()
    out = sparse.full(dims, default_value)
    if not indices.shape[0]:
        return out
    if validate_indices:
        key = sparse.check_valid(indices, dims)
    else:
        found = fast_rows.positions(indices, dims)
        if found is None:
            if sparse.first_outside(indices, dims) is not None:
                raise errors.invalid(f"Indices are not valid (out of bounds).  Shape: {arrays.show(dims)}")
            found = sparse.positions(indices, dims), False
        key, validate_indices = found                        # growing positions are not repeated
    values = arrays.expand(sparse_values, (indices.shape[0],))
    if not arrays.is_torch(out):
        out.reshape(-1)[key.cpu().numpy()] = values
        return out
    if not validate_indices:
        key, values = _last_of_each(key, values)
    arrays.signed(out).view(-1).index_copy_(0, key, arrays.signed(values))
    return out


def _is_whole(indices: torch.Tensor, dims: list[int], values: Any) -> bool:
    """Whether values are all elements of a vector in their order, as lists of parsed examples are."""
    return len(dims) == 1 and isinstance(values, torch.Tensor) and values.shape == (dims[0],) and indices.is_cpu and \
        dims[0] <= _SHORT and indices.shape == (dims[0], 1) and type(indices) is torch.Tensor and \
        indices.reshape(-1).tolist() == list(range(dims[0]))


_SHORT = 256            # elements of a vector that Python compares faster than torch


def _checked(indices: torch.Tensor, shape: torch.Tensor, values: Any, default: Any) -> tuple[torch.Tensor, list[int]]:
    """Indices as a matrix, and the output's sizes."""
    if indices.dim() > 2:
        raise errors.invalid("sparse_indices should be a scalar, vector, or matrix, got shape "
                             f"{arrays.show(indices.shape)}")
    count = indices.shape[0] if indices.dim() else 1
    rank = indices.shape[1] if indices.dim() > 1 else 1
    if shape.dim() != 1:
        raise errors.invalid(f"output_shape must be rank 1, a vector, but has shape {arrays.show(shape.shape)}")
    if shape.numel() != rank:
        raise errors.invalid(f"output_shape has incorrect number of elements: {shape.numel()} should be: {rank}")
    if arrays.dims_of(values) not in ((), (count,)):
        raise errors.invalid(f"sparse_values has incorrect shape {arrays.show(arrays.dims_of(values))}, should be [] or "
                             f"[{count}]")
    if arrays.dims_of(default) != ():
        raise errors.invalid("default_value should be a scalar.")
    return indices.reshape(count, rank).long(), sparse.sizes(shape, "output_shape")


def _last_of_each(key: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The last value for each key, so that no position is written twice."""
    order = torch.argsort(key, stable=True)
    key = key[order]
    last = torch.ones_like(key, dtype=torch.bool)
    last[:-1] = key[1:] != key[:-1]
    return key[last], sparse.take(values, order[last])


@to_dense_op.gradient
def _to_dense_gradient(op, grad):
    indices, shape = op.inputs[:2]
    static = indices.static_dims
    if static is None:
        rows = get("Reshape")(indices, get("ConcatV2")([[-1], get("Shape")(shape)], 0))
    else:
        rows = indices if len(static) == 2 else get("Reshape")(indices, [-1, 1])
    per_row = get("GatherNd")(grad, rows)
    total = get("Sum")(grad, get("Range")(0, get("Rank")(grad), 1))
    some = get("Sum")(per_row, [0])
    values = op.inputs[2]
    of_values = some if values.static_dims == () else per_row if values.static_dims is not None else \
        tf.cond(tf.equal(tf.rank(values), 0), lambda: some, lambda: per_row)
    return None, None, of_values, total - some


@export(v1=["sparse_to_dense"])
def sparse_to_dense(sparse_indices: Any, output_shape: Any, sparse_values: Any, default_value: Any = 0,
                    validate_indices: bool = True, name: str | None = None) -> Tensor:
    """A dense tensor of `default_value` with `sparse_values` (one per index, or one for all) at `sparse_indices`.

    Args:
        sparse_indices: Indices [count, rank].
        output_shape: Shape of the result.
        sparse_values: A value per index, or one for all.
        default_value: Value of the other elements.
        validate_indices: Whether to check that indices are sorted and not repeated.
        name: Name of the operation.

    Returns:
        A dense tensor.

    >>> tf.sparse_to_dense([[0, 1], [1, 2]], [2, 3], [5, 7]).numpy()
    array([[0, 5, 0],
           [0, 0, 7]], dtype=int32)
    """
    return to_dense_op(sparse_indices, output_shape, sparse_values, default_value, validate_indices=validate_indices,
                       name=name)


@export("sparse.to_dense", v1=["sparse_tensor_to_dense"])
def sparse_tensor_to_dense(sp_input: Any, default_value: Any = None, validate_indices: bool = True,
                           name: str | None = None) -> Tensor:
    """The dense tensor, with `default_value` (0, or the empty string) where the sparse one has no element.

    Args:
        sp_input: SparseTensor.
        default_value: Value of the other elements.
        validate_indices: Whether to check that indices are sorted and not repeated.
        name: Name of the operation.

    Returns:
        A dense tensor.

    >>> tf.sparse.to_dense(tf.SparseTensor([[0, 1]], [5], [1, 2])).numpy()
    array([[0, 5]], dtype=int32)
    """
    sp = as_sparse(sp_input)
    if default_value is None:
        default_value = tf.zeros([], sp.dtype)
    return to_dense_op(sp.indices, sp.dense_shape, sp.values, default_value, validate_indices=validate_indices, name=name)


# -- merging ids and values --------------------------------------------------------------------------------------------
@export("sparse.to_indicator", v1=["sparse_to_indicator"])
def sparse_to_indicator(sp_input: Any, vocab_size: Any, name: str | None = None) -> Tensor:
    """A dense boolean tensor whose last axis says which of `vocab_size` ids the rows of a sparse tensor of ids hold."""
    sp = as_sparse(sp_input)
    with tf.name_scope(name, "SparseToIndicator", [sp]) as scope:
        marks = tf.fill(tf.expand_dims(tf.shape(sp.indices)[0], 0), True)
        merged = _merged(sp, sp.with_values(marks), vocab_size, scope)
        return sparse_tensor_to_dense(merged, False, validate_indices=False, name=scope)


@export(v1=["sparse.merge", "sparse_merge"])
def sparse_merge(sp_ids: Any, sp_values: Any, vocab_size: Any, name: str | None = None,
                 already_sorted: bool = False) -> SparseTensor:
    """A sparse tensor of values whose last axes are given by sparse tensors of ids (one axis of `vocab_size` each)."""
    return _merged(sp_ids, sp_values, vocab_size, name, already_sorted)


def _merged(sp_ids: Any, sp_values: Any, vocab_size: Any, name: str | None, already_sorted: bool = False) -> SparseTensor:
    ids, limits = _vocabularies(sp_ids, vocab_size)
    with tf.name_scope(name, "SparseMerge"):
        ids = [as_sparse(i) for i in ids]
        values = as_sparse(sp_values)
        limits = [tf.cast(v, dtypes.int64) for v in limits]
        columns = [tf.expand_dims(tf.cast(i.values, dtypes.int64), 1) for i in ids]
        indices = tf.concat([ids[0].indices[:, :-1], *columns], 1)
        shape = tf.concat([ids[0].dense_shape[:-1], tf.stack(limits)], 0)
        result = SparseTensor(indices, values.values, shape)
        if already_sorted:
            return result
        ordered = sparse_reorder(result)
        return SparseTensor(ordered.indices, ordered.values, shape)


def _vocabularies(sp_ids: Any, vocab_size: Any) -> tuple[list, list]:
    """Lists of sparse ids and of the sizes of their vocabularies, checked."""
    if isinstance(sp_ids, (SparseTensor, SparseTensorValue)):
        if not isinstance(vocab_size, (Tensor, numbers.Integral)):
            raise TypeError(f"vocab_size has to be a Tensor or Python int. Found {type(vocab_size)}")
        return [sp_ids], [vocab_size]
    if not isinstance(sp_ids, Iterable):
        raise TypeError(f"sp_ids has to be a SparseTensor or list thereof. Found {type(sp_ids)}")
    if isinstance(vocab_size, Tensor) or not isinstance(vocab_size, Iterable):
        raise TypeError(f"vocab_size has to be a list of Tensors or Python ints. Found {type(vocab_size)}")
    ids, limits = list(sp_ids), list(vocab_size)
    for v in limits:
        if not isinstance(v, (Tensor, numbers.Integral)):
            raise TypeError(f"vocab_size has to be a list of Tensors or Python ints. Found {type(v)}")
    if len(ids) != len(limits):
        raise ValueError("sp_ids and vocab_size have different lengths.")
    return ids, limits


@export("sparse.map_values")
def map_values(op: Any, *args: Any, **kwargs: Any) -> SparseTensor:
    """`op` called with the values in place of sparse tensors; its result has their indices and shape.

    >>> tf.sparse.map_values(tf.multiply, 10, tf.sparse.from_dense([[1, 0, 2]])).values
    <tf.Tensor: shape=(2,), dtype=int32, numpy=array([10, 20], dtype=int32)>
    """
    found = [x for x in nest.flatten((args, kwargs)) if isinstance(x, SparseTensor)]
    if not found:
        raise ValueError("map_values needs a SparseTensor among its arguments")
    first = found[0]
    checks = [check for other in found[1:] for check in (
        tf.debugging.assert_equal(first.dense_shape, other.dense_shape, message="Mismatched shapes!"),
        tf.debugging.assert_equal(first.indices, other.indices, message="Mismatched indices!")) if check is not None]
    args, kwargs = nest.map_structure(lambda x: x.values if isinstance(x, SparseTensor) else x, (args, kwargs))
    with tf.control_dependencies(checks):
        return SparseTensor(first.indices, op(*args, **kwargs), first.dense_shape)
