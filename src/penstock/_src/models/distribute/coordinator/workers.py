"""A thread for each worker: it takes functions from the queue and runs them there.

When the worker is lost, its function goes back to the queue, and the thread waits until the worker answers again: then there
is a new channel to it, and its resources (datasets) are recreated on their next use. When a parameter server is lost,
or comes back without its variables, nothing can continue, and every later call raises that error.
"""
from __future__ import annotations

import threading
import time
from typing import Any

from penstock._src.base import errors, tf_logging
from penstock._src.base.service import supervise
from penstock._src.cluster.peers import LOST, task_name
from penstock._src.models.distribute.connect import Connection
from penstock._src.models.distribute.coordinator.closures import Closure, ClosureQueue

_LOSS = (errors.UnavailableError, errors.AbortedError)      # the errors of a lost task
_STOPS = (*_LOSS, errors.CancelledError)                    # and the message of one that ends in order
_TRIES = 3                          # of a function that fails like this, though no task is lost
_SOON = 2.0                         # seconds in which the loss of a task is known to all
_AGAIN = 0.5                        # seconds between two attempts to reach a worker
_LOOK = 5.0                         # seconds between two checks of the parameter servers while there are functions
_SAY = 30.0                         # seconds after which a missing worker is logged


class ParameterServers:
    """The incarnations of the parameter servers that have the variables."""

    def __init__(self, connection: Connection, count: int):
        self._connection = connection
        self._lives = {task: connection.incarnation(task, LOST) for task in (task_name("ps", i) for i in range(count))}
        self._lock = threading.Lock()
        self._said: errors.UnavailableError | None = None

    def error(self) -> errors.UnavailableError | None:
        """The error if one is lost; None otherwise."""
        with self._lock:
            self._said = self._said or self._looked()
            return self._said

    def _looked(self) -> errors.UnavailableError | None:
        for task, life in self._lives.items():
            try:
                now = self._connection.incarnation(task, LOST)
            except errors.OpError as e:
                return self._lost(f"{task} is lost ({e.message})")
            if now != life:
                return self._lost(f"{task} was restarted")
        return None

    def watch(self, queue: ClosureQueue, ended: threading.Event) -> None:
        """Checks them while functions are pending: opening a channel to a server that was just lost takes long."""
        while not ended.wait(_LOOK):
            error = self.error() if queue.pending else None
            if error is not None:
                queue.fail_all(error)
                return

    @staticmethod
    def _lost(what: str) -> errors.UnavailableError:
        return errors.UnavailableError(
            None, None, f"A parameter server, {what}, and the variables that were on it. A ClusterCoordinator cannot go on "
            "without them: start the program again, and restore the variables from the last checkpoint.")


class Worker:
    """One worker, as the coordinator sees it."""

    def __init__(self, index: int, connection: Connection, queue: ClosureQueue, servers: ParameterServers):
        self.index, self.task = index, task_name("worker", index)
        self._connection, self._queue, self._servers = connection, queue, servers
        self._ended = threading.Event()
        self._channel: Any = None
        self._thread = supervise(f"penstock coordinator {self.task}", self._work, self._ended)

    def _work(self) -> None:
        while not self._ended.is_set():
            if self._channel is None and not self._connect():
                return
            closure = self._queue.take(self.task, lambda: not self._ended.is_set())
            if closure is not None:
                self._run(closure)
                del closure                          # with what it holds, while there is no next one

    def _connect(self) -> bool:
        """Waits until the worker is available; False if it is no longer needed."""
        began, said = time.monotonic(), False
        while not self._ended.is_set():
            try:
                self._channel = self._connection.worker(self.task, fresh=True)
                return True
            except errors.OpError as e:
                if self._lost_servers():
                    return False
                if not said and time.monotonic() - began > _SAY:
                    said = True
                    tf_logging.warning("%s has been unavailable for %d seconds: %s", self.task, _SAY, e.message)
            self._ended.wait(_AGAIN)
        return False

    def _lost_servers(self) -> bool:
        """Whether a parameter server is lost, which ends everything."""
        if self._ended.is_set():
            return True
        error = self._servers.error()
        if error is not None:
            self._ended.set()
            self._queue.fail_all(error)
        return error is not None

    def _run(self, closure: Closure) -> None:
        try:
            result = closure.run(self.index, self.task)
        except errors.OpError as e:
            self._failed(closure, e)
        except BaseException as e:
            self._queue.fail(closure, e)
        else:
            self._queue.finish(closure, result)

    def _failed(self, closure: Closure, error: errors.OpError) -> None:
        """Determines whether the function failed, or which task was lost."""
        lost = self._lost(_SOON if isinstance(error, _STOPS) and not self._queue.failed else 0.0)
        if not lost and not isinstance(error, _LOSS):
            self._queue.fail(closure, error)
            return
        self._channel = None
        if self._lost_servers():
            self._queue.give_back(closure)
            return
        closure.tries += not lost
        if closure.tries >= _TRIES:
            self._queue.fail(closure, error)
            return
        tf_logging.info("%s was lost while it ran %s, which is rescheduled on another worker: %s", self.task, closure.name,
                        error.message)
        self._queue.give_back(closure)

    def _lost(self, seconds: float) -> list[str]:
        """The tasks that are lost, or found to be in so many seconds: others may have noticed first."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                found = self._channel.lost()
            except errors.OpError:
                found = [self.task]                  # the channel has ended, and all that ran in it
            if found or time.monotonic() >= deadline or self._ended.wait(0.05):
                return found

    def cancel(self, why: str) -> None:
        """Cancels the running steps on the worker."""
        channel = self._channel
        if channel is not None:
            try:
                channel.cancel(why)
            except errors.OpError:
                pass                        # the channel has ended, and all that ran in it

    def end(self) -> None:
        """Ends the thread."""
        self._ended.set()
        self.cancel("The ClusterCoordinator has ended.")
        if self._thread is not threading.current_thread():
            self._thread.join(5.0)
