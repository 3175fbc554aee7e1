"""Tests over combinations of parameters, as in the tests of TensorFlow and Keras.

    @tf.__internal__.test.combinations.generate(combine(mode=["graph", "eager"], units=[1, 2]))
    def test_dense(self, units): ...

A combination is a dictionary of arguments. A TestCombination decides whether one runs, in which contexts, and which arguments
are not passed to the test.
"""
from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from absl.testing import parameterized

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.graph import Graph

_NAMES = "__internal__.test.combinations"


@export(f"{_NAMES}.ParameterModifier")
class ParameterModifier:
    """Changes the arguments of a test."""

    DO_NOT_PASS_TO_THE_TEST = object()

    def __init__(self, parameter_name: str | None = None):
        self._parameter_name = parameter_name

    def modified_arguments(self, kwargs: dict[str, Any], requested_parameters: Sequence[str]) -> dict[str, Any]:
        """The arguments that change, by name."""
        return {}

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other) and self._parameter_name == other._parameter_name

    def __hash__(self) -> int:
        return hash((type(self), self._parameter_name))


@export(f"{_NAMES}.OptionalParameter")
class OptionalParameter(ParameterModifier):
    """An argument that tests may leave out."""

    def modified_arguments(self, kwargs: dict[str, Any], requested_parameters: Sequence[str]) -> dict[str, Any]:
        """Removes the argument for a test that does not take it."""
        if self._parameter_name in requested_parameters:
            return {}
        return {self._parameter_name: self.DO_NOT_PASS_TO_THE_TEST}  # type: ignore[dict-item]


@export(f"{_NAMES}.TestCombination")
class TestCombination:
    """Defines how the combinations of a test run."""

    __test__ = False

    def should_execute_combination(self, kwargs: dict[str, Any]) -> tuple[bool, str | None]:
        """Whether a combination runs, and if not, why."""
        return True, None

    def parameter_modifiers(self) -> list[ParameterModifier]:
        """How arguments change."""
        return []

    def context_managers(self, kwargs: dict[str, Any]) -> list[Any]:
        """The contexts that the test runs in."""
        return []


class EagerGraphCombination(TestCombination):
    """`mode`: "eager" or "graph"."""

    def context_managers(self, kwargs: dict[str, Any]) -> list[Any]:
        """Eager execution, or a graph."""
        mode = kwargs.pop("mode", None)
        if mode is None:
            return []
        if mode not in ("eager", "graph"):
            raise ValueError(f"'mode' must be 'eager' or 'graph', got {mode}.")
        return [context.enter(None) if mode == "eager" else Graph().as_default()]

    def parameter_modifiers(self) -> list[ParameterModifier]:
        """Tests may leave the mode out."""
        return [OptionalParameter("mode")]


@export(f"{_NAMES}.NamedObject")
class NamedObject:
    """An object with a name for the names of tests."""

    def __init__(self, name: str, obj: Any):
        self._name, self._obj = name, obj

    def __getattr__(self, name: str) -> Any:
        return getattr(self._obj, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._obj(*args, **kwargs)

    def __iter__(self) -> Any:
        return iter(self._obj)

    def __repr__(self) -> str:
        return self._name


@export(f"{_NAMES}.combine")
def combine(**kwargs: Any) -> list[dict[str, Any]]:
    """Every combination of the given values, by name; a value that is not a list or tuple is the only one.

    >>> combine(a=[1, 2], b=3)
    [{'a': 1, 'b': 3}, {'a': 2, 'b': 3}]
    """
    names = sorted(kwargs)
    values = [list(kwargs[n]) if isinstance(kwargs[n], (list, tuple)) else [kwargs[n]] for n in names]
    return [dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*values)]


@export(f"{_NAMES}.times")
def times(*combined: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every combination of one list with one of each other; a name must be in one list only."""
    out = []
    for parts in itertools.product(*combined):
        merged: dict[str, Any] = {}
        for part in parts:
            if merged.keys() & part.keys():
                raise ValueError(f"The keys need to not overlap: {sorted(merged.keys() & part.keys())}.")
            merged.update(part)
        out.append(merged)
    return out


def _generate(combinations: list[dict[str, Any]], test_combinations: Sequence[TestCombination] = ()) -> Callable:
    """A decorator: the test method, or each of a class, runs once per combination."""
    for c in combinations:
        if not all(isinstance(n, str) for n in c):
            raise ValueError(f"The names of parameters are strings: {c}")
    named = [{"testcase_name": _test_name(c), **c} for c in combinations]

    def decorate(test: Any) -> Any:
        if not isinstance(test, type):
            return parameterized.named_parameters(*named)(_with_contexts(test, test_combinations))
        for name, method in list(vars(test).items()):
            if name.startswith("test") and inspect.isfunction(method):
                made = parameterized.named_parameters(*named)(_with_contexts(method, test_combinations))
                delattr(test, name)
                for suffix, case in zip((c["testcase_name"] for c in named), made, strict=True):
                    setattr(test, name + suffix, case)
        return test
    return decorate


# Libraries read its keywords, and add to them.
generate = functools.partial(_generate, test_combinations=(EagerGraphCombination(),))
export.value(generate, f"{_NAMES}.generate")


def _test_name(combination: dict[str, Any]) -> str:
    words = ["".join(ch for ch in f"{n}_{v!s}" if ch.isalnum() or ch == "_") for n, v in combination.items()]
    return "_test_" + "_".join(words)


def _arguments(test: Callable) -> list[str]:
    """The names of a test's arguments; those of the function inside, where `make_decorator` has wrapped one."""
    while (note := getattr(test, "__dict__", {}).get("_tf_decorator")) is not None:
        test = note.decorated_target
    return inspect.getfullargspec(test).args


def _with_contexts(test: Callable, tests: Sequence[TestCombination]) -> Callable:
    @functools.wraps(test)
    def run(self: Any, **kwargs: Any) -> None:
        reasons = [why for ok, why in (t.should_execute_combination(dict(kwargs)) for t in tests) if not ok]
        if reasons:
            self.skipTest("\n".join(f" - {why}" for why in reasons))
        requested = _arguments(test)
        passed = dict(kwargs)
        for modifier in {m for t in tests for m in t.parameter_modifiers()}:
            for name, value in modifier.modified_arguments(dict(kwargs), requested).items():
                if value is ParameterModifier.DO_NOT_PASS_TO_THE_TEST:
                    passed.pop(name, None)
                else:
                    passed[name] = value
        if set(passed) != set(requested) - {"self"}:
            raise ValueError(f"The test takes {sorted(set(requested) - {'self'})}, and gets {sorted(passed)}.")
        with contextlib.ExitStack() as stack:
            for manager in [m for t in tests for m in t.context_managers(dict(kwargs))]:
                stack.enter_context(manager)
            test(self, **passed)
    del run.__wrapped__                                   # its arguments are those of a combination
    return run
