"""`tf.__internal__.dispatch`: how libraries extend functions, theirs and TensorFlow's, to their types."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.base.dispatch import GlobalOpDispatcher, OpDispatcher, dispatched
from penstock._src.library.ragged.getitem import ragged_getitem

export.value(OpDispatcher, "__internal__.dispatch.OpDispatcher")
export.value(GlobalOpDispatcher, "__internal__.dispatch.GlobalOpDispatcher")
export.value(ragged_getitem, "__operators__.ragged_getitem")


@export("__internal__.dispatch.add_dispatch_support")
def add_dispatch_support(target: Callable | None = None, iterable_parameters: Any = None) -> Callable:
    """A decorator: if the function rejects its arguments, dispatchers are tried."""
    return dispatched if target is None else dispatched(target)


class _ByType(OpDispatcher):
    """Calls a function where one of the arguments is of some types."""

    def __init__(self, function: Callable, types: tuple[type, ...]):
        self._function, self._types = function, types

    def handle(self, args: tuple, kwargs: dict) -> Any:
        """The function's result, or NOT_SUPPORTED."""
        if any(isinstance(x, self._types) for x in nest.flatten([args, kwargs])):
            return self._function(*args, **kwargs)
        return self.NOT_SUPPORTED


def dispatch_for_types(op: Callable, *types: type) -> Callable:
    """A decorator: the function computes `op` where an argument is of one of `types`."""
    def decorate(function: Callable) -> Callable:
        _ByType(function, types).register(op)
        return function
    return decorate
