"""tf.math.bincount of ragged values."""
from __future__ import annotations

from typing import Any

import penstock
from penstock._src.base import dtypes
from penstock._src.library.ragged.tensor import RaggedTensor
from penstock._src.ops.math.sparse_counts import ragged_bincount
from penstock.compat import v1 as tf


def bincount(arr: Any, weights: Any = None, minlength: Any = None, maxlength: Any = None, dtype: Any = dtypes.int32,
             name: str | None = None, axis: Any = None, binary_output: bool = False) -> Any:
    """How often each integer occurs: in all rows together, or with axis -1 in each row."""
    with tf.name_scope(name, "bincount", []):
        if weights is not None and not isinstance(weights, RaggedTensor):
            raise ValueError(f"`weights` must be a RaggedTensor if `arr` is one. Received: {weights!r}")
        flat_weights = None if weights is None else weights.flat_values
        if weights is not None and binary_output:
            raise ValueError("Arguments `binary_output` and `weights` are mutually exclusive. Please specify only one.")
        if axis != -1:
            return penstock.math.bincount(arr.flat_values, flat_weights, minlength, maxlength, dtype, axis=axis,
                                    binary_output=binary_output)
        values = arr.values
        if isinstance(values, RaggedTensor):
            raise ValueError(f"Ragged tensors to count along axis -1 have rank 2, not {arr.shape.rank}")
        values = values if values.dtype in (dtypes.int32, dtypes.int64) else tf.cast(values, dtypes.int32)
        kind = values.dtype
        size = tf.cast(tf.size(values) > 0, kind) * (tf.reduce_max(values) + 1)
        if minlength is not None:
            size = tf.maximum(tf.cast(minlength, kind), size)
        if maxlength is not None:
            size = tf.minimum(tf.cast(maxlength, kind), size)
        counted = tf.constant([], dtypes.as_dtype(dtype)) if flat_weights is None else flat_weights
        return ragged_bincount(tf.cast(arr.row_splits, dtypes.int64), values, size, counted, binary_output=binary_output)
