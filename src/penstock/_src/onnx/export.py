"""penstock.onnx.export: a model as an ONNX file."""
from __future__ import annotations

import os
import tempfile
from typing import Any

import penstock as tf
from penstock._src.base import errors, nest
from penstock._src.base.api import export as public
from penstock._src.eager.function import ConcreteFunction
from penstock._src.graph.functions import GraphFunction
from penstock._src.onnx import array, control, math, nn  # noqa: F401
from penstock._src.onnx.body import body_step, write_ops
from penstock._src.onnx.builder import Builder, OnnxGraph, OnnxNode, Typed
from penstock._src.onnx.messages import package, write
from penstock._src.onnx.rules import table
from penstock._src.onnx.transposes import cancel_transposes
from penstock._src.state.saved_model.frozen import convert_variables_to_constants_v2

OLDEST = 18                       # the first version in which reductions take their axes as an input


@public("onnx.export")
def export(model: Any, path: Any, signature: str = "serving_default", opset: int = OLDEST, tags: Any = None,
           external_data: bool | None = None) -> Any:
    """Writes the inference function of a model as an ONNX file; variables become constants.

    Args:
        model: Folder of a SavedModel, path of a Keras file, Keras model, object that `tf.saved_model.load` has returned,
            ConcreteFunction, or `tf.function` with an input signature.
        path: The file to write.
        signature: Which signature of the model, where it has several.
        opset: Version of ONNX's operators, 18 or newer.
        tags: Tags of the graph in a SavedModel that has several.
        external_data: Whether constants are in a file beside it, `path` + ".data"; by default those of more than 2 GB.

    Returns:
        The ModelProto.

    Raises:
        UnimplementedError: Ops of the model have no form in ONNX. The message lists all of them.

    >>> tf.onnx.export(keras_model, "model.onnx")
    """
    newest = package().defs.onnx_opset_version()
    if not OLDEST <= opset <= newest:
        raise ValueError(f"opset must be between {OLDEST} and {newest}, which the package onnx knows; it is {opset}")
    function = _function(model, signature, tags)
    return write(graph_of(function, opset), os.fspath(path), opset, external_data)


@public("onnx.supported_ops")
def supported_ops() -> str:
    """The types of ops that `export` can write, as a table in Markdown.

    >>> print(tf.onnx.supported_ops())
    """
    return table()


def _function(model: Any, signature: str, tags: Any) -> ConcreteFunction:
    """The function to export."""
    if isinstance(model, ConcreteFunction):
        return model
    if hasattr(model, "get_concrete_function"):
        return model.get_concrete_function()
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        if tf.io.gfile.isdir(path):
            return _chosen(tf.saved_model.load(path, tags).signatures, signature)
        model = tf.keras.models.load_model(path, compile=False)
    signatures = getattr(model, "signatures", None)
    if signatures:
        return _chosen(signatures, signature)
    with tempfile.TemporaryDirectory(prefix="penstock-onnx-") as folder:
        tf.saved_model.save(model, folder)
        return _chosen(tf.saved_model.load(folder).signatures, signature)


def _chosen(signatures: Any, key: str) -> ConcreteFunction:
    if key not in signatures:
        raise ValueError(f"The model has no signature {key!r}; it has {sorted(signatures)}")
    return signatures[key]


def graph_of(function: ConcreteFunction, opset: int) -> OnnxGraph:
    """A function as an ONNX graph; UnimplementedError if it has ops without a form in ONNX."""
    frozen = convert_variables_to_constants_v2(function)
    step = body_step(GraphFunction(frozen.graph, "frozen"))
    b = Builder(OnnxGraph("model"), opset)
    names = list(function._arg_names or ())
    arguments = len(frozen.inputs) - len(frozen.graph.internal_captures)
    if len(names) != arguments:
        names = [t.op.name for t in step.feeds[:arguments]]
    for name, feed in zip(names, step.feeds):
        b.values[id(feed)] = b.unique(name)
        b.graph.inputs.append(Typed(b.values[id(feed)], feed.dtype, feed.static_dims))
    for feed in step.feeds[arguments:]:                     # tables and other resources
        b.values[id(feed)] = b.unique(feed.op.name)
    wanted = [b.unique(name) for name in _output_names(function)]
    write_ops(b, step)
    _raise_problems(b)
    for name, t in zip(wanted, step.fetches, strict=True):
        b.graph.outputs.append(Typed(name, t.dtype, t.static_dims))
        b.graph.nodes.append(OnnxNode("Identity", [b.name(t)], [name], {}))
    cancel_transposes(b)
    return b.graph


def _output_names(function: ConcreteFunction) -> list[str]:
    """The keys of a dictionary of outputs, or output_0, output_1 …"""
    structure = function.structured_outputs
    if isinstance(structure, dict) and all(not nest.is_nested(v) for v in structure.values()):
        return sorted(structure)
    return [f"output_{i}" for i in range(len(function.outputs))]


def _raise_problems(b: Builder) -> None:
    problems = list(b.problems)
    if not problems:
        return
    kinds = sorted({op.type for op, _ in problems})
    lines = [f"  {op.type} {op.name}{op.made_note}: {why}" for op, why in problems]
    raise errors.UnimplementedError(None, None, f"ONNX cannot express these ops ({', '.join(kinds)}):\n" + "\n".join(lines))


