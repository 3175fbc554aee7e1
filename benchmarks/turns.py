"""Work done in turns by several processes, one per framework: what `core.py` and `fit.py` are made of.

A benchmark calls `main` with its work: names, and functions of a framework's module that return seconds (one number, or a list
of them). Its own file is started again for each side, and asked for one round after the other.
"""
from __future__ import annotations

import argparse
import importlib
import json
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
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return serve(args.worker, work)
    if not args.tf:
        parser.error("--tf is missing: the python of an environment with tensorflow")
    pythons = {"penstock": (sys.executable, modules[0]), "tensorflow": (args.tf, modules[1])}
    running = {name: subprocess.Popen([python, sys.argv[0], "--worker", module], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
               for name, (python, module) in pythons.items()}
    print(head)
    try:
        for item in work:
            seen: Seconds = {name: [] for name in pythons}
            for _ in range(args.rounds):
                for name, process in running.items():
                    seen[name].append(_asked(name, process, item))
            print(report(item, seen), flush=True)
    finally:
        for process in running.values():
            process.stdin.close()                        # type: ignore[union-attr]
            process.wait(20)
    return None


def _asked(name: str, process: subprocess.Popen, item: str) -> Any:
    process.stdin.write(item + "\n")                     # type: ignore[union-attr]
    process.stdin.flush()                                # type: ignore[union-attr]
    answer = process.stdout.readline()                   # type: ignore[union-attr]
    if not answer:
        sys.exit(f"The process of {name} has ended at {item!r}; run this file with --worker to see why.")
    return json.loads(answer)
