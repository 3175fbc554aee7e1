"""Copies datasets between graphs: user programs create them in the default graph, and use them in the graph of an estimator.

The ops of a dataset and their inputs are copied, unless they depend on state (a variable, a table, a placeholder), which cannot
be copied.
"""
from __future__ import annotations

from typing import Any

import penstock.compat.v1 as tf
from penstock._src.graph import context
from penstock._src.graph.graph import Graph


def here(variant: Any, copies: dict[Any, Any]) -> Any:
    """A dataset's tensor in the current graph: itself, or a copy where it belongs to another graph and can be copied."""
    graph = None if hasattr(variant, "_value") else variant.graph
    now = context.current_graph()
    if graph is None or graph is now or type(graph) is not Graph or type(now) is not Graph or context.executing_eagerly():
        return variant
    if now not in copies:
        ops = _needed(variant.op)
        if any(op.op_def.is_stateful and not op.type.endswith(("Dataset", "DatasetV2")) or op.type == "Placeholder"
               for op in ops.values()):
            return variant
        copies[now] = _copied(graph, ops, variant)
    return copies[now]


def _needed(op: Any) -> dict[str, Any]:
    """An op and all that it depends on, by name."""
    found, waiting = {}, [op]
    while waiting:
        one = waiting.pop()
        if one.name not in found:
            found[one.name] = one
            waiting += [*(t.op for t in one.inputs), *one.control_inputs]
    return found


def _copied(graph: Any, ops: dict[str, Any], variant: Any) -> Any:
    whole = graph.as_graph_def()
    part = tf.GraphDef(versions=whole.versions, library=whole.library)
    part.node.extend(n for n in whole.node if n.name in ops)
    with tf.control_dependencies(None):
        return tf.import_graph_def(part, return_elements=[variant.name], name="dataset")[0]
