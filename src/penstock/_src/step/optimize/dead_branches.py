"""Dead branches: removes the untaken branch of a conditional with a known outcome.

After a Switch on a constant, one output is dead, and so is everything that depends on it, up to the Merge, which returns the
live value. A step that fetches a dead value is not changed: running it raises the error.
"""
from __future__ import annotations

import numpy as np

from penstock._src.step.ir import Node, StepGraph, Value, is_const
from penstock._src.step.optimize.folding import constant


def drop_dead_branches(step: StepGraph) -> None:
    """Removes Switch ops with a known outcome, and dead ops."""
    if not any(_decided(op, step) for op in step.ops):
        return
    by: dict[int, Value] = {}
    dead: set[int] = set()
    dead_ops: set[Node] = set()
    ops: list[Node] = []
    for op in step.ops:
        kind = op.opdef.control_flow
        if kind == "merge" and not any(t.op.opdef.back_edge for t in op.inputs):
            alive = [i for i, t in enumerate(op.inputs) if id(t) not in dead]
            if len(alive) == 1 and len(op.inputs) > 1 and not op.opdef.has_refs:
                index = constant(step, np.array(alive[0], np.int32), op.outputs[1], list(op.control_inputs))
                ops.append(index.op)
                by[id(op.outputs[0])], by[id(op.outputs[1])] = op.inputs[alive[0]], index
            lost = not alive
        else:
            lost = any(id(t) in dead for t in op.inputs) or any(c in dead_ops for c in op.control_inputs)
            if not lost and _decided(op, step):
                taken = int(op.inputs[1].op.attrs["value"])
                by[id(op.outputs[taken])] = op.inputs[0]
                dead.add(id(op.outputs[1 - taken]))
        if lost:
            dead_ops.add(op)
            dead.update(map(id, op.outputs))
        ops.append(op)
    if any(id(t) in dead for t in step.fetches) or any(op in dead_ops for op in step.targets):
        return
    step.ops = ops
    step.substitute(by)
    step.prune()
    step.has_control_flow = any(op.opdef.control_flow for op in step.ops)


def _decided(op: Node, step: StepGraph) -> bool:
    return op.opdef.control_flow == "switch" and not op.opdef.has_refs and is_const(op.inputs[1]) and \
        step.fed.isdisjoint([id(op.inputs[1]), *map(id, op.outputs)])
