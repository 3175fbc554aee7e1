"""`tf.__internal__.test.ParameterizedBenchmark`: benchmarks that are called with several parameters."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export


@export("__internal__.test.ParameterizedBenchmark")
class ParameterizedBenchmark(type):
    """The class of benchmarks whose methods `benchmark_*` are called once for each of `_benchmark_parameters`: tuples of
    arguments behind a name, or a dict from names to arguments."""

    def __new__(mcs, name: str, bases: tuple[type, ...], attributes: dict[str, Any]) -> Any:
        parameters = attributes.get("_benchmark_parameters", ())
        named = parameters.items() if isinstance(parameters, dict) else [(p[0], p[1:]) for p in parameters]
        given = {k: v for k, v in attributes.items() if not k.startswith("benchmark")}
        made = {f"{k}__{which}": _with(v, arguments) for k, v in attributes.items() if k not in given
                for which, arguments in named}
        return super().__new__(mcs, name, bases, given | made)


def _with(method: Callable, arguments: Any) -> Callable:
    """A method that is called with some arguments: a dict of them by name, a tuple, or one."""
    @functools.wraps(method)
    def call(self: Any) -> Any:
        if isinstance(arguments, dict):
            return method(self, **arguments)
        return method(self, *(arguments if isinstance(arguments, (list, tuple)) else [arguments]))
    return call
