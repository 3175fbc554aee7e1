"""Workloads beside TensorFlow by processor time: what `others_cpu.py` and `others_cpu_sequence.py` are made of.

A workload is a function of a framework's module that returns a function without arguments: one measured call. Each workload
has a new process per framework, so none inherits caches, recordings or memory of another. Rounds are interleaved, and a figure
is the median ratio of a round of penstock to TensorFlow's round beside it, in seconds of all processors (`time.process_time`):
another process on the machine changes these little. So is the time until the first call has ended, from an imported package.
Wall time is printed beside it.
"""
from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

MODULES = {"tensorflow": "tensorflow", "penstock": "penstock"}
WARM_UP, ROUND = 1.5, 0.3           # seconds of processor time
Work = dict[str, Callable[[Any], Callable[[], Any]]]


def work_table() -> tuple[Work, Callable]:
    """An empty table of workloads, and the decorator that enters a function under its name."""
    table: Work = {}

    def workload(build: Callable) -> Callable:
        table[build.__name__] = build
        return build
    return table, workload


def serve(module: str, build: Callable) -> None:
    """A worker: prepares the workload, then answers each line with processor and wall seconds of one call."""
    warnings.simplefilter("ignore")
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)                                        # what a workload prints is not an answer
    framework = importlib.import_module(module)
    framework.random.set_seed(0)
    start = time.process_time()
    call = build(framework)
    value = call()
    first = time.process_time() - start
    end, calls = time.process_time() + WARM_UP, 0
    while calls < 5 or (time.process_time() < end and calls < 300):
        call()
        calls += 1
    out.write(json.dumps({"first": first, "value": None if value is None else float(value)}) + "\n")
    for _ in sys.stdin:
        calls, cpu, wall = 0, time.process_time(), time.perf_counter()
        while calls < 3 or time.process_time() - cpu < ROUND:
            call()
            calls += 1
        out.write(json.dumps({"cpu": (time.process_time() - cpu) / calls, "wall": (time.perf_counter() - wall) / calls}) + "\n")
    os._exit(0)


def _environment(threads: int) -> dict[str, str]:
    count = str(threads)
    return {**os.environ, "OMP_NUM_THREADS": count, "TF_NUM_INTRAOP_THREADS": count, "TF_NUM_INTEROP_THREADS": count,
            "TF_CPP_MIN_LOG_LEVEL": "3"}


def _start(python: str, name: str, module: str, threads: int, errors: Any) -> subprocess.Popen:
    return subprocess.Popen([python, sys.argv[0], "--worker", module, "--only", name], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1, env=_environment(threads))


def _answer(process: subprocess.Popen) -> dict | None:
    line = process.stdout.readline()                     # type: ignore[union-attr]
    return json.loads(line) if line else None


def measure(pythons: dict[str, str], name: str, threads: int, rounds: int, errors: Any) -> dict:
    """Medians of one workload, or which process has ended (its traceback is in the file of errors)."""
    running = {side: _start(pythons[side], name, module, threads, errors) for side, module in MODULES.items()}
    try:
        prepared = {side: _answer(process) for side, process in running.items()}
        if None in prepared.values():
            return {"failed": [side for side, answer in prepared.items() if answer is None]}
        seen: dict[str, list[dict]] = {side: [] for side in running}
        for _ in range(rounds):
            for side, process in running.items():
                process.stdin.write("\n")                # type: ignore[union-attr]
                seen[side].append(_answer(process) or {})
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    ours, theirs = seen["penstock"], seen["tensorflow"]
    return {"ratio": statistics.median(a["cpu"] / b["cpu"] for a, b in zip(ours, theirs, strict=True)),
            "wall": statistics.median(a["wall"] / b["wall"] for a, b in zip(ours, theirs, strict=True)),
            "ms": {side: 1e3 * statistics.median(r["cpu"] for r in rounds) for side, rounds in seen.items()},
            "first": {side: answer["first"] for side, answer in prepared.items()},             # type: ignore[index]
            "value": {side: answer["value"] for side, answer in prepared.items()}}             # type: ignore[index]


def _row(name: str, threads: int, result: dict) -> str:
    if "failed" in result:
        return f"| {name} | {threads} | ended: {', '.join(result['failed'])} | | | | | |"
    ms, first, value = result["ms"], result["first"], result["value"]
    values = " ".join("-" if v is None else f"{v:.5g}" for v in (value["tensorflow"], value["penstock"]))
    return (f"| {name} | {threads} | {ms['tensorflow']:.3f} | {ms['penstock']:.3f} | {result['ratio']:.2f} "
            f"| {result['wall']:.2f} | {first['tensorflow']:.2f} / {first['penstock']:.2f} | {values} |")


def main(doc: str | None, work: Work) -> None:
    """Prints a row per workload and number of threads, then the geometric means."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tf", help="python of an environment with tensorflow")
    parser.add_argument("--only", help="names of workloads, separated by commas")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--errors", default=os.devnull, help="file for what the processes print")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return serve(args.worker, work[args.only])
    if not args.tf:
        parser.error("--tf is missing: the python of an environment with tensorflow")
    pythons = {"tensorflow": args.tf, "penstock": sys.executable}
    print("| workload | threads | TensorFlow, ms | penstock, ms | ratio | wall | first call, s | first values |")
    print("|" + "---|" * 8)
    logs: dict[int, list[float]] = {threads: [] for threads in args.threads}
    with open(args.errors, "w", encoding="utf-8") as errors:
        for name in args.only.split(",") if args.only else work:
            for threads in args.threads:
                result = measure(pythons, name, threads, args.rounds, errors)
                print(_row(name, threads, result), flush=True)
                if "ratio" in result:
                    logs[threads].append(math.log(result["ratio"]))
    for threads, each in logs.items():
        slower = sum(log > math.log(1.02) for log in each)
        mean = math.exp(sum(each) / max(len(each), 1))
        print(f"\n{threads} threads: geometric mean of {len(each)}: {mean:.3f}; slower: {slower}")
    return None
