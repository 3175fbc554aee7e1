"""tf.split of ragged tensors."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.library.ragged.row_partition import static_int
from penstock._src.library.ragged.segments import get_positive_axis
from penstock._src.library.ragged.tensor import RaggedTensor, convert_to_tensor_or_ragged_tensor
from penstock.compat import v1 as tf


def split(value: Any, num_or_size_splits: Any, axis: int = 0, num: int | None = None, name: str | None = None) -> list:
    """Splits `value` along a dimension with rows of one length.

    `num_or_size_splits` is the number of equal parts, or the size of each.
    """
    with tf.name_scope(name, "RaggedSplit", []):
        value = convert_to_tensor_or_ragged_tensor(value, name="value")
        if isinstance(num_or_size_splits, int) and num_or_size_splits == 1:
            return [value]
        if axis < 0 and value.shape.ndims is None:
            raise ValueError("`axis` must not be negative where the rank of `value` is not known")
        axis = get_positive_axis(axis, value.shape.ndims)
        if not isinstance(value, RaggedTensor):
            return tf.split(value, num_or_size_splits, axis=axis, num=num)
        sizes = _sizes(value, num_or_size_splits, axis, num)
        limits = tf.cumsum(sizes)
        parts = []
        for i in range(sizes.shape.as_list()[0]):
            cut = (slice(None),) * axis + (slice(limits[i] - sizes[i], limits[i]),)
            parts.append(value[cut])
        return parts


def _sizes(value: RaggedTensor, wanted: Any, axis: int, num: int | None) -> Any:
    """The size of each part as a vector of known length, after the checks."""
    dim = value.shape.static_dims[axis] if value.shape.static_dims is not None else None
    if axis == 0:
        length = value.nrows(out_type=dtypes.int32)
    else:
        inner: Any = value
        for _ in range(axis - 1):
            inner = inner.values if isinstance(inner, RaggedTensor) else inner
        if isinstance(inner, RaggedTensor) and axis <= value.ragged_rank and inner.uniform_row_length is None:
            raise ValueError(f"Cannot split a ragged dimension. Got `value` with shape {value.shape} and `axis` {axis}.")
        length = tf.cast(value.bounding_shape(axis=axis), dtypes.int32)
    if isinstance(wanted, int):
        if wanted < 1:
            raise ValueError(f"`num_or_size_splits` must be >=1 if it is an int. Received {wanted}")
        known = dim if dim is not None else static_int(length)
        check = tf.debugging.assert_equal(tf.math.floormod(length, wanted), 0, message=f"Cannot exactly split length {known} "
                                          f"in {wanted} parts")
        with tf.control_dependencies([c for c in [check] if c is not None]):
            return tf.fill([wanted], length // wanted)
    return _given(wanted, num, length)


def _given(wanted: Any, num: int | None, length: Any) -> Any:
    if isinstance(wanted, RaggedTensor):
        raise TypeError("`num_or_size_splits` must be an int, a Python list of ints, or a 1D tensor of ints.")
    sizes = convert(wanted)
    if not sizes.dtype.is_integer:
        raise TypeError(f"`num_or_size_splits` must be an integer, a Python list of integers or a 1D integer tensor, not "
                        f"{sizes.dtype.name}")
    if isinstance(wanted, Tensor) and sizes.shape.ndims == 0:
        raise TypeError("`num_or_size_splits` must be a Python int, a Python list of ints, or a 1D tensor; got a scalar tensor")
    if sizes.shape.ndims not in (None, 1):
        raise TypeError("`num_or_size_splits` must be an int, a Python list of ints, or a 1D tensor of ints; got shape "
                        f"{sizes.shape}")
    count = sizes.shape.static_dims[0] if sizes.shape.static_dims is not None else None
    if count is None:
        if num is None:
            raise ValueError("`num` must be specified as an integer when the size of `num_or_size_splits` is not statically "
                             "known. Received `num`: None")
        checks = [tf.debugging.assert_equal(tf.size(sizes), num, message="`num` is inconsistent with `num_or_size_splits`"),
                  tf.debugging.assert_equal(tf.rank(sizes), 1, message="`num_or_size_splits` must have rank 1")]
        with tf.control_dependencies([c for c in checks if c is not None]):
            sizes = tf.reshape(sizes, [num])
    elif num is not None and num != count:
        raise ValueError(f"`num` does not match the size of `num_or_size_splits`: {num} vs. {count}")
    sizes = tf.cast(sizes, dtypes.int32)
    checks = [tf.debugging.assert_non_negative(sizes, message="`num_or_size_splits` must be non-negative"),
              tf.debugging.assert_equal(tf.reduce_sum(sizes), length, message="Cannot exactly split: the sizes do not add up "
                                        "to the length of the dimension")]
    known = constant_value(sizes)
    if known is not None and np.any(known < 0) and not tf.executing_eagerly():
        checks = checks[:1]
    with tf.control_dependencies([c for c in checks if c is not None]):
        return tf.identity(sizes)
