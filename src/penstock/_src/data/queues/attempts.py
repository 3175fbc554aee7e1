"""Operations that wait for their turn.

An operation on a queue (or barrier, accumulator, staging area) is an *attempt*. Attempts of one kind are executed first come,
first served. A thread that changes the state also executes the attempts that the change enables, and wakes only the finished
ones. So no thread polls, and a waiting thread wakes up once.

An attempt ends with its own result or error, or with the step: its cancellation or deadline. Then it leaves the line and
returns the elements it had taken.
"""
from __future__ import annotations

import collections
import queue
import threading
from collections.abc import Callable
from typing import Any

from penstock._src.base import errors


class Attempt:
    """One operation. `advance` is called with the lock held, as long as the attempt is first in its line."""

    __slots__ = ("over", "result", "error", "gate")
    what = "Operation"

    def __init__(self) -> None:
        self.over = False
        self.result: Any = None
        self.error: errors.OpError | None = None
        self.gate: queue.SimpleQueue | None = None     # created by attempts that have to wait

    def advance(self) -> bool:
        """Advances as far as possible; returns whether the state changed. Sets `over` at the end."""
        raise NotImplementedError

    def undo(self) -> None:
        """Returns taken elements; the lock is held."""

    def finish(self, result: Any = None) -> bool:
        """Ends the attempt with a result."""
        self.result, self.over = result, True
        return True

    def fail(self, error: errors.OpError) -> bool:
        """Ends the attempt with an error."""
        self.error, self.over = error, True
        return True

    def outcome(self) -> Any:
        """The result; raises the error."""
        if self.error is not None:
            raise self.error
        return self.result


class Lines:
    """A lock and the lines of attempts on what it guards. `run` is for kernels, `flush` for changes from outside."""

    def __init__(self, count: int, about: Callable[[], str]):
        self.lock, self.about = threading.Lock(), about          # `about` is what waiters wait for
        self.lines: tuple[collections.deque, ...] = tuple(collections.deque() for _ in range(count))
        self._added: list[collections.deque] = []                # lines of single attempts

    def run(self, attempt: Attempt, line: collections.deque, ctx: Any) -> Any:
        """Carries out an attempt, waiting for its turn, and returns its result. A context with a `parking` waits in its way."""
        if ctx.parking is not None:
            return ctx.parking.run(self, attempt, line)
        if ctx.cancellation.error is not None:
            raise _ended(attempt, ctx.cancellation.error)
        with self.lock:
            line.append(attempt)
            self.flush()
            if attempt.over:
                return attempt.outcome()
            gate = attempt.gate = queue.SimpleQueue()
        release = ctx.cancellation.on_cancel(lambda: self.leave(attempt, line, ctx.cancellation.error))
        try:
            with ctx.waiting(self.about) as wait:
                self._wait(attempt, gate, ctx, wait)
        except errors.OpError as e:
            self.leave(attempt, line, e)
        except BaseException as e:                        # a signal
            self.leave(attempt, line, e)
            raise
        finally:
            release()
        return attempt.outcome()

    def add(self) -> collections.deque:
        """One more line, for an attempt that does not block others."""
        line: collections.deque = collections.deque()
        with self.lock:
            self.lines += (line,)
            self._added.append(line)
        return line

    def drop(self, line: collections.deque) -> None:
        """Removes a line that was added, unless an attempt still waits in it."""
        with self.lock:
            if not line and any(ln is line for ln in self._added):
                self.lines = tuple(ln for ln in self.lines if ln is not line)
                self._added = [ln for ln in self._added if ln is not line]

    def flush(self) -> None:
        """Advances the first attempt of every line until none of them can proceed. The lock is held."""
        changed = True
        while changed:
            changed = False
            for line in self.lines:
                while line:
                    first = line[0]
                    changed = first.advance() or changed
                    if not first.over:
                        break
                    line.popleft()
                    if first.gate is not None:
                        first.gate.put(None)

    @staticmethod
    def _wait(attempt: Attempt, gate: queue.SimpleQueue, ctx: Any, wait: Any) -> None:
        while not attempt.over:
            try:
                gate.get(timeout=wait.patience(_left(ctx)))
            except queue.Empty:
                continue

    def leave(self, attempt: Attempt, line: collections.deque, error: BaseException | None) -> None:
        """The step has ended, maybe before the attempt: it leaves the line, and its elements are returned."""
        with self.lock:
            if attempt.over and isinstance(error, errors.OpError):
                return                                    # it came first
            if not attempt.over:
                line.remove(attempt)
            attempt.undo()
            attempt.fail(_ended(attempt, error))
            if attempt.gate is not None:
                attempt.gate.put(None)
            self.flush()

    def cancel(self, line: collections.deque) -> None:
        """Ends all attempts of a line with CancelledError. The lock is held."""
        for attempt in line:
            attempt.fail(_cancelled(attempt))
            if attempt.gate is not None:
                attempt.gate.put(None)
        line.clear()


def _cancelled(attempt: Attempt) -> errors.OpError:
    return errors.CancelledError(None, None, f"{attempt.what} operation was cancelled")


def _ended(attempt: Attempt, error: Any) -> Any:
    """The error of an attempt whose step has ended with `error`."""
    return _cancelled(attempt) if isinstance(error, errors.CancelledError) else error


def _left(ctx: Any) -> float | None:
    """Seconds until the deadline of the step, at which DeadlineExceededError is raised."""
    return None if ctx.deadline is None else ctx.remaining()
