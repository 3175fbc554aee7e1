"""Arrays and stacks of a step: maps each op that writes or reads one to the op that made it.

They exist for the duration of a step and are identified by handles. A handle is followed from the op that makes it, into loops
and along branches. If it escapes (into a function, through a loop variable, to a fetch), its contents are unknown.
"""
from __future__ import annotations

from typing import Any

from penstock._src.ops import rules
from penstock._src.step.ir import Node, StepGraph

_PASSING = ("enter", "switch", "exit")


def holders(step: StepGraph) -> dict[Node, Any]:
    """Ops on arrays and stacks whose uses are all known -> the op that makes the array or stack.

    For arrays of gradients it is that of the array that they belong to, with their source: ops with one source share one.
    """
    if not any(rules.shapes.holder.get(op.opdef) == "makes" for op in step.ops):
        return {}
    known: dict[int, Any] = {}               # handles
    found: dict[Node, Any] = {}
    lost = set()
    for op in step.ops:
        role = rules.shapes.holder.get(op.opdef)
        if role == "makes":
            key: Any = op
            found[op] = key
        else:
            keys = [known[id(t)] for t in op.inputs if id(t) in known]
            if not keys:
                continue
            key = keys[0]
            if role and len(keys) == 1 and id(op.inputs[0]) in known:
                if role == "derives":
                    key = key, op.attrs["source"]
                found[op] = key
                if role != "derives":
                    continue
            elif not _passes(op) or len(keys) > 1:
                lost.update(keys)
                continue
        if id(op.outputs[0]) not in step.fed:
            known[id(op.outputs[0])] = key
        if op.opdef.control_flow == "switch" and id(op.outputs[1]) not in step.fed:
            known[id(op.outputs[1])] = key
    lost.update(known[id(t)] for t in step.fetches if id(t) in known)
    return {op: key for op, key in found.items() if not _is_lost(key, lost)}


def _passes(op: Node) -> bool:
    """Whether an op passes its first input on unchanged."""
    return op.opdef.control_flow in _PASSING or \
        len(op.inputs) == 1 and rules.forwards(op)


def _is_lost(key: Any, lost: set) -> bool:
    return key in lost or isinstance(key, tuple) and _is_lost(key[0], lost)
