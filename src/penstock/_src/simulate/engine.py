"""Discrete events: a clock with a heap of calls, and first-come, first-served resources.

A resource is *booked*: the caller receives the time when its work will be done, and schedules the next events for then. Because
calls are created in the order of simulated time, bookings are too, and a queue needs no list of waiters.
"""
from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import Any


class Clock:
    """Simulated time, in seconds. Calls at the same time are made in the order in which they were scheduled.

    The heap has each time once: machines of one kind do much at exactly the same time, and numbers are compared faster than
    events."""

    __slots__ = ("now", "events", "_times", "_calls")

    def __init__(self) -> None:
        self.now = 0.0
        self.events = 0                              # calls made so far
        self._times: list[float] = []                # a heap: the keys of `_calls`
        self._calls: dict[float, list[tuple[Callable, tuple]]] = {}

    def at(self, when: float, call: Callable, *args: Any) -> None:
        """Schedules a call at a time, which must not be in the past."""
        self.schedule(when, call, args)

    def schedule(self, when: float, call: Callable, args: tuple) -> None:
        """`at`, with the arguments as a tuple."""
        calls = self._calls.get(when)
        if calls is None:
            self._calls[when] = [(call, args)]
            heapq.heappush(self._times, when)
        else:
            calls.append((call, args))

    def after(self, seconds: float, call: Callable, *args: Any) -> None:
        """Schedules a call after some seconds."""
        self.schedule(self.now + seconds, call, args)

    def run(self, until: Callable[[], bool] | None = None, limit: float = float("inf")) -> None:
        """Makes all calls, until there are none, `until` returns True (checked after about 64 events), or the time limit is
        reached."""
        times, table, checked = self._times, self._calls, self.events
        while times:
            if times[0] > limit:
                self.now = limit
                break
            self.now = now = heapq.heappop(times)
            calls = table[now]
            left = iter(calls)                       # it also returns what these calls schedule for now
            try:
                for call, args in left:
                    call(*args)
            finally:
                if rest := list(left):               # a call has raised
                    table[now] = rest
                    heapq.heappush(times, now)
                else:
                    del table[now]
            self.events += len(calls)
            if until is not None and self.events - checked >= 64:
                checked = self.events
                if until():
                    break


class Servers:
    """Identical servers with one queue: cores, or the threads that handle messages."""

    __slots__ = ("busy", "_free")

    def __init__(self, count: int):
        self.busy = 0.0                              # seconds of work so far
        self._free = [0.0] * count                   # a heap: when each server is free

    def book(self, now: float, seconds: float) -> float:
        """The time when work requested now will be done."""
        free = self._free
        first = free[0]
        done = (first if first > now else now) + seconds
        self.busy += seconds
        if len(free) == 1:
            free[0] = done
        else:
            heapq.heapreplace(free, done)
        return done

    def utilization(self, seconds: float) -> float:
        """The share of the time that the servers have worked."""
        return self.busy / (seconds * len(self._free)) if seconds else 0.0


class Cores:
    """Cores that the processes of one machine share. A process keeps its core while it has work; without a free core, it waits
    behind those that asked before. Work takes longer while no core is idle, because caches and memory are shared too. These are
    calls instead of bookings: when a process gets a core depends on the others."""

    __slots__ = ("clock", "busy", "_idle", "_ready")

    def __init__(self, clock: Clock, count: int):
        self.clock = clock
        self.busy = 0.0                              # seconds of work so far
        self._idle = count
        self._ready: deque[Process] = deque()

    def wake(self, process: Process) -> None:
        """A process has work."""
        if self._idle:
            self._idle -= 1
            process.next()
        else:
            self._ready.append(process)

    @property
    def crowded(self) -> bool:
        """Whether all cores are in use."""
        return not self._idle

    def leave(self) -> None:
        """A process has no more work."""
        if self._ready:
            self._ready.popleft().next()
        else:
            self._idle += 1


class Process:
    """A process on shared cores: it does one thing at a time, in order, as Python's lock has it."""

    __slots__ = ("busy", "_cores", "_work")

    def __init__(self, cores: Cores):
        self.busy = 0.0
        self._cores = cores
        self._work: deque[tuple[float, float, Callable, tuple]] = deque()

    def work(self, seconds: float, crowded: float, call: Callable, args: tuple) -> None:
        """Works for some seconds, or for `crowded` if no core is idle when it begins, and makes a call."""
        self._work.append((seconds, crowded, call, args))
        if len(self._work) == 1:
            self._cores.wake(self)

    def next(self) -> None:
        """Begins the first piece of work, on a core."""
        alone, crowded, *_ = self._work[0]
        seconds = crowded if self._cores.crowded else alone
        self.busy += seconds
        self._cores.busy += seconds
        self._cores.clock.after(seconds, self._done)

    def _done(self) -> None:
        *_, call, args = self._work[0]
        call(*args)                                  # more work may be added: it has to wait for its turn
        self._work.popleft()
        if self._work:
            self.next()
        else:
            self._cores.leave()


class Pipe:
    """One direction of a link: bytes pass in sequence."""

    __slots__ = ("bandwidth", "busy", "bytes", "_free")

    def __init__(self, bandwidth: float):
        self.bandwidth = bandwidth
        self.busy, self.bytes, self._free = 0.0, 0, 0.0

    def begin(self, now: float) -> float:
        """The time when bytes that arrive now can start to pass."""
        return self._free if self._free > now else now

    def book(self, now: float, size: int) -> float:
        """When the last of some bytes has passed."""
        seconds = size / self.bandwidth
        self._free = done = (self._free if self._free > now else now) + seconds
        self.busy += seconds
        self.bytes += size
        return done

    def passed(self, size: int) -> float:
        """Counts a small message that passes between the chunks of large ones; the seconds that it takes."""
        seconds = size / self.bandwidth
        self.busy += seconds
        self.bytes += size
        return seconds

    def utilization(self, seconds: float) -> float:
        """The share of the time in which bytes passed."""
        return self.busy / seconds if seconds else 0.0
