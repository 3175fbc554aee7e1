"""Runs notebooks on penstock and on TensorFlow, and prints how many of the cells that pass there pass here.

    python -m tests.ecosystem.notebooks FOLDER_OR_NOTEBOOK... --tf PYTHON_WITH_TENSORFLOW [--python PYTHON] [--results FOLDER]

Meant for TensorFlow's own (github.com/tensorflow/docs, site/en/guide and site/en/tutorials) and any others. Each notebook has
a process and a folder. Outcomes are kept in the results folder; TensorFlow's are not computed twice, penstock's only
with `--again` where a cell that TensorFlow passes has failed. A notebook that would download something without `--online` is
left out: its cells name an address, or a data set that is not in `~/.keras/datasets`.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve()
DOWNLOADS = re.compile(r"get_file\(|tfds\.load|hub\.(load|KerasLayer)|https?://(?!localhost|www\.apache|github\.com/.*LICENSE)"
                       r"|weights=.imagenet|wget |curl |import (gym|tensorflow_(hub|datasets|probability|models|docs))")


def wanted(path: pathlib.Path) -> bool:
    """Whether a notebook downloads nothing."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [line for cell in cells if cell["cell_type"] == "code" for line in "".join(cell["source"]).split("\n")]
    return not any(DOWNLOADS.search(line.partition("#")[0]) for line in code if not line.lstrip().startswith(("!", "%")))


def run(notebook: pathlib.Path, backend: str, python: str, outcomes: pathlib.Path, options: argparse.Namespace) -> None:
    """Runs one notebook; a process that is ended keeps the outcomes of the cells before."""
    path = [*([str(HERE.parents[2] / "src")] if backend == "penstock" else []), os.environ.get("NOTEBOOKS_PATH", "")]
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path)), "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1",
                "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "TF_NUM_INTRAOP_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder, open(outcomes.with_suffix(".log"), "w") as log:
        try:
            subprocess.run([python, HERE.with_name("cells.py"), backend, notebook, outcomes, str(options.cell)], cwd=folder,
                           env=settings, stdout=log, stderr=log, stdin=subprocess.DEVNULL, timeout=options.limit, check=False)
        except subprocess.TimeoutExpired:
            log.write("ended: the notebook ran too long\n")


def passed(outcomes: pathlib.Path) -> dict[int, str]:
    """By cell, its message: empty where it passed."""
    lines = outcomes.read_text().splitlines() if outcomes.exists() else []
    return {entry["cell"]: entry["message"] for entry in map(json.loads, lines)}


def main() -> int:
    """Runs what is requested, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=pathlib.Path)
    parser.add_argument("--tf", required=True, help="the Python that has TensorFlow")
    parser.add_argument("--python", default=sys.executable, help="the Python that penstock runs in")
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path(".ecosystem/notebooks"))
    parser.add_argument("--again", action="store_true", help="run what fails on penstock only again")
    parser.add_argument("--online", action="store_true", help="also those that download")
    parser.add_argument("--cell", type=int, default=60, help="seconds for one cell")
    parser.add_argument("--limit", type=int, default=240, help="seconds for one notebook")
    options = parser.parse_args()
    options.results = options.results.resolve()
    options.tf, options.python = (os.path.abspath(p) if os.sep in p else p for p in (options.tf, options.python))
    options.results.mkdir(parents=True, exist_ok=True)
    notebooks = sorted({n.resolve() for p in options.paths for n in (p.rglob("*.ipynb") if p.is_dir() else [p])})
    total, ours, whole, whole_ours = 0, 0, 0, 0
    for notebook in notebooks:
        if not options.online and not wanted(notebook):
            continue
        name = "_".join(notebook.with_suffix("").parts[-3:])
        there = options.results / f"{name}.tensorflow.jsonl"
        here = options.results / f"{name}.penstock.jsonl"
        if not there.exists():
            run(notebook, "tensorflow", options.tf, there, options)
        good = {cell for cell, message in passed(there).items() if not message}
        failed = {cell: message for cell, message in passed(here).items() if message and cell in good}
        if not here.exists() or options.again and (failed or good - passed(here).keys()):
            run(notebook, "penstock", options.python, here, options)
        found = passed(here)
        both = {cell for cell in good if found.get(cell, "not reached") == ""}
        complete = len(good) == len(passed(there))
        total, ours, whole = total + len(good), ours + len(both), whole + complete
        whole_ours += complete and both == good
        print(f"{name}: {len(both)} of {len(good)} cells{' (complete)' if complete else ''}", flush=True)
        for cell in sorted(good - both):
            print(f"    [{cell}] {found.get(cell, 'not reached').strip()[:300]}", flush=True)
    print(f"cells that pass on TensorFlow: {total}, here {ours} ({ours / max(total, 1):.1%}); "
          f"notebooks complete there: {whole}, here {whole_ours}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
