"""Loading a version from its folder: a SavedModel of 1.x or 2.x, a Keras file, or a frozen graph."""
from __future__ import annotations

import functools
import shutil
import tempfile
from typing import Any

from google.protobuf.message import DecodeError

import penstock as tf
from penstock._src.base import errors
from penstock._src.graph.graph import Graph
from penstock._src.graph.importer import import_graph_def
from penstock._src.graph.messages import GraphDef
from penstock._src.io import paths
from penstock._src.serving.servable import DEFAULT_SIGNATURE, PREDICT, Servable
from penstock._src.session.session import Session
from penstock._src.state.saved_model import model_loader
from penstock._src.state.saved_model.signatures import build_signature_def
from penstock._src.state.saved_model.tensor_info import tensor_info

_KERAS = (".keras", ".h5", ".hdf5")


def load(path: str, tags: tuple[str, ...], restricted: bool = False) -> Servable:
    """The model in a version's folder, checked; NotFoundError if there is none."""
    found = _found(path, tags, restricted)
    try:
        found.check()
    except BaseException:
        found.close()
        raise
    return found


def _found(path: str, tags: tuple[str, ...], restricted: bool) -> Servable:
    if model_loader.maybe_saved_model_directory(path):
        return _saved_model(path, tags, restricted)
    names = sorted(paths.listdir(path))
    keras = [n for n in names if n.endswith(_KERAS)]
    frozen = [n for n in names if n.endswith(".pb")]
    if keras:
        return _keras_file(paths.join(path, keras[0]))
    if frozen:
        return frozen_graph(paths.join(path, frozen[0]))
    raise errors.NotFoundError(None, None, "Could not find SavedModel .pb or .pbtxt, a Keras file or a frozen graph at "
                                           f"supplied export directory path: {path}")


def _saved_model(path: str, tags: tuple[str, ...], restricted: bool) -> Servable:
    graph = Graph()
    session = Session(graph=graph)
    try:
        meta_graph = model_loader.load(session, list(tags), path, restricted=restricted)
    except BaseException:
        session.close()
        raise
    return Servable(session, meta_graph.signature_def, tags)


def _keras_file(path: str) -> Servable:
    """Saves a Keras file as a SavedModel once, so that it has signatures."""
    folder = tempfile.mkdtemp(prefix="penstock-serve-")
    try:
        keras_to_saved_model(path, folder)
        found = _saved_model(folder, ("serve",), False)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Servable(found._session, found.signatures, found.tags, functools.partial(shutil.rmtree, folder, ignore_errors=True))


def keras_to_saved_model(path: str, folder: str) -> None:
    """Writes the model in a Keras file as a SavedModel."""
    tf.saved_model.save(tf.keras.models.load_model(path, compile=False), folder)


def frozen_graph(path: str) -> Servable:
    """A GraphDef without variables: its placeholders are the inputs, and ops that no other op consumes the outputs."""
    try:
        graph_def = GraphDef.FromString(paths.read_bytes(path))
    except DecodeError as e:
        raise errors.invalid(f"Cannot parse {path}: {e}") from None
    graph = Graph()
    with graph.as_default():
        import_graph_def(graph_def, name="")
    ops = graph.get_operations()
    consumed = {t.op for op in ops for t in op.inputs} | {c for op in ops for c in op.control_inputs}
    inputs = {op.name: op.outputs[0] for op in ops if op.type in ("Placeholder", "PlaceholderWithDefault")}
    outputs: dict[str, Any] = {}
    for op in ops:
        if op not in consumed and op.outputs and op.name not in inputs:
            outputs.update({op.name if i == 0 else f"{op.name}:{i}": t for i, t in enumerate(op.outputs)})
    if not outputs:
        raise errors.invalid(f"The graph in {path} has no outputs.")
    signature = build_signature_def({k: tensor_info(t) for k, t in inputs.items()},
                                    {k: tensor_info(t) for k, t in outputs.items()}, PREDICT)
    return Servable(Session(graph=graph), {DEFAULT_SIGNATURE: signature})
