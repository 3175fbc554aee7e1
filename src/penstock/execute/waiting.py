"""How the threads of a kernel wait for each other: spinning while the cores are theirs, asleep when others use them too.

To wake a thread takes as long as a small kernel, so threads that have the cores to themselves should spin between kernels. But
a thread that spins for another one, which has no core to run on, loses the whole time until that one's turn comes: steps get
tens of times slower when processes share the cores. libgomp's threads spin GOMP_SPINCOUNT times before they sleep, but
a hundred times only while it manages more threads than there are cores. So the time that this process's threads have waited
for a core is looked at a few times a second; where it is more than a little, a team of threads is kept which does nothing but
be counted.
"""
from __future__ import annotations

import _thread
import ctypes
import functools
import os
from time import monotonic

_BETWEEN_LOOKS = 0.2         # seconds
_ENOUGH = 20_000_000         # nanoseconds of work, to judge by
_SHARED, _ALONE = 0.1, 0.03  # the part of their time that threads wait for a core, when others use them and when nobody does
_CALM_LOOKS = 5              # that have to pass before threads spin again

_looking = _thread.allocate_lock()
_next_look = 0.0
_before = 0, 0               # nanoseconds that threads have run and waited for a core, at the last look
_calm = 0                    # looks since the cores were shared
_asleep: _thread.LockType | None = None      # held as long as the team is to be kept


def look() -> None:
    """Chooses between spinning and sleeping; to be called now and then while kernels run. It is cheap."""
    if monotonic() > _next_look and _looking.acquire(False):
        try:
            _look()
        finally:
            _looking.release()


def _look() -> None:
    global _next_look, _before, _calm
    now = _times()
    ran, waited = now[0] - _before[0], now[1] - _before[1]
    _next_look = monotonic() + _BETWEEN_LOOKS
    if ran + waited < _ENOUGH and ran >= 0 and waited >= 0:
        return
    first, _before = _before == (0, 0), now
    if first or ran < 0 or waited < 0:           # threads have ended, and their times with them
        return
    part = waited / (ran + waited)
    if part > _SHARED:
        _calm = 0
        _sleep_soon()
    elif part < _ALONE:
        _calm += 1
        if _calm >= _CALM_LOOKS:
            _spin()


def _times() -> tuple[int, int]:
    """How long the threads of this process have run, and waited for a core, in nanoseconds."""
    ran = waited = 0
    try:
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/schedstat", "rb") as f:
                on, off, _ = f.read().split()
            ran, waited = ran + int(on), waited + int(off)
    except (OSError, ValueError):                # a thread that has just ended; or no such files, then nothing is ever chosen
        pass
    return ran, waited


@functools.cache
def _libgomp() -> ctypes.CDLL | None:
    """The library whose threads run torch's kernels, where it is that one."""
    try:
        with open("/proc/self/maps") as f:
            paths = {line.split(None, 5)[5].strip() for line in f if "libgomp" in line}
    except OSError:
        return None
    return ctypes.CDLL(paths.pop()) if len(paths) == 1 else None


def _sleep_soon() -> None:
    global _asleep
    gomp = _libgomp()
    if _asleep is not None or gomp is None:
        return
    _asleep = _thread.allocate_lock()
    _asleep.acquire()
    _thread.start_new_thread(_keep_team, (gomp, _asleep))


def _keep_team(gomp: ctypes.CDLL, until: _thread.LockType) -> None:
    """Makes a team that is larger than the number of cores, and keeps it; it ends with its thread."""
    nothing = ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p)           # what each of its threads does: free(NULL)
    gomp.GOMP_parallel(nothing, None, gomp.omp_get_num_procs() + 1, 0)
    until.acquire()


def _spin() -> None:
    global _asleep
    if _asleep is not None:
        _asleep.release()
        _asleep = None


def _after_fork() -> None:
    """In a child, which has none of the threads."""
    global _asleep, _looking, _before
    _asleep, _looking, _before = None, _thread.allocate_lock(), (0, 0)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
