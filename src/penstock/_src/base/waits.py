"""Waits with diagnostics: the helper for every wait for another task, thread or program.

A wait calls `patience(left)` for the length of its next slice. One that ends soon costs two clock readings; one that has lasted
for `PATIENCE` seconds logs, once, what it waits for and which task should provide it. The same text is not logged again for
some minutes: a program whose steps take long logs it once.

    waited = Wait(lambda: "the gradients of /job:worker/task:1")
    while not there.wait(waited.patience(limit.left())):
        pass
"""
from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

PATIENCE = 10.0                     # seconds before the report
_AGAIN = 300.0                      # seconds before the same is logged again
_MOST = 1000                        # texts that are remembered
_log = logging.getLogger("penstock")
_said: dict[str, float] = {}


class Spent(threading.local):
    """What this thread has spent its time on, in seconds: waiting for others in steps, and moving bytes to and from other
    tasks. The counters only grow: whoever measures a step takes the differences. A wait that reads messages moves bytes."""

    def __init__(self) -> None:
        self.waited = 0.0
        self.moved = 0.0
        self.inside = 0                              # steps of this process that run on this thread, one inside of another


spent = Spent()


class Account:
    """Steps, and the seconds that they have computed, waited for others, and moved bytes."""

    def __init__(self) -> None:
        self.steps = 0
        self.seconds = [0.0, 0.0, 0.0]

    def add(self, began: float, waited: float, moved: float) -> None:
        """Adds the time of a step on this thread, from what `began` and the thread's counters were before it."""
        waited, moved = spent.waited - waited, spent.moved - moved
        computed = max(0.0, time.monotonic() - began - waited - moved)
        for i, seconds in enumerate((computed, waited, moved)):
            self.seconds[i] += seconds


class Locks:
    """The locks of several variables, always acquired in one order, so that two threads cannot wait for each other."""

    def __init__(self, variables: Iterable[Any]):
        self._locks = [lock for _, lock in sorted({id(v.lock): v.lock for v in variables}.items())]

    def __enter__(self) -> None:
        held = []
        try:
            for lock in self._locks:
                lock.acquire()
                held.append(lock)
        except BaseException:                        # an interrupt
            for lock in held:
                lock.release()
            raise

    def __exit__(self, *error: object) -> None:
        for lock in self._locks:
            lock.release()


class Wait:
    """One wait of one thread. `about` returns the text of what it waits for, and what should provide it."""

    __slots__ = ("about", "since", "reported")

    def __init__(self, about: Callable[[], str]):
        self.about, self.since, self.reported = about, time.monotonic(), False

    def patience(self, left: float | None = None) -> float | None:
        """How long to wait before the next check, when `left` seconds (or None: any number) are left."""
        if self.reported:
            return left
        waited = time.monotonic() - self.since
        if waited >= PATIENCE:
            self.report()
            if self.reported:
                return left
        pause = PATIENCE - waited if waited < PATIENCE else PATIENCE / 4
        return pause if left is None else min(left, pause)

    def report(self) -> None:
        """Logs what it waits for."""
        self.reported = True
        say(self.text())

    def text(self) -> str:
        """The text of a report."""
        return f"waits for {self.about()}"


def say(text: str) -> None:
    """Logs a wait, unless the same one was logged a short time ago."""
    now = time.monotonic()
    if now - _said.get(text, float("-inf")) < _AGAIN:
        return
    if len(_said) >= _MOST:
        _said.clear()
    _said[text] = now
    _log.warning("%s: thread %r has waited for %d s.", text[0].upper() + text[1:], threading.current_thread().name, PATIENCE)


def waited_for(there: threading.Event, about: Callable[[], str], seconds: float | None) -> bool:
    """Waits for an event, and reports; False when it was not set within `seconds` (None: any number)."""
    deadline = None if seconds is None else time.monotonic() + seconds
    waited = Wait(about)
    while not there.wait(waited.patience(None if deadline is None else max(0.0, deadline - time.monotonic()))):
        if deadline is not None and time.monotonic() >= deadline:
            return False
    return True


def joined(thread: threading.Thread, about: Callable[[], str]) -> None:
    """Waits for the end of a thread, and reports."""
    waited = Wait(about)
    while thread.is_alive():
        thread.join(waited.patience())


def result_of(future: Any, about: Callable[[], str]) -> Any:
    """The result of a future, when it is there; reports."""
    waited = Wait(about)
    while True:
        try:
            return future.result(waited.patience())
        except TimeoutError:
            if future.done():                        # the error is its own
                raise


def wait_for(condition: threading.Condition, ready: Callable[[], object], about: Callable[[], str],
             left: Callable[[], float | None] = lambda: None) -> bool:
    """Waits, holding `condition`, until ready(), and reports; False when `left()` seconds are 0 or fewer before that."""
    waited = None
    while not ready():
        rest = left()
        if rest is not None and rest <= 0:
            return False
        waited = waited or Wait(about)
        condition.wait(waited.patience(rest))
    return True
