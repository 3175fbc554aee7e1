"""Registered names of TypeSpec classes, used in configurations and SavedModels: `keras.KerasTensorSpec`."""
from __future__ import annotations

import re
from collections.abc import Callable

from penstock._src.graph.sparse_tensor import SparseTensorSpec
from penstock._src.graph.type_spec import BoundedTensorSpec, IndexedSlicesSpec, TensorSpec, TypeSpec

_NAME_TO_TYPE_SPEC: dict[str, type] = {}
_TYPE_SPEC_TO_NAME: dict[type, str] = {}


def register(name: str) -> Callable:
    """A decorator: gives a TypeSpec class a name of the form `project.Class`."""
    if not isinstance(name, str):
        raise TypeError(f"Expected `name` to be a string; got {name!r}")
    if not re.fullmatch(r"(\w+\.)+\w+", name):
        raise ValueError(f"Registered name must have the form '{{project_name}}.{{type_name}}'; got {name!r}")

    def decorate(cls: type) -> type:
        if not (isinstance(cls, type) and issubclass(cls, TypeSpec)):
            raise TypeError(f"Expected `cls` to be a TypeSpec; got {cls!r}")
        if cls in _TYPE_SPEC_TO_NAME:
            raise ValueError(f"Class {cls.__module__}.{cls.__name__} has already been registered with name "
                             f"{_TYPE_SPEC_TO_NAME[cls]}.")
        if name in _NAME_TO_TYPE_SPEC:
            raise ValueError(f"Name {name} has already been registered for class {_NAME_TO_TYPE_SPEC[name]}.")
        _NAME_TO_TYPE_SPEC[name], _TYPE_SPEC_TO_NAME[cls] = cls, name
        return cls
    return decorate


def get_name(cls: type) -> str:
    """The name of a TypeSpec class; ValueError where it has none."""
    if not (isinstance(cls, type) and issubclass(cls, TypeSpec)):
        raise TypeError(f"Expected `cls` to be a TypeSpec; got {cls!r}")
    if cls not in _TYPE_SPEC_TO_NAME:
        raise ValueError(f"TypeSpec {cls.__module__}.{cls.__name__} has not been registered.")
    return _TYPE_SPEC_TO_NAME[cls]


def lookup(name: str) -> type[TypeSpec]:
    """The TypeSpec class of a name; ValueError where there is none."""
    if not isinstance(name, str):
        raise TypeError(f"Expected `name` to be a string; got {name!r}")
    if name not in _NAME_TO_TYPE_SPEC:
        raise ValueError(f"No TypeSpec has been registered with name {name!r}")
    return _NAME_TO_TYPE_SPEC[name]


def _register_own() -> None:
    for cls in (TensorSpec, BoundedTensorSpec, IndexedSlicesSpec, SparseTensorSpec):
        register(f"tf.{cls.__name__}")(cls)


_register_own()
