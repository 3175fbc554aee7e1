"""Forwarding: ops that only pass a value on (Identity, StopGradient, a cast to the same type) are taken out.

A read of a reference stays: when it happens is its meaning. So does one that waits for others.
"""
from __future__ import annotations

from penstock._src.base import dtypes
from penstock._src.ops import rules
from penstock._src.step.ir import Node, StepGraph, Value


def forward_values(step: StepGraph) -> None:
    """Users of a passed-on value take it from where it was created."""
    by: dict[int, Value] = {}
    kept = step.kept()
    for op in step.ops:
        if op.control_inputs or op in kept or not rules.forwards(op):
            continue
        for source, t in zip(op.inputs, op.outputs):
            if id(t) not in step.fed and not anchored(source, step) and source.dtype == t.dtype:
                by[id(t)] = source
    if by:
        step.substitute(by)
        step.prune()


def forward_assigned(step: StepGraph) -> None:
    """A read of a variable that waits for the only op of the step that writes to it, an assignment, returns what that assigned.

    Then what is computed from it need not wait: the updates of all variables can be computed together.
    """
    writers: dict[int, list[Node]] = {}
    for op in step.ops:
        if not op.opdef.reads:
            for t in op.inputs:
                if t.dtype.base_dtype == dtypes.resource:
                    writers.setdefault(id(t), []).append(op)
    kept = step.kept()
    by: dict[int, Value] = {}
    for op in step.ops:
        if not op.opdef.reads or len(op.inputs) != 1 or len(op.outputs) != 1 or op in kept or id(op.outputs[0]) in step.fed:
            continue
        last = writers.get(id(op.inputs[0]), [])
        if len(last) == 1 and last[0] in op.control_inputs and last[0].opdef in rules.updates.assigns:
            value, read = last[0].inputs[1], op.outputs[0]
            if value.dtype == read.dtype and value.static_dims == read.static_dims and not anchored(value, step):
                by[id(read)] = value
    if by:
        step.substitute(by)
        step.prune()


def anchored(t: Value, step: StepGraph) -> bool:
    """Whether the op that takes `t` says by running when, or on which branch, it is."""
    op: Node = t.op
    return t.dtype._is_ref_dtype or id(t) not in step.fed and op.opdef.control_flow in ("switch", "exit", "enter", "next")
