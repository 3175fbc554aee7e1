"""tf.gather_nd of ragged tensors."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.library.ragged.array import expand_dims, tile
from penstock._src.library.ragged.gather import gather
from penstock._src.library.ragged.tensor import RaggedTensor, convert_to_tensor_or_ragged_tensor, match_row_splits_dtypes
from penstock.compat import v1 as tf


def gather_nd(params: Any, indices: Any, batch_dims: int = 0, name: str | None = None, bad_indices_policy: str = "") -> Any:
    """Elements at positions given by the last dimension of indices."""
    if bad_indices_policy not in ("", "DEFAULT"):
        raise ValueError("non-default bad_indices_policy not supported for ragged gather")
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
