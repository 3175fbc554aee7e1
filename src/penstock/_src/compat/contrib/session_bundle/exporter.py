"""Writing an export: a checkpoint and its MetaGraph, whose collections have the data for serving."""
from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from google.protobuf import any_pb2

from penstock._src.base.api import export
from penstock._src.compat.contrib.session_bundle import gc, manifest
from penstock.compat import v1 as tf

_KEY = manifest.CONSTANTS


def _export(name: str) -> Callable:
    return export(v1=[f"contrib.session_bundle.exporter.{name}"])


@_export("gfile_copy_callback")
def gfile_copy_callback(files_to_copy: dict[Any, Any], export_dir_path: Any) -> None:
    """Copies files (a path, and its name there) into a folder."""
    folder = tf.compat.as_text(export_dir_path)
    tf.gfile.MakeDirs(folder)
    for source, name in files_to_copy.items():
        tf.gfile.Copy(tf.compat.as_text(source), os.path.join(folder, tf.compat.as_text(name)), overwrite=True)


@_export("regression_signature")
def regression_signature(input_tensor: Any, output_tensor: Any) -> Any:
    """The signature of a model with one number as its answer."""
    made = manifest.Signature()
    made.regression_signature.input.tensor_name = input_tensor.name
    made.regression_signature.output.tensor_name = output_tensor.name
    return made


@_export("classification_signature")
def classification_signature(input_tensor: Any, classes_tensor: Any = None, scores_tensor: Any = None) -> Any:
    """The signature of a model that answers with classes, scores, or both."""
    made = manifest.Signature()
    made.classification_signature.input.tensor_name = input_tensor.name
    if classes_tensor is not None:
        made.classification_signature.classes.tensor_name = classes_tensor.name
    if scores_tensor is not None:
        made.classification_signature.scores.tensor_name = scores_tensor.name
    return made


@_export("generic_signature")
def generic_signature(name_tensor_map: dict[str, Any]) -> Any:
    """The signature of any model: tensors by name."""
    made = manifest.Signature()
    for name, tensor in name_tensor_map.items():
        made.generic_signature.map[name].tensor_name = tensor.name
    return made


def _packed(message: Any) -> Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed


@_export("Exporter")
class Exporter:
    """Exports a model: `init` sets its contents, `export` writes a folder named after the step.

    >>> exporter = Exporter(tf.train.Saver())
    >>> exporter.init(tf.get_default_graph().as_graph_def(),
    ...               default_graph_signature=classification_signature(x, scores_tensor=y))
    >>> exporter.export("/models/digits", global_step_tensor, session)      # /models/digits/00000123
    """

    def __init__(self, saver: Any):
        saver_def = saver.as_saver_def()
        saver_def.ClearField("max_to_keep")
        self._saver = tf.train.Saver(saver_def=saver_def)
        self._has_init = False
        self._assets_to_copy: dict[Any, Any] = {}
        self._assets_callback: Any = None

    def init(self, graph_def: Any = None, init_op: Any = None, clear_devices: bool = False, default_graph_signature: Any = None,
             named_graph_signatures: dict[str, Any] | None = None, assets_collection: Any = None,
             assets_callback: Any = gfile_copy_callback) -> None:
        """What is exported: a graph, an op that initializes it, its signatures, and files by the constants that name them."""
        assets = [(_file_of(tensor), tensor) for tensor in assets_collection or ()]
        if self._has_init:
            raise RuntimeError("init should be called only once")
        self._has_init = True
        if graph_def or clear_devices:
            copy = tf.GraphDef()
            copy.CopyFrom(graph_def or tf.get_default_graph().as_graph_def())
            for node in copy.node if clear_devices else ():
                node.device = ""
            tf.add_to_collection(_KEY["GRAPH_KEY"], _packed(copy))
        if init_op is not None:
            if not isinstance(init_op, tf.Operation):
                raise TypeError(f"init_op needs to be an Operation: {init_op}")
            tf.add_to_collection(_KEY["INIT_OP_KEY"], init_op)
        signatures = manifest.Signatures()
        if default_graph_signature:
            signatures.default_signature.CopyFrom(default_graph_signature)
        for name, signature in (named_graph_signatures or {}).items():
            signatures.named_signatures[name].CopyFrom(signature)
        tf.add_to_collection(_KEY["SIGNATURES_KEY"], _packed(signatures))
        for path, tensor in assets:
            name = os.path.basename(path)
            self._assets_to_copy[path] = name
            asset = manifest.AssetFile(filename=name)
            asset.tensor_binding.tensor_name = tensor.name
            tf.add_to_collection(_KEY["ASSETS_KEY"], _packed(asset))
        self._assets_callback = assets_callback

    def export(self, export_dir_base: str, global_step_tensor: Any, sess: Any = None, exports_to_keep: Any = None) -> bytes:
        """Writes the export, and returns its folder; `exports_to_keep`, a filter of `gc`, selects the older exports to keep."""
        if not self._has_init:
            raise RuntimeError("init must be called first")
        base = tf.compat.as_text(export_dir_base).rstrip("/")
        folder = os.path.join(base, _KEY["VERSION_FORMAT_SPECIFIER"] % tf.train.global_step(sess, global_step_tensor))
        if tf.gfile.Exists(folder):
            raise RuntimeError("Overwriting exports can cause corruption and are not allowed. "
                               f"Duplicate export dir: {folder}")
        unfinished = folder + "-tmp"
        tf.gfile.MakeDirs(unfinished)
        self._saver.save(sess, os.path.join(unfinished, _KEY["EXPORT_BASE_NAME"]),
                         meta_graph_suffix=_KEY["EXPORT_SUFFIX_NAME"])
        if self._assets_callback and self._assets_to_copy:
            self._assets_callback(self._assets_to_copy, os.path.join(unfinished, _KEY["ASSETS_DIRECTORY"]))
        tf.gfile.Rename(unfinished, folder)
        if exports_to_keep:
            for old in gc.negation(exports_to_keep)(gc.get_paths(base, _versions_in(base))):
                tf.gfile.DeleteRecursively(old.path)
        return tf.compat.as_bytes(folder)


def _versions_in(base: str) -> Callable:
    def parse(path: Any) -> Any:
        match = re.fullmatch(re.escape(base) + r"/(\d{8})", path.path)
        return path._replace(export_version=int(match.group(1))) if match else None
    return parse


def _file_of(tensor: Any) -> str:
    if not isinstance(tensor, tf.Tensor):
        raise TypeError("tensor is not a Tensor")
    if tensor.op.type != "Const":
        raise TypeError("Only constants tensor are supported")
    if tensor.dtype != tf.string:
        raise TypeError("File paths should be string")
    if tensor.shape.num_elements() != 1:
        raise TypeError("Only scalar tensors are supported")
    path = tf.compat.as_text(np.ravel(tf.get_static_value(tensor))[0])
    if not path:
        raise ValueError(f"invalid asset filepath tensor {tensor}")
    return path
