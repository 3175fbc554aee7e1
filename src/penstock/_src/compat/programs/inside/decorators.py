"""Of `util`: decorators that mark functions as deprecated, exported or dispatched, and a few that programs use beside them."""
from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any

from penstock._src.base import tf_logging as logging
from penstock._src.base.api import TABLES, resolve
from penstock._src.ops.arguments import renamed

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
        if isinstance(function, type):
            made = function.__init__             # type: ignore[misc]

            @functools.wraps(made)
            def init(self: Any, *args: Any, **kwargs: Any) -> None:
                _say(function, instructions, warn_once)
                made(self, *args, **kwargs)
            function.__init__ = init             # type: ignore[misc]
            return function

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            _say(function, instructions, warn_once)
            return function(*args, **kwargs)
        return call
    return decorate


def deprecated_args(date: str | None, instructions: str, *deprecated_arg_names: Any, **kwargs: Any) -> Callable:
    """Marks arguments as deprecated: a call that passes one logs a warning."""
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
    """The argument that was given; ValueError if both were."""
    return renamed(new_name, new_value, old_name, old_value)


def deprecated_alias(deprecated_name: str, name: str, func_or_class: Any, warn_once: bool = True) -> Any:
    """Returns the function or class: the old name is an alias."""
    return func_or_class


def deprecated_endpoints(*names: str) -> Callable:
    """Returns the function: old names are aliases."""
    return lambda function: function


@contextlib.contextmanager
def silence() -> Any:
    """A context without deprecation warnings."""
    level = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(level)


def get_canonical_name_for_symbol(symbol: Any, api_name: str = "tensorflow", add_prefix_to_v1_names: bool = False) -> Any:
    """The shortest public name of an object, or None: `math.add` of 2.x, `compat.v1.` before those that only 1.x has."""
    for api, prefix in (("v2", ""), ("v1", "compat.v1." if add_prefix_to_v1_names else "")):
        found = sorted((n for n, v in list(TABLES[api].items()) if v is symbol), key=lambda n: (len(n), n))
        if found:
            return prefix + found[0]
    return None


def get_symbol_from_name(name: str) -> Any:
    """The object with a public name, or None."""
    api, full = ("v1", name.removeprefix("compat.v1.")) if name.startswith("compat.v1.") else ("v2", name)
    try:
        return resolve(api, full)
    except AttributeError:
        return None


TENSORFLOW_API_NAME, KERAS_API_NAME, ESTIMATOR_API_NAME = "tensorflow", "keras", "estimator"


class api_export:  # noqa: N801
    """A decorator that records the names under which a library exports an object."""

    def __init__(self, *names: str, v1: Any = None, api_name: str = TENSORFLOW_API_NAME, **kwargs: Any):
        self._names, self._v1 = names, names if v1 is None else tuple(v1)
        self._attribute = f"_{'tf' if api_name == TENSORFLOW_API_NAME else api_name}_api_names"

    def __call__(self, obj: Any) -> Any:
        with contextlib.suppress(AttributeError, TypeError):        # objects that take no attributes
            setattr(obj, self._attribute, self._names)
            setattr(obj, f"{self._attribute}_v1", self._v1)
        return obj

    def export_constant(self, module_name: str, name: str) -> None:
        """Does nothing: constants have no names."""


tf_export, keras_export, estimator_export = (functools.partial(api_export, api_name=name) for name in (
    TENSORFLOW_API_NAME, KERAS_API_NAME, ESTIMATOR_API_NAME))
contextmanager = contextlib.contextmanager


class TFDecorator:
    """A function around a function, with the name and the documentation of the inner one; a class of it is a decorator."""

    def __init__(self, decorator_name: str, target: Callable, decorator_doc: str = "", decorator_argspec: Any = None):
        self._decorated_target, self._decorator_name, self._decorator_doc = target, decorator_name, decorator_doc
        self._decorator_argspec = decorator_argspec
        functools.update_wrapper(self, target)

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
        """Its description."""
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
    if isinstance(decorator_argspec, inspect.FullArgSpec):
        made.__signature__ = _signature_of(decorator_argspec, inspect.ismethod(target))  # type: ignore[attr-defined]
    return made


def _signature_of(spec: inspect.FullArgSpec, bound: bool) -> inspect.Signature:
    """The signature that a list of arguments describes; without the first one if that is bound."""
    kind = inspect.Parameter
    missing = len(spec.args) - len(spec.defaults or ())
    values = [kind.empty] * missing + list(spec.defaults or ())
    found = [kind(n, kind.POSITIONAL_OR_KEYWORD, default=v) for n, v in zip(spec.args, values)][int(bound):]
    found += [kind(spec.varargs, kind.VAR_POSITIONAL)] if spec.varargs else []
    only = spec.kwonlydefaults or {}
    found += [kind(n, kind.KEYWORD_ONLY, default=only.get(n, kind.empty)) for n in spec.kwonlyargs]
    found += [kind(spec.varkw, kind.VAR_KEYWORD)] if spec.varkw else []
    return inspect.Signature(found)


def unwrap(maybe_decorated: Callable) -> tuple[list, Callable]:
    """The decorators around a function, outermost first, and the function inside."""
    found: list[Any]
    found, function = [], maybe_decorated
    while True:
        note = function if isinstance(function, TFDecorator) else getattr(function, "__dict__", {}).get("_tf_decorator")
        if note is None:
            return found, inspect.unwrap(function, stop=lambda f: not _ours(f))
        found.append(note)
        function = note.decorated_target


def _ours(function: Callable) -> bool:
    """Whether a wrapper comes from penstock: those of libraries are not looked through, as by TensorFlow."""
    return str(getattr(function, "__globals__", {}).get("__name__", "")).startswith("penstock.")


def keyword_args_only(function: Callable) -> Callable:
    """Refuses arguments by position."""
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if args:
            raise ValueError(f"Must use keyword args to call {function.__name__}.")
        return function(**kwargs)
    return call


def should_use_result(function: Callable, *args: Any, **kwargs: Any) -> Callable:
    """Returns the function."""
    return function


must_use_result_or_fatal = should_use_result


def fn_args(fn: Callable) -> tuple[str, ...]:
    """The names of the arguments of a function, without `self`."""
    return tuple(n for n, p in inspect.signature(fn).parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))


def has_kwargs(fn: Callable) -> bool:
    """Whether a function takes any keyword."""
    return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(fn).parameters.values())


def remove_undocumented(module_name: str, *args: Any, **kwargs: Any) -> None:
    """Returns the module."""


def make_all(module_name: str, *args: Any, **kwargs: Any) -> list[str]:
    """The public names of a module."""
    return [n for n in vars(importlib.import_module(module_name)) if not n.startswith("_")]


class LazyLoader:
    """A module that is loaded when something of it is requested."""

    def __init__(self, local_name: str, parent_module_globals: dict[str, Any], name: str, *args: Any):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)
