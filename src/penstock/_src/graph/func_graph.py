"""FuncGraph: a graph that is the body of a function.

Ops made inside may use tensors from outside: eager tensors and tensors of the graphs around. Each becomes a *capture*,
a placeholder in here that the caller feeds with the outer tensor. `trace` runs a Python function in a FuncGraph.
"""
from __future__ import annotations

import contextlib
import itertools
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from penstock._src.base import dtypes, errors, nest
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context, random_seed
from penstock._src.graph.convert import const_op, convert
from penstock._src.graph.gradients import is_trainable
from penstock._src.graph.graph import DeviceScope, Graph, waited_for
from penstock._src.graph.handles import handle_dims, handle_dtype
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.recording import record
from penstock._src.graph.side_effects import order_side_effects
from penstock._src.ops.registry import get

_CONSTANT_LIMIT = 128          # the most elements of an eager tensor that is captured as a constant
_SHARED_COLLECTIONS = ("variables", "local_variables", "trainable_variables")
_ids = itertools.count()


def unique_id() -> int:
    """A number unique in this process, for names of functions."""
    return next(_ids)


@export(v2=["__internal__.FuncGraph"])
class FuncGraph(Graph):
    """The graph of a function: `inputs` are placeholders, `outputs` tensors, `captures` what it takes from outside."""

    building_function = True

    def __init__(self, name: str, collections: Any = None, capture_by_value: Any = None, *, scope: str = ""):
        """`scope` precedes the names of all nodes: converters put the nodes of loops and branches into the graph around.

        Names of arguments begin with the graph's name: converters also put a loop's condition into its body.
        """
        super().__init__()
        self.name = name
        self._stacks.name = scope = scope.rstrip("/")
        self._arguments_scope = f"{scope[:scope.rfind('/') + 1]}{name}/" if scope else ""
        self.around: Any = None if context.executing_eagerly() else context.current_graph()    # None: eager execution
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self.control_outputs: list[Operation] = []
        self.structured_input_signature: Any = None
        self.structured_outputs: Any = None
        self.control_captures: dict[Operation, None] = {}
        self._captures: dict[int, tuple[Any, Tensor]] = {}
        self._constants: dict[int, tuple[Any, Tensor]] = {}    # eager tensors captured as constants
        self.watched_variables: dict[int, Any] = {}
        self.backward_of: Any = None                           # the FuncGraph whose gradient this one computes
        self.jit = getattr(self.around, "jit", False)     # its calls wait for the best version (step/tiers)
        self.attributes: dict[str, Any] = {}                   # user-defined attributes for its FunctionDef
        self.streams: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()      # of random numbers, per set of resources
        self.stream_prefix = name
        self.ordered = True                                    # side effects keep program order, also in branches
        self.touched: dict[Any, bool] | None = None            # resources that it uses: see side_effects.py
        self._inherit(collections)

    def continue_streams(self, other: FuncGraph) -> None:
        """Draws on where another trace of the same function stopped: ops of the same name and seeds share their stream."""
        self.streams, self.stream_prefix = other.streams, other.stream_prefix

    @property
    def outer_graph(self) -> Any:
        """The graph around the function. For eager execution that is the default graph, to which nothing is added."""
        return self.around if self.around is not None else context.default_graph()

    def _inherit(self, collections: Any) -> None:
        """Seed, device and variable scopes come from the graph around; variables go to its collections."""
        outer = self.around
        base = outer if outer is not None else context.current_graph()
        self.own_collections = collections is not None         # then variable scopes are its own, too
        if collections is not None:
            self._collections = collections
        elif outer is not None:
            for key in outer.get_all_collection_keys():
                self._collections[key] = outer.get_collection_ref(key) if key in _SHARED_COLLECTIONS \
                    else outer.get_collection(key)
            for key in _SHARED_COLLECTIONS:
                self._collections[key] = outer.get_collection_ref(key)
        self._stacks.variable_creators = (context.creating_graph() if base.symbolic else base)._stacks.variable_creators
        if outer is None:
            self._seed = random_seed.eager_seed()
            if context.state.device:
                self._stacks.devices = (DeviceScope(context.state.device),)
            return
        self._seed = outer._seed
        s, o = self._stacks, outer._stacks
        s.devices, s.colocation, s.container = o.devices, [], o.container
        s.attr_scope, s.gradient_override = dict(o.attr_scope), dict(o.gradient_override)
        self._producer, self._min_consumer = base._producer, base._min_consumer

    # -- captures ---------------------------------------------------------------------------------------------
    def capture(self, tensor: Any, name: str | None = None) -> Tensor:
        """The tensor inside this graph that represents the given one; a new input if it comes from outside."""
        eager = hasattr(tensor, "_value")
        if not eager and tensor.graph is self:
            return tensor
        if eager and _worth_writing(tensor):
            return self._constant(tensor, name)
        if not eager:
            self._check_accessible(tensor)
            inner = self._copied_constant(tensor)
            if inner is not None:
                return inner
        found = self._captures.get(id(tensor))
        if found is None:
            inner = self.placeholder(tensor.dtype.base_dtype, tensor.static_dims, name or
                                     (f"captured_{len(self._captures)}" if eager else tensor.op.name))
            copy_handle_data(tensor, inner)
            self._captures[id(tensor)] = (tensor, inner)
            self.inputs.append(inner)
        else:
            inner = found[1]
        _record_capture(tensor, inner)
        return inner

    def _check_accessible(self, tensor: Tensor) -> None:
        g = tensor.graph
        while isinstance(g, FuncGraph):
            if g is self:
                raise errors.InaccessibleTensorError(
                    f"The tensor '{tensor}' cannot be accessed here: it is defined in another function or code block. Use "
                    f"return values, explicit Python locals or TensorFlow collections to access it. Defined in: "
                    f"{tensor.graph}; accessed from: {self}.")
            g = g.around

    def _constant(self, tensor: Any, name: str | None) -> Tensor:
        """Captures a small eager tensor of a type without gradients as a constant, which shape rules can read."""
        found = self._constants.get(id(tensor))
        if found is None:
            with self.as_default(), self.control_dependencies(None):
                found = tensor, const_op(np.asarray(tensor.numpy()), tensor.dtype, name or "Const")
            self._constants[id(tensor)] = found
        return found[1]

    def _copied_constant(self, tensor: Tensor) -> Tensor | None:
        """When differentiating: copies constants of the forward graph instead of capturing them."""
        op = tensor.op
        if self.backward_of is None or op.graph is not self.backward_of or op.inputs or op.opdef.name != "Const":
            return None
        key = id(tensor)
        found = self._constants.get(key)
        if found is None:
            with self.as_default(), self.control_dependencies(None):
                found = tensor, const_op(op.attrs["value"], op.attrs["dtype"], op.name.rsplit("/", 1)[-1])
            self._constants[key] = found
        return found[1]

    def placeholder(self, dtype: Any, dims: tuple | None, name: str) -> Tensor:
        """An input of the function, outside of every open scope. The caller adds it to `inputs`."""
        with self._root_scope():
            final = self.unique_name(_clean(self._arguments_scope + name))
        op = self.add(get("Placeholder"), final, [], {"dtype": dtype, "shape": TensorShape.of(dims)}, [dtype],
                      device_and_scopes=False)
        op.outputs[0].static_dims = dims
        return op.outputs[0]

    @contextlib.contextmanager
    def _root_scope(self) -> Iterator[None]:
        s = self._stacks
        old, s.name = s.name, ""
        try:
            yield
        finally:
            s.name = old

    def _captured(self, tensor: Any) -> Tensor | None:
        """The placeholder of a captured tensor, or None."""
        found = self._captures.get(id(tensor))
        return None if found is None else found[1]

    @property
    def captures(self) -> list[tuple[Any, Tensor]]:
        """Pairs of outer tensor and placeholder, in order."""
        return list(self._captures.values())

    @property
    def external_captures(self) -> list:
        """The outer tensors."""
        return [outer for outer, _ in self._captures.values()]

    @property
    def internal_captures(self) -> list[Tensor]:
        """The placeholders of the outer tensors."""
        return [inner for _, inner in self._captures.values()]

    @property
    def variables(self) -> tuple:
        """The variables that the function reads or writes."""
        return tuple(self.watched_variables.values())

    @property
    def trainable_variables(self) -> tuple:
        """Those variables that are trainable."""
        return tuple(v for v in self.variables if v.trainable)

    @property
    def output_dtypes(self) -> tuple:
        """The dtypes of the outputs."""
        return tuple(t.dtype for t in self.outputs)

    @property
    def output_shapes(self) -> tuple:
        """The static shapes of the outputs."""
        return tuple(t.shape for t in self.outputs)

    # -- the hooks of Graph -------------------------------------------------------------------------------------
    def control_dependencies(self, control_inputs: Any) -> Any:
        """Turns control dependencies on outer ops into dependencies of the whole function."""
        if control_inputs is None:
            return super().control_dependencies(None)
        inside = []
        for c in map(waited_for, control_inputs):
            element = c._as_graph_element() if hasattr(c, "_as_graph_element") else c
            element = getattr(element, "op", element) if not hasattr(element, "_value") else None
            if element is None:
                continue
            if isinstance(element, Operation) and element.graph is not self:
                if element.graph is not self.backward_of:       # the forward function has run before its gradient
                    self.control_captures[element] = None
            else:
                inside.append(c)
        return super().control_dependencies(inside)

    def _get_function(self, name: str) -> Any:
        """Functions of the graphs around can be called too."""
        found = super()._get_function(name)
        return found if found is not None or self.around is None else self.around._get_function(name)

    def __repr__(self) -> str:
        return f"FuncGraph(name={self.name}, id={id(self)})"


def _clean(name: str) -> str:
    return "".join(c if c.isalnum() or c in "_./-" else "_" for c in name) if name[:1].isalnum() else f"p_{name}"


def _worth_writing(tensor: Any) -> bool:
    if getattr(tensor, "_by_reference", False):            # it may differ when the function runs
        return False
    return not is_trainable(tensor) and np.prod(tensor.static_dims, dtype=float) <= _CONSTANT_LIMIT


def _record_capture(outer: Any, inner: Tensor) -> None:
    if context.state.tapes:
        record(None, [outer], [inner], lambda g: [g])


def copy_handle_data(source: Any, target: Any) -> None:
    """A handle that represents another one points at a variable of the same type and shape."""
    if source.dtype != dtypes.resource:
        return
    if hasattr(source, "_value") and not hasattr(source, "_handle_dtype") and not hasattr(source._value, "dims"):
        return                                                 # not a variable
    dtype = handle_dtype(source)
    if dtype is not None:
        target._handle_dtype, target._handle_dims = dtype, handle_dims(source)


# -- tracing ----------------------------------------------------------------------------------------------------
class _Watcher:
    """A tape entry that records the variables read or written while a function is traced."""

    _watch_variables = notes_all_variables = True

    def __init__(self, graph: FuncGraph):
        self._graph = graph
        self._watched: dict[int, Any] = {}

    def _watch_variable(self, variable: Any) -> None:
        self._graph.watched_variables.setdefault(id(getattr(variable, "_handle", variable)), variable)


@contextlib.contextmanager
def building(graph: FuncGraph) -> Iterator[FuncGraph]:
    """Makes `graph` the default, and records the variables that are read."""
    watcher = _Watcher(graph)
    old = context.state.tapes
    context.state.tapes = (*old, watcher)
    try:
        with graph.as_default():
            yield graph
    finally:
        context.state.tapes = tuple(t for t in context.state.tapes if t is not watcher)


def trace(graph: FuncGraph, function: Callable, args: Any = (), kwargs: Any = None, *, ordered: bool = True,
          op_return_value: Any = None, of: Any = None, named: bool = False) -> FuncGraph:
    """Runs a Python function in `graph`: its results become the outputs.

    `ordered` keeps side effects in program order and runs all of them. `of` is the user's function, for messages. `named`
    gives each output a node of its own, `Identity` and so on: programs find the outputs of frozen functions by these names.
    """
    graph.ordered = ordered
    with building(graph):
        result = function(*args, **(kwargs or {}))
        result = nest.map_structure(lambda x: _output(graph, x, op_return_value, of or function), result,
                                    expand_composites=True)
        if named:
            result = nest.map_structure(lambda x: _named(graph, x), result, expand_composites=True)
        graph.structured_outputs = result
        graph.outputs = [graph.capture(flow(t)) for t in nest.flatten(result, expand_composites=True) if t is not None]
        if ordered:
            graph.control_outputs = order_side_effects(graph)
    return graph


def flow(x: Any) -> Any:
    """The tensor that represents a TensorArray in loops and functions; other values are returned unchanged."""
    return x.flow if getattr(x, "_is_tensor_array", False) else x


def _output(graph: FuncGraph, x: Any, op_return_value: Any, traced: Any) -> Any:
    if x is None or getattr(x, "_is_tensor_array", False):
        return x
    if isinstance(x, Operation):
        if op_return_value is None:
            raise TypeError(f"To be compatible with tf.function, Python functions must return zero or more Tensors or "
                            f"ExtensionTypes or None values; in compilation of {traced!r}, found return value of type "
                            f"{type(x).__name__}, which is not a Tensor or ExtensionType.")
        with graph.control_dependencies([x]):
            return get("Identity")(op_return_value)
    if isinstance(x, types.GeneratorType):
        raise TypeError(f"To be compatible with tf.function, Python functions must return zero or more Tensors or "
                        f"ExtensionTypes or None values; {traced!r} is a generator.")
    try:
        t = convert(x)
    except (ValueError, TypeError) as e:
        raise TypeError(f"To be compatible with tf.function, Python functions must return zero or more Tensors or "
                        f"ExtensionTypes or None values; in compilation of {traced!r}, found return value of type "
                        f"{type(x).__name__}, which is not a Tensor or ExtensionType.") from e
    return t


def _named(graph: FuncGraph, x: Any) -> Any:
    if not isinstance(x, Tensor) or x.dtype in (dtypes.resource, dtypes.variant):
        return x
    x = graph.capture(x)
    with graph.colocate_with(x.op):                            # where the value is made
        return get("Identity")(x)
