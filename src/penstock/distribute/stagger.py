"""Staggered steps: parameter-server workers that do not pull and push all at once.

Each worker measures how long its steps take, and begins them at its own part of that time; the clock, which all share, needs no
messages between them. `StaggerHook` does it in monitored sessions.
"""
from __future__ import annotations

import time
from typing import Any

from penstock.api import export
from penstock.train.hooks.base import SessionRunHook

_AT_MOST = 0.1                  # of a step: how long a worker waits at once; it gets to its turn in several steps


class Stagger:
    """Spreads the steps of workers over time, so that they do not pull and push together.

    Worker i of n begins its steps at i/n of a step's duration, which it measures; `wait()` stands before every step, and sleeps
    where the worker has drifted towards another one.

    >>> stagger = Stagger(worker=1, workers=4)
    >>> while not sess.should_stop():
    ...     stagger.wait()
    ...     sess.run(train_op)
    """

    def __init__(self, worker: int, workers: int, smooth: float = 0.2):
        if not 0 <= worker < workers:
            raise ValueError(f"There is no worker {worker} of {workers}.")
        self._part, self._slack, self._smooth = worker / workers, 0.5 / workers, smooth
        self._last: float | None = None
        self._takes = 0.0

    def delay(self, now: float) -> float:
        """How long to wait at a time, in seconds since the epoch, which all workers share."""
        if self._last is not None:
            took = now - self._last
            self._takes = took if not self._takes else (1 - self._smooth) * self._takes + self._smooth * took
        if not self._takes:
            self._last = now
            return 0.0
        behind = (now - self._part * self._takes) % self._takes             # since this worker's turn
        wait = 0.0 if behind < self._takes * self._slack else min(self._takes - behind, self._takes * _AT_MOST)
        self._last = now + wait
        return wait

    def wait(self) -> None:
        """Sleeps until this worker's turn."""
        seconds = self.delay(time.time())
        if seconds > 0:
            time.sleep(seconds)


@export("distribute.experimental.StaggerHook")
class StaggerHook(SessionRunHook):
    """Lets a worker of a monitored session wait for its turn before each step.

    >>> hooks = [tf.distribute.experimental.StaggerHook(worker=task_index, workers=number_of_workers)]
    """

    def __init__(self, worker: int, workers: int):
        self._stagger = Stagger(worker, workers)

    def before_run(self, run_context: Any) -> None:
        """Waits."""
        self._stagger.wait()
