"""Fields of ExtensionTypes: the supported annotations, and how values are converted to them."""
from __future__ import annotations

import collections.abc
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from penstock._src.base import dtypes
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.composite_tensor import CompositeTensor
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.type_spec import TensorSpec, TypeSpec, type_spec_from_value

RESERVED = frozenset(("self", "Spec", "_to_components", "_from_components", "_component_specs", "_serialize"))
PLAIN = (int, float, str, bytes, bool, type(None), dtypes.DType, TensorShape)


class ImmutableDict(collections.abc.Mapping):
    """An immutable mapping, the value of fields annotated as mappings."""

    def __init__(self, *args: Any, **kwargs: Any):
        self._dict = dict(*args, **kwargs)

    def __getitem__(self, key: Any) -> Any:
        return self._dict[key]

    def __contains__(self, key: Any) -> bool:
        return key in self._dict

    def __iter__(self) -> Any:
        return iter(self._dict)

    def __len__(self) -> int:
        return len(self._dict)

    def __repr__(self) -> str:
        return f"ImmutableDict({self._dict!r})"


class _NoDefault:
    def __repr__(self) -> str:
        return "NO_DEFAULT"


class _Field(NamedTuple):
    name: str
    value_type: Any
    default: Any


class Field(_Field):
    """A field: its name, the annotated type, and a default."""

    __slots__ = ()
    NO_DEFAULT: ClassVar[_NoDefault] = _NoDefault()


def _own_fields(cls: type, resolve: bool) -> tuple[Field, ...]:
    names = cls.__dict__.get("__annotations__", {})
    waiting = any(isinstance(h, str) or "ForwardRef" in repr(h) for h in names.values())
    hints = typing.get_type_hints(cls) if waiting and resolve else names
    hints = {n: _without_metadata(h) if "Annotated" in repr(h) else h for n, h in hints.items()}
    return tuple(Field(n, hints[n], cls.__dict__.get(n, Field.NO_DEFAULT)) for n in names if not n.startswith("_tf_ext"))


def _without_metadata(hint: Any) -> Any:
    """A type hint with typing.Annotated removed at any depth."""
    return typing.get_type_hints(type("_", (), {"__annotations__": {"hint": hint}}))["hint"]


def fields_of(cls: Any, resolve: bool = True) -> list[Field]:
    """The fields of a class, those of its bases first. NameError if one names a class that is not defined yet; without
    `resolve`, such a field has the name instead of the class."""
    return _fields_of(cls, resolve)


@functools.lru_cache(maxsize=1024)
def _fields_of(cls: Any, resolve: bool) -> list[Field]:
    found: dict[str, Field] = {}
    for base in reversed(cls.__mro__):
        if base.__dict__.get("_tf_extension_type_do_not_transform_this_class"):
            continue
        if any(b.__dict__.get("_tf_extension_type_do_not_transform_this_class") for b in base.__mro__[1:]):
            for f in _own_fields(base, resolve):
                found[f.name] = f
    return list(found.values())


def check_annotation(hint: Any, where: str) -> None:
    """TypeError if fields cannot have this type."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is None or hint in PLAIN or isinstance(hint, TypeSpec) or hint is typing.Any:
        return
    if isinstance(hint, type) and origin is None and (issubclass(hint, (Tensor, CompositeTensor, TypeSpec)) or
                                                      hasattr(hint, "_type_spec") or hint in (Mapping, tuple, dict)):
        if hint in (Mapping, tuple, dict):
            raise TypeError(f"{where}: Unsupported type annotation {hint}: specify the types of its elements.")
        return
    if origin is tuple and args:
        if Ellipsis in args and (len(args) != 2 or args[1] is not Ellipsis):
            raise TypeError(f"{where}: Unsupported type annotation {hint}")
        for a in args:
            if a is not Ellipsis:
                check_annotation(a, where)
        return
    if origin in (collections.abc.Mapping, dict) and len(args) == 2:
        if origin is dict:
            raise TypeError(f"{where}: Unsupported type annotation {hint}: fields do not change, use typing.Mapping.")
        if args[0] not in (str, bytes, int, bool, float):
            raise TypeError(f"{where}: Mapping had a key {args[0]} with an unsupported type.")
        check_annotation(args[1], where)
        return
    if origin in (typing.Union, types.UnionType):
        for a in args:
            check_annotation(a, where)
        return
    raise TypeError(f"{where}: Unsupported type annotation {hint!r}")


def is_spec_leaf(value: Any) -> bool:
    """Whether a field of a spec represents a value made of tensors."""
    return isinstance(value, TypeSpec)


def spec_of_value(value: Any) -> Any:
    """What a spec has for the value of a field: a TypeSpec, or the value itself if there are no tensors in it."""
    if isinstance(value, Mapping):
        return ImmutableDict((k, spec_of_value(value[k])) for k in sorted(value))      # the order of tf.nest
    if isinstance(value, tuple):
        return tuple(map(spec_of_value, value))
    if isinstance(value, (Tensor, CompositeTensor)) or hasattr(type(value), "_type_spec"):
        return type_spec_from_value(value)
    return value


def convert_value(value: Any, hint: Any, path: tuple, spec: bool = False) -> Any:
    """`value` as the annotated type; in a spec, the TypeSpec of such a value."""
    if hint is None:
        hint = type(None)
    if isinstance(hint, TypeSpec):
        return _specified(value, hint, path, spec)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return _converted_tuple(value, args, path, spec)
    if origin is collections.abc.Mapping:
        if not isinstance(value, Mapping):
            raise TypeError(f"{_name(path)}: expected mapping, got {type(value).__name__!r}")
        return ImmutableDict((convert_value(k, args[0], (*path, "<key>")), convert_value(v, args[1], (*path, k), spec))
                             for k, v in value.items())
    if origin in (typing.Union, types.UnionType):
        return _converted_union(value, hint, args, path, spec)
    if hint is typing.Any:
        return value
    if spec and (issubclass(hint, (Tensor, CompositeTensor)) or hasattr(hint, "_type_spec")):
        return _spec_for(value, hint, path)
    if issubclass(hint, Tensor):
        return _tensor(value, None, path)
    if hint in (dtypes.DType, TensorShape) and not isinstance(value, hint):
        try:
            return dtypes.as_dtype(value) if hint is dtypes.DType else TensorShape(value)
        except TypeError as e:
            raise TypeError(f"{_name(path)}: {e}") from None
    if isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    raise TypeError(f"{_name(path)}: expected {_what(hint)}, got {type(value).__name__!r}")


def _what(hint: Any) -> str:
    return "None" if hint is type(None) else repr(hint.__name__) if isinstance(hint, type) else str(hint)


def _name(path: tuple) -> str:
    return str(path[0]) + "".join(f"[{p!r}]" for p in path[1:])


def _tensor(value: Any, dtype: Any, path: tuple) -> Any:
    if isinstance(value, CompositeTensor):
        raise TypeError(f"{_name(path)}: expected a Tensor, got {type(value).__name__!r}")
    try:
        return convert(value, dtype)
    except (TypeError, ValueError) as e:
        raise TypeError(f"{_name(path)}: expected a Tensor, got {type(value).__name__!r}") from e


def _specified(value: Any, hint: TypeSpec, path: tuple, spec: bool) -> Any:
    """A value, or the spec of one, for a field that is annotated with a TypeSpec."""
    if spec:
        if not isinstance(value, TypeSpec) or not hint.is_compatible_with(value):
            raise TypeError(f"{_name(path)}: expected a {type(hint).__name__} compatible with {hint}, got {value!r}")
        return value
    if isinstance(hint, TensorSpec):
        value = _tensor(value, hint.dtype, path)
    elif isinstance(value, list) or not isinstance(value, CompositeTensor):
        if not (isinstance(value, CompositeTensor) or hasattr(type(value), "_type_spec")) and \
                getattr(hint, "ragged_rank", None) is not None:
            value = _tensor(value, getattr(hint, "dtype", None), path)
    if not hint.is_compatible_with(value):
        raise TypeError(f"{_name(path)}: expected a value compatible with {hint}, got {value!r}")
    return value


def _spec_for(value: Any, hint: type, path: tuple) -> Any:
    if isinstance(value, TypeSpec) and issubclass(value.value_type, hint) or \
            isinstance(value, TypeSpec) and issubclass(hint, Tensor) and isinstance(value, TensorSpec):
        return value
    raise TypeError(f"{_name(path)}: expected a TypeSpec for {hint.__name__!r}, got {value!r}")


def _converted_tuple(value: Any, args: tuple, path: tuple, spec: bool) -> tuple:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{_name(path)}: expected tuple, got {type(value).__name__!r}")
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(convert_value(v, args[0], (*path, i), spec) for i, v in enumerate(value))
    if len(args) != len(value):
        raise TypeError(f"{_name(path)}: expected tuple with length {len(args)}, got {value!r}")
    return tuple(convert_value(v, a, (*path, i), spec) for i, (v, a) in enumerate(zip(value, args, strict=True)))


def _converted_union(value: Any, hint: Any, args: tuple, path: tuple, spec: bool) -> Any:
    """The first member of the union that the value already is, else the first that it converts to."""
    for a in args:
        if isinstance(a, type) and typing.get_origin(a) is None and type(value) is a:
            return value
    for a in args:
        try:
            return convert_value(value, a, path, spec)
        except (TypeError, ValueError):
            continue
    raise TypeError(f"{_name(path)}: expected {hint}, got {type(value).__name__!r}")
