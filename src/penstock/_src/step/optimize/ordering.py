"""Order of effects: ops on different variables need not wait for each other.

Functions order all of their effects, one after the other. Of an op that does nothing but read or change variables, only the
order with ops on the same variables matters, and only if one of the two changes them. Without the rest, updates of all
variables can be computed together.

Draws of random numbers keep their order among each other. A step with any other effect (queues, printing, client code) keeps
its order.
"""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.ops import rules
from penstock._src.step.ir import Node, StepGraph, Value
from penstock._src.step.optimize.forwarding import anchored

_MOST = 4096                 # ops on variables
_DRAWS = "draws"             # stands for the variable that random ops change


def relax_order(step: StepGraph) -> None:
    """Replaces control edges between ops on variables by those between ops on the same ones."""
    used = _only_variables(step)
    if not used:
        return
    _requested(step, used)
    bits = {op: 1 << i for i, op in enumerate(used)}
    before: dict[Node, int] = {}                     # which of them have run when an op runs
    same: dict[Any, list[Node]] = {}                 # variable -> ops on it so far
    for op in step.ops:
        done = 0
        for s in (*(t.op for t in op.inputs if id(t) not in step.fed), *op.control_inputs):
            done |= before.get(s, 0) | bits.get(s, 0)
        before[op] = done
        if op in used:
            earlier = dict.fromkeys(o for key in used[op] for o in same.get(key, ()))
            needed = [o for o in earlier if bits[o] & done and not (_reads(o) and _reads(op))]
            op.control_inputs = [*(c for c in op.control_inputs if c not in used), *needed]
            for key in used[op]:
                same.setdefault(key, []).append(op)


def forward_assigned(step: StepGraph) -> None:
    """Replaces a read of a variable after its only write in the step, an assignment, by the assigned value.

    Its dependents then need not wait: the updates of all variables can be computed together.
    """
    used = _only_variables(step)
    writers: dict[Any, list[Node]] = {}
    for op, keys in used.items():
        for key in () if _reads(op) else keys:
            writers.setdefault(key, []).append(op)
    kept = step.kept()
    by: dict[int, Value] = {}
    for op, keys in used.items():
        if not op.opdef.reads or len(op.inputs) != 1 or len(op.outputs) != 1 or op in kept or id(op.outputs[0]) in step.fed:
            continue
        last = writers.get(keys[0], [])
        if len(last) == 1 and last[0] in op.control_inputs and last[0].opdef in rules.updates.assigns:
            value, read = last[0].inputs[1], op.outputs[0]
            if value.dtype == read.dtype and value.static_dims == read.static_dims and not anchored(value, step):
                by[id(read)] = value
    if by:
        _requested(step, used)
        step.substitute(by)
        step.prune()


def _only_variables(step: StepGraph) -> dict[Node, list[Any]]:
    """The ops on variables and what identifies these; nothing if their order cannot be relaxed: other ops have effects."""
    if step.has_control_flow or not any(op.control_inputs for op in step.ops):
        return {}
    used = {op: keys for op in step.ops if (keys := _variables(op)) is not None}
    if not 1 < len(used) <= _MOST or any(op not in used and _may_matter(op) for op in step.ops):
        return {}
    return used


def _variables(op: Node) -> list[Any] | None:
    """What identifies the variables that an op reads or changes, if it does nothing else; else None."""
    if op.opdef.random and not any(t.dtype.base_dtype == dtypes.resource for t in op.inputs):
        return [_DRAWS]
    if not _reads(op) and op.opdef not in rules.updates.alone:
        return None
    keys = [_variable(t) for t in op.inputs if t.dtype.base_dtype == dtypes.resource]
    return keys if keys and None not in keys else None


def _reads(op: Node) -> bool:
    """Whether an op on variables changes none."""
    return op.opdef.reads or op.opdef in rules.updates.looks


def _variable(t: Value) -> Any:
    """What two handles of one variable have in common; None where that is not known."""
    op = t.op
    if "value" in op.attrs:                          # known beforehand
        return id(op.attrs["value"])
    return (op.attrs.get("container"), op.attrs.get("shared_name") or op.name) if op.opdef.per_session else None


def _may_matter(op: Node) -> bool:
    """Whether an op may have effects besides its results."""
    opdef = op.opdef
    return opdef.stateful and not opdef.per_session or opdef.blocking or opdef.calls or opdef.client_code or \
        bool(opdef.transfer) or any(t.dtype._is_ref_dtype for t in (*op.inputs, *op.outputs))


def _requested(step: StepGraph, used: dict[Node, Any]) -> None:
    """Keeps ops with effects that run only because others wait for them."""
    known = set(step.targets)
    step.targets += [op for op in used if not _reads(op) and not op.opdef.random and op not in known]
