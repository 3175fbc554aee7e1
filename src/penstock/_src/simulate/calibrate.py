"""The constants of this machine, from the times of real processes on it, and predictions beside measurements.

`measure` returns a machine file, `compare` measures null steps on one to six processes, and simulates the same. All cases are
measured in turns, in many short rounds (`bench.py`); those in which a case was fastest count, so that other load does not.
"""
from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

import penstock.compat.v1 as tf
from penstock._src.simulate import bench, programs
from penstock._src.simulate.bench import Case, Round
from penstock._src.simulate.job import FREE, Job
from penstock._src.simulate.machines import Machine, Machines, Network

_MEMORY = 64 << 20                  # bytes, to measure the memory
_SMALL, _LARGE = 4, 4 << 20         # bytes of a step
_ROUNDS, _SECONDS = 40, 0.12        # of each case
_MESSAGES = 4                       # of a step, with each server: its part, the value, the update, the end
_ALONE = Case(_SMALL)
_MORE_SERVERS = Case(_SMALL, servers=2)
_SHORT, _LONG = Case(_LARGE // 4), Case(_LARGE)
_CROWDED = Case(_SMALL, beside=3)
_BESIDE = [Case(_LARGE // 2, beside=1), Case(_LARGE, beside=1), Case(_LARGE, beside=3)]
_CALIBRATION = [_ALONE, _MORE_SERVERS, _SHORT, _LONG, _CROWDED, Case(_SMALL, beside=1), *_BESIDE]
SHAPES = (1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (4, 2)
_COMPARED = [Case(size, *shape) for size in (_SMALL, _LARGE) for shape in SHAPES]


class Compared(NamedTuple):
    """Milliseconds of a step, predicted and measured: the mean of all workers."""
    what: str
    workers: int
    servers: int
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """The relative difference."""
        return self.predicted / self.measured - 1


def measure() -> Machines:
    """The constants of this machine, in about a minute and a half."""
    return constants(_measured(_CALIBRATION), *_speeds())


def compare() -> tuple[Machines, list[Compared]]:
    """The constants, and predicted against measured null steps on up to six processes, all measured together."""
    speeds = _speeds()
    found = _measured([*_CALIBRATION, *_COMPARED])
    machines = constants(found, *speeds)
    return machines, [Compared(f"null step, {case.size} bytes", case.workers, case.servers, predicted(machines, case) * 1e3,
                               found[case].step * 1e3) for case in _COMPARED]


def predicted(machines: Machines, case: Case) -> float:
    """The simulated time of a step of a case."""
    job = Job(programs.dense_null_step(case.size)(case.servers), machines, case.workers, case.servers, FREE)
    return case.workers / job.run(100).steps_per_second


def _measured(cases: Sequence[Case]) -> dict[Case, Round]:
    """The times of each case."""
    found: dict[Case, list[Round]] = {case: [] for case in cases}
    with bench.cluster() as processes:
        for case in found:
            processes.prepare(case)
        for _ in range(_ROUNDS):
            for case, rounds in found.items():
                rounds.append(processes.round(case, _SECONDS))
    return {case: undisturbed(rounds) for case, rounds in found.items()}


def undisturbed(rounds: Sequence[Round]) -> Round:
    """The median of each number, among the fifth of the rounds with the shortest steps."""
    best = sorted(rounds, key=lambda r: r.step)[:max(1, len(rounds) // 5)]
    step, client, worker, server, spread = (statistics.median(r[i] for r in best) for i in range(5))
    return Round(step, client, worker, server, spread, best[0].servers)


def constants(found: dict[Case, Round], flops: float, memory: float, op: float) -> Machines:
    """A machine file from the processor time of the client, the worker and the servers in a few cases.

    What a second server adds to the worker is the cost of its messages; what a server takes besides is that of beginning a
    part; the rest is what the client and the worker do for any step. What a step takes longer than all processes work, the
    wake-ups take. Two sizes give the cost of large messages and of their bytes. What processes work longer beside others tells
    what it costs to find the caches used by them; what the client does, which copies nothing, what copies of other processes
    cost it; and the rest, how much longer copies take.
    """
    cores = os.cpu_count() or 1
    alone, more, crowded = found[_ALONE], found[_MORE_SERVERS], found[_CROWDED]
    cold = max(0.0, (crowded.work - alone.work) / max(_others(_CROWDED, cores) - 2, 1))     # 2: the worker, and its client
    shared = 3 if bench.pins(_MORE_SERVERS, cores)["ps", 1] == 0 else 0       # the second server's traces, on their core
    message = max(more.worker + more.client - alone.worker - alone.client - op - shared * cold, 4e-6) / _MESSAGES
    common: dict[str, Any] = {"cores": cores, "flops": flops, "memory_bandwidth": memory, "op_seconds": op, "nic": 1e12,
                              "send_seconds": message, "receive_seconds": message, "cold_seconds": cold}
    worker = Machine(**common, **_copies(found, lambda r: r.worker, 1), client_seconds=max(alone.client - cold, 0.0),
                     step_seconds=max(alone.worker - _MESSAGES * message - op - cold, 0.0))
    server = Machine(**common, **_copies(found, lambda r: r.server, 2),
                     begin_seconds=max(alone.server - _MESSAGES * message - 2 * op, 0.0))
    caches = [[case.size * (5.0 + 3 * case.beside), _slower(found, case, worker, server), _refill(found, case)]
              for case in _BESIDE]
    pieces = [worker.client_seconds, worker.step_seconds, server.begin_seconds, *[message] * 2 * _MESSAGES]
    jitter = alone.spread * sum(pieces) / math.hypot(*pieces)                  # of each piece, if they are independent
    network = Network(latency=max(alone.step - alone.work, 0.0) / _MESSAGES, one_machine=True, caches=caches, jitter=jitter)
    return Machines({"worker": worker, "ps": server}, network,
                    "measured by penstock simulate --calibrate on this machine; all tasks share its cores")


def _others(case: Case, cores: int) -> int:
    """How many other processes have used their core since, when the processes of a case get it, in a step: the worker three
    times, its server twice, its client once."""
    pins = bench.pins(case, cores)
    counts = {job: sum(core == pins[job, 0] for core in pins.values()) - 1 for job in ("worker", "ps", "client")}
    return 3 * counts["worker"] + 2 * counts["ps"] + counts["client"]


def _refill(found: dict[Case, Round], case: Case) -> float:
    """What it costs a process that the values of a step have passed its caches: the client copies none itself."""
    return max(0.0, found[case].client - found[case._replace(size=_SMALL)].client)


def _copies(found: dict[Case, Round], of: Callable[[Round], float], refills: int) -> dict[str, Any]:
    """The cost of a large message, and of its bytes, for a worker or a server: it receives one, and sends one."""
    short, long = (of(found[c]) - of(found[_ALONE]) - refills * _refill(found, c) for c in (_SHORT, _LONG))
    per_byte = max(long - short, 1e-6) / (_LONG.size - _SHORT.size) / 2
    return {"large_seconds": max(0.0, short / 2 - per_byte * _SHORT.size), "copy_bandwidth": 1 / per_byte}


def _slower(found: dict[Case, Round], case: Case, worker: Machine, server: Machine) -> float:
    """How many times as long copies of a case take as alone."""
    small = found[case._replace(size=_SMALL)]
    more = sum(getattr(found[case], n) - getattr(small, n) for n in ("worker", "server")) - 3 * _refill(found, case)
    alone = sum(2 * case.size / m.copy_bandwidth for m in (worker, server))
    return max(1.0, (more - 2 * (worker.large_seconds + server.large_seconds)) / alone)


def _speeds() -> tuple[float, float, float]:
    """Operations and bytes per second of one core, and the time of a small op."""
    a, b = torch.ones(512, 512), torch.ones(_MEMORY // 4)
    return 2 * 512 ** 3 / _best(lambda: a @ a), 3 * _MEMORY / _best(lambda: torch.add(b, 1.0)), _op_seconds()


def _best(call: Any, times: int = 7) -> float:
    """The minimum of several times, to exclude other load."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return min(found)


def _op_seconds() -> float:
    """The time that one more small op adds to a step: an update of a variable, which no other op is fused with."""
    def run(count: int) -> float:
        with tf.Graph().as_default(), tf.Session() as sess:
            updates = [tf.assign_add(tf.get_variable(f"v{i}", [1], use_resource=False), [1.0]).op for i in range(count)]
            sess.run(tf.global_variables_initializer())
            step = sess.make_callable(tf.group(*updates))
            for _ in range(64):
                step()
            return _best(step, 200)
    return max((run(40) - run(8)) / 32, 1e-7)
