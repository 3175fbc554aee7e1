"""Sparse tensors as strings (three serialized TensorProtos each) or as variants, and back.

A variant holds the run-time value of one part as it is.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape, rank_at_least, rank_is
from penstock._src.graph.node import Tensor
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.graph.tensor_proto import decode, strings_content
from penstock._src.kernels import arrays, bridge, sparse
from penstock._src.ops.registry import OpDef, get, op
from penstock._src.ops.sparse.sparse_layout import as_sparse, check_ranks, parts_of

_PARTS = "sparse_indices: int64, sparse_values: T, sparse_shape: int64 -> serialized_sparse: out_type"
_OUT = "T: type, out_type: type in {string variant} = string"

serialize_op = op("SerializeSparse", _PARTS, _OUT).no_gradient()
serialize_many_op = op("SerializeManySparse", _PARTS, _OUT).no_gradient()


@serialize_op.shape
def _serialize_shape(sparse_indices, sparse_values, sparse_shape):
    check_ranks(sparse_indices, sparse_values, sparse_shape)
    return (3,)


@serialize_many_op.shape
def _serialize_many_shape(sparse_indices, sparse_values, sparse_shape, *, c):
    check_ranks(sparse_indices, sparse_values, sparse_shape)
    dims = c.dims("sparse_shape")
    return (dims[0] if dims else None, 3)


@serialize_op.kernel
def _serialize_kernel(sparse_indices, sparse_values, sparse_shape, *, T, out_type):
    sparse.check(sparse_indices, sparse_values, sparse_shape)
    return _packed([_written(sparse_indices, dtypes.int64, out_type), _written(sparse_values, T, out_type),
                    _written(sparse_shape, dtypes.int64, out_type)])


@serialize_many_op.kernel
def _serialize_many_kernel(sparse_indices, sparse_values, sparse_shape, *, T, out_type):
    dims = sparse.check(sparse_indices, sparse_values, sparse_shape)
    shape = _written(sparse_shape[1:], dtypes.int64, out_type)
    def row(indices, values):
        return [_written(indices, dtypes.int64, out_type), _written(values, T, out_type), shape]
    empty = row(sparse_indices[:0, 1:], sparse_values[:0])
    parts: list = []
    for indices, values in sparse.unbatch(sparse_indices, sparse_values, dims):
        parts += row(indices, values) if len(values) else empty
    return _packed(parts).reshape(-1, 3)


def _packed(parts: list) -> np.ndarray:
    out = np.empty(len(parts), dtype=object)
    for i, p in enumerate(parts):                      # slice assignment would convert the parts
        out[i] = p
    return out


def _written(value: Any, dtype: Any, out_type: Any) -> Any:
    if out_type == dtypes.variant:
        return value
    if dtype != dtypes.string:
        return get("SerializeTensor").kernel_for("cpu").bind({"T": dtype})(value).item()
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    return TensorProto(dtype=dtype.as_datatype_enum, tensor_shape=TensorShape(value.shape).as_proto(),
                       tensor_content=strings_content(value.ravel().tolist())).SerializeToString()


# -- back ----------------------------------------------------------------------------------------------------------
deserialize_op = op("DeserializeSparse", "serialized_sparse: Tserialized -> sparse_indices: int64, sparse_values: dtype, "
                                         "sparse_shape: int64",
                    "dtype: type, Tserialized: type in {string variant} = string").no_gradient()
deserialize_many_op = op("DeserializeManySparse", "serialized_sparse: string -> sparse_indices: int64, "
                                                  "sparse_values: dtype, sparse_shape: int64", "dtype: type").no_gradient()


def _three(serialized: Any, rank: int | None) -> list:
    serialized = rank_at_least(serialized, 1) if rank is None else rank_is(serialized, rank)
    if serialized is not None and serialized[-1] not in (3, None):
        raise ValueError(f"Dimension must be 3 but is {serialized[-1]}")
    return [(None, None), (None,), (None,)]


deserialize_op.shape(lambda serialized_sparse: _three(serialized_sparse, None))
deserialize_many_op.shape(lambda serialized_sparse: _three(serialized_sparse, 2))


@deserialize_many_op.kernel
@deserialize_op.kernel
def _deserialize_many_kernel(serialized_sparse, *, dtype):
    dims = arrays.dims_of(serialized_sparse)
    if not dims:
        raise errors.invalid(f"Serialized sparse should have non-zero rank {arrays.show(dims)}")
    if dims[-1] != 3:
        raise errors.invalid(f"Serialized sparse should have 3 as the last dimension {arrays.show(dims)}")
    lead = dims[:-1]
    if not math.prod(lead):
        raise errors.invalid("Serialized sparse should have at least 1 serialized tensor, but has a zero dimension "
                             f"{arrays.show(dims)}")
    items = [_read(triple, dtype, i) for i, triple in enumerate(serialized_sparse.reshape(-1, 3).tolist())]
    for i, (_, _, sizes) in enumerate(items):
        if len(sizes) != len(items[0][2]):
            raise errors.invalid(f"Inconsistent shape across SparseTensors: rank prior to SparseTensor[{i}] was: "
                                 f"{len(items[0][2])} but rank of SparseTensor[{i}] is: {len(sizes)}")
    indices, values, sizes = sparse.batch(items, lead)
    return indices, values, sparse.vector(sizes, indices)


def _read(triple: list, dtype: Any, at: int) -> tuple[torch.Tensor, Any, list[int]]:
    """One sparse tensor from its three parts, checked."""
    indices, values, shape = (_part(p) for p in triple)
    if not arrays.is_torch(indices) or indices.dtype is not torch.int64 or indices.dim() != 2:
        raise errors.invalid(f"Expected serialized_sparse[{at}, 0] to represent an index matrix but received shape "
                             f"{arrays.show(arrays.dims_of(indices))}")
    found = arrays.dims_of(values)
    if len(found) != 1:
        raise errors.invalid(f"Expected serialized_sparse[{at}, 1] to represent a values vector but received shape "
                             f"{arrays.show(found)}")
    kind = values.dtype if arrays.is_torch(values) else None
    if kind is not dtype.torch:
        found_type = dtypes.string if kind is None else dtypes.from_torch(kind)
        raise errors.invalid(f"Requested SparseTensor of type {dtypes.runtime_name(dtype)} but SparseTensor[{at}]."
                             f"values.dtype() == {dtypes.runtime_name(found_type)}")
    if indices.shape[0] != found[0]:
        raise errors.invalid(f"Expected row counts of SparseTensor[{at}].indices and SparseTensor[{at}].values to match "
                             f"but they do not: {indices.shape[0]} vs. {found[0]}")
    if not arrays.is_torch(shape) or shape.dtype is not torch.int64 or shape.dim() != 1:
        raise errors.invalid(f"Expected serialized_sparse[{at}, 1] to be a shape vector but its shape is "
                             f"{arrays.show(arrays.dims_of(shape))}")
    if shape.numel() != indices.shape[1]:
        raise errors.invalid(f"Expected column counts of SparseTensor[{at}].indices to match size of SparseTensor[{at}]."
                             f"shape but they do not: {indices.shape[1]} vs. {shape.numel()}")
    return indices, values, sparse.sizes(shape)


def _part(value: Any) -> Any:
    """The run-time value of a serialized part, or of a variant."""
    if not isinstance(value, bytes):
        if not hasattr(value, "shape"):
            raise errors.invalid(f"A variant of type {type(value).__name__} is not a part of a sparse tensor")
        return value
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    try:
        message = TensorProto.FromString(value)
    except DecodeError:
        raise errors.invalid("Could not parse serialized proto") from None
    try:
        array, dtype = decode(message)
    except (TypeError, ValueError) as e:
        raise errors.invalid(f"Could not construct tensor from proto: {e}") from None
    return bridge.to_torch(array, dtype)


# -- public functions ------------------------------------------------------------------------------------------------
def _serialized(definition: OpDef, sp_input: Any, out_type: Any, name: str | None) -> Tensor:
    return definition(*parts_of(as_sparse(sp_input)), out_type=out_type, name=name)


@export(v1=["io.serialize_sparse", "serialize_sparse"])
def serialize_sparse(sp_input: Any, name: str | None = None, out_type: Any = dtypes.string) -> Tensor:
    """A sparse tensor as a vector of three strings (or variants): indices, values, shape."""
    return _serialized(serialize_op, sp_input, out_type, name)


@export(v2=["io.serialize_sparse"])
def serialize_sparse_v2(sp_input: Any, out_type: Any = dtypes.string, name: str | None = None) -> Tensor:
    """A sparse tensor as a vector of three strings (or variants): indices, values, shape."""
    return _serialized(serialize_op, sp_input, out_type, name)


@export(v1=["io.serialize_many_sparse", "serialize_many_sparse"])
def serialize_many_sparse(sp_input: Any, name: str | None = None, out_type: Any = dtypes.string) -> Tensor:
    """Each row of a sparse tensor as three strings (or variants)."""
    return _serialized(serialize_many_op, sp_input, out_type, name)


@export(v2=["io.serialize_many_sparse"])
def serialize_many_sparse_v2(sp_input: Any, out_type: Any = dtypes.string, name: str | None = None) -> Tensor:
    """Each row of a sparse tensor as three strings (or variants)."""
    return _serialized(serialize_many_op, sp_input, out_type, name)


def deserialize_sparse(serialized_sparse: Any, dtype: Any, rank: int | None = None, name: str | None = None) -> SparseTensor:
    """A sparse tensor of serialized ones: those of a batch get their own axes, before the others."""
    return of_rank(deserialize_op(serialized_sparse, dtype=dtype, name=name), rank)


@export("io.deserialize_many_sparse", v1=["deserialize_many_sparse"])
def deserialize_many_sparse(serialized_sparse: Any, dtype: Any, rank: int | None = None, name: str | None = None
                            ) -> SparseTensor:
    """One sparse tensor of a batch of serialized ones; `rank` is that of the result, where it is known."""
    return of_rank(deserialize_many_op(serialized_sparse, dtype=dtype, name=name), rank)


def of_rank(parts: Any, rank: int | None) -> SparseTensor:
    """A SparseTensor of three tensors, with the rank known to be `rank`."""
    indices, values, shape = parts
    indices.set_shape([None, rank])
    shape.set_shape([rank])
    return SparseTensor(indices, values, shape)
