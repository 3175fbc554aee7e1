"""Gathers from ragged tensors."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.library.ragged.ranges import ragged_range
from penstock._src.library.ragged.tensor import RaggedTensor, convert_to_tensor_or_ragged_tensor, match_row_splits_dtypes
from penstock._src.ops.sparse.ragged import gather_op
from penstock.compat import v1 as tf


def gather(params: Any, indices: Any, validate_indices: Any = None, axis: Any = None, batch_dims: Any = 0,
           name: str | None = None) -> Any:
    """Rows of a ragged tensor; indices may be ragged too."""
    axis = batch_dims if axis is None else axis
    if not isinstance(axis, int):
        raise TypeError(f"axis must be an int; got {axis!r}")
    if batch_dims == 1 and axis == 1:
        return batch_gather(params, indices, name)
    if axis != 0 or batch_dims != 0:
        raise ValueError("Ragged gathers support only axis=0 with batch_dims=0, and axis=batch_dims=1")
    with tf.name_scope(name, "RaggedGather", []):
        params = convert_to_tensor_or_ragged_tensor(params, name="params")
        indices = convert_to_tensor_or_ragged_tensor(indices, name="indices")
        params, indices = match_row_splits_dtypes(params, indices)
        if isinstance(indices, RaggedTensor):
            return indices.with_values(gather(params, indices.values))
        if not isinstance(params, RaggedTensor):
            return tf.gather(params, indices)
        if indices.shape.ndims is None:
            raise ValueError("indices.shape.ndims must be known statically")
        if indices.shape.ndims == 0:
            return params[indices]
        rank = indices.shape.ndims + params.ragged_rank - 1
        splits, values = gather_op(list(params.nested_row_splits), params.flat_values, indices, OUTPUT_RAGGED_RANK=rank)
        if indices.shape.ndims == 1 and indices.shape.as_list()[0] is not None and splits:
            splits[0].set_shape([indices.shape.as_list()[0] + 1])
        return RaggedTensor.from_nested_row_splits(values, splits, validate=False)


def batch_gather(params: Any, indices: Any, name: str | None = None) -> Any:
    """For each row of params, the elements that the row of indices names."""
    with tf.name_scope(name, "RaggedBatchGather", []):
        indices = convert_to_tensor_or_ragged_tensor(indices, name="indices")
        params = convert_to_tensor_or_ragged_tensor(params, name="params")
        params, indices = match_row_splits_dtypes(params, indices)
        if indices.shape.ndims is None:
            raise ValueError("batch_gather does not allow indices with unknown shape.")
        if indices.shape.ndims == 0:
            raise ValueError("indices.rank must be at least 1.")
        if isinstance(indices, RaggedTensor) and indices.shape.ndims > 2:
            if not isinstance(params, RaggedTensor):
                raise ValueError("batch shape from indices does not match params shape")
            check = tf.debugging.assert_equal(indices.row_splits, params.row_splits,
                                              message="Dimensions of params and indices do not match")
            with tf.control_dependencies([c for c in [check] if c is not None]):
                return indices.with_values(batch_gather(params.values, indices.values))
        if not isinstance(indices, RaggedTensor):
            if not isinstance(params, RaggedTensor):
                return tf.batch_gather(params, indices)
            if indices.shape.ndims == 1:
                return gather(params, indices)
            indices = RaggedTensor.from_tensor(indices, ragged_rank=indices.shape.ndims - 1)
            params, indices = match_row_splits_dtypes(params, indices)
            if isinstance(indices.values, RaggedTensor):
                return indices.with_values(batch_gather(params.values if isinstance(params, RaggedTensor) else params,
                                                        indices.values))
        if isinstance(params, RaggedTensor):
            starts = params.row_starts()
            flat = params.values
        else:
            shape = tf.shape(params, out_type=indices.row_splits.dtype)
            starts = tf.range(shape[0]) * shape[1]
            flat = tf.reshape(params, tf.concat([[shape[0] * shape[1]], shape[2:]], 0))
        offsets = tf.gather(starts, indices.value_rowids())
        return indices.with_values(gather(flat, tf.cast(indices.values, offsets.dtype) + offsets))


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
