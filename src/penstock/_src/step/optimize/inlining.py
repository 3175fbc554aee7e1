"""Calls of functions: the ops of a pure function stand in the place of its call, where passes can look through it."""
from __future__ import annotations

from penstock._src.graph.functions import GraphFunction, as_function
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.prune import needed
from penstock._src.step.optimize.step import StepGraph

_LARGE = 400                 # ops of a function that is still put in place
_DEEP = 12                   # calls inside of each other


def function_body(function: GraphFunction) -> StepGraph:
    """What a function runs, as a step."""
    effects = function.graph.control_outputs
    return StepGraph(needed(function.outputs, effects, {id(t) for t in function.inputs}), function.outputs, effects,
                     function.inputs)


def inline_calls(step: StepGraph, depth: int = 0) -> None:
    """Inlines functions whose calls have no control dependents."""
    if step.placed is not None or depth > _DEEP or not any(map(_is_call, step.ops)):
        return
    waited_for = {c for op in step.ops for c in op._control_inputs} | set(step.targets)
    by: dict[int, Tensor] = {}
    bodies, ops = [], []
    for op in step.ops:
        body = _body(op, depth) if _is_call(op) and op not in waited_for and step.fed.isdisjoint(map(id, op.outputs)) else None
        if body is None:
            ops.append(op)
            continue
        bodies.append(body)                          # the ids of its tensors stay its own
        ops += body.ops
        by.update((id(t), given) for t, given in zip(body.feeds, op._inputs, strict=True))
        by.update((id(t), made) for t, made in zip(op.outputs, body.fetches, strict=True))
    step.ops = ops
    step.substitute(by)


def _is_call(op: Operation) -> bool:
    return op.opdef.in_place is not None and not op.opdef.chooses and not op.opdef.stateful and not op._control_inputs


def _body(op: Operation, depth: int) -> StepGraph | None:
    """The body of the function that an op calls; None if there is more to it than pure ops."""
    body = function_body(as_function(op.attrs[op.opdef.function_attrs[0]], op.graph))
    if body.has_control_flow or body.targets or len(body.feeds) != len(op._inputs):
        return None
    inline_calls(body, depth + 1)
    return body if len(body.ops) <= _LARGE else None
