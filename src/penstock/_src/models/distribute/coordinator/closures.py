"""Scheduled functions, and the queue in which they wait for a worker.

The queue is independent of workers and connections: functions are added, taken, and finished, put back, or failed. The first
error empties it: waiting functions are cancelled, running ones are asked to end, and the next call raises the error, once.
"""
from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable
from typing import Any

from penstock._src.base import errors
from penstock._src.base.waits import Wait
from penstock._src.eager.function import ConcreteFunction, Function
from penstock._src.graph.scopes import device
from penstock._src.models.distribute.coordinator.values import RemoteValue, as_arguments, on_worker, refuse_remote_values

MOST = 256 * 1024                   # functions that may wait; then `put` does
_END_SECONDS = 10.0                 # that functions which were asked to end are waited for


class Closure:
    """A function with its arguments and its result."""

    def __init__(self, function: Any, args: Any, kwargs: Any):
        if not callable(function):
            raise TypeError("`ClusterCoordinator.schedule` only accepts a `tf.function`, a concrete function, or another "
                            f"callable object, got {function!r}.")
        self._args, self._kwargs = tuple(args or ()), dict(kwargs or {})
        refuse_remote_values((self._args, self._kwargs))
        self.name = getattr(function, "__name__", type(function).__name__)
        self._tensors: list[Any]
        self._function, self._concrete, self._tensors = function, None, []
        if isinstance(function, (Function, ConcreteFunction)):
            args, kwargs = as_arguments(self._args), as_arguments(self._kwargs)
            with device(None):
                if isinstance(function, Function):
                    self._concrete, self._tensors = function._choose(args, kwargs)
                else:
                    self._concrete, self._tensors = function, function.flat_arguments(args, kwargs)
        self.result = RemoteValue()
        self.tries = 0                      # that ended with a connection, though no worker was lost
        self.generation = 0

    def run(self, index: int, where: str) -> Any:
        """Runs the function on a worker; returns its result."""
        with device(where):
            if self._concrete is not None:
                return self._concrete.call_flat(self._tensors)
            return self._function(*on_worker(self._args, index), **on_worker(self._kwargs, index))

    def cancel(self) -> None:
        """Cancels the function before it runs."""
        self.result._set_error(errors.CancelledError(
            None, None, f"The scheduled function {self.name} was cancelled, because another one failed. Schedule it again."))


class ClosureQueue:
    """The functions that wait for a worker or run on one."""

    def __init__(self, most: int = MOST):
        self._most = most
        self._waiting: collections.deque[Closure] = collections.deque()
        self._running: dict[Closure, str] = {}          # with the worker of each
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._fatal: BaseException | None = None
        self._generation = 0
        self._ended = False
        self._stopping = 0                  # threads that are about to end what runs: nothing else may begin before
        self.on_error: Callable[[str], None] = lambda why: None

    # -- the program's side -------------------------------------------------------------------------------------------
    def put(self, closure: Closure, most: int | None = None) -> None:
        """Queues a function; blocks while the queue is full."""
        with self._changed:
            most = self._most if most is None else most
            self._wait(lambda: len(self._waiting) < most or self._error is not None, None)
            self._raise()
            closure.generation = self._generation
            self._waiting.append(closure)
            self._changed.notify_all()

    def wait(self, timeout: float | None) -> None:
        """Waits until all functions are done; raises the error of one that failed."""
        with self._changed:
            if not self._wait(lambda: self._error is not None or not self._waiting and not self._running, timeout):
                raise errors.DeadlineExceededError(
                    None, None, f"Timed out after {timeout:g} seconds: there are {self._described()}.")
            self._raise()

    def done(self) -> bool:
        """Whether all functions are done; raises the error of one that failed."""
        with self._changed:
            self._raise()
            return not self._waiting and not self._running

    def _wait(self, true: Callable[[], bool], timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        waited, before = Wait(self._described), None
        while not true():
            now = len(self._waiting), set(self._running)
            if now != before:                            # it continues
                waited, before = Wait(self._described), now
            if self._ended:
                raise errors.CancelledError(None, None, "The ClusterCoordinator has ended.")
            left = 1.0 if deadline is None else min(1.0, deadline - time.monotonic())
            if left <= 0:
                return False
            self._changed.wait(waited.patience(left))
        return True

    def _raise(self) -> None:
        """Raises the error, once; that of lost variables each time. What ran then has ended, or is not waited for longer."""
        if self._error is None:
            return
        deadline = time.monotonic() + _END_SECONDS
        while (self._running or self._stopping) and time.monotonic() < deadline and not self._ended:
            self._changed.wait(0.2)
        error, self._error = self._error, self._fatal
        self._running.clear()
        self._generation += 1
        if error is not None:
            raise error

    def _described(self) -> str:
        running = "; ".join(f"{c.name} runs on {where}" for c, where in list(self._running.items())[:5])
        return f"{len(self._waiting)} scheduled functions that have not begun and {len(self._running)} that have not ended" + \
            (f": {running}" if running else "")

    @property
    def pending(self) -> bool:
        """Whether functions run, or wait for a worker."""
        return bool(self._running or self._waiting)

    @property
    def failed(self) -> bool:
        """Whether there is an error that has not been raised yet."""
        return self._error is not None

    # -- the workers' side --------------------------------------------------------------------------------------------
    def take(self, where: str, ready: Callable[[], bool]) -> Closure | None:
        """The next function, for a worker; None at the end, or if the worker is no longer ready."""
        with self._changed:
            while not self._ended and ready():
                if self._waiting and self._error is None:
                    closure = self._waiting.popleft()
                    self._running[closure] = where
                    self._changed.notify_all()
                    return closure
                self._changed.wait(1.0)
        return None

    def give_back(self, closure: Closure) -> None:
        """Puts an interrupted function at the front of the queue."""
        with self._changed:
            current = self._running.pop(closure, None) is not None and closure.generation == self._generation
            if current and self._error is None and not self._ended:
                self._waiting.appendleft(closure)
            else:
                closure.cancel()
            self._changed.notify_all()

    def finish(self, closure: Closure, result: Any) -> None:
        """A function has ended."""
        closure.result._set_values(result)
        with self._changed:
            self._running.pop(closure, None)
            self._changed.notify_all()

    def fail(self, closure: Closure, error: BaseException) -> None:
        """A function has failed: the first error counts, and cancels the others."""
        closure.result._set_error(error)
        with self._changed:
            first = closure.generation == self._generation and self._error is None and closure in self._running
            self._running.pop(closure, None)
            self._changed.notify_all()
        if first:
            self._stop_others(error, None)

    def fail_all(self, error: BaseException) -> None:
        """Stops the queue with a permanent error."""
        self._stop_others(error, error)

    def _stop_others(self, error: BaseException, fatal: BaseException | None) -> None:
        with self._changed:
            if self._error is None or fatal is not None:
                self._error = error
            self._fatal = self._fatal or fatal
            self._stopping += 1
            left, self._waiting = list(self._waiting), collections.deque()
            self._changed.notify_all()
        for closure in left:
            closure.cancel()
        try:
            self.on_error(f"Another scheduled function has failed: {error}")
        finally:
            with self._changed:
                self._stopping -= 1
                self._changed.notify_all()

    def end(self) -> None:
        """Stops the queue: cancels waiting functions."""
        with self._changed:
            self._ended = True
            left, self._waiting = list(self._waiting), collections.deque()
            self._changed.notify_all()
        for closure in left:
            closure.cancel()
