"""Dead-code elimination for the variables of functional loops.

The gradient of a loop has a variable for each input of the loop, used or not, and pops every saved value. A variable is live if
its last value is used, if the condition or an op with an effect reads it, or if a live variable depends on it. Loops are
processed from the last to the first: values that a gradient does not use are then not saved.
"""
from __future__ import annotations

from collections.abc import Iterable

from penstock._src.graph.functions import GraphFunction, as_function
from penstock._src.ops import rules
from penstock._src.step.ir import Node, StepGraph, Value
from penstock._src.step.optimize.dependencies import simplify_dependencies
from penstock._src.step.optimize.folding import fold_constants
from penstock._src.step.optimize.inlining import function_body, inline_calls
from penstock._src.step.optimize.shapes import specialize_shapes


def narrow_loops(step: StepGraph) -> None:
    """Removes unused loop variables, and their outputs from the loop's functions."""
    for op in reversed(step.ops):
        if op.opdef in rules.inlining.loop and len(op.outputs) > 1:
            used = {id(t) for t in op.outputs if t.users} | {id(t) for t in step.fetches} | step.fed
            test, body = (as_function(op.attrs[name], op.graph) for name in rules.inlining.loop[op.opdef])
            keep = _needed_variables(_Sources(test, step.is_placed), _Sources(body, step.is_placed),
                                     [i for i, t in enumerate(op.outputs) if id(t) in used])
            if keep and len(keep) < len(op.outputs):
                _narrow(op, test, body, keep)


def _needed_variables(of_test: _Sources, of_body: _Sources, used: list[int]) -> list[int]:
    """The live variables, given those whose last values are `used`."""
    if of_test.unclear or of_body.unclear:
        return []
    wanted = of_test.of([0]) | of_test.effects | of_body.effects
    for i in used:
        wanted |= 1 << i
    while True:
        more = wanted | of_body.of(_ones(wanted))
        if more == wanted:
            return _ones(wanted)
        wanted = more


def _ones(mask: int) -> list[int]:
    return [i for i in range(mask.bit_length()) if mask >> i & 1]


class _Sources:
    """The inputs that each result of a function depends on, one bit each."""

    def __init__(self, function: GraphFunction, placed: bool):
        step = function_body(function)
        self.unclear = step.has_control_flow                     # may have cycles
        if self.unclear:
            return
        if not placed:                                           # otherwise calls stay, and use all their inputs
            inline_calls(step)
        if function.known is not None:
            specialize_shapes(step, list(function.known))
        simplify_dependencies(step)                              # pure ops may have control inputs
        fold_constants(step)                                     # gradients inspect shapes of what they do not read
        self._inputs = {id(t): 1 << i for i, t in enumerate(step.feeds)}
        self._outputs = step.fetches
        self._masks: dict[Node, int] = {}
        for op in step.ops:
            self._masks[op] = self._all(op.inputs) | self._waits(op)
        self.effects = 0
        for op in step.targets:
            self.effects |= self._masks[op]

    def _all(self, tensors: Iterable[Value]) -> int:
        mask = 0
        for t in tensors:
            mask |= self._inputs.get(id(t)) or self._masks[t.op]
        return mask

    def _waits(self, op: Node) -> int:
        mask = 0
        for c in op.control_inputs:
            mask |= self._masks[c]
        return mask

    def of(self, outputs: Iterable[int]) -> int:
        """The inputs that some results depend on."""
        return self._all(self._outputs[i] for i in outputs)


def _narrow(op: Node, test: GraphFunction, body: GraphFunction, keep: list[int]) -> None:
    cond_name, body_name = rules.inlining.loop[op.opdef]
    shapes = op.attrs["output_shapes"]
    op.attrs = {**op.attrs, cond_name: test.of_variables(keep), body_name: body.of_variables(keep),
                "T": [op.attrs["T"][i] for i in keep], "output_shapes": [shapes[i] for i in keep] if shapes else shapes}
    op.set_inputs([op.inputs[i] for i in keep])
    op.outputs = [op.outputs[i] for i in keep]
    op.counts = (len(keep),)
    for i, t in enumerate(op.outputs):
        t.value_index = i
