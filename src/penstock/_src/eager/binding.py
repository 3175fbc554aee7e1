"""How a concrete function takes its arguments: as its Python function does, or as tensors one by one, by position or name."""
from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock._src.base import nest
from penstock._src.eager.function_spec import is_variable
from penstock._src.graph import context
from penstock._src.graph.node import Tensor
from penstock._src.graph.type_spec import TensorSpec, TypeSpec


class Binding:
    """The signature of one trace: the parameters of the Python function with what they were traced with, if there is one, and
    the names of the tensors."""

    def __init__(self, name: str, names: list[str], specs: list[TensorSpec], signature: inspect.Signature | None,
                 structured: tuple | None):
        self._summary, self._names, self._specs = f"{name}({', '.join(names)})", names, specs
        self._signature = signature if structured is not None else None
        self._positional = nest.flatten(structured[0], expand_composites=True) if structured is not None else []
        self._traced = {} if self._signature is None else _by_name(self._signature, *structured)    # type: ignore[misc]

    def flat(self, args: tuple, kwargs: dict[str, Any]) -> list:
        """The values of the tensors among arguments."""
        if not kwargs and len(args) == len(self._names) and all([isinstance(a, Tensor) for a in args]):
            found = list(args)
        elif self._signature is None:
            found = self.one_by_one(self._tensors(nest.flatten(args, expand_composites=True)), kwargs)
        else:
            try:
                found = self._structured(args, kwargs)
            except TypeError as e:
                found = self._otherwise(args, kwargs, e)
        if not context.executing_eagerly():
            self._check_shapes(found)
        return found

    def _tensors(self, values: list) -> list:
        """The tensors among the values of a function without a Python signature, as SavedModels have them. The others must be
        those that it was traced with."""
        if len(values) <= len(self._names):
            return values
        for traced, value in zip(self._positional, values, strict=False):
            if not isinstance(traced, TensorSpec) and not _equal(traced, value):
                raise TypeError(self._cast(value, f"Literal[{traced!r}]"))
        kept = [value for traced, value in zip(self._positional, values, strict=False) if isinstance(traced, TensorSpec)]
        return [*kept, *values[len(self._positional):]]

    def _otherwise(self, args: tuple, kwargs: dict[str, Any], failed: TypeError) -> list:
        try:
            return self.one_by_one(list(args), kwargs)
        except TypeError as e:
            raise TypeError(f"{failed}\nNor can the tensors be taken one by one: {e}") from None

    def one_by_one(self, args: list, kwargs: dict[str, Any]) -> list:
        """The tensors, by position or by name."""
        names = self._names
        if len(args) > len(names):
            raise TypeError(f"{self._summary} takes {len(names)} positional arguments, got {len(args)}.")
        missing = [n for n in names[len(args):] if n not in kwargs]
        if missing:
            raise TypeError(f"{self._summary} missing required arguments: {', '.join(missing)}.")
        for key in kwargs:
            if key in names[:len(args)]:
                raise TypeError(f"{self._summary} got two values for '{key}'.")
        unknown = sorted(k for k in kwargs if k not in names)
        if unknown:
            raise TypeError(f"{self._summary} got unexpected keyword arguments: {', '.join(unknown)}.")
        found = [*args, *(kwargs[n] for n in names[len(args):])]
        if self._signature is not None:
            for i, value in enumerate(found):
                if not isinstance(value, Tensor) and not is_variable(value):
                    raise TypeError(f"{self._summary}: expected argument #{i}(zero-based) to be a Tensor; got "
                                    f"{type(value).__name__} ({value}).")
        return found

    def _structured(self, args: tuple, kwargs: dict[str, Any]) -> list:
        """The tensors of arguments as the Python function takes them. Those that were traced without tensors are optional."""
        try:
            bound = self._signature.bind_partial(*args, **kwargs)      # type: ignore[union-attr]
        except TypeError as e:
            raise TypeError(_binding(self._summary, _twice(e))) from None
        given = _by_name(self._signature, bound.args, bound.kwargs, bound.arguments)     # type: ignore[arg-type]
        for key in given:
            if key not in self._traced:
                raise TypeError(_binding(self._summary, f"got an unexpected keyword argument '{key}'" if key in kwargs
                                         else "too many positional arguments"))
        flat: list = []
        for name, traced in self._traced.items():
            if name in given:
                flat.extend(self._leaves(traced, given[name]))
            elif any(isinstance(leaf, TensorSpec) for leaf in nest.flatten(traced, expand_composites=True)):
                raise TypeError(_binding(self._summary, f"missing a required argument: '{name}'"))
        return flat

    def _leaves(self, traced: Any, given: Any) -> list:
        """The tensors of one argument, in the structure that it was traced with."""
        if nest.is_nested(traced) and (isinstance(given, (Tensor, np.ndarray)) or not nest.is_nested(given)):
            raise TypeError(self._cast(given, "a Dict" if isinstance(traced, Mapping) else type(traced).__name__))
        try:
            nest.assert_same_structure(traced, given, check_types=False)
        except (TypeError, ValueError) as e:
            raise TypeError(_binding(self._summary, str(e))) from None
        found: list = []
        for leaf, value in zip(nest.flatten(traced), nest.flatten(given), strict=True):
            if isinstance(leaf, TensorSpec):
                found.append(value)
            elif isinstance(leaf, TypeSpec):
                found.extend(self._components(leaf, value))
            elif leaf is not value and (isinstance(value, Tensor) or is_variable(value) or not _equal(leaf, value)):
                raise TypeError(self._cast(value, f"Literal[{leaf!r}]"))
        return found

    def _components(self, spec: Any, value: Any) -> list:
        """The tensors of a composite argument."""
        expected, parts = nest.flatten(spec, expand_composites=True), nest.flatten(value, expand_composites=True)
        if not isinstance(value, spec.value_type) or len(expected) != len(parts):
            raise TypeError(_binding(self._summary, f"{spec} and {value} don't have the same nested structure"))
        for s, t in zip(expected, parts, strict=True):
            if t.dtype.base_dtype != s.dtype:
                raise TypeError(self._cast(TensorSpec(t.shape, t.dtype.base_dtype), str(s)))
        return parts

    def _check_shapes(self, found: list) -> None:
        """In graphs, shapes that cannot be those of the trace are errors; eager calls run what the kernels accept."""
        for spec, value in zip(self._specs, found, strict=True):
            if isinstance(value, Tensor) and not spec.shape.is_compatible_with(value.shape):
                raise TypeError(self._cast(TensorSpec(value.shape, value.dtype.base_dtype), str(spec)))

    def _cast(self, value: Any, wanted: str) -> str:
        return _binding(self._summary, f"Can not cast {value!r} to {wanted}")


def _binding(summary: str, reason: str) -> str:
    return f"Binding inputs to tf.function failed for {summary}: {reason}"


def _twice(error: TypeError) -> str:
    """The words of an error of `inspect`; an argument by position and by name is one too many by name."""
    text = str(error)
    return text.replace("multiple values for argument", "got an unexpected keyword argument")


def _equal(traced: Any, given: Any) -> bool:
    try:
        return bool(traced == given)
    except Exception:           # objects that cannot be compared are not what the function was traced with
        return False


def _by_name(signature: inspect.Signature, args: tuple, kwargs: Mapping[str, Any], given: Mapping[str, Any] | None = None,
             ) -> dict[str, Any]:
    """Arguments by parameter, those of *args as args_0, args_1 ..., and those by name in sorted order."""
    parameters = signature.parameters
    rest = next((p.name for p in parameters.values() if p.kind is p.VAR_POSITIONAL), None)
    more = next((p.name for p in parameters.values() if p.kind is p.VAR_KEYWORD), None)
    if given is None:
        given = signature.bind_partial(*args, **{k: v for k, v in kwargs.items() if more or k in parameters}).arguments
    out: dict[str, Any] = {}
    named: dict[str, Any] = {}
    for name, value in given.items():
        if name == rest:
            out.update((f"{rest}_{i}", v) for i, v in enumerate(value))
        elif name == more:
            named.update(value)
        elif parameters[name].kind is inspect.Parameter.KEYWORD_ONLY:
            named[name] = value
        else:
            out[name] = value
    return {**out, **dict(sorted(named.items()))}
