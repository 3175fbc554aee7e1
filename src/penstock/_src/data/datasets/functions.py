"""Functions of dataset elements: Python functions traced into graphs, once, for ops to call."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from penstock._src.data.datasets import structure
from penstock._src.eager.autograph.convert import converted
from penstock._src.graph import context
from penstock._src.graph.func_graph import FuncGraph, trace
from penstock._src.graph.functions import GraphFunction, function_name
from penstock._src.graph.random_seed import gave_seeds
from penstock._src.ops.control.functional import add_calling_op
from penstock._src.ops.registry import get


class ElementFunction:
    """A traced function of an element: the graph function, its captures, and the type of its result.

    `spec` is the type of the argument. A plain tuple becomes several arguments, unless `unpack` is False.
    """

    def __init__(self, function: Callable, where: str, spec: Any, unpack: bool = True):
        self.python_function, self._where = function, where
        label = "".join(c if c.isalnum() else "_" for c in getattr(function, "__name__", type(function).__name__)).strip("_")
        graph = FuncGraph(f"Dataset_{where.rsplit('.', 1)[-1].strip('()')}_{label or 'lambda'}")
        own = [graph.placeholder(s.dtype, s.shape.static_dims, "args") for s in structure.flat_specs(spec)]
        graph.inputs = list(own)
        self.output_spec: Any = None

        def call() -> list:
            element = structure.from_tensors(spec, own)
            many = unpack and type(element) is tuple
            return self._results(_converted(function)(*element) if many else _converted(function)(element))
        trace(graph, call)
        graph.inputs = own + graph.internal_captures
        self.graph, self.captured = graph, graph.external_captures
        self.graph_function = GraphFunction(graph, function_name(graph.name))
        self._warn_about_seed()
        self._warn_about_tables()

    def _warn_about_tables(self) -> None:
        """Refuses resources created in the function: every call would create another one."""
        key = "table_initializer"
        outside = [] if context.executing_eagerly() else context.current_graph().get_collection(key)
        if len(self.graph.get_collection(key)) > len(outside):
            warnings.warn(f"Creating resources inside a function passed to {self._where} is not supported. Create each "
                          "resource outside the function, and capture it inside the function to use it.", stacklevel=5)

    def _warn_about_seed(self) -> None:
        """Warns that random ops of the function may use the seed of the outer graph."""
        outer = context.current_graph().seed if not context.executing_eagerly() else None
        if outer and self.graph.seed == outer and gave_seeds(self.graph):
            warnings.warn(f"Seed {outer} from outer graph might be getting used by function {self.graph.name}, if the random "
                          "op has not been provided any seed explicitly. Explicitly set the seed in the function if this is "
                          "not the intended behavior.", stacklevel=5)

    def _results(self, result: Any) -> list:
        """The function's result as flat tensors. A list is treated as a tuple; stack it to get one tensor."""
        if isinstance(result, list):
            result = tuple(result)
        try:
            result = structure.normalize(result)
            self.output_spec = structure.spec_of(result)
        except (TypeError, ValueError) as e:
            raise TypeError(f"Unsupported return value from function passed to {self._where}: {result!r}. {e}") from e
        return structure.to_tensors(self.output_spec, result)

    @property
    def stateful(self) -> bool:
        """Whether a call has side effects or results that differ from call to call."""
        return self.graph_function.stateful

    name = property(lambda self: self.graph_function.name, doc="The name in the function library.")
    function_def = property(lambda self: self.graph_function.definition, doc="The FunctionDef message.")

    @property
    def function(self) -> Any:
        """The graph function."""
        return self.graph_function


def _converted(function: Callable) -> Callable:
    """The function with its Python control flow over tensors rewritten by AutoGraph."""
    return converted(function)


def call_op(name: str, *inputs: Any, functions: dict[str, ElementFunction] | None = None, **attrs: Any) -> Any:
    """Calls an op that has functions as attributes: adds it to the graph with their definitions, or executes it."""
    definition = get(name)
    given = {k: f.graph_function for k, f in (functions or {}).items()}
    if context.executing_eagerly():
        return definition(*inputs, **attrs, **given)
    if not given:
        return definition(*inputs, **attrs)
    made = add_calling_op(definition, inputs, {**attrs, **given}, list(given.values()), None)
    return list(made.outputs) if definition.list_output else made.outputs[0]
