"""The gradient of a function is another function, the *backward function*. It maps the gradients of the outputs, and the values
of the forward body that it needs, to the gradients of the inputs. The ops that call functions make those values outputs of the
forward call (`ops/control/function_grad.py`).
"""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.func_graph import FuncGraph
from penstock._src.graph.functions import GraphFunction
from penstock._src.graph.gradients import gradients_of, is_trainable
from penstock._src.graph.handles import handle_dims, handle_dtype
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.node import Tensor
from penstock._src.graph.side_effects import order_side_effects


class Backward:
    """The gradient of one function for one choice of outputs that have gradients."""

    def __init__(self, forward: GraphFunction, which: tuple[int, ...]):
        self.forward, self.which = forward, which
        graph = self.graph = FuncGraph(f"{forward.graph.name}_grad")
        graph.around, graph.backward_of, graph.jit = forward.graph.around, forward.graph, forward.graph.jit
        self.sources = [i for i, t in enumerate(forward.inputs) if is_trainable(t)]
        with graph.as_default(), no_tapes():
            seeds = [self._seed(forward.outputs[i]) for i in which]
            self.seeds = seeds
            graph.inputs.extend(seeds)
            grads = gradients_of([forward.outputs[i] for i in which], [forward.inputs[i] for i in self.sources], seeds,
                                 src_graph=forward.graph) if which and self.sources else [None] * len(self.sources)
            self._flatten(grads)
            graph.control_outputs = order_side_effects(graph)
        self.function = GraphFunction(graph)
        for f in forward.graph._functions.values():
            graph._functions.setdefault(f.name, f)

    def _seed(self, output: Tensor) -> Tensor:
        dtype, dims = output.dtype.base_dtype, output.static_dims
        if dtype == dtypes.resource:
            dtype, dims = handle_dtype(output), handle_dims(output)
        return self.graph.placeholder(dtype, dims, "gradient")

    def _flatten(self, grads: list) -> None:
        """Sets the outputs, and records which of them form the gradient of which input."""
        self.slots: dict[int, Any] = {}                 # input index -> output index; two or three for IndexedSlices
        outputs = self.graph.outputs
        for i, g in zip(self.sources, grads, strict=True):
            if g is None:
                continue
            parts = [p for p in (g.values, g.indices, g.dense_shape) if p is not None] if isinstance(g, IndexedSlices) else [g]
            self.slots[i] = tuple(range(len(outputs), len(outputs) + len(parts)))
            outputs.extend(self.graph.capture(p) for p in parts)

    @property
    def needs(self) -> list:
        """The outer tensors that the backward function takes after the seeds; most are of the forward graph."""
        return self.graph.external_captures

    def intermediates(self) -> list[Tensor]:
        """Tensors of the forward graph that are needed and are neither its inputs nor its outputs."""
        known = {id(t) for t in (*self.forward.inputs, *self.forward.outputs)}
        return [t for t in self.needs if in_graph(t, self.forward.graph) and id(t) not in known]

    def gradients(self, flat: list, count: int) -> list:
        """The gradients of the `count` inputs, from the outputs of a call of the backward function."""
        out: list = [None] * count
        for i, slots in self.slots.items():
            parts = [flat[s] for s in slots]
            out[i] = parts[0] if len(parts) == 1 else IndexedSlices(*parts)
        return out


def in_graph(t: Any, graph: Any) -> bool:
    """Whether a tensor belongs to a graph."""
    return not hasattr(t, "_value") and t.graph is graph


class no_tapes:
    """Tapes do not record while a backward graph is built; they record its calls."""

    def __enter__(self) -> None:
        self._old, context.state.tapes = context.state.tapes, ()

    def __exit__(self, *exc: Any) -> None:
        context.state.tapes = self._old


def backward(forward: GraphFunction, which: tuple[int, ...]) -> Backward:
    """The gradient of a function, cached on the function."""
    found = forward._backward.get(which)
    if found is None:
        found = forward._backward[which] = Backward(forward, which)
    return found


def differentiable_outputs(function: GraphFunction) -> tuple[int, ...]:
    """The indices of outputs that can have gradients."""
    return tuple(i for i, t in enumerate(function.outputs) if is_trainable(t))


def with_intermediates(function: GraphFunction, order: int = 1) -> GraphFunction:
    """The function with additional outputs: the values that its gradient (of some order) needs."""
    for _ in range(order):
        more = backward(function, differentiable_outputs(function)).intermediates()
        if not more:
            break
        function = function.with_outputs(more)
    return function


def dense(grad: Any) -> Any:
    """A gradient as one tensor."""
    return convert(grad) if isinstance(grad, IndexedSlices) else grad
