"""Graphs as messages: NodeDef, GraphDef, OpDef and AttrValue.

Attributes live in operations as plain values (DType, TensorShape, text, numbers, numpy arrays, lists); this
module alone converts them to and from messages. `importer.py` builds graphs
from messages. The message classes are imported when they are first needed, so that a process that never writes a graph does not
load them.
"""
from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.base.static_shape import TensorShape, as_dims
from penstock._src.graph.tensor_proto import decode, make_tensor_proto
from penstock._src.ops import registry
from penstock._src.ops.signature import REQUIRED, Arg, Attr

if TYPE_CHECKING:
    from tensorboard.compat.proto.attr_value_pb2 import AttrValue, NameAttrList
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    from tensorboard.compat.proto.node_def_pb2 import NodeDef
    from tensorboard.compat.proto.op_def_pb2 import OpDef

_MAX_BYTES = 1 << 31


# -- attributes ----------------------------------------------------------------------------------------------
def is_attr_message(value: Any) -> bool:
    """Whether `value` is an AttrValue message."""
    return type(value).__name__ == "AttrValue" and hasattr(value, "DESCRIPTOR")


def attr_to_message(value: Any, kind: str | None = None, op: Any = None) -> AttrValue:
    """The AttrValue of a plain attribute value of the declared `kind` (None: go by the value)."""
    from tensorboard.compat.proto.attr_value_pb2 import AttrValue
    if is_attr_message(value):
        return value
    out = AttrValue()
    _write_attr(out, value, kind, op)
    return out


def _write_attr(out: AttrValue, value: Any, kind: str | None, op: Any) -> None:
    if is_attr_message(value):
        out.CopyFrom(value)
        return
    kind = _kind_of(value) if kind is None else kind
    if kind.startswith("list("):
        out.list.SetInParent()
        field = _FIELDS[kind[5:-1]]
        getattr(out.list, field).extend([_element(v, kind[5:-1], op) for v in value])
    elif kind in ("shape", "tensor", "func"):
        getattr(out, kind).CopyFrom(_element(value, kind, op))
    else:
        setattr(out, _FIELDS[kind], _element(value, kind, op))


_FIELDS = {"int": "i", "float": "f", "bool": "b", "string": "s", "type": "type", "shape": "shape",
           "tensor": "tensor", "func": "func"}
_KINDS = (((bool, np.bool_), "bool"), ((int, np.integer), "int"), ((float, np.floating), "float"),
          ((str, bytes), "string"), (dtypes.DType, "type"), (TensorShape, "shape"), (np.ndarray, "tensor"))
_MESSAGE_KINDS = {"TensorShapeProto": "shape", "TensorProto": "tensor", "NameAttrList": "func"}


def _kind_of(value: Any) -> str:
    """The kind of an attribute outside of an op's declaration."""
    if isinstance(value, (list, tuple)):
        return f"list({_kind_of(value[0])})" if value else "list(string)"
    for types, kind in _KINDS:
        if isinstance(value, types):
            return kind
    kind = _MESSAGE_KINDS.get(type(value).__name__, "func" if hasattr(value, "name") else "")
    if kind:
        return kind
    raise TypeError(f"{value!r} ({type(value)}) cannot be an attribute.")


def _element(value: Any, kind: str, op: Any) -> Any:
    if kind == "string":
        return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    if kind == "type":
        return dtypes.as_dtype(value).enum
    if kind == "shape":
        return value if hasattr(value, "unknown_rank") else TensorShape(value).as_proto()
    if kind == "tensor":
        return make_tensor_proto(value, dtype=None if op is None else op.attrs.get("dtype"))
    return func_message(value) if kind == "func" else value


def func_message(value: Any) -> NameAttrList:
    """The NameAttrList of a function attribute: such a message, a name, or a function object."""
    from tensorboard.compat.proto.attr_value_pb2 import NameAttrList
    if isinstance(value, NameAttrList):
        return value
    name = value if isinstance(value, (str, bytes)) else value.name
    return NameAttrList(name=name.decode() if isinstance(name, bytes) else name)


def attr_from_message(message: AttrValue, kind: str | None = None, graph: Any = None) -> Any:
    """The plain value of an AttrValue; of the declared `kind`, if any.

    A placeholder (in the body of a function) stays a message; an empty AttrValue returns None.
    """
    which = message.WhichOneof("value")
    if which is None:
        return [] if kind is not None and kind.startswith("list(") else None
    expected = which if kind is None else "list" if kind.startswith("list(") else _FIELDS[kind]
    if which not in (expected, "placeholder"):
        raise ValueError(f"AttrValue had value with type '{which}' when '{kind}' expected")
    if which == "list":
        return _list_from_message(message.list, kind)
    return message if which == "placeholder" else _plain(which, getattr(message, which))


def _list_from_message(listed: Any, kind: str | None) -> list:
    if kind is None:
        field = next((f for f in _FIELDS.values() if len(getattr(listed, f))), None)
        if field is None:
            return []
    else:
        field = _FIELDS[kind[5:-1]]
    return [_plain(field, v) for v in getattr(listed, field)]


def _plain(field: str, value: Any) -> Any:
    if field == "s":
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return value
    if field == "type":
        return dtypes.as_dtype(value)
    if field == "shape":
        return TensorShape.of(as_dims(value))
    return decode(value)[0] if field == "tensor" else value


# -- nodes and graphs ----------------------------------------------------------------------------------------
def node_def(op: Any) -> NodeDef:
    """The NodeDef of an operation."""
    from tensorboard.compat.proto.node_def_pb2 import NodeDef
    node = NodeDef()
    _write_node(node, op)
    return node


def _write_node(node: NodeDef, op: Any) -> None:
    node.name, node.op, node.device = op.name, op.type, op.device
    node.input.extend([t.op.name if t.value_index == 0 else f"{t.op.name}:{t.value_index}" for t in op.inputs])
    node.input.extend(sorted("^" + c.name for c in op.control_inputs))
    if is_written_as_call(op):
        node.op = "PartitionedCall"
        types = {"Tin": [t.dtype for t in op.inputs], "Tout": [t.dtype for t in op.outputs]}
        for name, value in types.items():
            _write_attr(node.attr[name], value, "list(type)", op)
        _write_attr(node.attr["f"], op.attrs["written_as"], "func", op)
        return
    for name, value in op.attrs.items():
        kind = op.opdef.attrs[name].kind
        if value is not None or kind == "shape":
            _write_attr(node.attr[name], value, kind, op)
    for name, value in op._extra.items():
        _write_attr(node.attr[name], value, None, op)


def is_written_as_call(op: Any) -> bool:
    """Whether an op unknown to TensorFlow is written to messages as a call of an equivalent function."""
    return bool(op.attrs.get("written_as"))


def graph_def(graph: Any, from_version: int | None = None, add_shapes: bool = False) -> GraphDef:
    """The GraphDef of a graph, or of the operations that were added after `from_version`."""
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    out = GraphDef(versions=graph.graph_def_versions)
    with graph._lock:                     # no op may be added meanwhile: edges would name nodes that do not exist
        _write_nodes(out, [op for op in graph._ops if from_version is None or op.number > from_version], add_shapes)
        functions = list(graph._functions.values())
    return _with_library(out, functions)


def nodes_def(ops: list[Any], graph: Any, add_shapes: bool = False) -> GraphDef:
    """The GraphDef of some nodes of a step, with the functions of its graph."""
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    out = GraphDef(versions=graph.graph_def_versions)
    _write_nodes(out, ops, add_shapes)
    return _with_library(out, list(graph._functions.values()))


def _write_nodes(out: GraphDef, ops: list[Any], add_shapes: bool) -> None:
    for op in ops:
        node = out.node.add()
        _write_node(node, op)
        if add_shapes and op.outputs:
            node.attr["_output_shapes"].list.shape.extend([t.shape.as_proto() for t in op.outputs])


def _with_library(out: GraphDef, functions: list[Any]) -> GraphDef:
    for f in functions:
        out.library.function.add().CopyFrom(f.definition)
        gradient = getattr(f, "grad_func_name", None)
        if gradient:
            out.library.gradient.add(function_name=f.name, gradient_func=gradient)
    if out.ByteSize() >= _MAX_BYTES:
        raise ValueError("GraphDef cannot be larger than 2GB.")
    return out


# -- declarations --------------------------------------------------------------------------------------------
@functools.cache
def op_def_message(opdef: Any) -> OpDef:
    """The OpDef of a declaration. It is cached: copy it before changing it."""
    from tensorboard.compat.proto.op_def_pb2 import OpDef
    out = OpDef(name=opdef.name, is_stateful=opdef.stateful, is_commutative=opdef.commutative)
    for args, messages in ((opdef.inputs, out.input_arg), (opdef.outputs, out.output_arg)):
        for a in args:
            messages.add(name=a.name, type=0 if a.type is None else a.type.enum, type_attr=a.type_attr,
                         number_attr=a.number_attr, type_list_attr=a.type_list_attr, is_ref=a.is_ref)
    for a in opdef.attrs.values():
        message = out.attr.add(name=a.name, type=a.kind)
        if a.minimum is not None:
            message.has_minimum, message.minimum = True, a.minimum
        if a.default is not REQUIRED and (a.default is not None or a.kind == "shape"):
            message.default_value.CopyFrom(attr_to_message(a.default, a.kind))
        if a.allowed is not None:
            element = a.kind[5:-1] if a.kind.startswith("list(") else a.kind
            message.allowed_values.CopyFrom(attr_to_message(list(a.allowed), f"list({element})"))
    return out


def opdef_from_message(message: OpDef) -> registry.OpDef:
    """A declaration from its OpDef, for nodes that call a function by its name. It is not registered."""
    opdef = registry.OpDef(message.name, "", stateful=message.is_stateful, commutative=message.is_commutative,
                           foldable=False)
    for a in message.attr:
        default = attr_from_message(a.default_value, a.type) if a.HasField("default_value") else REQUIRED
        allowed = attr_from_message(a.allowed_values) if a.HasField("allowed_values") else None
        opdef.attrs[a.name] = Attr(a.name, a.type, default, None if allowed is None else tuple(allowed),
                                   a.minimum if a.has_minimum else None)
    for messages, args in ((message.input_arg, opdef.inputs), (message.output_arg, opdef.outputs)):
        for m in messages:
            args.append(Arg(m.name, dtypes.as_dtype(m.type) if m.type else None, m.type_attr or None,
                            m.number_attr or None, m.type_list_attr or None, m.is_ref))
    opdef._describe()
    return opdef


def strip_default_attrs(graph: GraphDef) -> None:
    """Removes from a GraphDef, in place, the attributes that have their declared default value."""
    for node, defaults in _with_defaults(graph):
        for name, value in defaults.items():
            if name in node.attr and node.attr[name] == value:
                del node.attr[name]


def restore_default_attrs(graph: GraphDef) -> None:
    """Adds to a GraphDef, in place, the declared default values of the attributes that its nodes lack."""
    for node, defaults in _with_defaults(graph):
        for name, value in defaults.items():
            if name not in node.attr:
                node.attr[name].CopyFrom(value)


def _with_defaults(graph: GraphDef) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The nodes of a graph and of its functions, with the default values of their declared attributes as messages."""
    known: dict[str, dict[str, Any]] = {}
    for node in (*graph.node, *(n for f in graph.library.function for n in f.node_def)):
        if node.op in registry.OPS:
            if node.op not in known:
                message = op_def_message(registry.OPS[node.op])
                known[node.op] = {a.name: a.default_value for a in message.attr if a.HasField("default_value")}
            yield node, known[node.op]
