"""`tools.freeze_graph`: a graph whose variables have become constants, with the values of a checkpoint."""
from __future__ import annotations

import re
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.state.saved_model.model_loader import parse_saved_model


def read_graph_def(path: str, binary: bool) -> Any:
    """A GraphDef from a file, binary or text."""
    return _read(tf.GraphDef(), path, binary)


def read_meta_graph(path: str, binary: bool) -> Any:
    """A MetaGraphDef from a file, binary or text."""
    return _read(tf.MetaGraphDef(), path, binary)


def _read(message: Any, path: str, binary: bool) -> Any:
    if binary:
        with tf.gfile.GFile(path, "rb") as file:
            message.ParseFromString(file.read())
    else:
        from google.protobuf import text_format
        with tf.gfile.GFile(path, "r") as file:
            text_format.Merge(file.read(), message)
    return message


def freeze_graph_with_def_protos(input_graph_def: Any, input_saver_def: Any, input_checkpoint: str, output_node_names: str,
                                 restore_op_name: str | None = None, filename_tensor_name: str | None = None,
                                 output_graph: str = "", clear_devices: bool = True, initializer_nodes: str = "",
                                 variable_names_whitelist: str = "", variable_names_blacklist: str = "",
                                 input_meta_graph_def: Any = None, input_saved_model_dir: str | None = None,
                                 saved_model_tags: Any = None, checkpoint_version: int = 2, **kwargs: Any) -> Any:
    """The frozen GraphDef; it is written to `output_graph` if that is given."""
    if not output_node_names:
        raise ValueError("You need to supply the name of a node to --output_node_names.")
    graph_def = input_meta_graph_def.graph_def if input_meta_graph_def else input_graph_def
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        if input_saved_model_dir:
            tags = saved_model_tags.split(",") if isinstance(saved_model_tags, str) else list(saved_model_tags)
            graph_def = tf.saved_model.loader.load(session, tags, input_saved_model_dir).graph_def
        else:
            if clear_devices:
                for node in graph_def.node:
                    node.device = ""
            _restore(session, graph_def, input_meta_graph_def, input_saver_def, input_checkpoint)
        if initializer_nodes:
            session.run(initializer_nodes.replace(" ", "").split(","))
        frozen = tf.graph_util.convert_variables_to_constants(
            session, graph_def, output_node_names.replace(" ", "").split(","), _listed(variable_names_whitelist),
            _listed(variable_names_blacklist))
    if output_graph:
        with tf.gfile.GFile(output_graph, "wb") as file:
            file.write(frozen.SerializeToString())
    return frozen


def _listed(names: str) -> list[str] | None:
    return names.replace(" ", "").split(",") if names else None


def _restore(session: Any, graph_def: Any, meta: Any, saver_def: Any, checkpoint: str) -> None:
    """Imports the graph and sets its variables to the values of the checkpoint."""
    if meta is not None:
        tf.train.import_meta_graph(meta, clear_devices=True).restore(session, checkpoint)
        return
    tf.import_graph_def(graph_def, name="")
    if saver_def is not None:
        tf.train.Saver(saver_def=saver_def).restore(session, checkpoint)
        return
    reader = tf.train.NewCheckpointReader(checkpoint)
    found = {}
    for key in reader.get_variable_to_shape_map():
        try:
            found[re.sub(r"/part_\d+$", "", key)] = session.graph.get_tensor_by_name(key + ":0")
        except KeyError:
            continue                                  # the checkpoint may hold more than this graph
    tf.train.Saver(var_list=found).restore(session, checkpoint)


def freeze_graph(input_graph: str, input_saver: str, input_binary: bool, input_checkpoint: str, output_node_names: str,
                 restore_op_name: str | None = None, filename_tensor_name: str | None = None, output_graph: str = "",
                 clear_devices: bool = True, initializer_nodes: str = "", variable_names_whitelist: str = "",
                 variable_names_blacklist: str = "", input_meta_graph: str | None = None,
                 input_saved_model_dir: str | None = None, saved_model_tags: str = "serve", checkpoint_version: int = 2) -> Any:
    """Freezes a graph that is in files: a GraphDef (or MetaGraphDef, or SavedModel) and a checkpoint.

    >>> freeze_graph("graph.pbtxt", "", False, "model.ckpt-100", "output", "save/restore_all", "save/Const:0", "frozen.pb",
    ...              True, "")
    """
    saver_def = None
    if input_saver:
        from google.protobuf import text_format
        saver_def = tf.train.SaverDef()
        with tf.gfile.GFile(input_saver, "rb") as file:
            content = file.read()
        saver_def.ParseFromString(content) if input_binary else text_format.Merge(content.decode(), saver_def)
    return freeze_graph_with_def_protos(
        read_graph_def(input_graph, input_binary) if input_graph else None, saver_def, input_checkpoint, output_node_names,
        output_graph=output_graph, clear_devices=clear_devices, initializer_nodes=initializer_nodes,
        variable_names_whitelist=variable_names_whitelist, variable_names_blacklist=variable_names_blacklist,
        input_meta_graph_def=read_meta_graph(input_meta_graph, input_binary) if input_meta_graph else None,
        input_saved_model_dir=input_saved_model_dir, saved_model_tags=saved_model_tags)


def get_meta_graph_def(saved_model_dir: str, tag_set: str) -> Any:
    """The MetaGraphDef of a SavedModel with exactly these tags, separated by commas."""
    wanted = set(tag_set.split(","))
    for meta in parse_saved_model(saved_model_dir).meta_graphs:
        if set(meta.meta_info_def.tags) == wanted:
            return meta
    raise RuntimeError(f"MetaGraphDef associated with tag-set {tag_set} could not be found in SavedModel")


def get_saved_model_tag_sets(saved_model_dir: str) -> list[list[str]]:
    """The tags of each graph of a SavedModel, in order."""
    return sorted(sorted(meta.meta_info_def.tags) for meta in parse_saved_model(saved_model_dir).meta_graphs)
