"""Saved values: constants need not be saved, and what belongs together is saved as one array.

Where shapes are left open, a loop saves them for its gradient. When they are known after all (shapes.py), the gradient takes
them as constants.

A joined op (pointwise.py) returns several arrays of one shape for the gradient to use, each on its own stack. Where one
joined op of the gradient takes them all, they are parts of one array from the start: one allocation, one push and one pop.
"""
from __future__ import annotations

from penstock._src.graph.constant import constant_value
from penstock._src.graph.frames import Frames
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.prune import needed
from penstock._src.ops import rules
from penstock._src.ops.registry import get
from penstock._src.step.ir import StepGraph, Value
from penstock._src.step.loops.holders import holders
from penstock._src.step.loops.improve import gradients_of_loops
from penstock._src.step.optimize.folding import constant


def save_together(step: StepGraph) -> None:
    """Saves what belongs together as one array, in the loops of a step."""
    joined = get("_Pointwise")
    if not any(op.opdef is joined for op in step.ops) or not any(rules.loops.saves.get(op.opdef) == "pop" for op in step.ops):
        return
    users = step.users()
    order = {op: i for i, op in enumerate(step.ops)}
    waited = {c for op in step.ops for c in op._control_inputs}
    found: dict[tuple[Operation, Operation], list[tuple[Operation, Operation]]] = {}
    for gradient in gradients_of_loops(step, Frames(step.ops, step.fed)):
        for pop, push in gradient.saved().items():
            makes, takes = users.get(id(push._inputs[1]), []), users.get(id(pop.outputs[0]), [])
            maker = push._inputs[1]._op
            if len(makes) == len(takes) == 1 and maker.opdef is takes[0].opdef is joined and pop not in waited and \
                    not users.get(id(push.outputs[0])) and _is_whole(push, maker, pop, takes[0]):
                found.setdefault((maker, takes[0]), []).append((push, pop))
    instead: dict[Operation, Operation] = {}
    for (maker, taker), pairs in found.items():
        if len(pairs) > 1:
            _join(maker, taker, sorted(pairs, key=lambda pair: order[pair[0]]), instead)
    if instead:
        for op in step.ops:
            op._control_inputs = list(dict.fromkeys(instead.get(c, c) for c in op._control_inputs))
        step.ops = needed(step.fetches, step.targets, step.fed)


def take_constants(step: StepGraph) -> set[int]:
    """What is taken from a stack, and is always the same known value, becomes a constant; the ids of these constants."""
    if any(t._op.opdef.value_rule is not None or constant_value(t) is not None for t in step.feeds):
        return set()                                 # other values are fed than those that are known
    pops: dict[Operation, list[Operation]] = {}
    pushes: dict[Operation, list[Operation]] = {}
    for op, stack in holders(step).items():
        if rules.loops.saves.get(op.opdef) == "pop":
            pops.setdefault(stack, []).append(op)
        elif rules.loops.saves.get(op.opdef) == "push":
            pushes.setdefault(stack, []).append(op)
    kept, users = step.kept(), step.users()
    by: dict[int, Tensor] = {}
    instead: dict[Operation, list[Operation]] = {}             # of an op that goes: what those wait for that waited for it
    for stack, takers in pops.items():
        putters = pushes.get(stack, [])
        value = constant_value(putters[0]._inputs[1]) if len(putters) == 1 and kept.isdisjoint(takers) else None
        if value is None or any(id(pop.outputs[0]) in step.fed for pop in takers):
            continue
        for pop in takers:
            made = by[id(pop.outputs[0])] = constant(step, value, pop.outputs[0], _waits(pop, step))
            instead[pop] = [made._op]
        push = putters[0]
        if push not in kept and not users.get(id(push.outputs[0])) and push._inputs[0]._op.opdef.control_flow == "enter":
            instead[push] = [push._inputs[1]._op, *push._control_inputs]
    if by:
        step.ops += [t._op for t in by.values()]
        step.substitute(by)
        for op in step.ops:
            while any(c in instead for c in op._control_inputs):
                op._control_inputs = list(dict.fromkeys(b for c in op._control_inputs for b in instead.get(c, (c,))))
        step.ops = needed(step.fetches, step.targets, step.fed)
    return {id(t) for t in by.values()}


def _waits(pop: Operation, step: StepGraph) -> list[Operation]:
    """What says in which iteration, and on which branch, a value is taken from a stack."""
    handle = pop._inputs[0]
    if handle._op.opdef.control_flow == "enter":
        return list(pop._control_inputs) or [handle._op]
    return [*pop._control_inputs, step.make("Identity", [handle], {"T": handle._dtype}, pop, [()], [handle._dtype], [])]


def _is_whole(push: Operation, maker: Operation, pop: Operation, taker: Operation) -> bool:
    """Whether a value has the shape of both plans, so that it is their columns one after the other."""
    given, made = taker.attrs["plan"], maker.attrs["plan"]
    at, value = push._inputs[1]._value_index, _input(taker, pop)
    size = made.rows * made.columns
    return (made.rows, made.columns) == (given.rows, given.columns) and given.sizes[value] == size and \
        made.results[at] == push._inputs[1]._dims and sum(to.tensor == at for _, to in made.written) == 1


def _join(maker: Operation, taker: Operation, pairs: list[tuple[Operation, Operation]],
          instead: dict[Operation, Operation]) -> None:
    """One push and one pop for several, of an array that has their values as its parts.

    Ops that depend on another push depend on the first one, which precedes it.
    """
    results = [push._inputs[1]._value_index for push, _ in pairs]
    values = [_input(taker, pop) for _, pop in pairs]
    (push, pop), *others = pairs
    dims = (len(pairs), *push._inputs[1]._dims)                     # type: ignore[misc]
    kept = [t for t in maker.outputs if t._value_index not in results]
    whole = Value(maker, len(kept), push._inputs[1]._dtype, dims)
    maker.attrs = {**maker.attrs, "plan": maker.attrs["plan"].with_one_result(results), "M": len(kept) + 1}
    for i, t in enumerate(kept):
        t._value_index = i
    maker.outputs = [*kept, whole]
    push._inputs[1] = whole
    push.outputs[0]._dims = pop.outputs[0]._dims = dims
    taker.attrs = {**taker.attrs, "plan": taker.attrs["plan"].with_one_value(values), "N": len(taker._inputs) - len(pairs) + 1}
    taker._inputs = [*(t for i, t in enumerate(taker._inputs) if i not in values), pop.outputs[0]]
    taker._counts = (len(taker._inputs),)
    instead.update({other: push for other, _ in others})


def _input(taker: Operation, pop: Operation) -> int:
    return next(i for i, t in enumerate(taker._inputs) if t is pop.outputs[0])
