"""ONNX graphs as protobuf messages, made with the onnx package, which is needed here only."""
from __future__ import annotations

import os
from typing import Any

import numpy as np

from penstock._src.base import dtypes, errors
from penstock._src.io import paths
from penstock._src.onnx.builder import OnnxGraph, OnnxNode, Typed
from penstock._src.onnx.transposes import used_names

LIMIT = 2_000_000_000                # bytes of constants that one message can hold
_TYPES = {dtypes.float32: "FLOAT", dtypes.float64: "DOUBLE", dtypes.float16: "FLOAT16", dtypes.bfloat16: "BFLOAT16",
          dtypes.int8: "INT8", dtypes.int16: "INT16", dtypes.int32: "INT32", dtypes.int64: "INT64", dtypes.uint8: "UINT8",
          dtypes.uint16: "UINT16", dtypes.uint32: "UINT32", dtypes.uint64: "UINT64", dtypes.bool: "BOOL",
          dtypes.string: "STRING", dtypes.complex64: "COMPLEX64", dtypes.complex128: "COMPLEX128"}


def package() -> Any:
    """The onnx package; ImportError says how to install it."""
    try:
        import onnx
        import onnx.checker
        import onnx.shape_inference
    except ImportError as e:
        raise ImportError("ONNX files are written with the package onnx: pip install 'penstock[onnx]'") from e
    return onnx


def element_type(dtype: dtypes.DType) -> int:
    """The number of a type in ONNX's messages."""
    name = _TYPES.get(dtype.base_dtype)
    if name is None:
        raise errors.UnimplementedError(None, None, f"ONNX has no tensors of type {dtype.name}")
    return package().TensorProto.DataType.Value(name)


def write(graph: OnnxGraph, path: str, opset: int, external_data: bool | None) -> Any:
    """Writes a model, checks it, and returns its message. Constants of more than 2 GB are in a file beside it."""
    onnx = package()
    model = onnx.helper.make_model(
        _graph(onnx, graph, True), producer_name="penstock", opset_imports=[onnx.helper.make_opsetid("", opset)],
        ir_version=onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset)]))
    if any(t.dims is None for t in graph.outputs):
        model = onnx.shape_inference.infer_shapes(model)
    _require_ranks(model.graph)
    size = sum(t.ByteSize() for t in model.graph.initializer)
    if external_data or external_data is None and size > LIMIT:
        beside = os.path.basename(path) + ".data"
        onnx.save_model(model, path, save_as_external_data=True, location=beside, size_threshold=1024)
        onnx.checker.check_model(path)
        return onnx.load(path)
    if size > LIMIT:
        raise errors.invalid(f"The constants of the model take {size:,} bytes, more than one file can hold: "
                             "leave external_data to None")
    onnx.checker.check_model(model, full_check=True)
    paths.write_atomically(path, model.SerializeToString())
    return model


def _require_ranks(graph: Any) -> None:
    for what, values in (("input", graph.input), ("output", graph.output)):
        for v in values:
            if v.type.HasField("tensor_type") and not v.type.tensor_type.HasField("shape"):
                raise errors.UnimplementedError(None, None, f"The rank of the {what} {v.name} is not known, but ONNX files "
                                                            "have it: give it in the input signature")


def _graph(onnx: Any, graph: OnnxGraph, outermost: bool) -> Any:
    helper = onnx.helper
    used = used_names(graph) if outermost else set()
    constants = [_tensor(onnx, name, value) for name, value in graph.constants.items() if name in used]
    return helper.make_graph([_node(onnx, n) for n in graph.nodes], graph.name,
                             [_typed(onnx, t, outermost) for t in graph.inputs],
                             [_typed(onnx, t, outermost) for t in graph.outputs], constants)


def _tensor(onnx: Any, name: str, value: np.ndarray) -> Any:
    if value.dtype == object or value.dtype.kind in "SU":
        texts = [v.encode() if isinstance(v, str) else bytes(v) for v in value.reshape(-1)]
        return onnx.helper.make_tensor(name, onnx.TensorProto.STRING, value.shape, texts)
    kind = element_type(dtypes.as_dtype(value.dtype))
    return onnx.helper.make_tensor(name, kind, value.shape, np.ascontiguousarray(value).tobytes(), raw=True)


def _node(onnx: Any, node: OnnxNode) -> Any:
    attrs = {}
    for key, value in node.attrs.items():
        if isinstance(value, OnnxGraph):
            value = _graph(onnx, value, False)
        elif isinstance(value, dtypes.DType):
            value = element_type(value)
        attrs[key] = value
    return onnx.helper.make_node(node.type, node.inputs, node.outputs, name=node.outputs[0], **attrs)


def _typed(onnx: Any, t: Typed, outermost: bool) -> Any:
    """The type of a value. Open sizes of the model's own inputs and outputs get names; those in a body may change."""
    helper, kind = onnx.helper, element_type(t.dtype)
    dims = None if t.dims is None else [d if d is not None else f"{t.name}_dim{i}" if outermost else None
                                        for i, d in enumerate(t.dims)]
    if t.sequence:
        return helper.make_tensor_sequence_value_info(t.name, kind, dims)
    return helper.make_tensor_value_info(t.name, kind, dims)
