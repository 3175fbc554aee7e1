"""Notebooks: their code cells, without what is meant for the notebook's own shell (`%matplotlib`, `!pip install`)."""
from __future__ import annotations

import ast
import json
import pathlib
import re
import sys
from typing import Any

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
    lines = []
    for line in source.split("\n"):
        if _SHELL.match(line) or _ASSIGNED.match(line):
            line = re.match(r"\s*", line)[0] + "pass"                  # type: ignore[index]
        elif line.rstrip().endswith("?") and re.fullmatch(r"\s*[\w.]+\?{1,2}\s*", line):
            line = re.match(r"\s*", line)[0] + "pass"                  # type: ignore[index]
        lines.append(line)
    return "\n".join(lines)


def run(path: pathlib.Path, scope: dict[str, Any]) -> None:
    """Runs the cells in sequence; what the last expression of a cell returns is shown, as a notebook does."""
    import linecache
    flags = 0
    for number, code in enumerate(read(path)):
        name = f"{path}[{number}]"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        tree = ast.parse(code, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        compiled = compile(tree, name, "exec", flags=flags, dont_inherit=True)
        flags |= compiled.co_flags & 0x1FF0000                         # `from __future__` holds for later cells, too
        exec(compiled, scope)
        if isinstance(last, ast.Expr):
            shown = _ends_with_semicolon(code)
            value = eval(compile(ast.Expression(last.value), name, "eval", flags=flags, dont_inherit=True), scope)
            if not shown:
                sys.displayhook(value)


def _ends_with_semicolon(code: str) -> bool:
    return code.rstrip().endswith(";")
