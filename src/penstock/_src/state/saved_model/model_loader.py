"""Reading SavedModels into graphs: by tags, with variables, assets and the op that initializes."""
from __future__ import annotations

from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tensorboard.compat.proto.meta_graph_pb2 import AssetFileDef

from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.graphdef import restore_default_attrs
from penstock._src.graph.scopes import prepend_name_scope
from penstock._src.io import paths, replaced
from penstock._src.io.messages import SavedModel
from penstock._src.state.checkpoint.saver import Saver, all_saveable_objects, import_meta_graph_with_return_elements
from penstock._src.state.saved_model import names
from penstock._src.state.saved_model.model_builder import asset_path, variables_path
from penstock._src.state.saved_model.restricted import check as check_restricted
from penstock._src.state.saved_model.signatures import load_op_from_signature_def


@export("__internal__.saved_model.parse_saved_model")
def parse_saved_model(export_dir: Any) -> Any:
    """The SavedModel message in a directory; OSError if there is none that can be read."""
    found = _parsed(export_dir)
    for meta_graph in found.meta_graphs:
        if names.ASSETS_KEY in meta_graph.collection_def:
            for a in meta_graph.collection_def[names.ASSETS_KEY].any_list.value:
                a.type_url = f"type.googleapis.com/{AssetFileDef.DESCRIPTOR.full_name}"
    return found


def _parsed(export_dir: Any) -> Any:
    folder = paths.as_text(export_dir)
    replaced.recover(folder)
    binary, text = (paths.join(folder, n) for n in (names.SAVED_MODEL_FILENAME_PB, names.SAVED_MODEL_FILENAME_PBTXT))
    if paths.exists(binary):
        try:
            return SavedModel.FromString(paths.read_stored(binary))
        except DecodeError as e:
            raise OSError(f"Cannot parse file {binary}: {e}.") from None
    if paths.exists(text):
        try:
            return text_format.Parse(paths.read_stored(text), SavedModel())
        except (text_format.ParseError, UnicodeDecodeError, RecursionError) as e:
            raise OSError(f"Cannot parse file {text}: {e}.") from None
    raise OSError(f"SavedModel file does not exist at: {folder}/{{{names.SAVED_MODEL_FILENAME_PBTXT}|"
                  f"{names.SAVED_MODEL_FILENAME_PB}}}")


@export(v2=["saved_model.contains_saved_model"], v1=["saved_model.contains_saved_model",
                                                     "saved_model.maybe_saved_model_directory",
                                                     "saved_model.loader.maybe_saved_model_directory"])
def maybe_saved_model_directory(export_dir: Any) -> bool:
    """Whether a directory seems to have a SavedModel."""
    folder = paths.as_text(export_dir)
    return any(paths.exists(paths.join(folder, n)) for n in (names.SAVED_MODEL_FILENAME_PB, names.SAVED_MODEL_FILENAME_PBTXT))


@export(v1=["saved_model.load", "saved_model.loader.load"])
def load(sess: Any, tags: Any, export_dir: Any, import_scope: str | None = None, *, restricted: bool = False,
         **saver_kwargs: Any) -> Any:
    """Loads the graph with these tags into a session, with its variables; returns its MetaGraphDef.

    A SavedModel is a program, and loading it runs its `main_op`. With `restricted`, a model that could use files, Python
    functions or other tasks is refused (PermissionDeniedError).

    >>> meta_graph = tf.saved_model.load(sess, [tf.saved_model.SERVING], "/tmp/model")
    """
    loader = SavedModelLoader(export_dir)
    if restricted:
        check_restricted(loader.get_meta_graph_def_from_tags(tags))
    return loader.load(sess, tags, import_scope, **saver_kwargs)


def asset_files(meta_graph: Any) -> list:
    """The AssetFileDefs of a MetaGraphDef."""
    if meta_graph.asset_file_def:
        return list(meta_graph.asset_file_def)
    if names.ASSETS_KEY not in meta_graph.collection_def:
        return []
    return [AssetFileDef.FromString(a.value) for a in meta_graph.collection_def[names.ASSETS_KEY].any_list.value]


class SavedModelLoader:
    """Loads a SavedModel step by step: graph, variables, initialization."""

    def __init__(self, export_dir: Any):
        self.export_dir, self.variables_path = export_dir, variables_path(export_dir)
        self.saved_model = parse_saved_model(export_dir)

    def get_meta_graph_def_from_tags(self, tags: Any) -> Any:
        """The MetaGraphDef with exactly these tags."""
        available = [set(m.meta_info_def.tags) for m in self.saved_model.meta_graphs]
        for meta_graph, have in zip(self.saved_model.meta_graphs, available, strict=True):
            if have == set(tags):
                return meta_graph
        raise RuntimeError(f"MetaGraphDef associated with tags {str(tags).strip('[]')} could not be found in SavedModel. To "
                           "inspect available tag-sets in the SavedModel, please use the SavedModel CLI: `saved_model_cli`\n"
                           f"available_tags: {available}")

    def load_graph(self, graph: Any, tags: Any, import_scope: str | None = None, **saver_kwargs: Any) -> tuple:
        """Adds the graph with these tags to `graph`; returns its saver, and the elements that were requested."""
        meta_graph = self.get_meta_graph_def_from_tags(tags)
        restore_default_attrs(meta_graph.graph_def)
        with graph.as_default():
            return import_meta_graph_with_return_elements(meta_graph, import_scope=import_scope, **saver_kwargs)

    def restore_variables(self, sess: Any, saver: Any, import_scope: str | None = None) -> None:
        """Restores the variables."""
        with sess.graph.as_default():
            if saver is None and not all_saveable_objects(scope=import_scope):
                logging.info("The specified SavedModel has no variables; no checkpoints were restored.")
            elif isinstance(saver, Saver):
                saver.restore(sess, self.variables_path)
            else:
                raise ValueError("No tf.train.Saver object was passed to the function SavedModelLoader.restore_variables. "
                                 "Since there are variables in the graph, a saver is required.")

    def run_init_ops(self, sess: Any, tags: Any, import_scope: str | None = None) -> None:
        """Runs the main op, with the current paths of the assets."""
        meta_graph = self.get_meta_graph_def_from_tags(tags)
        with sess.graph.as_default():
            feeds = {prepend_name_scope(a.tensor_info.name, import_scope): asset_path(self.export_dir, a.filename)
                     for a in asset_files(meta_graph)}
            op = _init_op(meta_graph, import_scope)
            if op is not None:
                sess.run([op], feed_dict=feeds)

    def load(self, sess: Any, tags: Any, import_scope: str | None = None, **saver_kwargs: Any) -> Any:
        """Loads graph and variables, and runs the initialization; returns the MetaGraphDef."""
        with sess.graph.as_default():
            saver, _ = self.load_graph(sess.graph, tags, import_scope, **saver_kwargs)
            self.restore_variables(sess, saver, import_scope)
            self.run_init_ops(sess, tags, import_scope)
        return self.get_meta_graph_def_from_tags(tags)


def _init_op(meta_graph: Any, import_scope: str | None) -> Any:
    """The op that initializes a loaded graph: named by a signature, or by a collection."""
    if names.INIT_OP_SIGNATURE_KEY in meta_graph.signature_def:
        return load_op_from_signature_def(meta_graph.signature_def[names.INIT_OP_SIGNATURE_KEY], names.INIT_OP_SIGNATURE_KEY,
                                          import_scope)
    for key in (names.MAIN_OP_KEY, names.LEGACY_INIT_OP_KEY):
        if key in meta_graph.collection_def:
            found = meta_graph.collection_def[key].node_list.value
            if len(found) > 1:
                raise RuntimeError("Expected exactly one SavedModel main op.")
            if found:
                return context.current_graph().as_graph_element(prepend_name_scope(found[0], import_scope))
    return None
