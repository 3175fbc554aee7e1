"""Work done in turns by several processes, one per framework: what `core.py` and `fit.py` are made of.

A benchmark calls `main` with its work: names, and functions of a framework's module that return seconds (one number, or a list
of them). Its own file is started again for each side, and requested one round after the other.
"""
from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

Seconds = dict[str, list]               # of each side, one entry a round


def serve(module: str, work: dict[str, Callable]) -> None:
    """A worker: answers one line per work item with its seconds."""
    framework = importlib.import_module(module)
    for line in sys.stdin:
        print(json.dumps(work[line.strip()](framework)), flush=True)


def main(doc: str | None, modules: tuple[str, str], work: dict[str, Callable], report: Callable[[str, Seconds], str],
         head: str, rounds: int = 5) -> None:
    """Prints `head`, then what `report(item, seconds of each side)` says of each item. `modules`: ours and TensorFlow's."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tf", help="python of an environment with tensorflow")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--only", help="some items, separated by commas")
    parser.add_argument("--threads", type=int, default=0, help="of a kernel, on each side; 0: as many as there are cores")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return serve(args.worker, work)
    if not args.tf:
        parser.error("--tf is missing: the python of an environment with tensorflow")
    pythons = {"penstock": (sys.executable, modules[0]), "tensorflow": (args.tf, modules[1])}
    items = args.only.split(",") if args.only else list(work)
    print(head)
    group(items, pythons, args.rounds, report, _environment(args.threads))
    return None


def _environment(threads: int) -> dict[str, str]:
    """The variables by which both sides learn how many threads a kernel may use."""
    names = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS") if threads else ()
    return dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", **dict.fromkeys(names, str(threads)))


def group(items: list[str], pythons: dict[str, tuple[str, str]], rounds: int, report: Callable[[str, Seconds], str],
           environment: dict[str, str]) -> None:
    """Runs the items in the same processes, one per side."""
    running = {name: subprocess.Popen([python, sys.argv[0], "--worker", module], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
               for name, (python, module) in pythons.items()}
    try:
        for item in items:
            seen: Seconds = {name: [] for name in pythons}
            for _ in range(rounds):
                for name, process in running.items():
                    seen[name].append(_asked(name, process, item))
            print(report(item, seen), flush=True)
    finally:
        for process in running.values():
            process.stdin.close()                        # type: ignore[union-attr]
            process.wait(20)


def _asked(name: str, process: subprocess.Popen, item: str) -> Any:
    process.stdin.write(item + "\n")                     # type: ignore[union-attr]
    process.stdin.flush()                                # type: ignore[union-attr]
    answer = process.stdout.readline()                   # type: ignore[union-attr]
    if not answer:
        sys.exit(f"The process of {name} has ended at {item!r}; run this file with --worker to see why.")
    return json.loads(answer)
