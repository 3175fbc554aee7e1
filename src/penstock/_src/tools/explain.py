"""Show the program that a step of a graph becomes.

    penstock explain graph.pb --fetch loss --feed x

The graph is a GraphDef, binary (`.pb`) or text (`.pbtxt`). Names may be of ops, which are run, or of tensors (`loss:0`), whose
values would be fetched. Nothing is run.
"""
from __future__ import annotations

import argparse

from penstock.compat import v1 as tf


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the subcommand."""
    parser.add_argument("graph", help="file with a GraphDef, binary or (.pbtxt) text")
    parser.add_argument("--fetch", action="append", required=True, metavar="NAME", help="tensor or op; may be repeated")
    parser.add_argument("--feed", action="append", default=[], metavar="NAME", help="tensor that is fed; may be repeated")
    parser.add_argument("--plain", action="store_true", help="without optimizing: every op as it stands in the graph")


def run(args: argparse.Namespace) -> int:
    """Prints the program."""
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = args.plain
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(_read(args.graph), name="")
        with tf.Session(graph=graph, config=config) as sess:
            feeds = [name if ":" in name else f"{name}:0" for name in args.feed]
            print(sess.explain([_element(graph, name) for name in args.fetch], dict.fromkeys(feeds)), end="")
    return 0


def _element(graph: object, name: str) -> object:
    return graph.as_graph_element(name)                     # type: ignore[attr-defined]


def _read(path: str) -> object:
    from google.protobuf import text_format
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    with open(path, "rb") as file:
        data = file.read()
    return text_format.Parse(data.decode(), GraphDef()) if path.endswith("txt") else GraphDef.FromString(data)
