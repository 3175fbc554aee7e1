"""Restores names that Python and NumPy have removed, for programs that use them; each is reported once, on stderr.

A module gets a `__getattr__`, so existing names do not change, and nothing is logged unless a program uses a name. Removed
methods of arrays (`tostring`, `itemset`) are added to the type; removed modules (`imp`, `cPickle`) are found last; a few
functions of NumPy accept calls again that they now reject (rows that differ in length).
"""
from __future__ import annotations

import builtins
import collections
import collections.abc
import ctypes
import fractions
import functools
import gc
import importlib
import importlib.abc
import importlib.machinery
import inspect
import itertools
import math
import os
import pathlib
import pickle
import string
import sys
import time
import types
import unittest
import urllib
import urllib.parse
import urllib.request
from typing import Any

import numpy as np

from penstock._src.compat.programs import removed_libraries
from penstock._src.compat.programs.supplied import say, shown, supply


def _asscalar(a: Any) -> Any:
    return a.item()


def _asfarray(a: Any, dtype: Any = np.float64) -> Any:
    return np.asarray(a, dtype=dtype)


ArgSpec = collections.namedtuple("ArgSpec", "args varargs keywords defaults")


def _getargspec(function: Any) -> ArgSpec:
    return ArgSpec(*inspect.getfullargspec(function)[:4])


NUMPY: dict[str, Any] = {
    "bool": bool, "int": int, "float": float, "complex": complex, "object": object, "str": str, "long": int, "unicode": str,
    "float_": np.float64, "complex_": np.complex128, "unicode_": np.str_, "string_": np.bytes_, "int0": np.intp,
    "NaN": np.nan, "NAN": np.nan, "Inf": np.inf, "Infinity": np.inf, "infty": np.inf, "PINF": np.inf, "NINF": -np.inf,
    "PZERO": 0.0, "NZERO": -0.0, "product": np.prod, "cumproduct": np.cumprod, "alltrue": np.all, "sometrue": np.any,
    "row_stack": np.vstack, "asscalar": _asscalar, "asfarray": _asfarray, "round_": np.round,
    "msort": functools.partial(np.sort, axis=0),
    "in1d": np.isin, "trapz": np.trapezoid, "bool8": np.bool_, "uint0": np.uintp, "object0": np.object_, "str0": np.str_,
    "bytes0": np.bytes_, "void0": np.void, "mat": np.asmatrix, "cast": {}, "float128": np.longdouble,
}
MODULES: dict[types.ModuleType, dict[str, Any]] = {
    collections: {n: getattr(collections.abc, n) for n in collections.abc.__all__},
    inspect: {"getargspec": _getargspec, "ArgSpec": ArgSpec},
    time: {"clock": time.perf_counter},
    itertools: {"izip": zip, "imap": map, "ifilter": filter, "izip_longest": itertools.zip_longest,
                "ifilterfalse": itertools.filterfalse},
    string: {"maketrans": str.maketrans, "letters": string.ascii_letters, "lowercase": string.ascii_lowercase,
             "uppercase": string.ascii_uppercase, "join": lambda words, sep=" ": sep.join(words)},
    fractions: {"gcd": math.gcd},
    urllib: {n: getattr(urllib.request, n, None) or getattr(urllib.parse, n) for n in (
        "urlretrieve", "urlopen", "FancyURLopener", "URLopener", "urlencode", "quote", "quote_plus", "unquote", "unquote_plus")
        if hasattr(urllib.request, n) or hasattr(urllib.parse, n)},
    os: {"getcwdu": os.getcwd, "errno": __import__("errno")},
    sys: {"maxint": sys.maxsize, "setdefaultencoding": lambda name: None},
}
BUILTINS: dict[str, Any] = {"xrange": range, "raw_input": input, "unicode": str, "long": int, "basestring": str, "unichr": chr,
                            "reduce": functools.reduce, "reload": importlib.reload}
ASSERTIONS = {"assertItemsEqual": "assertCountEqual", "assertEquals": "assertEqual", "assertNotEquals": "assertNotEqual",
              "assertRegexpMatches": "assertRegex", "assertNotRegexpMatches": "assertNotRegex",
              "assertRaisesRegexp": "assertRaisesRegex", "assertAlmostEquals": "assertAlmostEqual",
              "assertNotAlmostEquals": "assertNotAlmostEqual", "assert_": "assertTrue", "failUnless": "assertTrue"}
MOVED = {"cPickle": "pickle", "Queue": "queue", "ConfigParser": "configparser", "StringIO": "io", "cStringIO": "io",
         "urlparse": "urllib.parse", "__builtin__": "builtins", "copy_reg": "copyreg", "Tkinter": "tkinter",
         "SocketServer": "socketserver", "HTMLParser": "html.parser", "commands": "subprocess", "thread": "_thread",
         "urllib2": "urllib.request", "imp": "importlib", "distutils": "setuptools._distutils"}
LIBRARY = pathlib.Path(__file__).parents[3]


class _Moved(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds removed modules under their current names."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        root, dot, rest = fullname.partition(".")
        if root not in MOVED or (dot and root != "distutils"):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=root == "distutils")

    def create_module(self, spec: Any) -> types.ModuleType:
        root, dot, rest = spec.name.partition(".")
        new = MOVED[root] + dot + rest
        say(spec.name, new)
        module = types.ModuleType(spec.name)
        module.__dict__.update({k: v for k, v in importlib.import_module(new).__dict__.items() if not k.startswith("__")})
        module.__dict__.update(_OF_MOVED.get(spec.name, {}))
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Does nothing: the names exist."""


def _load_source(name: str, pathname: str, file: Any = None) -> types.ModuleType:
    """imp.load_source: a module from a file."""
    import importlib.util
    spec = importlib.util.spec_from_file_location(name, pathname)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {pathname}")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _unpickle(file: Any, **kwargs: Any) -> Any:
    """cPickle.load, which a program calls on its own files. The file may be open for text, and text in pickles of Python 2 be
    bytes."""
    file = getattr(file, "buffer", file)
    if not hasattr(file, "seekable") or not file.seekable():
        return pickle.load(file, **kwargs)
    start = file.tell()
    try:
        return pickle.load(file, **kwargs)
    except UnicodeDecodeError:
        file.seek(start)
        return pickle.load(file, **{**kwargs, "encoding": "latin1"})


def _pickle(obj: Any, file: Any, protocol: int | None = None) -> None:
    """cPickle.dump: into a file that is open for text, too."""
    pickle.dump(obj, getattr(file, "buffer", file), protocol)


_OF_MOVED: dict[str, dict[str, Any]] = {"imp": {"load_source": _load_source}, "cPickle": {"load": _unpickle, "dump": _pickle}}


def _tostring(self: Any, order: str = "C") -> bytes:
    say("numpy.ndarray.tostring", "tobytes")
    return self.tobytes(order)


def _itemset(self: Any, *args: Any) -> None:
    say("numpy.ndarray.itemset", "a[...] = value")
    if len(args) == 1:
        self[...] = args[0]
    else:
        self[args[0]] = args[1]


def _array_methods() -> None:
    """Adds methods to NumPy's array types, whose attributes cannot be set from Python."""
    for cls in (np.ndarray, np.generic):
        attributes = gc.get_referents(cls.__dict__)[0]
        for name, function in (("tostring", _tostring), ("itemset", _itemset)):
            attributes.setdefault(name, function)
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))


def _call_as_before(name: str, change: Any) -> None:
    """Makes a function of NumPy accept calls that it now rejects: `change(function, args, kwargs)` converts them."""
    function = getattr(np, name)
    if getattr(function, "supplies", False):
        return

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return change(function, args, kwargs)
    call.supplies = True                                               # type: ignore[attr-defined]
    setattr(np, name, call)


def _reshape(function: Any, args: tuple, kwargs: dict) -> Any:
    """np.reshape takes `newshape` again."""
    if "newshape" in kwargs:
        say("the argument newshape of np.reshape", "shape")
        kwargs["shape"] = kwargs.pop("newshape")
    return function(*args, **kwargs)


def _fromstring(function: Any, args: tuple, kwargs: dict) -> Any:
    """np.fromstring reads the bytes of numbers again."""
    given = dict(zip(("string", "dtype", "count"), args), **kwargs)
    if given.get("sep", "") != "" or len(args) > 3:
        return function(*args, **kwargs)
    say("np.fromstring of bytes", "np.frombuffer")
    text = given["string"]
    data = text.encode("latin1") if isinstance(text, str) else text
    return np.frombuffer(data, given.get("dtype", float), given.get("count", -1)).copy()


def _ragged(function: Any, args: tuple, kwargs: dict) -> Any:
    """np.array accepts rows of different lengths again, as an array of objects."""
    try:
        return function(*args, **kwargs)
    except ValueError as e:
        if "inhomogeneous" not in str(e) or len(args) > 1 or kwargs.get("dtype") is not None or not _called_by_program():
            raise
        say("np.array of rows that differ in length", "dtype=object")
        return function(*args, **{**kwargs, "dtype": object})


def _called_by_program() -> bool:
    """Whether the call comes from the program, not from penstock or another library, which may count on the error."""
    where = sys._getframe(3).f_code.co_filename
    return not where.startswith(str(LIBRARY)) and "site-packages" not in where and "dist-packages" not in where


def _sum(function: Any, args: tuple, kwargs: dict) -> Any:
    """np.sum accepts generators again."""
    if args and isinstance(args[0], types.GeneratorType):
        say("np.sum of a generator", "sum")
        return sum(args[0])
    return function(*args, **kwargs)


def _assertion(old: str, new: str) -> Any:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        say(f"unittest.TestCase.{old}", new)
        return getattr(self, new)(*args, **kwargs)
    return call


def install(names: frozenset[str] | set[str] = frozenset()) -> None:
    """Supplies removed names; of Python 2's functions, those in `names`, which the program uses and does not define."""
    supply(np, NUMPY, "np")
    for module, values in MODULES.items():
        supply(module, values, module.__name__)
    for old, new in ASSERTIONS.items():
        if not hasattr(unittest.TestCase, old):
            setattr(unittest.TestCase, old, _assertion(old, new))
    _array_methods()
    for name, change in (("reshape", _reshape), ("fromstring", _fromstring), ("array", _ragged), ("asarray", _ragged),
                         ("sum", _sum)):
        _call_as_before(name, change)
    if not any(isinstance(f, _Moved) for f in sys.meta_path):
        sys.meta_path.append(_Moved())
    removed_libraries.install()
    for name in sorted(names & BUILTINS.keys()):
        if not hasattr(builtins, name):
            say(name, shown(BUILTINS[name]))
            setattr(builtins, name, BUILTINS[name])
