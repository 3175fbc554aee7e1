"""`import tensorflow`, and any module below it, finds penstock.

A finder is first in `sys.meta_path`, so that an installed TensorFlow is never imported. It creates modules that look up their
attributes on access, first in the public names (`base.api`), then where programs reach
into TensorFlow's own folders (`reach_in.py`). A module or name that does not exist does not stop an import: the program gets a
placeholder that raises when it is used (`missing.py`), except where it tests for the name (`try: import ...`).
"""
from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

import penstock.compat.v1 as v1
from penstock._src.base import api as names
from penstock._src.base.version import KERAS_VERSIONS
from penstock._src.compat.programs import earlier, identity, missing, reach_in
from penstock._src.compat.programs.missing import NOTHING
from penstock._src.compat.programs.symbols import ROOTS

ADDONS = "tensorflow_recommenders_addons"
# of the API that a program sees; penstock's own is penstock.__version__
VERSIONS = {"v1": identity.Version("1.15.5"), "v2": identity.Version("2.21.0")}
DUNDERS = {"__version__", "__git_version__", "__compiler_version__", "__internal__", "__operators__"}    # names of the API
OWN = {"python", "core", "examples", "tools"}           # folders of TensorFlow that are no part of its public API


class PublicModule(types.ModuleType):
    """`tensorflow`, `tensorflow.nn` and so on: the public names of one API under a prefix."""

    def __init__(self, name: str, api: str, prefix: str):
        super().__init__(name, f"TensorFlow's names under {prefix or 'tf'!r} ({api}), as penstock has them.")
        self.__path__: list[str] = []
        self.__dict__["_api"], self.__dict__["_prefix"] = api, prefix

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":                           # `from tensorflow.keras.layers import *`
            return [n for n in names.names_under(self._api, self._prefix)
                    if not n.startswith("_") and self._find(n) is not NOTHING]
        if name.startswith("__") and name.endswith("__") and name not in DUNDERS:
            raise AttributeError(name)
        value = self._find(name)
        if value is NOTHING:
            return missing.found_missing(f"{self.__name__}.{name}", self._api, self._prefix + name)
        self.__dict__[name] = value
        return value

    def _find(self, name: str) -> Any:
        """The attribute, or NOTHING."""
        full = self._prefix + name
        if full in ("__version__", "VERSION", "version.VERSION"):
            finder = installed()                        # tf.compat.v1 of a program for 2.x is a part of 2.x
            return VERSIONS[self._api if finder is None else finder.api]
        if full == "keras.__version__":
            return identity.Version(KERAS_VERSIONS[self._api])
        if full == "enable_v2_behavior" and self.__name__.endswith("compat.v2"):
            return public("v1", full)
        if full in ("compat.v1", "compat.v2"):
            return importlib.import_module(f"{self.__name__}.{name}")
        if full == "keras" and (shared := identity.shared_keras(self._api)):
            return importlib.import_module(shared)
        if full in OWN:
            return importlib.import_module(f"{self.__name__.split('.')[0]}.{name}")
        value = public(self._api, full)
        if isinstance(value, types.ModuleType) and not reach_in.has_file(value):
            return _import(f"{self.__name__}.{name}")
        if value is NOTHING:
            value = reach_in.below(self._api, full, f"{self.__name__}.{name}")
        if value is NOTHING and self._api == "v1":
            value = earlier.find(full)
        return value

    def __dir__(self) -> Iterable[str]:
        return sorted({*self.__dict__, *names.names_under(self._api, self._prefix)})


def public(api: str, full: str) -> Any:
    """The object with a public name, or NOTHING."""
    try:
        return names.resolve(api, full)
    except AttributeError:
        return NOTHING


def _import(name: str) -> types.ModuleType:
    """The module `name` of ours, made if it does not exist yet."""
    return sys.modules.get(name) or importlib.import_module(name)


def _shared(shared: str, rest: str) -> types.ModuleType | None:
    """A module of the Keras that is installed, below `tf.keras`."""
    try:
        return importlib.import_module(shared + rest.removeprefix("keras"))
    except ModuleNotFoundError:
        return None


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of `tensorflow` in penstock."""

    def __init__(self, api: str):
        self.api = api

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        root, _, rest = fullname.partition(".")
        if root == ADDONS:                              # TFRA: `dynamic_embedding` is a module of ours
            made = self._public(fullname, self.api, rest)
            return None if made is None else self.spec(fullname, made)
        if root not in ROOTS:
            return None
        made = self.module(fullname, rest)
        if made is None:
            made = missing.module(fullname, self.api, rest)
        return None if made is None else self.spec(fullname, made)

    def find_distributions(self, context: Any = None) -> Any:
        """TensorFlow, as a distribution of the version that programs see."""
        return identity.distributions(context, VERSIONS[self.api])

    def spec(self, fullname: str, made: types.ModuleType) -> importlib.machinery.ModuleSpec:
        """How `made` is imported under a name."""
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True, loader_state=made)

    def module(self, fullname: str, rest: str) -> types.ModuleType | None:
        """The module of a name below a root, or None if penstock has nothing for it."""
        if not rest:
            return PublicModule(fullname, self.api, "")
        if rest.startswith(("_api.v1", "_api.v2")):           # as tracebacks of TensorFlow name its modules
            return self._public(fullname, rest[5:7], rest[8:])
        if f"{rest}.".startswith("contrib.keras.api."):       # the folder in which tf.contrib.keras had its modules
            rest = "contrib" + rest.removeprefix("contrib.keras.api")
        version = None
        while rest.startswith(("compat.v1", "compat.v2")) and rest[9:10] in ("", "."):      # perhaps one in the other
            version, rest = rest[7:9], rest[10:]
        if rest.partition(".")[0] == "keras" and (shared := identity.shared_keras(version or self.api)):
            return _shared(shared, rest)
        if version is not None:
            return self._public(fullname, version, rest)
        if rest.split(".")[0] in OWN or ".python" in rest:
            return reach_in.module(fullname, self.api, rest)
        return self._public(fullname, self.api, rest) or reach_in.module(fullname, self.api, rest)

    @staticmethod
    def _public(fullname: str, api: str, full: str) -> types.ModuleType | None:
        if not full:
            return PublicModule(fullname, api, "")
        value = public(api, full)
        if not isinstance(value, types.ModuleType):
            return None
        return value if reach_in.has_file(value) else PublicModule(fullname, api, full + ".")

    def create_module(self, spec: Any) -> types.ModuleType:
        made = spec.loader_state
        if reach_in.has_file(made):                     # a module of penstock: its own spec stays
            return reach_in.Alias(spec.name, made)
        return made

    def exec_module(self, module: types.ModuleType) -> None:
        """Does nothing: names are looked up on access."""


def installed() -> Finder | None:
    """The finder of this process, if any."""
    return next((f for f in sys.meta_path if isinstance(f, Finder)), None)


@contextlib.contextmanager
def in_place(api: str) -> Iterator[None]:
    """A context in which `import tensorflow` provides one API; restores the previous state afterwards."""
    finders, kept = [f for f in sys.meta_path if isinstance(f, Finder)], _take_modules()
    finder = Finder(api)
    sys.meta_path[:] = [finder, *(f for f in sys.meta_path if f not in finders)]
    try:
        yield
    finally:
        sys.meta_path[:] = [*finders, *(f for f in sys.meta_path if f is not finder)]
        _take_modules()
        sys.modules.update(kept)


def _take_modules() -> dict[str, types.ModuleType]:
    return {m: sys.modules.pop(m) for m in list(sys.modules) if m.split(".")[0] in ROOTS}


def install(api: str) -> None:
    """Installs the finder, and sets the behavior of the API."""
    if api not in VERSIONS:
        raise ValueError(f"api must be 'v1' or 'v2', not {api!r}")
    now = installed()
    if now is None:
        loaded = [m for m in sys.modules if m.split(".")[0] in ROOTS]
        if loaded:
            raise RuntimeError("TensorFlow is loaded already; call penstock.install() before the first `import tensorflow`")
        sys.meta_path.insert(0, Finder(api))
    elif now.api != api:
        raise RuntimeError(f"penstock.install() was called before, with api={now.api!r}")
    identity.name_classes()
    if api == "v1":
        v1.disable_v2_behavior()
