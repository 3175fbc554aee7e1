"""FunctionType: the signature of a tf.function with the types of its arguments and results, as text and as an object."""
from __future__ import annotations

import abc
import inspect
from collections.abc import Mapping
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock._src.graph.type_spec import TensorSpec, TypeSpec, type_spec_from_value


class TypeText:
    """A type as signatures show it: `TensorSpec(...)`, `Literal[2]`, `Tuple[...]`."""

    def __init__(self, value: Any):
        self.value = value

    def __repr__(self) -> str:
        return _text(self.value)


def _text(value: Any) -> str:
    if isinstance(value, TensorSpec):
        return repr(TensorSpec(value.shape, value.dtype))
    if isinstance(value, TypeSpec):
        return repr(value)
    if isinstance(value, Tensor) or hasattr(type(value), "_type_spec"):
        return _text(type_spec_from_value(value))
    if isinstance(value, Mapping):
        return f"Dict[{', '.join(f'[{k!r}, {_text(v)}]' for k, v in value.items())}]"
    if isinstance(value, (tuple, list)):
        kind = "Tuple" if isinstance(value, tuple) else "List"
        return f"{kind}[{', '.join(map(_text, value))}]"
    return f"Literal[{value!r}]"


@export(v2=["types.experimental.Callable"])
class Callable(abc.ABC):
    """The base of callables like tf.function: they have a type, and take tensors."""

    @property
    @abc.abstractmethod
    def function_type(self) -> Any:
        """The type, with its parameters."""

    @abc.abstractmethod
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls it."""


@export(v2=["types.experimental.AtomicFunction"])
class AtomicFunction(Callable):
    """The base of functions that were traced and are called with a flat list of tensors."""

    def call_flat(self, *args: Any) -> Any:
        """Calls it with a flat list of tensors."""
        raise NotImplementedError(f"{type(self).__name__} has to define call_flat")


def _parameter(name: str, kind: Any, value: Any) -> inspect.Parameter:
    return inspect.Parameter(name, kind, annotation=TypeText(value))


@export(v2=["types.experimental.FunctionType"])
class FunctionType(inspect.Signature):
    """The signature of a tf.function. Parameters are annotated with the types of one trace, or with None for all of them."""

    @classmethod
    def of(cls, signature: inspect.Signature) -> FunctionType:
        """The type of a function that has not been traced."""
        return cls([p.replace(annotation=p.empty, default=p.default) for p in signature.parameters.values()])

    @classmethod
    def of_trace(cls, signature: inspect.Signature, arguments: tuple, outputs: Any) -> FunctionType:
        """The type of one trace, from its structured arguments and results. What `*args` and `**kwargs` were given are
        parameters of their own, and those before `*args` are positional."""
        args, kwargs = arguments
        parameters = signature.parameters.values()
        more = any(p.kind is p.VAR_KEYWORD for p in parameters)
        known = {k: v for k, v in kwargs.items() if more or k in signature.parameters}
        given = signature.bind_partial(*args, **known).arguments
        rest = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        typed = []
        for p in parameters:
            if p.name not in given:
                continue
            value, kind = given[p.name], p.POSITIONAL_ONLY if rest and p.kind is p.POSITIONAL_OR_KEYWORD else p.kind
            if p.kind is p.VAR_POSITIONAL:
                typed += [_parameter(f"{p.name}_{i}", p.POSITIONAL_ONLY, v) for i, v in enumerate(value)]
            elif p.kind is p.VAR_KEYWORD:
                typed += [_parameter(name, p.KEYWORD_ONLY, v) for name, v in value.items()]
            else:
                typed.append(_parameter(p.name, kind, value))
        return cls(typed, return_annotation=TypeText(outputs))

    def described(self) -> str:
        """The signature over several lines."""
        lines = ["Input Parameters:"]
        for p in self.parameters.values():
            lines.append(f"  {p.name} ({p.kind.name}): {None if p.annotation is p.empty else p.annotation}")
        out = None if self.return_annotation is self.empty else self.return_annotation
        lines += ["  None"] if len(lines) == 1 else []
        return "\n".join([*lines, "Output Type:", f"  {out}", "Captures:", "  None"])
