"""Run a program or notebook that was written for TensorFlow.

    penstock run [--api v1|v2] program.py arguments...
    penstock run notebook.ipynb
    penstock run -m package.module arguments...
    python -m penstock program.py arguments...

`import tensorflow` and everything below it is penstock, whether or not TensorFlow is installed. Which API the program was
written for is guessed from the names that it uses, and reported in one line on stderr. Names that Python and NumPy have removed
since are restored, and sources of Python 2 are converted; both are reported. The exit status is the program's.
"""
from __future__ import annotations

import argparse

from penstock._src.compat.programs import runner


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the subcommand."""
    parser.add_argument("--api", choices=("v1", "v2"), help="the API that the program was written for (default: guessed)")
    parser.add_argument("--quiet", action="store_true", help="do not say which API was chosen")
    parser.add_argument("-m", dest="module", action="store_true", help="the program is a module, as for python -m")
    parser.add_argument("program", help="a Python file, or a notebook (.ipynb)")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the program's own arguments")


def run(args: argparse.Namespace) -> int:
    """Runs the program."""
    start = runner.run_module if args.module else runner.run
    return start(args.program, args.arguments, api=args.api, quiet=args.quiet)
