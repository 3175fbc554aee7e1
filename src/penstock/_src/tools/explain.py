"""Show the program that a step of a graph becomes.

    penstock explain graph.pb --fetch loss --feed x
    penstock explain saved_model_folder --function serving_default

The graph is a GraphDef, binary (`.pb`) or text (`.pbtxt`). Names may be of ops, which are run, or of tensors (`loss:0`), whose
values would be fetched. Of a SavedModel, a signature is shown, or a method that was saved. Nothing is run.
"""
from __future__ import annotations

import argparse
import os

from penstock._src.base import errors
from penstock.compat import v1 as tf


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the subcommand."""
    parser.add_argument("graph", help="file with a GraphDef, binary or (.pbtxt) text; or the folder of a SavedModel")
    parser.add_argument("--function", default="serving_default", metavar="NAME", help="of a SavedModel (default: %(default)s)")
    parser.add_argument("--fetch", action="append", default=[], metavar="NAME", help="tensor or op; may be repeated")
    parser.add_argument("--feed", action="append", default=[], metavar="NAME", help="tensor that is fed; may be repeated")
    parser.add_argument("--plain", action="store_true", help="without optimizing: every op as it stands in the graph")


def run(args: argparse.Namespace) -> int:
    """Prints the program."""
    if os.path.isdir(args.graph):
        print("\n".join(f.explain() for f in _functions(args.graph, args.function)), end="")
        return 0
    if not args.fetch:
        raise errors.invalid("--fetch is needed: it names what a step of the graph returns.")
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = args.plain
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(_read(args.graph), name="")
        with tf.Session(graph=graph, config=config) as sess:
            feeds = [name if ":" in name else f"{name}:0" for name in args.feed]
            print(sess.explain([_element(graph, name) for name in args.fetch], dict.fromkeys(feeds)), end="")
    return 0


def _functions(path: str, name: str) -> list:
    """The traces of a signature, or of a method, of a SavedModel."""
    model = tf.saved_model.load_v2(path)
    if name in model.signatures:
        return [model.signatures[name]]
    method = getattr(model, name, None)
    if method is None or not hasattr(method, "concrete_functions"):
        raise errors.invalid(f"The model has no function {name}. Its signatures: {', '.join(model.signatures) or 'none'}.")
    return list(method.concrete_functions)


def _element(graph: object, name: str) -> object:
    return graph.as_graph_element(name)                     # type: ignore[attr-defined]


def _read(path: str) -> object:
    from google.protobuf import text_format
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    with open(path, "rb") as file:
        data = file.read()
    return text_format.Parse(data.decode(), GraphDef()) if path.endswith("txt") else GraphDef.FromString(data)
