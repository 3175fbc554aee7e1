"""Runs a program that was written for TensorFlow: as `__main__`, with its arguments, in its folder's import path."""
from __future__ import annotations

import builtins
import importlib.util
import os
import pathlib
import sys
import types
from typing import Any

from penstock._src.base import tracebacks
from penstock._src.compat.programs import children, guess, importer, notebooks, plots, python2, removed, standalone_keras

MAGIC = {"display": print, "get_ipython": lambda: _Shell()}


class _Shell:
    """Stand-in for IPython in programs that were notebooks; it does nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


def run(path: str, arguments: list[str], api: str | None = None, quiet: bool = False) -> int:
    """Runs a program; returns its exit status. A program that fails shows its own traceback."""
    file = pathlib.Path(path)
    if not file.is_file():
        print(f"penstock run: there is no file {path}", file=sys.stderr)
        return 2
    return _run(file, path, file.parent.resolve(), arguments, api, quiet)


def run_module(name: str, arguments: list[str], api: str | None = None, quiet: bool = False) -> int:
    """Runs a module as `python -m` does: found from the current folder, with its package imported first."""
    inner = pathlib.PurePath(*name.split("."))
    for folder in [pathlib.Path.cwd(), *(pathlib.Path(p) for p in sys.path)]:
        for file, full in ((folder / inner.with_suffix(".py"), name), (folder / inner / "__main__.py", f"{name}.__main__")):
            if file.is_file():
                return _run(file, str(file), folder, arguments, api, quiet, full)
    print(f"penstock run: there is no module {name} here or on the path", file=sys.stderr)
    return 2


def _run(file: pathlib.Path, path: str, folder: pathlib.Path, arguments: list[str], api: str | None, quiet: bool,
         module_name: str | None = None) -> int:
    removed.install(_prepare(file, api, quiet))
    plots.install()
    python2.install(folder)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=os.path.abspath(path), __builtins__=builtins, __spec__=None)
    sys.modules["__main__"] = module
    sys.argv = [path, *arguments]
    sys.path[0:0] = [str(folder)]
    try:
        if module_name is not None:
            module.__spec__, module.__package__ = importlib.util.find_spec(module_name), module_name.rpartition(".")[0]
        if file.suffix == ".ipynb":
            module.__dict__.update(MAGIC)
            notebooks.run(file, module.__dict__)
        else:
            exec(python2.code(file.read_bytes(), path), module.__dict__)
    except SystemExit:
        raise
    except BaseException as e:
        _show(e)
        return 130 if isinstance(e, KeyboardInterrupt) else 1
    return 0


def _prepare(file: pathlib.Path, api: str | None, quiet: bool) -> frozenset[str]:
    """Installs penstock as TensorFlow, with the requested or inferred API, and reports it."""
    try:
        guessed = guess.guess(file)
    except (SyntaxError, ValueError, KeyError):          # running it reports the line
        guessed = guess.Guess("v1", "the source cannot be read", frozenset())
    chosen = api or guessed.api
    standalone_keras.share(guessed.two_kerases if chosen == "v2" else "")
    standalone_keras.install(chosen)
    children.pass_on(chosen, guessed.removed)
    if not quiet:
        why = "as asked" if api else guessed.because
        version = importer.VERSIONS[chosen]
        print(f"penstock run: {file.name} as a program for TensorFlow {version.split('.')[0]}.x ({why})", file=sys.stderr)
    return guessed.removed


def _show(error: BaseException) -> None:
    """Shows the traceback of the program's own frames."""
    tracebacks.shorten(error)
    here = os.path.dirname(os.path.abspath(__file__))
    tb = error.__traceback__
    while tb is not None and os.path.dirname(os.path.abspath(tb.tb_frame.f_code.co_filename)) == here:
        tb = tb.tb_next
    sys.stdout.flush()
    sys.excepthook(type(error), error.with_traceback(tb), tb)
