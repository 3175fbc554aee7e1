"""The figures of the OSDI 2016 paper, simulated from stated machine constants (data_files/osdi16.yaml).

Each figure is a list of points: the paper's number and the simulated one. Points that the paper only plots are not used. The
claims of the text are checked, too.
"""
from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from penstock._src.simulate import machines, programs
from penstock._src.simulate.job import LOCKSTEP, Job
from penstock._src.simulate.machines import Machines, Straggling
from penstock._src.simulate.plots import Chart

CONSTANTS = pathlib.Path(__file__).parents[1] / "data_files" / "osdi16.yaml"
TOLERANCE = 0.15
_MS, _S, _RATE, _FACTOR = "ms", "s", "images/s", "times"
SPARSE = {"GatherV2": 6e-4, "ScatterAdd": 6e-4, "DynamicPartition": 2e-3}
_SERVERS, _INCEPTION_SERVERS, _WORKERS = 16, 17, 50
WORK, _BATCH, _BLOCKS = 1.15, 32, 6
_WORDS, _WORD_FLOPS = 512, 25.2e6
_VOCABULARY, _SAMPLED = 40_000, 512


class Point(NamedTuple):
    """One number of the paper."""
    figure: str
    what: str
    unit: str
    paper: float
    simulated: float

    @property
    def error(self) -> float:
        """The relative difference."""
        return self.simulated / self.paper - 1

    @property
    def within(self) -> bool:
        """Whether the simulation is close enough."""
        return abs(self.error) <= TOLERANCE


class Claim(NamedTuple):
    """A sentence of the paper, whether it holds in the simulation, and the figures."""
    figure: str
    what: str
    holds: bool
    seen: str


def constants() -> Machines:
    """The machines of the paper."""
    return machines.load(CONSTANTS)


def _steady() -> Machines:
    """The machines without stragglers: null steps are medians."""
    found = constants()
    found.machines["worker"] = dataclasses.replace(found.machines["worker"], straggling=Straggling())
    return found


# -- null steps (figure 6) ----------------------------------------------------------------------------------------------------
NULL_STEPS: dict[str, tuple[Callable[[], programs.Build], tuple[float, float]]] = {
    "scalar": (lambda: programs.dense_null_step(4 * _SERVERS), (1.8, 8.8)),
    "dense, 100 MB": (lambda: programs.dense_null_step(10**8), (147, 613)),
    "dense, 1 GB": (lambda: programs.dense_null_step(10**9), (1010, 7160)),
    "sparse, 2 GB": (lambda: programs.sparse_null_step(2 * 10**9, costs=SPARSE), (5, 20)),
    "sparse, 16 GB": (lambda: programs.sparse_null_step(16 * 10**9, costs=SPARSE), (5, 20)),
}


def null_step(kind: str, workers: int, steps: int = 3) -> float:
    """Milliseconds of a null step on 16 servers."""
    program = NULL_STEPS[kind][0]()(_SERVERS)
    return Job(program, _steady(), workers, _SERVERS, LOCKSTEP).run(steps).median_round * 1e3


def null_steps(steps: int = 3) -> Iterator[Point | Chart]:
    """All null steps."""
    series, marks = {}, []
    for kind, (_, stated) in NULL_STEPS.items():
        took = {workers: null_step(kind, workers, steps) for workers in (1, 5, 25, 50, 100)}
        for workers, paper in zip((1, 100), stated, strict=True):
            yield Point("6: null step", f"{kind}, {workers} workers", _MS, paper, took[workers])
            marks.append((workers, paper))
        series[kind] = list(took.items())
    yield Chart("Null steps, 16 servers", "workers", "ms", series, {"the paper": marks}, True)


# -- Inception-v3 (figures 7 and 8) -------------------------------------------------------------------------------------------
def inception(workers: int, steps: int = 10, seed: int = 0) -> Job:
    """Asynchronous training on 17 servers, after it was run."""
    blocks = programs.inception_v3(_INCEPTION_SERVERS, _BLOCKS)
    program = programs.data_parallel(blocks, WORK, _BATCH)(_INCEPTION_SERVERS)
    job = Job(program, constants(), workers, _INCEPTION_SERVERS, seed=seed)
    job.run(steps)
    return job


def backups(count: int, steps: int = 60, seed: int = 0) -> float:
    """Seconds of a step of 50 workers and some backups: the median time between updates."""
    blocks = programs.inception_v3(_INCEPTION_SERVERS, _BLOCKS)
    program = programs.data_parallel(blocks, WORK, _BATCH, _WORKERS, count)(_INCEPTION_SERVERS)
    return Job(program, constants(), _WORKERS + count, _INCEPTION_SERVERS, seed=seed).run(steps).median_round


def inception_points(steps: int = 10) -> Iterator[Point | Claim | Chart]:
    """Asynchronous training."""
    rates = {}
    for workers in (25, 50, 100, 200):
        job = inception(workers, steps)
        rates[workers] = job.results.examples_per_second
        share, task, resource = job.results.bottleneck()
    yield Point("7: Inception-v3", "asynchronous, 200 workers", _RATE, 2300, rates[200])
    gains = [f"{w} workers: {r:.0f}" for w, r in rates.items()]
    yield Claim("7: Inception-v3", "more workers bring diminishing returns, because the servers saturate",
                rates[200] / rates[100] < 0.9 * rates[50] / rates[25] and "/job:ps" in task and share > 0.85,
                f"{', '.join(gains)} images/s; the {resource} of {task} is in use {share:.0%} of the time")
    yield Chart("Inception-v3, asynchronous, 17 servers", "workers", "images/s", {"simulated": list(rates.items())},
                {"the paper": [(200, 2300)]})


def backup_points(steps: int = 60) -> Iterator[Point | Claim | Chart]:
    """Synchronous training with 0 to 5 backup workers."""
    took = [backups(b, steps, seed=1) for b in range(6)]
    normal = [took[0] / t * _WORKERS / (_WORKERS + b) for b, t in enumerate(took)]
    yield Point("8: backup workers", "step with 4 backups", _S, 1.93, took[4])
    yield Point("8: backup workers", "speed-up by 3 backups, normalized by resources", _FACTOR, 1.095, normal[3])
    yield Claim("8: backup workers", "4 backups make the shortest step", min(took) == took[4],
                ", ".join(f"{b}: {t:.3f} s" for b, t in enumerate(took)))
    yield Claim("8: backup workers", "3 backups are best, normalized by resources", max(normal) == normal[3],
                ", ".join(f"{b}: {n:.3f}" for b, n in enumerate(normal)))
    yield Chart("Inception-v3, synchronous, 50 workers and backups", "backup workers", "s per step, and speed-up",
                {"step": list(enumerate(took)), "speed-up, normalized": list(enumerate(normal))},
                {"the paper": [(4, 1.93), (3, 1.095)]})


# -- the language model (figure 9) --------------------------------------------------------------------------------------------
def words_per_second(sampled: int, workers: int, servers: int, steps: int = 4) -> float:
    """The throughput of a language model with a full softmax (0), or with so many sampled classes."""
    found = _steady()
    for machine in found.machines.values():          # a product uses all cores of its machine
        machine.flops, machine.cores = machine.flops * machine.cores, 1
    seconds = _WORDS * _WORD_FLOPS / found.of("worker").flops
    program = programs.softmax(sampled, _WORDS, seconds, _VOCABULARY)(servers)
    return Job(program, found, workers, servers).run(steps).examples_per_second


def softmax_points(steps: int = 4, servers: tuple[int, ...] = (1, 2, 4, 8, 16, 32)) -> Iterator[Point | Claim | Chart]:
    """Full against sampled softmax."""
    full, sampled = (softmax_flops(n) for n in (0, _SAMPLED))
    yield Point("9: softmax", "computation on the servers, full against 512 sampled classes", _FACTOR, 78, full / sampled)
    rates = {(s, w, n): words_per_second(s, w, n, steps) for s in (0, _SAMPLED) for w in (4, 32, 256)
             for n in (servers if s == 0 or w == 32 else servers[:1])}
    second = rates[0, 4, 2] / rates[0, 4, 1]
    more = rates[0, 32, 1] / rates[0, 4, 1]
    most = rates[0, 256, 1] / rates[0, 32, 1]
    yield Claim("9: softmax", "full softmax: a second server helps more than 32 workers instead of 4, or 256 instead of 32",
                second > more and second > most, f"×{second:.2f} against ×{more:.2f} and ×{most:.2f}")
    last = servers[-1]
    yield Claim("9: softmax", "sampled softmax is faster with every number of servers",
                all(rates[_SAMPLED, 32, n] > rates[0, 32, n] for n in servers),
                ", ".join(f"{n} servers: {rates[0, 32, n]:.0f} and {rates[_SAMPLED, 32, n]:.0f}" for n in servers) + " words/s")
    yield Claim("9: softmax", "full softmax: with many servers the LSTM dominates, and the throughput saturates",
                rates[0, 4, last] / rates[0, 4, servers[-2]] < 1.5,
                ", ".join(f"{n} servers: {rates[0, 4, n]:.0f}" for n in servers) + " words/s of 4 workers")
    yield Chart("Language model", "servers", "words/s", {
        f"{kind}, {w} workers": [(n, rates[s, w, n]) for n in servers]
        for s, kind in ((0, "full"), (_SAMPLED, "sampled")) for w in (4, 32, 256) if (s, w, last) in rates}, log=True)


def softmax_flops(sampled: int) -> float:
    """Seconds of arithmetic of one step on one server, without the overhead per op."""
    found = _steady()
    for machine in found.machines.values():
        machine.op_seconds = 0.0
    job = Job(programs.softmax(sampled, _WORDS, 0.0, _VOCABULARY)(1), found, 1, 1)
    return sum(part.seconds for part in job.step.others.values())


def everything() -> Iterator[Point | Claim | Chart]:
    """All figures, with their charts."""
    yield from null_steps()
    yield from inception_points()
    yield from backup_points()
    yield from softmax_points()
