"""Cores for steps that run at once.

A kernel spreads its work over as many threads as there are cores, and these spin while they wait for each other. Steps that
run at the same time, each on its caller's thread, would get in each other's way: so each of them uses its share of the cores
only. A thread goes back to all of them when it has been alone for a while; changing the number costs PyTorch what it has
prepared for convolutions, so it is not done from step to step.

Steps that may wait for others (for elements of a queue, say) are not counted: mostly, they wait.
"""
from __future__ import annotations

import threading

import torch

from penstock.execute import waiting

_A_WHILE = 64                # steps


class _Mine(threading.local):
    using = 0                # threads for a kernel called from this thread; 0: as it was
    most = 1                 # steps that ran at once, lately
    seen = 0                 # steps of this thread since that was looked at


_mine = _Mine()
_computing: dict[int, None] = {}         # the steps of all sessions that compute now
_total = 0                               # threads for a kernel when nothing is shared; 0: nothing has been yet


def begin(token: int) -> None:
    """A step that computes begins on this thread."""
    _computing[token] = None
    waiting.look()
    if _total or len(_computing) > 1:
        _limit(len(_computing))


def end(token: int) -> None:
    """The step is done."""
    del _computing[token]


def use_threads(count: int) -> None:
    """Sets how many threads a kernel may use when nothing is shared."""
    global _total
    torch.set_num_threads(count)
    _mine.using = count
    if _total:
        _total = count


def _limit(running: int) -> None:
    global _total
    _total = _total or torch.get_num_threads()
    mine = _mine
    mine.seen += 1
    if running > mine.most or mine.seen > _A_WHILE:
        mine.most, mine.seen = running, 0
    elif running == mine.most > 1:
        mine.seen = 0
    wanted = max(1, _total // mine.most)
    if wanted != mine.using:
        torch.set_num_threads(wanted)
        mine.using = wanted
