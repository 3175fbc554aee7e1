"""The command line: finds the subcommands, and calls the requested one."""
from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from typing import Any

from penstock._src import tools
from penstock._src.base import errors
from penstock._src.base.version import __version__


def main(argv: list[str] | None = None) -> int:
    """Runs `penstock SUBCOMMAND ...`; returns the exit status."""
    parser = argparse.ArgumentParser(prog="penstock", description="TensorFlow's dataflow system, with PyTorch's kernels.")
    parser.add_argument("--version", action="version", version=f"penstock {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    argv = sys.argv[1:] if argv is None else argv
    names = [info.name.replace("_", "-") for info in pkgutil.iter_modules(tools.__path__)]
    if argv and argv[0] not in names and argv[0].endswith((".py", ".ipynb")):
        argv = ["run", *argv]                        # `python -m penstock program.py`
    if not (argv[:1] and argv[0] in names and _add_command(commands, argv[0])):      # one subcommand loads none of the others
        for name in names:
            _add_command(commands, name)
    args = parser.parse_args(argv)
    try:
        return args.run(args)
    except (errors.OpError, OSError, ValueError, KeyError) as e:
        print(f"penstock {args.command}: {e}", file=sys.stderr)
        return 1


def _add_command(commands: Any, name: str) -> bool:
    """Adds a subcommand; returns False for a module that is none, but a part of others."""
    module = importlib.import_module(f"{tools.__name__}.{name.replace('-', '_')}")
    if not hasattr(module, "add_arguments"):
        return False
    text = (module.__doc__ or "").strip()
    command = commands.add_parser(name, help=text.splitlines()[0], description=text,
                                  formatter_class=argparse.RawDescriptionHelpFormatter)
    module.add_arguments(command)
    command.set_defaults(run=module.run)
    return True
