"""wrap_function: graph-building code of the v1 API as a function.

The code is traced once, into a graph with separate collections and variable scopes. Variables that it creates live outside of
the graph. `prune` extracts functions between other tensors of the same graph.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.eager.function import ConcreteFunction
from penstock._src.eager.lift import evaluated, lifted
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.func_graph import FuncGraph, trace
from penstock._src.graph.functions import function_name
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.prune import needed
from penstock._src.graph.scopes import init_scope, name_scope, variable_creator_scope
from penstock._src.graph.type_spec import TypeSpec


class _Variables:
    """The variables that wrapped code creates: outside of its graph, in its collections, by name."""

    def __init__(self, graph: FuncGraph):
        self.graph = graph
        self.by_name: dict[str, Any] = {}

    variables = property(lambda self: self.by_name, doc="The variables by name, under TensorFlow's attribute name.")

    def __call__(self, next_creator: Callable, **kwargs: Any) -> Any:
        collections = kwargs.pop("collections", None)
        with name_scope(kwargs.get("name"), "Variable") as scope:
            kwargs["name"] = scope
        value = kwargs.get("initial_value")
        if isinstance(value, Tensor) and not hasattr(value, "_value"):
            kwargs["initial_value"] = self._lifted(value)
        made = self.by_name[scope[:-1]] = next_creator(**kwargs)
        collections = [GraphKeys.GLOBAL_VARIABLES] if collections is None else list(collections)
        if made.trainable and GraphKeys.TRAINABLE_VARIABLES not in collections:
            collections.append(GraphKeys.TRAINABLE_VARIABLES)
        self.graph.add_to_collections(collections, made)
        return made

    def _lifted(self, value: Tensor) -> Any:
        with init_scope():
            eager, outer = context.executing_eagerly(), context.current_graph()
        return evaluated(value, self.graph, []) if eager else lambda: lifted(value, outer)


class WrappedFunction(ConcreteFunction):
    """A traced piece of v1 code."""

    def __init__(self, graph: FuncGraph, arg_count: int, variables: _Variables, name: str | None = None):
        super().__init__(graph, arg_count, name, [t.op.name for t in graph.inputs[:arg_count]])
        self._variables = variables

    variables = property(lambda self: list(self._variables.by_name.values()), doc="The variables that the code created.")
    _variable_holder = property(lambda self: self._variables)

    def prune(self, feeds: Any, fetches: Any, name: str | None = None, input_signature: Any = None) -> WrappedFunction:
        """A function of `feeds` (tensors of this graph) that returns `fetches` (tensors; operations just run)."""
        source = self.graph
        flat_feeds = [source.as_graph_element(t) for t in nest.flatten(feeds, expand_composites=True)]
        if not all(isinstance(t, Tensor) for t in flat_feeds):
            raise ValueError("Feeds must be tensors.")
        captured = {id(inner): outer for outer, inner in source.captures}
        flat_feeds = [t for t in flat_feeds if id(t) not in captured]
        fetches = nest.map_structure(lambda f: _element(source, f), fetches)
        wanted = nest.flatten(fetches, expand_composites=True)
        for t in (*flat_feeds, *wanted):
            if t.graph is not source:
                raise ValueError(f"prune() takes feeds and fetches of the function's graph ({source}); {t} is from graph "
                                 f"{t.graph}")
        made, copies = _copied(source, flat_feeds, wanted, captured, name or "pruned")
        with made.as_default():
            made.structured_outputs = nest.map_structure(lambda f: None if isinstance(f, Operation) else copies[id(f)],
                                                         fetches, expand_composites=True)
        made.structured_input_signature = input_signature
        return WrappedFunction(made, len(flat_feeds), self._variables)


def _element(graph: FuncGraph, fetch: Any) -> Any:
    """The tensor, composite tensor or operation that a fetch (or a TensorInfo message) names."""
    if isinstance(fetch, (Tensor, Operation)) or hasattr(fetch, "_type_spec"):
        return fetch
    if not hasattr(fetch, "tensor_shape"):
        return graph.as_graph_element(fetch)
    found = graph.as_graph_element(fetch.name)
    if isinstance(found, Tensor):
        found.set_shape(fetch.tensor_shape)
    return found


def _copied(source: FuncGraph, feeds: list, wanted: list, captured: dict[int, Any],
            name: str) -> tuple[FuncGraph, dict[int, Any]]:
    """The part of a function graph between tensors, as a separate graph; and the mapping of tensors and ops to it."""
    target = FuncGraph(name, collections={})
    target._functions.update(source._functions)
    copies: dict[int, Any] = {id(t): target.placeholder(t.dtype, t.static_dims, t.op.name) for t in feeds}
    target.inputs = [copies[id(t)] for t in feeds]
    tensors, targets = [t for t in wanted if isinstance(t, Tensor)], [t for t in wanted if isinstance(t, Operation)]
    back: list[tuple[Operation, int, Tensor]] = []         # of loops: an op, and which input comes after it

    def copy_of(t: Tensor) -> Any:
        return copies[id(t)] if id(t) in copies else target.capture(captured[id(t)]) if id(t) in captured else None
    for op in needed(tensors, targets, {*copies, *captured}):
        inputs = [copy_of(t) for t in op.inputs]
        later = [i for i, t in enumerate(inputs) if t is None]
        for i in later:
            inputs[i] = next(t for t in inputs if t is not None)      # a Merge has the value that enters
        made = target.add(op.opdef, target.unique_name(op.name), inputs, dict(op.attrs), [t.dtype for t in op.outputs],
                          op.counts, [copies[id(c)] for c in op.control_inputs if id(c) in copies])
        made._extra.update(op._extra)
        copies[id(op)] = made
        back += [(made, i, op.inputs[i]) for i in later]
        for old, new in zip(op.outputs, made.outputs, strict=True):
            new.static_dims = old.static_dims
            copies.setdefault(id(old), new)
    for made, i, t in back:
        made._update_input(i, copies[id(t)])
    copies.update((id(t), copy_of(t)) for t in tensors if id(t) not in copies)         # captures that are wanted themselves
    taken = {id(outer) for outer, _ in target.captures}
    target.watched_variables.update((i, v) for i, v in source.watched_variables.items() if id(v.handle) in taken)
    target.outputs = [copies[id(t)] for t in tensors]
    target.control_outputs = [copies[id(op)] for op in targets]
    target.inputs = [copies[id(t)] for t in feeds] + target.internal_captures
    return target, copies


def pruned(graph: FuncGraph, feeds: list, fetches: list, targets: list, name: str) -> ConcreteFunction:
    """The part of `graph` from tensors (`feeds`) to others, and to operations that just run (`targets`), as a function."""
    captured = {id(inner): outer for outer, inner in graph.captures}
    made, copies = _copied(graph, feeds, [*fetches, *targets], captured, name)
    made.structured_outputs = [copies[id(t)] for t in fetches]
    return ConcreteFunction(made, len(feeds), function_name(name), [t.op.name for t in made.inputs[:len(feeds)]])


@export(v1=["wrap_function"])
def wrap_function(fn: Callable, signature: Any, name: str | None = None) -> WrappedFunction:
    """A v1 function as a callable for eager code: traced once, with placeholders for the TensorSpecs of `signature`.

    >>> double = tf.wrap_function(lambda x: x * tf.Variable(2.), [tf.TensorSpec([], tf.float32)])
    """
    graph = FuncGraph("wrapped_function" if name is None else f"wrapped_function_{name}", collections={})
    variables = _Variables(graph)
    own: list[Tensor] = []

    def placeholder(spec: Any) -> Any:
        if not isinstance(spec, TypeSpec):
            return spec
        parts = [graph.placeholder(s.dtype, s.shape.static_dims, getattr(s, "name", None) or f"args_{len(own) + i}")
                 for i, s in enumerate(nest.flatten(spec, expand_composites=True))]
        own.extend(parts)
        return nest.pack_sequence_as(spec, parts, expand_composites=True)
    with graph.as_default():
        args = [placeholder(s) for s in signature]
    graph.inputs, graph.structured_input_signature = list(own), (tuple(signature), {})

    def call(*a: Any) -> Any:
        with variable_creator_scope(variables):
            result = fn(*a)
        graph.control_outputs = [r for r in nest.flatten(result) if isinstance(r, Operation)]
        return nest.map_structure(lambda r: None if isinstance(r, Operation) else r, result)
    trace(graph, call, args, ordered=False)
    graph.inputs = own + graph.internal_captures
    return WrappedFunction(graph, len(own), variables, function_name(graph.name))
