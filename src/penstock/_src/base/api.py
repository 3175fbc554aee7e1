"""Public names: the names of objects in each API.

Every public function and class declares its public names with ``@export``:

    @export("nn.relu", v1=["nn.relu_v1_only_alias"])
    def relu(features, name=None): ...

Nothing else lists a public name by hand. `scripts/make_public.py` loads everything under ``_src`` and writes the public
modules (``penstock.nn``, ``penstock.compat.v1.nn``): one table per module, from each name to the module under ``_src``
that exports it. A public module loads that module when one of its names is first requested (`attach`), so ``import
penstock`` loads only the core, and ``dir``, ``hasattr`` and star imports agree whatever is loaded.
"""
from __future__ import annotations

import functools
import importlib
import inspect
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from penstock._src.base.near_names import near_names

T = TypeVar("T")

TABLES: dict[str, dict[str, Any]] = {"v1": {}, "v2": {}}        # the exports of the modules loaded so far
ROOTS = {"v1": "penstock.compat.v1", "v2": "penstock"}


def called(function: Any, name: str) -> Any:
    """A function that is no attribute of a module of ours, with its public name (without `tf.`) as its own: pickle finds it."""
    folder, _, function.__name__ = f"penstock.{name}".rpartition(".")
    function.__module__, function.__qualname__ = folder, function.__name__
    return function


def with_sections(doc: str, sections: str) -> str:
    """The docstring of a function that is made in a family: `sections` ("Args: …") behind the first paragraph of `doc`, so that
    its example stays last."""
    text, _, example = inspect.cleandoc(doc).partition("\n\n")
    return "\n\n".join(part for part in (text, sections, example) if part)


def _is_defined(function: types.FunctionType) -> bool:
    return getattr(sys.modules.get(function.__module__), function.__name__, None) is function


class Later:
    """A table entry for an object that is made when one of its names is first requested. A function that is made for it is
    called `name`; one that a module defines keeps its own name."""

    __slots__ = ("_make", "made", "_name")

    def __init__(self, make: Callable[[], Any], name: str):
        self._make, self.made, self._name = make, None, name

    def get(self) -> Any:
        """The object, made once."""
        if self.made is None:
            made = self._make()
            self.made = called(made, self._name) if isinstance(made, types.FunctionType) and not _is_defined(made) else made
        return self.made


class _Export:
    """The decorator ``export``; ``export.value`` names what cannot be decorated."""

    def __call__(self, *names: str, v1: Iterable[str] = (), v2: Iterable[str] = ()) -> Callable[[T], T]:
        def decorate(obj: T) -> T:
            self.value(obj, *names, v1=v1, v2=v2)
            return obj
        return decorate

    def later(self, make: Callable[[], Any], *names: str, v1: Iterable[str] = (), v2: Iterable[str] = ()) -> None:
        """Gives public names to the result of `make()`, which is called when one of them is first requested."""
        name = names[0] if names else next((f"compat.v1.{n}" for n in v1), None) or next(iter(v2))
        self.value(Later(make, name), *names, v1=v1, v2=v2)

    @staticmethod
    def value(obj: Any, *names: str, v1: Iterable[str] = (), v2: Iterable[str] = ()) -> None:
        """Gives `obj` the public names in both APIs, and `v1`, `v2` in one of them."""
        for api, extra in (("v1", v1), ("v2", v2)):
            table = TABLES[api]
            for name in (*names, *extra):
                table[name] = obj


export = _Export()


class LazyModule:
    """A module that is loaded when something of it is first used.

    >>> bundle = LazyModule("penstock._src.io.bundle")     # in place of `from penstock._src.io import bundle`
    """

    def __init__(self, name: str):
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self.__name__), name)
        self.__dict__[name] = value
        return value


class Public(NamedTuple):
    """The public names of a module, its attribute `__public__`."""
    api: str
    prefix: str                     # "" or "nn."
    names: dict[str, str]           # from a name to the module under _src that exports it, or to a public module
    modules: tuple[str, ...]        # the public modules below this one


def attach(module_name: str, api: str, prefix: str, names: dict[str, str], modules: tuple[str, ...] = ()) -> None:
    """Attaches the public names under `prefix` to the module `module_name`: generated files call this."""
    _offer(module_name, Public(api, prefix, names, modules))


def mirror(module_name: str, original: types.ModuleType) -> None:
    """Attaches the names of another public module to the module `module_name`: `penstock.compat.v2.nn` is `penstock.nn`."""
    _offer(module_name, original.__public__)


def _offer(module_name: str, public: Public) -> None:
    module = sys.modules[module_name]
    offered = {*public.names, *public.modules}

    def getattr_(name: str) -> Any:
        if name not in offered:
            if name.startswith("__") and name.endswith("__"):
                raise AttributeError(name)      # Python itself requests such names: no need to look for near ones
            raise MissingName(public.api, public.prefix + name, module_name)
        value = _load(public, name, module_name)
        module.__dict__.setdefault(name, value)
        return value

    def dir_() -> list[str]:
        return sorted(offered.union(n for n in module.__dict__ if n.startswith("__") or not n.startswith("_")))

    module.__dict__.update(__getattr__=getattr_, __dir__=dir_, __public__=public,
                           __all__=sorted(n for n in offered if not n.startswith("_")))


def _load(public: Public, name: str, module_name: str) -> Any:
    """The object or module with a name that a public module offers."""
    source = public.names.get(name)
    if source is None:
        return importlib.import_module(f"{module_name}.{name}")
    if source.startswith("penstock."):
        return importlib.import_module(source)
    table, full = TABLES[public.api], public.prefix + name
    if full not in table:
        importlib.import_module(f"penstock._src.{source}")
    try:
        found = table[full]
    except KeyError:
        raise AttributeError(f"{module_name}.{name} is not available: penstock._src.{source} is being loaded, or no longer "
                             f"exports it (then run `make public`)") from None
    if isinstance(found, Later):
        found = table[full] = found.get()
    return found


def namespace(api: str, full: str) -> types.ModuleType | None:
    """The public module of a name, or None if the name is not one of a module."""
    name = f"{ROOTS[api]}.{full}" if full else ROOTS[api]
    try:
        module = sys.modules.get(name) or importlib.import_module(name)
    except ModuleNotFoundError as e:
        if e.name is None or not name.startswith(e.name):
            raise
        return None
    public = getattr(module, "__public__", None)
    return module if public is not None and public.api == api else None


def resolve(api: str, full: str) -> Any:
    """The object with public name `full`, or the public module of that name; AttributeError if neither."""
    found = TABLES[api].get(full)
    if found is not None and not isinstance(found, Later):
        return found
    head, _, last = full.rpartition(".")
    module = namespace(api, head)
    if module is None:
        raise MissingName(api, full, f"{ROOTS[api]}.{head}")
    return getattr(module, last)


def exists(api: str, full: str) -> bool:
    """Whether there is an object with public name `full`. Loads nothing of it."""
    head, _, last = full.rpartition(".")
    module = namespace(api, head)
    return module is not None and last in module.__public__.names


def names_under(api: str, prefix: str) -> list[str]:
    """The attribute names directly below `prefix` ("nn.", or "" for all of it) in one API; none if that is no module."""
    module = namespace(api, prefix.rstrip("."))
    return [] if module is None else sorted({*module.__public__.names, *module.__public__.modules})


def names_below(api: str, full: str = "") -> list[str]:
    """All public names of objects in the module `full` and the modules below it. Loads none of the objects."""
    module = namespace(api, full)
    if module is None:
        return []
    public = module.__public__
    below = [n for m in public.modules for n in names_below(api, public.prefix + m)]
    return [public.prefix + n for n, source in public.names.items() if not source.startswith("penstock.")] + below


class MissingName(AttributeError):
    """There is no such public name. The text is expensive, so it is made on demand: `hasattr` never needs it."""

    def __init__(self, api: str, full: str, module_name: str):
        super().__init__(api, full, module_name)

    def __str__(self) -> str:
        return _missing(*self.args)


@functools.cache
def _missing(api: str, full: str, module_name: str) -> str:
    other = "v1" if api == "v2" else "v2"
    text = f"module '{module_name}' has no attribute '{full.rsplit('.', 1)[-1]}'"
    if api == "v2" and full == "contrib":
        return (f"{text}: tf.contrib belongs to TensorFlow 1.x, and is penstock.compat.v1.contrib here. "
                "`penstock run --api v1 program.py` runs a program with the 1.x API")
    if exists(other, full):
        return f"{text} (it exists as {ROOTS[other]}.{full})"
    near = near_names(full, names_below(api))
    return f"{text} (nearest: {', '.join(near)})" if near else text
