"""Forwarding: ops that only pass a value on (Identity, StopGradient, a cast to the same type) are taken out.

A read of a reference stays: when it happens is its meaning. So does one that waits for others.
"""
from __future__ import annotations

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


def anchored(t: Value, step: StepGraph) -> bool:
    """Whether the op that takes `t` says by running when, or on which branch, it is."""
    op: Node = t.op
    return t.dtype._is_ref_dtype or id(t) not in step.fed and op.opdef.control_flow in ("switch", "exit", "enter", "next")
