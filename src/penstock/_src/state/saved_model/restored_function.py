"""Functions of a SavedModel: concrete ones, and the callable that selects one by its arguments."""
from __future__ import annotations

import inspect
from typing import Any

from penstock._src.base import nest
from penstock._src.eager.function import ConcreteFunction, Function
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.type_spec import TensorSpec, TypeSpec
from penstock._src.state.variables.variable import Variable


class RestoredConcreteFunction(ConcreteFunction):
    """A function of a SavedModel: a body from its message, with the captured tensors that belong to it."""

    def __init__(self, graph: Any, bound: int, name: str, input_signature: Any, outputs: Any, library: Any):
        graph.structured_input_signature = input_signature
        if input_signature is not None:
            given = nest.flatten((input_signature[0], dict(input_signature[1])), expand_composites=True)
            for spec, t in zip((s for s in given if isinstance(s, TensorSpec)), graph.inputs, strict=False):
                t.set_shape(spec.shape)
        flat = [s for s in nest.flatten(outputs, expand_composites=True) if isinstance(s, TensorSpec)]
        for spec, t in zip(flat, graph.outputs, strict=False):
            t.set_shape(spec.shape)
        with graph.as_default():
            graph.structured_outputs = _with_tensors(outputs, graph.outputs)
        count = len(graph.inputs) - bound
        super().__init__(graph, count, name)
        self.library, self._saved_outputs = library, outputs
        self._arg_names = [t.op.name for t in graph.inputs[:count]]
        self._set_names()

    structured_outputs = property(lambda self: self._saved_outputs, doc="The specs of the outputs, as they were saved.")

    def _set_names(self) -> None:
        signature = self.graph.structured_input_signature
        if signature is not None:
            args, kwargs = signature
            flat = nest.flatten((args, dict(kwargs)), expand_composites=True)
            specs = [s for s in flat if isinstance(s, TensorSpec)]
            if len(specs) == self._arg_count and all(s.name for s in specs):
                self._arg_names = [s.name for s in specs]

    def bind(self, captures: list) -> None:
        """Sets the tensors (or variables) that the function has captured."""
        self.captured_inputs = [c.handle if isinstance(c, Variable) else c for c in captures]
        for c, inner in zip(captures, self.graph.inputs[self._arg_count:], strict=True):
            if isinstance(c, Variable):
                self.graph.watched_variables[id(c)] = c
                inner._handle_dtype, inner._handle_dims = c.dtype, c.shape.static_dims
            outer = c.handle if isinstance(c, Variable) else c
            self.graph._captures[id(outer)] = (outer, inner)


def _with_tensors(structure: Any, tensors: list) -> Any:
    """Tensors instead of the specs of a structure."""
    flat, rest = [], iter(tensors)
    for x in nest.flatten(structure, expand_composites=True):
        found = next(rest, None) if isinstance(x, TypeSpec) else x
        if found is None and x is not None:
            raise ValueError("A function of the SavedModel has fewer results than its output structure.")
        flat.append(found)
    return nest.pack_sequence_as(structure, flat, expand_composites=True)


class RestoredFunction(Function):
    """Calls the concrete function of a SavedModel that matches the arguments."""

    def __init__(self, concrete: list, fullargspec: Any, name: str, input_signature: Any = None,
                 jit: bool | None = None):
        self._concrete = concrete
        signature = _python_signature(fullargspec)

        def body(*args: Any, **kwargs: Any) -> Any:
            return self._fitting(args, kwargs)(args, kwargs)
        body.__name__ = body.__qualname__ = name
        if signature is not None:
            body.__signature__ = signature           # type: ignore[attr-defined]
        super().__init__(body, name, input_signature, jit=jit)

    def _list_all_concrete_functions(self, exported: bool = False) -> list:
        return list(self._concrete)

    _list_all_concrete_functions_for_serialization = _list_all_concrete_functions    # they are saved as they are
    concrete_functions = property(_list_all_concrete_functions, doc="The traces that were saved.")

    def _bind(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        return self._spec.canonicalize(args, kwargs)

    def _fitting(self, args: tuple, kwargs: dict) -> Any:
        given = self._bind(args, kwargs)
        for conversion in (False, True):
            for c in self._concrete:
                flat = _matched(given, c.graph.structured_input_signature, conversion)
                if flat is not None:
                    return lambda *_: c.call_flat([c._argument(a, p) for a, p in zip(flat, c.graph.inputs, strict=False)])
        raise self._no_match(given)

    def _no_match(self, given: tuple) -> ValueError:
        known = "\n\n".join(f"Option {i + 1}:\n  {c.graph.structured_input_signature}" for i, c in enumerate(self._concrete))
        return ValueError(f"Could not find matching concrete function to call loaded from the SavedModel. Got:\n  {given}\n\n"
                          f"Expected these arguments to match one of the following {len(self._concrete)} option(s):\n\n{known}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the matching concrete function."""
        return self._fitting(args, kwargs)()

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> Any:
        """The concrete function that takes these arguments; TensorSpecs may represent tensors."""
        if not args and not kwargs and len(self._concrete) == 1:
            return self._concrete[0]
        given = self._bind(args, kwargs)
        for c in self._concrete:
            if _matched(given, c.graph.structured_input_signature, True) is not None:
                return c
        raise self._no_match(given)


def _matched(given: tuple, expected: Any, conversion: bool) -> list | None:
    """The tensors for a function's placeholders, if the arguments match those of its trace; else None."""
    wanted = tuple(expected[0]), dict(expected[1])
    try:
        values = nest.flatten_up_to(wanted, (tuple(given[0]), dict(given[1])), check_types=False, expand_composites=True)
    except (TypeError, ValueError):
        return None
    flat = []
    for a, e in zip(values, nest.flatten(wanted, expand_composites=True), strict=True):
        if isinstance(e, TypeSpec):
            t = _fits(a, e, conversion)
            if t is None:
                return None
            flat.append(t)
        elif isinstance(a, (Tensor, Variable)) or a != e:
            return None
    return flat


def _fits(value: Any, spec: Any, conversion: bool) -> Any:
    if isinstance(value, TypeSpec):
        return value if spec.dtype == value.dtype and spec.shape.is_compatible_with(value.shape) else None
    if isinstance(value, Variable):
        value = convert(value)
    if not isinstance(value, Tensor):
        if not conversion or isinstance(value, type(None)):
            return None
        try:
            value = convert(value, spec.dtype)
        except (TypeError, ValueError):
            return None
    return value if value.dtype == spec.dtype and spec.shape.is_compatible_with(value.shape) else None


def _python_signature(fullargspec: Any) -> Any:
    """The Python signature that a FullArgSpec describes."""
    if fullargspec is None:
        return None
    parameter, kinds = inspect.Parameter, inspect.Parameter
    args, defaults = list(fullargspec.args or ()), list(fullargspec.defaults or ())
    if args and args[0] == "self":
        args = args[1:]
    first = len(args) - len(defaults)
    out = [parameter(n, kinds.POSITIONAL_OR_KEYWORD, default=defaults[i - first] if i >= first else parameter.empty)
           for i, n in enumerate(args)]
    if fullargspec.varargs:
        out.append(parameter(fullargspec.varargs, kinds.VAR_POSITIONAL))
    chosen = fullargspec.kwonlydefaults or {}
    out += [parameter(n, kinds.KEYWORD_ONLY, default=chosen.get(n, parameter.empty)) for n in fullargspec.kwonlyargs or ()]
    if fullargspec.varkw:
        out.append(parameter(fullargspec.varkw, kinds.VAR_KEYWORD))
    return inspect.Signature(out)


class SignatureFunction(RestoredConcreteFunction):
    """A signature of a SavedModel: takes tensors by name, or in the structure it was traced with; returns a dictionary."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if args and self._arg_count > 1 and not (self.structured_input_signature or [()])[0]:
            raise TypeError(f"{self.graph_function.name} takes {self._arg_names} by name, got {len(args)} by position")
        return super().__call__(*args, **kwargs)
