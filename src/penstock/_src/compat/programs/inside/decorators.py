"""Of `util`: decorators that mark functions as deprecated, exported or dispatched, and a few that programs use beside them."""
from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any

from penstock._src.base import tf_logging as logging

_said: set[str] = set()


def _say(function: Callable, text: str, once: bool = True) -> None:
    name = getattr(function, "__qualname__", str(function))
    if once and name in _said:
        return
    _said.add(name)
    logging.warning("From %s: %s is deprecated. %s", getattr(function, "__module__", "?"), name, text)


def deprecated(date: str | None, instructions: str, warn_once: bool = True) -> Callable:
    """Marks a function or class as deprecated: the first call logs a warning with the instructions."""
    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            _say(function, instructions, warn_once)
            return function(*args, **kwargs)
        return call
    return decorate


def deprecated_args(date: str | None, instructions: str, *deprecated_arg_names: Any, **kwargs: Any) -> Callable:
    """Marks arguments as deprecated: a call that returns one logs a warning."""
    old = {n if isinstance(n, str) else n[0] for n in deprecated_arg_names}

    def decorate(function: Callable) -> Callable:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if old & set(signature.bind_partial(*args, **kwargs).arguments):
                _say(function, instructions)
            return function(*args, **kwargs)
        return call
    return decorate


def deprecated_arg_values(date: str | None, instructions: str, warn_once: bool = True, **deprecated_kwargs: Any) -> Callable:
    """Marks values of arguments as deprecated: a call with one of them logs a warning."""
    def decorate(function: Callable) -> Callable:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind_partial(*args, **kwargs).arguments
            if any(n in given and given[n] is v for n, v in deprecated_kwargs.items()):
                _say(function, instructions, warn_once)
            return function(*args, **kwargs)
        return call
    return decorate


def deprecated_argument_lookup(new_name: str, new_value: Any, old_name: str, old_value: Any) -> Any:
    """The one of two arguments that is given; ValueError if both are."""
    if old_value is None:
        return new_value
    if new_value is not None:
        raise ValueError(f"Cannot specify both '{old_name}' and '{new_name}'")
    return old_value


def deprecated_alias(deprecated_name: str, name: str, func_or_class: Any, warn_once: bool = True) -> Any:
    """The same function or class; the old name is only another name."""
    return func_or_class


def deprecated_endpoints(*names: str) -> Callable:
    """Names that are old: nothing changes."""
    return lambda function: function


@contextlib.contextmanager
def silence() -> Any:
    """Inside of it, warnings about deprecated things are not logged."""
    level = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(level)


def tf_export(*names: str, **kwargs: Any) -> Callable:
    """Public names of TensorFlow's own functions: a program's functions have none."""
    return lambda function: function


keras_export = estimator_export = tf_export
contextmanager = contextlib.contextmanager


class TFDecorator:
    """A function around a function, with the name and the documentation of the inner one; a class of it is a decorator."""

    def __init__(self, decorator_name: str, target: Callable, decorator_doc: str = "", decorator_argspec: Any = None):
        self._decorated_target, self._decorator_name, self._decorator_doc = target, decorator_name, decorator_doc
        self._decorator_argspec = decorator_argspec
        functools.update_wrapper(self, target)  # type: ignore[arg-type]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._decorated_target(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self if instance is None else functools.partial(self.__call__, instance)

    @property
    def decorated_target(self) -> Callable:
        """The function that is called inside."""
        return self._decorated_target

    @property
    def decorator_name(self) -> str:
        """Its name as a decorator."""
        return self._decorator_name

    @property
    def decorator_doc(self) -> str:
        """What it says of itself."""
        return self._decorator_doc

    @property
    def decorator_argspec(self) -> Any:
        """The arguments it takes, if they are not those of the function inside."""
        return self._decorator_argspec


def make_decorator(target: Callable, decorator_func: Callable, decorator_name: str | None = None, decorator_doc: str = "",
                   decorator_argspec: Any = None) -> Callable:
    """`decorator_func`, with the name and signature of `target`, and a note of it for `unwrap`."""
    made = functools.update_wrapper(decorator_func, target)
    made._tf_decorator = TFDecorator(decorator_name or "", target, decorator_doc, decorator_argspec)  # type: ignore[attr-defined]
    return made


def unwrap(maybe_decorated: Callable) -> tuple[list, Callable]:
    """The decorators around a function, outermost first, and the function inside."""
    found, function = [], maybe_decorated
    while True:
        note = function if isinstance(function, TFDecorator) else getattr(function, "__dict__", {}).get("_tf_decorator")
        if note is None:
            return found, inspect.unwrap(function)
        found.append(note)
        function = note.decorated_target


def keyword_args_only(function: Callable) -> Callable:
    """Refuses arguments by position."""
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if args:
            raise ValueError(f"Must use keyword args to call {function.__name__}.")
        return function(**kwargs)
    return call


def should_use_result(function: Callable, *args: Any, **kwargs: Any) -> Callable:
    """The function as it is."""
    return function


must_use_result_or_fatal = should_use_result


def add_dispatch_support(target: Callable) -> Callable:
    """The function as it is."""
    return target


def fn_args(fn: Callable) -> tuple[str, ...]:
    """The names of the arguments of a function, without `self`."""
    return tuple(n for n, p in inspect.signature(fn).parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))


def has_kwargs(fn: Callable) -> bool:
    """Whether a function takes any keyword."""
    return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(fn).parameters.values())


def remove_undocumented(module_name: str, *args: Any, **kwargs: Any) -> None:
    """Leaves the module as it is."""


def make_all(module_name: str, *args: Any, **kwargs: Any) -> list[str]:
    """The public names of a module."""
    return [n for n in vars(importlib.import_module(module_name)) if not n.startswith("_")]


class LazyLoader:
    """A module that is loaded when something of it is requested."""

    def __init__(self, local_name: str, parent_module_globals: dict[str, Any], name: str, *args: Any):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)
