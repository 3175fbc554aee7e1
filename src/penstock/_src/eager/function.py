"""tf.function: traces a Python function into graphs, one per signature, and runs those.

`Function` finds the trace for the arguments, or creates a new one. `ConcreteFunction` is one trace:
a FuncGraph with the tensors that it captured, callable on tensors. Variables may be created in the first trace only:
they are made outside of the graph, and the function is traced again without them.
"""
from __future__ import annotations

import contextlib
import functools
import inspect
import operator
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from penstock._src.base import dtypes, errors, nest
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.base.tracebacks import shorten
from penstock._src.eager.binding import Binding
from penstock._src.eager.function_spec import FunctionSpec, Weak, covered, describe, is_variable, relaxed, spec_of, with_tensors
from penstock._src.eager.function_type import Callable as TypedCallable
from penstock._src.eager.function_type import FunctionType
from penstock._src.eager.lift import evaluated, lifted
from penstock._src.eager.retracing import history_of
from penstock._src.execute.context import eager_context
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.eager_tensor import EagerTensor
from penstock._src.graph.engine import engine
from penstock._src.graph.func_graph import FuncGraph, trace
from penstock._src.graph.functions import GraphFunction, add_to_library, function_name
from penstock._src.graph.node import Tensor
from penstock._src.graph.recording import variable_accessed
from penstock._src.graph.scopes import init_scope, variable_creator_scope
from penstock._src.graph.strategies import active_frame, exports_copies
from penstock._src.graph.type_spec import TensorSpec, TypeSpec
from penstock._src.ops.control.functional import call
from penstock._src.ops.control.functional_control import rebuild

_MOST_QUICK = 256                       # combinations of types and shapes with a fast lookup

OBSERVERS: list[Callable] = []          # called with each function that is called (tf.summary.trace_on)


class _Settings:
    eagerly = False                       # tf.config.run_functions_eagerly


@export("config.experimental_run_functions_eagerly", "config.run_functions_eagerly")
def run_functions_eagerly(run_eagerly: bool) -> None:
    """Makes every tf.function call its Python function, for debugging.

    Args:
        run_eagerly: Whether to do so from now on.

    Returns:
        None.

    >>> tf.config.run_functions_eagerly(True)
    >>> print(tf.function(lambda x: float(x) + 1.0)(tf.constant(2.0)))
    3.0
    >>> tf.config.run_functions_eagerly(False)
    """
    _Settings.eagerly = bool(run_eagerly)


@export("config.functions_run_eagerly", "config.experimental_functions_run_eagerly")
def functions_run_eagerly() -> bool:
    """Whether tf.functions call their Python functions."""
    return _Settings.eagerly


@export("experimental.function_executor_type")
@contextlib.contextmanager
def function_executor_type(executor_type: str | None) -> Iterator[None]:
    """A context that selects one of TensorFlow's executors. All known names select the same one here."""
    if executor_type not in (None, "", "DEFAULT", "SINGLE_THREADED_EXECUTOR"):
        raise errors.NotFoundError(None, None, f"No executor factory registered for the executor type: {executor_type}")
    yield


class ConcreteFunction:
    """One trace of a function: takes tensors, returns tensors."""

    def __init__(self, graph: FuncGraph, arg_count: int, name: str | None = None, arg_names: list[str] | None = None,
                 signature: inspect.Signature | None = None):
        self.graph, self._arg_count, self._signature = graph, arg_count, signature
        self.graph_function = GraphFunction(graph, name)
        self._arg_names = arg_names
        self.captured_inputs = graph.external_captures
        self._ready: _Ready | None = None

    name = property(lambda self: self.graph_function.name.encode(), doc="The name in the function library, as bytes.")
    inputs = property(lambda self: self.graph.inputs, doc="The input placeholders: arguments, then captures.")
    outputs = property(lambda self: self.graph.outputs, doc="The output tensors, flattened.")
    variables = property(lambda self: self.graph.variables, doc="The variables it uses.")
    trainable_variables = property(lambda self: self.graph.trainable_variables, doc="The trainable variables among them.")
    structured_outputs = property(lambda self: self.graph.structured_outputs, doc="The outputs as the function returns them.")
    structured_input_signature = property(lambda self: self.graph.structured_input_signature,
                                          doc="(args, kwargs) with TensorSpecs for tensors.")
    output_dtypes = property(lambda self: self._of_outputs("dtype"), doc="The dtypes of the outputs, in their structure.")
    output_shapes = property(lambda self: self._of_outputs("shape"), doc="The static shapes of the outputs, structured.")

    def _of_outputs(self, attribute: str) -> Any:
        """An attribute of each output; None for one that is None."""
        return nest.map_structure(lambda t: None if t is None else getattr(t, attribute), self.graph.structured_outputs)

    def pretty_printed_signature(self, verbose: bool = True) -> str:
        """The signature as text, over several lines or one."""
        return self.function_type.described() if verbose else str(self.function_type)

    @property
    def function_type(self) -> FunctionType:
        """The signature of the Python function with the types of this trace; of tensors by name where there is none."""
        if self._signature is not None and self.structured_input_signature is not None:
            return FunctionType.of_trace(self._signature, self.structured_input_signature, self.structured_outputs)
        names = self._arg_names or [f"args_{i}" for i in range(self._arg_count)]
        signature = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names])
        return FunctionType.of_trace(signature, (tuple(self.graph.inputs[:self._arg_count]), {}), self.structured_outputs)

    @property
    def inference_fn(self) -> ConcreteFunction:
        """The function for calls outside of tapes: this one, which creates gradient functions on demand."""
        return self

    @property
    def function_def(self) -> Any:
        """The FunctionDef message."""
        return self.graph_function.definition

    @property
    def captures(self) -> list:
        """Pairs of captured tensor and placeholder."""
        return self.graph.captures

    def add_to_graph(self, g: Any = None) -> None:
        """Adds the function to the library of a graph."""
        add_to_library(g if g is not None else context.current_graph(), self.graph_function)

    def add_gradient_functions_to_graph(self, g: Any = None) -> None:
        """Does nothing: gradient functions are added to a graph when gradients are taken in it."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function with tensors, by position or by name."""
        return self.call_flat(self.flat_arguments(args, kwargs))

    def flat_arguments(self, args: tuple, kwargs: dict[str, Any]) -> list:
        """The tensors that arguments represent, in order."""
        return self._converted(self._binding.flat(args, kwargs))

    def _converted(self, values: list) -> list:
        return [self._argument(a, p) for a, p in zip(values, self.graph.inputs, strict=False)]

    def _call_with_flat_signature(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Calls the function with tensors one by one, by position or by name."""
        return self.call_flat(self._converted(self._binding.one_by_one(list(args), kwargs)))

    @functools.cached_property
    def _binding(self) -> Binding:
        names = self._arg_names or [f"args_{i}" for i in range(self._arg_count)]
        specs = [TensorSpec(TensorShape.of(t.static_dims), t.dtype) for t in self.graph.inputs[:self._arg_count]]
        return Binding(self.graph.name, names, specs, self._signature, self.structured_input_signature)

    def _argument(self, a: Any, p: Tensor) -> Any:
        if is_variable(a):
            return a.handle if p.dtype == dtypes.resource else convert(a)
        t = convert(a, None if isinstance(a, Tensor) else p.dtype)
        if t.dtype.base_dtype != p.dtype:
            raise errors.invalid(f"{self.graph_function.name}: argument '{p.op.name}' has dtype {t.dtype.name}, "
                                 f"expected {p.dtype.name}")
        return t

    def is_named_otherwise(self, arguments: list) -> bool:
        """Whether the TensorSpecs among arguments have other names than the function was traced with."""
        return any(isinstance(a, TensorSpec) and a.name and a.name.encode() != t.op._extra.get("_user_specified_name")
                   for a, t in zip(arguments, self.graph.inputs, strict=False))

    def explain(self) -> str:
        """The step that calls from eager code run, as text; nothing is run. See `tf.function(...).explain`."""
        ctx = eager_context()
        bound = self._prepared(ctx).bound
        return (bound or engine.bodies.bound(self.graph_function, ctx, {})).explained()

    def _prepared(self, ctx: Any) -> _Ready:
        if self._ready is None or not self._ready.fits(ctx, self.captured_inputs):
            self._ready = _Ready(self, ctx)
        return self._ready

    def call_flat(self, tensors: Any) -> Any:
        """Calls the function with exactly the tensors that its arguments represent."""
        for observe in OBSERVERS:
            observe(self)
        if not context.state.tapes and engine.elsewhere is None and context.executing_eagerly():
            ctx = eager_context()
            ready = self._prepared(ctx)
            if ready.bound is not None and all([type(t) is EagerTensor for t in tensors]):
                return ready.pack(ready.run(ctx, tensors))
        if context.state.tapes:
            for v in self.graph.variables:
                variable_accessed(v)
        outputs = call(self.graph_function, [*tensors, *self.captured_inputs])
        return self._structured(outputs)

    def _structured(self, outputs: list) -> Any:
        return _packing(self.graph.structured_outputs)(outputs)

    def __repr__(self) -> str:
        return f"<ConcreteFunction {self.pretty_printed_signature(False)} at {id(self):#x}>"

    def __str__(self) -> str:
        return f"ConcreteFunction {self.pretty_printed_signature()}"


class _Ready:
    """The parts of a trace that an eager call outside of tapes needs, computed once: a step compiled for the captured values,
    the types of its results, and their structure."""

    __slots__ = ("bound", "_captured", "_dtypes", "_resources", "pack")

    def __init__(self, concrete: ConcreteFunction, ctx: Any):
        function, first = concrete.graph_function, concrete._arg_count
        self._captured, self._resources = concrete.captured_inputs, ctx.resources
        self._dtypes = [t.dtype.base_dtype for t in function.outputs]
        self.pack = _packing(concrete.graph.structured_outputs)
        simple = all(type(t) is EagerTensor for t in self._captured) and \
            not any(t.dtype in (dtypes.resource, dtypes.variant) for t in (*function.inputs[:first], *function.outputs))
        held = {first + i: t._value for i, t in enumerate(self._captured)} if simple else {}
        self.bound = engine.bodies.bound(function, ctx, held) if simple else None

    def fits(self, ctx: Any, captured: list) -> bool:
        """Whether it is valid for these resources and captures."""
        return self._resources is ctx.resources and self._captured is captured

    def run(self, ctx: Any, tensors: Any) -> list:
        """The results of a call."""
        values = self.bound.run(ctx, [t._value for t in tensors])       # type: ignore[union-attr]
        return [EagerTensor(v, d) for v, d in zip(values, self._dtypes, strict=True)]


def _packing(like: Any) -> Callable[[list], Any]:
    """A function that packs a list of outputs into a structure."""
    kind = type(like)
    if kind is Tensor:
        return lambda outputs: outputs[0]
    if kind in (list, tuple) and all(type(t) is Tensor for t in like):
        return kind
    return functools.partial(rebuild, like)


export.value(ConcreteFunction, "__internal__.ConcreteFunction", v2=["types.experimental.ConcreteFunction"])


class TooDeep(errors.ResourceExhaustedError, RecursionError):
    """A function calls itself without end."""


class _Trace:
    """The key of a signature: structure, dtypes and values, without shapes; and the traces by shapes."""

    __slots__ = ("by_shapes", "exported", "_served")

    def __init__(self, exported: bool) -> None:
        self.exported = exported              # for a SavedModel, with one copy of each variable
        self.by_shapes: dict[tuple, ConcreteFunction] = {}
        self._served: dict[tuple, ConcreteFunction] = {}        # shapes that a trace for more general ones serves

    def add(self, shapes: tuple, concrete: ConcreteFunction) -> None:
        """Adds a trace, which may serve shapes better than those before it."""
        self.by_shapes[shapes] = concrete
        self._served.clear()

    def find(self, shapes: tuple) -> ConcreteFunction | None:
        """The trace for these shapes, or the one for the least general shapes that cover them."""
        found = self.by_shapes.get(shapes) or self._served.get(shapes)
        if found is None:
            covering = [s for s in self.by_shapes if covered(s, shapes)]
            if covering:
                found = self._served[shapes] = self.by_shapes[max(covering, key=_known_dimensions)]
        return found


def _known_dimensions(shapes: tuple) -> int:
    return sum(1 + sum(d is not None for d in s) for s in shapes if s is not None)


class Function:
    """The callable that tf.function makes."""

    def __init__(self, python_function: Callable, name: str | None = None, input_signature: Any = None,
                 autograph: bool = True, reduce_retracing: bool | None = False, is_method: bool = False,
                 jit: bool | None = None, attributes: dict[str, Any] | None = None, autograph_options: Any = None):
        self._python_function, self._jit_compile = python_function, jit
        self._attributes, self._experimental_autograph_options = attributes or {}, autograph_options
        self._name = name or str(getattr(python_function, "__name__", type(python_function).__name__))
        self._given_signature, self._autograph, self._reduce_retracing = input_signature, autograph, reduce_retracing
        self._is_method = is_method
        self._spec = FunctionSpec(python_function, input_signature, is_method)
        self._traces: dict[Any, _Trace] = {}
        self._created: list[Any] | None = None        # variables of the first trace; None before it
        self._building_first = False
        self._lock = threading.RLock()
        self._trace_count = 0
        self._history = history_of(python_function)
        self._methods: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._quick: dict[tuple, ConcreteFunction] = {}      # traces by the types and shapes of arguments, all of them tensors
        functools.update_wrapper(self, python_function)

    python_function = property(lambda self: self._python_function, doc="The function that is traced.")
    function_spec = property(lambda self: self._spec, doc="Its signature.")
    input_signature = property(lambda self: self._spec.input_signature, doc="The TensorSpecs asked for, or None.")

    def _list_all_concrete_functions(self, exported: bool = False) -> list[ConcreteFunction]:
        return [c for t in list(self._traces.values()) if t.exported is exported for c in t.by_shapes.values()]

    def _list_all_concrete_functions_for_serialization(self) -> list[ConcreteFunction]:
        """The traces; the one of the input signature, if there are none yet. Traces that may change each copy of a distributed
        variable are made again, for the one copy that is saved."""
        exported = exports_copies()
        if exported:
            with init_scope():
                for c in self._list_all_concrete_functions():
                    args, kwargs = c.structured_input_signature
                    self.get_concrete_function(*args, **kwargs)
        if not self._list_all_concrete_functions(exported) and self.input_signature is not None:
            self.get_concrete_function()
        return self._list_all_concrete_functions(exported)

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, ConcreteFunction]:
        """The traces, which only SavedModels keep."""
        if save_type == "checkpoint":
            return {}
        return {f"trace_{i}": c for i, c in enumerate(self._list_all_concrete_functions_for_serialization())}

    @property
    def function_type(self) -> FunctionType:
        """The signature as a FunctionType."""
        return FunctionType.of(self._spec.signature)

    def pretty_printed_concrete_signatures(self, verbose: bool = True) -> str:
        """The signatures of all traces as text, over several lines each, or one."""
        texts = [c.pretty_printed_signature(verbose) for c in self._list_all_concrete_functions()]
        return ("\n\n" if verbose else "\n").join(texts)

    def experimental_get_tracing_count(self) -> int:
        """How often the Python function has been traced."""
        return self._trace_count

    _get_tracing_count = experimental_get_tracing_count          # an earlier name

    def _decorate(self, decorator: Callable) -> None:
        if self._created is not None:
            raise ValueError(f"Functions cannot be decorated after they have been traced. ({self._name})")
        self._python_function = decorator(self._python_function)
        self._spec = FunctionSpec(self._python_function, self._given_signature, self._is_method)

    def _clone(self, python_function: Callable | None = None) -> Function:
        """An untraced copy with the same options, optionally of another Python function."""
        return Function(python_function or self._python_function, self._name, **self._options(), is_method=self._is_method)

    def __reduce__(self) -> Any:
        """Pickles the Python function and the options; the traces are made again where it is loaded."""
        return _unpickled, (self._python_function, self._name, self._is_method, self._options())

    def _options(self) -> dict[str, Any]:
        """The options it was created with, as keyword arguments."""
        return {"input_signature": self._given_signature, "autograph": self._autograph, "jit": self._jit_compile,
                "reduce_retracing": self._reduce_retracing, "attributes": self._attributes,
                "autograph_options": self._experimental_autograph_options}

    def __get__(self, instance: Any, owner: Any) -> Any:
        """As a method: one Function per instance, which does not keep the instance alive."""
        if instance is None:
            return self
        try:
            found = self._methods.get(instance)
        except TypeError:
            return self._bound(lambda: instance)
        if found is None:
            found = self._methods[instance] = self._bound(weakref.ref(instance))
        return found

    def _bound(self, instance: Callable) -> Function:
        function = self._python_function

        def method(*args: Any, **kwargs: Any) -> Any:
            return context.traced_as(function)(instance(), *args, **kwargs)
        functools.update_wrapper(method, function)
        method.__signature__ = _without_first(function)  # type: ignore[attr-defined]
        return Function(method, self._name, **self._options())

    # -- calling ------------------------------------------------------------------------------------------------------
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the trace that fits the arguments."""
        if _Settings.eagerly:
            return self._python_function(*args, **kwargs)
        try:
            self._history.calls += 1
            key = None if kwargs else _quick_key(args)
            concrete = self._quick.get(key) if key is not None else None
            if concrete is not None:
                return concrete.call_flat(args)
            with self._lock:                                   # the traces of other threads are not this call's
                traces = self._trace_count
                concrete, tensors = self._choose(args, kwargs)
                if traces != self._trace_count and context.executing_eagerly():
                    self._history.traced(self._name)
            if key is not None and len(tensors) == len(args) and all(map(operator.is_, tensors, args)):
                if len(self._quick) >= _MOST_QUICK:
                    self._quick.clear()
                self._quick[key] = concrete
            return concrete.call_flat(tensors)
        except Exception as e:
            shorten(e, between=True)
            raise

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The trace for some arguments; TensorSpecs may represent tensors.

        >>> f.get_concrete_function(tf.TensorSpec([None, 3], tf.float32))
        """
        if self._spec.input_signature is not None and not args and not kwargs:
            args = self._spec.input_signature
        concrete, _ = self._choose(args, kwargs, named=True)
        return concrete

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """The step of the trace for some arguments, as text: the tier for each set of shapes, and why it is not a higher one;
        the program; and for compiled steps the kernels, the memory plan and the generated source. Nothing is run.

        >>> print(f.explain(tf.TensorSpec([None, 3], tf.float32)))
        # 2 ops
        # f0: x:0 float32[?,3]
        def step(ctx, f0):
            t1 = MatMul(f0, f0)               # MatMul: MatMul -> float32[?,3]
        ...
        """
        return self.get_concrete_function(*args, **kwargs).explain()

    def experimental_get_compiler_ir(self, *args: Any, **kwargs: Any) -> Callable:
        """A function of `stage` that returns the compiled program for some arguments as text, as `explain` does.

        There is no HLO: stages that ask for it in a binary form, and those of other platforms, raise ValueError.

        >>> f = tf.function(lambda x: 2.0 * x, jit_compile=True)
        >>> print(f.experimental_get_compiler_ir(tf.constant(1.0))(stage="optimized_hlo"))
        """
        if not self._jit_compile:
            raise ValueError("Compiler IR can only be returned for functions marked with 'jit_compile=True'.")

        def text(stage: str = "hlo", device_name: str | None = None, platform_name: str | None = None) -> str:
            if stage not in ("hlo", "hlo_no_metadata", "optimized_hlo") or \
                    stage == "optimized_hlo" and platform_name not in (None, "CPU"):
                raise ValueError("GetCompilerIr with requested stage is not supported on this device: "
                                 f"{stage!r} for {platform_name or device_name or 'CPU'}. Programs are not compiled to HLO; "
                                 "their text is returned for the stages 'hlo', 'hlo_no_metadata' and 'optimized_hlo'.")
            return self.explain(*args, **kwargs)
        return text

    def _choose(self, args: tuple, kwargs: dict[str, Any], named: bool = False) -> tuple[ConcreteFunction, list]:
        args, kwargs = self._spec.canonicalize(args, kwargs)
        args, kwargs = with_tensors(args), with_tensors(kwargs)
        described, tensors, shapes = self._described(args, kwargs)
        key = (_surroundings(), *described)
        with self._lock:
            known = self._traces.get(key)
            if known is None:
                known = self._traces[key] = _Trace(exports_copies())
            concrete = known.find(tuple(shapes))
            if concrete is None or named and concrete.is_named_otherwise(tensors):
                concrete = self._make(known, args, kwargs, tensors, shapes, named)
        return concrete, tensors

    def _described(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, list, list]:
        """A key of the arguments, their tensors, and the shapes that a trace is for: shapes of the tensors, then those that
        sparse arguments declare."""
        tensors: list = []
        shapes: list = []
        declared: list = []
        key = describe(args, tensors, shapes, declared), describe(kwargs, tensors, shapes, declared) if kwargs else None
        if self._spec.flat_signature is not None:
            fixed = [s.shape.static_dims for s in self._spec.flat_signature]
            shapes[:len(fixed)] = fixed
            declared[:len(self._spec.declared_signature)] = self._spec.declared_signature
        return key, tensors, shapes + declared

    def _make(self, known: _Trace, args: tuple, kwargs: dict[str, Any], tensors: list, shapes: list,
              named: bool) -> ConcreteFunction:
        if self._reduce_retracing and known.by_shapes:
            for other in known.by_shapes:
                shapes = [relaxed(a, b) for a, b in zip(other, shapes, strict=True)]
            if tuple(shapes) in known.by_shapes:
                return known.by_shapes[tuple(shapes)]
        if self._created is None and not self._building_first:
            self._first_trace(args, kwargs, tensors, shapes, named)
            if not self._created:
                concrete = self._first
                self._first = None
                known.add(tuple(shapes), concrete)
                return concrete
        concrete = self._traced(args, kwargs, tensors, shapes, named, _NoVariables(self))
        known.add(tuple(shapes), concrete)
        return concrete

    _first: Any = None

    def _first_trace(self, args: tuple, kwargs: dict[str, Any], tensors: list, shapes: list, named: bool) -> None:
        """The trace in which variables may be created. If there are any, it is not used."""
        self._building_first = True
        try:
            creator = _Creator(tensors)
            self._first = self._traced(args, kwargs, tensors, shapes, named, creator)
            self._created = creator.created
        finally:
            self._building_first = False

    # -- tracing ------------------------------------------------------------------------------------------------------
    def _traced(self, args: tuple, kwargs: dict[str, Any], tensors: list, shapes: list, named: bool,
                creator: Callable) -> ConcreteFunction:
        try:
            return self._traced_once(args, kwargs, tensors, shapes, named, creator)
        except RecursionError as e:
            raise TooDeep(None, None, f"Tracing {self._name} went deeper than Python's recursion limit. A function that calls "
                          "itself must end by a condition on Python values.") from e

    def _traced_once(self, args: tuple, kwargs: dict[str, Any], tensors: list, shapes: list, named: bool,
                     creator: Callable) -> ConcreteFunction:
        graph = FuncGraph(self._name)
        graph.jit = graph.jit or bool(self._jit_compile)
        graph.attributes = self._attributes
        names = _argument_names(self._spec, args, kwargs)
        specs = [spec_of(t, s, n) for t, s, n in zip(tensors, shapes[:len(tensors)], names, strict=True)]
        graph.inputs = [graph.placeholder(s.dtype, s.shape.static_dims, s.name or "args") for s in specs]
        for t, n in zip(graph.inputs, names, strict=True):
            t.op._extra["_user_specified_name"] = n.encode()
        own = list(graph.inputs)
        for variable, n in _variables_among(self._spec, args, kwargs):
            graph.capture(variable.handle, n).op._extra["_user_specified_name"] = n.encode()
        with graph.as_default():
            call_args, call_kwargs = _replaced(_undeclared(args), _undeclared(kwargs), own)
            _declare_shapes((call_args, call_kwargs), shapes[len(tensors):])
        graph.structured_input_signature = _described(_as_traced(args, call_args), _as_traced(kwargs, call_kwargs), specs)
        self._trace_count += 1
        with _Resources():
            if isinstance(creator, _Creator):
                creator.graph = graph

            from penstock._src.eager.autograph.convert import converter  # loaded by the first trace
            rewrite = converter(self._experimental_autograph_options) if self._autograph else None

            def call(*a: Any, **k: Any) -> Any:
                with variable_creator_scope(creator), context.autograph(rewrite):
                    return context.traced_as(self._python_function)(*a, **k)
            ordered = not self._attributes.get("_disable_acd")
            trace(graph, call, call_args, call_kwargs, ordered=ordered, of=self._python_function, named=ordered)
        _check_unchanged(self._name, args, kwargs, call_args, call_kwargs, own)
        graph.inputs = own + graph.internal_captures
        return ConcreteFunction(graph, len(own), function_name(self._name),
                                [re.sub(r"[^A-Za-z0-9_]", "_", t.op.name) for t in own], self._spec.signature)

    def get_initialization_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """A function that initializes the variables which the first trace creates."""
        if self._created is not None:
            raise RuntimeError("get_initialization_function cannot be called after the function has been used")
        args, kwargs = self._spec.canonicalize(args, kwargs)
        args, kwargs = with_tensors(args), with_tensors(kwargs)
        _, tensors, shapes = self._described(args, kwargs)
        self._first_trace(args, kwargs, tensors, shapes, True)
        created: Any = self._created or ()
        values = [(v, v.read_value()) for v in created]
        for variable, _ in values:
            variable.handle._value.value = None

        def initialize() -> None:
            for variable, value in values:
                variable.assign(value)
        return Function(initialize).get_concrete_function()

    def __repr__(self) -> str:
        return f"<penstock.eager.function.Function {self._name}>"


def _unpickled(python_function: Callable, name: str, is_method: bool, options: dict[str, Any]) -> Function:
    return Function(python_function, name, is_method=is_method, **options)


TypedCallable.register(ConcreteFunction)
TypedCallable.register(Function)
export.value(Function, "__internal__.Function", "__internal__.function.Function",
             v2=["types.experimental.PolymorphicFunction", "types.experimental.GenericFunction"])


def _without_first(function: Callable) -> Any:
    import inspect
    signature = inspect.signature(function)
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def _quick_key(args: tuple) -> tuple | None:
    """A cache key for eager tensors in eager mode; None for other arguments, which need a full description."""
    if not context.executing_eagerly():
        return None
    key: list = [context.state.device, _replica()]
    for a in args:
        if type(a) is not EagerTensor or a.dtype.torch is None:
            return None
        key.append(a.dtype)
        key.append(a._value.shape)
    return tuple(key)


def _surroundings() -> tuple:
    """The context that a trace depends on besides its arguments: the outermost graph, or the device in eager mode; the replica,
    because variables are read from its copies; and whether one copy of each is being saved."""
    if context.executing_eagerly():
        return context.state.device, _replica(), exports_copies()
    graph: Any = context.current_graph()
    while getattr(graph, "building_function", False):
        graph = graph.around
    return None if graph is None else Weak(graph), _replica(), exports_copies()


def _replica() -> Any:
    """What identifies the strategy that this thread is under, and its replica."""
    found = active_frame()
    return None if found is None else (Weak(found.strategy), found.replica is None, found.index)


def _argument_names(spec: FunctionSpec, args: tuple, kwargs: dict[str, Any]) -> list[str]:
    """A name for every tensor among the arguments: its TensorSpec's, or that of the parameter."""
    by_clean: dict[str, str] = {}
    for k in kwargs:
        other = by_clean.setdefault(re.sub(r"[^A-Za-z0-9_]", "_", k), k)
        if other != k:
            raise ValueError(f"Name collision after sanitization. Arguments {other!r} and {k!r} have the same name in graphs.")
    return [n for value, base in _by_parameter(spec, args, kwargs) for n in _names_in(value, base)]


def _by_parameter(spec: FunctionSpec, args: tuple, kwargs: dict[str, Any]) -> list[tuple[Any, str]]:
    """The arguments with the names of their parameters."""
    rest = spec.vararg_name or "args"
    known = len(spec.arg_names)
    out = [(value, spec.arg_names[i] if i < known else f"{rest}_{i - known}") for i, value in enumerate(args)]
    return out + [(kwargs[k], k) for k in sorted(kwargs)]


def _variables_among(spec: FunctionSpec, args: tuple, kwargs: dict[str, Any]) -> list[tuple[Any, str]]:
    """The variables among the arguments, with the names of their parameters."""
    return [(v, base) for value, base in _by_parameter(spec, args, kwargs) for v in nest.flatten(value) if is_variable(v)]


def _names_in(value: Any, base: str) -> list[str]:
    flat = nest.flatten(value, expand_composites=True)
    return [getattr(v, "name", None) or base if isinstance(v, TensorSpec) else base for v in flat
            if isinstance(v, (Tensor, TensorSpec))]


def _replaced(args: tuple, kwargs: dict[str, Any], new: list) -> tuple[tuple, dict[str, Any]]:
    """Arguments with their tensors (and specs) replaced in order."""
    it = iter(new)

    def put(x: Any) -> Any:
        flat = [next(it) if isinstance(v, (Tensor, TensorSpec)) else v for v in nest.flatten(x, expand_composites=True)]
        return nest.pack_sequence_as(x, flat, expand_composites=True)
    return put(tuple(args)), {k: put(kwargs[k]) for k in sorted(kwargs)}


def _described(args: tuple, kwargs: dict[str, Any], specs: list) -> tuple[tuple, dict[str, Any]]:
    """Arguments with a spec in place of each tensor, in order, and of each composite tensor, which may have no tensors."""
    it = iter(specs)

    def spec(v: Any) -> Any:
        if isinstance(v, (Tensor, TensorSpec)):
            return next(it)
        if not _is_composite(v):
            return v
        for part in nest.flatten(v, expand_composites=True):
            if isinstance(part, (Tensor, TensorSpec)):
                next(it)
        return v if isinstance(v, TypeSpec) else v._type_spec
    return nest.map_structure(spec, tuple(args)), {k: nest.map_structure(spec, kwargs[k]) for k in sorted(kwargs)}


def _undeclared(x: Any) -> Any:
    """Arguments with a type of unknown shape in place of each sparse or ragged one: its shape may differ from the trace's."""
    def without(v: Any) -> Any:
        return getattr(v, "_type_spec", v)._undeclared() if hasattr(v, "declared_shape") else v
    return nest.map_structure(without, x)


def _as_traced(x: Any, made: Any) -> Any:
    """Arguments with the traced one in place of each sparse or ragged one."""
    return nest.map_structure(lambda v, new: new if hasattr(v, "declared_shape") else v, x, made)


def _declare_shapes(made: Any, declared: list) -> None:
    """Sets the static shapes of sparse and ragged arguments, which their tensors do not tell; the trace is for these shapes
    only."""
    for argument, dims in zip([v for v in nest.flatten(made) if hasattr(v, "declared_shape")], declared, strict=True):
        argument._declare_shape(TensorShape.of(dims))


def _is_composite(v: Any) -> bool:
    """Whether a value is a composite tensor, or the spec of one."""
    return isinstance(v, TypeSpec) and not isinstance(v, TensorSpec) or \
        hasattr(type(v), "_type_spec") and not isinstance(v, Tensor)


def _check_unchanged(name: str, args: tuple, kwargs: dict[str, Any], call_args: tuple, call_kwargs: dict[str, Any],
                     own: list) -> None:
    """Raises if a function has changed its arguments, which calls of the trace would not."""
    now = [v for v in nest.flatten((call_args, [call_kwargs[k] for k in sorted(call_kwargs)]), expand_composites=True)
           if isinstance(v, Tensor)]
    same = len(now) == len(own) and all(a is b for a, b in zip(now, own, strict=True))
    try:
        nest.assert_same_structure((args, kwargs), (call_args, call_kwargs), check_types=False)
    except (TypeError, ValueError):
        same = False
    if not same:
        raise ValueError(f"{name}() should not modify its Python input arguments, as a Function to be traced should not modify "
                         "structure of input arguments. Check if your function has list and dictionary operations that alter "
                         "input arguments, such as `list.pop`, `list.append`")


class _Resources:
    """Variables created while tracing are resource variables."""

    def __enter__(self) -> None:
        self._old = context.process.resource_variables
        context.process.resource_variables = True

    def __exit__(self, *exc: Any) -> None:
        context.process.resource_variables = self._old


# -- variables ------------------------------------------------------------------------------------------------------
class _NoVariables:
    """The variable creator for all traces after the first."""

    def __init__(self, owner: Function):
        self._owner = weakref.ref(owner)

    def __call__(self, next_creator: Callable, **kwargs: Any) -> Any:
        raise ValueError("tf.function-decorated function tried to create variables on non-first call. tf.function only "
                         "supports singleton tf.Variables created on the first call. Create the variable outside of the "
                         "function, or only if an attribute that keeps it is None.")


class _Creator:
    """Creates variables outside of the graph that is being traced: eagerly, or in the outer graph."""

    def __init__(self, tensors: list):
        self.graph: FuncGraph = None  # type: ignore[assignment]
        self.tensors = tensors
        self.created: list[Any] = []

    def __call__(self, next_creator: Callable, **kwargs: Any) -> Any:
        value = kwargs.get("initial_value")
        if isinstance(value, Tensor) and not hasattr(value, "_value"):
            kwargs["initial_value"] = self._lifted(value)
            if kwargs.get("shape") is None and not value.shape.is_fully_defined():
                kwargs["shape"] = value.shape
        elif callable(value) and not isinstance(value, Tensor):
            kwargs["initial_value"] = value
        with init_scope():
            made = next_creator(**kwargs)
        self.created.append(made)
        return made

    def _lifted(self, value: Tensor) -> Any:
        """The initial value, computed now (eager), or copied into the outer graph."""
        with init_scope():
            eager, outer = context.executing_eagerly(), context.current_graph()
        if eager:
            return evaluated(value, self.graph, self.tensors)
        return lambda: lifted(value, outer)


@export("function")
def function(func: Callable | None = None, input_signature: Any = None, autograph: bool = True,
             jit_compile: Any = None, reduce_retracing: bool = False, experimental_implements: Any = None,
             experimental_autograph_options: Any = None, experimental_attributes: Any = None,
             experimental_relax_shapes: Any = None, experimental_compile: Any = None,
             experimental_follow_type_hints: Any = None) -> Any:
    """Traces a Python function into graphs and runs those.

    Args:
        func: Function to trace. Without it, a decorator is returned.
        input_signature: TensorSpecs of the arguments: one trace serves all calls, and others raise an error.
        autograph: Whether Python's `if`, `for` and `while` over tensors become graph operations.
        jit_compile: Whether calls wait for the best version that the compiler makes.
        reduce_retracing: Whether shapes that change become unknown dimensions instead of new traces.
        experimental_implements: Name of a known function that this one implements.
        experimental_autograph_options: One or more of `tf.autograph.experimental.Feature`.
        experimental_attributes: Attributes of the function in graphs.
        experimental_relax_shapes: Old name of `reduce_retracing`.
        experimental_compile: Old name of `jit_compile`.
        experimental_follow_type_hints: Accepted for compatibility: arguments annotated as tensors are converted to tensors.

    Returns:
        A callable that traces `func` once per kind of arguments.

    >>> @tf.function
    ... def f(x):
    ...     return tf.reduce_sum(x * x)
    >>> f(tf.constant([1., 2.])).numpy()
    np.float32(5.0)

    Python code runs while tracing only: once per combination of dtypes, shapes and Python values. With `autograph`,
    `if`, `while`, `for` and the like may depend on the values of tensors. With `jit_compile`, calls wait for the compiled
    version; parts that cannot be compiled run as without it.
    """
    def decorate(f: Callable) -> Function:
        if not callable(f):
            raise TypeError(f"{f!r} is not a callable object.")
        if isinstance(f, Function):
            f = f.python_function
        attributes = dict(experimental_attributes or {})
        if experimental_implements is not None:
            attributes["api_implements"] = experimental_implements
        return Function(f, None, input_signature, autograph, experimental_relax_shapes or reduce_retracing,
                        jit=experimental_compile or jit_compile, attributes=attributes,
                        autograph_options=experimental_autograph_options)
    return decorate if func is None else decorate(func)
