"""Functions on GraphDefs: extract the subgraph of an output, freeze variables, remove training-only nodes, write to a file.

They map messages to messages and do not need the ops to be registered.
"""
from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.tensor_proto import make_ndarray, make_tensor_proto
from penstock._src.io import paths
from penstock._src.ops.registry import get

if TYPE_CHECKING:
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    from tensorboard.compat.proto.node_def_pb2 import NodeDef

_REF_VARIABLES = ("Variable", "VariableV2")
_HANDLES = ("VarHandleOp",)
_CARRIERS = ("Identity", "Switch", "Merge", "Enter", "Exit", "NextIteration")     # pass their input on
_VARIABLE_WORK = ("Assign", "AssignAdd", "AssignSub", "Queue", "ScatterAdd", "ScatterSub", "ScatterUpdate",
                  "TruncatedNormal", *_REF_VARIABLES)
_INT32_ON_CPU = {"DynamicStitch": "T", "ParallelDynamicStitch": "T", "Cast": "SrcT"}

_log = logging.getLogger("penstock")


def _source(text: str) -> str:
    """The node that an input names."""
    return text[1:] if text.startswith("^") else text.split(":")[0]


def _data_inputs(node: NodeDef) -> list[str]:
    return [_source(i) for i in node.input if not i.startswith("^")]


# -- parts of graphs ------------------------------------------------------------------------------------------
@export(v1=["graph_util.extract_sub_graph"])
def extract_sub_graph(graph_def: GraphDef, dest_nodes: Iterable[str]) -> GraphDef:
    """The nodes that `dest_nodes` depend on, in their order, with those they must be colocated with.

    >>> inference = tf.graph_util.extract_sub_graph(graph_def, ["softmax"])
    """
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    if not isinstance(graph_def, GraphDef):
        raise TypeError("graph_def must be a graph_pb2.GraphDef proto.")
    if isinstance(dest_nodes, (str, bytes)):
        raise TypeError(f"dest_nodes must be an iterable of names, got {dest_nodes!r}")
    nodes = {n.name: n for n in graph_def.node}
    todo = [_source(d) for d in dest_nodes]
    for d in todo:
        if d not in nodes:
            raise AssertionError(f"{d} is not in graph")
    keep: set[str] = set()
    while todo:
        name = todo.pop()
        if name in keep:
            continue
        if name not in nodes:
            raise ValueError(f"Node '{name}' is used, but is not in the graph.")
        keep.add(name)
        todo.extend(_source(i) for i in nodes[name].input)
        todo.extend(_colocated(nodes[name]))
    out = GraphDef(node=[n for n in graph_def.node if n.name in keep])
    out.library.CopyFrom(graph_def.library)
    out.versions.CopyFrom(graph_def.versions)
    return out


def _colocated(node: NodeDef) -> list[str]:
    if "_class" not in node.attr:
        return []
    classes = (c.decode() for c in node.attr["_class"].list.s)
    return [c[5:] for c in classes if c.startswith("loc:@")]


@export(v1=["graph_util.remove_training_nodes"])
def remove_training_nodes(input_graph: GraphDef, protected_nodes: Iterable[str] | None = None) -> GraphDef:
    """The graph without CheckNumerics, and without Identity nodes that no control edge begins or ends at."""
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    protected = set(protected_nodes or ())
    checks = {n.name for n in input_graph.node if n.op == "CheckNumerics" and n.name not in protected}
    kept = GraphDef(node=[n for n in input_graph.node if n.name not in checks])
    controlling: set[str] = set()
    controlled: set[str] = set()
    for node in kept.node:
        inputs = [i for i in node.input if _source(i) not in checks]
        node.ClearField("input")
        node.input.extend(inputs)
        controls = [_source(i) for i in inputs if i.startswith("^")]
        controlling.update(controls)
        if controls:
            controlled.add(node.name)
    colocated = {c.decode().removeprefix("loc:@") for n in kept.node if "_class" in n.attr for c in n.attr["_class"].list.s}
    pinned = protected | controlling | controlled | colocated
    spliced = {n.name: n.input[0] for n in kept.node if n.op == "Identity" and n.name not in pinned}
    out = GraphDef(node=[n for n in kept.node if n.name not in spliced])
    for node in out.node:
        for i, text in enumerate(node.input):
            node.input[i] = _behind(text, spliced)
    return out


def _behind(text: str, spliced: dict[str, str]) -> str:
    """The input name after the spliced nodes are removed."""
    seen = set()
    while text.removesuffix(":0").lstrip("^") in spliced and text not in seen:
        seen.add(text)
        text = spliced[text.removesuffix(":0").lstrip("^")]
    return text


@export(v2=["__internal__.graph_util.graph_defs_equal"])
def graph_defs_equal(graph_def_1: GraphDef, graph_def_2: GraphDef, treat_nan_as_equal: bool = False) -> bool:
    """Whether two GraphDefs have the same nodes and functions, in any order. NaNs differ by default."""
    first, second = (_by_name(g) for g in (graph_def_1, graph_def_2))
    if first != second:
        return False
    return treat_nan_as_equal or not any(_has_nan(node) for node in graph_def_1.node)


def _by_name(graph_def: GraphDef) -> tuple[dict[str, bytes], dict[str, bytes]]:
    return ({n.name: n.SerializeToString(deterministic=True) for n in graph_def.node},
            {f.signature.name: f.SerializeToString(deterministic=True) for f in graph_def.library.function})


def _has_nan(node: Any) -> bool:
    return any(value.HasField("tensor") and value.tensor.dtype and dtypes.as_dtype(value.tensor.dtype).is_floating and
               bool(np.isnan(make_ndarray(value.tensor).astype(np.float64)).any()) for value in node.attr.values())


@export(v1=["graph_util.must_run_on_cpu"])
def must_run_on_cpu(node: Any, pin_variables_on_cpu: bool = False) -> bool:
    """Whether a node (an Operation or a NodeDef) has a kernel on CPU only, by its op and types."""
    node = getattr(node, "node_def", node)
    if pin_variables_on_cpu and node.op in _VARIABLE_WORK:
        return True
    if node.op == "Const":
        return dtypes.as_dtype(node.attr["dtype"].type) in (dtypes.string, dtypes.int32)
    attr = _INT32_ON_CPU.get(node.op)
    return attr is not None and node.attr[attr].type == dtypes.int32.enum


@export(v1=["graph_util.tensor_shape_from_node_def_name"])
def tensor_shape_from_node_def_name(graph: Any, input_name: str) -> Any:
    """The static shape of the tensor that an input text ("node" or "node:1") names in `graph`."""
    name = input_name if ":" in input_name else input_name + ":0"
    return graph.get_tensor_by_name(name).get_shape()


# -- freezing -------------------------------------------------------------------------------------------------
@export(v1=["graph_util.convert_variables_to_constants"])
def convert_variables_to_constants(sess: Any, input_graph_def: GraphDef, output_node_names: Iterable[str],
                                   variable_names_whitelist: Iterable[str] | None = None,
                                   variable_names_blacklist: Iterable[str] | None = None) -> GraphDef:
    """The subgraph of the outputs, with the current values of variables as constants.

    >>> frozen = tf.graph_util.convert_variables_to_constants(sess, sess.graph_def, ["softmax"])
    """
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    graph_def = extract_sub_graph(input_graph_def, output_node_names)
    chosen = [n for n in graph_def.node if n.op in _REF_VARIABLES + _HANDLES
              and (variable_names_whitelist is None or n.name in variable_names_whitelist)
              and (variable_names_blacklist is None or n.name not in variable_names_blacklist)]
    types = {n.name: n.attr["dtype"].type for n in chosen}
    readers = [_reader(sess.graph, n) for n in chosen]
    values = dict(zip(types, sess.run(readers), strict=True)) if readers else {}
    carried = _carried(graph_def)
    out = GraphDef(library=graph_def.library, versions=graph_def.versions)
    for node in graph_def.node:
        if node.name in values:
            out.node.append(_constant(node.name, types[node.name], values[node.name]))
            out.node[-1].input.extend(i for i in node.input if i.startswith("^"))          # inside of a loop, its frame
        else:
            out.node.extend(_without_handle(node, carried, types))
    _log.info("Froze %d variables.", len(values))
    return out


def _reader(graph: Any, node: NodeDef) -> Any:
    """A tensor of `graph` that has the value of a variable."""
    if node.op in _REF_VARIABLES:
        return graph.get_tensor_by_name(node.name + ":0")
    handle = graph.get_tensor_by_name(node.name + ":0")
    for op in handle.consumers():
        if op.type == "ReadVariableOp" and op._get_control_flow_context() is None:
            return op.outputs[0]
    with graph.as_default():                         # it is read in loops only, or by functions
        attrs = handle.op.attrs
        outside = get("VarHandleOp")(**{**attrs, "shared_name": attrs["shared_name"] or node.name})
        return get("ReadVariableOp")(outside, dtype=attrs["dtype"])


def _carried(graph_def: GraphDef) -> dict[str, str]:
    """For each node that holds or passes on a variable's handle, the variable."""
    consumers: dict[str, list[NodeDef]] = {}
    for node in graph_def.node:
        for source in _data_inputs(node):
            consumers.setdefault(source, []).append(node)
    carried = {n.name: n.name for n in graph_def.node if n.op in _HANDLES}
    todo = list(carried)
    while todo:
        name = todo.pop()
        for c in consumers.get(name, ()):
            if c.name not in carried and c.op in _CARRIERS and c.attr["T"].type == dtypes.resource.enum:
                carried[c.name] = carried[name]
                todo.append(c.name)
    return carried


def _without_handle(node: NodeDef, carried: dict[str, str], types: dict[str, int]) -> list[NodeDef]:
    """The node and its dependencies for a graph in which its handle input is a value."""
    from tensorboard.compat.proto.node_def_pb2 import NodeDef
    inputs = _data_inputs(node)
    if node.op in ("ReadVariableOp", "ResourceGather") and inputs[0] not in carried:
        raise ValueError(f"No variable was found for the input of the {node.op} ('{node.name}').")
    variables = [carried[i] for i in inputs if carried.get(i) in types]
    if not variables:
        return [node]
    dtype = types[variables[0]]
    out = NodeDef(name=node.name, device=node.device)
    if "_class" in node.attr:
        out.attr["_class"].CopyFrom(node.attr["_class"])
    if node.name in carried:
        out.CopyFrom(node)
        out.attr["T"].type = dtype
        if "_output_shapes" in out.attr:
            del out.attr["_output_shapes"]
    elif node.op == "ReadVariableOp":
        out.op = "Identity"
        out.input.extend(node.input)
        out.attr["T"].type = dtype
    elif node.op == "VariableShape":
        out.op = "Shape"
        out.input.extend(node.input)
        out.attr["T"].type = dtype
        out.attr["out_type"].type = node.attr["out_type"].type or dtypes.int32.enum
    elif node.op == "ResourceGather":
        return _gather(node, out, dtype)
    else:
        raise ValueError(f"Node '{node.name}' ({node.op}) needs the variable '{variables[0]}' itself, not its value: "
                         "it cannot be frozen.")
    return [out]


def _gather(node: NodeDef, out: NodeDef, dtype: int) -> list[NodeDef]:
    if node.attr["batch_dims"].i != 0:
        raise ValueError("batch_dims != 0 is not supported by freeze_graph.")
    indices = node.attr["Tindices"].type
    axis = _constant(node.name + "/axis", indices, 0)
    out.op = "GatherV2"
    out.input.extend([*node.input[:2], axis.name, *node.input[2:]])
    out.attr["Tparams"].type = dtype
    out.attr["Tindices"].type = out.attr["Taxis"].type = indices
    return [axis, out]


def _constant(name: str, dtype: int, value: Any) -> NodeDef:
    from tensorboard.compat.proto.node_def_pb2 import NodeDef
    node = NodeDef(name=name, op="Const")
    node.attr["dtype"].type = dtype
    node.attr["value"].tensor.CopyFrom(make_tensor_proto(value, dtype=dtype))
    return node


# -- files ----------------------------------------------------------------------------------------------------
@export("io.write_graph", v1=["train.write_graph"])
def write_graph(graph_or_graph_def: Any, logdir: Any, name: str, as_text: bool = True) -> str:
    """Writes a graph to the file `name` in `logdir`, as text or in binary, and returns the path.

    Args:
        graph_or_graph_def: Graph or `GraphDef`.
        logdir: Directory, made if needed.
        name: Name of the file.
        as_text: Whether to write text instead of binary data.

    Returns:
        Path of the file.

    >>> with tf.Graph().as_default() as graph:
    ...     x = tf.constant(1.)
    >>> tf.io.write_graph(graph, "model", "train.pbtxt")
    'model/train.pbtxt'
    """
    from google.protobuf import text_format
    graph_def = graph_or_graph_def
    if hasattr(graph_def, "as_graph_def"):
        graph_def = graph_def.as_graph_def()
    data = text_format.MessageToString(graph_def).encode() if as_text else graph_def.SerializeToString()
    path = paths.join(paths.as_text(logdir), name)
    paths.write_atomically(path, data)
    return path
