"""Removes names that exist now from tests/api/absent_2_21.txt, and writes the table of docs/limitations.md from it.

    PYTHONPATH=. python scripts/prune_absent_names.py
"""
from __future__ import annotations

import pathlib
import re

from tests.api.test_names_2_21 import FOLDER, names, there

LIST = FOLDER / "absent_2_21.txt"
PAGE = pathlib.Path(__file__).parent.parent / "docs" / "limitations.md"
HEAD = "| reason | names | for example |\n|---|---|---|\n"


def groups() -> dict[str, list[str]]:
    """By reason, the names that are still absent."""
    found: dict[str, list[str]] = {}
    for line in LIST.read_text().splitlines()[1:]:
        if line.startswith("# "):
            here = found.setdefault(line[2:], [])
        elif line and not there(line):
            here.append(line)
    return {reason: absent for reason, absent in found.items() if absent}


def main() -> None:
    """Rewrites the list and the page."""
    first, left = LIST.read_text().splitlines()[0], groups()
    LIST.write_text(first + "\n" + "".join(f"\n# {reason}\n" + "\n".join(absent) + "\n" for reason, absent in left.items()))
    rows = ""
    for reason, absent in left.items():
        some = ", ".join(f"`{n}`" for n in absent[:3])
        rows += f"| {reason} | {len(absent)} | {some}{', …' if len(absent) > 3 else ''} |\n"
    count = sum(map(len, left.values()))
    page = re.sub(r"\n\d+ of [\d,]+ names", f"\n{count} of {len(names('names_2_21.txt')):,} names", PAGE.read_text())
    PAGE.write_text(re.sub(re.escape(HEAD) + r"(\|.*\n)*", lambda _: HEAD + rows, page))
    print(f"{count} names are absent")


if __name__ == "__main__":
    main()
