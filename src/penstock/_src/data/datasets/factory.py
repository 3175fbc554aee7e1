"""A dataset of a graph as a function without arguments, for one-shot iterators.

Everything that the dataset depends on is copied into the function. It may not depend on state: variables, tables, feeds.
"""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.graph.func_graph import FuncGraph
from penstock._src.graph.functions import GraphFunction, add_to_library, function_name
from penstock._src.graph.node import Operation, Tensor


def dataset_factory(dataset: Any) -> GraphFunction:
    """The function that creates a dataset. ValueError if it depends on state."""
    variant = dataset._variant_tensor
    graph = FuncGraph("make_dataset")
    graph.outputs = [graph_copy(variant, graph)]
    return GraphFunction(graph, function_name("make_dataset"))


def graph_copy(tensor: Tensor, graph: FuncGraph) -> Tensor:
    """Copies a tensor and everything that it depends on to another graph."""
    copies: dict[int, Tensor] = {}
    for op in _made_by(tensor):
        _check(op)
        for f in op.graph._functions.values():
            if isinstance(f, GraphFunction) and any(v is f for v in op.attrs.values()):
                add_to_library(graph, f)
        with graph.as_default(), graph.control_dependencies(None):
            made = graph.add(op.opdef, op.name, [copies[id(t)] for t in op.inputs], dict(op.attrs),
                             [t.dtype for t in op.outputs], op.counts)
        for old, new in zip(op.outputs, made.outputs, strict=True):
            new.static_dims = old.static_dims
            copies[id(old)] = new
    return copies[id(tensor)]


def _made_by(tensor: Tensor) -> list[Operation]:
    """The ops whose results go into a tensor, inputs first. Control inputs are not included."""
    order: list[Operation] = []
    seen: set[int] = set()
    todo = [(tensor.op, False)]
    while todo:
        op, inputs_done = todo.pop()
        if inputs_done:
            order.append(op)
        elif id(op) not in seen:
            seen.add(id(op))
            todo.append((op, True))
            todo.extend((t.op, False) for t in op.inputs)
    return order


def _check(op: Operation) -> None:
    if op.opdef.stateful and not any(t.dtype == dtypes.variant for t in op.outputs):
        raise ValueError("Failed to create a one-shot iterator for a dataset. `Dataset.make_one_shot_iterator()` does not "
                         "support datasets that capture stateful objects, such as a `Variable` or `LookupTable`. In these "
                         "cases, use `Dataset.make_initializable_iterator()`. (Original error: Cannot capture a stateful "
                         f"node (name:{op.name}, type:{op.type}) by value.)")
    if not op.inputs and not op.opdef.foldable and not op.opdef.stateful and op.outputs \
            and op.outputs[0].dtype != dtypes.variant:
        raise ValueError(f"Cannot capture a placeholder (name:{op.name}, type:{op.type}) by value.")
