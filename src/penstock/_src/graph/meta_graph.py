"""MetaGraphDef: a graph and its collections in one message.

Exporting writes the GraphDef, the ops that it uses, and the collections: variables, contexts of control flow and queue
runners as messages (`collections.register_proto_function`), tensors and operations by name, text and numbers as they are.
With `export_scope` only what is under a name scope goes out, without that scope in its names; inputs from outside become
unbound, and an import must map them.
"""
from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from typing import Any

from google.protobuf import text_format
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.meta_graph_pb2 import MetaGraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.op_def_pb2 import OpList
from tensorboard.compat.proto.saver_pb2 import SaverDef

from penstock._src.base import tf_logging as logging
from penstock._src.base.version import __version__
from penstock._src.graph import context, control_flow_messages  # noqa: F401  (they say how contexts are written)
from penstock._src.graph.collections import GraphKeys, messages_of
from penstock._src.graph.graph import Graph
from penstock._src.graph.graphdef import op_def_message, strip_default_attrs
from penstock._src.graph.importer import import_graph_def
from penstock._src.graph.scopes import prepend_name_scope, strip_name_scope
from penstock._src.io import paths
from penstock._src.ops.registry import OPS

API_VERSION = "1.15.0"            # of TensorFlow, in whose form collections are written
_UNBOUND = "$unbound_inputs_"
_SAVING = ("SaveV2", "Save", "SaveSlices", "RestoreV2", "Restore", "RestoreSlice")
_STRUCTURAL = ("_Arg", "_Retval", "_ListToArray", "_ArrayToList")


# -- export ----------------------------------------------------------------------------------------------------------
def export_scoped_meta_graph(filename: Any = None, graph_def: Any = None, graph: Any = None, export_scope: str | None = None,
                             as_text: bool = False, unbound_inputs_col_name: str | None = "unbound_inputs",
                             clear_devices: bool = False, saver_def: Any = None, clear_extraneous_savers: bool = False,
                             strip_default_attrs: bool = False, save_debug_info: bool = False,
                             **kwargs: Any) -> tuple[MetaGraphDef, dict[str, Any]]:
    """The MetaGraphDef of a graph or of a scope in it, and the global variables in it by name."""
    if context.executing_eagerly() and (graph_def is None or graph is None):
        raise ValueError("Exporting/importing meta graphs is not supported when Eager Execution is enabled.")
    graph = graph or context.current_graph()
    left_out: set[str] = set()
    if export_scope or clear_extraneous_savers or clear_devices:
        whole = graph_def or graph.as_graph_def(add_shapes=True)
        if clear_extraneous_savers:
            left_out = _other_savers(whole, saver_def)
        unbound: list[str] = []
        graph_def = GraphDef(versions=whole.versions, library=whole.library, node=[
            _exported(n, export_scope, unbound, clear_devices) for n in whole.node
            if _included(n.name, export_scope, left_out)])
        if unbound_inputs_col_name:
            graph.clear_collection(unbound_inputs_col_name)
            for name in unbound:
                graph.add_to_collection(unbound_inputs_col_name, name)
    variables = {strip_name_scope(v.name, export_scope): v
                 for v in graph.get_collection(GraphKeys.GLOBAL_VARIABLES, scope=export_scope)
                 if _included(v, export_scope, left_out)}
    made = create_meta_graph_def(graph_def=graph_def, graph=graph, export_scope=export_scope, exclude_nodes=left_out,
                                 clear_extraneous_savers=clear_extraneous_savers, saver_def=saver_def,
                                 strip_default_attrs=strip_default_attrs, **kwargs)
    if filename:
        _write(made, paths.as_text(filename), as_text)
        if save_debug_info:
            _write(_debug_info(graph, made, export_scope), os.path.splitext(paths.as_text(filename))[0] + ".debug", as_text)
    return made, variables


def _write(message: Any, path: str, as_text: bool) -> None:
    data = text_format.MessageToString(message).encode() if as_text else message.SerializeToString()
    paths.write_atomically(path, data, stored=True)


def _debug_info(graph: Any, meta_graph: MetaGraphDef, export_scope: str | None) -> Any:
    """The user's line that created each node."""
    from tensorboard.compat.proto.graph_debug_info_pb2 import GraphDebugInfo
    out = GraphDebugInfo()
    files: dict[str, int] = {}
    for node in meta_graph.graph_def.node:
        trace = out.traces[node.name + "@"]
        for frame in graph.get_operation_by_name(prepend_name_scope(node.name, export_scope)).traceback or ():
            if frame.filename not in files:
                files[frame.filename] = len(files)
                out.files.append(frame.filename)
            trace.file_line_cols.add(file_index=files[frame.filename], line=frame.lineno or 0, func=frame.name,
                                     code=frame.line or "")
    return out


def _included(item: Any, scope: str | None, left_out: Iterable[str]) -> bool:
    name = item if isinstance(item, str) else getattr(item, "name", None)
    if name is None:
        return True
    if name in left_out:
        return False
    return not scope or name.startswith((_UNBOUND, scope))


def _exported(node: NodeDef, scope: str | None, unbound: list[str], clear_devices: bool) -> NodeDef:
    """A node as it is in the exported scope; inputs from outside are named as unbound."""
    out = NodeDef()
    out.CopyFrom(node)
    if clear_devices:
        out.device = ""
    if not scope:
        return out
    out.name = strip_name_scope(node.name, scope)
    for i, text in enumerate(node.input):
        if text.lstrip("^").startswith(scope):
            out.input[i] = strip_name_scope(text, scope)
        else:
            out.input[i] = f"^{_UNBOUND}{text[1:]}" if text.startswith("^") else _UNBOUND + text
            unbound.append(out.input[i])
    if "_class" in out.attr:
        kept = [c for c in (c.decode() for c in node.attr["_class"].list.s) if c.split("@")[-1].startswith(scope)]
        out.attr["_class"].list.s[:] = [strip_name_scope(c, scope).encode() for c in kept]
    if "frame_name" in out.attr:
        out.attr["frame_name"].s = strip_name_scope(node.attr["frame_name"].s.decode(), scope).encode()
    return out


def _scope_of(name: str) -> str:
    return name.split(":")[0].lstrip("^").rpartition("/")[0] + "/"


def _other_savers(graph_def: GraphDef, saver_def: Any) -> set[str]:
    """The nodes of savers other than the one given: all under the scopes of their save and restore ops."""
    scopes = {_scope_of(n.name) for n in graph_def.node if n.op in _SAVING} - {"/"}
    if saver_def is not None:
        scopes -= {_scope_of(saver_def.save_tensor_name), _scope_of(saver_def.restore_op_name)}
    return {n.name for n in graph_def.node if n.name.startswith(tuple(scopes))} if scopes else set()


def create_meta_graph_def(meta_info_def: Any = None, graph_def: Any = None, saver_def: Any = None, collection_list: Any = None,
                          graph: Any = None, export_scope: str | None = None, exclude_nodes: Any = None,
                          clear_extraneous_savers: bool = False, strip_default_attrs: bool = False) -> MetaGraphDef:
    """The MetaGraphDef of a graph, with the collections in `collection_list` (all by default)."""
    for what, value, kind in (("graph", graph, Graph), ("meta_info_def", meta_info_def, MetaGraphDef.MetaInfoDef),
                              ("graph_def", graph_def, GraphDef), ("saver_def", saver_def, SaverDef)):
        if value and not isinstance(value, kind):
            raise TypeError(f"{what} must be of type {kind.__name__}, not {type(value)}")
    graph = graph or context.current_graph()
    out = MetaGraphDef()
    if meta_info_def:
        out.meta_info_def.MergeFrom(meta_info_def)
    out.meta_info_def.tensorflow_version, out.meta_info_def.tensorflow_git_version = API_VERSION, f"penstock-{__version__}"
    out.graph_def.MergeFrom(graph_def or graph.as_graph_def(add_shapes=True))
    if not out.meta_info_def.stripped_op_list.op:
        out.meta_info_def.stripped_op_list.MergeFrom(stripped_op_list_for_graph(out.graph_def))
    if strip_default_attrs:
        _strip(out)
    if saver_def:
        out.saver_def.MergeFrom(saver_def)
    for key in graph.get_all_collection_keys() if collection_list is None else collection_list:
        items = None
        if clear_extraneous_savers and key == GraphKeys.SAVERS and saver_def:
            items = [messages_of(key).from_proto(saver_def)]        # type: ignore[union-attr]
        add_collection_def(out, key, graph, export_scope, exclude_nodes or (), items)
    return out


def _strip(meta_graph: MetaGraphDef) -> None:
    strip_default_attrs(meta_graph.graph_def)
    meta_graph.meta_info_def.stripped_default_attrs = True


def stripped_op_list_for_graph(graph_def: GraphDef) -> OpList:
    """The declarations of the ops that a graph and its functions use."""
    functions = {f.signature.name for f in graph_def.library.function}
    used = {n.op for n in graph_def.node} | {n.op for f in graph_def.library.function for n in f.node_def}
    for name in used - functions - set(OPS) - set(_STRUCTURAL):
        raise ValueError(f"Op {name} is used by the graph, but is not registered")
    return OpList(op=[op_def_message(OPS[name]) for name in sorted(used - functions) if name in OPS])


def add_collection_def(meta_graph_def: MetaGraphDef, key: Any, graph: Any = None, export_scope: str | None = None,
                       exclude_nodes: Any = (), override_contents: Any = None) -> None:
    """Adds a collection to a MetaGraphDef. One whose items cannot be written is left out, with a warning."""
    if not isinstance(key, (str, bytes)):
        logging.warning("A collection is not exported because its key is no string: %s", type(key))
        return
    graph = graph or context.current_graph()
    items = [x for x in override_contents or graph.get_collection(key) if _included(x, export_scope, exclude_nodes or ())]
    if not items:
        return
    try:
        _write_items(meta_graph_def.collection_def[key], items, messages_of(key), export_scope)
    except Exception as e:
        logging.warning("Issue encountered when serializing %s.\nType is unsupported, or the types of the items don't match "
                        "field type in CollectionDef. Note this is a warning and probably safe to ignore.\n%s", key, e)
        del meta_graph_def.collection_def[key]


def _write_items(out: Any, items: list, messages: Any, export_scope: str | None) -> None:
    if messages is not None and messages.to_proto is not None:
        for x in items:
            message = messages.to_proto(x, export_scope=export_scope)
            if message is not None:
                out.bytes_list.value.append(message.SerializeToString())
        return
    first = items[0]
    if isinstance(first, (str, bytes)):
        out.bytes_list.value.extend(x.encode() if isinstance(x, str) else x for x in items)
    elif isinstance(first, int):
        out.int64_list.value.extend(items)
    elif isinstance(first, float):
        out.float_list.value.extend(items)
    elif isinstance(first, AnyMessage):
        out.any_list.value.extend(items)
    else:
        out.node_list.value.extend(strip_name_scope(x.name, export_scope) for x in items
                                   if not export_scope or x.name.startswith(export_scope))


# -- import ----------------------------------------------------------------------------------------------------------
def read_meta_graph_file(filename: Any) -> MetaGraphDef:
    """A MetaGraphDef from a file, binary or text."""
    if not paths.exists(filename):
        raise OSError(f"File {filename} does not exist.")
    data = paths.read_stored(filename)
    try:
        return MetaGraphDef.FromString(data)
    except DecodeError:
        pass
    try:
        return text_format.Parse(data.decode("utf-8"), MetaGraphDef())
    except (text_format.ParseError, UnicodeDecodeError, RecursionError) as e:
        raise OSError(f"Cannot parse file {filename}: {e}.") from None


def import_scoped_meta_graph_with_return_elements(
        meta_graph_or_file: Any, clear_devices: bool = False, graph: Any = None, import_scope: str | None = None,
        input_map: Any = None, unbound_inputs_col_name: str | None = "unbound_inputs",
        restore_collections_predicate: Callable[[str], bool] = lambda key: True,
        return_elements: Any = None) -> tuple[dict[str, Any], list | None]:
    """Adds the nodes and collections of a MetaGraphDef to a graph. Returns the global variables by name, and the elements."""
    if context.executing_eagerly():
        raise ValueError("Exporting/importing meta graphs is not supported when eager execution is enabled.")
    given = meta_graph_or_file
    meta_graph = given if isinstance(given, MetaGraphDef) else read_meta_graph_file(given)
    _check_unbound(meta_graph, unbound_inputs_col_name, input_map)
    graph = graph or context.current_graph()
    with graph.as_default():
        if clear_devices:
            for node in meta_graph.graph_def.node:
                node.device = ""
        scope = graph.unique_name(import_scope or "", mark_as_used=False)
        ops = meta_graph.meta_info_def.stripped_op_list if meta_graph.meta_info_def.HasField("stripped_op_list") else None
        elements = import_graph_def(meta_graph.graph_def, name=import_scope or scope, input_map=input_map,
                                    producer_op_list=ops, return_elements=return_elements)
        _add_collections(graph, meta_graph, scope, unbound_inputs_col_name, restore_collections_predicate)
        found = graph.get_collection(GraphKeys.GLOBAL_VARIABLES, scope=re.escape(scope) if scope else None)
    return {strip_name_scope(v.name, scope): v for v in found}, elements


def import_scoped_meta_graph(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """Adds a MetaGraphDef to a graph, and returns its global variables by name."""
    return import_scoped_meta_graph_with_return_elements(*args, **kwargs)[0]


def copy_scoped_meta_graph(from_scope: str, to_scope: str, from_graph: Any = None, to_graph: Any = None) -> dict[str, Any]:
    """Copies what is under a scope, with its variables, to another scope or graph."""
    from_graph, to_graph = from_graph or context.current_graph(), to_graph or context.current_graph()
    if from_graph is to_graph and from_scope == to_scope:
        raise ValueError("'from_scope' and 'to_scope' need to be different when performing copy in the same graph.")
    exported, _ = export_scoped_meta_graph(export_scope=from_scope, graph=from_graph)
    return import_scoped_meta_graph(exported, graph=to_graph, import_scope=to_scope)


def _check_unbound(meta_graph: MetaGraphDef, key: str | None, input_map: Any) -> None:
    if not key or key not in meta_graph.collection_def:
        return
    names = [v.decode() for v in meta_graph.collection_def[key].bytes_list.value]
    if names and (not input_map or sorted(names) != sorted(input_map)):
        missing = ",".join(n for n in names if not input_map or n not in input_map)
        raise ValueError(f"Graph contains unbound inputs: {missing}. Must provide these inputs through input_map.")


def _add_collections(graph: Any, meta_graph: MetaGraphDef, scope: str, unbound: str | None,
                     wanted: Callable[[str], bool]) -> None:
    made: dict[bytes, Any] = {}                     # one object per variable, shared by all its collections
    old = meta_graph.meta_info_def.tensorflow_version
    has_trainable = not old or tuple(int(n) for n in re.findall(r"\d+", old)[:2]) >= (1, 9)
    for key, items in sorted(meta_graph.collection_def.items(), key=lambda e: (e[0] != GraphKeys.TRAINABLE_VARIABLES, e[0])):
        if key == unbound or not wanted(key):
            continue
        kind = items.WhichOneof("kind")
        if kind is None:
            logging.error("Collection %s is not exported: the type of its items is unknown.", key)
            continue
        messages = messages_of(GraphKeys.GLOBAL_VARIABLES if key == GraphKeys.METRIC_VARIABLES else key)
        values = getattr(items, kind).value
        if kind == "bytes_list" and messages is not None and messages.from_proto is not None:
            for data in values:
                variable = key in GraphKeys._VARIABLE_COLLECTIONS
                if not variable or data not in made:
                    message = messages.type.FromString(data)
                    if variable and not has_trainable:
                        message.trainable = key == GraphKeys.TRAINABLE_VARIABLES
                    made[data] = messages.from_proto(message, import_scope=scope)
                graph.add_to_collection(key, made[data])
        elif kind == "node_list":
            for name in values:
                graph.add_to_collection(key, graph.as_graph_element(prepend_name_scope(name, scope)))
        elif kind == "bytes_list":
            for data in values:
                graph.add_to_collection(key, prepend_name_scope(data.decode("utf-8", "surrogateescape"), scope)
                                        if scope else data)
        else:
            for value in values:
                graph.add_to_collection(key, value)
