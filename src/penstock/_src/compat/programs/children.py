"""Processes that a program starts: `import tensorflow` finds penstock in them, too.

`penstock run` sets three environment variables, which children inherit, however they are started (subprocess, a shell,
multiprocessing that spawns): the folder `hook` on PYTHONPATH, the API of the program, and the functions of Python 2 that it
uses.
"""
from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable
from typing import Any

from penstock._src.base import switches
from penstock._src.compat.programs import importer, removed, standalone_keras

HOOK = pathlib.Path(__file__).parent / "hook"


def pass_on(api: str, supplied: Iterable[str]) -> None:
    """Sets the environment of child processes."""
    root = HOOK.parents[4]
    wanted = [str(HOOK)] if root.name in ("site-packages", "dist-packages") else [str(HOOK), str(root)]
    before = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and p not in wanted]
    os.environ.update(PYTHONPATH=os.pathsep.join([*wanted, *before]), PENSTOCK_RUN_API=api,
                      PENSTOCK_RUN_SUPPLIES=",".join(sorted(set(supplied) & removed.BUILTINS.keys())))


def take_over(fullname: str, path: Any, target: Any) -> Any:
    """In a child: installs penstock as TensorFlow, and finds the requested module."""
    api = switches.RUN_API.value()
    standalone_keras.install(api)
    removed.install(frozenset(filter(None, switches.RUN_SUPPLIES.value().split(","))))
    return importer.Finder(api).find_spec(fullname, path, target)
