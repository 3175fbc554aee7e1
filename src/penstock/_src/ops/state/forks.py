"""Variables in a fork of the process. A fork has only the thread that made it: a lock that another thread holds would never be
free there, and the value that it was changing would be half changed. So a fork waits until no update is under way.
"""
from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from typing import Any

_LONGEST = 1.0                       # seconds that a fork waits for all updates; a variable that is locked longer stays locked
_variables: weakref.WeakSet[Any] = weakref.WeakSet()
_here = threading.local()            # `held`: the locks that this thread holds for its fork

watch = _variables.add               # called for every variable


def _locks() -> list[Any]:
    while True:
        try:
            return sorted((v.lock for v in list(_variables)), key=id)        # the order of base/waits.Locks
        except RuntimeError:                         # another thread has made a variable meanwhile
            continue


def _hold() -> None:
    _here.held = held = contextlib.ExitStack()
    end = time.monotonic() + _LONGEST
    for lock in _locks():
        if lock.acquire(timeout=max(0.0, end - time.monotonic())):
            held.callback(lock.release)


def _release() -> None:
    _here.held.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_release)
