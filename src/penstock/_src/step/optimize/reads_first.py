"""Uses what was read from a variable before the variable is updated.

A read returns the memory of the variable, and an update is done in place if nothing else refers to that memory. Joined ops run
where the last of their group was, so that a use of a read may come behind the update. Then the update copies the variable: the
step takes longer, and a CUDA graph, which holds addresses, cannot be made of it. Here updates wait for such uses, unless these
need the update themselves.
"""
from __future__ import annotations

import heapq

from penstock._src.ops import rules
from penstock._src.step.ir import Node, StepGraph, Value
from penstock._src.step.optimize.memory import shares_memory
from penstock._src.step.optimize.updates import resource_of


def use_reads_first(step: StepGraph) -> None:
    """Moves updates behind the uses of what was read before."""
    if step.has_control_flow or any(op.opdef.transfer for op in step.ops):
        return
    waits = _late_uses(step)
    if waits:
        step.ops = _sorted(step, waits)


def _late_uses(step: StepGraph) -> dict[Node, list[Node]]:
    """For each update, the ops behind it that use what was read before."""
    place = {op: i for i, op in enumerate(step.ops)}
    reads: dict[int, list[Node]] = {}
    found: dict[Node, list[Node]] = {}
    for op in step.ops:
        keys = [key for t in op.inputs if (key := resource_of(t)) is not None]
        if not keys:
            continue
        if op.opdef.reads or rules.forwards(op):
            reads.setdefault(keys[0], []).append(op)
        elif op.opdef not in rules.updates.looks:
            late = {user: None for key in keys for read in reads.pop(key, ()) for user in _users(read)
                    if user is not op and place[user] > place[op]}
            if late:
                found[op] = list(late)
    return found


def _users(read: Node) -> list[Node]:
    """The ops that use the memory that a read returns."""
    users: list[Node] = []
    left: list[Value] = list(read.outputs)
    while left:
        t = left.pop()
        for user in t.users:
            users.append(user)
            if shares_memory(user) and user.inputs[0] is t:
                left += user.outputs
    return users


def _sorted(step: StepGraph, waits: dict[Node, list[Node]]) -> list[Node]:
    """The ops in their order, except for updates that wait, and what needs these. Where that would be a cycle, the first op
    does not wait."""
    order = {op: i for i, op in enumerate(step.ops)}
    needs = {op: {d for d in (*(t.op for t in op.inputs if id(t) not in step.fed), *op.control_inputs) if d in order}
             for op in step.ops}
    wants = {op: set(late) for op, late in waits.items()}
    after: dict[Node, list[Node]] = {}
    for op in step.ops:
        for d in needs[op] | wants.get(op, set()):
            after.setdefault(d, []).append(op)
    ready = [i for i, op in enumerate(step.ops) if not needs[op] and not wants.get(op)]
    stuck = sorted((order[op] for op in wants), reverse=True)
    done: dict[Node, None] = {}
    while ready or stuck:
        if ready:
            op = step.ops[heapq.heappop(ready)]
        else:                                        # the next update that waits for nothing else
            at = next(i for i in reversed(range(len(stuck))) if not needs[step.ops[stuck[i]]])
            op = step.ops[stuck.pop(at)]
        if op in done:
            continue
        done[op] = None
        for user in after.get(op, ()):
            needs[user].discard(op)
            left = wants.get(user)
            if left is not None:
                left.discard(op)
            if not needs[user] and not left:
                heapq.heappush(ready, order[user])
    return list(done)
