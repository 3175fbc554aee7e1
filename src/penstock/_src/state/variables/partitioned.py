"""Partitioned variables: PartitionedVariable, how shapes are split, and partitioners."""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.convert import register_tensor_conversion_function
from penstock._src.graph.scopes import control_dependencies, name_scope
from penstock._src.ops.core import identity
from penstock._src.ops.registry import get


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str)


class PartitionInfo:
    """The position of a part in the whole: given to initializers as `partition_info`."""

    def __init__(self, full_shape: Sequence[int], var_offset: Sequence[int]):
        for name, value in (("full_shape", full_shape), ("var_offset", var_offset)):
            if not _is_sequence(value):
                raise TypeError(f"`{name}` must be a sequence (like tuple or list) instead of {type(value).__name__}")
        if len(var_offset) != len(full_shape):
            raise ValueError(f"Expected equal length, but `var_offset` is of length {len(var_offset)} while full_shape "
                             f"is of length {len(full_shape)}.")
        for offset, size in zip(var_offset, full_shape, strict=True):
            if not 0 <= offset < size:
                raise ValueError(f"Expected 0 <= offset < shape but found offset={offset}, shape={size} for "
                                 f"var_offset={var_offset}, full_shape={full_shape}")
        self._full_shape, self._var_offset = full_shape, var_offset

    full_shape = property(lambda self: self._full_shape, doc="The shape of the whole.")
    var_offset = property(lambda self: self._var_offset, doc="Where the part begins.")

    def single_offset(self, shape: Sequence[int]) -> int:
        """Where a part of this shape begins along the one axis that is cut; 0 if none is."""
        axis = self.single_slice_dim(shape)
        return 0 if axis is None else self.var_offset[axis]

    def single_slice_dim(self, shape: Sequence[int]) -> int | None:
        """The one axis along which a part of this shape is smaller than the whole; None if it is the whole."""
        if not _is_sequence(shape):
            raise TypeError(f"`shape` must be a sequence (like tuple or list) instead of {type(shape).__name__}")
        if len(shape) != len(self.full_shape):
            raise ValueError(f"Expected equal length, but received shape={shape} of length {len(shape)} while "
                             f"self.full_shape={self.full_shape} is of length {len(self.full_shape)}.")
        found = None
        for i, (offset, part, whole) in enumerate(zip(self.var_offset, shape, self.full_shape, strict=True)):
            if offset + part > whole:
                raise ValueError(f"With self.var_offset={self.var_offset}, a partition of shape={shape} would exceed "
                                 f"self.full_shape={self.full_shape} in dimension {i}.")
            if part != whole:
                if found is not None:
                    raise ValueError(f"Cannot use single_slice_dim() with shape={shape} and self.full_shape="
                                     f"{self.full_shape} since slice dim could be either dimension {i} or {found}.")
                found = i
        return found


def call_partitioner(partitioner: Callable, shape: TensorShape, dtype: Any) -> Any:
    """The checked result of a partitioner: counts of at least 1, at most one of them above 1."""
    if not shape.is_fully_defined():
        raise ValueError(f"Shape of a new partitioned variable must be fully defined, but instead was {shape}.")
    if not shape.rank:
        raise ValueError(f"A partitioned Variable must have rank at least 1, shape: {shape}")
    counts = partitioner(shape=shape, dtype=dtype)
    if not isinstance(counts, Sequence):
        raise ValueError(f"Partitioner must return a sequence, but saw: {counts}")
    if len(counts) != shape.rank:
        raise ValueError(f"Partitioner returned a partition list that does not match the Variable's rank: {counts} vs. "
                         f"{shape}")
    if any(n < 1 for n in counts):
        raise ValueError(f"Partitioner returned zero partitions for some axes: {counts}")
    if sum(n > 1 for n in counts) > 1:
        raise ValueError(f"Can only slice a variable along one dimension: shape: {shape}, partitioning: {counts}")
    return counts


def slices_of(full_shape: list[int], count: int, axis: int) -> Iterator[tuple[list[int], list[int]]]:
    """Offset and shape of each part; the first ones are larger by one if the size is not divisible."""
    least, extra = divmod(full_shape[axis], count)
    start = 0
    for i in range(count):
        offset, shape = [0] * len(full_shape), list(full_shape)
        offset[axis], shape[axis] = start, least + (i < extra)
        yield offset, shape
        start += shape[axis]


class PartitionedVariable:
    """Several variables that are the parts of one; as a tensor, their concatenation."""

    _is_tensor_like = True

    def __init__(self, name: str, shape: Any, dtype: Any, variable_list: Any, partitions: Any):
        for what, value in (("variable_list", variable_list), ("partitions", partitions)):
            if not isinstance(value, (list, tuple)):
                raise TypeError(f"{what} is not a list or tuple: {value}")
        if not all(p >= 1 for p in partitions):
            raise ValueError(f"partition values must be positive: {partitions}")
        if not variable_list:
            raise ValueError("variable_list may not be empty")
        if not all(v._get_save_slice_info() is not None for v in variable_list):
            raise ValueError(f"All variables must have a save_slice_info available: {[v.name for v in variable_list]}")
        if len(shape) != len(partitions):
            raise ValueError(f"len(shape) != len(partitions): {shape} vs. {partitions}")
        for v in variable_list:
            full = v._get_save_slice_info().full_shape
            if TensorShape(full) != TensorShape(shape):
                raise ValueError(f"All variables' full shapes must match shape: {shape}; but full shapes were: "
                                 f"[{full}]")
        self._variable_list = sorted(variable_list, key=lambda v: v._get_save_slice_info().var_offset)
        self._name, self._shape, self._dtype, self._partitions = name, shape, dtype, partitions

    name = property(lambda self: self._name, doc="The name of the whole.")
    dtype = property(lambda self: self._dtype, doc="The DType of the elements.")
    shape = property(lambda self: self._shape, doc="The shape of the whole.")

    def get_shape(self) -> Any:
        """Alias of `shape`."""
        return self._shape

    def __iter__(self) -> Any:
        return iter(self._variable_list)

    def __len__(self) -> int:
        if len(self._partition_axes()) > 1:
            raise ValueError(f"Cannot get a length for {len(self._partition_axes())} > 1 partition axes")
        return len(self._variable_list)

    def _partition_axes(self) -> list[int]:
        return [i for i, p in enumerate(self._partitions) if p > 1] or [0]

    def _get_variable_list(self) -> list:
        return self._variable_list

    def _get_partitions(self) -> Any:
        return self._partitions

    def _concat(self) -> Any:
        if len(self._variable_list) == 1:
            with name_scope(None):
                return identity(self._variable_list[0], name=self._name)
        axes = self._partition_axes()
        if len(axes) > 1:
            raise NotImplementedError(f"Cannot concatenate along more than one dimension: {axes}.  Multi-axis "
                                      "partition concat is not supported")
        with name_scope(self._name + "/ConcatPartitions/"):
            whole = get("ConcatV2")(list(self._variable_list), axes[0], name="concat")
        with name_scope(None):
            return identity(whole, name=self._name)

    def as_tensor(self) -> Any:
        """The whole as a tensor, outside of open control dependencies."""
        with control_dependencies(None):
            return self._concat()

    def _change(self, method: str, value: Any, use_locking: bool, name: str | None, read_value: bool) -> list:
        axes = self._partition_axes()
        if len(axes) > 1:
            raise NotImplementedError(f"Cannot do assign action along more than one dimension: {axes}.  Multi-axis "
                                      "partition assign action is not supported")
        if not isinstance(value, (list, PartitionedVariable)):
            sizes = [v.shape.as_list()[axes[0]] for v in self._variable_list]
            value = get("SplitV")(value, sizes, axes[0], num_split=len(sizes))
        return [getattr(v, method)(part, use_locking=use_locking, name=name, read_value=read_value)
                for v, part in zip(self._variable_list, value, strict=True)]

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> list:
        """Sets the parts from a whole, or from a list of parts."""
        return self._change("assign", value, use_locking, name, read_value)

    def assign_add(self, value: Any, use_locking: bool = False, name: str | None = None,
                   read_value: bool = True) -> list:
        """Adds to the parts."""
        return self._change("assign_add", value, use_locking, name, read_value)

    def assign_sub(self, value: Any, use_locking: bool = False, name: str | None = None,
                   read_value: bool = True) -> list:
        """Subtracts from the parts."""
        return self._change("assign_sub", value, use_locking, name, read_value)


def _partitioned_to_tensor(value: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    if dtype is not None and not dtype.is_compatible_with(value.dtype):
        raise ValueError(f"Incompatible type conversion requested to type '{dtype.name}' for variable of type "
                         f"'{value.dtype.name}'")
    if as_ref:
        raise NotImplementedError("PartitionedVariable doesn't support being used as a reference.")
    return value.as_tensor()


register_tensor_conversion_function(PartitionedVariable, _partitioned_to_tensor)


# -- partitioners -----------------------------------------------------------------------------------------------------
def _element_size(dtype: Any, bytes_per_string_element: int) -> int:
    return bytes_per_string_element if dtype.base_dtype == dtypes.string else dtype.size


def axis_size(shape: TensorShape, axis: int) -> int:
    """The size of an axis that is to be cut; ValueError if it is unknown."""
    size = shape.as_list()[axis]
    if size is None:
        raise ValueError(f"shape is not fully defined: {shape}")
    return size


@export(v1=["fixed_size_partitioner"])
def fixed_size_partitioner(num_shards: int, axis: int = 0) -> Callable:
    """A partitioner that makes `num_shards` parts along an axis, or as many as it is long.

    >>> tf.get_variable("w", [10, 4], partitioner=tf.fixed_size_partitioner(3))
    """
    def partitioner(shape: TensorShape, **kwargs: Any) -> list[int]:
        counts = [1] * len(shape)
        counts[axis] = min(num_shards, axis_size(shape, axis))
        return counts
    return partitioner


@export(v1=["variable_axis_size_partitioner"])
def variable_axis_size_partitioner(max_shard_bytes: int, axis: int = 0, bytes_per_string_element: int = 16,
                                   max_shards: int | None = None) -> Callable:
    """A partitioner that keeps parts below `max_shard_bytes` where cutting one axis allows it."""
    if max_shard_bytes < 1 or bytes_per_string_element < 1:
        raise ValueError("Both max_shard_bytes and bytes_per_string_element must be positive.")
    if max_shards and max_shards < 1:
        raise ValueError("max_shards must be positive.")

    def partitioner(shape: TensorShape, dtype: Any) -> list[int]:
        if not isinstance(shape, TensorShape):
            raise ValueError(f"shape is not a TensorShape: {shape}")
        if not shape.is_fully_defined():
            raise ValueError(f"shape is not fully defined: {shape}")
        if not isinstance(dtype, dtypes.DType):
            raise ValueError(f"dtype is not a DType: {dtype}")
        size = axis_size(shape, axis)
        slice_bytes = math.prod(shape.static_dims) / size * _element_size(dtype, bytes_per_string_element)
        shards = math.ceil(size / max(1, math.floor(max_shard_bytes / slice_bytes)))
        counts = [1] * len(shape)
        counts[axis] = min(max_shards, shards) if max_shards else shards
        return counts
    return partitioner


@export(v1=["min_max_variable_partitioner"])
def min_max_variable_partitioner(max_partitions: int = 1, axis: int = 0, min_slice_size: int = 256 << 10,
                                 bytes_per_string_element: int = 16) -> Callable:
    """A partitioner that makes up to `max_partitions` parts of at least `min_slice_size` bytes each."""
    def partitioner(shape: TensorShape, dtype: Any) -> list[int]:
        if axis >= len(shape):
            raise ValueError(f"Can not partition variable along axis {axis} when shape is only {shape}")
        total = math.prod(shape.static_dims) * _element_size(dtype, bytes_per_string_element)
        counts = [1] * len(shape)
        counts[axis] = max(1, min(axis_size(shape, axis), max_partitions, math.ceil(total / min_slice_size)))
        return counts
    return partitioner
