"""Partitioners: into how many shards a variable on parameter servers is cut. Shards go to the servers in turn.

    with strategy.scope():
        table = tf.compat.v1.get_variable("table", [1000000, 64], partitioner=FixedShardsPartitioner(4))
"""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.state.variables.partitioned import axis_size, min_max_variable_partitioner, variable_axis_size_partitioner

_NAMES = "distribute.experimental.partitioners."


@export(_NAMES + "Partitioner")
class Partitioner:
    """Base of the partitioners: called with shape, dtype and axis, returns the number of shards along each axis."""

    def __call__(self, shape: Any, dtype: Any, axis: int = 0) -> list[int]:
        raise NotImplementedError(f"{type(self).__name__} must implement __call__.")


@export(_NAMES + "FixedShardsPartitioner")
class FixedShardsPartitioner(Partitioner):
    """That many shards, but no more than rows.

    >>> FixedShardsPartitioner(num_shards=2)(tf.TensorShape([10, 3]), tf.float32)
    [2, 1]
    """

    def __init__(self, num_shards: int):
        self._num_shards = num_shards

    def __call__(self, shape: Any, dtype: Any, axis: int = 0) -> list[int]:
        shape = TensorShape(shape)
        counts = [1] * len(shape)
        counts[axis] = min(self._num_shards, axis_size(shape, axis))
        return counts


def _positive(**arguments: int) -> None:
    for name, value in arguments.items():
        if value < 1:
            raise ValueError(f"Argument `{name}` must be positive. Received: {value}")


@export(_NAMES + "MinSizePartitioner")
class MinSizePartitioner(Partitioner):
    """As many shards as possible, up to `max_shards`, each of at least so many bytes."""

    def __init__(self, min_shard_bytes: int = 256 << 10, max_shards: int = 1, bytes_per_string: int = 16):
        _positive(min_shard_bytes=min_shard_bytes, max_shards=max_shards, bytes_per_string=bytes_per_string)
        self._min, self._most, self._string = min_shard_bytes, max_shards, bytes_per_string

    def __call__(self, shape: Any, dtype: Any, axis: int = 0) -> list[int]:
        return min_max_variable_partitioner(max_partitions=self._most, axis=axis, min_slice_size=self._min,
                                            bytes_per_string_element=self._string)(TensorShape(shape), dtype)


@export(_NAMES + "MaxSizePartitioner")
class MaxSizePartitioner(Partitioner):
    """As few shards as possible, each of at most so many bytes, and no more than `max_shards`."""

    def __init__(self, max_shard_bytes: int, max_shards: int | None = None, bytes_per_string: int = 16):
        _positive(max_shard_bytes=max_shard_bytes, max_shards=1 if max_shards is None else max_shards,
                  bytes_per_string=bytes_per_string)
        self._max, self._most, self._string = max_shard_bytes, max_shards, bytes_per_string

    def __call__(self, shape: Any, dtype: Any, axis: int = 0) -> list[int]:
        return variable_axis_size_partitioner(max_shard_bytes=self._max, max_shards=self._most, axis=axis,
                                              bytes_per_string_element=self._string)(TensorShape(shape), dtype)
