"""Forwarding: removes ops that only forward a value (Identity, StopGradient, a cast to the same type).

A read of a reference stays, because its time matters. So does an op with control inputs.
"""
from __future__ import annotations

from penstock._src.ops import rules
from penstock._src.step.ir import Node, StepGraph, Value


def forward_values(step: StepGraph) -> None:
    """Makes users of a forwarded value take it from its source."""
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


def anchored(t: Value, step: StepGraph) -> bool:
    """Whether the op that takes `t` also signals an iteration or a branch."""
    op: Node = t.op
    return t.dtype._is_ref_dtype or id(t) not in step.fed and op.opdef.control_flow in ("switch", "exit", "enter", "next")
