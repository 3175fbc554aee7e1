"""ShardedVariable: variables on several parameter servers that are the rows of one.

As a tensor it is their concatenation; lookups, slices and scattered updates go to the shards that have the rows. Checkpoints
hold the whole, in slices, so that it can be restored with another number of shards, or with none.
"""
from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.convert import convert, register_tensor_conversion_function
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import device
from penstock._src.graph.trackable import VARIABLE_VALUE_KEY, Trackable
from penstock._src.graph.type_spec import TypeSpec
from penstock._src.ops.core import group
from penstock._src.ops.nn.embedding import lookup
from penstock._src.ops.registry import get
from penstock._src.state.checkpoint.saveable import ResourceVariableSaveable, SaveableObject
from penstock._src.state.variables.partitioned import PartitionedVariable
from penstock._src.state.variables.variable import SaveSliceInfo, Variable

_SCATTERS = ("add", "div", "max", "min", "mul", "sub", "update")


@export(v2=["__internal__.distribute.ShardedVariable"])
class ShardedVariable(PartitionedVariable, Trackable):
    """Variables that are the rows of one.

    >>> table = ShardedVariable([tf.Variable(tf.zeros([3, 2])), tf.Variable(tf.ones([2, 2]))])
    >>> table.shape
    TensorShape([5, 2])
    >>> tf.nn.embedding_lookup(table, [0, 4])
    """

    def __init__(self, variables: Sequence, name: str | None = None):
        if not isinstance(variables, (list, tuple)) or not variables or not all(isinstance(v, Variable) for v in variables):
            raise TypeError(f"Argument `variables` should be a non-empty list of `variables.Variable`s. Received {variables}")
        if len({v.dtype for v in variables}) > 1:
            raise ValueError("All elements in argument `variables` must have the same dtype. Received dtypes: "
                             f"{[v.dtype for v in variables]}")
        if len({tuple(v.shape.as_list()[1:]) for v in variables}) > 1:
            raise ValueError("All elements in argument `variables` must have the same shapes except for the first axis. "
                             f"Received shapes: {[v.shape for v in variables]}")
        name = "ShardedVariable" if name is None else name
        rest = variables[0].shape.as_list()[1:]
        self._offsets = [0]
        for v in variables:
            self._offsets.append(self._offsets[-1] + v.shape.as_list()[0])
        shape = [self._offsets[-1], *rest]
        for v, offset in zip(variables, self._offsets, strict=False):
            if v._get_save_slice_info() is not None:
                raise ValueError("`SaveSliceInfo` should not be set for all elements in argument `variables`: a shard belongs "
                                 f"to one ShardedVariable. Received {v}.")
            v._set_save_slice_info(SaveSliceInfo(name, shape, [offset, *(0 for _ in rest)], v.shape.as_list()))
        super().__init__(name, TensorShape(shape), variables[0].dtype, list(variables), [len(variables), *(1 for _ in rest)])
        for v in variables:
            v._sharded_container = weakref.ref(self)

    def _beside(self, shards: Sequence, name: str) -> ShardedVariable:
        """The slot variables of all shards, as one."""
        for v in shards:
            v._set_save_slice_info(None)
        return ShardedVariable(shards, f"{self._name}/{name}")

    variables = property(lambda self: list(self._variable_list), doc="The shards.")
    is_sharded_variable = property(lambda self: True, doc="True.")
    trainable = property(lambda self: self._variable_list[0].trainable, doc="Whether the shards are trainable.")
    device = property(lambda self: self._variable_list[0].device, doc="The device of the first shard.")
    _type_spec = property(lambda self: ShardedVariableSpec(*[TensorShape(v.shape) for v in self._variable_list]))
    _unique_id = property(lambda self: self._variable_list[0]._unique_id.replace("part_0", "sharded"))
    _distribute_strategy = property(lambda self: self._variable_list[0]._distribute_strategy)
    _shared_name = property(lambda self: self._name)
    _handle_name = property(lambda self: f"{self._name}:0")

    # -- reading ------------------------------------------------------------------------------------------------------
    def _concat(self) -> Any:
        parts = [v.read_value() for v in self._variable_list]
        return parts[0] if len(parts) == 1 else get("ConcatV2")(parts, 0)

    def value(self) -> Any:
        """The whole as a tensor."""
        return self._concat()

    read_value = value

    def numpy(self) -> Any:
        """The whole as a numpy array (eager mode only)."""
        return self._concat().numpy()

    def __getitem__(self, spec: Any) -> Any:
        """Rows and columns, as of a tensor; only the shards that have some of the rows are read."""
        parts = spec if isinstance(spec, tuple) else (spec,)
        first = parts[0] if parts else slice(None)
        rows = self._offsets[-1]
        if isinstance(first, int) and not isinstance(first, bool):
            row = first + rows if first < 0 else first
            if not 0 <= row < rows:
                raise IndexError(f"Row {first} is out of range: {self._name} has {rows} rows.")
            i = next(i for i in range(len(self._variable_list)) if row < self._offsets[i + 1])
            return self._variable_list[i][(row - self._offsets[i], *parts[1:])]
        if not isinstance(first, slice) or any(isinstance(b, Tensor) for b in (first.start, first.stop, first.step)):
            return self._concat()[spec]
        begin, end, step = first.indices(rows)
        if step < 1:
            return self._concat()[spec]
        found = []
        for v, low, high in zip(self._variable_list, self._offsets, self._offsets[1:], strict=False):
            start = begin if begin >= low else begin + -(-(low - begin) // step) * step
            if start < min(end, high):
                found.append(v[(slice(start - low, min(end, high) - low, step), *parts[1:])])
        if not found:
            return self._variable_list[0][(slice(0, 0), *parts[1:])]
        return found[0] if len(found) == 1 else get("ConcatV2")(found, 0)

    def sparse_read(self, indices: Any, name: str | None = None) -> Any:
        """Rows of the whole, in the order that is requested."""
        each, extra = divmod(self._offsets[-1], len(self._variable_list))
        if any(v.shape.as_list()[0] != each + (i < extra) for i, v in enumerate(self._variable_list)):
            raise NotImplementedError(f"Rows of {self._name} cannot be looked up: its shards do not divide the rows evenly, "
                                      "with the larger shards first. Use slices, or tf.gather of the whole.")
        return lookup(self._variable_list, indices, "div", name)

    # -- writing ------------------------------------------------------------------------------------------------------
    def _change(self, method: str, value: Any, use_locking: Any, name: Any, read_value: bool) -> Any:
        value = value if isinstance(value, PartitionedVariable) else convert(value, self._dtype)
        if not isinstance(value, PartitionedVariable) and not value.shape.is_compatible_with(self._shape):
            raise ValueError(f"Shapes {self._shape} and {value.shape} are incompatible: {self._name} cannot be assigned to.")
        for v, low, high in zip(self._variable_list, self._offsets, self._offsets[1:], strict=False):
            getattr(v, method)(value[low:high], read_value=False)
        return self

    def assign(self, value: Any, use_locking: Any = None, name: str | None = None, read_value: bool = True) -> Any:
        """Sets the whole."""
        return self._change("assign", value, use_locking, name, read_value)

    def assign_add(self, delta: Any, use_locking: Any = False, name: str | None = None, read_value: bool = True) -> Any:
        """Adds to the whole."""
        return self._change("assign_add", delta, use_locking, name, read_value)

    def assign_sub(self, delta: Any, use_locking: Any = False, name: str | None = None, read_value: bool = True) -> Any:
        """Subtracts from the whole."""
        return self._change("assign_sub", delta, use_locking, name, read_value)

    def _scatter(self, kind: str, sparse_delta: Any, name: str | None) -> Any:
        """Assigns each shard its rows."""
        if not isinstance(sparse_delta, IndexedSlices):
            raise TypeError(f"sparse_delta is not IndexedSlices: {sparse_delta}")
        indices = convert(sparse_delta.indices)
        if indices.shape.rank != 1:
            raise ValueError(f"ShardedVariable: indices must be 1D Tensor for sparse operations. Received: {indices.shape}")
        values = convert(sparse_delta.values, self._dtype)
        ends = convert(self._offsets[1:], indices.dtype)
        shard = get("Sum")(get("Cast")(get("GreaterEqual")(get("ExpandDims")(indices, 1), ends), DstT="int32"), 1)
        low = get("GatherV2")(convert(self._offsets, indices.dtype), shard, 0)
        count = len(self._variable_list)
        own = get("DynamicPartition")(indices - low, shard, num_partitions=count)
        parts = get("DynamicPartition")(values, shard, num_partitions=count) if values.shape.rank else [values] * count
        for i, v in enumerate(self._variable_list):
            getattr(v, f"scatter_{kind}")(IndexedSlices(parts[i], own[i]))
        return self

    def batch_scatter_update(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Sets rows: with one vector of indices, there is one batch."""
        return self._scatter("update", sparse_delta, name)

    # -- checkpoints --------------------------------------------------------------------------------------------------
    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        return {VARIABLE_VALUE_KEY: lambda name=self._name: ShardsSaveable(self, name)}

    def __repr__(self) -> str:
        what = f"shape={self._shape} dtype={self._dtype.name}"
        return f"<ShardedVariable '{self._name}' {what} of {len(self._variable_list)} shards>"


def _scatter(kind: str) -> Callable:
    def scatter(self: ShardedVariable, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        return self._scatter(kind, sparse_delta, name)
    scatter.__doc__ = f"scatter_{kind} of rows, each in the shard that has it."
    return scatter


for _kind in _SCATTERS:
    setattr(ShardedVariable, f"scatter_{_kind}", _scatter(_kind))


class ShardsSaveable(SaveableObject):
    """The shards of a variable: saved are slices of the whole, and each shard restores its part, however the whole was
    sharded."""

    def __init__(self, variable: ShardedVariable, name: str):
        self._parts = [ResourceVariableSaveable(v, v._save_slice_info.spec, name) for v in variable.variables]
        super().__init__(variable, [spec for part in self._parts for spec in part.specs], name)

    def restore(self, restored_tensors: list, restored_shapes: Any) -> Any:
        """Assigns its part to each shard."""
        done = []
        for part, tensor in zip(self._parts, restored_tensors, strict=True):
            with device(None):
                done.append(part.restore([tensor], None))
        return group(*[d for d in done if d is not None]) if any(d is not None for d in done) else None


class ShardedVariableSpec(TypeSpec):
    """The type of a ShardedVariable: the shapes of its shards."""

    __slots__ = ("_shapes",)

    def __init__(self, *shapes: Any):
        self._shapes = shapes

    value_type = property(lambda self: ShardedVariable, doc="ShardedVariable.")

    def _serialize(self) -> tuple:
        return self._shapes


def _operator(name: str) -> Callable:
    def apply(self: ShardedVariable, *args: Any) -> Any:
        return getattr(self._concat(), name)(*args)
    return apply


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"):
    for _side in (f"__{_name}__", f"__r{_name}__"):
        if hasattr(Tensor, _side):
            setattr(ShardedVariable, _side, _operator(_side))
for _name in ("__neg__", "__abs__", "__invert__", "__lt__", "__le__", "__gt__", "__ge__"):
    setattr(ShardedVariable, _name, _operator(_name))


def _to_tensor(value: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    return convert(value._concat(), dtype, name)


register_tensor_conversion_function(ShardedVariable, _to_tensor, priority=50)
