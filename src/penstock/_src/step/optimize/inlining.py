"""Inlining: the ops of a called function replace the call, so that passes can optimize across it.

A training step that calls a model, whose layers and gradients are functions too, becomes one list of ops. A call waits for its
control inputs, and other ops wait for the call: so the ops of its body with an effect inherit the control inputs, and
dependents of the call wait for them.
"""
from __future__ import annotations

import collections
from typing import NamedTuple

from penstock._src.graph.functions import GraphFunction, as_function
from penstock._src.ops import rules
from penstock._src.step.ir import Node, Place, StepGraph, Value

_SMALL = 400                 # ops of a function that is inlined wherever it is called
_LARGE = 50_000              # ops of a function that is inlined if it is called once
_TOTAL = 500_000             # ops that inlining adds to a step
_DEEP = 12                   # nesting of calls


class Call(NamedTuple):
    """A called function, how deep its call is nested, and whether its caller calls it again."""
    function: GraphFunction
    depth: int
    again: bool


def function_body(function: GraphFunction) -> StepGraph:
    """The body of a function as a step."""
    return StepGraph(function.in_order({id(t) for t in function.inputs}), function.outputs, function.effects, function.inputs,
                     function.held)


def inline_calls(step: StepGraph, place: Place | None = None, depth: int = 0,
                 large: set[Call] | None = None) -> None:
    """Replaces calls by the ops of the called functions; `place` assigns devices to them, if a step has several.

    Calls between Switch and Merge stay: ops of the body without inputs would run although their branch is not taken. `large`
    has the calls of functions that are too large. The body of each is made once: functions that each call the one before twice
    would otherwise take time exponential in their number.
    """
    if step.has_control_flow or depth > _DEEP or place is None and step.is_placed:
        return
    calls = {op: _called(op) for op in step.ops if _is_call(op)}
    if not calls:
        return
    times = collections.Counter(id(f) for f in calls.values())
    by: dict[int, Value] = {}
    done: dict[Node, Node] = {}            # calls -> the ops that signal their completion
    bodies, ops, effects = [], [], []
    large = set() if large is None else large
    left = _TOTAL
    for op in step.ops:
        body = None
        if op in calls and left > 0:
            body = _body(op, Call(calls[op], depth, times[id(calls[op])] > 1), step, place, large)
        if body is None:
            ops.append(op)
            continue
        left -= len(body.ops)
        bodies.append(body)                          # keeps its tensors alive, whose ids are keys of `by`
        before, after = around(step, op, body)
        done[op] = after
        if body.targets:                             # a call has all of its effects, whichever results are used
            effects.append(after)
        ops += [*before, *body.ops, after]
        by.update((id(t), given) for t, given in zip(body.feeds, op.inputs, strict=True))
        by.update((id(t), made) for t, made in zip(op.outputs, body.fetches, strict=True))
    for op in ops if done else ():
        if not done.keys().isdisjoint(op.control_inputs):
            op.control_inputs = list(dict.fromkeys(done.get(c, c) for c in op.control_inputs))
    step.ops = ops
    step.targets = list(dict.fromkeys([*(done.get(op, op) for op in step.targets), *effects]))
    step.substitute(by)
    if done:
        step.prune()


def _is_call(op: Node) -> bool:
    return op.opdef in rules.inlining.in_place and op.opdef not in rules.inlining.chooses


def _called(op: Node) -> GraphFunction:
    return as_function(op.attrs[op.opdef.function_attrs[0]], op.graph)


def _body(op: Node, call: Call, step: StepGraph, place: Place | None, large: set[Call]) -> StepGraph | None:
    """The body of a called function; None if it stays a call."""
    if call in large or not step.fed.isdisjoint(map(id, op.outputs)):
        return None
    body = function_body(call.function)
    if body.has_control_flow or len(body.feeds) != len(op.inputs) or len(body.fetches) != len(op.outputs):
        return None
    if place is not None:
        place(body)
    inline_calls(body, place, call.depth + 1, large)
    if len(body.ops) > (_SMALL if call.again else _LARGE):
        large.add(call)
        return None
    return body


def around(step: StepGraph, call: Node, body: StepGraph) -> tuple[list[Node], Node]:
    """Makes the body wait for the control inputs of its call; returns an op before it, if there are any, and one after it."""
    before = []
    effects = [op for op in body.ops if not op.opdef.foldable and not (op.opdef.per_session and not op.inputs)]
    if call.control_inputs:
        before.append(step.make("NoOp", [], {}, call, [], []))
        for op in effects:
            op.control_inputs = [*op.control_inputs, *before]
    return before, step.make("NoOp", [], {}, call, [], [], [*before, *effects])
