"""Gathers from ragged tensors."""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.library.ragged.math import ragged_range
from penstock._src.library.ragged.tensor import RaggedTensor, convert_to_tensor_or_ragged_tensor, match_row_splits_dtypes
from penstock._src.ops.registry import op
from penstock.compat import v1 as tf

gather_op = op("RaggedGather", "params_nested_splits: PARAMS_RAGGED_RANK * Tsplits, params_dense_values: Tvalues, "
               "indices: Tindices -> output_nested_splits: OUTPUT_RAGGED_RANK * Tsplits, output_dense_values: Tvalues",
               "Tvalues: type, Tindices: type in {int32 int64}, Tsplits: type in {int32 int64} = int64, "
               "PARAMS_RAGGED_RANK: int >= 1, OUTPUT_RAGGED_RANK: int >= 0")


@gather_op.shape
def _gather_shape(params_nested_splits, params_dense_values, indices, *, OUTPUT_RAGGED_RANK):
    values = None if params_dense_values is None else (None, *params_dense_values[1:])
    return [(None,)] * OUTPUT_RAGGED_RANK + [values]


@gather_op.kernel(device="cpu")
def _gather_kernel(params_nested_splits, params_dense_values, indices, *, OUTPUT_RAGGED_RANK):
    n = params_nested_splits[0].numel() - 1
    bad = (indices < 0) | (indices >= n)
    if bad.any():
        raise errors.invalid(f"indices[{int(bad.reshape(-1).nonzero()[0])}] = {int(indices[bad][0])} is not in [0, {n})")
    splits_out = _outer_splits(indices, params_nested_splits[0].dtype)
    rows = indices.reshape(-1).to(torch.int64)
    for s in params_nested_splits:
        s = s.to(torch.int64)
        starts, lengths = s[rows], s[rows + 1] - s[rows]
        splits = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
        splits_out.append(splits.to(params_nested_splits[0].dtype))
        rows = torch.arange(int(splits[-1])) - (splits[:-1] - starts).repeat_interleave(lengths)
    if rows.numel() and int(rows.max()) >= params_dense_values.shape[0]:
        raise errors.invalid("Ragged splits must not be larger than the number of values")
    values = params_dense_values.index_select(0, rows) if isinstance(params_dense_values, torch.Tensor) \
        else params_dense_values[rows.numpy()]
    return splits_out, values


def _outer_splits(indices: torch.Tensor, dtype: torch.dtype) -> list:
    """Row splits for the dimensions that the indices bring in."""
    out, count = [], 1
    for i in range(indices.dim() - 1):
        count *= indices.shape[i]
        out.append(torch.arange(0, count + 1, dtype=dtype) * indices.shape[i + 1])
    return out


@gather_op.gradient
def _gather_gradient(op, *grads):
    """Rows of the flat values that were gathered get the gradient; duplicates add up."""
    n = op.attrs["PARAMS_RAGGED_RANK"]
    splits, values, indices = list(op.inputs[:n]), op.inputs[n], op.inputs[n + 1]
    flat = tf.range(tf.shape(values, out_type=dtypes.int64)[0])
    which = gather_op(splits, flat, indices, OUTPUT_RAGGED_RANK=op.attrs["OUTPUT_RAGGED_RANK"])[-1]
    return [None] * n + [IndexedSlices(grads[-1], which, tf.shape(values)), None]


def gather(params: Any, indices: Any, validate_indices: Any = None, axis: Any = None, batch_dims: Any = 0,
           name: str | None = None) -> Any:
    """Rows of a ragged tensor; indices may be ragged too."""
    axis = batch_dims if axis is None else axis
    if not isinstance(axis, int):
        raise TypeError(f"axis must be an int; got {axis!r}")
    if batch_dims == 1 and axis == 1:
        return batch_gather(params, indices, name)
    if axis != 0 or batch_dims != 0:
        raise ValueError("Only axis=0 with batch_dims=0, and axis=batch_dims=1, are known for ragged gathers")
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


def gather_nd(params: Any, indices: Any, batch_dims: int = 0, name: str | None = None) -> Any:
    """Elements at positions given by the last dimension of indices."""
    if not isinstance(batch_dims, int) or batch_dims != 0:
        raise ValueError("batch_dims != 0 is not supported for ragged gather yet.")
    with tf.name_scope(name, "RaggedGatherNd", []):
        params = convert_to_tensor_or_ragged_tensor(params, name="params")
        indices = convert_to_tensor_or_ragged_tensor(indices, name="indices")
        params, indices = match_row_splits_dtypes(params, indices)
        ndims = indices.shape.ndims
        if ndims is None:
            raise ValueError("indices.rank be statically known.")
        if ndims == 0:
            raise ValueError("indices.rank must be at least 1.")
        if isinstance(indices, RaggedTensor) and ndims == indices.ragged_rank + 1:
            raise ValueError("The innermost dimension of indices may not be ragged")
        size = indices.shape.as_list()[-1]
        if size is None:
            raise ValueError("indices.shape[-1] must be statically known.")
        if isinstance(indices, RaggedTensor) and ndims > 2:
            flat = gather_nd(params, indices.values)
            return indices.with_values(flat)
        if ndims > 2 and isinstance(params, RaggedTensor):
            nested = RaggedTensor.from_tensor(indices, ragged_rank=ndims - 2, row_splits_dtype=params.row_splits.dtype)
            return gather_nd(params, nested)
        if not isinstance(params, RaggedTensor):
            return tf.gather_nd(params, indices)
        if ndims == 1:
            return params[tuple(indices[i] for i in range(size))] if size else params
        if size == 0:
            n = tf.shape(indices)[0]
            from penstock._src.library.ragged.array import expand_dims, tile
            repeated = expand_dims(params, 0)
            multiples = tf.concat([[n], tf.ones([params.shape.ndims], dtypes.int32)], 0)
            return tile(repeated, multiples)
        columns = [tf.cast(c, params.row_splits.dtype) for c in tf.unstack(indices, num=size, axis=1)]
        value: Any = params
        position = columns[0]
        for column in columns[1:]:
            if not isinstance(value, RaggedTensor):
                break
            starts = tf.gather(value.row_starts(), position)
            value, position = value.values, starts + column
            columns = columns[1:]
        rest = columns[1:]
        if isinstance(value, RaggedTensor):
            return gather(value, position)
        return tf.gather_nd(value, tf.stack([position, *rest], axis=1)) if rest else tf.gather(value, position)


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
