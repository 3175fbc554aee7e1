"""TensorInfo messages: tensors of a graph by name, dense, sparse or of several components."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes, nest
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.messages import TensorInfo
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import prepend_name_scope
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.state.saved_model.structures import decode, encode
from penstock._src.state.variables.variable import Variable


@export(v1=["saved_model.build_tensor_info", "saved_model.utils.build_tensor_info"])
def build_tensor_info(tensor: Any) -> Any:
    """The TensorInfo of a tensor, SparseTensor or RaggedTensor."""
    if context.executing_eagerly():
        raise RuntimeError("`build_tensor_info` is not supported in Eager mode.")
    return tensor_info(tensor)


def tensor_info(tensor: Any) -> Any:
    """The TensorInfo of a tensor of any kind."""
    if hasattr(tensor, "_type_spec") and not isinstance(tensor, (SparseTensor, Tensor, Variable)):
        out = TensorInfo()
        out.composite_tensor.type_spec.CopyFrom(encode(tensor._type_spec).type_spec_value)
        for component in nest.flatten(tensor, expand_composites=True):
            out.composite_tensor.components.add().CopyFrom(tensor_info(component))
        return out
    out = TensorInfo(dtype=dtypes.as_dtype(tensor.dtype).enum, tensor_shape=tensor.get_shape().as_proto())
    if isinstance(tensor, SparseTensor):
        out.coo_sparse.values_tensor_name = tensor.values.name
        out.coo_sparse.indices_tensor_name = tensor.indices.name
        out.coo_sparse.dense_shape_tensor_name = tensor.dense_shape.name
    else:
        out.name = tensor.name
    return out


def build_tensor_info_from_op(op: Any) -> Any:
    """The TensorInfo that names an operation."""
    return TensorInfo(dtype=0, tensor_shape=TensorShape(None).as_proto(), name=op.name)


@export(v1=["saved_model.get_tensor_from_tensor_info", "saved_model.utils.get_tensor_from_tensor_info"])
def get_tensor_from_tensor_info(tensor_info: Any, graph: Any = None, import_scope: str | None = None) -> Any:
    """The tensor that a TensorInfo names in a graph."""
    graph = graph or context.current_graph()

    def tensor(name: str) -> Any:
        return graph.get_tensor_by_name(prepend_name_scope(name, import_scope))
    encoding = tensor_info.WhichOneof("encoding")
    if encoding == "name":
        return tensor(tensor_info.name)
    if encoding == "coo_sparse":
        parts = tensor_info.coo_sparse
        return SparseTensor(tensor(parts.indices_tensor_name), tensor(parts.values_tensor_name),
                            tensor(parts.dense_shape_tensor_name))
    if encoding == "composite_tensor":
        from tensorboard.compat.proto.struct_pb2 import StructuredValue

        spec = decode(StructuredValue(type_spec_value=tensor_info.composite_tensor.type_spec))
        return nest.pack_sequence_as(spec, [tensor(c.name) for c in tensor_info.composite_tensor.components],
                                     expand_composites=True)
    raise ValueError(f"Invalid TensorInfo.encoding: {encoding}")


def get_element_from_tensor_info(tensor_info: Any, graph: Any = None, import_scope: str | None = None) -> Any:
    """The tensor or operation that a TensorInfo names in a graph."""
    graph = graph or context.current_graph()
    return graph.as_graph_element(prepend_name_scope(tensor_info.name, import_scope))
