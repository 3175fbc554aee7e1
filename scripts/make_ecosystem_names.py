"""The private names of TensorFlow that libraries use (`tensorflow.python.*`, `tf.__internal__.*`), read from their sources.

    python scripts/make_ecosystem_names.py SITE_PACKAGES [package ...]      # prints the table of docs/ecosystem.md
    python scripts/make_ecosystem_names.py --missing SITE_PACKAGES          # only what penstock lacks, most used first

A name counts once per library. Names that stand in the tests of a library are left out.
"""
from __future__ import annotations

import argparse
import pathlib
import sys
from collections import defaultdict

from penstock._src.compat.programs import check, importer, symbols

PACKAGES = ("keras tf_keras tensorflow_probability sonnet gpflow transformers tf_slim keras_tuner tensorflow_recommenders "
            "tensorflow_hub official tf2onnx mesh_tensorflow tensor2tensor tensorflow_addons tf_agents edward2 trax").split()
PRIVATE = ("tf.python.", "tf.__internal__.", "tf.compat.v2.__internal__.")


def names_of(package: pathlib.Path) -> set[tuple[str, bool]]:
    """The private names that the sources of one library use, and whether they are named below compat.v1."""
    found: set[tuple[str, bool]] = set()
    for file in package.rglob("*.py"):
        if file.name.endswith("_test.py") or file.name.startswith("test_") or "tests" in file.parts:
            continue
        try:
            source = symbols.scan(symbols.text_of(file), str(file))
        except (SyntaxError, UnicodeDecodeError):
            continue
        used = {(u.name.replace("tf.compat.v2.", "tf."), u.v1) for u in source.uses if u.name.startswith(PRIVATE)}
        found |= {(n, v1) for n, v1 in used if not any(other.startswith(n + ".") for other, _ in used)}
    return found


def table(site: pathlib.Path, packages: list[str]) -> list[tuple[str, list[str], bool]]:
    """Each private name, the libraries that use it, and whether penstock has it; most used first."""
    users: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for package in packages:
        for name in sorted(names_of(site / package)):
            users[name].append(package)
    rows = []
    with importer.in_place("v2"):
        for (name, v1), libraries in users.items():
            here = check.has(name[3:], "tensorflow.compat.v1" if v1 else "tensorflow")
            rows.append((("tf.compat.v1" if v1 else "tf") + name[2:], libraries, here))
    return sorted(rows, key=lambda r: (-len(r[1]), r[0]))


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=pathlib.Path, help="the folder where the libraries are installed")
    parser.add_argument("packages", nargs="*", help="their import names")
    parser.add_argument("--missing", action="store_true", help="only what penstock lacks")
    parser.add_argument("--least", type=int, default=1, help="only names that so many libraries use")
    options = parser.parse_args()
    rows = table(options.site, options.packages or [p for p in PACKAGES if (options.site / p).exists()])
    print(f"{len(rows)} private names, {sum(r[2] for r in rows)} of them here; used by two or more libraries: "
          f"{sum(len(r[1]) > 1 for r in rows)}, here {sum(len(r[1]) > 1 and r[2] for r in rows)}\n")
    print("| name | libraries | here |\n|---|---|---|")
    for name, libraries, here in rows:
        if len(libraries) >= options.least and not (options.missing and here):
            print(f"| `{name}` | {', '.join(libraries)} | {'yes' if here else 'no'} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
