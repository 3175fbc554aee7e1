"""Joins the updates of many variables by one optimizer into one op.

A GPU needs longer to launch the kernels of a small update than to run them, a CPU longer to call them, and a network has
hundreds of variables. Ops whose declaration names an op over lists (`several`) are joined if they share their other inputs, and
none depends on another. On the host, these are the ones with a compiled kernel (kernels/updates.py).
"""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.kernels import updates
from penstock._src.ops import rules
from penstock._src.step.ir import Node, StepGraph, Value

_COMPILED = (dtypes.float32, dtypes.float64)


def join_updates(step: StepGraph) -> None:
    """Joins updates that differ only in their variables and gradients."""
    found = [op for op in step.ops if op.opdef in rules.updates.several and (not step.on_host(op) or _is_joined_on_host(op))]
    if len(found) < 2 or step.has_control_flow:
        return
    taken = {id(t) for op in step.ops for t in op.inputs} | {id(t) for t in step.fetches}
    found = [op for op in found if not any(id(t) in taken for t in op.outputs)]
    of_rows = [op for op in step.ops if op.opdef in rules.updates.compiled and op.opdef not in rules.updates.several]
    _loosen(step, [*found, *of_rows])
    for opdef in dict.fromkeys(op.opdef for op in found):   # weights may decay before they are updated
        _join(step, [op for op in found if op.opdef is opdef])


def _join(step: StepGraph, found: list[Node]) -> None:
    """Joins updates of one kind."""
    late = _behind(step, set(found))
    if any(op.opdef.transfer == "send" for op in late):     # another part may wait for one update before it sends a gradient
        return
    groups: dict[Any, list[Node]] = {}
    for op in found:
        if op not in late:
            groups.setdefault(_kind(op, step), []).append(op)
    joined = {op: group for members in groups.values() if len(members) > 1 for group in [_joined(members, step)]
              for op in members}
    if joined:
        _put(step, joined)


def _is_joined_on_host(op: Node) -> bool:
    return op.opdef in rules.updates.together or \
        op.opdef in rules.updates.compiled and op.attrs["T"] in _COMPILED and updates.available()


def _loosen(step: StepGraph, found: list[Node]) -> None:
    """Drops the order between updates of different variables, which nothing can observe.

    Functions run stateful ops in the order of the program, so each update waits for the one before it. It waits for all that
    this one waits for instead. Another op that waits for an update waits for those before it, too.
    """
    before = {op: op.control_inputs for op in found}
    touched = {op: {resource_of(t) for t in op.inputs} - {None} for op in found}
    for op in step.ops:
        if not any(c in before for c in op.control_inputs):
            continue
        mine, kept, left = touched.get(op), {}, list(op.control_inputs)
        seen = set(left)
        while left:
            c = left.pop()
            passed = mine is not None and c in before and touched[c].isdisjoint(mine)
            more = before.get(c, ())
            if passed:
                kept.update(dict.fromkeys(t.op for t in c.inputs if id(t) not in step.fed))
            else:
                kept[c] = None
                more = more if mine is None else ()
            left += [m for m in more if m not in seen]
            seen.update(more)
        op.control_inputs = list(kept)


def resource_of(t: Value) -> int | None:
    """A key for the variable of a handle or reference; None for other values."""
    if t.dtype.base_dtype == dtypes.resource or t.dtype._is_ref_dtype:
        return id(t.op.attrs.get("value", t)) if not t.op.inputs else id(t)
    return None


def _behind(step: StepGraph, found: set[Node]) -> set[Node]:
    """The ops that wait for one of the updates."""
    late: set[Node] = set()
    for op in step.ops:
        if any(t.op in late or t.op in found for t in op.inputs) or \
                any(c in late or c in found for c in op.control_inputs):
            late.add(op)
    return late


def _kind(op: Node, step: StepGraph) -> tuple:
    """The key of updates that may be joined."""
    listed = rules.updates.several[op.opdef][1]
    shared = [_value(t) for i, t in enumerate(op.inputs) if i not in listed]
    types = [t.dtype for i, t in enumerate(op.inputs) if i in listed]
    return op.opdef.name, id(op.place), *shared, *types, *sorted((n, str(v)) for n, v in op.attrs.items())


def _value(t: Value) -> tuple:
    """The key of a shared value: two reads of a variable with the same control inputs return the same value."""
    op = t.op
    return (id(op.inputs[0]), *map(id, op.control_inputs)) if op.opdef.reads and len(op.inputs) == 1 else (id(t),)


def _joined(members: list[Node], step: StepGraph) -> Node:
    first = members[0]
    name, listed = rules.updates.several[first.opdef]
    inputs, counts = [], []
    for i, t in enumerate(first.inputs):
        inputs += [op.inputs[i] for op in members] if i in listed else [t]
        counts.append(len(members) if i in listed else None)
    given = {t.op for t in inputs}
    control = list(dict.fromkeys(c for op in members for c in op.control_inputs if c not in given))
    made = step.make(name, inputs, {**first.attrs, "N": len(members)}, first, [], [], control)
    made.counts = tuple(counts)
    return made


def _put(step: StepGraph, joined: dict[Node, Node]) -> None:
    """Inserts joined updates at the place of their last member; ops that wait for an earlier member come after them."""
    last = {group: op for op, group in joined.items()}
    pending: set[Node] = set(last)
    ops: list[Node] = []
    waiting: list[Node] = []

    def emit(op: Node) -> None:
        if op in joined:
            return
        if any(t.op in pending for t in op.inputs) or any(c in pending for c in op.control_inputs):
            pending.add(op)
            waiting.append(op)
            return
        ops.append(op)
    for op in step.ops:
        op.control_inputs = list(dict.fromkeys(joined.get(c, c) for c in op.control_inputs))
        emit(op)
        group = joined.get(op)
        if group is not None and last[group] is op:
            ops.append(group)
            pending.discard(group)
            again, waiting[:] = list(waiting), []
            for held in again:
                pending.discard(held)
                emit(held)
    step.ops = ops
    step.targets = list(dict.fromkeys(joined.get(op, op) for op in step.targets))
