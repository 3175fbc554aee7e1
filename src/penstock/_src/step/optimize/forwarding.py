"""Forwarding: ops that only pass a value on (Identity, StopGradient, a cast to the same type) are taken out.

A read of a reference stays: when it happens is its meaning. So does one that waits for others.
"""
from __future__ import annotations

from penstock._src.graph.node import Operation, Tensor
from penstock._src.ops import rules
from penstock._src.step.ir import StepGraph


def forward_values(step: StepGraph) -> None:
    """Users of a passed-on value take it from where it was made."""
    by: dict[int, Tensor] = {}
    kept = step.kept()
    for op in step.ops:
        if op._control_inputs or op in kept or not rules.forwards(op):
            continue
        for source, t in zip(op._inputs, op.outputs):
            if id(t) not in step.fed and not anchored(source, step) and source._dtype == t._dtype:
                by[id(t)] = source
    if by:
        step.substitute(by)
        step.prune()


def anchored(t: Tensor, step: StepGraph) -> bool:
    """Whether the op that takes `t` says by running when, or on which branch, it is."""
    op: Operation = t._op
    return t._dtype._is_ref_dtype or id(t) not in step.fed and op.opdef.control_flow in ("switch", "exit", "enter", "next")
