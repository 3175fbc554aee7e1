"""Divides the cores between concurrent steps.

A kernel uses as many threads as there are cores, and these spin while they wait for each other. Concurrent steps, each on its
caller's thread, would slow each other down: so each of them uses only its share of the cores. A thread returns to all cores
when it has been alone for a while: for some steps, or, if they are long or rare, for some time. Changing the number discards
PyTorch's prepared convolutions, so it is not done from step to step.

At most as many steps as cores compute at once; others queue. Each kernel releases Python's lock, which wakes the threads that
wait for it, mostly in vain, because most kernels are short: queueing avoids this. The wait is short, because a step may take
long, or may itself wait for another one.

Steps that are recorded (step/compile/recorded.py) keep that lock for little of their time, and do not queue.

Beside other processes, a step uses the cores that they leave (kernels/waiting.py). Only the step is limited, and only OpenMP is
told, which discards nothing.

Steps that may wait for others (for elements of a queue, for example) are not counted, because they mostly wait. Their
kernels, too, use the cores that other processes leave.
"""
from __future__ import annotations

import _thread
import collections
import contextlib
import os
import threading
import time

import torch

from penstock._src.kernels import host_threads, waiting

_A_WHILE = 64                # steps, or
_ALONE = 0.1                 # seconds without other steps
_PATIENCE = 0.005            # seconds to queue
_PLACES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Mine(threading.local):
    using = 0                # threads for a kernel called from this thread; 0: as it was
    most = 1                 # steps that ran at once, lately
    seen = 0                 # steps of this thread since so many ran at once
    last = 0.0               # the time of that


_mine = _Mine()
_computing: dict[int, int] = {}          # the steps of all sessions that compute now, with their threads
_line: collections.deque[_thread.LockType] = collections.deque()         # the queue of waiting steps, first in first out
_limited: dict[int, int] = {}            # the steps that use fewer cores because of other processes, with the number of before
_total = 0                               # threads for a kernel when nothing is shared; 0: nothing has been yet


def begin(token: int, in_line: bool = True, waits: bool = False) -> None:
    """Starts a step on this thread. Without `in_line` it does not queue, because it hardly needs Python's lock. One that may
    wait for other steps is not counted."""
    if not waits:
        if in_line and (_line or len(_computing) >= _PLACES):
            _stand_in_line()
        _computing[token] = _thread.get_ident()
    waiting.machine.look()
    if waiting.machine.threads:
        before = host_threads.use_at_most(max(1, waiting.machine.threads // max(1, len(_computing))))
        if before:
            _limited[token] = before
    elif not waits and (_total or len(_computing) > 1):
        _limit(len(_computing))


def end(token: int) -> None:
    """The step is done."""
    counted = _computing.pop(token, None) is not None
    if _limited and token in _limited:
        before = _limited.pop(token)
        host_threads.use_cores(_mine.using or before)
    if counted and _line:
        _call_next()


def _stand_in_line() -> None:
    if _thread.get_ident() in tuple(_computing.values()):        # a step inside a step that is counted already
        return
    turn = _thread.allocate_lock()
    turn.acquire()
    _line.append(turn)
    if len(_computing) < _PLACES:                # a step has just ended and found the queue empty
        _call_next()
    if not turn.acquire(timeout=_PATIENCE):
        with contextlib.suppress(ValueError):    # called in the meantime
            _line.remove(turn)


def _call_next() -> None:
    with contextlib.suppress(IndexError):        # the queue is empty
        _line.popleft().release()


def crowded() -> bool:
    """Whether more than one step computes now."""
    return len(_computing) > 1


def use_threads(count: int) -> None:
    """Sets how many threads a kernel may use when nothing is shared."""
    global _total
    torch.set_num_threads(count)
    _mine.using = count
    if _total:
        _total = count


def _limit(running: int) -> None:
    global _total
    _total = _total or max(torch.get_num_threads(), *_limited.values(), 1)
    mine, now = _mine, time.monotonic()
    mine.seen += 1
    if running >= mine.most or mine.seen > _A_WHILE or now - mine.last > _ALONE:
        mine.most, mine.seen, mine.last = running, 0, now
    wanted = max(1, _total // mine.most)
    if wanted != mine.using:
        torch.set_num_threads(wanted)
        mine.using = wanted
