"""Notebooks: their code cells, without the lines for the notebook's shell (`%matplotlib`, `!pip install`).

If a cell is Python 2, all are: they are converted as modules are.
"""
from __future__ import annotations

import ast
import builtins
import io
import json
import linecache
import pathlib
import re
import tokenize
from typing import Any

from penstock._src.compat.programs import python2

_SHELL = re.compile(r"\s*[%!?]")
_ASSIGNED = re.compile(r"\s*[\w, ]+=\s*[!%]")


def read(path: pathlib.Path) -> list[str]:
    """The code of each cell; lines for the notebook's shell are replaced by `pass`, so that line numbers stay."""
    with open(path, encoding="utf-8") as file:
        notebook = json.load(file)
    cells = notebook["cells"] if "cells" in notebook else [c for w in notebook.get("worksheets", []) for c in w["cells"]]
    result = []
    for cell in cells:
        if cell.get("cell_type") != "code":
            continue
        source = cell.get("source", cell.get("input", ""))
        result.append(plain("".join(source) if isinstance(source, list) else source))
    return result


def plain(source: str) -> str:
    """A cell as Python: magic lines and shell commands become `pass`; a cell of another language becomes empty."""
    first = source.lstrip().split("\n", 1)[0]
    if first.startswith("%%") and not re.match(r"%%(time|timeit|capture|prun)\b", first):
        return ""
    lines: list[str] = []
    goes_on = False                                     # the line before was a command that ends with a backslash
    for line in source.split("\n"):
        command = goes_on or (_SHELL.match(line) or _ASSIGNED.match(line)) and not _is_open(lines)
        continued, goes_on = goes_on, bool(command) and line.rstrip().endswith("\\")
        if command:
            line = "" if continued else re.match(r"\s*", line)[0] + "pass"      # type: ignore[index]
        elif line.rstrip().endswith("?") and re.fullmatch(r"\s*[\w.]+\?{1,2}\s*", line):
            line = re.match(r"\s*", line)[0] + "pass"                  # type: ignore[index]
        lines.append(line)
    return "\n".join(lines)


def _is_open(lines: list[str]) -> bool:
    """Whether these lines end inside of brackets or a text, or with a backslash: a `%` that follows is an operator."""
    try:
        for _ in tokenize.generate_tokens(io.StringIO("".join(f"{line}\n" for line in lines)).readline):
            pass
    except tokenize.TokenError as e:
        return "multi-line" in str(e) or "unterminated triple-quoted" in str(e)
    except SyntaxError:
        pass
    return False


class Cells:
    """Runs cells in one scope; the value of the last expression of a cell is shown, as in a notebook."""

    def __init__(self, path: str | pathlib.Path, scope: dict[str, Any], old: bool = False) -> None:
        self._path, self._scope, self._old = path, scope, old          # `old`: the cells are Python 2
        builtins.__dict__.setdefault("_", "")                          # what was shown last, as `sys.displayhook` keeps it
        self._true_division = False                                    # a cell of Python 2 has imported it
        self._flags = 0                                                # of `from __future__`, which holds for later cells, too

    def run(self, number: int, code: str) -> None:
        """Runs one cell; its lines are shown in tracebacks, and found by `inspect.getsource`."""
        name = f"{self._path}[{number}]"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        tree = self._parsed(code, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        compiled = compile(tree, name, "exec", flags=self._flags, dont_inherit=True)
        self._flags |= compiled.co_flags & 0x1FF0000
        exec(compiled, self._scope)
        if last is not None:                                           # "single" passes its value to sys.displayhook
            shown = not code.rstrip().endswith(";")
            code_of: ast.Interactive | ast.Module = ast.Interactive([last]) if shown else ast.Module([last], [])
            exec(compile(code_of, name, "single" if shown else "exec", flags=self._flags, dont_inherit=True), self._scope)


    def _parsed(self, code: str, name: str) -> ast.Module:
        if not self._old or not code.strip():
            return ast.parse(code, name)
        tree = python2.upgraded(code, name, self._true_division)
        self._true_division = self._true_division or python2.imports_division(tree)
        return tree


def run(path: pathlib.Path, scope: dict[str, Any]) -> None:
    """Runs the cells in sequence."""
    sources = read(path)
    cells = Cells(path, scope, _python2(path, sources))
    for number, code in enumerate(sources):
        cells.run(number, code)


def _python2(path: pathlib.Path, sources: list[str]) -> bool:
    """Whether a cell is Python 2, which is reported. What is neither raises when it runs."""
    for source in sources:
        try:
            ast.parse(source)
        except SyntaxError as e:
            if python2.is_python2(source):
                python2.announce(str(path), e)
                return True
    return False
