"""Values saved for gradients: constants are not saved, and arrays used together are saved as one.

If shapes are unknown, a loop saves them for its gradient. Once they are known (shapes.py), the gradient takes them as
constants.

A joined op (pointwise.py) returns several arrays of one shape for the gradient to use, each on its own stack. Where one
joined op of the gradient takes them all, they are parts of one array from the start: one allocation, one push and one pop.
"""
from __future__ import annotations

from penstock._src.graph.constant import constant_value
from penstock._src.graph.frames import Frames
from penstock._src.ops import rules
from penstock._src.ops.registry import get
from penstock._src.step.ir import Node, StepGraph, Value
from penstock._src.step.loops.holders import holders
from penstock._src.step.loops.improve import gradients_of_loops
from penstock._src.step.optimize.folding import constant


def save_together(step: StepGraph) -> None:
    """Saves arrays that are used together as one, in the loops of a step."""
    joined = get("_Pointwise")
    if not any(op.opdef is joined for op in step.ops) or not any(rules.loops.saves.get(op.opdef) == "pop" for op in step.ops):
        return
    users = step.users()
    order = {op: i for i, op in enumerate(step.ops)}
    waited = {c for op in step.ops for c in op.control_inputs}
    found: dict[tuple[Node, Node], list[tuple[Node, Node]]] = {}
    for gradient in gradients_of_loops(step, Frames(step.ops, step.fed)):
        for pop, push in gradient.saved().items():
            makes, takes = users.get(id(push.inputs[1]), []), users.get(id(pop.outputs[0]), [])
            maker = push.inputs[1].op
            if len(makes) == len(takes) == 1 and maker.opdef is takes[0].opdef is joined and pop not in waited and \
                    not users.get(id(push.outputs[0])) and _is_whole(push, maker, pop, takes[0]):
                found.setdefault((maker, takes[0]), []).append((push, pop))
    instead: dict[Node, Node] = {}
    for (maker, taker), pairs in found.items():
        if len(pairs) > 1:
            _join(maker, taker, sorted(pairs, key=lambda pair: order[pair[0]]), instead)
    if instead:
        for op in step.ops:
            op.control_inputs = list(dict.fromkeys(instead.get(c, c) for c in op.control_inputs))
        step.sort()


def take_constants(step: StepGraph) -> set[int]:
    """Replaces pops of one known value by constants; returns their ids."""
    if any(t.op.opdef.value_rule is not None or constant_value(t) is not None for t in step.feeds):
        return set()                                 # other values are fed than those that are known
    pops: dict[Node, list[Node]] = {}
    pushes: dict[Node, list[Node]] = {}
    for op, stack in holders(step).items():
        if rules.loops.saves.get(op.opdef) == "pop":
            pops.setdefault(stack, []).append(op)
        elif rules.loops.saves.get(op.opdef) == "push":
            pushes.setdefault(stack, []).append(op)
    kept = step.kept()
    by: dict[int, Value] = {}
    instead: dict[Node, list[Node]] = {}             # for a removed op: the ops that its dependents wait for instead
    for stack, takers in pops.items():
        putters = pushes.get(stack, [])
        value = constant_value(putters[0].inputs[1]) if len(putters) == 1 and kept.isdisjoint(takers) else None
        if value is None or any(id(pop.outputs[0]) in step.fed for pop in takers):
            continue
        for pop in takers:
            made = by[id(pop.outputs[0])] = constant(step, value, pop.outputs[0], _waits(pop, step))
            instead[pop] = [made.op]
        push = putters[0]
        if push not in kept and not push.outputs[0].users and push.inputs[0].op.opdef.control_flow == "enter":
            instead[push] = [push.inputs[1].op, *push.control_inputs]
    if by:
        step.ops += [t.op for t in by.values()]
        step.substitute(by)
        for op in step.ops:
            while any(c in instead for c in op.control_inputs):
                op.control_inputs = list(dict.fromkeys(b for c in op.control_inputs for b in instead.get(c, (c,))))
        step.sort()
    return {id(t) for t in by.values()}


def _waits(pop: Node, step: StepGraph) -> list[Node]:
    """The control input that ties a pop to its iteration and branch."""
    handle = pop.inputs[0]
    if handle.op.opdef.control_flow == "enter":
        return list(pop.control_inputs) or [handle.op]
    return [*pop.control_inputs, step.make("Identity", [handle], {"T": handle.dtype}, pop, [()], [handle.dtype], [])]


def _is_whole(push: Node, maker: Node, pop: Node, taker: Node) -> bool:
    """Whether a value has the shape of both plans, so that it is their columns in sequence."""
    given, made = taker.attrs["plan"], maker.attrs["plan"]
    at, value = push.inputs[1].value_index, _input(taker, pop)
    size = made.rows * made.columns
    return (made.rows, made.columns) == (given.rows, given.columns) and given.sizes[value] == size and \
        made.results[at] == push.inputs[1].static_dims and sum(to.tensor == at for _, to in made.written) == 1


def _join(maker: Node, taker: Node, pairs: list[tuple[Node, Node]],
          instead: dict[Node, Node]) -> None:
    """One push and one pop for several, of an array that has their values as its parts.

    Ops that depend on another push depend on the first one, which precedes it.
    """
    results = [push.inputs[1].value_index for push, _ in pairs]
    values = [_input(taker, pop) for _, pop in pairs]
    (push, pop), *others = pairs
    dims = (len(pairs), *push.inputs[1].static_dims)                     # type: ignore[misc]
    kept = [t for t in maker.outputs if t.value_index not in results]
    whole = Value(maker, len(kept), push.inputs[1].dtype, dims)
    maker.attrs = {**maker.attrs, "plan": maker.attrs["plan"].with_one_result(results), "M": len(kept) + 1}
    for i, t in enumerate(kept):
        t.value_index = i
    maker.outputs = [*kept, whole]
    push.set_input(1, whole)
    push.outputs[0].static_dims = pop.outputs[0].static_dims = dims
    taker.attrs = {**taker.attrs, "plan": taker.attrs["plan"].with_one_value(values), "N": len(taker.inputs) - len(pairs) + 1}
    taker.set_inputs([*(t for i, t in enumerate(taker.inputs) if i not in values), pop.outputs[0]])
    taker.counts = (len(taker.inputs),)
    instead.update({other: push for other, _ in others})


def _input(taker: Node, pop: Node) -> int:
    return next(i for i, t in enumerate(taker.inputs) if t is pop.outputs[0])
