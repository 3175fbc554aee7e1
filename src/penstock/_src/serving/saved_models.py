"""The command `penstock saved-model`: prints, runs, freezes and converts models."""
from __future__ import annotations

import argparse
import ast
import os
import tempfile
from typing import Any

import numpy as np

import penstock.compat.v1 as tf
from penstock._src.graph.function_messages import keep_called
from penstock._src.graph.functions import as_function
from penstock._src.models.distribute.inlined import Body, is_call
from penstock._src.serving import formats


# -- show -------------------------------------------------------------------------------------------------------------
def show(args: argparse.Namespace) -> None:
    """Prints tag-sets, signatures or ops."""
    graphs = tf.__internal__.saved_model.parse_saved_model(args.dir).meta_graphs
    tags = [sorted(g.meta_info_def.tags) for g in graphs]
    if args.all:
        for graph, names in sorted(zip(graphs, tags), key=lambda pair: pair[1]):
            print(f"\nMetaGraphDef with tag-set: '{', '.join(names)}' contains the following SignatureDefs:")
            for key in sorted(graph.signature_def):
                print(f"\nsignature_def['{key}']:")
                _show_signature(graph.signature_def[key], "  ")
            if args.list_ops:
                _show_ops(graph)
        return
    if args.tag_set is None:
        print("The given SavedModel contains the following tag-sets:")
        print("\n".join(f"'{', '.join(names)}'" for names in sorted(tags)))
        return
    graph = _graph(args)
    if args.list_ops:
        _show_ops(graph)
    elif args.signature_def is None:
        print("The given SavedModel MetaGraphDef contains SignatureDefs with the following keys:")
        print("\n".join(f'SignatureDef key: "{key}"' for key in sorted(graph.signature_def)))
    else:
        _show_signature(_signature(graph, args.signature_def), "")


def _graph(args: argparse.Namespace) -> Any:
    wanted = set(args.tag_set.split(","))
    for graph in tf.__internal__.saved_model.parse_saved_model(args.dir).meta_graphs:
        if set(graph.meta_info_def.tags) == wanted:
            return graph
    raise ValueError(f"MetaGraphDef associated with tag-set '{args.tag_set}' could not be found in the SavedModel")


def _signature(graph: Any, key: str) -> Any:
    if key not in graph.signature_def:
        raise ValueError(f'Could not find signature "{key}". Please choose from: {", ".join(sorted(graph.signature_def))}')
    return graph.signature_def[key]


def _show_signature(signature: Any, indent: str) -> None:
    for what, infos in (("input", signature.inputs), ("output", signature.outputs)):
        print(f"{indent}The given SavedModel SignatureDef contains the following {what}(s):")
        for key in sorted(infos):
            info = infos[key]
            sizes = ", ".join(str(d.size) for d in info.tensor_shape.dim)
            shape = "unknown_rank" if info.tensor_shape.unknown_rank else f"({sizes})"
            dtype = info.DESCRIPTOR.fields_by_name["dtype"].enum_type.values_by_number[info.dtype].name
            print(f"{indent}  {what}s['{key}'] tensor_info:")
            print(f"{indent}      dtype: {dtype}\n{indent}      shape: {shape}\n{indent}      name: {info.name}")
    print(f"{indent}Method name is: {signature.method_name}")


def _show_ops(graph: Any) -> None:
    used = {n.op for n in graph.graph_def.node} | {n.op for f in graph.graph_def.library.function for n in f.node_def}
    print(f"The MetaGraph with tag set {sorted(graph.meta_info_def.tags)} contains the following ops: {sorted(used)}")


# -- run --------------------------------------------------------------------------------------------------------------
def run(args: argparse.Namespace) -> None:
    """Runs a signature, and prints or writes its outputs."""
    signature = _signature(_graph(args), args.signature_def)
    given = {**_from_files(args.inputs), **_from_literals(args.input_exprs), **_from_examples(args.input_examples)}
    unknown, missing = sorted(set(given) - set(signature.inputs)), sorted(set(signature.inputs) - set(given))
    if unknown or missing:
        raise ValueError(f"The signature has the inputs {sorted(signature.inputs)}; unknown: {unknown}, missing: {missing}")
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.saved_model.load(sess, args.tag_set.split(","), args.dir)
        feeds = {signature.inputs[k].name: np.asarray(v, tf.as_dtype(signature.inputs[k].dtype).as_numpy_dtype)
                 for k, v in given.items()}
        found = sess.run({k: signature.outputs[k].name for k in sorted(signature.outputs)}, feeds)
    for key, value in found.items():
        print(f"Result for output key {key}:\n{value}")
        if args.outdir:
            _write(os.path.join(args.outdir, f"{key}.npy"), value, args.overwrite)


def _write(path: str, value: np.ndarray, overwrite: bool) -> None:
    if os.path.exists(path) and not overwrite:
        raise ValueError(f"{path} exists; pass --overwrite to replace it")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    np.save(path, value.astype("S") if value.dtype == object else value)
    print(f"Output {os.path.basename(path)[:-4]} is saved to {path}")


def _pairs(text: str) -> dict[str, str]:
    """`KEY=VALUE` parts; a semicolon inside quotes, brackets or braces belongs to a value."""
    parts, depth, quote, start = [], 0, "", 0
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote and text[i - 1] != "\\" else quote
        elif c in "'\"":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == ";" and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    found = {}
    for part in filter(str.strip, parts):
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"{part!r} is not KEY=VALUE")
        found[key.strip()] = value.strip()
    return found


def _from_files(text: str) -> dict[str, Any]:
    found = {}
    for key, value in _pairs(text).items():
        path, _, name = value.partition("[")
        data = np.load(path, allow_pickle=False)
        if isinstance(data, np.ndarray):
            found[key] = data
        else:
            names = data.files
            wanted = name.rstrip("]") or (names[0] if len(names) == 1 else "")
            if wanted not in names:
                raise ValueError(f"{path} has the arrays {names}; choose one with {key}={path}[NAME]")
            found[key] = data[wanted]
    return found


def _from_literals(text: str) -> dict[str, Any]:
    return {key: _literal(value) for key, value in _pairs(text).items()}


def _literal(text: str) -> Any:
    """A Python literal, or an array of ones or zeros. Nothing is evaluated."""
    node = ast.parse(text, mode="eval").body
    if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in ("np.ones", "np.zeros"):
        return getattr(np, ast.unparse(node.func)[3:])(ast.literal_eval(node.args[0]))
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise ValueError(f"{text!r} is neither a Python literal nor np.ones(SHAPE) or np.zeros(SHAPE)") from None


def _from_examples(text: str) -> dict[str, Any]:
    """Lists of dictionaries of features as serialized examples."""
    fields = {bytes: "bytes_list", str: "bytes_list", int: "int64_list", float: "float_list"}
    found = {}
    for key, value in _pairs(text).items():
        rows = []
        for features in ast.literal_eval(value):
            example = tf.train.Example()
            for name, values in features.items():
                kind = fields.get(type(values[0])) if isinstance(values, list) and values else None
                if kind is None:
                    raise ValueError(f"The feature {name!r} is not a list of numbers or strings")
                items = [v.encode() if isinstance(v, str) else v for v in values]
                getattr(example.features.feature[name], kind).value.extend(items)
            rows.append(example.SerializeToString())
        found[key] = rows
    return found


# -- freeze and convert -----------------------------------------------------------------------------------------------
def freeze(args: argparse.Namespace) -> None:
    """Writes the graph of a signature, with the values of variables as constants."""
    signature = _signature(_graph(args), args.signature_def)
    with tf.Graph().as_default() as graph, tf.Session() as sess:
        tf.saved_model.load(sess, args.tag_set.split(","), args.dir)
        outputs = {k: _without_calls(graph.get_tensor_by_name(signature.outputs[k].name)) for k in sorted(signature.outputs)}
        names = [t.op.name for t in outputs.values()]
        frozen = tf.graph_util.convert_variables_to_constants(sess, graph.as_graph_def(), names)
    keep_called(frozen)
    with open(args.output, "wb") as file:
        file.write(frozen.SerializeToString())
    for what, tensors in (("inputs", signature.inputs), ("outputs", outputs)):
        print(f"{what}: " + ", ".join(f"{k} = {tensors[k].name}" for k in sorted(tensors)))


def _without_calls(tensor: Any) -> Any:
    """The same value, computed by ops of the graph where a signature of 2.x calls a function.

    Variables are passed to functions as handles; in the graph itself, reading them can become a constant. Loops and
    conditionals that read variables become those of 1.x for the same reason.
    """
    op = tensor.op
    if not is_call(op.opdef):
        return tensor
    handles = [t for t in op.inputs if t.dtype == tf.resource]
    outputs, _ = Body(handles).write(as_function(op.attrs["f"], op.graph), list(op.inputs))
    return tf.identity(outputs[tensor.value_index], name=f"{op.name}_frozen")


def convert(args: argparse.Namespace) -> None:
    """Writes a SavedModel with the model of a Keras file or a frozen graph, or an ONNX file."""
    if os.path.exists(args.output):
        raise ValueError(f"{args.output} exists")
    if args.to == "onnx":
        _to_onnx(args)
        return
    if args.input.endswith(".pb"):
        servable = formats.frozen_graph(args.input)
        servable.save(args.output)
    else:
        formats.keras_to_saved_model(args.input, args.output)
    print(f"SavedModel written to: {args.output}")


def _to_onnx(args: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-onnx-") as folder:
        source, tags = args.input, args.tag_set.split(",")
        if source.endswith(".pb"):
            source = os.path.join(folder, "model")
            formats.frozen_graph(args.input).save(source)
        model = tf.onnx.export(source, args.output, args.signature_def, args.opset, tags)
    for what, values in (("inputs", model.graph.input), ("outputs", model.graph.output)):
        print(f"{what}: " + ", ".join(v.name for v in values))
    print(f"ONNX file written to: {args.output}")
