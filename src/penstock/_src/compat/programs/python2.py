"""Sources of Python 2: source that does not compile is converted when it is read, and `penstock run` reports it.

The conversion is that of 2to3 (the package fissix, or lib2to3 of Python 3.12 and older). 2to3 does not change `/`, which rounds
quotients of integers in Python 2: unless the source imports division from `__future__`, its divisions become calls of `divide`.
"""
from __future__ import annotations

import ast
import importlib
import importlib.machinery
import io
import operator
import os
import pathlib
import re
import sys
import tokenize
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

_tools: list[Any] = []


def code(source: bytes, name: str) -> types.CodeType:
    """Compiles a source; one of Python 2 is converted. The error of a source that is neither has a note."""
    try:
        return compile(source, name, "exec", dont_inherit=True)
    except SyntaxError as e:
        try:
            tree = upgraded(_decoded(source), name)
        except ImportError:
            e.add_note("If this is Python 2: `pip install penstock[python2]`, and penstock run converts it.")
            raise e from None
        except (ValueError, tokenize.TokenError, SyntaxError, RecursionError, _parse_error()):
            raise e from None
        announce(name, e)
        return compile(tree, name, "exec", dont_inherit=True)


def announce(name: str, e: SyntaxError) -> None:
    """Reports that a source was converted, and the line that showed what it is."""
    print(f"penstock run: {os.path.basename(name)} is Python 2 (line {e.lineno}: {e.msg}); converted", file=sys.stderr)


def upgraded(text: str, name: str, true_division: bool = False) -> ast.Module:
    """The syntax tree of a source of Python 2, as Python 3. `/` is converted unless the program has imported true division."""
    tree = ast.parse(converted(text), name)
    return tree if true_division else _with_division(tree)


def is_python2(text: str) -> bool:
    """Whether a source that Python 3 cannot parse is one of Python 2."""
    try:
        upgraded(text, "program")
    except ImportError:
        return False                                       # there is no converter
    except (ValueError, tokenize.TokenError, SyntaxError, RecursionError, _parse_error()):
        return False
    return True


def converted(text: str) -> str:
    """A source of Python 2 as one of Python 3. ImportError without a converter."""
    indented = re.sub(r"^[ \t]+", lambda m: m[0].expandtabs(8), text, flags=re.MULTILINE)
    return str(_tool().refactor_string(indented.rstrip() + "\n", "program"))


def _tool() -> Any:
    if not _tools:
        package = "fissix"
        try:
            refactor = importlib.import_module("fissix.refactor")
        except ImportError:
            package = "lib2to3"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                refactor = importlib.import_module("lib2to3.refactor")
        left = ("fix_idioms", "fix_ws_comma", "fix_future")           # style, and imports of division
        names = [n for n in refactor.get_fixers_from_package(f"{package}.fixes") if not n.endswith(left)]
        _tools.append(refactor.RefactoringTool(names))
    return _tools[0]


def _parse_error() -> type[Exception]:
    """The converter's exceptions for text that is not Python."""
    return importlib.import_module(type(_tool()).__module__.split(".")[0] + ".pgen2.parse").ParseError


def _decoded(source: bytes) -> str:
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    return io.TextIOWrapper(io.BytesIO(source), encoding, line_buffering=True).read()


# -- division -----------------------------------------------------------------------------------------------------------
def divide(x: Any, y: Any) -> Any:
    """`x / y` of Python 2."""
    if _whole(x) and _whole(y):
        return x // y
    for one, other, method in ((x, y, "__div__"), (y, x, "__rdiv__")):
        if hasattr(type(one), method):                     # tensors, and what a program defines
            return getattr(one, method)(other)
    return x / y


def divide_in_place(x: Any, y: Any) -> Any:
    """`x /= y` of Python 2."""
    if isinstance(x, np.ndarray):
        return operator.ifloordiv(x, y) if _whole(x) and _whole(y) else operator.itruediv(x, y)
    return divide(x, y)


def _whole(x: Any) -> bool:
    return isinstance(x, (int, np.integer)) or isinstance(x, np.ndarray) and x.dtype.kind in "iub"


class _Divisions(ast.NodeTransformer):
    """Calls of `divide` for `/`."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return _call("divide", node, node.left, node.right) if isinstance(node.op, ast.Div) else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Div):
            return node
        read = ast.parse(ast.unparse(node.target), mode="eval").body
        return ast.copy_location(ast.Assign([node.target], _call("divide_in_place", node, read, node.value)), node)


def _call(name: str, node: ast.AST, *arguments: ast.expr) -> ast.expr:
    return ast.copy_location(ast.Call(ast.Name(f"_python2_{name}", ast.Load()), list(arguments), []), node)


def _future(tree: ast.Module) -> list[ast.ImportFrom]:
    return [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]


def imports_division(tree: ast.Module) -> bool:
    """Whether `/` of a source of Python 2 is true division."""
    return any(alias.name == "division" for n in _future(tree) for alias in n.names)


def _with_division(tree: ast.Module) -> ast.Module:
    if imports_division(tree):
        return tree
    future = _future(tree)
    tree = _Divisions().visit(tree)
    names = [ast.alias(n, f"_python2_{n}") for n in ("divide", "divide_in_place")]
    at = tree.body.index(future[-1]) + 1 if future else int(ast.get_docstring(tree) is not None)
    tree.body.insert(at, ast.ImportFrom(__name__, names, 0))
    return ast.fix_missing_locations(tree)


# -- modules of the program ---------------------------------------------------------------------------------------------
class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module of the program's own folder."""

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> types.CodeType:  # type: ignore[override]
        """Compiles the module."""
        return code(bytes(data), os.fspath(path))


def install(folder: pathlib.Path) -> None:
    """Modules in the folder of a program, and below it, may be Python 2."""
    root = str(folder.resolve())
    plain = [(importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES),
             (_Loader, importlib.machinery.SOURCE_SUFFIXES),
             (importlib.machinery.SourcelessFileLoader, importlib.machinery.BYTECODE_SUFFIXES)]
    make: Callable[[str], Any] = importlib.machinery.FileFinder.path_hook(*plain)

    def hook(path: str) -> Any:
        inside = os.path.realpath(path or ".")
        if (inside + os.sep).startswith(root + os.sep) and "site-packages" not in inside:
            return make(path)
        raise ImportError(f"{path} is not in the program's folder")

    sys.path_hooks.insert(0, hook)
    sys.path_importer_cache.clear()
