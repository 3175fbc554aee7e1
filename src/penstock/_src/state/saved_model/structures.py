"""Nested structures, with TensorSpecs and other specs in them, as StructuredValue messages and back."""
from __future__ import annotations

import collections
from typing import Any

import numpy as np
from tensorboard.compat.proto.struct_pb2 import StructuredValue, TypeSpecProto

from penstock._src.base import dtypes, nest
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import type_registry
from penstock._src.graph.convert import constant
from penstock._src.graph.node import Tensor
from penstock._src.graph.sparse_tensor import SparseTensorSpec
from penstock._src.graph.tensor_proto import make_ndarray, make_tensor_proto
from penstock._src.graph.type_spec import BoundedTensorSpec, IndexedSlicesSpec, TensorSpec, TypeSpec
from penstock._src.library.ragged.spec import RaggedTensorSpec


class NotEncodableError(Exception):
    """A structure contains a value that cannot be encoded."""


def _classes() -> dict[type[TypeSpec], int]:
    return {SparseTensorSpec: TypeSpecProto.SPARSE_TENSOR_SPEC, IndexedSlicesSpec: TypeSpecProto.INDEXED_SLICES_SPEC,
            RaggedTensorSpec: TypeSpecProto.RAGGED_TENSOR_SPEC}


@export("__internal__.saved_model.encode_structure")
def encode(value: Any) -> Any:
    """The message of a structure; NotEncodableError if part of it cannot be written."""
    out = StructuredValue()
    if value is None:
        out.none_value.SetInParent()
    elif isinstance(value, bool):
        out.bool_value = value
    elif isinstance(value, int):
        out.int64_value = value
    elif isinstance(value, float):
        out.float64_value = value
    elif isinstance(value, str):
        out.string_value = value
    elif isinstance(value, TensorShape):
        out.tensor_shape_value.CopyFrom(value.as_proto())
    elif isinstance(value, dtypes.DType):
        out.tensor_dtype_value = value.enum
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        out.named_tuple_value.name = type(value).__name__
        for key, item in zip(value._fields, value, strict=True):
            out.named_tuple_value.values.add(key=key).value.CopyFrom(encode(item))
    elif isinstance(value, tuple):
        out.tuple_value.SetInParent()
        out.tuple_value.values.extend(encode(v) for v in value)
    elif isinstance(value, list):
        out.list_value.SetInParent()
        out.list_value.values.extend(encode(v) for v in value)
    elif isinstance(value, (dict, collections.abc.Mapping)):
        out.dict_value.SetInParent()
        for key, item in value.items():
            out.dict_value.fields[key].CopyFrom(encode(item))
    elif isinstance(value, TypeSpec):
        _encode_spec(out, value)
    elif isinstance(value, Tensor) and hasattr(value, "_value") and value.dtype not in (dtypes.resource, dtypes.variant):
        out.tensor_value.CopyFrom(make_tensor_proto(value.numpy(), value.dtype))
    elif isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind not in "OV":
        out.numpy_value.CopyFrom(make_tensor_proto(value))
    else:
        raise NotEncodableError(f"No encoder for object {value!r} of type {type(value)}.")
    return out


def _encode_spec(out: Any, spec: Any) -> None:
    if isinstance(spec, TensorSpec) and not isinstance(spec, BoundedTensorSpec):
        out.tensor_spec_value.shape.CopyFrom(spec.shape.as_proto())
        out.tensor_spec_value.dtype = spec.dtype.enum
        out.tensor_spec_value.name = spec.name or ""
        return
    kind, name = _classes().get(type(spec)), type(spec).__name__
    if kind is None:
        try:
            kind, name = TypeSpecProto.REGISTERED_TYPE_SPEC, type_registry.get_name(type(spec))
        except ValueError:
            raise NotEncodableError(f"No encoder for object {spec!r} of type {type(spec)}.") from None
    out.type_spec_value.type_spec_class = kind
    out.type_spec_value.type_spec_class_name = name
    out.type_spec_value.type_state.CopyFrom(encode(tuple(spec._serialize())))
    out.type_spec_value.num_flat_components = len(nest.flatten(spec, expand_composites=True))


@export("__internal__.saved_model.decode_proto")
def decode(message: Any) -> Any:
    """The structure that a message describes."""
    kind = message.WhichOneof("kind")
    if kind in (None, "none_value"):
        return None
    if kind in ("bool_value", "int64_value", "float64_value", "string_value"):
        return getattr(message, kind)
    if kind == "tensor_value":
        return constant(make_ndarray(message.tensor_value))
    if kind == "numpy_value":
        return make_ndarray(message.numpy_value)
    if kind == "tensor_shape_value":
        return TensorShape(message.tensor_shape_value)
    if kind == "tensor_dtype_value":
        return dtypes.as_dtype(message.tensor_dtype_value)
    if kind == "tensor_spec_value":
        spec = message.tensor_spec_value
        return TensorSpec(TensorShape(spec.shape), dtypes.as_dtype(spec.dtype), spec.name or None)
    if kind == "bounded_tensor_spec_value":
        spec = message.bounded_tensor_spec_value
        return TensorSpec(TensorShape(spec.shape), dtypes.as_dtype(spec.dtype), spec.name or None)
    if kind == "list_value":
        return [decode(v) for v in message.list_value.values]
    if kind == "tuple_value":
        return tuple(decode(v) for v in message.tuple_value.values)
    if kind == "dict_value":
        return {k: decode(v) for k, v in sorted(message.dict_value.fields.items())}      # maps have no order
    if kind == "named_tuple_value":
        pairs = [(p.key, decode(p.value)) for p in message.named_tuple_value.values]
        made = collections.namedtuple(message.named_tuple_value.name, [k for k, _ in pairs])      # type: ignore[misc]
        return made(*(v for _, v in pairs))
    if kind == "type_spec_value":
        given = message.type_spec_value
        if given.type_spec_class == TypeSpecProto.REGISTERED_TYPE_SPEC:
            return type_registry.lookup(given.type_spec_class_name)._deserialize(decode(given.type_state))
        for cls, number in _classes().items():
            if number == given.type_spec_class:
                return cls._deserialize(decode(given.type_state))
        raise ValueError(f"The type '{given.type_spec_class_name}' is not supported: it is not known here.")
    raise ValueError(f"A structure of a SavedModel has a value of kind {kind}, which cannot be read")
