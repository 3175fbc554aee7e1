"""Writing SavedModels of graphs: the builder, simple_save, and the op that runs when one is loaded."""
from __future__ import annotations

import os
from typing import Any

from google.protobuf import text_format
from google.protobuf.any_pb2 import Any as AnyMessage
from tensorboard.compat.proto.meta_graph_pb2 import AssetFileDef

from penstock._src.base import dtypes, errors
from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.scopes import control_dependencies
from penstock._src.io import paths
from penstock._src.io.messages import SavedModel
from penstock._src.ops.core import group
from penstock._src.ops.state.keyed import without_inserts
from penstock._src.state.checkpoint.saver import Saver
from penstock._src.state.saved_model import names
from penstock._src.state.saved_model.signatures import predict_signature_def
from penstock._src.state.variables.collections import global_variables_initializer, local_variables_initializer

_ASSET_TYPE = "type.googleapis.com/tensorflow.AssetFileDef"


def variables_path(export_dir: Any) -> str:
    """The prefix of the checkpoint in a SavedModel."""
    return paths.join(paths.join(paths.as_text(export_dir), names.VARIABLES_DIRECTORY), names.VARIABLES_FILENAME)


def assets_dir(export_dir: Any) -> str:
    """The directory of the assets in a SavedModel."""
    return paths.join(paths.as_text(export_dir), names.ASSETS_DIRECTORY)


def asset_path(export_dir: Any, name: str) -> str:
    """The path of an asset; PermissionDeniedError if its name leads out of the folder: a model has only its own files."""
    if name.startswith(("/", "~")) or "://" in name or ".." in name.replace("\\", "/").split("/"):
        raise errors.PermissionDeniedError(None, None, f"The asset {name!r} of {paths.as_text(export_dir)} is not in its "
                                           "folder of assets.")
    return paths.join(assets_dir(export_dir), name)


def write_saved_model(saved_model: Any, export_dir: Any, as_text: bool) -> str:
    """Writes the message of a SavedModel; the path of its file."""
    folder = paths.as_text(export_dir)
    path = paths.join(folder, names.SAVED_MODEL_FILENAME_PBTXT if as_text else names.SAVED_MODEL_FILENAME_PB)
    written = SavedModel()
    written.CopyFrom(saved_model)
    for meta_graph in written.meta_graphs:                  # the message has another package there
        if names.ASSETS_KEY in meta_graph.collection_def:
            for a in meta_graph.collection_def[names.ASSETS_KEY].any_list.value:
                a.type_url = _ASSET_TYPE
    saved_model = written
    data = text_format.MessageToString(saved_model).encode() if as_text else saved_model.SerializeToString()
    paths.write_atomically(path, data, stored=True)
    return path


@export(v1=["saved_model.Builder", "saved_model.builder.SavedModelBuilder"])
class SavedModelBuilder:
    """Writes a SavedModel: one set of variables, and one or several graphs with tags.

    >>> builder = tf.saved_model.Builder("/tmp/model")
    >>> builder.add_meta_graph_and_variables(sess, [tf.saved_model.SERVING], {"f": signature})
    >>> builder.save()
    """

    def __init__(self, export_dir: Any):
        self._export_dir = paths.as_text(export_dir)
        if paths.exists(self._export_dir):
            if paths.listdir(self._export_dir):
                raise AssertionError(f"Export directory {self._export_dir} already exists, and isn't empty. Please choose a "
                                     "different export directory, or delete all the contents of the specified directory.")
        else:
            paths.makedirs(self._export_dir)
        self._saved_model = SavedModel(saved_model_schema_version=names.SAVED_MODEL_SCHEMA_VERSION)
        self._has_saved_variables = False

    def add_meta_graph(self, tags: Any, signature_def_map: Any = None, assets_collection: Any = None,
                       legacy_init_op: Any = None, clear_devices: bool = False, main_op: Any = None,
                       strip_default_attrs: bool = False, saver: Any = None) -> None:
        """Adds the default graph; the variables are those that were saved before."""
        if not self._has_saved_variables:
            raise AssertionError("Graph state including variables and assets has not been saved yet. Please invoke "
                                 "`add_meta_graph_and_variables()` first.")
        self._add(None, tags, signature_def_map, assets_collection, main_op or legacy_init_op, clear_devices,
                  strip_default_attrs, saver)

    def add_meta_graph_and_variables(self, sess: Any, tags: Any, signature_def_map: Any = None, assets_collection: Any = None,
                                     legacy_init_op: Any = None, clear_devices: bool = False, main_op: Any = None,
                                     strip_default_attrs: bool = False, saver: Any = None) -> None:
        """Adds the default graph, and saves the variables of a session."""
        if self._has_saved_variables:
            raise AssertionError("Graph state including variables and assets has already been saved. Please invoke "
                                 "`add_meta_graph()` instead.")
        self._add(sess, tags, signature_def_map, assets_collection, main_op or legacy_init_op, clear_devices,
                  strip_default_attrs, saver)
        self._has_saved_variables = True

    def _add(self, sess: Any, tags: Any, signatures: Any, assets: Any, main_op: Any, clear_devices: bool, strip: bool,
             saver: Any) -> None:
        signatures = signatures or {}
        _validate(signatures)
        self._save_assets(assets)
        _add_main_op(main_op)
        saver = saver or Saver(sharded=True, write_version=2, allow_empty=True)
        if sess is not None:
            path = variables_path(self._export_dir)
            paths.makedirs(os.path.dirname(path))
            saver.save(sess, path, write_meta_graph=False, write_state=False)
        meta_graph = saver.export_meta_graph(clear_devices=clear_devices, strip_default_attrs=strip)
        without_inserts(meta_graph.graph_def)
        meta_graph.meta_info_def.tags.extend(tags)
        for key, signature in signatures.items():
            meta_graph.signature_def[key].CopyFrom(signature)
        self._saved_model.meta_graphs.add().CopyFrom(meta_graph)

    def _save_assets(self, assets: Any) -> None:
        """Copies the files that constant tensors name, and records the tensor of each file in a collection."""
        if assets is None:
            return
        copied: dict[str, str] = {}
        for tensor in assets:
            source = _asset_path(tensor)
            if not source:
                raise ValueError(f"Invalid asset filepath tensor {tensor}")
            name = asset_name(source, copied)
            message = AssetFileDef(filename=name)
            message.tensor_info.name = tensor.name
            packed = AnyMessage()
            packed.Pack(message)
            context.current_graph().add_to_collection(names.ASSETS_KEY, packed)
            copied[name] = source
        copy_assets(copied, self._export_dir)

    def save(self, as_text: bool = False) -> bytes:
        """Writes the SavedModel, and returns the path of its message."""
        path = write_saved_model(self._saved_model, self._export_dir, as_text)
        logging.info("SavedModel written to: %s", path)
        return path.encode()


export.value(SavedModelBuilder, v1=["saved_model.builder.SavedModelBuilder"])


def _validate(signatures: dict) -> None:
    for key, signature in signatures.items():
        if key in (names.INIT_OP_SIGNATURE_KEY, names.TRAIN_OP_SIGNATURE_KEY):
            raise KeyError(f'SignatureDef map key "{key}" is reserved for initialization. Please use a different key.')
        for info in (*signature.inputs.values(), *signature.outputs.values()):
            encoding = info.WhichOneof("encoding")
            if encoding is None:
                raise AssertionError("All TensorInfo protos used in the SignatureDefs must have one of the 'encoding' fields "
                                     f"(e.g., name or coo_sparse) set: {info}")
            if encoding == "composite_tensor":
                continue
            if info.dtype == 0:
                raise AssertionError(f"All TensorInfo protos used in the SignatureDefs must have the dtype field set: {info}")


def _add_main_op(main_op: Any) -> None:
    if main_op is None:
        return
    if not isinstance(main_op, Operation):
        raise TypeError(f"main_op needs to be an Operation: {main_op!r}")
    graph = context.current_graph()
    for key in (names.MAIN_OP_KEY, names.LEGACY_INIT_OP_KEY):
        if graph.get_collection(key):
            raise ValueError(f"Graph already contains one or more main ops under the collection {key}.")
    graph.add_to_collection(names.MAIN_OP_KEY, main_op)


def _asset_path(tensor: Any) -> str:
    if not isinstance(tensor, Tensor):
        raise TypeError("Asset path tensor must be a Tensor.")
    if tensor.op.type != "Const":
        raise TypeError("Asset path tensor must be of type constant.")
    if tensor.dtype != dtypes.string:
        raise TypeError("Asset path tensor must be of dtype string.")
    values = tensor.op.get_attr("value").string_val
    if len(values) != 1:
        raise TypeError("Asset path tensor must be a scalar.")
    return os.fsdecode(values[0])


def asset_name(source: str, copied: dict[str, str]) -> str:
    """The name of an asset's file in a SavedModel: its own, with a number if another file has that name."""
    base = os.path.basename(source)
    other = copied.get(base)
    if other is None or other == source or paths.read_bytes(source) == paths.read_bytes(other):
        return base
    number = 1
    while f"{base}_{number}" in copied:
        number += 1
    return f"{base}_{number}"


def copy_assets(copied: dict[str, str], export_dir: str) -> None:
    """Copies assets into a SavedModel."""
    if not copied:
        return
    paths.makedirs(assets_dir(export_dir))
    for name, source in copied.items():
        target = paths.join(assets_dir(export_dir), name)
        if os.path.abspath(source) != os.path.abspath(target):       # else the model is saved where it was loaded from
            paths.copy(source, target, overwrite=True)


@export(v1=["saved_model.simple_save"])
def simple_save(session: Any, export_dir: Any, inputs: dict, outputs: dict, legacy_init_op: Any = None) -> None:
    """Writes a SavedModel for serving, with one signature.

    >>> tf.saved_model.simple_save(sess, "/tmp/model", {"x": x}, {"y": y})
    """
    builder = SavedModelBuilder(export_dir)
    builder.add_meta_graph_and_variables(
        session, tags=[names.SERVING], main_op=legacy_init_op, clear_devices=True,
        signature_def_map={names.DEFAULT_SERVING_SIGNATURE_DEF_KEY: predict_signature_def(inputs, outputs)},
        assets_collection=context.current_graph().get_collection(GraphKeys.ASSET_FILEPATHS))
    builder.save()


@export(v1=["saved_model.main_op.main_op"])
def main_op() -> Any:
    """An op that initializes variables and tables when a SavedModel is loaded."""
    tables = context.current_graph().get_collection(GraphKeys.TABLE_INITIALIZERS)
    return group(global_variables_initializer(), local_variables_initializer(), group(*tables, name="init_all_tables"))


@export(v1=["saved_model.main_op_with_restore", "saved_model.main_op.main_op_with_restore"])
def main_op_with_restore(restore_op_name: Any) -> Any:
    """An op that initializes everything, and then runs a restore op."""
    with control_dependencies([main_op()]):
        return group(restore_op_name)
