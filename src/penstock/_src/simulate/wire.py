"""The simulated wire: hosts with cores, message threads and a full-duplex NIC, racks with uplinks.

A message uses a thread of its sender, passes the sender's NIC, up to two uplinks, and the receiver's NIC, and uses a thread of
the receiver. Large messages pass a pipe one after the other, each as soon as its first bytes have arrived (cut-through).
Receivers share the NIC of a sender by bytes, so that none of them waits for all earlier requests. Small messages pass between
the chunks of large ones, as they do on real links (cluster/link.py), and do not wait.
"""
from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from penstock._src.simulate.engine import Clock, Cores, Pipe, Process, Servers
from penstock._src.simulate.machines import Machine, Network
from penstock._src.simulate.memory import Touch


class _Out:
    """Large messages that leave a host. Receivers share the NIC by bytes (self-clocked fair queueing): a message is due when
    its receiver's share would have carried it, so short messages do not wait for one long message of every other receiver."""

    __slots__ = ("_queue", "_due", "_now", "_numbers")

    def __init__(self) -> None:
        self._queue: list[tuple[float, int, Host, tuple]] = []      # a heap
        self._due: dict[Host, float] = {}                           # of the last message to a receiver
        self._now = 0.0                                             # virtual time: of the message that left last
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, target: Host, size: int, message: tuple) -> None:
        due = self._due[target] = max(self._now, self._due.get(target, 0.0)) + size
        heapq.heappush(self._queue, (due, next(self._numbers), target, message))

    def take(self) -> tuple[Host, tuple]:
        self._now, _, target, message = heapq.heappop(self._queue)
        return target, message


class Host:
    """A machine of the simulated cluster."""

    __slots__ = ("name", "machine", "rack", "cores", "threads", "out", "into", "leaving")

    def __init__(self, name: str, machine: Machine, rack: int = 0):
        self.name, self.machine, self.rack = name, machine, rack
        self.cores, self.threads = Servers(machine.cores), Servers(machine.message_threads)
        self.out, self.into = Pipe(machine.nic), Pipe(machine.nic)
        self.leaving = _Out()

    def compute(self, clock: Clock, step: str, kind: str, seconds: float, touched: Sequence[Touch], call: Callable,
                args: tuple) -> None:
        """Makes a call when a core has worked for some seconds. The step, whose thread that is, the kind of the work, and what
        it touches count on one machine."""
        clock.schedule(self.cores.book(clock.now, seconds), call, args)

    def prepare(self, clock: Clock, step: str, call: Callable, client: int = 0) -> None:
        """Makes a call when a client, on a machine of its own, has requested a step and this host has begun it."""
        clock.after(self.machine.client_seconds + self.machine.step_seconds, call)


class LocalHost(Host):
    """A process of a machine whose cores all tasks share: it computes, sends and receives in turns. Its clients are others."""

    __slots__ = ("process", "clients", "_number")

    def __init__(self, name: str, machine: Machine, cores: Cores, number: int = 0):
        super().__init__(name, machine)
        self.process = Process(cores, number, machine.cold_share, machine.idle_seconds, machine.switch_seconds)
        self.clients: list[Process] = []
        self._number = number
        self.cores, self.threads = cores, self.process         # type: ignore[assignment]

    def compute(self, clock: Clock, step: str, kind: str, seconds: float, touched: Sequence[Touch], call: Callable,
                args: tuple) -> None:
        self.process.work(step, kind, seconds, touched, call, args)

    def prepare(self, clock: Clock, step: str, call: Callable, client: int = 0) -> None:
        def requested() -> None:
            self.process.work(step, "step", self.machine.step_seconds, (), call, ())
        while client >= len(self.clients):
            self.clients.append(Process(self.cores, self._number, self.machine.client_cold_share))     # type: ignore[arg-type]
        self.clients[client].work("client", "request", self.machine.client_seconds, (), requested, ())


class Wire:
    """The network between hosts."""

    def __init__(self, clock: Clock, network: Network):
        self.clock, self.network = clock, network
        self.racks: dict[int, tuple[Pipe, Pipe]] = {}          # uplinks: out of a rack, into it
        self.messages = 0
        self.cut: Callable[[Host, Host], bool] | None = None   # whether a message is lost: chaos

    def send(self, source: Host, target: Host, size: int, receive: Callable, *args: Any, step: str = "",
             touched: Sequence[Touch] = ()) -> None:
        """Calls `receive(*args)` when a message of `size` bytes of tensors has arrived. On one machine, its sender has
        `touched` the large ones, and memory that it shares with the receiver; both have a thread for the step."""
        self.messages += 1
        clock, network, machine = self.clock, self.network, source.machine
        if source is target:
            clock.after(0.0, receive, *args)
            return
        if self.cut is not None and self.cut(source, target):
            return
        size += network.header
        if size <= network.small:
            sent = source.threads.book(clock.now, machine.send_seconds)
            took, into = source.out.passed(size), target.into.passed(size)
            clock.schedule(sent + network.latency + (took if took > into else into), self._arrive,
                           (target, target.machine.receive_seconds, receive, args))
        else:
            sent = source.threads.book(clock.now, machine.send_seconds + machine.copy_seconds(size))
            clock.at(sent, self._leave, source, target, size, receive, args)

    def _leave(self, source: Host, target: Host, size: int, receive: Callable, args: tuple) -> None:
        """A large message is ready for the sender's NIC."""
        source.leaving.put(target, size, (size, receive, args))
        if source.out.begin(self.clock.now) <= self.clock.now:
            self._next(source)

    def _next(self, source: Host) -> None:
        """The sender's NIC takes the next large message, if it is free."""
        pipe, clock = source.out, self.clock
        if source.leaving and pipe.begin(clock.now) <= clock.now:
            target, (size, receive, args) = source.leaving.take()
            clock.at(pipe.book(clock.now, size), self._next, source)
            latency = self.network.latency + self.network.large_latency
            clock.after(latency, self._enter, self._path(source, target), size, pipe.bandwidth, receive, args)

    def _path(self, source: Host, target: Host) -> tuple:
        """The pipes behind the sender's NIC, and the target."""
        if source.rack == target.rack:
            return (target.into, target)
        return (self._uplink(source.rack)[0], self._uplink(target.rack)[1], target.into, target)

    def _uplink(self, rack: int) -> tuple[Pipe, Pipe]:
        if rack not in self.racks:
            self.racks[rack] = Pipe(self.network.rack_uplink), Pipe(self.network.rack_uplink)
        return self.racks[rack]

    def _enter(self, path: tuple, size: int, slowest: float, receive: Callable, args: tuple) -> None:
        """The first bytes of a large message have arrived at a pipe; the last ones cannot arrive faster than through the
        slowest pipe."""
        pipe, clock = path[0], self.clock
        begins = pipe.begin(clock.now)
        done = pipe.book(clock.now, size)
        slowest = min(slowest, pipe.bandwidth)
        if len(path) > 2:
            clock.at(begins, self._enter, path[1:], size, slowest, receive, args)
            return
        target = path[1]
        machine = target.machine
        clock.at(max(done, begins + size / slowest), self._arrive, target, machine.receive_seconds + machine.copy_seconds(size),
                 receive, args)

    def _arrive(self, target: Host, seconds: float, receive: Callable, args: tuple) -> None:
        done = target.threads.book(self.clock.now, seconds)
        self.clock.schedule(done, receive, args)


def _nothing() -> None:
    """Nothing follows."""


class LocalWire(Wire):
    """Connections between the processes of one machine: a message takes processor time of its sender and of its receiver, and
    the latency is that of waking the receiver. The sender copies large values to shared memory, where the receiver uses them
    (cluster/shared.py)."""

    def send(self, source: Host, target: Host, size: int, receive: Callable, *args: Any, step: str = "",
             touched: Sequence[Touch] = ()) -> None:
        self.messages += 1
        clock, network = self.clock, self.network
        if source is target:
            clock.after(0.0, receive, *args)
            return
        if self.cut is not None and self.cut(source, target):
            return
        size += network.header
        source.out.passed(size)
        target.into.passed(size)
        large, machine, process = bool(touched), source.machine, source.process       # type: ignore[attr-defined]
        seconds = machine.send_seconds + machine.large_seconds * large
        if process.wakes_core_of(target.process):                                     # type: ignore[attr-defined]
            seconds += machine.interrupt_seconds
        process.work(step, "send", seconds, touched, clock.after,
                     (network.latency, self._arrive, target, step, large, receive, args))
        if machine.after_seconds:
            process.work(step, "after", machine.after_seconds, (), _nothing, ())

    def _arrive(self, target: Host, step: str, large: float, receive: Callable, args: tuple) -> None:     # type: ignore[override]
        machine = target.machine
        seconds = machine.receive_seconds + machine.large_seconds * large
        target.process.work(step, "receive", seconds, (), receive, args)                 # type: ignore[attr-defined]
