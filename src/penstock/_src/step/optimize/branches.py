"""Dead-code elimination for the results of conditionals."""
from __future__ import annotations

from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.functions import as_function
from penstock._src.ops import rules
from penstock._src.step.ir import Node, StepGraph


def narrow_branches(step: StepGraph) -> None:
    """Removes unused results of conditionals, and of their branch functions."""
    choosing = [op for op in step.ops if op.opdef in rules.inlining.branches and len(op.outputs) > 1]
    if not choosing:
        return
    used = {id(t) for op in step.ops for t in op.inputs} | {id(t) for t in step.fetches}
    waited_for = {c for op in step.ops for c in op.control_inputs} | set(step.targets)
    for op in choosing:
        keep = [i for i, t in enumerate(op.outputs) if id(t) in used or id(t) in step.fed]
        if keep and len(keep) < len(op.outputs) and op not in waited_for:
            _narrow(op, keep)


def _narrow(op: Node, keep: list[int]) -> None:
    attrs = dict(op.attrs)
    for name in rules.inlining.branches.get(op.opdef, ()):
        value = attrs[name]
        attrs[name] = [as_function(f, op.graph).narrowed(keep) for f in value] if isinstance(value, list) \
            else as_function(value, op.graph).narrowed(keep)
    attrs["Tout"] = [op.outputs[i].dtype.base_dtype for i in keep]
    attrs["output_shapes"] = [TensorShape.of(op.outputs[i].static_dims) for i in keep]
    op.attrs = attrs
    op.outputs = [op.outputs[i] for i in keep]
    for i, t in enumerate(op.outputs):
        t.value_index = i
