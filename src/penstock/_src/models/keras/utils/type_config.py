"""Types of tensors (TensorSpec, RaggedTensorSpec …) as plain data, and back."""
from __future__ import annotations

from typing import Any

from penstock._src.base.dtypes import DType
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import type_registry

TAG = "__typespec__"


def describe(spec: Any) -> dict[str, Any]:
    """The data of a type."""
    return {"class_name": TAG, "spec_name": type_registry.get_name(type(spec)).removeprefix("tf."),
            "module": type(spec).__module__, "config": [_plain(part) for part in spec._serialize()], "registered_name": None}


def _plain(part: Any) -> Any:
    if isinstance(part, TensorShape):
        return None if part.rank is None else part.as_list()
    return part.name if isinstance(part, DType) else part


def type_of(data: dict[str, Any]) -> Any:
    """The type that data describe; ValueError for a class that is not registered."""
    name = data.get("spec_name", "TensorSpec")
    return type_registry.lookup(name if "." in name else f"tf.{name}")._deserialize(tuple(data["config"]))
