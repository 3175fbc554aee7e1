"""Training steps measured in turns: a process for each program, and rounds that follow each other directly.

All processes start together and compile beside each other. When all are ready, those of one model take turns, one round each,
so that a ratio compares rounds with the same load beside them. A process prints one line of JSON for each line that it reads.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any


class Program:
    """A training step, the loss of the last one, and what is known about the version that runs."""

    def __init__(self, run: Callable[[], Any], settled: Callable[[], bool] | None = None, remarks: Callable[[], list] = list):
        self._run, self._last = run, None
        self.settled = settled  # whether the best version runs; None: the first one is the best
        self.remarks = remarks  # which version runs, and why none is better

    def step(self) -> None:
        """Starts a step; its kernels may run on."""
        self._last = self._run()

    def loss(self) -> float:
        """Waits for the last step. `run` returns the loss, or what reads it."""
        value = float(self._last() if callable(self._last) else self._last)
        if not math.isfinite(value):
            raise ValueError(f"the loss is {value}")
        return value


# -- a process that measures one program -------------------------------------------------------------------------------------
def serve(make: Callable[[], Program], wait: float) -> None:
    """Prints how long the program took to get ready (at most `wait` seconds), then a round for each number that it reads."""
    began = time.perf_counter()
    program = make()
    built = time.perf_counter()
    program.step()
    program.loss()
    first = time.perf_counter()
    while program.settled is not None and not program.settled() and time.perf_counter() - began < wait:
        program.step()
        program.loss()
    for _ in range(10):
        program.step()
    program.loss()
    found = {"build": built - began, "first": first - built, "best": time.perf_counter() - built}
    print(json.dumps({**found, "remarks": program.remarks()}), flush=True)
    for line in sys.stdin:
        print(
            json.dumps({"kernels": kernels(program)} if line.startswith("profile") else a_round(program, int(line))), flush=True
        )


def a_round(program: Program, steps: int) -> dict[str, float]:
    """Milliseconds of a step, and the most memory that the process has held on the GPU."""
    import torch

    program.step()
    program.loss()
    began = time.perf_counter()
    for _ in range(steps):
        program.step()
    program.loss()
    seconds = time.perf_counter() - began
    peak = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0
    return {"ms": seconds / steps * 1e3, "GiB": peak}


def kernels(program: Program) -> str:
    """The kernels of three steps, by the time that they take."""
    import torch

    kinds = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA]) as found:
        for _ in range(3):
            program.step()
        program.loss()
    rows = [e for e in found.key_averages() if str(e.device_type).endswith("CUDA")]
    rows.sort(key=lambda e: -e.self_device_time_total)
    total = sum(e.self_device_time_total for e in rows) / 3e3
    lines = [f"{e.self_device_time_total / 3e3:9.3f} ms {e.count / 3:7.1f} x  {e.key[:110]}" for e in rows[:28]]
    return "\n".join([f"{total:9.3f} ms on the GPU, {sum(e.count for e in rows) / 3:.0f} kernels", *lines])


# -- all of them -------------------------------------------------------------------------------------------------------------
class Worker:
    """A process that serves one program, and what it has found."""

    def __init__(self, command: list[str], model: str, runner: str, compilers: int, errors: pathlib.Path):
        self.model, self.runner, self.found, self.times = model, runner, {}, []
        self._errors = errors
        env = dict(os.environ, TORCHINDUCTOR_COMPILE_THREADS=str(compilers), OMP_NUM_THREADS="2")
        with open(errors, "w") as to:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, env=env, text=True, stderr=to, stdin=pipe, stdout=pipe)

    def get_ready(self) -> None:
        """Waits until the program has been built and compiled."""
        self.found.update(self._answer())

    def ask(self, what: str) -> dict:
        """What the process answers; nothing if it has failed."""
        if "failed" in self.found:
            return {}
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict:
        while line := self._process.stdout.readline():
            if line.startswith("{"):
                return json.loads(line)
        self._process.wait()
        lines = [line for line in self._errors.read_text().splitlines() if line.strip()]
        self.found["failed"] = lines[-1][:300] if lines else "?"
        return {}

    def end(self) -> None:
        """Ends the process."""
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def in_turns(workers: list[Worker], rounds: int, steps: int) -> None:
    """Measures each model's workers one after the other, round by round; `found` keeps the best time."""
    for worker in workers:
        worker.get_ready()
        print(f"{worker.model} {worker.runner}: {worker.found}", flush=True)
    for model in dict.fromkeys(w.model for w in workers):
        mine = [w for w in workers if w.model == model]
        for _ in range(rounds):
            for worker in mine:
                if got := worker.ask(str(steps)):
                    worker.times.append(got["ms"])
                    worker.found.update(ms=min(worker.times), GiB=got["GiB"])
        print(model, {w.runner: [round(t, 3) for t in w.times] for w in mine}, flush=True)


def rounds_of(step: Callable[[], object], wait: Callable[[], object], rounds: int, steps: int, warm: int) -> list[float]:
    """Milliseconds of a step in each round, in this process, after some steps that are not measured."""
    for _ in range(warm):
        step()
    wait()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(steps):
            step()
        wait()
        times.append((time.perf_counter() - began) / steps * 1e3)
    return times
