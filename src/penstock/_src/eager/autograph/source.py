"""Finds the syntax tree of a function that exists: by its file, its line, and for lambdas the columns of its code."""
from __future__ import annotations

import ast
import collections
import linecache
import types

_KEPT_FILES = 16
_files: collections.OrderedDict[str, tuple[int, ast.Module]] = collections.OrderedDict()


class NoSource(Exception):
    """The source of a function cannot be found, or is not one function."""


def tree_of(code: types.CodeType) -> ast.FunctionDef | ast.Lambda:
    """The node that `code` was compiled from. It belongs to a cached tree: copy before changing it."""
    module = _module(code.co_filename)
    if code.co_name == "<lambda>":
        return _lambda(module, code)
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            if min([node.lineno, *(d.lineno for d in node.decorator_list)]) == code.co_firstlineno:
                return node
    raise NoSource(f"{code.co_filename} has no function {code.co_name} at line {code.co_firstlineno}")


def _module(filename: str) -> ast.Module:
    linecache.checkcache(filename)
    text = "".join(linecache.getlines(filename))
    if not text:
        raise NoSource(f"the source of {filename} is not available")
    known = _files.get(filename)
    key = hash(text)
    if known is None or known[0] != key:
        try:
            known = _files[filename] = key, ast.parse(text)
        except SyntaxError as e:
            raise NoSource(f"{filename} has changed, and cannot be read: {e}") from None
        while len(_files) > _KEPT_FILES:
            _files.popitem(last=False)
    _files.move_to_end(filename)
    return known[1]


def _lambda(module: ast.Module, code: types.CodeType) -> ast.Lambda:
    """The smallest lambda expression that spans all of the code's positions."""
    where = [(line, column) for line, _, column, _ in code.co_positions() if line is not None and column is not None]
    where = [p for p in where if p != (code.co_firstlineno, 0)] or where
    found: ast.Lambda | None = None
    for node in ast.walk(module):
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno and _spans(node.body, where):
            if found is None or _size(node) < _size(found):
                found = node
    if found is None:
        raise NoSource(f"{code.co_filename} has no such lambda at line {code.co_firstlineno}")
    return found


def _spans(node: ast.expr, where: list[tuple[int, int]]) -> bool:
    first, last = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
    return all(first <= p <= last for p in where)


def _size(node: ast.expr) -> tuple[int, int]:
    lines = (node.end_lineno or 0) - node.lineno
    return lines, (node.end_col_offset or 0) - (0 if lines else node.col_offset)
