"""Batching across steps: concurrent calls are processed together.

A Batcher collects the calls of one op. It has no thread: the first call of a batch waits until the batch is
full or its time is up, and then runs the whole batch. A cancelled call leaves its batch, and the next one takes over. An
Unbatcher returns the rows of a batch to the calls that they came from.
"""
from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from penstock._src.base import errors
from penstock._src.data.queues.shared import Shared
from penstock._src.kernels import arrays

_ids = itertools.count(1)


class Call:
    """One call: its tensors, of which all have the same number of rows, and its answer."""

    __slots__ = ("values", "captured", "size", "id", "answer", "error", "batch")

    def __init__(self, values: Sequence[Any], captured: Sequence[Any] = ()):
        sizes = {arrays.dims_of(v)[:1] for v in values}
        if () in sizes:
            raise errors.invalid("Batching input tensors must have at least one dimension")
        if len(sizes) != 1:
            raise errors.invalid("Batching input tensors supplied in a given op invocation must have equal 0th-dimension size")
        self.values, self.captured, self.size, self.id = list(values), list(captured), sizes.pop()[0], next(_ids)
        self.answer: Any = None
        self.error: BaseException | None = None
        self.batch: _Batch | None = None

    @property
    def done(self) -> bool:
        return self.answer is not None or self.error is not None


class _Batch:
    """Calls that are processed together."""

    def __init__(self, deadline: float):
        self.calls: list[Call] = []
        self.deadline = deadline
        self.full = self.running = False

    @property
    def size(self) -> int:
        return sum(c.size for c in self.calls)


class Batcher(Shared):
    """The batches of one op."""

    kind = "Batcher"

    def __init__(self, name: str, threads: int, limit: int, timeout: float, waiting: int, allowed: Sequence[int],
                 container: str = ""):
        super().__init__(name, container)
        if threads < 1 or limit < 1 or waiting < 1 or timeout < 0:
            raise errors.invalid("num_batch_threads, max_batch_size and max_enqueued_batches must be positive, and the "
                                 "timeout not negative")
        if any(a >= b for a, b in itertools.pairwise(allowed)) or (allowed and allowed[-1] != limit):
            raise errors.invalid("allowed_batch_sizes entries must be monotonically increasing, and the last one must equal "
                                 "max_batch_size")
        self.limit, self.timeout, self.allowed = limit, timeout, list(allowed)
        self._threads, self._waiting, self._running = threads, waiting, 0
        self._batches: list[_Batch] = []
        self._changed = threading.Condition()

    def run(self, call: Call, work: Callable[[list[Call]], None], ctx: Any) -> Any:
        """The answer of a call, which `work` returns to all calls of a batch."""
        if call.size > self.limit:
            raise errors.invalid(f"Task size {call.size} is larger than maximum batch size {self.limit}")
        with self._changed:
            batch = self._join(call)
        try:
            while not self._lead_or_wait(call, batch, ctx):
                self._work(batch, work)
        except BaseException:
            self._leave(call, batch)
            raise
        if call.error is not None:
            raise call.error
        return call.answer

    def _join(self, call: Call) -> _Batch:
        last = self._batches[-1] if self._batches else None
        if last is not None and not last.full and last.size + call.size > self.limit:
            last.full = True
        if last is None or last.full:
            if len(self._batches) >= self._waiting + self._threads:
                raise errors.UnavailableError(None, None, "The batch scheduling queue to which this task was submitted is full")
            last = _Batch(time.monotonic() + self.timeout)
            self._batches.append(last)
        last.calls.append(call)
        last.full = last.size >= self.limit
        self._changed.notify_all()
        return last

    def _lead_or_wait(self, call: Call, batch: _Batch, ctx: Any) -> bool:
        """True when the call has its answer; False if its thread must run the batch."""
        release = ctx.cancellation.on_cancel(self._wake)
        try:
            with self._changed:
                while not call.done:
                    left = ctx.remaining()
                    if not batch.running and batch.calls[0] is call:
                        due = 0.0 if batch.full else batch.deadline - time.monotonic()
                        if due <= 0 and self._running < self._threads:
                            batch.full = batch.running = True
                            self._running += 1
                            return False
                        if due > 0:
                            left = due if left is None else min(left, due)
                    self._changed.wait(left)
                return True
        finally:
            release()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _work(self, batch: _Batch, work: Callable[[list[Call]], None]) -> None:
        try:
            work(batch.calls)
        except Exception as e:
            for c in batch.calls:
                c.error = e
        finally:
            with self._changed:
                self._running -= 1
                self._batches.remove(batch)
                for c in batch.calls:
                    if not c.done:
                        c.error = errors.InternalError(None, None, "The batch returned no result for this call")
                self._changed.notify_all()

    def _leave(self, call: Call, batch: _Batch) -> None:
        with self._changed:
            if not batch.running and call in batch.calls:
                batch.calls.remove(call)
                if not batch.calls:
                    self._batches.remove(batch)
                self._changed.notify_all()

    # -- rows ----------------------------------------------------------------------------------------------------------
    def joined(self, calls: list[Call]) -> list:
        """The tensors of all calls, concatenated, filled up to an allowed size with the first row."""
        counts = {len(c.values) for c in calls}
        if len(counts) != 1:
            raise errors.invalid("All calls of a batch must have the same number of tensors")
        total = sum(c.size for c in calls)
        padding = next((a for a in self.allowed if a >= total), total) - total
        out = []
        for parts in zip(*(c.values for c in calls), strict=True):
            if len({arrays.dims_of(p)[1:] for p in parts}) != 1:
                raise errors.invalid("Batching inputs must have the same shape except in the first dimension, got "
                                     f"{[list(arrays.dims_of(p)) for p in parts]}")
            filled = list(parts)
            if padding and total:
                first = next(p for p in parts if arrays.dims_of(p)[0])
                filled += [arrays.part(first, (slice(0, 1),))] * padding
            out.append(arrays.cat(filled, 0))
        return out


class Unbatcher(Shared):
    """Rows of batches, waiting for the calls that they belong to."""

    kind = "Unbatcher"

    def __init__(self, name: str, timeout: float, container: str = ""):
        super().__init__(name, container)
        self.timeout = timeout
        self._rows: dict[int, tuple[Any, float]] = {}
        self._changed = threading.Condition()

    def exchange(self, batch: Any, index: list[list[int]], own: int, ctx: Any) -> Any:
        """Stores the rows of a batch, if this call has it, and returns those of the call."""
        count = arrays.dims_of(batch)[0]
        if any(not 0 <= start <= end <= count for _, start, end in index):
            raise errors.invalid(f"Rows of a batch of {count} were expected, got {index}")
        with self._changed:
            now = time.monotonic()
            self._rows = {k: v for k, v in self._rows.items() if v[1] > now}
            for key, start, end in index:
                self._rows[key] = arrays.part(batch, (slice(start, end),)), now + self.timeout
            self._changed.notify_all()
            while own not in self._rows:
                left = now + self.timeout - time.monotonic()
                if left <= 0:
                    raise errors.DeadlineExceededError(None, None, "Batched data did not arrive within timeout window.")
                step = ctx.remaining()
                self._changed.wait(left if step is None else min(left, step))
            return self._rows.pop(own)[0]


class GradientUnbatcher(Shared):
    """Gradients of calls, collected for the call that has their batch."""

    kind = "GradientUnbatcher"

    def __init__(self, name: str, container: str = ""):
        super().__init__(name, container)
        self._grads: dict[int, Any] = {}
        self._changed = threading.Condition()

    def collect(self, grad: Any, index: list[list[int]], own: int, ctx: Any) -> Any:
        """The gradients of the calls of a batch, joined; None where the call has no batch."""
        with self._changed:
            self._grads[own] = grad
            self._changed.notify_all()
            if not index:
                return None
            ctx.wait(self._changed, lambda: all(key in self._grads for key, _, _ in index),
                     lambda: f"the gradients of the other calls in a batch of {self.name!r}")
            return arrays.cat([self._grads.pop(key) for key, _, _ in index], 0)
