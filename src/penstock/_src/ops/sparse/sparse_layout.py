"""Sparse tensors with their elements in another order or shape: reorder, reshape, transpose, retain, fill empty rows."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape, merge, rank_is, show
from penstock._src.graph.constant import constant_dims, constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.sparse_tensor import SparseTensor, SparseTensorValue
from penstock._src.kernels import arrays, indexing, sparse, unsigned
from penstock._src.kernels import rows as fast_rows
from penstock._src.ops.registry import get, op
from penstock.compat import v1 as tf


def as_sparse(value: Any) -> SparseTensor:
    """A SparseTensor from one or from a SparseTensorValue; TypeError for anything else."""
    if isinstance(value, SparseTensorValue):
        return SparseTensor.from_value(value)
    if not isinstance(value, SparseTensor):
        raise TypeError(f"Input must be a SparseTensor, not {type(value).__name__}.")
    return value


def parts_of(sp: SparseTensor) -> tuple[Tensor, Tensor, Tensor]:
    """The three tensors, in the order in which ops take them."""
    return sp.indices, sp.values, sp.dense_shape


def check_ranks(indices: Any, values: Any, shape: Any) -> None:
    """Raises ValueError unless the static shapes are those of a matrix and two vectors."""
    rank_is(indices, 2)
    rank_is(values, 1)
    rank_is(shape, 1)


# -- SparseReorder -----------------------------------------------------------------------------------------------
reorder_op = op("SparseReorder", "input_indices: int64, input_values: T, input_shape: int64 -> output_indices: int64, "
                                 "output_values: T", "T: type")


@reorder_op.shape
def _reorder_shape(input_indices, input_values, input_shape):
    check_ranks(input_indices, input_values, input_shape)
    return [rank_is(input_indices, 2), rank_is(input_values, 1)]


@reorder_op.kernel
def _reorder_kernel(input_indices, input_values, input_shape):
    sparse.check(input_indices, input_values, input_shape)
    order = sparse.order(input_indices)
    return input_indices[order], sparse.take(input_values, order)


@reorder_op.gradient
def _reorder_gradient(op, _, grad):
    indices, _, shape = op.inputs
    count = get("Shape")(indices)[0]
    places = reorder_op(indices, get("Range")(0, count, 1), shape)[1]
    return None, get("GatherV2")(grad, get("InvertPermutation")(places), 0), None


@export("sparse.reorder", v1=["sparse_reorder"])
def sparse_reorder(sp_input: Any, name: str | None = None) -> SparseTensor:
    """The same sparse tensor with its elements in row-major order.

    >>> tf.sparse.reorder(tf.SparseTensor([[1, 0], [0, 1]], [10, 20], [2, 2])).values      # [20, 10]
    """
    sp = as_sparse(sp_input)
    indices, values = reorder_op(*parts_of(sp), name=name)
    static = sp.shape
    shape = static.as_list() if static.is_fully_defined() else tf.identity(sp.dense_shape)
    return SparseTensor(indices, values, shape)


# -- SparseReshape ---------------------------------------------------------------------------------------------
reshape_op = op("SparseReshape", "input_indices: int64, input_shape: int64, new_shape: int64 -> output_indices: int64, "
                                 "output_shape: int64").no_gradient()


@reshape_op.shape
def _reshape_shape(input_indices, input_shape, new_shape):
    rank_is(input_shape, 1)
    new = rank_is(new_shape, 1)
    return [(rank_is(input_indices, 2)[0], new[0]), new]


@reshape_op.kernel
def _reshape_kernel(input_indices, input_shape, new_shape):
    if input_indices.dim() != 2:
        raise errors.invalid(f"Input indices should be a matrix but received shape {arrays.show(input_indices.shape)}")
    old = sparse.sizes(input_shape)
    if new_shape.dim() != 1:
        raise errors.invalid(f"Target shape should be a vector but received shape {arrays.show(new_shape.shape)}")
    new = completed(old, new_shape.tolist())
    if input_indices.shape[1] != len(old):
        raise errors.invalid(f"Input indices have {input_indices.shape[1]} columns for a shape of rank {len(old)}")
    if old == new:
        return input_indices, input_shape
    key = sparse.positions(input_indices, old)
    return sparse.coordinates(key, new), sparse.vector(new, input_shape)


def completed(old: list[int], new: list[int]) -> list[int]:
    """The sizes `new` with their -1 computed, checked to have as many elements as `old`."""
    total, known, missing = math.prod(old), 1, None
    for i, d in enumerate(new):
        if d == -1:
            if missing is not None:
                raise errors.invalid(f"only one output dimension may be -1, not both {missing} and {i}")
            missing = i
        elif d < 0:
            raise errors.invalid(f"size {i} must be non-negative, not {d}")
        else:
            known *= d
    shown = f"input_shape={arrays.show(old)} output_shape={arrays.show(new)}"
    if missing is not None:
        if known == 0:
            raise errors.invalid("reshape cannot infer the missing input size for an empty tensor unless all specified "
                                 "input sizes are non-zero")
        if total % known:
            raise errors.invalid(f"Input to reshape is a SparseTensor with {total} dense values, but the requested shape "
                                 f"requires a multiple of {known}. {shown}")
        new = [total // known if i == missing else d for i, d in enumerate(new)]
    elif known != total:
        raise errors.invalid(f"Input to reshape is a tensor with {total} dense values, but the requested shape has "
                             f"{known}. {shown}")
    return new


@export("sparse.reshape", v1=["sparse_reshape"])
def sparse_reshape(sp_input: Any, shape: Any, name: str | None = None) -> SparseTensor:
    """The same elements in row-major order under another dense shape; one size may be -1."""
    sp = as_sparse(sp_input)
    shape = tf.cast(shape, dtypes.int64)
    with tf.name_scope(name, "SparseReshape", [sp]) as scope:
        static = _static_reshape(sp.shape, shape)
        indices, dense_shape = reshape_op(sp.indices, sp.dense_shape, shape, name=scope)
        if static is not None:
            dense_shape = tf.constant(static, dtypes.int64)
        return SparseTensor(indices, tf.identity(sp.values), dense_shape)


def _static_reshape(old: TensorShape, shape: Tensor) -> list[int] | None:
    """The sizes after a reshape, where the old ones and all but one of the new ones are known; ValueError on a misfit."""
    total = old.num_elements()
    if total is None:
        return None
    known = constant_value(shape)
    if known is not None and known.tolist().count(-1) > 1:
        raise ValueError(f"At most one dimension can be inferred (-1). Found: {known.tolist()}")
    wanted = constant_dims(shape)
    if wanted is None or wanted.count(None) > 1:
        return None
    rest = math.prod(d for d in wanted if d is not None)
    if None in wanted and rest and total % rest == 0:
        return [total // rest if d is None else d for d in wanted]
    if None in wanted or rest != total:
        raise ValueError(f"Cannot reshape a tensor with {total} elements to shape {show(wanted)} ({rest} elements).")
    return list(wanted)


# -- transpose, expand_dims, reset_shape, retain ------------------------------------------------------------------
@export("sparse.transpose", v1=["sparse_transpose"])
def sparse_transpose(sp_input: Any, perm: Any = None, name: str | None = None) -> SparseTensor:
    """A sparse tensor with its axes in another order, its elements in row-major order.

    Args:
        sp_input: The SparseTensor.
        perm: The order of the axes; reversed by default.
        name: A name for the op.

    Returns:
        A SparseTensor.

    >>> tf.sparse.to_dense(tf.sparse.transpose(tf.sparse.from_dense([[1, 2]]))).numpy().tolist()
    [[1], [2]]
    """
    sp = as_sparse(sp_input)
    with tf.name_scope(name, "SparseTranspose", [sp]):
        if perm is None:
            rank = sp.dense_shape.shape.as_list()[0] if sp.dense_shape.shape.ndims is not None else None
            perm = list(range(rank))[::-1] if rank is not None else tf.rank(sp) - 1 - tf.range(0, tf.rank(sp), 1)
        perm = convert(perm, name="perm")
        indices = tf.gather(sp.indices, perm, axis=1)
        known, static = constant_value(perm), sp.shape
        if known is not None and static.is_fully_defined():
            shape: Any = [static.as_list()[p] for p in known.tolist()]
        else:
            shape = tf.gather(sp.dense_shape, perm)
        return sparse_reorder(SparseTensor(indices, sp.values, shape))


@export("sparse.expand_dims")
def sparse_expand_dims(sp_input: Any, axis: Any = None, name: str | None = None) -> SparseTensor:
    """The sparse tensor with an axis of size 1 put in at `axis` (the end by default)."""
    sp = as_sparse(sp_input)
    axis = -1 if axis is None else axis
    with tf.name_scope(name, "expand_dims", [sp]):
        if isinstance(axis, (int, np.integer)):
            rank = sp.dense_shape.shape.as_list()[0] if sp.dense_shape.shape.ndims is not None else None
            if rank is not None and not -rank - 1 <= axis <= rank:
                raise ValueError(f"axis {axis} must be in range [{-rank - 1}, {rank}]")
        elif not isinstance(axis, Tensor):
            raise TypeError("axis must be an integer value in range [-rank(sp_input) - 1, rank(sp_input)]")
        axis = convert(axis, name="axis")
        axis = tf.where_v2(axis >= 0, axis, axis + tf.cast(tf.rank(sp), axis.dtype) + 1)
        row, one = tf.zeros([tf.shape(sp.indices)[0], 1], dtypes.int64), tf.ones([1], dtypes.int64)
        start = tf.stack([tf.zeros_like(axis), axis])
        indices = tf.concat([tf.slice(sp.indices, [0, 0], tf.stack([tf.constant(-1, axis.dtype), axis])), row,
                             tf.slice(sp.indices, start, [-1, -1])], 1)
        shape = tf.concat([sp.dense_shape[:axis], one, sp.dense_shape[axis:]], 0)
        return SparseTensor(indices, sp.values, shape)


@export("sparse.reset_shape", v1=["sparse_reset_shape"])
def sparse_reset_shape(sp_input: Any, new_shape: Any = None) -> SparseTensor:
    """The same elements in a dense shape that is larger, or (by default) as small as the elements allow."""
    sp = as_sparse(sp_input)
    indices, values, shape = tf.identity(sp.indices), tf.identity(sp.values), tf.identity(sp.dense_shape)
    if new_shape is None:
        least = tf.reduce_max(indices, axis=0)
        return SparseTensor(indices, values, tf.maximum(tf.constant(0, dtypes.int64), least + tf.ones_like(shape)))
    new = convert(new_shape, name="new_shape")
    new.shape.assert_has_rank(1)
    new = tf.cast(new, dtypes.int64)
    new.shape.merge_with(shape.shape)
    known, static = constant_value(new), sp.shape
    if known is not None and static.is_fully_defined():
        if not np.all(np.array(static.as_list()) <= known):
            raise ValueError("Requested new_shape should have dimension sizes >= sp_input.shape. Found new_shape "
                             f"({known}), sp_input.shape ({static}).")
        return SparseTensor(indices, values, known)
    with tf.control_dependencies([tf.assert_equal(tf.shape(shape), tf.shape(new))]):
        new = tf.identity(new)
    with tf.control_dependencies([tf.assert_less_equal(shape, new)]):
        return SparseTensor(indices, values, tf.identity(new))


@export("sparse.retain", v1=["sparse_retain"])
def sparse_retain(sp_input: Any, to_retain: Any) -> SparseTensor:
    """The elements for which the boolean vector `to_retain` holds.

    Args:
        sp_input: SparseTensor.
        to_retain: Boolean vector with one element per value.

    Returns:
        A SparseTensor.

    >>> x = tf.SparseTensor([[0, 0], [0, 2]], [5, 7], [1, 3])
    >>> tf.compat.v1.sparse_tensor_to_dense(tf.sparse.retain(x, [False, True])).numpy()
    array([[0, 0, 7]], dtype=int32)
    """
    sp = as_sparse(sp_input)
    keep = convert(to_retain, name="to_retain")
    keep.shape.assert_has_rank(1)
    sp.values.shape.merge_with(keep.shape)
    where = tf.reshape(tf.where_v2(keep), [-1])
    return SparseTensor(tf.gather(sp.indices, where), tf.gather(sp.values, where), tf.identity(sp.dense_shape))


# -- SparseFillEmptyRows -------------------------------------------------------------------------------------------
fill_op = op("SparseFillEmptyRows", "indices: int64, values: T, dense_shape: int64, default_value: T -> "
                                    "output_indices: int64, output_values: T, empty_row_indicator: bool, "
                                    "reverse_index_map: int64", "T: type")


@fill_op.shape
def _fill_shape(indices, values, dense_shape, default_value, *, c):
    check_ranks(indices, values, dense_shape)
    rank_is(default_value, 0)
    n = merge((rank_is(indices, 2)[0],), rank_is(values, 1))[0]
    rank = merge((rank_is(indices, 2)[1],), rank_is(dense_shape, 1))[0]
    if rank == 0:
        raise ValueError("dense_shape must not be empty")
    dims = c.dims("dense_shape")
    return [(None, rank), (None,), (None if dims is None else dims[0],), (n,)]


@fill_op.kernel
def _fill_kernel(indices, values, dense_shape, default_value):
    dims = sparse.check(indices, values, dense_shape)
    if not dims:
        raise errors.invalid("dense_shape must not be empty")
    if len(arrays.dims_of(default_value)):
        raise errors.invalid(f"default_value must be a scalar, saw: {arrays.show(default_value.shape)}")
    n, rows = indices.shape[0], dims[0]
    if rows == 0 and n:
        raise errors.invalid(f"Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = {n}")
    found = fast_rows.filled(indices, rows)
    if found is not None:
        return found[0], sparse.take(arrays.cat([values, sparse.full([1], default_value)], 0), found[1]), *found[2:]
    row = indices[:, 0]
    bad = indexing.first_bad(row, rows)
    if bad is not None:
        raise errors.invalid(f"indices({bad}, 0) is invalid: {int(row[bad])} >= {rows}")
    empty = torch.ones(rows, dtype=torch.bool, device=indices.device)
    empty[row] = False
    missing = empty.nonzero()
    order = torch.argsort(torch.cat([row, missing[:, 0]]), stable=True)
    back = torch.empty_like(order)
    back[order] = torch.arange(order.numel(), device=order.device)
    padded = torch.zeros((missing.shape[0], indices.shape[1]), dtype=torch.int64, device=indices.device)
    padded[:, :1] = missing
    every = arrays.cat([values, sparse.full([missing.shape[0]], default_value)], 0)
    return torch.cat([indices, padded])[order], sparse.take(every, order), empty, back[:n]


fill_grad_op = op("SparseFillEmptyRowsGrad", "reverse_index_map: int64, grad_values: T -> d_values: T, d_default_value: T",
                  "T: type").no_gradient()


@fill_grad_op.shape
def _fill_grad_shape(reverse_index_map, grad_values):
    rank_is(grad_values, 1)
    return [rank_is(reverse_index_map, 1), ()]


@fill_grad_op.kernel
def _fill_grad_kernel(reverse_index_map, grad_values):
    for what, x in (("reverse_index_map", reverse_index_map), ("grad_values", grad_values)):
        if x.dim() != 1:
            raise errors.invalid(f"{what} must be a vector, saw: {arrays.show(x.shape)}")
    bad = indexing.first_bad(reverse_index_map, grad_values.shape[0])
    if bad is not None:
        raise errors.invalid(f"Elements in reverse index must be in [0, {grad_values.shape[0]}) but got "
                             f"{int(reverse_index_map[bad])}")
    filled = torch.ones(grad_values.shape[0], dtype=torch.bool, device=grad_values.device)
    filled[reverse_index_map] = False
    bits = unsigned.signed(grad_values) if unsigned.is_wide(grad_values) else grad_values        # the sum has the same bits
    return grad_values[reverse_index_map], bits[filled].sum(dtype=bits.dtype).view(grad_values.dtype)


@fill_op.gradient
def _fill_gradient(op, _, grad, *rest):
    values, default = fill_grad_op(op.outputs[3], grad)
    return None, values, None, default


# -- rows of ragged values, by the number of their row -----------------------------------------------------------------
ragged_fill_op = op("RaggedFillEmptyRows", "value_rowids: int64, values: T, nrows: int64, default_value: T -> "
                    "output_value_rowids: int64, output_values: T, empty_row_indicator: bool, reverse_index_map: int64",
                    "T: type", export_as="ragged_fill_empty_rows")
ragged_fill_grad_op = op("RaggedFillEmptyRowsGrad",
                         "reverse_index_map: int64, grad_values: T -> d_values: T, d_default_value: T", "T: type",
                         export_as="ragged_fill_empty_rows_grad").no_gradient()
ragged_fill_grad_op.shape(_fill_grad_shape)
ragged_fill_grad_op.kernel(_fill_grad_kernel)


@ragged_fill_op.shape
def _ragged_fill_shape(value_rowids, values, nrows, default_value, *, c):
    rank_is(nrows, 0), rank_is(default_value, 0), rank_is(values, 1)
    known = c.const("nrows")
    return [(None,), (None,), (None if known is None else int(known),), rank_is(value_rowids, 1)]


@ragged_fill_op.kernel
def _ragged_fill_kernel(value_rowids, values, nrows, default_value):
    if nrows.dim() or value_rowids.dim() != 1:
        raise errors.invalid(f"nrows must be a scalar and value_rowids a vector, saw: {arrays.show(nrows.shape)} and "
                             f"{arrays.show(value_rowids.shape)}")
    indices, *rest = _fill_kernel(value_rowids.unsqueeze(1), values, nrows.reshape(1), default_value)
    return indices[:, 0], *rest


@ragged_fill_op.gradient
def _ragged_fill_gradient(op, _, grad, *rest):
    values, default = ragged_fill_grad_op(op.outputs[3], grad)
    return None, values, None, default


@export("sparse.fill_empty_rows", v1=["sparse_fill_empty_rows"])
def sparse_fill_empty_rows(sp_input: Any, default_value: Any, name: str | None = None) -> tuple[SparseTensor, Tensor]:
    """The sparse tensor with `default_value` at column 0 of every row without elements, and which rows those were."""
    sp = as_sparse(sp_input)
    with tf.name_scope(name, "SparseFillEmptyRows", [sp]):
        default_value = convert(default_value, sp.values.dtype, "default_value")
        indices, values, empty, _ = fill_op(*parts_of(sp), default_value)
        return SparseTensor(indices, values, sp.dense_shape), empty
