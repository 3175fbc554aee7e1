"""Staggered steps: parameter-server workers that do not pull and push all at once.

Workers that begin together share the network of the servers, end together, and begin together again. One that knows when the
others began their last steps can move away from them: if it has less than its share of time behind the worker before it, and
more before the next one, it waits a little, towards the middle between both, until the steps of all are spread over the time
that a step takes. No worker needs the step times of the others, and a worker that has its place no longer waits.

`StaggerHook` does it in monitored sessions: a small variable beside the global step has the last start of every worker, and a
step that runs anyway writes and reads it.
"""
from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from penstock._src.base import clock
from penstock._src.base.api import export
from penstock._src.training.train.hooks.base import SessionRunArgs, SessionRunHook
from penstock.compat import v1 as tf

_AT_ONCE = 0.1                  # of a step: how long a worker waits at once; it gets to its place in several steps
_IN_ALL, _AGAIN = 1.0, 0.005    # of a step: what it may wait in all, and what it may wait more with each step
_TOGETHER = 0.02                # of a step: starts closer than that count as simultaneous
_ENOUGH = 0.5                   # of its share of a step: a worker that far behind the previous one need not move


class Stagger:
    """Computes how long a worker should wait before a step, so that workers do not pull and push together.

    >>> stagger = Stagger(worker=1, workers=4)
    >>> time.sleep(stagger.delay(clock.steady(), begun))          # begun: when each worker began its last step
    """

    def __init__(self, worker: int, workers: int, smooth: float = 0.2):
        if not 0 <= worker < workers:
            raise ValueError(f"worker must be in [0, {workers}), got {worker}.")
        self._worker, self._workers, self._smooth = worker, workers, smooth
        self._last: float | None = None
        self._takes, self._may_wait = 0.0, _IN_ALL

    def delay(self, now: float, begun: Sequence[float]) -> float:
        """How long to wait at a time, in seconds since the epoch; `begun` by worker, 0 for one that has not begun."""
        if self._last is not None:
            took = now - self._last
            self._takes = took if not self._takes else (1 - self._smooth) * self._takes + self._smooth * took
        wait = self._places(now, begun) * self._takes if self._takes else 0.0
        if self._takes:
            self._may_wait = min(_IN_ALL, self._may_wait - wait / self._takes + _AGAIN)
        self._last = now + wait
        return wait

    def _places(self, now: float, begun: Sequence[float]) -> float:
        """The part of a step by which to move."""
        behind, before = 1.0, 1.0               # the parts of a step since the last one began, and until the next one does
        for other, at in enumerate(begun):
            if other == self._worker or not at:
                continue
            since = (now - at) / self._takes % 1.0
            if min(since, 1.0 - since) < _TOGETHER:
                since = 0.0 if other < self._worker else 1.0            # the later ones move
            behind, before = min(behind, since), min(before, 1.0 - since)
        if behind >= _ENOUGH / self._workers or before <= behind:
            return 0.0
        return max(0.0, min((before - behind) / 2, _AT_ONCE, self._may_wait))


@export("distribute.experimental.StaggerHook")
class StaggerHook(SessionRunHook):
    """Lets a worker of a monitored session wait for its place before a step. The clocks of workers should agree to some
    milliseconds.

    >>> hooks = [tf.distribute.experimental.StaggerHook(worker=task_index, workers=number_of_workers)]
    """

    def __init__(self, worker: int, workers: int):
        self._stagger, self._worker, self._begun = Stagger(worker, workers), worker, [0.0] * workers

    def begin(self) -> None:
        """Adds the variable to the graph, on the task of the global step or of another variable."""
        shared = [v for v in [tf.train.get_global_step(), *tf.global_variables()] if v is not None]
        with tf.device(shared[0].device if shared else None):
            board = tf.get_variable("stagger/begun", [len(self._begun)], tf.float64, tf.zeros_initializer(), trainable=False,
                                    use_resource=True, collections=[tf.GraphKeys.LOCAL_VARIABLES])
            self._now = tf.placeholder(tf.float64, [], "stagger/now")
            with tf.control_dependencies([tf.scatter_update(board, self._worker, self._now)]):
                self._all = board.read_value()

    def before_run(self, run_context: Any) -> SessionRunArgs:
        """Waits."""
        now = clock.steady()
        wait = self._stagger.delay(now, self._begun)
        if wait > 0:
            time.sleep(wait)
        return SessionRunArgs(self._all, {self._now: now + wait})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Stores the start times of the others."""
        self._begun = run_values.results.tolist()
