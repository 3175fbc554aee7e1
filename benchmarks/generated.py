"""Tables of Markdown pages that benchmarks write: each stands between two comments that name it, and is rewritten.

    <!-- NAME: made by COMMAND -->
    ...
    <!-- end of NAME -->
"""
from __future__ import annotations

import os
import pathlib
import shlex
import sys


def command() -> str:
    """How this program was called."""
    file = os.path.relpath(sys.argv[0], pathlib.Path(__file__).parents[1])
    rest = [a for i, a in enumerate(sys.argv) if i and "--table" not in (a, sys.argv[i - 1])]
    return shlex.join(["python", file, *rest])


def write(page: pathlib.Path, name: str, lines: list[str]) -> None:
    """Puts lines in place of those that stand between the comments of a name; at the end of the page, if there are none."""
    text = page.read_text() if page.exists() else ""
    first, last = f"<!-- {name}: made by ", f"<!-- end of {name} -->"
    block = "\n".join([f"{first}`{command()}` -->", "", *lines, "", last])
    begin, end = text.find(first), text.find(last)
    if begin < 0 or end < begin:
        page.write_text(f"{text.rstrip()}\n\n{block}\n".lstrip())
    else:
        page.write_text(text[:begin] + block + text[end + len(last):])
