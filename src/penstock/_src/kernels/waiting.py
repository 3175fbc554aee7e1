"""How many threads a kernel gets, and how they wait for each other, by what other processes leave of the cores.

The threads of a kernel do equal parts of its work, and wait for the last of them. Beside a process that uses one of two cores,
the thread on that core has half of its time, so two threads are no faster than one. They are several times slower, because a
step has hundreds of kernels, and a thread that is preempted keeps the others waiting for a time slice. So a step has as many
threads as there are cores that others do not use. A few times a second this is measured: how busy the cores are, how long this
process's threads have run, and how long they have waited for a core. The number of running threads of the machine is the first
guess. Programs that compute in short bursts, and trials, are measured over shorter times, in which the system's clock of busy
cores is too coarse: they show only that others are in the way.

Others may yield to this process: those of a lower priority (nice), or of a control group of less weight. Only a trial shows it,
so now and then, more rarely each time in vain, a step has all threads for a moment. If even its only threads have to wait,
others do not yield.

Waking a thread takes as long as a small kernel, so threads with exclusive cores should spin between kernels: libgomp's spin
GOMP_SPINCOUNT times before they sleep, but only a hundred times while it manages more threads than there are cores. While
several threads share the machine with others, an idle team of threads is kept, only to be counted.
"""
from __future__ import annotations

import _thread
import contextlib
import ctypes
import math
import os
from time import monotonic, process_time
from typing import NamedTuple

from penstock._src.base.modes import process
from penstock._src.kernels.host_threads import libgomp

_BETWEEN_LOOKS = 0.2         # seconds
_SOON = 0.05                 # after a pause, and during a trial
_SHORT = 0.15                # seconds in which it is not known how busy the cores were
_COST = 0.01                 # the part of the time that measuring may take
_ACTIVE = 0.5                # cores that this process uses, or waits for, when it computes
_IN_THE_WAY = 0.1            # cores that it waits for, when others are in its way
_SOON_IN_THE_WAY = 0.25      # within a short time
_LONG_WAIT = 0.03            # seconds for which a process that mostly rests has waited, when others are in its way
_CALM = 1.0                  # seconds without others until it has all threads again
_GAIN = 0.7                  # of the last of n threads, in n-ths of the speed of one: kernels do not scale perfectly
_ALWAYS = 0.15               # cores that are used now and then on an idle machine
_MARGIN = 0.1                # cores that must be free in addition before a thread returns
_SHORTEST, _LONGEST = 0.25, 4.0              # seconds until a thread returns that was of no use: twice as long each time
_FIRST_TRIAL, _RAREST_TRIAL = 4.0, 64.0      # seconds until all threads are tried beside others: twice as long each time


class Times(NamedTuple):
    """Seconds since some beginning."""

    now: float
    busy: float                                  # of all processes, on the cores that this one may use
    own: float                                   # of this process
    waited: dict[str, float]                     # for a core, of each thread of this process
    running: int                                 # threads of others that run, or wait for a core, now


class Load:
    """What is known of the load of the machine: the times of the last measurement, and what follows from them."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets everything, as a forked child must, which has none of the threads."""
        self.asleep: _thread.LockType | None = None      # held as long as the team is to be kept
        self.cores, self._usable = _cores()
        self.threads = self._without_others()            # for a kernel; 0: as many as otherwise
        self._measuring = _thread.allocate_lock()
        self._next = self._earliest = 0.0                # when to measure again; before which time not, even after a pause
        self._last = 0.0                                 # when it was last called
        self._before: Times | None = None
        self._raised = -math.inf                         # when a thread has returned
        self._pause = 0.0                                # before another one returns
        self._until = 0.0                                # the end of it
        self._trying = self._settling = False            # whether all threads are on trial beside others, and have just begun
        self._between_trials = _FIRST_TRIAL
        self._trial = math.inf                           # when to try
        self._calm = math.inf                            # since when this process mostly rests, and others do, too

    def _without_others(self) -> int:
        return self._usable if self._usable < self.cores else 0

    def look(self) -> None:
        """Measures, if the last time is a while ago; to be called now and then while kernels run. It is cheap."""
        now = monotonic()
        paused, self._last = now - self._last > _SOON, now           # or the step took long
        if now > (self._earliest if paused else self._next) and self._measuring.acquire(False):
            try:
                before, self._before = self._before, _times()
                cost = (monotonic() - now) / _COST
                if before is not None and self._before is not None:
                    paused |= self._choose(before, self._before)
                elif self._before is not None and not process.seeds_required:
                    paused = True
                    self._use(max(1, min(self._usable, self.cores - self._before.running)), now)
                self._earliest = monotonic() + cost
                self._next = max(self._earliest, now + (_SOON if paused or self._trying else _BETWEEN_LOOKS))
            finally:
                self._measuring.release()

    def _choose(self, before: Times, after: Times) -> bool:
        """Chooses the number of threads from what has happened between two times; whether that was too short a time."""
        passed, now, current = after.now - before.now, after.now, self.threads or self._usable
        own = (after.own - before.own) / passed
        others = max(0.0, (after.busy - before.busy) / passed - own)
        waited = sum(time - before.waited[t] for t, time in after.waited.items() if t in before.waited) / passed
        if process.seeds_required:                       # sums in another order round differently
            self._use(self._usable, now)
        elif own + waited < _ACTIVE:                     # this process has not computed all the time
            self._after_rest(before.now, now, own, others, waited)
        elif passed > _SHORT:
            self._after_work(now, own, others, waited, current)
        elif self._settling:
            self._settling = False
        else:
            fewer = self._chosen(own, min(self.cores - own, waited), waited, current)
            if waited < _SOON_IN_THE_WAY or fewer >= current:
                self._before = before
                return True
            self._use(fewer, now)
        return False

    def _after_work(self, now: float, own: float, others: float, waited: float, current: int) -> None:
        """Chooses the number of threads after a time in which this process has computed."""
        self._calm = math.inf
        chosen = self._chosen(own, others, waited, current)
        if chosen < self._usable and chosen == current and now >= self._trial and waited < _IN_THE_WAY:
            self._settling, self._trying, self.threads = True, True, self._usable
        elif self._settling:                             # the system has moved threads to other cores
            self._settling = False
        else:
            self._use(chosen, now)

    def _after_rest(self, since: float, now: float, own: float, others: float, waited: float) -> None:
        """The same after a time in which it has mostly rested: threads end that waited longer than they ran, and all return
        when nothing else has run for a while."""
        if waited > own and waited * (now - since) > _LONG_WAIT:
            self._use(max(1, (self.threads or self._usable) // 2), now)
        self._calm = min(self._calm, since) if others + waited < _ALWAYS else math.inf
        if self._calm < now - _CALM:
            self._use(self._usable, now)

    def _chosen(self, own: float, others: float, waited: float, current: int) -> int:
        """The number of threads, from the cores that this process and others used, and that its threads waited for, while
        kernels had `current` threads.

        While others are in the way, they would use more, at most what this process has waited for. But a process that is
        in the way of others, too, keeps what it had, so that two processes of many threads each take half of the cores.
        """
        wanted = others + min(waited, others)
        spare = max(_GAIN / self.cores, _ALWAYS)
        fitting = self.cores - math.ceil(max(0.0, wanted - spare))
        if waited >= _IN_THE_WAY and fitting < current:
            return max(1, min(current, max(fitting, int(own + 0.25))))
        returning = min(self._usable, self.cores - math.ceil(max(0.0, wanted - spare + _MARGIN)))
        return max(current, returning)

    def _use(self, count: int, now: float) -> None:
        current = self.threads or self._usable
        tried, self._trying = self._trying, False
        if count < current:
            self._between_trials = min(2 * self._between_trials, _RAREST_TRIAL) if tried else _FIRST_TRIAL
            self._trial = now + self._between_trials
            in_vain = now - self._raised < max(1.0, self._pause)
            self._pause = min(max(_SHORTEST, 2 * self._pause), _LONGEST) if in_vain else 0.0
            self._until = now + self._pause
        elif count > current:
            if now < self._until:
                return
            self._raised = now
        self.threads = count if count < self.cores else 0
        if 1 < self.threads:
            self.sleep_soon()
        else:
            self.spin()

    def sleep_soon(self) -> None:
        """Makes threads sleep soon after a kernel."""
        gomp = libgomp()
        if self.asleep is not None or gomp is None:
            return
        self.asleep = _thread.allocate_lock()
        self.asleep.acquire()
        _thread.start_new_thread(_keep_team, (gomp, self.asleep))

    def spin(self) -> None:
        """Makes threads spin between kernels."""
        if self.asleep is not None:
            self.asleep.release()
            self.asleep = None


def _cores() -> tuple[int, int]:
    """The number of cores that this process may run on, and of those that its control group may use at a time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores, min(cores, _quota() or cores)


def _quota() -> int:
    """The whole cores that a container may use; 0 if it has no limit."""
    for files in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
            words = " ".join(_read(f"/sys/fs/cgroup/{name}") for name in files).split()
            return max(0, math.ceil(int(words[0]) / int(words[1])))      # "max" or -1: no limit
    return 0


def _read(path: str) -> str:
    with open(path, encoding="ascii") as f:
        return f.read()


def _times() -> Times | None:
    """The times now; None if the system does not report them."""
    try:
        mine = {f"cpu{core}" for core in os.sched_getaffinity(0)}
        ticks = running = 0
        for line in _read("/proc/stat").splitlines():
            name, *fields = line.split()
            if name in mine:
                ticks += sum(map(int, fields[:8])) - int(fields[3]) - int(fields[4])         # without idle, iowait
            elif name == "procs_running" and len(mine) == os.cpu_count():
                running = int(fields[0]) - 1             # without this thread
        return Times(monotonic(), ticks / os.sysconf("SC_CLK_TCK"), process_time(), _waited(), running)
    except (AttributeError, OSError, ValueError, IndexError):
        return None


def _waited() -> dict[str, float]:
    """How long each thread of this process has waited for a core."""
    times = {}
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError, ValueError):
            times[thread] = int(_read(f"/proc/self/task/{thread}/schedstat").split()[1]) / 1e9
    return times


def _keep_team(gomp: ctypes.CDLL, until: _thread.LockType) -> None:
    """Makes a team that is larger than the number of cores, and keeps it; it ends with its thread."""
    nothing = ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p)           # each of its threads calls free(NULL)
    gomp.GOMP_parallel(nothing, None, gomp.omp_get_num_procs() + 1, 0)
    until.acquire()


machine = Load()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=machine.reset)
