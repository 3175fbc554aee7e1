"""Gathers from ragged tensors."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.library.ragged.ranges import ragged_range
from penstock._src.library.ragged.segments import get_positive_axis
from penstock._src.library.ragged.tensor import RaggedTensor, convert_to_tensor_or_ragged_tensor, match_row_splits_dtypes
from penstock._src.ops.sparse.ragged import gather_op
from penstock.compat import v1 as tf


def gather(params: Any, indices: Any, validate_indices: Any = None, axis: Any = None, batch_dims: Any = 0,
           name: str | None = None) -> Any:
    """Slices of a ragged tensor; indices may be ragged too."""
    with tf.name_scope(name, "RaggedGather", []):
        params = convert_to_tensor_or_ragged_tensor(params, name="params")
        indices = convert_to_tensor_or_ragged_tensor(indices, name="indices")
        params, indices = match_row_splits_dtypes(params, indices)
        count = indices.shape.rank
        batch_dims = batch_dims if batch_dims == count else \
            get_positive_axis(batch_dims, count, "batch_dims", "rank(indices)")
        if params.shape.rank is not None and batch_dims >= params.shape.rank:
            raise ValueError(f"batch_dims must be less than rank(params), got {batch_dims} and {params.shape.rank}")
        axis = batch_dims if axis is None else get_positive_axis(axis, params.shape.rank)
        if axis < batch_dims:
            raise ValueError(f"axis={axis} is one of the {batch_dims} batch dimensions")
        return _gather(params, indices, axis, batch_dims)


def _gather(params: Any, indices: Any, axis: int, batch_dims: int) -> Any:
    """`gather` one dimension at a time: batch dimensions are flattened, and others before `axis` made batch dimensions."""
    if not isinstance(params, RaggedTensor) and not isinstance(indices, RaggedTensor):
        return tf.gather(params, indices, axis=axis, batch_dims=batch_dims)
    if batch_dims > 0 and not params.shape[:batch_dims].is_compatible_with(indices.shape[:batch_dims]):
        raise ValueError(f"batch shape from indices {indices.shape[:batch_dims]} does not match params shape {params.shape}: "
                         "batch shape from indices does not match params shape")
    if batch_dims > 1:
        params, indices = _partitioned(params, indices), _partitioned(indices, params)
        return params.with_values(_gather(params.values, indices.values, axis - 1, batch_dims - 1))
    if batch_dims < axis:
        params = _partitioned(params, indices)
        if batch_dims == 1:
            return params.with_values(_gather(params.values, _gather(indices, params.value_rowids(), 0, 0), axis - 1, 1))
        rows = tf.zeros(tf.stack([params.nrows()]), dtypes.int32)
        same = indices[tf.newaxis] if indices.shape.rank == 0 else tf.expand_dims(indices, 0)
        return _gather(params, _gather(same, rows, 0, 0), axis, 1)
    return _gather_within_rows(params, indices) if batch_dims else _gather_rows(params, indices)


def _partitioned(tensor: Any, other: Any) -> RaggedTensor:
    """A tensor whose second dimension is a row partition."""
    return tensor if isinstance(tensor, RaggedTensor) else RaggedTensor.from_tensor(
        tensor, ragged_rank=1, row_splits_dtype=other.row_splits.dtype)


def _gather_rows(params: Any, indices: Any) -> Any:
    """Slices along the outermost dimension."""
    if isinstance(indices, RaggedTensor):
        return indices.with_values(_gather(params, indices.values, 0, 0))
    if indices.shape.ndims is None:
        raise ValueError("rank(indices) must be known statically")
    if indices.shape.ndims == 0:
        return params[indices]
    rank = indices.shape.ndims + params.ragged_rank - 1
    splits, values = gather_op(list(params.nested_row_splits), params.flat_values, indices, OUTPUT_RAGGED_RANK=rank)
    if indices.shape.ndims == 1 and indices.shape.as_list()[0] is not None and splits:
        splits[0].set_shape([indices.shape.as_list()[0] + 1])
    return RaggedTensor.from_nested_row_splits(values, splits, validate=False)


def _gather_within_rows(params: Any, indices: Any) -> Any:
    """Slices along the second dimension, within the row of each index: the values of all rows, counted from the row's start."""
    if indices.shape.rank is None:
        raise ValueError("The rank of indices must be known")
    if isinstance(params, RaggedTensor):
        starts, values = params.row_starts(), params.values
    else:
        shape = tf.shape(params, out_type=indices.row_splits.dtype)
        starts, values = tf.range(shape[0]) * shape[1], tf.reshape(params, tf.concat([[shape[0] * shape[1]], shape[2:]], 0))
    flat = indices
    while isinstance(flat, RaggedTensor):
        starts, flat = tf.gather(starts, flat.value_rowids()), flat.values
    starts = tf.reshape(starts, tf.concat([tf.shape(starts), tf.ones([flat.shape.rank - 1], dtypes.int32)], 0))
    flat = tf.cast(flat, starts.dtype) + starts
    return _gather(values, indices.with_flat_values(flat) if isinstance(indices, RaggedTensor) else flat, 0, 0)


def batch_gather(params: Any, indices: Any, name: str | None = None) -> Any:
    """For each row of params, the elements that the row of indices names."""
    indices = convert_to_tensor_or_ragged_tensor(indices, name="indices")
    if indices.shape.ndims is None:
        raise ValueError("batch_dims=-1 may only be negative if rank(indices) is statically known.")
    if indices.shape.ndims == 0:
        raise ValueError("batch_dims=-1 out of bounds: expected 0<=batch_dims<0, because the indices are a scalar")
    return gather(params, indices, batch_dims=-1, name=name)


def coordinates(rt: RaggedTensor) -> Any:
    """The position of each innermost value: [n, ragged_rank + 1] int64."""
    rows = tf.cast(tf.range(rt.nrows()), dtypes.int64)
    columns = [rows]
    value: Any = rt
    while isinstance(value, RaggedTensor):
        ids = tf.cast(value.value_rowids(), dtypes.int64)
        columns = [tf.gather(c, ids) for c in columns]
        columns.append(tf.cast(ragged_range(value.row_lengths()).values, dtypes.int64))
        value = value.values
    return tf.stack(columns, axis=1)


export.value(batch_gather, v1=["ragged.batch_gather"])
