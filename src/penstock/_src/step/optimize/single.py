"""Loops of one iteration, and of none: a While op becomes its body, or what it is given.

Samplers and solvers have loops whose length is an option, and the option is often 1. As a loop, the body would be a function of
its own, which is called in every iteration of the loop around it; as ops of the step, it takes part in all passes.

The test is evaluated at compile time, on the scalars that are constants when the loop begins, and on what one iteration makes
of them.
"""
from __future__ import annotations

import numpy as np

from penstock._src.graph.functions import as_function
from penstock._src.ops import rules
from penstock._src.step.ir import Node, StepGraph, Value, is_const
from penstock._src.step.optimize.folding import computed
from penstock._src.step.optimize.inlining import around, function_body

_MOST = 1                    # iterations


def write_out_loops(step: StepGraph) -> None:
    """Replaces loops that run once or not at all. Loops stay where devices are assigned already, and in v1 control flow."""
    if step.has_control_flow or step.is_placed:
        return
    while loops := {op: n for op in step.ops if op.opdef in rules.inlining.loop and (n := _iterations(op, step)) is not None}:
        _write_out(step, loops)


def _write_out(step: StepGraph, loops: dict[Node, int]) -> None:
    by: dict[int, Value] = {}
    bodies: list[StepGraph] = []                      # keeps their tensors alive, whose ids are keys of `by`
    done: dict[Node, Node] = {}                       # loops -> the ops that signal their completion
    effects: list[Node] = []
    ops: list[Node] = []
    for op in step.ops:
        if op not in loops:
            ops.append(op)
            continue
        results = list(op.inputs)
        waits = list(op.control_inputs)
        for _ in range(loops[op]):
            body = _function(op, 1)
            bodies.append(body)
            before, after = around(step, op, body)
            ops += [*before, *body.ops, after]
            by.update((id(t), given) for t, given in zip(body.feeds, results, strict=True))
            results, waits = list(body.fetches), [after]
            if body.targets:                          # a loop has all of its effects, whichever results are used
                effects.append(after)
        done[op] = step.make("NoOp", [], {}, op, [], [], waits)
        ops.append(done[op])
        by.update((id(t), made) for t, made in zip(op.outputs, results, strict=True))
    for op in ops:
        if not done.keys().isdisjoint(op.control_inputs):
            op.control_inputs = list(dict.fromkeys(done.get(c, c) for c in op.control_inputs))
    step.ops = ops
    step.targets = list(dict.fromkeys([*(done.get(op, op) for op in step.targets), *effects]))
    step.substitute(by)
    step.prune()


def _function(op: Node, which: int) -> StepGraph:
    """The test (0) or the body (1) of a loop."""
    return function_body(as_function(op.attrs[rules.inlining.loop[op.opdef][which]], op.graph))


def _iterations(op: Node, step: StepGraph) -> int | None:
    """How often a loop runs; None if that is not known, or more than once."""
    if not step.fed.isdisjoint(map(id, op.outputs)):
        return None
    known = {i: np.asarray(t.op.attrs["value"]) for i, t in enumerate(op.inputs)
             if is_const(t) and id(t) not in step.fed and t.static_dims == ()}
    if not known:
        return None
    test = _function(op, 0)
    if test.has_control_flow or test.targets or not all(o.opdef.foldable or o.opdef.constant for o in test.ops):
        return None
    body = None
    for n in range(_MOST + 1):
        found = _value(test.fetches[0], test, known)
        if found is None or found and n == _MOST:
            return None
        if not found:
            return n
        if body is None:
            body = _function(op, 1)
            if body.has_control_flow or len(body.feeds) != len(op.inputs):
                return None
        known = {i: v for i, t in enumerate(body.fetches) if (v := _value(t, body, known)) is not None}
    return None


def _value(t: Value, part: StepGraph, known: dict[int, np.ndarray]) -> np.ndarray | None:
    """A scalar that follows from those inputs of a function that are known."""
    values: dict[int, np.ndarray | None] = {id(feed): known.get(i) for i, feed in enumerate(part.feeds)}
    left = [t]
    while left:
        at = left[-1]
        if id(at) in values:
            left.pop()
            continue
        op = at.op
        if op.opdef.constant:
            values[id(at)] = np.asarray(op.attrs["value"])
        elif at.static_dims != () or not op.opdef.foldable or len(op.outputs) != 1 or not op.inputs:
            values[id(at)] = None
        elif new := [s for s in op.inputs if id(s) not in values]:
            left += new
        else:
            given = [values[id(s)] for s in op.inputs]
            known_all = [v for v in given if v is not None]
            found = computed(op, known_all) if len(known_all) == len(given) else None
            values[id(at)] = None if found is None else found[0]
    return values[id(t)]
