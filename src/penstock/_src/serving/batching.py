"""Dynamic batching: requests that arrive close together run as one step.

`BatchQueue` decides, without threads or clocks, which requests make a batch: those with the same inputs and outputs, dtypes and
shapes (but for the first dimension). A batch is ready when it is full, or when its first request has waited for
`batch_timeout_micros`. `Batcher` runs ready batches on its threads. A batch that fails is run again request by request, so that
one bad request does not fail those it happened to be combined with.
"""
from __future__ import annotations

import functools
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock._src.base import errors
from penstock._src.base.waits import joined
from penstock._src.serving.config import Batching
from penstock._src.serving.division import Division, shares

Run = Callable[[Mapping[str, np.ndarray], tuple[str, ...]], list[np.ndarray]]


@dataclass(eq=False)
class Task:
    """A waiting request: its feeds and fetches, and the future for its result."""
    feeds: Mapping[str, np.ndarray]
    fetches: tuple[str, ...]
    rows: int
    arrived: float
    result: Future = field(default_factory=Future)


@dataclass(eq=False)
class Batch:
    """The requests that one step will run."""
    opened: float
    tasks: list[Task] = field(default_factory=list)
    rows: int = 0


def rows_of(feeds: Mapping[str, np.ndarray]) -> int:
    """The number of rows in a request; InvalidArgumentError if its inputs disagree about it."""
    if any(a.ndim == 0 for a in feeds.values()):
        raise errors.invalid("Batching session Run() input tensors must have at least one dimension.")
    sizes = {len(a) for a in feeds.values()}
    if len(sizes) != 1:
        raise errors.invalid("Batching session Run() input tensors must have equal 0th-dimension size.")
    return sizes.pop()


def kind_of(task: Task, padded: bool) -> tuple:
    """Tasks of the same kind can be in one batch."""
    inputs = tuple((k, a.dtype.str, a.ndim if padded else a.shape[1:]) for k, a in task.feeds.items())
    return inputs, task.fetches


class BatchQueue:
    """The batches that wait, in the order in which they were opened."""

    def __init__(self, options: Batching):
        self._options = options
        self._open: dict[tuple, Batch] = {}          # the batch that takes more tasks, by their kind
        self._waiting: deque[Batch] = deque()        # open and full ones

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, task: Task) -> None:
        """Adds a task to an open batch or a new one; ResourceExhaustedError if too many batches wait."""
        limit = self._options.step_size
        if task.rows > limit:
            raise errors.invalid(f"Task size {task.rows} is larger than maximum input batch size {limit}")
        kind = kind_of(task, self._options.pad_variable_length_inputs)
        batch = self._open.get(kind)
        if batch is None or batch.rows + task.rows > limit:
            if len(self._waiting) >= self._options.max_enqueued_batches:
                raise errors.ResourceExhaustedError(
                    None, None, "The batch scheduling queue to which this task was submitted is full; currently there are "
                                f"{len(self._waiting)} batches enqueued")
            batch = self._open[kind] = Batch(task.arrived)
            self._waiting.append(batch)
        batch.tasks.append(task)
        batch.rows += task.rows
        if batch.rows >= limit:
            del self._open[kind]

    def take(self, now: float) -> tuple[Batch | None, float | None]:
        """A batch that is ready, if any, and otherwise how many seconds until one will be (None: it needs a task)."""
        delay = self._options.batch_timeout_micros / 1e6
        still_open = {id(b) for b in self._open.values()}
        for batch in self._waiting:
            if id(batch) not in still_open or now - batch.opened >= delay:
                self._waiting.remove(batch)
                self._open = {k: b for k, b in self._open.items() if b is not batch}
                return batch, None
        return None, self._waiting[0].opened + delay - now if self._waiting else None


def merged(tasks: list[Task], options: Batching) -> tuple[dict[str, np.ndarray], int]:
    """The inputs of a batch, and how many rows of padding they have at the end."""
    rows = sum(t.rows for t in tasks)
    padding = next((s for s in options.allowed_batch_sizes if s >= rows), rows) - rows
    feeds = {}
    for name in tasks[0].feeds:
        parts = [t.feeds[name] for t in tasks]
        if options.pad_variable_length_inputs:
            parts = _same_shape(parts)
        if padding:
            parts.append(np.repeat(parts[0][:1], padding, axis=0))
        feeds[name] = np.concatenate(parts) if len(parts) > 1 else parts[0]
    return feeds, padding


def _same_shape(parts: list[np.ndarray]) -> list[np.ndarray]:
    """Arrays of one rank, padded to one shape with the first element of each."""
    shape = tuple(max(sizes) for sizes in zip(*(p.shape[1:] for p in parts)))
    made = []
    for part in parts:
        if part.shape[1:] != shape:
            first = part.flat[0] if part.size else np.zeros((), part.dtype)[()]
            padded = np.full((len(part), *shape), first, part.dtype)
            padded[tuple(map(slice, part.shape))] = part
            part = padded
        made.append(part)
    return made


def divided(outputs: list[np.ndarray], tasks: list[Task], padding: int) -> list[list[np.ndarray]]:
    """The outputs of each task."""
    rows = [t.rows for t in tasks]
    for array in outputs:
        if array.ndim == 0:
            raise errors.FailedPreconditionError(None, None, "Batched output tensor has 0 dimensions")
        if len(array) != sum(rows) + padding:
            raise errors.FailedPreconditionError(
                None, None, "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension sizes of the "
                            "input tensors")
    ends = np.cumsum(rows).tolist()
    return [[array[end - n:end] for array in outputs] for n, end in zip(rows, ends)]


class Batcher:
    """Threads that run the batches of one version. `divided` is the number of steps into which a batch may be divided."""

    def __init__(self, run: Run, options: Batching, observe: Callable[[Batch, float, int], None] = lambda *_: None,
                 divided: int = 1):
        self._run, self._options, self._observe = run, options, observe
        self._queue = BatchQueue(options)
        self._division = Division(divided)
        self._parts: deque[Callable[[], None]] = deque()       # of batches that were divided
        self._idle = 0
        self._changed = threading.Condition()
        self._closed = False
        self._threads = [threading.Thread(target=self._work, name=f"batch-{i}", daemon=True)
                         for i in range(options.num_batch_threads)]
        for thread in self._threads:
            thread.start()

    def submit(self, feeds: Mapping[str, np.ndarray], fetches: tuple[str, ...]) -> Future:
        """Queues a request; the future gets the list of outputs. Large requests are split, if that is allowed."""
        rows, limit, now = rows_of(feeds), self._options.step_size, time.monotonic()
        if not self._options.enable_large_batch_splitting or rows <= limit:
            task = Task(feeds, fetches, rows, now)
            self._add([task])
            return task.result
        parts = [Task({k: a[i:i + limit] for k, a in feeds.items()}, fetches, min(limit, rows - i), now)
                 for i in range(0, rows, limit)]
        self._add(parts)
        return _joined(parts)

    def _add(self, tasks: list[Task]) -> None:
        with self._changed:
            if self._closed:
                raise errors.UnavailableError(None, None, "The model is being unloaded.")
            try:
                for task in tasks:
                    self._queue.add(task)
            except errors.OpError:
                for task in tasks:
                    task.result.cancel()             # the parts that were queued before
                raise
            self._changed.notify()

    def close(self) -> None:
        """Ends the threads, after the queued batches have run."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            joined(thread, lambda: "the batches that run, to end their threads")

    def _work(self) -> None:
        while True:
            with self._changed:
                if self._parts:
                    work = self._parts.popleft()
                else:
                    batch, delay = self._queue.take(time.monotonic())
                    if batch is None:
                        if self._closed and delay is None:
                            return
                        self._idle += 1
                        self._changed.wait(delay)
                        self._idle -= 1
                        continue
                    work, *rest = self._divided(batch)
                    self._parts.extend(rest)
                    self._changed.notify(len(rest) + bool(len(self._queue)))         # there may be work for other threads
            work()

    def _divided(self, batch: Batch) -> list[Callable[[], None]]:
        """What to run for a batch: one step, or several at once. The lock is held."""
        rows = batch.rows
        count = self._division.parts(rows, len(batch.tasks), self._idle)
        began, left, lock = time.monotonic(), [count], threading.Lock()

        def process(part: Batch) -> None:
            self._process(part)
            with lock:
                left[0] -= 1
                if left[0]:
                    return
            self._division.took(rows, count, time.monotonic() - began)
        parts = [Batch(batch.opened, tasks, sum(t.rows for t in tasks)) for tasks in shares(batch.tasks, count)]
        return [functools.partial(process, part) for part in parts]

    def _process(self, batch: Batch) -> None:
        """Runs a batch, without the requests whose clients have cancelled them."""
        tasks = [t for t in batch.tasks if t.result.set_running_or_notify_cancel()]
        if not tasks:
            return
        started = time.monotonic()
        try:
            padding = self._step(tasks)
            self._observe(batch, started, padding)
        except BaseException as e:                   # the thread continues; each client gets the error of its request
            if len(tasks) == 1:
                tasks[0].result.set_exception(e)
                return
            for task in tasks:
                self._alone(task)

    def _step(self, tasks: list[Task]) -> int:
        feeds, padding = merged(tasks, self._options)
        outputs = divided(self._run(feeds, tasks[0].fetches), tasks, padding)
        for task, values in zip(tasks, outputs):
            task.result.set_result(values)
        return padding

    def _alone(self, task: Task) -> None:
        try:
            self._step([task])
        except BaseException as e:
            task.result.set_exception(e)


def _joined(parts: list[Task]) -> Future:
    """One future for the parts of a request."""
    whole: Future = Future()
    whole.set_running_or_notify_cancel()
    left = [len(parts)]
    lock = threading.Lock()

    def done(_: Any) -> None:
        with lock:
            left[0] -= 1
            if left[0]:
                return
        error = next((e for t in parts if (e := t.result.exception()) is not None), None)
        if error is not None:
            whole.set_exception(error)
        else:
            whole.set_result([np.concatenate(arrays) for arrays in zip(*(t.result.result() for t in parts))])
    for part in parts:
        part.result.add_done_callback(done)
    return whole
