"""The arguments of a tf.function in canonical form, and the cache key of a trace.

Tensors are keyed by dtype and shape, variables by identity, everything else by value. Arrays become tensors.
"""
from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from penstock._src.base import nest
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.type_spec import TensorSpec, TypeSpec, _hashable


def is_variable(x: Any) -> bool:
    """Whether `x` is a variable behind a handle."""
    return hasattr(x, "handle") and hasattr(x, "trainable")


class IncompatibleInputs(TypeError, ValueError):
    """Arguments do not fit the input signature: a ValueError until TensorFlow 2.12, a TypeError since."""


class FunctionSpec:
    """The signature of a Python function, and the input_signature that was requested."""

    def __init__(self, function: Callable, input_signature: Any = None, is_method: bool = False):
        self.signature = _signature(function, is_method)
        self.is_method = is_method
        self.name = getattr(function, "__name__", type(function).__name__)
        parameters = list(self.signature.parameters.values())
        self.positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self.arg_names = [p.name for p in self.positional]
        self.vararg_name = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
        self.input_signature = None if input_signature is None else self._checked(input_signature)
        self.flat_signature = None if input_signature is None else \
            nest.flatten(self.input_signature, expand_composites=True)
        self.declared_signature = [] if input_signature is None else \
            [s.declared_shape for s in nest.flatten(self.input_signature) if hasattr(s, "declared_shape")]

    def _checked(self, signature: Any) -> tuple:
        if not isinstance(signature, (tuple, list)):
            raise TypeError(f"input_signature must be either a tuple or a list, got {type(signature)}.")
        signature = tuple(signature)
        if any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in self.signature.parameters.values()):
            raise ValueError("Cannot define a TensorFlow function from a Python function with keyword-only arguments "
                             "when input_signature is provided.")
        for spec in nest.flatten(signature, expand_composites=True):
            if not isinstance(spec, TypeSpec):
                raise TypeError("input_signature must be a possibly nested sequence of TensorSpec objects, got "
                                f"{spec!r} of type {type(spec).__name__}.")
        if self.vararg_name is None and len(signature) > len(self.positional):
            raise TypeError(f"input_signature has {len(signature)} entries for a function of {len(self.positional)} "
                            "arguments.")
        return signature

    # -- arguments ------------------------------------------------------------------------------------------------
    def canonicalize(self, args: tuple, kwargs: Mapping[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """Positional arguments in order, defaults filled in, and keyword-only ones."""
        if self.input_signature is not None:
            try:
                return self._by_signature(args, kwargs)
            except (TypeError, ValueError) as e:
                raise IncompatibleInputs(f"Binding inputs to tf.function failed due to `{e}`. Received args: {args} and "
                                         f"kwargs: {dict(kwargs)} for input_signature {self.input_signature}.") from None
        if not kwargs and len(args) == len(self.positional) and len(self.signature.parameters) == len(args):
            return args, {}
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as e:
            names = f" and {', '.join(kwargs)} by name" if kwargs else ""
            raise TypeError(f"Binding inputs to tf.function failed due to `{e}`: {self.name}() takes {self.signature}, and was "
                            f"called with {len(args)} positional arguments{names}.") from None
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def _by_signature(self, args: tuple, kwargs: Mapping[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """Arguments converted to the types of input_signature."""
        names, signature = self.arg_names, self.input_signature or ()
        values = list(args)
        defaults = {p.name: p.default for p in self.positional[:len(signature)] if p.default is not p.empty}
        for name in names[len(values):]:
            if name not in kwargs and name not in defaults:
                break
            values.append(kwargs[name] if name in kwargs else defaults[name])
        unknown = [k for k in kwargs if k not in names[len(args):]]
        if unknown:
            raise ValueError(f"Cannot define a TensorFlow function from a Python function with keyword arguments when "
                             f"input_signature is provided: got {unknown}.")
        if len(values) > len(signature):
            extra = ", ".join(names[len(signature):len(values)])
            missing = f": input_signature missing type constraint for {extra}" if extra else ""
            raise TypeError(f"{self.name} takes {len(signature)} positional arguments (as specified by the "
                            f"input_signature) but {len(values)} were given{missing}")
        if len(values) < len(signature):
            raise TypeError(f"{self.name} missing arguments: input_signature has {len(signature)}, "
                            f"got {len(values)}")
        try:
            leaves = nest.flatten_up_to(signature, tuple(values))
        except (ValueError, TypeError):
            raise ValueError("Structure of Python function inputs does not match input_signature: inputs: "
                             f"{tuple(values)}, input_signature: {signature}") from None
        flat = [self._fit(s, v) for s, v in zip(nest.flatten(signature), leaves, strict=True)]
        packed = nest.pack_sequence_as(signature, flat)
        rest = [p.default for p in self.positional[len(packed):] if p.default is not p.empty]
        return (*packed, *rest), {}

    @staticmethod
    def _fit(spec: Any, value: Any) -> Any:
        if isinstance(value, TypeSpec) or not isinstance(spec, TensorSpec) or \
                is_variable(value) and type(spec) is not TensorSpec:
            fits = spec.is_compatible_with(value)
        else:
            try:
                value = convert(value, None if isinstance(value, Tensor) else spec.dtype)
            except (ValueError, TypeError):
                raise ValueError("When input_signature is provided, all inputs to the Python function must be convertible "
                                 f"to tensors: got {value!r} for {spec}") from None
            fits = spec.is_compatible_with(value)
        if not fits:
            given = TensorSpec(value.shape, value.dtype.base_dtype) if isinstance(value, Tensor) else value
            raise TypeError(f"Python inputs incompatible with input_signature: Can not cast {given!r} to {spec!r}")
        return value


def _signature(function: Callable, is_method: bool) -> inspect.Signature:
    inner = function
    while isinstance(inner, functools.partial) and not inner.args and not inner.keywords:
        inner = inner.func
    try:
        signature = inspect.signature(inner)
    except (TypeError, ValueError):
        return inspect.Signature([inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
                                  inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)])
    parameters = list(signature.parameters.values())
    return inspect.Signature(parameters[1:] if is_method else parameters)


# -- keys -------------------------------------------------------------------------------------------------------
def with_tensors(x: Any) -> Any:
    """Arguments with arrays converted to tensors."""
    if type(x) in (tuple, list):
        return type(x)(with_tensors(v) for v in x)
    if type(x) is dict:
        return {k: with_tensors(v) for k, v in x.items()}
    if isinstance(x, (np.ndarray, np.generic)):
        return convert(x)
    if isinstance(x, (Tensor, int, float, str, bool, type(None))):
        return x
    if nest.is_nested(x):
        return nest.map_structure(lambda v: convert(v) if isinstance(v, (np.ndarray, np.generic)) else v, x)
    return x


class Weak:
    """An object as part of a key, by identity, through a weak reference."""

    __slots__ = ("ref", "hash")

    def __init__(self, x: Any):
        self.ref, self.hash = weakref.ref(x), id(x)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Weak) and self.ref() is not None and self.ref() is other.ref()


def describe(x: Any, tensors: list, shapes: list, declared: list) -> Any:
    """A hashable description of arguments; tensors and their shapes are collected on the way, not described. So are the shapes
    that sparse and ragged arguments declare; the number of their values is not part of the key."""
    if isinstance(x, Tensor):
        tensors.append(x)
        shapes.append(x.static_dims)
        return x.dtype.base_dtype
    kind = type(x)
    if kind in (int, float, bool, complex, str, bytes):
        return kind, x
    if x is None:
        return None
    if isinstance(x, TensorSpec):
        tensors.append(x)
        shapes.append(x.shape.static_dims)
        return x.dtype.base_dtype
    if isinstance(x, (list, tuple)):
        return kind, tuple([describe(v, tensors, shapes, declared) for v in x])
    if isinstance(x, Mapping):
        return kind, tuple([(k, describe(x[k], tensors, shapes, declared)) for k in sorted(x)])
    if is_variable(x):
        return Weak(x)
    if isinstance(x, TypeSpec) or hasattr(kind, "_type_spec"):
        parts = [describe(v, tensors, shapes, declared) for v in nest.flatten(x, expand_composites=True)]
        spec: Any = x if isinstance(x, TypeSpec) else x._type_spec
        if hasattr(x, "declared_shape"):
            declared.append(spec.declared_shape)
            shapes[len(shapes) - len(parts):] = [s.shape.static_dims for s in spec._component_specs]
        return kind, _composite_key(spec), tuple(parts)
    if nest.flattens_itself(kind):
        metadata, parts = x.__tf_flatten__()
        return kind, _hashable(metadata), tuple([describe(v, tensors, shapes, declared) for v in parts])
    if hasattr(kind, "__attrs_attrs__"):
        return kind, tuple([describe(getattr(x, a.name), tensors, shapes, declared) for a in kind.__attrs_attrs__])
    return _by_value(x)


def _composite_key(spec: Any) -> Any:
    if type(spec).__hash__ is not TypeSpec.__hash__:      # a spec of a library, which defines its own equality
        return spec
    kept = [i for i in spec._serialize() if isinstance(i, (int, str, bool, tuple, dict, TypeSpec))]
    return type(spec), tuple(_hashable(i) for i in kept)


def _by_value(x: Any) -> Any:
    """Objects of other types: by weak reference where possible, else by value."""
    if isinstance(x, (set, bytearray, weakref.ref)):           # their value may change, and a trace depends on it
        raise TypeError(f"Could not generate a generic TraceType for {x!r}: a {type(x).__module__}.{type(x).__name__} cannot "
                        "be an argument of a tf.function.")
    try:
        hash(x)
    except TypeError:
        try:
            return Weak(x)
        except TypeError:
            raise ValueError("Arguments to a tf.function must be a nested structure of Tensors, Variables, NumPy arrays, or "
                             f"hashable Python objects, got: {type(x)}") from None
    if type(x).__hash__ is object.__hash__:
        try:
            return Weak(x)
        except TypeError:
            return x
    return x


def covered(general: tuple, shapes: tuple) -> bool:
    """Whether a trace for the first shapes serves the second."""
    return all(g is None or relaxed(g, s) == g for g, s in zip(general, shapes, strict=True))


def relaxed(a: tuple | None, b: tuple | None) -> tuple | None:
    """A shape that covers both."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))


def spec_of(x: Any, dims: Any, name: str | None) -> TensorSpec:
    """The TensorSpec of an argument tensor."""
    return TensorSpec(TensorShape.of(dims), x.dtype.base_dtype, name)
