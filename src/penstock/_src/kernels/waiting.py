"""How the threads of a kernel wait for each other: spinning if the cores are free, sleeping if other processes use them.

Waking a thread takes as long as a small kernel, so threads with exclusive cores should spin between kernels. But a thread that
spins for one without a core wastes time until that one is scheduled: steps get tens of times slower when processes share the
cores. libgomp's threads spin GOMP_SPINCOUNT times before they sleep, but only a hundred times while it manages more threads
than there are cores. So the time that this process's threads have waited for a core is measured a few times a second; if it is
too long, an idle team of threads is kept for some seconds, only to be counted.

Threads that sleep are woken for every kernel, and each waits for a core again. If several others wait for each core, short
kernels lose more by that than they gain from a second thread, so they run on one. The number of times that threads have slept
tells how short they are.
"""
from __future__ import annotations

import _thread
import contextlib
import ctypes
import os
from time import monotonic

from penstock._src.kernels.host_threads import libgomp

try:
    import resource
except ImportError:          # not on this system
    resource = None          # type: ignore[assignment]

_BETWEEN_LOOKS = 0.2         # seconds
_ENOUGH = 100_000_000        # nanoseconds of work, to judge by
_SHARED = 0.25               # the part of their time that threads wait for a core, when others use them as much
_CROWDED = 0.6               # the same part, when there are more others than cores
_SLEEPS = 1000               # per second of work, when kernels are short: a thread may keep its core for some milliseconds
_SHORTEST, _LONGEST = 1.0, 16.0              # seconds to sleep soon, before spinning is tried again: twice as long each time


class Load:
    """What is known of the load of the machine: the times of this process's threads at the last measurement, and what follows
    from them."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets everything, as a forked child must, which has none of the threads."""
        self.asleep: _thread.LockType | None = None      # held as long as the team is to be kept
        self.one_thread = False                          # whether cores are shared and kernels are short
        self._measuring = _thread.allocate_lock()
        self._next = 0.0                                 # when to measure again
        self._before: dict[str, tuple[int, int]] = {}    # the times of threads
        self._slept = 0                                  # how often threads had slept
        self._pause = _SHORTEST                          # the next period without spinning
        self._until = 0.0                                # when spinning is tried again

    def look(self) -> None:
        """Chooses between spinning and sleeping; to be called now and then while kernels run. It is cheap."""
        if monotonic() > self._next and self._measuring.acquire(False):
            try:
                self._measure()
            finally:
                self._measuring.release()

    def _measure(self) -> None:
        """A woken thread also waits briefly for its core, so only times of spinning threads tell whether cores are shared."""
        times, now = _times(), monotonic()
        self._next = now + _BETWEEN_LOOKS
        both = [(*self._before[thread], *times[thread]) for thread in self._before if thread in times]
        waited = sum(off - off_before for _, off_before, _, off in both)
        ran = sum(on - on_before for on_before, _, on, _ in both)
        if self.asleep is not None and now > self._until:
            self.spin()
        elif both and ran + waited < _ENOUGH:
            return
        elif self.asleep is not None:
            if not self.one_thread and waited > _CROWDED * (ran + waited):
                self.one_thread = (_sleeps() - self._slept) * 1_000_000_000 > _SLEEPS * ran
        elif ran and waited > _SHARED * (ran + waited):
            self.sleep_soon()
            self._until = now + self._pause
            self._pause = min(2 * self._pause, _LONGEST)
        else:
            self._pause = _SHORTEST
        self._before, self._slept = times, _sleeps()

    def sleep_soon(self) -> None:
        """Makes threads sleep soon after a kernel."""
        gomp = libgomp()
        if self.asleep is not None or gomp is None:
            return
        self.asleep = _thread.allocate_lock()
        self.asleep.acquire()
        _thread.start_new_thread(_keep_team, (gomp, self.asleep))

    def spin(self) -> None:
        """Makes threads spin between kernels, as many as there are cores."""
        self.one_thread = False
        if self.asleep is not None:
            self.asleep.release()
            self.asleep = None


machine = Load()


def _sleeps() -> int:
    """How often threads of this process have slept."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw if resource is not None else 0


def _times() -> dict[str, tuple[int, int]]:
    """How long each thread of this process has run, and has waited for a core, in nanoseconds; empty if the system does not
    report it."""
    times = {}
    with contextlib.suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError, ValueError), open(f"/proc/self/task/{thread}/schedstat", "rb") as f:
                on, off, _ = f.read().split()
                times[thread] = int(on), int(off)
    return times


def _keep_team(gomp: ctypes.CDLL, until: _thread.LockType) -> None:
    """Makes a team that is larger than the number of cores, and keeps it; it ends with its thread."""
    nothing = ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p)           # each of its threads calls free(NULL)
    gomp.GOMP_parallel(nothing, None, gomp.omp_get_num_procs() + 1, 0)
    until.acquire()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=machine.reset)
