"""Makes docs/api.md: every public name of TensorFlow 1.15 and 2.21, and whether penstock has it.

    python scripts/make_api_page.py

The names are those of the record in tests/api (scripts/make_api_names.py): functions, classes and constants of modules. Members
of classes are compared by the tests there.
"""
from __future__ import annotations

import pathlib

from penstock._src.compat.programs import check, importer

ROOT = pathlib.Path(__file__).parent.parent


INTRODUCTION = """\
What TensorFlow 1.15 has, as `tf` of 1.x (`penstock.compat.v1`) and of 2.x (`penstock`), what TensorFlow 2.21 has, and whether
it is here. `penstock check program.py` says it for one program. Made by `python scripts/make_api_page.py` from the records in
`tests/api`, whose tests also compare argument lists, members and base classes. `tf.contrib` and the names that only Keras 3 has
are not in the records; [limitations.md](limitations.md) has the reasons of the names that are absent.
"""


def names(api: str) -> list[str]:
    """The names of the record that stand in modules, not in classes."""
    lines = (ROOT / "tests" / "api" / f"names_{api}.txt").read_text().splitlines()
    found = {line.removeprefix("class ").partition("(")[0] for line in lines}
    classes = {line.removeprefix("class ").partition("(")[0] for line in lines if line.startswith("class ")}
    classes |= {n.removesuffix(".__init__") for n in found if n.endswith(".__init__")}
    return sorted(n for n in found if not any(n.startswith(c + ".") for c in parents(n) if c in classes))


def parents(name: str) -> list[str]:
    """The names of what a name stands in."""
    words = name.split(".")
    return [".".join(words[:n]) for n in range(1, len(words))]


def page() -> str:
    """The whole page."""
    parts = ["# The API, name by name\n", INTRODUCTION]
    summary, rows = [], []
    for api, title in (("v1", "1.x"), ("v2", "2.x")):
        with importer.in_place(api):
            known = [(n, check.has(n)) for n in names(api)]
        rows.append(known)
        parts.append(f"\n## {title} of TensorFlow 1.15\n\n" + tables(known))
    absent = listed("absent_2_21.txt")
    rows.append([(n, n not in absent) for n in sorted(listed("names_2_21.txt"))])
    parts.append("\n## TensorFlow 2.21\n\n" + tables(rows[-1]))
    titles = ("`tf` of 1.15", "`tf.compat.v2` of 1.15", "`tf` of 2.21")
    summary += ["| names | here | of | |", "|---|---|---|---|"]
    for title, known in zip(titles, rows, strict=True):
        here = sum(h for _, h in known)
        summary.append(f"| {title} | {here:,} | {len(known):,} | {100 * here / len(known):.1f}% |")
    return "\n".join([parts[0], parts[1], *summary, "", by_module(titles, rows), *parts[2:]])


def listed(file: str) -> set[str]:
    """The names in a file of the record."""
    return {line for line in (ROOT / "tests" / "api" / file).read_text().splitlines() if line and line[0] != "#"}


def by_module(titles: tuple[str, ...], rows: list[list[tuple[str, bool]]]) -> str:
    """A table of the modules that are not complete."""
    counts: dict[str, list[list[int]]] = {}
    for i, known in enumerate(rows):
        for name, here in known:
            row = counts.setdefault(name.rpartition(".")[0], [[0, 0] for _ in rows])
            row[i][0] += here
            row[i][1] += 1
    text = ["Modules that lack names; all others are complete:", "", f"| module | {' | '.join(titles)} |", "|---|---|---|---|"]
    for module, row in sorted(counts.items()):
        if any(here != of for here, of in row):
            shown = " | ".join(f"{here} of {of}" if of else "–" for here, of in row)
            text.append(f"| `tf{'.' if module else ''}{module}` | {shown} |")
    return "\n".join(text)


def tables(known: list[tuple[str, bool]]) -> str:
    """One paragraph per module: what is here, then what is not."""
    modules: dict[str, tuple[list[str], list[str]]] = {}
    for name, here in known:
        module, _, last = name.rpartition(".")
        modules.setdefault(module, ([], []))[0 if here else 1].append(f"`{last}`")
    text = []
    for module, (here, missing) in sorted(modules.items()):
        text.append(f"**tf{'.' if module else ''}{module}**: {', '.join(here) or 'nothing yet'}")
        if missing:
            text.append(f"\nNot here: {', '.join(missing)}")
        text.append("")
    return "\n".join(text)


if __name__ == "__main__":
    (ROOT / "docs" / "api.md").write_text(page())
