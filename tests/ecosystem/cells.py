"""Runs the code cells of one notebook in sequence, and writes the outcome of each as a line of JSON.

    python cells.py penstock|tensorflow notebook.ipynb outcomes.jsonl [seconds]

A cell that fails does not end the run, as in a notebook whose user goes on. Lines for the notebook's shell are left out.
`seconds` limits each cell. Nothing of penstock is imported on TensorFlow's side; the cells are read by the same file on both.
"""
from __future__ import annotations

import builtins
import importlib
import json
import pathlib
import signal
import sys
import types

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src/penstock"
FOLDERS = ("", "_src", "_src/compat", "_src/compat/programs")


class OutOfTime(BaseException):
    """A cell has run longer than allowed; not an Exception, so that the cell does not handle it."""


def reader() -> types.ModuleType:
    """The module that `penstock run` reads notebooks with. Empty packages stand around it while it is imported: TensorFlow's
    environment lacks what the real ones import."""
    names = [".".join(("penstock", *pathlib.PurePath(folder).parts)) for folder in FOLDERS]
    before = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "penstock"}
    for name, folder in zip(names, FOLDERS, strict=True):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(SOURCE / folder)]
    try:
        return importlib.import_module(f"{names[-1]}.notebooks")
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "penstock"]:
            del sys.modules[name]
        sys.modules.update(before)


def out_of_time(number, frame) -> None:
    """Ends the cell."""
    raise OutOfTime("the cell ran too long")


def main(backend: str, notebook: str, outcomes: str, seconds: str = "60") -> None:
    """Runs the cells of one notebook."""
    if backend == "penstock":
        import penstock
        from penstock._src.compat.programs import guess
        penstock.install(guess.guess(pathlib.Path(notebook)).api)
    notebooks = reader()
    module = types.ModuleType("__main__")
    module.__dict__.update(__builtins__=builtins, display=print)
    sys.modules["__main__"] = module
    signal.signal(signal.SIGALRM, out_of_time)
    runner = notebooks.Cells(notebook, module.__dict__)
    with open(outcomes, "w") as file:
        for number, code in enumerate(notebooks.read(pathlib.Path(notebook))):
            message = ""
            signal.alarm(int(seconds))
            try:
                runner.run(number, code)
            except (Exception, SystemExit, OutOfTime) as e:
                message = f"{type(e).__name__}: {e}"[:2000]
            finally:
                signal.alarm(0)
            file.write(json.dumps({"cell": number, "message": message, "first": code.strip().split("\n")[0][:100]}) + "\n")
            file.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
