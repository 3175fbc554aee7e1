"""The public names, made from decorators.

Every public function and class says its own public names with ``@export``; the two namespaces
``penstock`` (TF2 names) and ``penstock.compat.v1`` (TF1 names) are views over the tables kept here.
Nothing else lists a public name, so the tables cannot go stale.

    @export("nn.relu", v1=["nn.relu_v1_only_alias"])
    def relu(features, name=None): ...

What is heavy waits until one of its names is asked for: ``LAZY`` maps the beginning of public names (``linalg``,
``nn.rnn_cell``; ``v2:losses`` in one API alone) to the module that exports them, and ``export.later`` assigns names to what
will be made then.
"""
from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")

TABLES: dict[str, dict[str, Any]] = {"v1": {}, "v2": {}}
LAZY: dict[str, str] = {}


class Later:
    """Stands in a table for an object that is made when one of its names is first asked for."""

    __slots__ = ("_make", "_made")

    def __init__(self, make: Callable[[], Any]):
        self._make, self._made = make, None

    def get(self) -> Any:
        """The object, the same every time."""
        if self._made is None:
            self._made = self._make()
        return self._made


class _Export:
    """The decorator ``export``; ``export.value`` names what cannot be decorated."""

    def __call__(self, *names: str, v1: Iterable[str] = (), v2: Iterable[str] = ()) -> Callable[[T], T]:
        def decorate(obj: T) -> T:
            self.value(obj, *names, v1=v1, v2=v2)
            return obj
        return decorate

    def later(self, make: Callable[[], Any], *names: str, v1: Iterable[str] = (), v2: Iterable[str] = ()) -> None:
        """Gives public names to what `make()` returns, which is called when one of them is first asked for."""
        self.value(Later(make), *names, v1=v1, v2=v2)

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
        if name == "__all__":
            value: Any = star_names(self._api, self._prefix, self.__name__)
        else:
            value = resolve(self._api, self._prefix + name, self.__name__)
        self.__dict__[name] = value
        return value

    def __dir__(self) -> list[str]:
        return names_under(self._api, self._prefix)


class LazyModule:
    """A module that is loaded when something of it is first used.

    >>> bundle = LazyModule("penstock._src.io.bundle")     # in place of `from penstock.io import bundle`
    """

    def __init__(self, name: str):
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self.__name__), name)
        self.__dict__[name] = value
        return value


def names_under(api: str, prefix: str) -> list[str]:
    """The attribute names directly below `prefix` in one API."""
    load(prefix.rstrip("."), api)
    waiting = [w.removeprefix(f"{api}:") for w in LAZY]
    return sorted({n[len(prefix):].split(".")[0] for n in (*TABLES[api], *waiting) if n.startswith(prefix) and ":" not in n})


def star_names(api: str, prefix: str, module_name: str) -> list[str]:
    """What `from module import *` returns: the names directly below `prefix` that there are."""
    def there(name: str) -> bool:
        try:
            resolve(api, prefix + name, module_name)
        except AttributeError:
            return False
        return True
    return [n for n in names_under(api, prefix) if not n.startswith("_") and there(n)]


class MissingName(AttributeError):
    """There is no such public name. The text, which takes long to find, is made when it is asked for: `hasattr` never does."""

    def __init__(self, api: str, full: str, module_name: str):
        super().__init__(api, full, module_name)

    def __str__(self) -> str:
        return _missing(*self.args)


def resolve(api: str, full: str, module_name: str) -> Any:
    """The object with public name `full`, or the namespace of that name; AttributeError if neither."""
    load(full, api)
    table = TABLES[api]
    if full in table:
        found = table[full]
        if isinstance(found, Later):
            found = table[full] = found.get()
        return found
    if any(n.startswith(full + ".") for n in (*table, *LAZY)):
        return _namespace(api, full, module_name)
    last = full.rsplit(".", 1)[-1]
    if last.startswith("__") and last.endswith("__"):
        raise AttributeError(last)              # Python itself asks for such names: no need to look for near ones
    raise MissingName(api, full, module_name)


def load(full: str, api: str) -> None:
    """Loads the parts whose public names begin as `full` does, if they wait in LAZY."""
    end = full.find(".")
    while end != -1:
        _load(full[:end], api)
        end = full.find(".", end + 1)
    _load(full, api)


def _load(word: str, api: str) -> None:
    for key in (word, f"{api}:{word}"):
        lazy = LAZY.get(key)
        if lazy is None:
            continue
        module = importlib.import_module(lazy)
        if getattr(module.__spec__, "_initializing", False):      # asked for by its own modules, while they are loaded
            continue
        LAZY.pop(key, None)


def _namespace(api: str, full: str, parent: str) -> types.ModuleType:
    module_name = f"{parent}.{full.rsplit('.', 1)[-1]}"
    existing = sys.modules.get(module_name)
    if existing is not None:
        return existing
    made = sys.modules[module_name] = Namespace(api, full + ".", module_name)
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
        value = star_names(api, prefix, module_name) if name == "__all__" else resolve(api, prefix + name, module_name)
        module.__dict__.setdefault(name, value)
        return value

    module.__dict__["__getattr__"] = getattr_
    module.__dict__["__dir__"] = lambda: sorted(set(module.__dict__) | set(names_under(api, prefix)))


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Lets `from penstock.compat.v1.nn import relu` find namespaces, which have no files."""

    roots = {"penstock.compat.v1.": "v1", "penstock.compat.v2.": "v2", "penstock.": "v2"}

    def _found(self, name: str) -> Any:
        root = next((r for r in self.roots if name.startswith(r)), None)
        try:
            return None if root is None else resolve(self.roots[root], name[len(root):], name.rpartition(".")[0])
        except AttributeError:
            return None

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if not isinstance(self._found(fullname), Namespace):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        return self._found(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to do: names are looked up when they are asked for."""


sys.meta_path.append(_Finder())
