"""The constants of this machine, from the times of real processes on it, and predictions beside measurements.

`measure` returns a machine file, `compare` measures null steps on one to six processes, and simulates the same. All cases are
measured in turns, in many short rounds (`bench.py`); those in which a case was fastest count, so that other load does not.
"""
from __future__ import annotations

import itertools
import os
import statistics
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

import penstock.compat.v1 as tf
from penstock._src.simulate import bench
from penstock._src.simulate.bench import Case, Round
from penstock._src.simulate.job import FREE, Job
from penstock._src.simulate.machines import Machine, Machines, Network

_MEMORY = 64 << 20                  # bytes, to measure the memory
_SMALL, _LARGE = 4, 4 << 20         # bytes of a step
_SECONDS = 0.24                     # of a round
_ROUNDS, _FOREIGN = 7, 0.04         # rounds of a case that count; the share of the processors that others may use in one
_PASSES, _SHARE, _LEAST = 16, 0.5, 2e-6      # improvements of the constants, by what share; seconds of a message at least
_FASTEST = 1e-12                    # seconds per byte
_SOME, _WIDEST = 0.2, 1.0           # jitter: where the search begins, and at most
LONGEST = 20.0                      # minutes in which there must be so many
_MESSAGES = 4                       # of a step, with each server: its part, the value, the update, the end
_TURNS = ["idle_seconds", "switch_seconds", "interrupt_seconds"]       # what the system adds to a turn
_ALONE = Case(_SMALL)
_MORE_SERVERS = Case(_SMALL, servers=2)
_MB = 1 << 20
_SHORT = Case(_MB // 4)             # in shared memory, but little of it
_CROWDED = [Case(_SMALL, beside=n) for n in (1, 2, 3)]
_SHARED = [Case(_SMALL, clients=n) for n in (2, 3)]
_ONE_CORE = [Case(_SMALL, clients=n, cores=1) for n in (1, 2, 3)]
_CACHES = [_SHORT, *(Case(mb * _MB) for mb in (1, 2, 4)), *(Case(mb * _MB, beside=1) for mb in (3, 4)),
           *(Case(_LARGE, beside=n) for n in (2, 3))]               # by the bytes that all of them use
_CALIBRATION = [_ALONE, _MORE_SERVERS, *_CROWDED, *_SHARED, *_ONE_CORE, *_CACHES]
SHAPES = (1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (4, 2)
_COMPARED = [Case(size, *shape) for size in (_SMALL, _LARGE) for shape in SHAPES]


class Compared(NamedTuple):
    """Milliseconds of a step, predicted and measured: the mean of all workers."""
    what: str
    workers: int
    servers: int
    predicted: float
    measured: float
    foreign: float                  # the share of the processors that other programs used meanwhile

    @property
    def error(self) -> float:
        """The relative difference."""
        return self.predicted / self.measured - 1


def measure() -> Machines:
    """The constants of this machine, in less than a minute if nothing else runs."""
    return constants(_measured(_CALIBRATION, LONGEST), *_speeds())


def compare(minutes: float = LONGEST) -> tuple[Machines, list[Compared]]:
    """The constants, and predicted against measured null steps on up to six processes, all measured together."""
    speeds = _speeds()
    found = _measured([*_CALIBRATION, *_COMPARED], minutes)
    machines = constants(found, *speeds)
    return machines, [Compared(f"null step, {case.size} bytes", case.workers, case.servers, predicted(machines, case) * 1e3,
                               found[case].step * 1e3, found[case].foreign) for case in _COMPARED]


def _measured(cases: Sequence[Case], minutes: float) -> dict[Case, Round]:
    """The times of each case: all in turns, until each has enough rounds in which no other program worked."""
    found: dict[Case, list[Round]] = {case: [] for case in cases}
    with bench.cluster() as processes:
        for case in found:
            processes.prepare(case)
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end and (left := [case for case, rounds in found.items() if _calm(rounds) < _ROUNDS]):
            for case in left:
                found[case].append(processes.round(case, _SECONDS))
    return {case: undisturbed(rounds) for case, rounds in found.items()}


def _calm(rounds: Sequence[Round]) -> int:
    """How many of some rounds were not disturbed."""
    return sum(r.foreign <= _FOREIGN for r in rounds)


def undisturbed(rounds: Sequence[Round]) -> Round:
    """The median of each number, among the rounds in which other programs worked least."""
    best = sorted(rounds, key=lambda r: r.foreign)[:_ROUNDS]
    return Round(*(statistics.median(numbers) for numbers in zip(*best, strict=True)))


# -- constants that explain the times ----------------------------------------------------------------------------------
def constants(found: dict[Case, Round], flops: float, memory: float, op: float) -> Machines:
    """A machine file with which the cases of the calibration take as long as they did.

    The cases are simulated, and each constant is changed by what is missing where it matters, several times: the work of the
    client, the worker and the server, where nothing else runs; that of a message, by a second server; what a turn costs beside
    its work, by further workers, which have the core in between, by further clients of the worker, whose turns follow each
    other without that, and by one core for all processes, which is never idle (`_turns`); that of a large message, and the
    bandwidth and the share for the bytes that all use (`_caches`). What the step takes beyond all work is the time of wake-ups;
    what it takes less is work that comes when a message has left (`after_seconds`), while its receiver works.
    """
    machines = _first(found[_ALONE], flops, memory, op)
    for _ in range(_PASSES):
        _improve(machines, found)
    return machines


def _first(alone: Round, flops: float, memory: float, op: float) -> Machines:
    """Where the search begins."""
    def machine(**fields: Any) -> Machine:
        return Machine(cores=os.cpu_count() or 1, flops=flops, memory_bandwidth=memory, op_seconds=op, nic=1e12,
                       send_seconds=_LEAST, receive_seconds=_LEAST, **fields)
    worker = machine(client_seconds=alone.client, step_seconds=alone.worker / 2)
    caches = [[1.0 + i, memory, 0.0] for i in range(len(_CACHES))]
    network = Network(latency=_LEAST, one_machine=True, jitter=_SOME, caches=caches)
    return Machines({"worker": worker, "ps": machine(begin_seconds=alone.server / 2)}, network,
                    "measured by penstock simulate --calibrate on this machine; all tasks share its cores")


class _Simulated(NamedTuple):
    """A simulated case: its times, and for its client, worker and server: for how long others had their core; how often they
    found that it was idle, or that others had it at all, and interrupted an idle core; the bytes that they touched, and their
    work beside that; and all bytes of the case."""
    round: Round
    others: tuple[float, ...]
    wakes: tuple[float, ...]
    switches: tuple[float, ...]
    interrupts: tuple[float, ...]
    touched: tuple[float, ...]
    warm: tuple[float, ...]
    bytes: int

    @property
    def turns(self) -> tuple[tuple[float, ...], ...]:
        """What the constants of turns belong to, in their order."""
        return self.others, self.wakes, self.switches, self.interrupts


def simulated(machines: Machines, case: Case, steps: int = 200) -> _Simulated:
    """The times of a case by the simulator."""
    servers = bench.SERVERS if case.beside else case.servers
    beside = [bench.null_step(case.size, bench.SERVERS - 1, 1) for _ in range(case.beside)]
    job = Job(bench.null_step(case.size, 0, case.servers), machines, case.workers, servers, FREE, 0, beside,
              bench.numbers(case), case.clients)
    rate = job.run(steps).steps_per_second
    hosts: list[Any] = [t.host for t in job.workers]
    kinds = [[c for h in hosts for c in h.clients], [h.process for h in hosts],
             [t.host.process for t in job.cluster.job("ps")[:case.servers]]]             # type: ignore[attr-defined]

    def per_step(of: str) -> tuple[float, ...]:
        return tuple(sum(getattr(p, of) for p in kind) / job.results.count for kind in kinds)
    client, worker, server = per_step("busy")
    spread = bench.spread(job.results.warm)
    return _Simulated(Round(case.workers * case.clients / rate, client, worker, server / case.servers, spread, case.servers),
                      per_step("others"), per_step("wakes"), per_step("switches"), per_step("interrupts"),
                      per_step("touched"), per_step("warm"), job.cluster.cores.memory.bytes)


def predicted(machines: Machines, case: Case) -> float:
    """The simulated time of a step of a case."""
    return simulated(machines, case).round.step


def _improve(machines: Machines, found: dict[Case, Round]) -> None:
    """Changes constants by what the simulated cases lack."""
    made = {case: simulated(machines, case) for case in _CALIBRATION}
    lacks = {case: [_SHARE * (a - b) for a, b in zip(found[case], made[case].round, strict=False)] for case in _CALIBRATION}
    worker, server, network = machines.of("worker"), machines.of("ps"), machines.network
    step, client, work, served, *_ = lacks[_ALONE]
    message = (lacks[_MORE_SERVERS][2] - work) / _MESSAGES
    for machine in worker, server:
        machine.send_seconds = machine.receive_seconds = max(machine.send_seconds + message, _LEAST)
    worker.client_seconds = max(worker.client_seconds + client, 0.0)
    worker.step_seconds = max(worker.step_seconds + work - _MESSAGES * message, 0.0)
    server.begin_seconds = max(server.begin_seconds + served - _MESSAGES * message, 0.0)
    pause = network.latency - worker.after_seconds + (step - client - work - served) / _MESSAGES
    network.latency, worker.after_seconds, server.after_seconds = max(pause, 0.0), max(-pause, 0.0), max(-pause, 0.0)
    spreads = [sum(of[c].spread for c in _CROWDED) for of in (found, {c: made[c].round for c in _CROWDED})]
    network.jitter = min(max(network.jitter, _LEAST) * (spreads[0] / max(spreads[1], _LEAST)) ** _SHARE, _WIDEST)
    _turns(worker, server, made, lacks)
    _caches(worker, server, network, made, lacks)


def _turns(worker: Machine, server: Machine, made: dict[Case, _Simulated], lacks: dict[Case, list[float]]) -> None:
    """Changes what turns cost beside their work, by what the cases lack that have other turns than one worker alone. What the
    system does costs each kind of process the same, the caches do not."""
    alone, cases = made[_ALONE], [*_CROWDED, *_SHARED, *_ONE_CORE]

    def more(at: int) -> np.ndarray:
        return np.array([[n[at] - before[at] for n, before in zip(made[c].turns, alone.turns, strict=True)] for c in cases])

    def missing(at: int) -> np.ndarray:
        return np.array([lacks[c][at + 1] - lacks[_ALONE][at + 1] for c in cases])
    cold = more(0)[:, :1]
    worker.client_cold_share, = _not_negative(cold, cold[:, 0] * worker.client_cold_share + missing(0)).tolist()
    none = np.zeros((len(cases), 1))
    both = np.block([[more(1)[:, :1], none, more(1)[:, 1:]], [none, more(2)[:, :1], more(2)[:, 1:]]])
    now = np.array([worker.cold_share, server.cold_share, *(getattr(worker, field) for field in _TURNS)])
    wanted = both @ now + np.concatenate([missing(1), missing(2)])
    worker.cold_share, server.cold_share, *found = _not_negative(both, wanted).tolist()
    for field, value in zip(_TURNS, found, strict=True):
        setattr(worker, field, value)
        setattr(server, field, value)


def _not_negative(more: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """What explains some times best, of constants that are not negative: least squares with every choice of them."""
    best, least = np.zeros(more.shape[1]), float(wanted @ wanted)
    scales = np.maximum(np.abs(more).max(0), 1e-9)                 # seconds beside counts
    for chosen in itertools.product([False, True], repeat=len(scales)):
        part = more[:, chosen] / scales[list(chosen)]
        found = np.linalg.lstsq(part, wanted, rcond=1e-3)[0]
        rest = wanted - part @ found
        if (found >= 0).all() and rest @ rest < least:
            best, least = np.zeros(len(scales)), float(rest @ rest)
            best[list(chosen)] = found / scales[list(chosen)]
    return best


def _caches(worker: Machine, server: Machine, network: Network, made: dict[Case, _Simulated],
            lacks: dict[Case, list[float]]) -> None:
    """Changes what large values cost, by what cases lack that the same with small values do not: how much longer work takes, by
    the client, which touches none; the bandwidth, by the worker and the server; and with few bytes, what a large message costs
    beside them: a step receives one, and sends one."""
    least = network.caches[1]                        # of the shortest values, only the share is known
    for point, case in zip(network.caches, _CACHES, strict=True):
        small = lacks[case._replace(size=_SMALL)]
        client, work, served = (lacks[case][n] - small[n] for n in (1, 2, 3))
        point[0] = float(made[case].bytes)
        point[2] = max(0.0, point[2] + client / max(made[case].warm[0], _LEAST))
        if case is _SHORT:
            worker.large_seconds, server.large_seconds = (max(0.0, m.large_seconds + lack / 2)
                                                          for m, lack in ((worker, work), (server, served)))
        else:
            point[1] = 1 / max(1 / point[1] + (work + served) / sum(made[case].touched), _FASTEST)
    network.caches[0][1] = least[1]


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
