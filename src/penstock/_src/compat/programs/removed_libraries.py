"""Restores names that other libraries have removed: Pillow, SciPy, pandas, scikit-learn. Each is reported once, on stderr.

Nothing is imported here before the program does: a finder precedes the others, and adds the names to a module when it
is imported. Existing names do not change.
"""
from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from typing import Any

from penstock._src.compat.programs import pictures
from penstock._src.compat.programs.supplied import say, supply


def _pillow(module: types.ModuleType) -> None:
    new = {"ANTIALIAS": "LANCZOS", "LINEAR": "BILINEAR", "CUBIC": "BICUBIC"}
    supply(module, {old: getattr(module, name) for old, name in new.items()}, "PIL.Image")


def _special(name: str) -> Any:
    """A function that scipy.misc had before scipy.special."""
    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module("scipy.special"), name)(*args, **kwargs)
    call.__name__ = f"scipy.special.{name}"
    return call


def _scipy_misc(module: types.ModuleType) -> None:
    supply(module, {f.__name__: f for f in pictures.FUNCTIONS}, "scipy.misc")
    supply(module, {name: _special(name) for name in ("comb", "factorial", "factorial2", "logsumexp")}, "scipy.misc")


def _scipy_ndimage(module: types.ModuleType) -> None:
    supply(module, {"imread": pictures.imread}, "scipy.ndimage")


# Modules of scipy whose functions have other names now.
RENAMED = {"signal": {name: f"signal.windows.{name}" for name in (
               "barthann", "bartlett", "blackman", "blackmanharris", "bohman", "boxcar", "chebwin", "cosine", "exponential",
               "flattop", "gaussian", "general_gaussian", "hamming", "hann", "kaiser", "nuttall", "parzen", "triang", "tukey")},
           "integrate": {"simps": "integrate.simpson", "trapz": "integrate.trapezoid",
                         "cumtrapz": "integrate.cumulative_trapezoid"},
           "linalg": {"pinv2": "linalg.pinv"}}


def _scipy(module: types.ModuleType) -> None:
    numpy, own = importlib.import_module("numpy"), {*dir(module), *module.__all__}
    supply(module, {name: getattr(numpy, name) for name in numpy.__all__ if name not in own}, "scipy")


def _scipy_part(part: str) -> Any:
    """Supplies what a part of scipy has under other names."""
    def supplied(module: types.ModuleType) -> None:
        values = {}
        for old, new in RENAMED[part].items():
            folder, _, name = f"scipy.{new}".rpartition(".")
            values[old] = getattr(importlib.import_module(folder) if folder != module.__name__ else module, name)
        supply(module, values, module.__name__)
    return supplied


def _scipy_sparse(module: types.ModuleType) -> None:
    for name, new, function in (("A", "toarray()", lambda self: self.toarray()), ("H", "conj().T", lambda self: self.conj().T)):
        for cls in (module.spmatrix, module.sparray):
            if not hasattr(cls, name):
                setattr(cls, name, property(_method(name, new, function, "scipy.sparse")))


def _folder(module: types.ModuleType) -> None:
    """What is one module now had modules below it."""
    module.__dict__.setdefault("__path__", [])


def _append(self: Any, other: Any, ignore_index: bool = False, verify_integrity: bool = False, sort: bool = False) -> Any:
    """DataFrame.append and Series.append: a new object with the rows of both."""
    pandas = importlib.import_module("pandas")
    if isinstance(other, dict):
        other = pandas.Series(other)
    if isinstance(self, pandas.DataFrame) and isinstance(other, pandas.Series):
        other = other.to_frame().T
    others = list(other) if isinstance(other, list | tuple) else [other]
    return pandas.concat([self, *others], ignore_index=ignore_index, verify_integrity=verify_integrity, sort=sort)


class _Rows:
    """`ix`: by label, or by position where the labels are not integers."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def _by(self, key: Any) -> Any:
        first = key[0] if isinstance(key, tuple) else key
        if isinstance(first, slice):
            first = first.start if first.start is not None else first.stop
        labels = self._frame.index.inferred_type in ("integer", "mixed-integer", "floating")
        position = isinstance(first, int) and not isinstance(first, bool) and not labels
        return self._frame.iloc if position else self._frame.loc

    def __getitem__(self, key: Any) -> Any:
        return self._by(key)[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._by(key)[key] = value


def _method(name: str, new: str, function: Any, library: str = "pandas") -> Any:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        say(f"{library} {name}", new)
        return function(self, *args, **kwargs)
    return call


PANDAS = {"as_matrix": ("to_numpy", lambda self, columns=None: (self if columns is None else self[columns]).to_numpy()),
          "append": ("concat", _append),
          "iteritems": ("items", lambda self: self.items()),
          "get_value": ("at", lambda self, *at: self.at[at if len(at) > 1 else at[0]])}


def _pandas(module: types.ModuleType) -> None:
    supply(module, {"np": importlib.import_module("numpy")}, "pandas")
    for cls in (module.DataFrame, module.Series):
        for name, (new, function) in PANDAS.items():
            if not hasattr(cls, name):
                setattr(cls, name, _method(f"{cls.__name__}.{name}", new, function))
        if not hasattr(cls, "ix"):
            cls.ix = property(_method(f"{cls.__name__}.ix", "loc and iloc", _Rows))


LIBRARIES = {"PIL.Image": _pillow, "scipy.misc": _scipy_misc, "scipy.ndimage": _scipy_ndimage, "pandas": _pandas,
             "scipy": _scipy, "scipy.sparse": _scipy_sparse, "scipy.sparse.linalg.eigen": _folder,
             **{f"scipy.{part}": _scipy_part(part) for part in RENAMED}}
MOVED = {"sklearn.cross_validation": "sklearn.model_selection", "sklearn.grid_search": "sklearn.model_selection",
         "sklearn.externals.joblib": "joblib", "scipy.misc.pilutil": "scipy.misc", "pandas.util.testing": "pandas.testing",
         **{f"scipy.sparse.linalg.{old}": "scipy.sparse.linalg" for old in ("eigen", "eigen.arpack")}}
EMPTY = ("scipy.misc", "sklearn.externals", "scipy.sparse.linalg.eigen")         # folders of names that may be gone as a whole


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Adds removed names to modules of libraries when they are imported."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """The module of the library, which gets its earlier names, or one under an earlier name."""
        if fullname not in LIBRARIES and fullname not in MOVED and fullname not in EMPTY:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None and fullname not in MOVED and fullname not in EMPTY:
            return None                                        # not installed
        if spec is None:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=fullname in EMPTY)
        if spec.loader is not None and fullname in LIBRARIES:
            run = spec.loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                run(module)
                LIBRARIES[fullname](module)
            spec.loader.exec_module = exec_module              # type: ignore[method-assign]
        return spec

    def create_module(self, spec: Any) -> types.ModuleType:
        """An empty folder, or the names of the module that took the place of this one."""
        module = types.ModuleType(spec.name)
        if spec.name in MOVED:
            say(spec.name, MOVED[spec.name])
            new = importlib.import_module(MOVED[spec.name])
            module.__getattr__ = lambda name: getattr(new, name)       # type: ignore[method-assign]
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Only an empty folder still needs its names."""
        if module.__name__ in LIBRARIES:
            LIBRARIES[module.__name__](module)


def install() -> None:
    """Installs the finder first, once."""
    if not any(isinstance(f, Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, Finder())
