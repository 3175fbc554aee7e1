"""List the names of TensorFlow's that a program uses, and whether penstock has them.

    penstock check [--api v1|v2] [--missing] program.py

Nothing is run: the source of the program, and of the modules beside it that it imports, is read. The exit status is 0 if
everything is there, 1 if something is missing, 2 if the source cannot be read.
"""
from __future__ import annotations

import argparse
import pathlib
import sys

from penstock._src.compat.programs import check


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the subcommand."""
    parser.add_argument("--api", choices=("v1", "v2"), help="the API that the program was written for (default: guessed)")
    parser.add_argument("--missing", action="store_true", help="list only what is missing")
    parser.add_argument("program", nargs="+", help="Python files or notebooks")


def run(args: argparse.Namespace) -> int:
    """Prints the list."""
    status = 0
    for name in args.program:
        try:
            text, lacking = check.report(pathlib.Path(name), args.api, everything=not args.missing)
        except (OSError, SyntaxError, ValueError) as e:
            print(f"penstock check: {name}: {e}", file=sys.stderr)
            status = 2
            continue
        print(text)
        status = max(status, 1 if lacking else 0)
    return status
