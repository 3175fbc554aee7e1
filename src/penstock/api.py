"""The public names, made from decorators.

Every public function and class says its own public names with ``@export``; the two namespaces
``penstock`` (TF2 names) and ``penstock.compat.v1`` (TF1 names) are views over the tables kept here.
Nothing else lists a public name, so the tables cannot go stale.

    @export("nn.relu", v1=["nn.relu_v1_only_alias"])
    def relu(features, name=None): ...

Heavy parts of the library are imported when one of their names is first asked for: ``LAZY`` maps the
first word of a public name to the module that exports it.
"""
from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")

TABLES: dict[str, dict[str, Any]] = {"v1": {}, "v2": {}}
LAZY: dict[str, str] = {}


class _Export:
    """The decorator ``export``; ``export.value`` names what cannot be decorated."""

    def __call__(self, *names: str, v1: Iterable[str] = (), v2: Iterable[str] = ()) -> Callable[[T], T]:
        def decorate(obj: T) -> T:
            self.value(obj, *names, v1=v1, v2=v2)
            return obj
        return decorate

    @staticmethod
    def value(obj: Any, *names: str, v1: Iterable[str] = (), v2: Iterable[str] = ()) -> None:
        """Gives `obj` the public names in both APIs, and `v1`, `v2` in one of them."""
        for api, extra in (("v1", v1), ("v2", v2)):
            table = TABLES[api]
            for name in (*names, *extra):
                table[name] = obj


export = _Export()


class Namespace(types.ModuleType):
    """A public module such as ``penstock.compat.v1.nn``: attributes come from the export tables."""

    def __init__(self, api: str, prefix: str, module_name: str):
        super().__init__(module_name, f"Public names under {prefix!r} ({api}).")
        self.__dict__["_api"], self.__dict__["_prefix"] = api, prefix
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        value = resolve(self._api, self._prefix + name, self.__name__)
        self.__dict__[name] = value
        return value

    def __dir__(self) -> list[str]:
        return names_under(self._api, self._prefix)


def names_under(api: str, prefix: str) -> list[str]:
    """The attribute names directly below `prefix` in one API."""
    found = {n[len(prefix):].split(".")[0] for n in TABLES[api] if n.startswith(prefix)}
    if not prefix:
        found.update(LAZY)
    return sorted(found)


def resolve(api: str, full: str, module_name: str) -> Any:
    """The object with public name `full`, or the namespace of that name; AttributeError if neither."""
    for attempt in range(2):
        table = TABLES[api]
        if full in table:
            return table[full]
        if any(n.startswith(full + ".") for n in table):
            return _namespace(api, full, module_name)
        lazy = LAZY.get(full.split(".", 1)[0])
        if attempt or lazy is None:
            break
        importlib.import_module(lazy)
    last = full.rsplit(".", 1)[-1]
    if last.startswith("__") and last.endswith("__"):
        raise AttributeError(last)              # Python itself asks for such names: no need to look for near ones
    raise AttributeError(_missing(api, full, module_name))


def _namespace(api: str, full: str, parent: str) -> types.ModuleType:
    module_name = f"{parent}.{full.rsplit('.', 1)[-1]}"
    existing = sys.modules.get(module_name)
    if isinstance(existing, Namespace):
        return existing
    made = Namespace(api, full + ".", module_name)
    if existing is None:
        sys.modules[module_name] = made
    return made


def _missing(api: str, full: str, module_name: str) -> str:
    import difflib
    near = difflib.get_close_matches(full, list(TABLES[api]), n=3, cutoff=0.75)
    other = "v1" if api == "v2" else "v2"
    text = f"module '{module_name}' has no attribute '{full.rsplit('.', 1)[-1]}'"
    if full in TABLES[other]:
        where = "penstock.compat.v1" if other == "v1" else "penstock"
        text += f" (it exists as {where}.{full})"
    elif near:
        text += f" (nearest: {', '.join(near)})"
    return text


def install(module_name: str, api: str, prefix: str = "") -> None:
    """Makes a real module answer for the public names under `prefix`, after its own attributes."""
    module = sys.modules[module_name]

    def getattr_(name: str) -> Any:
        value = resolve(api, prefix + name, module_name)
        module.__dict__.setdefault(name, value)
        return value

    module.__dict__["__getattr__"] = getattr_
    module.__dict__["__dir__"] = lambda: sorted(set(module.__dict__) | set(names_under(api, prefix)))
