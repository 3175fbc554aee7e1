"""Makes docs/api.md: every public name of TensorFlow 1.15, and whether penstock has it.

    python scripts/make_api_page.py

The names are those of the record in tests/api (scripts/make_api_names.py): functions, classes and constants of modules. Members
of classes are compared by the tests there.
"""
from __future__ import annotations

import pathlib

from penstock._src.compat.programs import check, importer

ROOT = pathlib.Path(__file__).parent.parent


INTRODUCTION = """\
What TensorFlow 1.15 has, as `tf` of 1.x (`penstock.compat.v1`) and of 2.x (`penstock`), and whether it is here.
Made by `python scripts/make_api_page.py` from the record in `tests/api`, whose tests also compare argument lists, members
and base classes. `penstock check program.py` says it for one program; `tf.contrib` is not in the record.
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
    summary = []
    for api, title in (("v1", "1.x"), ("v2", "2.x")):
        with importer.in_place(api):
            known = [(n, check.has(n)) for n in names(api)]
        here = sum(h for _, h in known)
        summary.append(f"- {title}: {here} of {len(known)} names")
        parts.append(f"\n## {title}: {here} of {len(known)}\n\n" + tables(known))
    return "\n".join([parts[0], parts[1], *summary, *parts[2:]])


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
