"""Structured tensors: tensors of records. Each field of a record is a separate tensor.

A StructuredTensor has a shape, which may be ragged, and fields. The first dimensions of every field are that shape; a field may
have more dimensions, and may be structured itself.
"""
from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.composite_tensor import CompositeTensor
from penstock._src.graph.node import Tensor
from penstock._src.graph.type_registry import register
from penstock._src.graph.type_spec import BatchableTypeSpec, TensorSpec, TypeSpec, type_spec_from_value
from penstock._src.library.ragged.factory import constant as ragged_constant
from penstock._src.library.ragged.row_partition import RowPartition
from penstock._src.library.ragged.shape import DynamicRaggedShape, DynamicRaggedShapeSpec
from penstock._src.library.ragged.spec import RaggedTensorSpec
from penstock._src.library.ragged.tensor import RaggedTensor, convert_to_tensor_or_ragged_tensor
from penstock._src.library.ragged.value import RaggedTensorValue
from penstock.compat import v1 as tf

_NAME = re.compile("[a-zA-Z][a-zA-Z0-9_]*")


@export("experimental.StructuredTensor")
class StructuredTensor(CompositeTensor):
    """A tensor of records.

    >>> people = tf.experimental.StructuredTensor.from_pyval([{"age": 3, "pets": ["cat"]}, {"age": 5, "pets": []}])
    >>> people["age"]
    """

    def __init__(self, fields: Mapping, ragged_shape: DynamicRaggedShape):
        self._fields, self._ragged_shape = dict(fields), ragged_shape

    # -- making ---------------------------------------------------------------------------------------------------------
    @classmethod
    def from_fields(cls, fields: Mapping, shape: Any = (), nrows: Any = None, row_partitions: Any = None,
                    validate: bool = False) -> StructuredTensor:
        """From one tensor per field. `shape` says how many of their dimensions are those of the records.

        Without fields, the shape is `shape` if it is fully known, or follows from `nrows` or `row_partitions`.
        """
        shape = TensorShape(shape)
        if shape.rank is None:
            raise ValueError("StructuredTensor's shape must have known rank.")
        if not isinstance(fields, Mapping):
            raise TypeError(f"fields must be a dictionary, got {type(fields).__name__}")
        if shape.rank < 2 and row_partitions:
            raise ValueError("row_partitions must be None or [] if shape.rank<2")
        if shape.rank == 0 and nrows is not None:
            raise ValueError("nrows must be None if shape.rank==0")
        if row_partitions is not None and shape.rank > 1 and len(row_partitions) != shape.rank - 1:
            raise ValueError("len(row_partitions) must be shape.rank-1")
        values = _checked_fields(fields)
        return cls(values, _shape_of(values, shape, nrows, row_partitions))

    @classmethod
    def from_fields_and_rank(cls, fields: Mapping, rank: int, validate: bool = False, dtype: Any = None) -> StructuredTensor:
        """From at least one field; the records have the first `rank` dimensions of it."""
        if not fields:
            raise ValueError("Must provide at least one field")
        if not isinstance(rank, int):
            raise ValueError("rank must be an integer")
        if rank < 0:
            raise ValueError("rank must be nonnegative")
        made = cls.from_fields(fields, [None] * rank)
        return made if dtype is None else cls(made._fields, made._ragged_shape.with_dtype(dtype))

    @classmethod
    def from_shape(cls, ragged_shape: DynamicRaggedShape) -> StructuredTensor:
        """Records without fields."""
        return cls({}, ragged_shape)

    @classmethod
    def from_pyval(cls, pyval: Any, typespec: Any = None) -> Any:
        """From a dictionary, or nested lists of dictionaries; values that are neither become tensors or ragged tensors."""
        return _from_python(pyval, typespec, ())

    # -- properties -----------------------------------------------------------------------------------------------------
    rank = property(lambda self: self._ragged_shape.rank, doc="The number of dimensions of the records.")
    shape = property(lambda self: self._ragged_shape._to_tensor_shape(), doc="The static shape of the records.")
    dtype = property(lambda self: self._ragged_shape.dtype, doc="The dtype of sizes and row splits.")

    @property
    def row_partitions(self) -> tuple[RowPartition, ...]:
        """The partitions of all dimensions but the outermost."""
        return tuple(self._ragged_shape._as_row_partitions()) if self.rank > 1 else ()

    def nrows(self) -> Any:
        """The size of the outermost dimension, as a tensor; None for a single record."""
        return None if self.rank == 0 else self._ragged_shape[0]

    def field_names(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(self._fields)

    def field_value(self, field_name: str | Sequence) -> Any:
        """The tensor of a field; a path of names leads into structured fields, with their dimensions joined in."""
        if isinstance(field_name, str):
            if field_name not in self._fields:
                raise KeyError(f"Field {field_name!r} not found; there are {sorted(self._fields)}")
            return self._fields[field_name]
        value: Any = self
        for i, name in enumerate(field_name):
            if not isinstance(value, StructuredTensor) or name not in value._fields:
                raise KeyError(f"There is no field {'.'.join(field_name[:i + 1])} in {self}")
            value = value._fields[name]
        return value

    def with_shape_dtype(self, dtype: Any) -> StructuredTensor:
        """The same records with sizes of another dtype."""
        return StructuredTensor(self._fields, self._ragged_shape.with_dtype(dtype))

    def __getitem__(self, key: Any) -> Any:
        """Fields by name, and records by index: `people[0]["age"]`, `people[1:, "age"]`."""
        keys = tuple(key) if isinstance(key, (tuple, list)) else (key,)
        if not keys:
            return self
        if isinstance(keys[0], str):
            return self._inside(self.field_value(keys[0]), keys[1:])
        if self.rank == 0:
            if keys[0] != slice(None):
                raise ValueError(f"Key for indexing a StructuredTensor must be a string or a full slice (':'); got {keys[0]!r}")
            return StructuredTensor.from_fields({n: self._inside(v, keys[1:]) for n, v in self._fields.items()}, ())
        if len(keys) > self.rank:
            name = keys[self.rank]
            if not isinstance(name, str):
                raise ValueError(f"Key for indexing a StructuredTensor must be a string here; got {name!r}")
            return self._inside(self.field_value(name), keys[:self.rank] + keys[self.rank + 1:])
        return self._rows(keys)

    @staticmethod
    def _inside(value: Any, keys: tuple) -> Any:
        return value[keys if len(keys) > 1 else keys[0]] if keys else value

    def _rows(self, keys: tuple) -> StructuredTensor:
        """Some of the records."""
        for k in keys:
            if k is tf.newaxis or k is Ellipsis:
                raise ValueError(f"Slicing not supported for {'tf.newaxis' if k is None else k}")
        rank = self.rank - sum(not isinstance(k, slice) for k in keys)
        fields = {n: self._inside(v, keys) for n, v in self._fields.items()}
        if fields:
            return StructuredTensor.from_fields(fields, [None] * rank)
        return StructuredTensor.from_shape(DynamicRaggedShape.from_tensor(self._inside(_zeros(self._ragged_shape), keys)))

    # -- changing ---------------------------------------------------------------------------------------------------------
    def with_updates(self, updates: Mapping, validate: bool = False) -> StructuredTensor:
        """With other values for some fields: a tensor, a function of the present value, or None to drop it.

        A name is a string, or a path (tuple) into structured fields.
        """
        return self._with_updates(updates, ())

    def _with_updates(self, updates: Mapping, within: tuple) -> StructuredTensor:
        """The same for a structured field at the path `within`."""
        by_name: dict[str, Any] = {}
        for name, update in updates.items():
            path = (name,) if isinstance(name, str) else tuple(name)
            if not path:
                raise ValueError(f"with_updates does not allow empty names: {within + path}")
            inner = by_name.setdefault(path[0], {} if len(path) > 1 else (update,))
            if isinstance(inner, dict) != (len(path) > 1):
                raise ValueError("with_updates does not allow both parent and child nodes to be updated: "
                                 f"{(*within, path[0])} is updated as a whole, and in parts")
            if isinstance(inner, dict):
                inner[path[1:]] = update
        fields = dict(self._fields)
        for name, change in by_name.items():
            value = self._updated(name, change, (*within, name))
            if value is None:
                del fields[name]
            else:
                fields[name] = value
        if not fields:
            return StructuredTensor.from_shape(self._ragged_shape)
        return StructuredTensor.from_fields(fields, self.shape)

    def _updated(self, name: str, change: Any, path: tuple) -> Any:
        found = self._fields.get(name)
        if isinstance(change, dict):
            if isinstance(found, StructuredTensor):
                return found._with_updates(change, path)
            new = (*path, *next(iter(change)))
            raise ValueError(f"with_updates cannot create new sub-field {new}: its parent {path} " + (
                "is not set" if found is None else f"is not a `StructuredTensor` but a {type(found).__name__}"))
        update, = change
        if update is None and found is None:
            raise ValueError(f"with_updates cannot delete field {path}: it is not present")
        if callable(update) and found is None:
            raise ValueError(f"with_updates cannot update the field {path}: a function was given, but the field does not "
                             "already exist")
        return update(found) if callable(update) else update

    def promote(self, source_path: Sequence[str], new_name: str) -> StructuredTensor:
        """Promotes a field of a structured field to its parent."""
        if not isinstance(new_name, str):
            raise ValueError("new_name is not a string")
        if not isinstance(source_path, (list, tuple)):
            raise ValueError("source_path must be a list or tuple")
        if len(source_path) < 2:
            raise ValueError("source_path must have length at least two")
        outer = tuple(source_path[:-2])
        parent = self.field_value(outer) if outer else self
        inner = parent.field_value(source_path[-2])
        value = inner.field_value(source_path[-1])
        if parent.rank and inner.rank > parent.rank:
            rank = value.shape.rank
            if rank is None:
                raise ValueError("Cannot determine if dimensions should be merged.")
            value = _merged(value, parent.rank, min(inner.rank, rank - 1) + 1)
        return self.with_updates({(*outer, new_name): value})

    def partition_outer_dimension(self, row_partition: RowPartition) -> StructuredTensor:
        """Partitions the records of the outermost dimension into rows."""
        if not isinstance(row_partition, RowPartition):
            raise TypeError("row_partition must be a RowPartition.")
        if self.rank == 0:
            raise ValueError(f"Shape {self.shape} must have rank at least 1")
        fields = {n: v.partition_outer_dimension(row_partition) if isinstance(v, StructuredTensor) else
                  RaggedTensor._from_row_partition(v, row_partition) for n, v in self._fields.items()}
        if fields:
            return StructuredTensor.from_fields(fields, [None] * (self.rank + 1))
        return StructuredTensor.from_shape(DynamicRaggedShape.from_tensor(
            RaggedTensor._from_row_partition(_zeros(self._ragged_shape), row_partition)))

    def merge_dims(self, outer_axis: int, inner_axis: int) -> StructuredTensor:
        """With the dimensions from `outer_axis` to `inner_axis` joined into one."""
        outer, inner = (a + self.rank if a < 0 else a for a in (outer_axis, inner_axis))
        if not 0 <= outer <= inner < self.rank:
            raise ValueError(f"Expected outer_axis ({outer_axis}) to be less than or equal to inner_axis ({inner_axis})")
        rank = self.rank - (inner - outer)
        fields = {n: _merged(v, outer, inner + 1) for n, v in self._fields.items()}
        if fields:
            return StructuredTensor.from_fields(fields, [None] * rank)
        zeros = _merged(_zeros(self._ragged_shape), outer, inner + 1)
        return StructuredTensor.from_shape(DynamicRaggedShape.from_tensor(zeros))

    # -- Python values ------------------------------------------------------------------------------------------------------
    def to_pyval(self) -> Any:
        """A dictionary, or nested lists of dictionaries."""
        values = {n: v.to_pyval() if isinstance(v, StructuredTensor) else v.to_list() if isinstance(v, RaggedTensor) else
                  np.asarray(v.numpy()).tolist() for n, v in self._fields.items()}
        if not values:
            zeros = _zeros(self._ragged_shape)
            rows = zeros.to_list() if isinstance(zeros, RaggedTensor) else zeros.numpy().tolist()
            return _records({"": rows}, self.rank, True)
        return _records(values, self.rank)

    def __repr__(self) -> str:
        fields = ", ".join(f'"{n}": {v!r}' for n, v in sorted(self._fields.items()))
        return f"<StructuredTensor(fields={{{fields}}}, shape={self.shape})>"

    @property
    def _type_spec(self) -> StructuredTensorSpec:
        return StructuredTensorSpec(self._ragged_shape._type_spec,
                                    {n: type_spec_from_value(v) for n, v in self._fields.items()})


@register("tf.StructuredTensorSpec")
class StructuredTensorSpec(BatchableTypeSpec):
    """The type of a StructuredTensor: that of its shape, and those of its fields."""

    __slots__ = ("_ragged_shape", "_fields")
    value_type = StructuredTensor

    def __init__(self, _ragged_shape: DynamicRaggedShapeSpec, _fields: Mapping):
        if not isinstance(_fields, Mapping):
            raise TypeError(f"_fields must be a dictionary, got {type(_fields).__name__}")
        for name, spec in _fields.items():
            if not isinstance(name, str) or not isinstance(spec, TypeSpec):
                raise TypeError(f"_fields must have strings as keys and TypeSpecs as values, got {name!r}: {spec!r}")
        self._ragged_shape, self._fields = _ragged_shape, dict(_fields)

    @classmethod
    def _from_fields_and_rank(cls, fields: Mapping, rank: int) -> StructuredTensorSpec:
        return cls(DynamicRaggedShapeSpec([], [None] * rank), fields)

    @classmethod
    def _from_shape(cls, shape: DynamicRaggedShapeSpec) -> StructuredTensorSpec:
        """The type of records without fields."""
        return cls(shape, {})

    rank = property(lambda self: self._ragged_shape.rank)
    shape = property(lambda self: self._ragged_shape._to_tensor_shape())
    _shape = property(lambda self: self._ragged_shape._to_tensor_shape())
    _field_specs = property(lambda self: self._fields)

    def _serialize(self) -> tuple:
        return self._ragged_shape, self._fields

    @property
    def _component_specs(self) -> Any:
        """The fields, from which the shape follows; without any, the shape."""
        return dict(self._fields) if self._fields else {"": self._ragged_shape}

    def _to_components(self, value: StructuredTensor) -> Any:
        return dict(value._fields) if self._fields else {"": value._ragged_shape}

    def _from_components(self, components: Any) -> StructuredTensor:
        if not self._fields:
            return StructuredTensor.from_shape(components[""])
        return StructuredTensor.from_fields(components, self.shape)

    # The elements that datasets batch: the encodings of all fields, in sequence.
    @property
    def _flat_tensor_specs(self) -> list:
        return [t for spec in self._component_specs.values() for t in spec._flat_tensor_specs]

    def _lists(self, value: StructuredTensor, method: str) -> list:
        found: list = []
        for name, spec in self._component_specs.items():
            part = self._to_components(value)[name]
            found += getattr(spec, method, spec._to_tensor_list)(part)
        return found

    def _to_tensor_list(self, value: StructuredTensor) -> list:
        return self._lists(value, "_to_tensor_list")

    def _to_batched_tensor_list(self, value: StructuredTensor) -> list:
        return self._lists(value, "_to_batched_tensor_list")

    def _from_compatible_tensor_list(self, tensor_list: list) -> StructuredTensor:
        parts, at = {}, 0
        for name, spec in self._component_specs.items():
            count = len(spec._flat_tensor_specs)
            parts[name] = spec._from_compatible_tensor_list(tensor_list[at:at + count])
            at += count
        return self._from_components(parts)

    def _batch(self, batch_size: Any) -> StructuredTensorSpec:
        shape = TensorShape([batch_size]).concatenate(self.shape)
        return StructuredTensorSpec(DynamicRaggedShapeSpec([], shape, self._ragged_shape.dtype),
                                    {n: s._batch(batch_size) for n, s in self._fields.items()})

    def _unbatch(self) -> StructuredTensorSpec:
        return StructuredTensorSpec(DynamicRaggedShapeSpec([], self.shape[1:], self._ragged_shape.dtype),
                                    {n: s._unbatch() for n, s in self._fields.items()})


StructuredTensor.Spec = StructuredTensorSpec       # type: ignore[attr-defined]


# -- fields and shapes ---------------------------------------------------------------------------------------------------------
def _checked_fields(fields: Mapping) -> dict[str, Any]:
    for name in fields:
        if not isinstance(name, str):
            raise TypeError(f"Unexpected type for key in `fields`: {name!r}")
        if not _NAME.fullmatch(name):
            raise ValueError(f"Field name {name!r} is not currently allowed.")
    return {name: _field(value) for name, value in fields.items()}


def _field(value: Any) -> Any:
    if isinstance(value, (Tensor, RaggedTensor, StructuredTensor)):
        return value
    if isinstance(value, (RaggedTensorValue, CompositeTensor)):
        return convert_to_tensor_or_ragged_tensor(value)
    try:
        return tf.convert_to_tensor(value)
    except (TypeError, ValueError) as e:
        raise TypeError(f"Unexpected type for value in `fields`: {value!r}") from e


def _shape_of(fields: dict, shape: TensorShape, nrows: Any, row_partitions: Any) -> DynamicRaggedShape:
    """The shape of records: as their fields say, or the arguments."""
    rank = shape.rank
    assert rank is not None                       # checked where the fields are given
    if row_partitions:
        return DynamicRaggedShape.from_row_partitions(row_partitions)
    found = None
    for name, value in fields.items():
        of = DynamicRaggedShape.from_tensor(value)
        if of.rank is None or of.rank < rank:
            raise ValueError(f"Error in shape of {name}: rank {of.rank} is less than {rank}")
        of = of.truncated(rank)
        try:
            found = of if found is None else found._merge_with(of)
            shape.assert_is_compatible_with(of._to_tensor_shape())
        except ValueError as e:
            raise ValueError(f"Error in shape of {name}: {e}") from None
    if found is not None:
        return found
    if shape.is_fully_defined():
        return DynamicRaggedShape([], tf.constant(shape.as_list(), dtypes.int64))
    if rank == 1 and nrows is not None:
        return DynamicRaggedShape([], tf.stack([tf.cast(nrows, dtypes.int64)]))
    if rank == 1:
        raise ValueError("Must specify `nrows`, a fully specified `shape`, or have `fields` if `rank=1`")
    raise ValueError("Must specify row_partitions, a fully specified shape, or have fields if rank > 1")


def _zeros(shape: DynamicRaggedShape) -> Any:
    return shape._add_row_partitions(tf.zeros(shape.inner_shape, dtypes.int32))


def _merged(value: Any, outer: int, end: int) -> Any:
    """A field with dimensions [outer, end) joined into one."""
    if end - outer < 2:
        return value
    if isinstance(value, StructuredTensor):
        return value.merge_dims(outer, end - 1)
    if isinstance(value, RaggedTensor):
        return value.merge_dims(outer, end - 1)
    shape = tf.shape(value)
    return tf.reshape(value, tf.concat([shape[:outer], [-1], shape[end:]], 0))


# -- from and to Python values ------------------------------------------------------------------------------------------------
def _from_python(value: Any, spec: Any, path: tuple) -> Any:
    """A tensor of any kind, of the type `spec` if that is given."""
    made = _untyped(value, spec, path)
    if spec is None or spec.is_compatible_with(made):
        return made
    ranks = (getattr(s, "rank", None) for s in (made, spec))
    which = "rank mismatch" if isinstance(made, StructuredTensor) and len(set(ranks)) > 1 else type_spec_from_value(made)
    raise ValueError(f"Value at {path!r} does not match typespec ({which}): {value!r} vs {spec}")


def _untyped(value: Any, spec: Any, path: tuple) -> Any:
    fields = getattr(spec, "_fields", {}) if isinstance(spec, StructuredTensorSpec) else {}
    if isinstance(value, dict):
        made = {n: _from_python(v, fields.get(n), (*path, n)) for n, v in value.items()}
        return StructuredTensor.from_fields(made, ())
    if not isinstance(value, (list, tuple)):
        return tf.convert_to_tensor(value, dtype=getattr(spec, "dtype", None))
    keys, depth = _keys_and_depth(value)
    if keys is not None:
        return _from_records(value, sorted(keys), depth, fields, path)
    if not isinstance(spec, StructuredTensorSpec):
        return _from_list(value, spec, path)
    if fields and _scalars(value):
        raise ValueError(f"Value at {path!r} does not match typespec: {value!r} has no records")
    if fields:
        made = {n: _from_python(value, s, (*path, n)) for n, s in fields.items()}
        return StructuredTensor.from_fields(made, [None] * spec.rank)
    zeros = ragged_constant(value, dtypes.int32, ragged_rank=spec.rank - 1)
    return StructuredTensor.from_shape(DynamicRaggedShape.from_tensor(zeros))


def _scalars(value: Any) -> bool:
    """Whether nested lists have anything but lists in them."""
    return any(map(_scalars, value)) if isinstance(value, (list, tuple)) else True


def _from_list(value: Any, spec: Any, path: tuple) -> Any:
    try:
        if isinstance(spec, TensorSpec):
            return tf.constant(value, spec.dtype, shape=None)
        if isinstance(spec, RaggedTensorSpec):
            return ragged_constant(value, spec.dtype, ragged_rank=spec._ragged_rank, inner_shape=spec._shape.as_list()[
                spec._ragged_rank + 1:])
        return ragged_constant(value)
    except (TypeError, ValueError) as e:
        raise ValueError(f"Error parsing path {path!r}: {e}") from e


def _keys_and_depth(value: Any) -> tuple[set | None, int]:
    """The keys of the dictionaries inside of nested lists, and how deep they are; None if there are none."""
    if isinstance(value, dict):
        return set(value), 0
    if not isinstance(value, (list, tuple)):
        return None, 0
    found = [_keys_and_depth(v) for v in value]
    with_keys = [(keys, depth) for keys, depth in found if keys is not None]
    if not with_keys:
        return None, 0
    if any(keys is None and not isinstance(v, (list, tuple)) for v, (keys, _) in zip(value, found, strict=True)):
        raise ValueError(f"Only some items of a list are records: {value!r}")
    if len({depth for _, depth in with_keys}) > 1:
        raise ValueError("Inconsistent depth of dictionaries")
    return set().union(*(keys for keys, _ in with_keys)), with_keys[0][1] + 1


def _from_records(value: Any, keys: list[str], rank: int, specs: dict, path: tuple) -> StructuredTensor:
    def of(item: Any, key: str) -> Any:
        return [of(v, key) for v in item] if isinstance(item, (list, tuple)) else item[key]
    try:
        columns = {k: of(value, k) for k in keys}
    except (KeyError, TypeError) as e:
        raise ValueError(f"Error parsing path {path!r}: records have different fields: {e}") from e
    if keys:
        return StructuredTensor.from_fields({k: _column(v, specs.get(k), rank, (*path, k)) for k, v in columns.items()},
                                            [None] * rank)
    zeros = ragged_constant(_zeros_for(value), dtypes.int32, ragged_rank=rank - 1)
    return StructuredTensor.from_shape(DynamicRaggedShape.from_tensor(zeros))


def _column(value: Any, spec: Any, rank: int, path: tuple) -> Any:
    made = _from_python(value, spec, path)
    if not isinstance(made, (RaggedTensor, StructuredTensor)) or made.shape.rank is not None and made.shape.rank >= rank:
        return made
    raise ValueError(f"Error parsing path {path!r}: rank {made.shape.rank} is less than {rank}")


def _zeros_for(value: Any) -> Any:
    return [_zeros_for(v) for v in value] if isinstance(value, (list, tuple)) else 0


def _records(values: dict[str, Any], rank: int, empty: bool = False) -> Any:
    if rank == 0:
        return {} if empty else values
    first = next(iter(values.values()))
    return [_records({n: v[i] for n, v in values.items()}, rank - 1, empty) for i in range(len(first))]
