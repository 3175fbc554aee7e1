"""TypeSpec: the type of a value that is made of tensors, without the tensors.

`nest` uses specs to take composite values apart and put them together; tf.function, tf.data and control flow use them
as signatures. The plain one is TensorSpec; SparseTensorSpec and others stand with their classes.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock._src.base import dtypes, nest
from penstock._src.base.api import export
from penstock._src.base.static_shape import Dimension, TensorShape
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor


@export("TypeSpec", "data.experimental.Structure")
class TypeSpec:
    """Base class. Subclasses define value_type, _component_specs, _to_components, _from_components, _serialize."""

    __slots__ = ()
    if TYPE_CHECKING:      # of most subclasses
        dtype: Any
        shape: Any
        _to_batched_tensor_list: Any
        _unbatch: Any

    @property
    def value_type(self) -> Any:
        """The class of the values."""
        raise NotImplementedError(f"{type(self).__name__} does not define value_type.")

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether a value (or all values of a spec) could be of this type."""
        if not isinstance(spec_or_value, TypeSpec):
            spec_or_value = type_spec_from_value(spec_or_value)
        if type(self) is not type(spec_or_value):
            return False
        return _compatible(self._serialize(), spec_or_value._serialize())  # type: ignore[attr-defined]

    def most_specific_compatible_type(self, other: TypeSpec) -> TypeSpec:
        """The narrowest type that covers both; ValueError if there is none."""
        if type(self) is not type(other):
            raise ValueError(f"No TypeSpec is compatible with both {self} and {other}")
        merged = _widest(self._serialize(), other._serialize())  # type: ignore[attr-defined]
        return self._deserialize(merged)

    def is_subtype_of(self, other: Any) -> bool:
        """Whether `other` describes every value that this type describes."""
        return type(self) is type(other) and _subtype(self._serialize(), other._serialize())  # type: ignore[attr-defined]

    def most_specific_common_supertype(self, others: Any) -> TypeSpec | None:
        """The narrowest type that describes the values of this one and of all `others`, or None."""
        found: TypeSpec = self
        for other in others:
            if type(found) is not type(other):
                return None
            try:
                found = found._deserialize(_widest(found._serialize(), other._serialize()))  # type: ignore[attr-defined]
            except ValueError:
                return None
        return found

    def _with_tensor_ranks_only(self) -> TypeSpec:
        """The same type for shapes of which only the ranks are known."""
        def relaxed(part: Any) -> Any:
            if isinstance(part, TensorShape):
                return TensorShape(None if part.rank is None else [None] * part.rank)
            if isinstance(part, TypeSpec):
                return part._with_tensor_ranks_only()
            return tuple(map(relaxed, part)) if type(part) is tuple else part
        return self._deserialize(relaxed(self._serialize()))                # type: ignore[attr-defined]

    def _without_tensor_names(self) -> TypeSpec:
        """The same type without the names of tensors, under the name by which tf_keras calls it."""
        def unnamed(part: Any) -> Any:
            if isinstance(part, TypeSpec):
                return part._without_tensor_names()
            return tuple(map(unnamed, part)) if type(part) is tuple else part
        return self._deserialize(unnamed(self._serialize()))                # type: ignore[attr-defined]

    @classmethod
    def _deserialize(cls, serialization: Any) -> TypeSpec:
        return cls(*serialization)

    def _to_tensor_list(self, value: Any) -> list:
        if not self.is_compatible_with(value):
            raise ValueError(f"Value {value!r} is not compatible with {self!r}.")
        return nest.flatten(self._to_components(value), expand_composites=True)  # type: ignore[attr-defined]

    def _from_tensor_list(self, tensor_list: list) -> Any:
        self._check_tensor_list(tensor_list)
        return self._from_compatible_tensor_list(tensor_list)

    def _from_compatible_tensor_list(self, tensor_list: list) -> Any:
        return self._from_components(  # type: ignore[attr-defined]
            nest.pack_sequence_as(self._component_specs, tensor_list, expand_composites=True))  # type: ignore[attr-defined]

    def _check_tensor_list(self, tensor_list: list) -> None:
        specs = self._flat_tensor_specs
        if len(specs) != len(tensor_list):
            raise ValueError("Incompatible input: wrong number of tensors")
        for i, (s, t) in enumerate(zip(specs, tensor_list, strict=True)):
            if not s.is_compatible_with(t):
                raise ValueError(f"Incompatible input: tensor {i} ({t}) is incompatible with {s}")

    @property
    def _flat_tensor_specs(self) -> list:
        return nest.flatten(self._component_specs, expand_composites=True)  # type: ignore[attr-defined]

    def __make_cmp_key(self, value: Any) -> Any:
        """A hashable key of serialized values, under the name by which specs of libraries call it."""
        return _hashable(value)

    def __is_compatible(self, a: Any, b: Any) -> bool:
        return _compatible(a, b)

    def _key(self) -> Any:
        return _hashable((type(self), self._serialize()))  # type: ignore[attr-defined]

    def __eq__(self, other: Any) -> bool:
        return type(other) is type(self) and self._key() == other._key()

    def __ne__(self, other: Any) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> Any:
        return type(self), self._serialize()  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"{type(self).__name__}{tuple(self._serialize())!r}"      # type: ignore[attr-defined]


def _hashable(value: Any) -> Any:
    if isinstance(value, TypeSpec):
        if type(value).__hash__ is not TypeSpec.__hash__:
            return value
        return type(value), _hashable(value._serialize())  # type: ignore[attr-defined]
    if isinstance(value, TensorShape):
        return TensorShape, value.static_dims
    if isinstance(value, np.ndarray):
        return np.ndarray, value.shape, _hashable(value.tolist())
    if isinstance(value, dict):
        return dict, tuple((k, _hashable(value[k])) for k in sorted(value))
    if isinstance(value, (list, tuple)):
        return type(value), tuple(_hashable(v) for v in value)
    if isinstance(value, Dimension):
        return Dimension, value.value
    return value


def _related(a: Any, b: Any, leaf: Callable[[Any, Any], bool]) -> bool:
    """Whether two serialized types have one structure, with `leaf` true of each pair of specs, shapes or dtypes in it."""
    if isinstance(a, (TypeSpec, TensorShape, dtypes.DType)):
        return leaf(a, b)
    if not _same_container(a, b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(_related(x, y, leaf) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return sorted(a) == sorted(b) and all(_related(a[k], b[k], leaf) for k in a)
    return _hashable(a) == _hashable(b)


def _same_container(a: Any, b: Any) -> bool:
    """Whether two values have one type. A named tuple may be defined twice: its name and its fields count."""
    if hasattr(a, "_fields") and hasattr(b, "_fields"):
        return type(a).__name__ == type(b).__name__ and a._fields == b._fields
    return type(a) is type(b)


def _compatible(a: Any, b: Any) -> bool:
    return _related(a, b, lambda x, y: x.is_compatible_with(y))


def _subtype(a: Any, b: Any) -> bool:
    return _related(a, b, lambda x, y: x == y if isinstance(x, dtypes.DType) else x.is_subtype_of(y))


def _widest(a: Any, b: Any) -> Any:
    if isinstance(a, TypeSpec):
        return a.most_specific_compatible_type(b)
    if isinstance(a, TensorShape):
        if not isinstance(b, TensorShape):
            raise ValueError(f"Types are not compatible: {a!r} vs {b!r}")
        return a.most_specific_compatible_shape(b)
    if isinstance(a, (list, tuple)) and _same_container(a, b) and len(a) == len(b):
        parts = [_widest(x, y) for x, y in zip(a, b, strict=True)]
        return type(a)(*parts) if hasattr(a, "_fields") else type(a)(parts)
    if isinstance(a, dict) and isinstance(b, dict) and sorted(a) == sorted(b):
        return {k: _widest(a[k], b[k]) for k in a}
    if type(a) is type(b) and _hashable(a) == _hashable(b):
        return a
    raise ValueError(f"Types are not compatible: {a!r} vs {b!r}")


class BatchableTypeSpec(TypeSpec):
    """A TypeSpec that has a batched form."""

    __slots__ = ()

    def _to_batched_tensor_list(self, value: Any) -> list:
        return self._to_tensor_list(value)


_FROM_VALUE: list[tuple[type, Callable]] = []


def register_type_spec_from_value_converter(type_object: type, converter: Callable, allow_subclass: bool = False) -> None:
    """Registers the conversion from a type to its TypeSpec."""
    _FROM_VALUE.append((type_object, converter))


export.value(register_type_spec_from_value_converter, v1=["__internal__.register_type_spec_from_value_converter"],
             v2=["__internal__.register_type_spec_from_value_converter"])


@export("type_spec_from_value")
def type_spec_from_value(value: Any) -> TypeSpec:
    """The TypeSpec of a value: TensorSpec for anything that converts to a tensor.

    >>> tf.type_spec_from_value([1, 2])
    TensorSpec(shape=(2,), dtype=tf.int32, name=None)
    """
    spec = getattr(value, "_type_spec", None)
    if isinstance(spec, TypeSpec):
        return spec
    for t, converter in reversed(_FROM_VALUE):
        if isinstance(value, t):
            return converter(value)
    if isinstance(value, Tensor) or hasattr(value, "dtype") and hasattr(value, "shape"):
        return TensorSpec(value.shape, value.dtype)
    try:
        tensor = convert(value)
    except (TypeError, ValueError) as e:
        raise TypeError(f"Could not build a TypeSpec for {value!r} with type {type(value).__name__}") from e
    return TensorSpec(tensor.shape, tensor.dtype)


class DenseSpec(TypeSpec):
    """What the types of dense values share: a shape, a dtype and a name."""

    __slots__ = ("_shape", "_dtype", "_name")

    def __init__(self, shape: Any, dtype: Any = dtypes.float32, name: str | None = None):
        self._shape = shape if isinstance(shape, TensorShape) else TensorShape(shape)
        self._dtype = dtypes.as_dtype(dtype)
        self._name = name

    shape = property(lambda self: self._shape, doc="The TensorShape.")
    dtype = property(lambda self: self._dtype, doc="The DType.")
    name = property(lambda self: self._name, doc="A name, or None.")


@export("TensorSpec")
class TensorSpec(DenseSpec, BatchableTypeSpec):
    """Shape, dtype and name of a tensor.

    Args:
        shape: Static shape.
        dtype: Element type.
        name: Name, for arguments of functions.

    >>> tf.TensorSpec([None, 3], tf.float32)
    TensorSpec(shape=(None, 3), dtype=tf.float32, name=None)
    """

    __slots__ = ()
    _is_leaf_spec = True           # nest does not look inside
    value_type = property(lambda self: Tensor, doc="The class of the values.")

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> TensorSpec:
        """A copy of a spec, optionally with another name."""
        return cls(spec.shape, spec.dtype, name or spec.name)

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> TensorSpec:
        """The spec of a tensor."""
        if not isinstance(tensor, Tensor):
            raise ValueError(f"`tensor` should be a tf.Tensor, got {type(tensor)}")
        found = None if hasattr(tensor, "_value") else tensor.op.name
        return cls(tensor.shape, tensor.dtype, name or found)

    def is_compatible_with(self, spec_or_tensor: Any) -> bool:
        """Whether shape and dtype fit."""
        if not isinstance(spec_or_tensor, TensorSpec) and not hasattr(spec_or_tensor, "dtype"):
            try:
                spec_or_tensor = type_spec_from_value(spec_or_tensor)
            except TypeError:
                return False
        if not hasattr(spec_or_tensor, "shape") or isinstance(spec_or_tensor, TypeSpec) and \
                not isinstance(spec_or_tensor, TensorSpec):
            return False
        return self._dtype.is_compatible_with(spec_or_tensor.dtype) and \
            self._shape.is_compatible_with(spec_or_tensor.shape)

    def most_specific_compatible_type(self, other: Any) -> TensorSpec:
        """The narrowest spec that covers both; ValueError if there is none. A name is a part of what is described."""
        if type(self) is not type(other) or self._dtype != other.dtype or self._name != other.name:
            raise ValueError(f"No TypeSpec is compatible with both {self!r} and {other!r}")
        return TensorSpec(self._shape.most_specific_compatible_shape(other.shape), self._dtype, self._name)

    def is_subtype_of(self, other: Any) -> bool:
        """Whether `other` describes every tensor that this spec describes. A name is a part of what is described."""
        return isinstance(other, TensorSpec) and self._name in (None, other.name) and self._dtype == other.dtype and \
            self._shape.is_subtype_of(other.shape)

    def most_specific_common_supertype(self, others: Any) -> TensorSpec | None:
        """The narrowest spec that covers this one and all `others`, or None."""
        if any(not isinstance(o, TensorSpec) or o.dtype != self._dtype or o.name != self._name for o in others):
            return None
        return TensorSpec(self._shape.most_specific_common_supertype([o.shape for o in others]), self._dtype, self._name)

    def _without_tensor_names(self) -> TensorSpec:
        return self if self._name is None else TensorSpec(self._shape, self._dtype)

    def _serialize(self) -> tuple:
        return self._shape, self._dtype, self._name

    def _to_components(self, value: Any) -> Any:
        try:
            value = convert(value, self._dtype)
        except (TypeError, ValueError):
            raise ValueError(f"Value {value!r} is not convertible to a tensor with dtype {self._dtype} and shape "
                             f"{self._shape}.") from None
        if not value.shape.is_compatible_with(self._shape):
            raise ValueError(f"Value {value!r} is not convertible to a tensor with dtype {self._dtype} and shape "
                             f"{self._shape}.")
        return value

    def _from_components(self, components: Any) -> Any:
        return components

    @property
    def _component_specs(self) -> Any:
        return self

    @property
    def _flat_tensor_specs(self) -> list:
        return [self]

    def _to_tensor_list(self, value: Any) -> list:
        return [self._to_components(value)]

    def _from_compatible_tensor_list(self, tensor_list: list) -> Any:
        if isinstance(tensor_list[0], Tensor):
            tensor_list[0].set_shape(self._shape)
        return tensor_list[0]

    def _batch(self, batch_size: Any) -> TensorSpec:
        return TensorSpec(TensorShape([batch_size]).concatenate(self._shape), self._dtype)

    def _unbatch(self) -> TensorSpec:
        if self._shape.ndims == 0:
            raise ValueError("Unbatching a tensor is only supported for rank >= 1")
        return TensorSpec(self._shape[1:], self._dtype)

    def _to_legacy_output_types(self) -> Any:
        return self._dtype

    def _to_legacy_output_shapes(self) -> Any:
        return self._shape

    def _to_legacy_output_classes(self) -> Any:
        return Tensor

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self._shape}, dtype={self._dtype!r}, name={self._name!r})"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, TensorSpec) and self._shape.static_dims == other._shape.static_dims and \
            self._dtype == other.dtype and self._name == other._name

    def __hash__(self) -> int:
        return hash((self._shape.static_dims, self._dtype))


class BoundedTensorSpec(TensorSpec):
    """A TensorSpec with bounds on the values."""

    __slots__ = ("_minimum", "_maximum")

    def __init__(self, shape: Any, dtype: Any, minimum: Any, maximum: Any, name: str | None = None):
        super().__init__(shape, dtype, name)
        if minimum is None or maximum is None:
            raise ValueError(f"minimum and maximum must be provided; but saw {minimum!r} and {maximum!r}")
        self._minimum = self._bound(minimum, "minimum")
        self._maximum = self._bound(maximum, "maximum")

    def _bound(self, value: Any, what: str) -> np.ndarray:
        array = np.array(value, dtype=self._dtype.as_numpy_dtype)
        if self._shape.is_fully_defined():
            try:
                np.broadcast_shapes(array.shape, tuple(d for d in self._shape.as_list() if d is not None))
            except ValueError as e:
                raise ValueError(f"{what} is not compatible with shape. Message: {e!r}.") from None
        array.setflags(write=False)
        return array

    minimum = property(lambda self: self._minimum, doc="The lower bound.")
    maximum = property(lambda self: self._maximum, doc="The upper bound.")

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> BoundedTensorSpec:
        """A bounded spec from any spec; bounds default to those of the dtype."""
        dtype = dtypes.as_dtype(spec.dtype)                  # specs of arrays have numpy's
        return cls(spec.shape, dtype, getattr(spec, "minimum", dtype.min), getattr(spec, "maximum", dtype.max),
                   name or spec.name)

    def _serialize(self) -> tuple:
        return self._shape, self._dtype, self._minimum, self._maximum, self._name

    def __eq__(self, other: Any) -> bool:
        return super().__eq__(other) and np.allclose(self._minimum, other.minimum) and \
            np.allclose(self._maximum, other.maximum)

    __hash__ = TensorSpec.__hash__

    def __repr__(self) -> str:
        return (f"BoundedTensorSpec(shape={self._shape}, dtype={self._dtype!r}, name={self._name!r}, "
                f"minimum={self._minimum!r}, maximum={self._maximum!r})")


@export("IndexedSlicesSpec")
class IndexedSlicesSpec(TypeSpec):
    """The type of IndexedSlices."""

    __slots__ = ("_shape", "_values_dtype", "_indices_dtype", "_dense_shape_dtype", "_indices_shape")

    def __init__(self, shape: Any = None, dtype: Any = dtypes.float32, indices_dtype: Any = dtypes.int64,
                 dense_shape_dtype: Any = None, indices_shape: Any = None):
        self._shape = TensorShape(shape)
        self._values_dtype, self._indices_dtype = dtypes.as_dtype(dtype), dtypes.as_dtype(indices_dtype)
        self._dense_shape_dtype = None if dense_shape_dtype is None else dtypes.as_dtype(dense_shape_dtype)
        self._indices_shape = TensorShape(indices_shape).with_rank(1)

    @property
    def value_type(self) -> Any:
        """The class of the values."""
        from penstock._src.graph.indexed_slices import IndexedSlices
        return IndexedSlices

    @classmethod
    def from_value(cls, value: Any) -> IndexedSlicesSpec:
        """The spec of IndexedSlices."""
        return cls(value.shape, value.values.dtype, value.indices.dtype,
                   None if value.dense_shape is None else value.dense_shape.dtype, value.indices.shape)

    def _serialize(self) -> tuple:
        return self._shape, self._values_dtype, self._indices_dtype, self._dense_shape_dtype, self._indices_shape

    @property
    def _component_specs(self) -> Any:
        values = self._indices_shape.concatenate(self._shape[1:])
        specs = [TensorSpec(values, self._values_dtype), TensorSpec(self._indices_shape, self._indices_dtype)]
        if self._dense_shape_dtype is not None:
            specs.append(TensorSpec([self._shape.ndims], self._dense_shape_dtype))
        return tuple(specs)

    def _to_components(self, value: Any) -> tuple:
        parts = (value.values, value.indices)
        return parts if value.dense_shape is None else (*parts, value.dense_shape)

    def _from_components(self, tensor_list: list) -> Any:
        return self.value_type(*tensor_list)
