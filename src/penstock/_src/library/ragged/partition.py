"""tf.ragged.stack_dynamic_partitions: slices grouped into rows; dynamic_partition returns a list of tensors instead."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.library.ragged.tensor import RaggedTensor, convert_to_tensor_or_ragged_tensor
from penstock.compat import v1 as tf


@export("ragged.stack_dynamic_partitions")
def stack_dynamic_partitions(data: Any, partitions: Any, num_partitions: Any, name: str | None = None) -> RaggedTensor:
    """A ragged tensor whose row `i` has the slices of `data` where `partitions` is `i`, in their order.

    >>> tf.ragged.stack_dynamic_partitions(["a", "b", "c"], [2, 0, 2], 3)
    <tf.RaggedTensor [[b'b'], [], [b'a', b'c']]>
    """
    with tf.name_scope(name, "SegmentStack", []):
        data = convert_to_tensor_or_ragged_tensor(data, name="data")
        splits_dtype = data.row_splits.dtype if isinstance(data, RaggedTensor) else None
        partitions = convert_to_tensor_or_ragged_tensor(partitions, name="partitions", preferred_dtype=splits_dtype)
        if splits_dtype is not None:
            partitions = tf.cast(partitions, splits_dtype)
        count = tf.cast(convert(num_partitions, name="num_partitions", preferred_dtype=partitions.dtype), partitions.dtype)
        count.shape.assert_has_rank(0)
        rank = partitions.shape.rank
        if rank is None:
            raise ValueError("partitions must have known rank")
        partitions.shape.assert_is_compatible_with(data.shape[:rank])
        if rank == 0:
            data, partitions = tf.stack([data]), tf.stack([partitions])
        checks: list = []
        for _ in range(rank - 1):
            data, partitions = _without_outer(data, partitions, checks)
        checks += [tf.assert_non_negative(partitions, message="partitions must be non-negative"),
                   tf.assert_less(partitions, count, message="partitions must be less than num_partitions")]
        with tf.control_dependencies([c for c in checks if c is not None]):
            order = tf.argsort(partitions, stable=True)
            rows = tf.gather(partitions, order)
        return RaggedTensor.from_value_rowids(tf.gather(data, order), rows, nrows=count, validate=False)


def _without_outer(data: Any, partitions: Any, checks: list) -> tuple[Any, Any]:
    """Both with their two outer dimensions merged; adds an assertion that these match to `checks`."""
    if not isinstance(partitions, RaggedTensor) and not isinstance(data, RaggedTensor):
        return tuple(tf.reshape(x, tf.concat([[-1], tf.shape(x)[2:]], 0)) for x in (data, partitions))
    splits_dtype = (data if isinstance(data, RaggedTensor) else partitions).row_splits.dtype
    data, partitions = (x if isinstance(x, RaggedTensor) else RaggedTensor.from_tensor(x, row_splits_dtype=splits_dtype)
                        for x in (data, partitions))
    checks.append(tf.assert_equal(data.row_splits, partitions.row_splits,
                                  message="data and partitions have incompatible ragged shapes"))
    return data.values, partitions.values


def dynamic_partition(data: Any, partitions: Any, num_partitions: int, name: str | None = None) -> list:
    """tf.dynamic_partition of ragged data: one ragged tensor for each partition."""
    if not isinstance(num_partitions, int) or num_partitions < 0:
        raise TypeError("num_partitions must be a non-negative integer")
    stacked = stack_dynamic_partitions(data, partitions, num_partitions, name)
    return [stacked[i] for i in range(num_partitions)]
