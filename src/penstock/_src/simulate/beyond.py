"""Beyond the paper: bottlenecks with 10,000 workers and 1 TB of embeddings, and the effect of design changes.

Each function simulates one claim of docs/simulator.md, on machines with 100 Gbit/s and 64 cores.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import torch

from penstock._src.collective.algorithms import Send, broadcast
from penstock._src.simulate import programs
from penstock._src.simulate.engine import Clock
from penstock._src.simulate.job import LOCKSTEP, Job
from penstock._src.simulate.machines import Machine, Machines, Network
from penstock._src.simulate.wire import Host, Wire

TODAY = Machines({"default": Machine(cores=64, flops=5e10, memory_bandwidth=2e10, op_seconds=3e-6, nic=12.5e9,
                                     send_seconds=5e-6, receive_seconds=5e-6, message_threads=4)},
                 Network(latency=2e-5))


class Finding(NamedTuple):
    """A claim, and the results of its simulation."""
    claim: str
    cases: list[tuple[str, float]]
    unit: str


def embeddings() -> Finding:
    """1 TB of embeddings on 64 servers: each worker reads and updates 4,096 rows of 512 bytes."""
    cases = []
    for workers in (100, 1000, 10_000):
        program = programs.sparse_null_step(10**12, 512, 4096)(64)
        job = Job(program, TODAY, workers, 64, LOCKSTEP)
        cases.append((f"{workers} workers", job.run(1).median_round or job.results.percentile(1.0)))
    return Finding("Steps on 1 TB of embeddings get slower in proportion to the workers: every worker talks to every server, "
                   "and the threads that handle messages are busy before the network is", cases, "s per step")


def servers_for_embeddings() -> Finding:
    """The same with 1,000 workers and more servers: more messages, each smaller."""
    cases = []
    for servers in (16, 64, 256):
        job = Job(programs.sparse_null_step(10**12, 512, 4096)(servers), TODAY, 1000, servers, LOCKSTEP)
        job.run(1)
        cases.append((f"{servers} servers", job.results.percentile(1.0)))
    return Finding("More servers help until a worker's own messages are what a step waits for", cases, "s per step")


def hierarchy() -> Finding:
    """Gradients of a dense model of 100 MB: from all workers to 64 servers, or summed in racks of 40 first."""
    direct = Job(programs.dense_null_step(10**8)(64), TODAY, 1000, 64, LOCKSTEP)
    direct.run(1)
    racks = Job(programs.dense_null_step(10**8)(64), TODAY, 25, 64, LOCKSTEP)
    racks.run(1)
    inside = Job(programs.dense_null_step(10**8)(8), TODAY, 40, 8, LOCKSTEP)
    inside.run(1)
    return Finding("Hierarchical parameter servers: 1,000 workers in racks of 40, each rack with 8 servers that stand for it "
                   "at 64 global ones", [("all workers to 64 servers", direct.results.percentile(1.0)),
                                                ("by rack", racks.results.percentile(1.0) + inside.results.percentile(1.0))],
                   "s per step")


def coordination() -> Finding:
    """One chief issues tokens to all workers; or each of 100 groups has a coordinator, with one above them."""
    cases = []
    for workers in (100, 1000, 10_000):
        cases.append((f"{workers} workers, one queue", _tokens(workers)))
    cases.append(("10,000 workers, 100 queues", _tokens(10_000, 100)))
    return Finding("Sharded coordination: one queue of tokens serves all workers one after the other", cases, "s per round")


def _tokens(workers: int, queues: int = 1) -> float:
    """Every worker requests a token from a queue, which answers; one of several queues requests those of its workers from one
    over them, when all have asked."""
    clock = Clock()
    wire = Wire(clock, TODAY.network)
    machine = dataclasses.replace(TODAY.of("ps"), message_threads=1)
    top, own = Host("top", machine), [Host(f"queue{i}", machine) for i in range(queues)]
    waiting: list[list[Host]] = [[] for _ in own]

    def answer(i: int) -> None:
        for host in waiting[i]:
            wire.send(own[i], host, 8, lambda: None)

    def request(i: int, host: Host) -> None:
        if queues == 1:
            wire.send(own[i], host, 8, lambda: None)
            return
        waiting[i].append(host)
        if len(waiting[i]) == workers // queues:
            wire.send(own[i], top, 8, wire.send, top, own[i], 8, answer, i)
    for n in range(workers):
        host = Host(f"w{n}", machine)
        wire.send(host, own[n % queues], 8, request, n % queues, host)
    clock.run()
    return clock.now


def broadcasting() -> Finding:
    """A new model of 1 GB for all workers: from one server, or down a tree (collective/algorithms.py)."""
    cases = []
    for workers in (100, 1000, 10_000):
        cases.append((f"{workers} workers, from one server", _sends(workers, 10**9)))
        cases.append((f"{workers} workers, binomial tree", _broadcast(workers, 10**9)))
    return Finding("Tree broadcast: a server that sends a model to all workers needs time in proportion to their number, a "
                   "tree to its logarithm", cases, "s")


def _sends(workers: int, nbytes: int) -> float:
    """One server sends the same to all workers."""
    clock = Clock()
    wire = Wire(clock, TODAY.network)
    server = Host("server", TODAY.of("ps"))
    for i in range(workers):
        wire.send(server, Host(f"w{i}", TODAY.of("worker")), nbytes, lambda: None)
    clock.run()
    return clock.now


def _broadcast(size: int, nbytes: int) -> float:
    """The real algorithm, on simulated hosts: data has no content."""
    clock = Clock()
    wire = Wire(clock, TODAY.network)
    hosts = [Host(f"w{i}", TODAY.of("worker")) for i in range(size)]
    data = torch.empty(nbytes, dtype=torch.uint8, device="meta")
    moves = [broadcast(r, size, data, 0) for r in range(size)]

    def advance(rank: int, given: torch.Tensor | None = None) -> None:
        try:
            while isinstance(move := moves[rank].send(given), Send):        # type: ignore[arg-type]
                wire.send(hosts[rank], hosts[move.to], nbytes, advance, move.to, data)
                given = None
        except StopIteration:
            pass
    for rank in reversed(range(size)):
        if rank:
            next(moves[rank])                        # it waits for its parent
    advance(0)
    clock.run()
    return clock.now


def everything() -> Iterator[Finding]:
    """All findings."""
    for find in (embeddings, servers_for_embeddings, hierarchy, coordination, broadcasting):
        yield find()
