"""tf.app.run: parses the flags and runs the program's main function."""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import absl.app

from penstock._src.base.api import export
from penstock._src.base.flags import FLAGS


@export(v1=["app.run"])
def run(main: Callable | None = None, argv: list[str] | None = None) -> None:
    """Parses flags, calls `main` with the remaining arguments, and exits with its result.

    Args:
        main: Function of the remaining arguments, by default `main` of the program.
        argv: Arguments, by default `sys.argv`.

    >>> def main(argv):
    ...     print("started")
    >>> try:
    ...     tf.app.run(main, argv=["program"])
    ... except SystemExit:
    ...     print("ended")
    started
    ended
    """
    def parse(arguments: Any) -> list[str]:
        return FLAGS(sys.argv if arguments is None else arguments, known_only=True)

    absl.app.run(main or sys.modules["__main__"].main, argv=argv, flags_parser=parse)
