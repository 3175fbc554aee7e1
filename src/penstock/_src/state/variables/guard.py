"""Initial values that depend on other reference variables.

`tf.Variable(2 * w)` must be initialized from w's initial value when w has no value yet. The part of the graph between
such a w and the initial value is copied, with `w.initialized_value()` in place of w.
"""
from __future__ import annotations

from typing import Any

from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.node import Operation, Tensor
from penstock._src.ops.registry import OPS, get

_LEAVES = ("IsVariableInitialized", "VarIsInitializedOp", "ReadVariableOp")


def guarded(initial_value: Tensor) -> Tensor:
    """A tensor of the same value that does not read uninitialized reference variables."""
    order = _ancestors(initial_value.op)
    if order is None:
        return initial_value
    made: dict[Operation, Operation] = {}
    for op in order:
        made[op] = _replaced(op, made, initial_value.op.name)
    return made[initial_value.op].outputs[initial_value.value_index]


def _ancestors(root: Operation) -> list[Operation] | None:
    """The ops behind `root`, inputs first; None if there is no variable among them, or a loop."""
    order: list[Operation] = []
    state: dict[Operation, bool] = {}                # False while the op is being visited
    stack = [(root, False)]
    found = False
    while stack:
        op, leaving = stack.pop()
        if leaving:
            state[op] = True
            order.append(op)
            continue
        if op in state:
            continue
        state[op] = False
        stack.append((op, True))
        if op.type in _LEAVES:
            continue
        found = found or _is_reference(op)
        for t in op.inputs:
            if t.op not in state:
                stack.append((t.op, False))
            elif not state[t.op]:
                return None
    return order if found else None


def _is_reference(op: Operation) -> bool:
    return op.opdef is get("VariableV2") or op.opdef is get("Variable")


def _replaced(op: Operation, made: dict[Operation, Operation], suffix: str) -> Operation:
    if op.type in _LEAVES:
        return op
    if _is_reference(op):
        value = _initialized_value(op)
        return op if value is None else value.op
    if all(made[t.op] is t.op for t in op.inputs):
        return op
    inputs = [made[t.op].outputs[t.value_index] for t in op.inputs]
    return context.current_graph().create_op(_kind(op, inputs), inputs, name=f"{op.name}_{suffix}", attrs={**op.attrs})


def _kind(op: Operation, inputs: list[Tensor]) -> str:
    """The type of the op that takes values where `op` took references: Switch for RefSwitch, Merge for RefMerge."""
    plain = op.type.removeprefix("Ref")
    passes_references = op.opdef.has_ref_inputs and plain != op.type and plain in OPS
    return plain if passes_references and not all(t.dtype._is_ref_dtype for t in inputs) else op.type


def _initialized_value(op: Operation) -> Any:
    """initialized_value() of the variable of this op, if it is in a collection."""
    graph = context.current_graph()
    for key in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES):
        for v in graph._collections.get(key, ()):
            if getattr(v, "_variable", None) is op.outputs[0]:
                return v.initialized_value()
    return None
