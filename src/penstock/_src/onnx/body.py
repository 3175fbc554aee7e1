"""Functions as ONNX nodes: the passes that simplify them, and the loop over their ops."""
from __future__ import annotations

from penstock._src.graph.functions import GraphFunction
from penstock._src.onnx.builder import Builder, Unsupported
from penstock._src.onnx.rules import RULES
from penstock._src.step.ir import StepGraph, is_const
from penstock._src.step.optimize.common import merge_common
from penstock._src.step.optimize.folding import fold_constants
from penstock._src.step.optimize.forwarding import forward_values
from penstock._src.step.optimize.inlining import function_body, inline_calls
from penstock._src.step.optimize.shapes import specialize_shapes


def body_step(function: GraphFunction) -> StepGraph:
    """The computation of a function, with static shapes and without control dependencies: an ONNX graph has no effects."""
    step = function_body(function)
    inline_calls(step)
    step.targets = []
    for op in step.ops:
        op.control_inputs = []
    step.prune()
    known = function.known
    specialize_shapes(step, [None] * len(step.feeds) if known is None else list(known))
    forward_values(step)
    fold_constants(step)
    merge_common(step)
    step.prune()
    return step


def write_ops(b: Builder, step: StepGraph) -> None:
    """Adds the nodes of all ops. Ops that ONNX cannot express are recorded, and their results get names without a producer."""
    b.written.append(step)
    fetched, at = b.fetched, b.at
    b.fetched = {id(t) for t in step.fetches}
    for op in step.ops:
        if not op.outputs or is_const(op.outputs[0]) or all(id(t) in b.values for t in op.outputs):
            continue
        b.at = op.name
        try:
            if op.type not in RULES:
                raise Unsupported("there is no rule for it")
            made = RULES[op.type].write(b, op)
        except Unsupported as e:
            b.problems.append((op, str(e)))
            made = [b.unique(op.name) for _ in op.outputs]
            b.lists.update((name, t.dtype) for name, t in zip(made, op.outputs, strict=True) if t.dtype.torch is None)
        names = made if isinstance(made, list) else [made]
        b.values.update((id(t), name) for t, name in zip(op.outputs, names, strict=True))
    b.fetched, b.at = fetched, at
