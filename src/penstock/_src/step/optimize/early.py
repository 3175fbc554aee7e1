"""Schedules sends and other asynchronous work as early as their inputs allow."""
from __future__ import annotations

from penstock._src.ops import rules
from penstock._src.step.ir import Node, StepGraph


def advance_early(step: StepGraph) -> None:
    """Moves ops that are declared `early` before ops that they do not depend on, and keeps their order."""
    if not any(op.opdef in rules.costs.early for op in step.ops):
        return
    place: dict[Node, tuple[int, int]] = {}
    for i, op in enumerate(step.ops):
        place[op] = i, 0
        if op.opdef in rules.costs.early:
            before = [place[t.op] for t in op.inputs if t.op in place] + [place[c] for c in op.control_inputs if c in place]
            at, turn = max(before, default=(-1, 0))
            place[op] = at, turn + 1
    step.ops.sort(key=place.__getitem__)
