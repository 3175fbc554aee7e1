"""Discrete events: a clock with a heap of calls, and first-come, first-served resources.

A resource is *booked*: the caller receives the time when its work will be done, and schedules the next events for then. Because
calls are created in the order of simulated time, bookings are too, and a queue needs no list of waiters.
"""
from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from penstock._src.simulate.memory import Memory, Touch


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


class Core:
    """A core that some processes of one machine have. They get it for one turn after the other, first come, first served. These
    are calls instead of bookings: when a process gets the core depends on the others."""

    __slots__ = ("busy", "worked", "_ready")

    def __init__(self) -> None:
        self.busy = False
        self.worked = 0.0                            # seconds of work so far, without copies
        self._ready: deque[Process] = deque()

    def wake(self, process: Process) -> None:
        """A thread of a process has work: a turn."""
        if self.busy:
            self._ready.append(process)
        else:
            self.busy = True
            process.begin(True)

    def leave(self) -> None:
        """A turn has ended."""
        if self._ready:
            self._ready.popleft().begin(False)
        else:
            self.busy = False


class Cores:
    """The cores of one machine, to which processes are pinned, and the memory that they share. Everything but copies takes
    longer or shorter at random: `jitter` is the standard deviation of the logarithm."""

    __slots__ = ("clock", "memory", "busy", "running", "jitter", "draw", "_all")

    def __init__(self, clock: Clock, count: int, memory: Memory, jitter: float = 0.0):
        self.clock, self.memory, self.jitter = clock, memory, jitter
        self.busy = 0.0                              # seconds of work so far
        self.running: Process | None = None          # what follows from its work is being added
        self.draw = random.Random(0)
        self._all = [Core() for _ in range(count)]

    def core(self, number: int) -> Core:
        """The core of the process of that number."""
        return self._all[number % len(self._all)]


class Process:
    """A process on a core: it does one thing at a time, as Python's lock has it. Each message, and whatever follows from it
    until something has to be waited for, is a turn of the thread that receives it. Messages that come before the thread waits
    again belong to the same turn.

    A turn that follows another one of the same process begins at once: the system only changes to another thread. When the
    process gets its core after others, that costs `switch` seconds more, and what they have replaced in the caches `cold` times
    the time for which they have worked there, on average: it depends on the addresses. A turn for which an idle core has to be
    woken costs `idle` seconds more. The time of copies, and how much longer other work takes where values have replaced what it
    uses in the caches, are those of the memory."""

    __slots__ = ("busy", "others", "switches", "wakes", "interrupts", "touched", "warm", "_cores", "_core", "_cold", "_switch",
                 "_idle", "_left", "_turns", "_now", "_thread")

    def __init__(self, cores: Cores, number: int, cold: float = 0.0, idle: float = 0.0, switch: float = 0.0):
        self.busy = 0.0
        self.switches = self.wakes = 0               # what its turns have found, in sum
        self.interrupts = 0                          # that it has sent to idle cores
        self.others = 0.0                            # seconds of work of other processes between its turns
        self.touched = 0                             # bytes that it has read and written
        self.warm = 0.0                              # seconds of work that values in the caches can make longer
        self._cores, self._core = cores, cores.core(number)
        self._cold, self._switch, self._idle = cold, switch, idle
        self._left = 0.0                             # what had been worked there, when its last turn ended
        self._turns: dict[Hashable, deque[tuple]] = {}       # the work of threads that wait for the core, in their order
        self._now: deque[tuple] | None = None        # the work of the turn
        self._thread: Hashable = None                # whose turn it is

    def work(self, thread: Hashable, kind: str, seconds: float, touched: Sequence[Touch], call: Callable, args: tuple) -> None:
        """A thread works for some seconds and then touches values; then it makes a call. What that adds belongs to the same
        turn."""
        piece = kind, seconds, touched, call, args
        if self._now is not None and (self._cores.running is self or thread == self._thread):
            self._now.append(piece)
        elif thread in self._turns:
            self._turns[thread].append(piece)
        else:
            self._turns[thread] = deque([piece])
            self._core.wake(self)

    def wakes_core_of(self, other: Process) -> bool:
        """Whether the core of another process is idle, so that a message has to interrupt it."""
        idle = not other._core.busy
        self.interrupts += idle
        return idle

    def begin(self, woken: bool) -> None:
        """Gets its core, which was idle (`woken`) or not."""
        self._thread = next(iter(self._turns))
        self._now = self._turns.pop(self._thread)
        others = self._core.worked - self._left
        cold = others * self._cold
        self.others += others
        cold = self._cores.draw.expovariate(1 / cold) if cold and self._cores.jitter else cold
        if others:
            cold += self._switch
            self.switches += 1
        self.wakes += woken
        self._next(cold + self._idle if woken else cold)

    def _next(self, cold: float = 0.0) -> None:
        """Begins the next piece of work."""
        cores, memory = self._cores, self._cores.memory
        kind, seconds, touched, *_ = self._now[0]    # type: ignore[index]
        self.warm += seconds
        seconds, copies = seconds * (1.0 + memory.cold((self, kind))) + cold, 0.0
        for what, size in touched:
            copies += memory.touch(what, size)
            self.touched += size
        if cores.jitter:
            seconds *= cores.draw.lognormvariate(-cores.jitter ** 2 / 2, cores.jitter)       # its mean is 1
        self._core.worked += seconds
        seconds += copies
        self.busy += seconds
        cores.busy += seconds
        cores.clock.after(seconds, self._done)

    def _done(self) -> None:
        now = self._now
        *_, call, args = now.popleft()               # type: ignore[union-attr]
        self._cores.running = self
        call(*args)
        self._cores.running = None
        if now:
            self._next()
        else:
            self._now = self._thread = None
            self._left = self._core.worked
            self._core.leave()


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
