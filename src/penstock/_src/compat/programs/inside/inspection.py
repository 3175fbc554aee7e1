"""`util.tf_inspect`: Python's inspect that unwraps decorators, with functions that newer Pythons have removed."""
import inspect as _inspect
from collections.abc import Callable
from typing import Any

from penstock._src.compat.programs.inside.decorators import unwrap

globals().update((name, getattr(_inspect, name)) for name in _inspect.__all__ if name != "unwrap")


def getfullargspec(obj: Callable) -> Any:
    """The arguments of the function inside of decorators; of a decorator that declares its own, those.

    Functions of penstock have none of their annotations: TensorFlow's have none, and libraries compare.
    """
    decorators, target = unwrap(obj)
    declared = next((d.decorator_argspec for d in decorators if d.decorator_argspec is not None), None)
    if declared is not None:
        return declared
    found = _inspect.getfullargspec(target)
    if str(getattr(target, "__module__", "")).startswith("penstock."):
        found = found._replace(annotations={})
    return found


getargspec = getfullargspec


def isfunction(obj: Any) -> bool:
    """Whether the object inside of decorators is a Python function."""
    return _inspect.isfunction(unwrap(obj)[1]) if callable(obj) else False


def getsource(obj: Any) -> str:
    """The source of the object inside of decorators."""
    return _inspect.getsource(unwrap(obj)[1])


def getdoc(obj: Any) -> str | None:
    """The documentation of an object."""
    return _inspect.getdoc(obj)


def getcallargs(func: Callable, *positional: Any, **named: Any) -> dict[str, Any]:
    """The values of a function's arguments, by name, in a call."""
    bound = _inspect.signature(unwrap(func)[1]).bind(*positional, **named)
    bound.apply_defaults()
    return dict(bound.arguments)
