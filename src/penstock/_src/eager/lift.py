"""Lifting initial values out of a function that is being traced: computed at once, or copied into an outer graph."""
from __future__ import annotations

from typing import Any

from penstock._src.execute.context import eager_context
from penstock._src.graph.eager_tensor import EagerTensor
from penstock._src.graph.engine import engine
from penstock._src.graph.func_graph import FuncGraph
from penstock._src.graph.node import Tensor
from penstock._src.graph.prune import needed


class UnliftableError(Exception):
    """An initial value depends on values that are known only when the function runs."""


def evaluated(value: Tensor, graph: FuncGraph, tensors: list) -> Any:
    """The value of a tensor of a function graph, as an eager tensor; arguments have the values of this call."""
    known = {id(inner): outer for outer, inner in graph.captures}
    known.update((id(p), t) for p, t in zip(graph.inputs, tensors, strict=False))
    inputs = [t for t in _placeholders(value) if id(t) in known]
    for t in inputs:
        if not hasattr(known[id(t)], "_value"):
            raise _unliftable(value, t)
    ctx, ops = eager_context(), needed([value], [], {id(t) for t in inputs})
    out, = engine.bodies.once(ops, value, inputs, ctx).run(ctx, *(known[id(t)]._value for t in inputs))
    return EagerTensor(out, value.dtype.base_dtype)


def _placeholders(value: Tensor) -> list[Tensor]:
    return [t for op in needed([value], [], set()) for t in op.outputs if op.opdef.name == "Placeholder"]


def _unliftable(value: Tensor, t: Tensor) -> UnliftableError:
    return UnliftableError(f"Unable to lift tensor {value!r} because it depends transitively on placeholder {t.op.name}: "
                           f"{value.op.name} <- {t.op.name}. A variable's initial value cannot depend on an argument here.")


def lifted(value: Tensor, target: Any) -> Tensor:
    """A copy of a tensor, and of all it depends on, in another graph."""
    source = value.graph
    outer = {id(inner): o for o, inner in source.captures} if isinstance(source, FuncGraph) else {}
    arguments = {id(t) for t in getattr(source, "inputs", ())}
    copies: dict[int, Tensor] = {}
    for op in needed([value], [], set(outer)):
        if any(id(t) in arguments for t in op.outputs):
            raise _unliftable(value, op.outputs[0])
        inputs = [_capture(outer, copies, t, target) for t in op.inputs]
        with target.as_default(), target.control_dependencies(None):
            name = target.unique_name(op.name.rsplit("/", 1)[-1])
            made = target.add(op.opdef, name, inputs, dict(op.attrs), [t.dtype for t in op.outputs], op.counts)
        for old, new in zip(op.outputs, made.outputs, strict=True):
            new.static_dims = old.static_dims
            copies[id(old)] = new
    return _capture(outer, copies, value, target)


def _capture(outer: dict[int, Any], copies: dict[int, Tensor], t: Tensor, target: Any) -> Tensor:
    if id(t) not in outer:
        return copies[id(t)]
    return lifted(outer[id(t)], target) if outer[id(t)].graph is not target else outer[id(t)]
