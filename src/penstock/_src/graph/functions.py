"""GraphFunction: inputs and outputs of a FuncGraph under a name, ready to be called by an op and to be run.

Ops such as PartitionedCall, If and While have functions as attributes. The value of such an attribute is a
GraphFunction, or something that `as_function` can turn into one: a name or NameAttrList (looked up in the library of
the graph), a FunctionDef that was imported, or any object with a `graph_function`.
"""
from __future__ import annotations

import re
import weakref
from typing import TYPE_CHECKING, Any

import torch

from penstock._src.base import errors, tracing
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.engine import engine
from penstock._src.graph.failure import typed
from penstock._src.graph.func_graph import FuncGraph, unique_id
from penstock._src.graph.list_types import Fixed
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.prune import needed
from penstock._src.ops import rules

if TYPE_CHECKING:
    from tensorboard.compat.proto.function_pb2 import FunctionDef


class GraphFunction:
    """A function over graph tensors. Several may share one FuncGraph, with other outputs."""

    def __init__(self, graph: FuncGraph, name: str | None = None, inputs: list[Tensor] | None = None,
                 outputs: list[Tensor] | None = None, attrs: dict[str, Any] | None = None,
                 effects: list[Operation] | None = None):
        self.graph, self._effects = graph, effects
        self.name = name or f"{graph.name}_{unique_id()}"
        self.inputs = list(graph.inputs if inputs is None else inputs)
        self.outputs = list(graph.outputs if outputs is None else outputs)
        self.attrs = attrs or {}
        self._programs: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._repeated: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._unfused: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._loops: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._backward: dict[tuple, Any] = {}
        self._narrowed: dict[tuple, GraphFunction] = {}
        self._extended: dict[tuple[int, ...], GraphFunction] = {}
        self._definition: Any = None
        self._called: Any = None                     # the function compiled as a step, after the first eager call
        self._plain: GraphFunction | None = None     # the same function for less specific inputs
        self.known: tuple | None = None              # of its inputs: see `shaped`
        self.held: dict[Operation, Any] = {}         # what is known of removed inputs; the body uses nothing else of them

    @property
    def graph_function(self) -> GraphFunction:
        """The function itself, for `as_function`."""
        return self

    @property
    def stateful(self) -> bool:
        """Whether it has side effects or may return different results for the same inputs."""
        return any(op.opdef.stateful and not op.opdef.per_session for op in self.graph._ops)

    @property
    def effects(self) -> list[Operation]:
        """The ops that must run besides those that compute the outputs: by default all that the graph lists."""
        return self.graph.control_outputs if self._effects is None else self._effects

    def in_order(self, fed: set[int]) -> list[Operation]:
        """What the outputs and the effects need. Effects that need not wait for each other keep the order of the program, too:
        those before one that fails have happened."""
        effects = self.effects
        writes = [op for op in effects if not op.opdef.reads]
        return needed((), [*writes, *(t.op for t in self.outputs if id(t) not in fed), *effects], fed)

    def ops(self) -> list[Operation]:
        """The ops that must run. A function with its own list of effects skips other checks (`Assert`), even if ops wait for
        them.
        """
        found = self.in_order({id(t) for t in self.inputs})
        if self._effects is None:
            return found
        return [op for op in found if op.opdef not in rules.folding.checks or op in self._effects]

    def with_outputs(self, more: list[Tensor]) -> GraphFunction:
        """The same function with more tensors of its graph as outputs."""
        key = tuple([id(t) for t in more])                  # of the graph's tensors, which stay
        if key not in self._extended:
            self._extended[key] = GraphFunction(self.graph, f"{self.graph.name}_{unique_id()}", self.inputs,
                                                [*self.outputs, *more], self.attrs)
        return self._extended[key]

    def narrowed(self, keep: list[int]) -> GraphFunction:
        """The same function with a subset of its outputs."""
        key = tuple(keep)
        if self.known is not None:
            return self.plain.narrowed(keep).shaped(self.known)
        if key not in self._narrowed:
            self._narrowed[key] = GraphFunction(self.graph, None, self.inputs, [self.outputs[i] for i in keep], self.attrs)
        return self._narrowed[key]

    def of_variables(self, keep: list[int]) -> GraphFunction:
        """The condition or body of a loop restricted to some of its variables; nothing else may depend on the others."""
        key = ("variables", *keep)
        if key not in self._narrowed:
            outputs = [self.outputs[i] for i in keep] if len(self.outputs) == len(self.inputs) else self.outputs
            made = self._narrowed[key] = GraphFunction(self.graph, None, [self.inputs[i] for i in keep], outputs, self.attrs)
            if self.known is not None:
                made._plain, made.known = self.plain.of_variables(keep), tuple([self.known[i] for i in keep])
                lost = {self.inputs[i].op: known for i, known in enumerate(self.known) if i not in keep and known is not None}
                made.held = self.held | {op: torch.from_numpy(known.array().copy()) if isinstance(known, Fixed) else known
                                         for op, known in lost.items()}
        return self._narrowed[key]

    def shaped(self, known: tuple) -> GraphFunction:
        """The same function for more specific inputs: static shapes, Elements of lists, and Fixed values."""
        plain, key = self.plain, ("known", known)
        kept = plain._narrowed
        if key not in kept:
            made = kept[key] = GraphFunction(plain.graph, None, plain.inputs, plain.outputs, plain.attrs, plain._effects)
            made._plain, made.known = plain, known
        return kept[key]

    @property
    def plain(self) -> GraphFunction:
        """The same function for any inputs."""
        return self._plain or self

    @property
    def shapes_open(self) -> bool:
        """Whether its graph leaves shapes of arrays open."""
        return any(t.dtype.torch is not None and (t.static_dims is None or None in t.static_dims)
                   for op in self.graph._ops for t in op.outputs)

    # -- running ------------------------------------------------------------------------------------------------
    def program(self, ctx: Any) -> Any:
        """The compiled body, kept per set of resources (a session's, or the process's)."""
        if tracing.lowering():
            return self.unfused(ctx)
        found = self._programs.get(ctx.resources)
        if found is None:
            found = self._programs[ctx.resources] = engine.bodies.program(self, ctx)
        return found

    def repeated(self, ctx: Any) -> Any:
        """The same for a function that is called often with values of the same shapes: recorded (step/compile)."""
        found = self._repeated.get(ctx.resources)
        if found is None:
            found = self._repeated[ctx.resources] = engine.bodies.program(self, ctx, repeated=True)
        return found

    def unfused(self, ctx: Any) -> Any:
        """The body as a program of ATen calls only, for tracing."""
        found = self._unfused.get(ctx.resources)
        if found is None:
            found = self._unfused[ctx.resources] = engine.bodies.unfused(self, ctx)
        return found

    def optimized(self, ctx: Any, in_loop: bool = False) -> Any:
        """The body as a StepGraph: the ops to run, in order, after the optimizer's passes."""
        return engine.bodies.optimized(self, ctx, in_loop)

    def loop(self, test: GraphFunction, ctx: Any) -> Any:
        """The program of a loop with this function as its body; None if it cannot be one."""
        if tracing.lowering():
            return None
        kept = self._loops.setdefault(ctx.resources, {})
        if test.name not in kept:
            kept[test.name] = engine.bodies.loop(test, self, ctx)
        return kept[test.name]

    def run(self, ctx: Any, values: Any) -> tuple:
        """Runs the function as a part of a step on run-time values and returns those of its outputs."""
        program = self.program(ctx)
        try:
            return program.run(ctx, *values)
        except Exception as e:
            raise_typed(e, program)
            raise

    def call(self, ctx: Any, values: list) -> tuple:
        """Runs the function as its own step, for eager code (step/called.py)."""
        if self._called is None:
            self._called = engine.bodies.called(self)
        return self._called.run(ctx, values)

    # -- messages -----------------------------------------------------------------------------------------------
    @property
    def definition(self) -> FunctionDef:
        """The FunctionDef message."""
        if self._definition is None:
            self._definition = _messages().definition(self)
        return self._definition

    def __repr__(self) -> str:
        return f"<function {self.name}: {len(self.inputs)} inputs, {len(self.outputs)} outputs>"


def raise_typed(error: Exception, *programs: Any) -> None:
    """Raises the typed error that names the failed op of one of the programs; returns if the error names it already."""
    op = next((op for op in (p.failing_op(error.__traceback__) for p in programs) if op is not None), None)
    made = typed(error, op)
    if made is not error:
        raise made from error


def as_function(value: Any, graph: Any = None) -> GraphFunction:
    """The GraphFunction that a function attribute represents; a name is looked up in `graph`."""
    if isinstance(value, GraphFunction):
        return value
    found = getattr(value, "graph_function", None)
    if found is not None:
        return found
    attrs: dict[str, Any] = {}
    name = value
    if hasattr(value, "attr"):                                  # NameAttrList
        name, attrs = value.name, dict(value.attr)
    if isinstance(name, bytes):
        name = name.decode()
    if not isinstance(name, str):
        if hasattr(value, "definition"):                        # an imported FunctionDef
            return _imported(value, attrs, graph)
        raise TypeError(f"{value!r} is not a function that an op can call.")
    graph = graph if graph is not None else context.current_graph()
    known = graph._get_function(name)
    if known is None:
        raise errors.NotFoundError(None, None, f"Function {name} is not defined in the graph's library.")
    return known if isinstance(known, GraphFunction) else as_function(known, graph) if not attrs \
        else _imported(known, attrs, graph)


def _imported(value: Any, attrs: dict[str, Any], graph: Any) -> GraphFunction:
    """A FunctionDef as a function, cached on the object that holds it."""
    made = value.__dict__.setdefault("_made", {})
    key = tuple(sorted((k, v.SerializeToString(deterministic=True)) for k, v in attrs.items()))
    if key not in made:
        made[key] = _messages().from_definition(value.definition, attrs, graph)
    return made[key]


def add_to_library(graph: Any, function: GraphFunction) -> None:
    """Adds a function, and those that it calls, to the library of a graph."""
    if graph._functions.get(function.name) is function:
        return
    for inner in list(function.graph._functions.values()):
        if isinstance(inner, GraphFunction):
            add_to_library(graph, inner)
        elif graph._get_function(inner.name) is None:
            graph._add_function(inner)
    graph._add_function(function)


def function_name(name: str) -> str:
    """A new function name made of `name`, as TensorFlow forms them."""
    return f"__inference_{re.sub(r'[^A-Za-z0-9_]', '_', name)}_{unique_id()}"


def append_outputs(op: Operation, tensors: list[Tensor], attr: str) -> None:
    """Gives a function-calling op more outputs, shaped like `tensors`; `attr` is its list(type) attribute.

    Tapes that recorded the op see the new outputs.
    """
    new = [Tensor(op, len(op.outputs) + i, t.dtype.base_dtype, t.static_dims) for i, t in enumerate(tensors)]
    watching = [tape for tape in context.state.tapes if any(id(t) in tape._watched for t in op.outputs)]
    op.outputs.extend(new)
    op.attrs[attr] = [*op.attrs[attr], *(t.dtype.base_dtype for t in tensors)]
    if op.attrs.get("output_shapes"):
        op.attrs["output_shapes"] = [*op.attrs["output_shapes"], *(TensorShape.of(t.static_dims) for t in tensors)]
    op.graph._version_changed()
    for tape in watching:
        tape._outputs_added(op, new)


def _messages() -> Any:
    from penstock._src.graph import function_messages  # which builds functions
    return function_messages
