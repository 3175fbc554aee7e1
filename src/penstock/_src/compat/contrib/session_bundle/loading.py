"""Reading an export into a session, as it is or with the signatures of a SavedModel."""
from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tensorboard.compat.proto.meta_graph_pb2 import TensorInfo

from penstock._src.base.api import export
from penstock._src.compat.contrib.session_bundle import manifest
from penstock._src.graph import meta_graph as meta_graphs
from penstock.compat import v1 as tf

_KEY = manifest.CONSTANTS


def _export(name: str) -> Callable:
    return export(v1=[f"contrib.session_bundle.{name}"])


@_export("session_bundle.maybe_session_bundle_dir")
def maybe_session_bundle_dir(export_dir: str) -> bool:
    """Whether a folder has an export in it."""
    return tf.gfile.Exists(os.path.join(export_dir, _KEY["META_GRAPH_DEF_FILENAME"]))


@_export("session_bundle.load_session_bundle_from_path")
def load_session_bundle_from_path(export_dir: str, target: str = "", config: Any = None,
                                  meta_graph_def: Any = None) -> tuple[Any, Any]:
    """A session with an export's graph, its variables restored and its init op run; and the MetaGraphDef.

    >>> session, meta_graph = session_bundle.load_session_bundle_from_path("/models/digits/00000123")
    """
    export_dir = tf.compat.as_text(export_dir)
    if not meta_graph_def:
        path = os.path.join(export_dir, _KEY["META_GRAPH_DEF_FILENAME"])
        if not tf.gfile.Exists(path):
            raise RuntimeError(f"Expected meta graph file missing {path}")
        meta_graph_def = meta_graphs.read_meta_graph_file(path)
    collections = meta_graph_def.collection_def
    if _KEY["GRAPH_KEY"] in collections:
        served = _only(collections[_KEY["GRAPH_KEY"]].any_list, "GraphDef")
        meta_graph_def.graph_def.CopyFrom(tf.GraphDef.FromString(served.value))
    tf.reset_default_graph()
    session = tf.Session(target, config=config)
    saver = tf.train.import_meta_graph(meta_graph_def)
    variables = _variables(export_dir)
    if variables:
        saver.restore(session, variables)
    if _KEY["INIT_OP_KEY"] in collections:
        _only(collections[_KEY["INIT_OP_KEY"]].node_list, "init op")
        session.run(tf.get_collection(_KEY["INIT_OP_KEY"]), _assets(collections, export_dir))
    return session, meta_graph_def


def _only(found: Any, what: str) -> Any:
    if len(found.value) != 1:
        raise RuntimeError(f"Expected exactly one serving {what}, found {len(found.value)}")
    return found.value[0]


def _variables(folder: str) -> str | None:
    """The path of the checkpoint in an export, of either version, or None."""
    here = [os.path.join(folder, _KEY[n]) for n in ("VARIABLES_INDEX_FILENAME_V2", "VARIABLES_FILENAME")]
    if any(map(tf.gfile.Exists, here)):
        return here[1]
    pattern = os.path.join(folder, _KEY["VARIABLES_FILENAME_PATTERN"])
    return pattern if tf.gfile.Glob(pattern) else None


def _assets(collections: Any, folder: str) -> dict[str, str]:
    """What is fed when the init op runs: the paths of the files that belong to the export."""
    if _KEY["ASSETS_KEY"] not in collections:
        return {}
    files = [manifest.AssetFile.FromString(a.value) for a in collections[_KEY["ASSETS_KEY"]].any_list.value]
    return {f.tensor_binding.tensor_name: os.path.join(folder, _KEY["ASSETS_DIRECTORY"], f.filename) for f in files}


@_export("bundle_shim.load_session_bundle_or_saved_model_bundle_from_path")
def load_session_bundle_or_saved_model_bundle_from_path(export_dir: str, tags: Any = None, target: str = "",
                                                        config: Any = None) -> tuple[Any, Any]:
    """A session with a SavedModel, or with an export whose signatures become those of a SavedModel."""
    if tf.saved_model.loader.maybe_saved_model_directory(export_dir):
        session = tf.Session(target, config=config)
        return session, tf.saved_model.loader.load(session, tags, export_dir)
    if not maybe_session_bundle_dir(export_dir):
        raise RuntimeError(f"There is neither a SavedModel nor an older export in {export_dir}")
    meta = meta_graphs.read_meta_graph_file(os.path.join(export_dir, _KEY["META_GRAPH_DEF_FILENAME"]))
    if meta.signature_def:
        raise RuntimeError("The export has signatures of a SavedModel already and cannot be converted.")
    signatures = manifest.Signatures.FromString(meta.collection_def[_KEY["SIGNATURES_KEY"]].any_list.value[0].value)
    key = tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    if signatures.HasField("default_signature") and _of_default(signatures.default_signature) is not None:
        meta.signature_def[key].CopyFrom(_of_default(signatures.default_signature))
        key += "_from_named"
    if len(signatures.named_signatures) > 1:
        meta.signature_def[key].CopyFrom(_of_named(signatures.named_signatures))
    return load_session_bundle_from_path(export_dir, target, config, meta)


def _of_default(signature: Any) -> Any:
    words = tf.saved_model.signature_constants
    if signature.HasField("regression_signature"):
        regression = signature.regression_signature
        return _signature_def(words.REGRESS_METHOD_NAME, {words.REGRESS_INPUTS: regression.input},
                              {words.REGRESS_OUTPUTS: regression.output})
    if signature.HasField("classification_signature"):
        found = signature.classification_signature
        return _signature_def(words.CLASSIFY_METHOD_NAME, {words.CLASSIFY_INPUTS: found.input},
                              {words.CLASSIFY_OUTPUT_CLASSES: found.classes, words.CLASSIFY_OUTPUT_SCORES: found.scores})
    tf.logging.error("The default signature must be one of classification or regression to be converted.")
    return None


def _of_named(signatures: Any) -> Any:
    words = tf.saved_model.signature_constants
    ends = [signatures[k] for k in (words.PREDICT_INPUTS, words.PREDICT_OUTPUTS)]
    if not all(s.HasField("generic_signature") for s in ends):
        raise RuntimeError("Named input and output signatures can only be up-converted if they are generic signature.")
    return _signature_def(words.PREDICT_METHOD_NAME, *(dict(s.generic_signature.map) for s in ends))


def _signature_def(method: str, inputs: dict[str, Any], outputs: dict[str, Any]) -> Any:
    made = [{key: TensorInfo(name=binding.tensor_name) for key, binding in bindings.items()} for bindings in (inputs, outputs)]
    return tf.saved_model.signature_def_utils.build_signature_def(*made, method)
