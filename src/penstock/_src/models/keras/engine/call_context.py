"""The context of calls of layers: the layer, its inputs, training or not, and the graph.

A layer that is called inside another reads the context of its caller here. Functional models are built from symbolic tensors:
those of the default graph where graphs are built, and those of one graph of Keras's own, named `keras_graph`, in eager mode.
"""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import LazyModule, export
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.models.keras.engine.node import parts_of
from penstock._src.state.variables.variable import Variable

backend = LazyModule("penstock._src.models.keras.backend")
KERAS_GRAPH = "keras_graph"
_registered: tuple[type, ...] = ()


class CallContext(threading.local):
    """The innermost layer that is being called on this thread."""

    def __init__(self) -> None:
        self.layer: Any = None
        self.inputs: Any = None
        self.frozen = False              # inside of a layer that is not trained
        self.in_call = False
        self.training: Any = None
        self.building = False            # the outermost call builds a part of the graph of Keras
        self.saving = False              # functions are being traced for a SavedModel

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """As if no layer were being called: to build a part of a model in the middle of its call."""
        kept = dict(self.__dict__)
        CallContext.__init__(self)
        try:
            yield
        finally:
            self.__dict__.update(kept)

    def enter(self, layer: Any, inputs: Any, build_graph: bool, training: Any) -> _Entered:
        """A context manager: `layer` is being called inside."""
        return _Entered(self, layer, inputs, build_graph, training)


class _Entered:
    """One call of a layer; restores the previous context."""

    __slots__ = ("_ctx", "_before", "_now")

    def __init__(self, ctx: CallContext, layer: Any, inputs: Any, build_graph: bool, training: Any):
        self._ctx = ctx
        building = ctx.building or build_graph and in_keras_graph()
        self._now = layer, inputs, ctx.frozen or not layer.trainable, True, training, building

    def __enter__(self) -> None:
        c = self._ctx
        self._before = c.layer, c.inputs, c.frozen, c.in_call, c.training, c.building
        c.layer, c.inputs, c.frozen, c.in_call, c.training, c.building = self._now

    def __exit__(self, *exc: Any) -> None:
        c = self._ctx
        c.layer, c.inputs, c.frozen, c.in_call, c.training, c.building = self._before


current = CallContext()


def in_keras_graph() -> bool:
    """Whether ops are added to the graph of Keras, which represents symbolic tensors in eager mode."""
    if context.executing_eagerly():
        return False
    return current.building or getattr(context.current_graph(), "name", None) == KERAS_GRAPH


def in_function() -> bool:
    """Whether a tf.function is being traced in eager mode."""
    if context.executing_eagerly() or not context.eager_outside_functions() or in_keras_graph():
        return False
    graph = context.current_graph()
    return graph.building_function and not (getattr(graph, "name", "") or "").startswith("wrapped_function")


def in_eager_or_function() -> bool:
    """Whether ops run as written: at once, or in a tf.function."""
    return context.executing_eagerly() or in_function()


@export(v2=["keras.__internal__.utils.register_symbolic_tensor_type"])
def register_symbolic_tensor_type(cls: type) -> None:
    """Lets layers take and return instances of `cls`, which convert to tensors, as they take and return tensors.

    >>> tf.keras.__internal__.utils.register_symbolic_tensor_type(Distribution)
    """
    global _registered
    if cls not in _registered:
        _registered += (cls,)


def is_registered(x: Any) -> bool:
    """Whether x is an instance of a class that `register_symbolic_tensor_type` was given."""
    return isinstance(x, _registered)


def is_symbolic(x: Any) -> bool:
    """Whether the value of x is known only at run time."""
    if isinstance(x, Tensor):
        return not hasattr(x, "_value")
    if isinstance(x, Variable):
        return getattr(x, "_keras_history", None) is not None or not context.executing_eagerly()
    if is_registered(x):
        return is_symbolic(convert(x))
    if isinstance(x, SparseTensor) or hasattr(x, "_type_spec") and not isinstance(x, (type, str)):
        parts = nest.flatten(x, expand_composites=True)
        return any(p is not x and is_symbolic(p) for p in parts)
    return False


def graph_of(flat: list) -> Any:
    """The graph for a call on symbolic tensors: Keras' own for those of a model that is being built, also in a function."""
    for x in flat:
        first = next(iter(parts_of(x)), x)
        if isinstance(first, Tensor) and first.graph.symbolic:
            return context.current_graph() if in_keras_graph() else first.graph
    return backend.get_graph()


def in_branch(tensor: Any) -> bool:
    """Whether a tensor belongs to a branch or a loop of a function, and cannot be used outside of it."""
    graph = getattr(tensor, "graph", None) if isinstance(tensor, Tensor) and not hasattr(tensor, "_value") else None
    return graph is not None and context.eager_outside_functions() and graph.building_function \
        and getattr(graph.around, "building_function", False)
