"""The command `penstock`: finds the subcommands, and calls the requested one.

It stands beside the package, so that `penstock --version`, `penstock --help` and a mistyped subcommand do not load the package
(and torch). The names and the first lines of help come from the sources of `penstock._src.tools`; only the requested subcommand
is imported.
"""
from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import pathlib
import re
import sys


def main(argv: list[str] | None = None) -> int:
    """Runs `penstock SUBCOMMAND ...`; returns the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    sources = _sources()
    found = _subcommands(sources / "tools")
    if argv and argv[0] not in found and argv[0].endswith((".py", ".ipynb")):
        argv = ["run", *argv]                        # `python -m penstock program.py`
    parser = argparse.ArgumentParser(prog="penstock", description="TensorFlow's dataflow system, with PyTorch's kernels.")
    parser.add_argument("--version", "-V", action="version", version=f"penstock {_version(sources / 'base' / 'version.py')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in found.items():
        command = commands.add_parser(name, help=text.splitlines()[0], description=text,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
        if argv[:1] == [name]:
            module = importlib.import_module(f"penstock._src.tools.{name.replace('-', '_')}")
            module.add_arguments(command)
            command.set_defaults(run=module.run)
    return _run(parser.parse_args(argv))


def _run(args: argparse.Namespace) -> int:
    from penstock._src.base import errors
    try:
        return args.run(args)
    except (errors.OpError, OSError, ValueError, KeyError) as e:
        print(f"penstock {args.command}: {e}", file=sys.stderr)
        return 1


def _sources() -> pathlib.Path:
    """The folder penstock/_src, found without importing the package."""
    spec = importlib.util.find_spec("penstock")
    assert spec is not None and spec.submodule_search_locations
    return pathlib.Path(spec.submodule_search_locations[0], "_src")


def _version(file: pathlib.Path) -> str:
    found = re.search(r'^__version__ = "(.*)"$', file.read_text(), re.M)
    assert found is not None
    return found[1]


def _subcommands(folder: pathlib.Path) -> dict[str, str]:
    """The name and the docstring of each module of the folder that has `add_arguments`, without importing it."""
    found = {}
    for file in sorted(folder.glob("*.py")):
        tree = ast.parse(file.read_bytes())
        if any(isinstance(part, ast.FunctionDef) and part.name == "add_arguments" for part in tree.body):
            found[file.stem.replace("_", "-")] = ast.get_docstring(tree) or ""
    return found
