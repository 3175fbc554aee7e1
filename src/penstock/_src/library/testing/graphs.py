"""Comparing graphs and messages."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export


@export(v1=["test.assert_equal_graph_def"])
def assert_equal_graph_def(actual: Any, expected: Any, checkpoint_v2: bool = False,
                           hash_table_shared_name: bool = False) -> None:
    """Raises AssertionError unless two GraphDefs have the same nodes, in any order.

    `checkpoint_v2` leaves out the random part of temporary checkpoint names, `hash_table_shared_name` the shared names of
    tables.

    >>> tf.test.assert_equal_graph_def(graph.as_graph_def(), expected)
    """
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    for name, given in (("actual", actual), ("expected", expected)):
        if not isinstance(given, GraphDef):
            raise TypeError(f"Expected tf.GraphDef for {name}, got {type(given).__name__}")
    _compare_nodes(_nodes(actual, checkpoint_v2, hash_table_shared_name),
                   _nodes(expected, checkpoint_v2, hash_table_shared_name))


@export(v2=["test.assert_equal_graph_def"])
def assert_equal_graph_def_v2(expected: Any, actual: Any) -> None:
    """Raises AssertionError unless two GraphDefs have the same nodes, in any order."""
    assert_equal_graph_def(actual, expected, checkpoint_v2=True, hash_table_shared_name=True)


def _nodes(graph_def: Any, checkpoint_v2: bool, hash_table_shared_name: bool) -> dict[str, Any]:
    found = {}
    for node in graph_def.node:
        copy = type(node)()
        copy.CopyFrom(node)
        if checkpoint_v2 and node.op == "Const" and b"_temp_" in b"".join(node.attr["value"].tensor.string_val):
            copy.attr["value"].tensor.string_val[:] = []
        if hash_table_shared_name and node.op == "HashTableV2" and "shared_name" in node.attr:
            del copy.attr["shared_name"]
        found[node.name] = copy
    return found


def _compare_nodes(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    extra, missing = sorted(set(actual) - set(expected)), sorted(set(expected) - set(actual))
    if extra or missing:
        raise AssertionError(f"Graphs have different nodes: only the actual one has {extra}, only the expected one {missing}")
    for name, node in expected.items():
        if actual[name] != node:
            raise AssertionError(f"Node {name!r} differs.\nActual:\n{actual[name]}\nExpected:\n{node}")


def messages_equal(a: Any, b: Any) -> bool:
    """Whether two messages are equal; a NaN equals the same NaN."""
    if a.DESCRIPTOR is not b.DESCRIPTOR:
        return False
    if a == b:
        return True
    return a.SerializeToString(deterministic=True) == b.SerializeToString(deterministic=True)
