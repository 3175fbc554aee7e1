"""Ordinary programs beside TensorFlow on the CPU, by processor time.

    python benchmarks/others_cpu.py --tf PYTHON_OF_AN_ENVIRONMENT_WITH_TENSORFLOW [--sets families,scripts] [--only unet_train]

The programs are in `workloads/`. A process per framework imports it once and forks a child for each workload, so none inherits
caches, recordings or memory of another. Rounds are interleaved, and a figure is the median ratio of a round of penstock to
TensorFlow's round beside it, in seconds of all processors (`time.process_time`): another process on the machine changes these
little. So is the time until the first call has ended, from an imported package. Wall time is printed beside it.
"""
from __future__ import annotations

import argparse
import compileall
import importlib
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import workloads

MODULES = {"tensorflow": "tensorflow", "penstock": "penstock"}
WARM_UP, ROUND = 1.0, 0.2           # seconds of processor time


def table(sets: list[str]) -> dict[str, Callable]:
    """The workloads of some sets, as "set/name"."""
    return {f"{name}/{each}": build for name in sets
            for each, build in importlib.import_module(f"workloads.{name}").WORK.items()}


class Pipes:
    """Lines from the benchmark, and answers to it; unbuffered, so that a forked child continues where its parent was."""

    def __init__(self) -> None:
        self._in = os.fdopen(os.dup(0), "rb", buffering=0)
        self._out = os.dup(1)
        os.dup2(2, 1)                                    # what a workload prints is not an answer

    def line(self) -> str:
        return self._in.readline().decode().strip()

    def answer(self, value: dict | None) -> None:
        os.write(self._out, (json.dumps(value) + "\n").encode())


def serve(module: str) -> None:
    """A framework's process: forks a child for each workload that is requested."""
    warnings.simplefilter("ignore")
    pipes, framework = Pipes(), importlib.import_module(module)
    while name := pipes.line():
        child = os.fork()
        if child == 0:
            work(framework, name, pipes)
        if os.waitpid(child, 0)[1]:
            pipes.answer(None)


def work(framework: Any, name: str, pipes: Pipes) -> None:
    """A child: prepares the workload, then answers each line with processor and wall seconds of one call, until "end"."""
    ok = False
    try:
        build = table([name.partition("/")[0]])[name]
        framework.random.set_seed(0)
        start = time.process_time()
        call = build(framework)
        value = call()
        first = time.process_time() - start
        end, calls = time.process_time() + WARM_UP, 0
        while calls < 5 or (time.process_time() < end and calls < 300):
            call()
            calls += 1
        pipes.answer({"first": first, "value": None if value is None else float(value)})
        while pipes.line() != "end":
            pipes.answer(one_round(call))
        ok = True
    except BaseException:                                # the traceback is in the file of errors
        traceback.print_exc()
    finally:
        os._exit(not ok)


def one_round(call: Callable[[], Any]) -> dict[str, float]:
    """Seconds of one call: the mean of several."""
    calls, cpu, wall = 0, time.process_time(), time.perf_counter()
    while calls < 3 or time.process_time() - cpu < ROUND:
        call()
        calls += 1
    return {"cpu": (time.process_time() - cpu) / calls, "wall": (time.perf_counter() - wall) / calls}


class Side:
    """The process of one framework."""

    def __init__(self, python: str, module: str, threads: int, errors: Any) -> None:
        count = str(threads)
        environment = {**os.environ, "OMP_NUM_THREADS": count, "TF_NUM_INTRAOP_THREADS": count,
                       "TF_NUM_INTEROP_THREADS": count, "TF_CPP_MIN_LOG_LEVEL": "3"}
        self.process = subprocess.Popen([python, sys.argv[0], "--worker", module], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1, env=environment)

    def tell(self, line: str) -> None:
        self.process.stdin.write(line + "\n")            # type: ignore[union-attr]

    def answer(self) -> dict | None:
        line = self.process.stdout.readline()            # type: ignore[union-attr]
        return json.loads(line) if line else None


def measure(sides: dict[str, Side], name: str, rounds: int) -> dict:
    """Medians of one workload, or where it failed."""
    for side in sides.values():
        side.tell(name)
    prepared = {name: side.answer() for name, side in sides.items()}
    ready = {name: side for name, side in sides.items() if prepared[name] is not None}
    seen: dict[str, list[dict]] = {name: [] for name in sides}
    for _ in range(rounds if len(ready) == len(sides) else 0):
        for key, side in ready.items():
            side.tell("round")
            seen[key].append(side.answer() or {})
    for side in ready.values():
        side.tell("end")
    if len(ready) < len(sides):
        return {"failed": [name for name in sides if name not in ready]}
    ours, theirs = seen["penstock"], seen["tensorflow"]
    return {"ratio": statistics.median(a["cpu"] / b["cpu"] for a, b in zip(ours, theirs, strict=True)),
            "wall": statistics.median(a["wall"] / b["wall"] for a, b in zip(ours, theirs, strict=True)),
            "ms": {side: 1e3 * statistics.median(r["cpu"] for r in rounds) for side, rounds in seen.items()},
            "first": {side: answer["first"] for side, answer in prepared.items()},             # type: ignore[index]
            "value": {side: answer["value"] for side, answer in prepared.items()}}             # type: ignore[index]


def row(name: str, threads: int, result: dict) -> str:
    """One line of the table."""
    name = name.partition("/")[2]
    if "failed" in result:
        return f"| {name} | {threads} | failed: {', '.join(result['failed'])} | | | | | |"
    ms, first, value = result["ms"], result["first"], result["value"]
    values = " ".join("-" if v is None else f"{v:.5g}" for v in (value["tensorflow"], value["penstock"]))
    return (f"| {name} | {threads} | {ms['tensorflow']:.3f} | {ms['penstock']:.3f} | {result['ratio']:.2f} "
            f"| {result['wall']:.2f} | {first['tensorflow']:.2f} / {first['penstock']:.2f} | {values} |")


def chosen(sets: str, only: str | None) -> list[str]:
    """The workloads to run: all of the sets, or those named, with their set or without."""
    every = list(table(sets.split(",")))
    if not only:
        return every
    wanted = only.split(",")
    found = [name for name in every if name in wanted or name.partition("/")[2] in wanted]
    if not found:
        sys.exit(f"no workload is named {only}; there are: {', '.join(every)}")
    return found


def compare(python: str, names: list[str], threads: int, rounds: int, errors: Any) -> None:
    """Prints a row per workload, then the geometric mean."""
    sides = {side: Side(python if side == "tensorflow" else sys.executable, module, threads, errors)
             for side, module in MODULES.items()}
    logs = []
    try:
        for name in names:
            result = measure(sides, name, rounds)
            print(row(name, threads, result), flush=True)
            if "ratio" in result:
                logs.append(math.log(result["ratio"]))
    finally:
        for side in sides.values():
            side.process.kill()
            side.process.wait()
    mean, slower = math.exp(sum(logs) / max(len(logs), 1)), sum(log > math.log(1.02) for log in logs)
    print(f"\n{threads} threads: geometric mean of {len(logs)}: {mean:.3f}; slower: {slower}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tf", help="python of an environment with tensorflow")
    parser.add_argument("--sets", default=",".join(workloads.SETS), help="files of workloads/, separated by commas")
    parser.add_argument("--only", help="names of workloads, separated by commas")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--errors", default=os.devnull, help="file for what the processes print")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return serve(args.worker)
    if not args.tf:
        parser.error("--tf is missing: the python of an environment with tensorflow")
    names = chosen(args.sets, args.only)
    print("| workload | threads | TensorFlow, ms | penstock, ms | ratio | wall | first call, s | first values |")
    print("|" + "---|" * 8)
    for folder in importlib.util.find_spec("penstock").submodule_search_locations or ():      # type: ignore[union-attr]
        compileall.compile_dir(folder, quiet=2)          # as pip does: first calls import hundreds of modules
    with open(args.errors, "w", encoding="utf-8") as errors:
        for threads in args.threads:
            compare(args.tf, names, threads, args.rounds, errors)
    return None


if __name__ == "__main__":
    main()
