"""tf.experimental.ExtensionType: user-defined classes made of tensors, declared by annotated fields.

    >>> class MaskedTensor(tf.experimental.ExtensionType):
    ...     values: tf.Tensor
    ...     mask: tf.Tensor

The metaclass makes a constructor and a `Spec` from the annotations. Values do not change after construction; they go through
tf.function, tf.data, control flow and SavedModels as their components, like any CompositeTensor.
"""
from __future__ import annotations

import abc
import inspect
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import type_registry
from penstock._src.graph.composite_tensor import CompositeTensor
from penstock._src.graph.extension_fields import (
    RESERVED,
    Field,
    ImmutableDict,
    check_annotation,
    convert_value,
    fields_of,
    is_spec_leaf,
    spec_of_value,
)
from penstock._src.graph.type_spec import BatchableTypeSpec, TensorSpec, TypeSpec
from penstock._src.ops.registry import get


class ExtensionTypeMetaclass(abc.ABCMeta):
    """Makes the constructor and the Spec of a class from its annotated fields."""

    def __init__(cls, name: str, bases: tuple, namespace: dict):
        super().__init__(name, bases, namespace)
        if namespace.get("_tf_extension_type_do_not_transform_this_class"):
            return
        _check_fields(cls, namespace)
        if "__init__" not in namespace and not _inherits_constructor(cls):
            _add_constructor(cls)
        else:
            _wrap_constructor(cls)
        _add_spec(cls, namespace)


@export("experimental.ExtensionType")
class ExtensionType(CompositeTensor, metaclass=ExtensionTypeMetaclass):
    """Base class of types made of tensors; fields are annotated attributes.

    A field is a number, string, boolean, DType, TensorShape, Tensor, TypeSpec, composite tensor, another ExtensionType, or a
    tuple, mapping or union of these. `__validate__` is called after construction.
    """

    _tf_extension_type_do_not_transform_this_class = True

    def __init__(self, *args: Any, **kwargs: Any):
        if type(self) is ExtensionType:
            raise AssertionError("Cannot create an instance of ExtensionType because ExtensionType is an abstract base class.")

    @classmethod
    def _tf_extension_type_fields(cls) -> list[Field]:
        """The fields, those of base classes first."""
        return fields_of(cls)

    @classmethod
    def _tf_extension_type_has_field(cls, name: str) -> bool:
        return any(f.name == name for f in fields_of(cls, resolve=False))

    def _tf_extension_type_convert_fields(self) -> None:
        """Converts the fields that the constructor has set to the annotated types."""
        for f in fields_of(type(self)):
            if f.name in self.__dict__:
                self.__dict__[f.name] = convert_value(self.__dict__[f.name], f.value_type, (f.name,))

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__dict__.get("_tf_extension_type_done"):
            raise AttributeError(f"Cannot mutate attribute `{name}` outside the custom constructor of ExtensionType.")
        if not self._tf_extension_type_has_field(name):
            raise AttributeError(f"Cannot set the attribute {name!r}: {type(self).__name__} has no such field.")
        self.__dict__[name] = value

    def __delattr__(self, name: str) -> None:
        if self.__dict__.get("_tf_extension_type_done"):
            raise AttributeError(f"Cannot mutate attribute `{name}` outside the custom constructor of ExtensionType.")
        self.__dict__.pop(name, None)

    def __validate__(self) -> None:
        """Checks the value after construction; subclasses may raise."""

    @property
    def _type_spec(self) -> Any:
        found = self.__dict__.get("_tf_extension_type_cached_type_spec")
        if found is None:
            found = type(self).Spec.from_value(self)  # type: ignore[attr-defined]
            self.__dict__["_tf_extension_type_cached_type_spec"] = found
        return found

    def __eq__(self, other: Any) -> Any:
        if type(self) is not type(other) or not self._type_spec.is_compatible_with(other):
            return False
        ours, theirs = (nest.flatten(x, expand_composites=True) for x in (self, other))
        if any(not a.shape.is_compatible_with(b.shape) for a, b in zip(ours, theirs, strict=True)):
            return False
        every = [get("All")(get("Equal")(a, b), _all_axes(a if b.shape.rank is None else b))
                 for a, b in zip(ours, theirs, strict=True)]
        return get("All")(get("Pack")(every), [0]) if every else True

    def __ne__(self, other: Any) -> Any:
        same = self.__eq__(other)
        if isinstance(same, bool):
            return not same
        return get("LogicalNot")(same)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{k}={v!r}' for k, v in _items(self))})"


def _all_axes(t: Any) -> Any:
    if t.shape.rank is None:
        return get("Range")(0, get("Rank")(t), 1)
    return list(range(t.shape.rank))


def _items(value: Any) -> list[tuple[str, Any]]:
    return [(f.name, value.__dict__[f.name]) for f in fields_of(type(value)) if f.name in value.__dict__]


@export("experimental.extension_type.as_dict")
def as_dict(value: ExtensionType) -> dict:
    """The fields of an ExtensionType as a dict.

    >>> tf.experimental.extension_type.as_dict(MaskedTensor([1, 2], [True, False]))
    """
    return dict(_items(value))


# -- constructors -----------------------------------------------------------------------------------------------------
def _check_fields(cls: type, namespace: dict) -> None:
    for name in namespace.get("__annotations__", {}):
        if name in RESERVED or name.lower().startswith("_tf_extension_type") or \
                hasattr(BatchableTypeSpec, name) or name.startswith("_") and hasattr(CompositeTensor, name):
            raise ValueError(f"The field annotations for {cls.__name__} are invalid. Field {name!r} is reserved.")
    for name in namespace:
        if not name.startswith("__") and hasattr(TypeSpec, name) and not hasattr(CompositeTensor, name):
            raise ValueError(f"The field annotations for {cls.__name__} are invalid. Field {name!r} is reserved.")
    try:
        fields = fields_of(cls)
    except NameError:               # classes that are defined later: checked when the first value is constructed
        return
    for f in fields:
        check_annotation(f.value_type, f"In field {f.name!r}")


def _inherits_constructor(cls: Any) -> bool:
    """Whether a base class has written its own constructor."""
    for base in cls.__mro__[1:]:
        if "__init__" in base.__dict__:
            return base is not ExtensionType and not base.__dict__.get("_tf_extension_type_do_not_transform_this_class") and \
                not getattr(base.__dict__["__init__"], "_generated", False)
    return False


def _signature(fields: list[Field], first: str = "self", returns: Any = inspect.Signature.empty) -> inspect.Signature:
    """The constructor's signature: after a field with a default, fields without one are keyword-only."""
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    out = [inspect.Parameter(first, kind)]
    for f in fields:
        if f.default is Field.NO_DEFAULT and len(out) > 1 and out[-1].default is not inspect.Parameter.empty:
            kind = inspect.Parameter.KEYWORD_ONLY
        default = inspect.Parameter.empty if f.default is Field.NO_DEFAULT else f.default
        if isinstance(default, list) and typing.get_origin(f.value_type) is tuple:
            default = tuple(default)
        out.append(inspect.Parameter(f.name, kind, annotation=f.value_type, default=default))
    return inspect.Signature(out, return_annotation=returns)


def _add_constructor(cls: Any) -> None:
    fields = fields_of(cls, resolve=False)
    signature = _signature(fields, returns=cls)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        for f in fields:
            self.__dict__[f.name] = given.arguments[f.name]
        _finish(self)
    __init__.__signature__, __init__._generated = signature, True  # type: ignore[attr-defined]
    cls.__init__ = __init__
    cls.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])


def _wrap_constructor(cls: Any) -> None:
    """Wraps a user-defined constructor: fields are converted when the outermost constructor returns."""
    own = cls.__init__
    if getattr(own, "_tf_finishes", None) is not None:
        return

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        outermost = "_tf_extension_type_depth" not in self.__dict__
        self.__dict__["_tf_extension_type_depth"] = True
        own(self, *args, **kwargs)
        if outermost:
            self.__dict__.pop("_tf_extension_type_depth", None)
            missing = [f.name for f in fields_of(type(self)) if f.name not in self.__dict__ and
                       f.default is Field.NO_DEFAULT]
            if missing:
                raise AttributeError(f"{type(self).__name__}: the constructor did not set the field(s) {missing}.")
            _finish(self)
    __init__.__wrapped__, __init__._tf_finishes = own, True  # type: ignore[attr-defined]
    __init__.__doc__ = own.__doc__
    cls.__init__ = __init__


def _finish(self: Any) -> None:
    if "_tf_extension_type_depth" in self.__dict__:         # a base class's constructor, called by a user-defined one
        return
    try:
        fields = fields_of(type(self))
    except NameError as e:
        raise TypeError(f"The annotations of {type(self).__name__} name a type that does not exist: {e}") from None
    for f in fields:
        if f.name not in self.__dict__ and f.default is not Field.NO_DEFAULT:
            self.__dict__[f.name] = f.default
    self._tf_extension_type_convert_fields()
    self.__dict__["_tf_extension_type_done"] = True
    self.__validate__()


def build(cls: Any, values: Mapping) -> Any:
    """A value with these fields, made without calling its constructor; used to rebuild values from components."""
    made = cls.__new__(cls)
    made.__dict__.update(values)
    made._tf_extension_type_convert_fields()
    made.__dict__["_tf_extension_type_done"] = True
    return made


# -- specs ------------------------------------------------------------------------------------------------------------
@export("experimental.ExtensionTypeSpec")
class ExtensionTypeSpec(TypeSpec):
    """The type of an ExtensionType: for each field the TypeSpec of its value, or the value itself if it has no tensors."""

    value_type: Any = None

    def __init__(self, *args: Any, **kwargs: Any):
        names = [f.name for f in fields_of(self.value_type)]
        if len(args) > len(names):
            raise TypeError(f"{type(self).__name__} takes {len(names)} fields, got {len(args)}")
        given = dict(zip(names, args, strict=False))
        for k, v in kwargs.items():
            if k in given or k not in names:
                raise TypeError(f"got multiple values or an unexpected keyword argument {k!r}")
            given[k] = v
        missing = [n for n in names if n not in given]
        if missing:
            raise TypeError(f"missing a required argument: {missing[0]!r}")
        self.__dict__.update((n, given[n]) for n in names)
        self._tf_extension_type_convert_fields()
        self.__dict__["_tf_extension_type_done"] = True

    def _tf_extension_type_convert_fields(self) -> None:
        for f in fields_of(self.value_type):
            self.__dict__[f.name] = convert_value(self.__dict__[f.name], f.value_type, (f.name,), spec=True)

    @classmethod
    def _tf_extension_type_fields(cls) -> list[Field]:
        return fields_of(cls.value_type)

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__dict__.get("_tf_extension_type_done"):
            raise AttributeError(f"Cannot mutate attribute `{name}` outside the custom constructor of ExtensionTypeSpec.")
        self.__dict__[name] = value

    def __delattr__(self, name: str) -> None:
        if self.__dict__.get("_tf_extension_type_done"):
            raise AttributeError(f"Cannot mutate attribute `{name}` outside the custom constructor of ExtensionTypeSpec.")
        super().__delattr__(name)

    @classmethod
    def from_value(cls, value: Any) -> Any:
        """The spec of a value."""
        made = cls.__new__(cls)
        made.__dict__.update((k, spec_of_value(v)) for k, v in _items(value))
        made.__dict__["_tf_extension_type_done"] = True
        return made

    def _serialize(self) -> tuple:
        return tuple((f.name, _plain(self.__dict__[f.name])) for f in fields_of(self.value_type))

    @classmethod
    def _deserialize(cls, state: Any) -> Any:
        made = cls.__new__(cls)
        made.__dict__.update(state)
        made._tf_extension_type_convert_fields()
        made.__dict__["_tf_extension_type_done"] = True
        return made

    def __reduce__(self) -> Any:
        return _restored_spec, (self.value_type, self._serialize())

    @property
    def _component_specs(self) -> tuple:
        return tuple(_leaves([self.__dict__[f.name] for f in fields_of(self.value_type)]))

    def _to_components(self, value: Any) -> tuple:
        out: list = []
        for f in fields_of(self.value_type):
            _gather(self.__dict__[f.name], value.__dict__[f.name], out)
        return tuple(out)

    def _from_components(self, components: Any) -> Any:
        it = iter(components)
        return build(self.value_type, {f.name: _refill(self.__dict__[f.name], it) for f in fields_of(self.value_type)})

    def _to_legacy_output_types(self) -> Any:
        return self

    def _to_legacy_output_shapes(self) -> Any:
        """The `shape` of the spec, which user code may define."""
        if not hasattr(self, "shape"):
            raise NotImplementedError(f"{type(self).__qualname__} has no property `shape`. Define one to use it in datasets.")
        return self.shape

    def _to_legacy_output_classes(self) -> Any:
        return self

    def __repr__(self) -> str:
        inside = ", ".join(f"{f.name}={self.__dict__[f.name]!r}" for f in fields_of(self.value_type))
        return f"{type(self).__qualname__}({inside})"


def _restored_spec(value_type: Any, state: Any) -> Any:
    return value_type.Spec._deserialize(state)


def _plain(value: Any) -> Any:
    """Mappings as plain dicts, so that specs compare and hash by content."""
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


def _leaves(value: Any) -> Iterator:
    """The TypeSpecs inside the fields of a spec."""
    if is_spec_leaf(value):
        yield value
    elif isinstance(value, Mapping):
        for k in value:
            yield from _leaves(value[k])
    elif isinstance(value, (tuple, list)):
        for v in value:
            yield from _leaves(v)


def _gather(spec: Any, value: Any, out: list) -> None:
    if is_spec_leaf(spec):
        out.append(value)
    elif isinstance(spec, Mapping):
        for k in spec:
            _gather(spec[k], value[k], out)
    elif isinstance(spec, (tuple, list)):
        for s, v in zip(spec, value, strict=True):
            _gather(s, v, out)


def _refill(spec: Any, components: Iterator) -> Any:
    if is_spec_leaf(spec):
        return next(components)
    if isinstance(spec, Mapping):
        return ImmutableDict((k, _refill(spec[k], components)) for k in spec)
    if isinstance(spec, (tuple, list)):
        return tuple(_refill(s, components) for s in spec)
    return spec


def _add_spec(cls: Any, namespace: dict) -> None:
    base = BatchableExtensionTypeSpec if issubclass(cls, BatchableExtensionType) else ExtensionTypeSpec
    own = namespace.get("Spec")
    if own is not None:
        if not isinstance(own, type):
            raise ValueError(f"{cls.__qualname__}.Spec must be a nested class; got {own}.")
        made: Any = own if issubclass(own, ExtensionTypeSpec) else type(own.__name__, (own, base), dict(own.__dict__))
        if not issubclass(own, ExtensionTypeSpec) and own.__bases__ not in ((object,), (TypeSpec,)):
            raise ValueError(f"{cls.__qualname__}.Spec must be directly subclassed from tf.TypeSpec.")
    else:
        made = type("Spec", (base,), {"__module__": cls.__module__})
    made.__qualname__ = f"{cls.__qualname__}.Spec"
    made.__name__ = f"{cls.__name__}.Spec"
    made.value_type = cls
    if "__init__" not in made.__dict__:
        fields = fields_of(cls, resolve=False)
        made.__signature__ = inspect.Signature(list(_signature([f._replace(default=Field.NO_DEFAULT) for f in fields])
                                                    .parameters.values())[1:])
    cls.Spec = made
    if "__name__" in namespace:                # identifies the type in SavedModels
        type_registry.register(namespace["__name__"] + ".Spec")(made)


# -- batches ----------------------------------------------------------------------------------------------------------
@export("experimental.ExtensionTypeBatchEncoder")
class ExtensionTypeBatchEncoder:
    """How values of a BatchableExtensionType are encoded as batchable tensors and decoded. The default encodes every field
    separately."""

    def batch(self, spec: Any, batch_size: Any) -> Any:
        """The spec of a batch of values of `spec`."""
        return _mapped(spec, lambda s: s._batch(batch_size))

    def unbatch(self, spec: Any) -> Any:
        """The spec of one value of a batch."""
        return _mapped(spec, lambda s: s._unbatch())

    def encode(self, spec: Any, value: Any, minimum_rank: int = 0) -> Any:
        """The value as components that can be batched."""
        return spec._to_components(value)

    def decode(self, spec: Any, encoded_value: Any) -> Any:
        """A value from its components."""
        return spec._from_components(encoded_value)

    def encoding_specs(self, spec: Any) -> Any:
        """The types of the components."""
        return spec._component_specs


def _mapped(spec: Any, f: Any) -> Any:
    """The spec with every TypeSpec inside, and every TensorShape, batched or unbatched."""
    def of(value: Any) -> Any:
        if is_spec_leaf(value):
            return f(value)
        if isinstance(value, TensorShape):
            return f(TensorSpec(value)).shape
        if isinstance(value, Mapping):
            return ImmutableDict((k, of(v)) for k, v in value.items())
        return tuple(map(of, value)) if isinstance(value, tuple) else value
    made: Any = object.__new__(type(spec))
    made.__dict__.update((x.name, of(spec.__dict__[x.name])) for x in fields_of(spec.value_type))
    made.__dict__["_tf_extension_type_done"] = True
    return made


class BatchableExtensionTypeSpec(ExtensionTypeSpec, BatchableTypeSpec):
    """The type of a BatchableExtensionType."""

    @property
    def __batch_encoder__(self) -> ExtensionTypeBatchEncoder:
        return getattr(self.value_type, "__batch_encoder__", _DEFAULT_ENCODER)

    def _batch(self, batch_size: Any) -> Any:
        return self.__batch_encoder__.batch(self, batch_size)

    def _unbatch(self) -> Any:
        return self.__batch_encoder__.unbatch(self)

    @property
    def _flat_tensor_specs(self) -> list:
        return [t for s in nest.flatten(self.__batch_encoder__.encoding_specs(self)) for t in s._flat_tensor_specs]

    def _encoded(self, value: Any, batched: bool) -> list:
        specs = nest.flatten(self.__batch_encoder__.encoding_specs(self))
        parts = nest.flatten(self.__batch_encoder__.encode(self, value, minimum_rank=int(batched)))
        return [t for s, v in zip(specs, parts, strict=True)
                for t in (s._to_batched_tensor_list(v) if batched else s._to_tensor_list(v))]

    def _to_tensor_list(self, value: Any) -> list:
        return self._encoded(value, batched=False)

    def _to_batched_tensor_list(self, value: Any) -> list:
        return self._encoded(value, batched=True)

    def _from_compatible_tensor_list(self, tensor_list: list) -> Any:
        structure = self.__batch_encoder__.encoding_specs(self)
        out, at = [], 0
        for s in nest.flatten(structure):
            n = len(s._flat_tensor_specs)
            out.append(s._from_compatible_tensor_list(list(tensor_list[at:at + n])))
            at += n
        return self.__batch_encoder__.decode(self, nest.pack_sequence_as(structure, out))


_DEFAULT_ENCODER = ExtensionTypeBatchEncoder()


@export("experimental.BatchableExtensionType")
class BatchableExtensionType(ExtensionType):
    """An ExtensionType whose values can be batched: by datasets, tf.map_fn and Keras."""

    _tf_extension_type_do_not_transform_this_class = True
    __batch_encoder__ = _DEFAULT_ENCODER
