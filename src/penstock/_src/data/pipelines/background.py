"""Stages with background threads: prefetch, parallel map, parallel interleave.

A thread holds the cursor it reads and a buffer, never the cursor that returns its elements: when that one is freed, the
thread ends. Waiting ends with the step that waits, or with the iterator.
"""
from __future__ import annotations

import collections
import copy
import threading
import time
import weakref
from typing import Any

from penstock._src.base import errors, service
from penstock._src.base.waits import wait_for
from penstock._src.data.pipelines.base import INFINITE, UNKNOWN, Cursor, Stage
from penstock._src.data.pipelines.mapping import _MapCursor, ended, stage_of
from penstock._src.kernels.host_threads import on_cores, use_at_most

_QUICK = 1e-3                       # seconds: elements that take less, on average, are not worth a thread
_TRIES = 8
_TRIALS = 4                         # calls that tell whether a function is worth threads:
_SHORT, _SHORT_CALL = 4e-5, 4e-4    # seconds of a kernel, or of a call, that is not
_MOST_THREADS = 64                  # of one stage
_AHEAD = "the next element of a dataset, which a thread of prefetch, map or interleave computes"      # as reports of waits say


class Failed:
    """An exception instead of an element."""

    __slots__ = ("_error",)

    def __init__(self, error: BaseException):
        self._error: Any = error

    def taken(self) -> BaseException:
        """The exception, which is not kept: its traceback will name the iterator, and this thread's last item is this one, so
        that neither would ever end."""
        error, self._error = self._error, None
        return error


def given(item: Any) -> Any:
    """The element; raises it if it is an exception."""
    if isinstance(item, Failed):
        raise item.taken()
    return item


class Prefetch(Stage):
    """The same elements, of which up to `size` are computed ahead."""

    def __init__(self, source: Stage, size: int):
        if size < -1:
            raise errors.invalid("buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning")
        self.inputs, self.size = (source,), 8 if size == -1 else size

    def iterate(self, ctx: Any) -> Cursor:
        source = self.inputs[0].iterate(ctx)
        return _PrefetchCursor(source, self.size, ctx, self.stats) if self.size else source

    def cardinality(self) -> int:
        return self.cardinality_of_input()


class _Buffer:
    """The state shared by a thread and a cursor: items in order, and whether to continue."""

    def __init__(self, size: int):
        self.size, self.items = size, collections.deque()  # type: ignore[var-annotated]
        self.changed = threading.Condition(threading.Lock())
        self.stopped = self.paused = self.idle = False
        self.level = 0                               # how many items there were when one was last taken

    def put(self, item: Any) -> bool:
        """Adds an item; False if the consumer has stopped."""
        with self.changed:
            if self.stopped:
                return False
            self.items.append(item)
            self.changed.notify_all()
            return True

    def room(self) -> bool:
        """Waits until there is room for another item; False if the consumer has stopped."""
        with self.changed:
            while (len(self.items) >= self.size or self.paused) and not self.stopped:
                self.idle = True
                self.changed.notify_all()
                self.changed.wait()
            self.idle = False
            return not self.stopped

    def take(self, ctx: Any) -> Any:
        """The first item, when there is one."""
        with self.changed:
            if not self.items:
                ctx.wait(self.changed, lambda: self.items or self.stopped, lambda: _AHEAD)
            if not self.items:
                raise errors.CancelledError(None, None, "The iterator was closed.")
            self.level = len(self.items)
            item = self.items.popleft()
            self.changed.notify_all()
            return item

    def stop(self) -> None:
        """Ends the thread and all waits."""
        with self.changed:
            self.stopped = True
            self.changed.notify_all()


class _PrefetchCursor(Cursor):
    """Reads its input directly where that is quick, and on a thread otherwise."""

    def __init__(self, source: Cursor, size: int, ctx: Any, stats: Any = None):
        self.inputs, self._source, self._size, self._stats = (source,), source, size, stats
        self._background = ctx.background()
        self._buffer: _Buffer | None = None
        self._average, self._reads = 0.0, 0          # seconds to compute an element
        self._ended = False
        self._restored: collections.deque = collections.deque()
        self._thread: threading.Thread | None = None
        self._inline = source.quick and stats is None

    @property
    def blocks(self) -> bool:        # type: ignore[override]
        return self._inline and self._buffer is None and not self._restored and self._source.blocks

    def next(self, ctx: Any) -> tuple | None:
        if self._restored:
            return given(self._restored.popleft())
        if self._ended:
            return None
        if self._buffer is None and not self._inline:
            self._start()
        if self._buffer is not None:
            item = given(self._buffer.take(ctx))
            self._ended = item is None
            if self._stats is not None and not self._ended:
                self._stats.buffer(self._buffer.level, self._size)
            return item
        start = time.perf_counter()
        try:
            item = self._source.next(ctx)
        finally:
            self._judge(time.perf_counter() - start)
        self._ended = item is None
        if self._reads >= _TRIES and self._average > _QUICK and not self._ended:
            self._start()
        return item

    def block(self, ctx: Any, limit: int) -> tuple | None:
        if self._buffer is not None or self._restored or not self._inline:
            return super().block(ctx, limit)
        start = time.perf_counter()
        columns = self._source.block(ctx, limit)
        self._judge(time.perf_counter() - start)
        return columns

    def _judge(self, seconds: float) -> None:
        self._reads += 1
        self._average += (seconds - self._average) / min(self._reads, 32)

    def _start(self) -> None:
        buffer = _Buffer(self._size)
        self._thread = start_thread(_read_ahead, self._source, buffer, self._background)
        self._buffer = buffer                        # which is waited for, so only with its thread
        self._finalizer = weakref.finalize(self, _stop, buffer, self._background)
        self._finalizer.atexit = True

    def close(self) -> None:
        if self._buffer is not None:
            _stop(self._buffer, self._background)
            join_thread(self._thread)
        super().close()

    def save(self) -> Any:
        if self._buffer is None:
            return list(self._restored), self._ended, self._source.save()
        buffer = self._buffer
        with buffer.changed:                         # the thread is paused between two elements
            buffer.paused = True
            while not buffer.idle and self._thread is not None and self._thread.is_alive():
                buffer.changed.wait(0.1)
            held = list(buffer.items)
            try:
                return [plain(i) for i in held], self._ended, self._source.save()
            finally:
                buffer.paused = False
                buffer.changed.notify_all()

    def restore(self, state: Any, ctx: Any) -> None:
        items, self._ended, position = state
        self._restored = collections.deque(None if i is None else tuple(i) for i in items)
        self._source.restore(position, ctx)


def plain(item: Any) -> Any:
    """The saved form of a buffer's item."""
    if isinstance(item, Failed):
        raise errors.UnimplementedError(None, None, "The position of a pipeline that holds a failed element cannot be saved.")
    return item


def start_thread(target: Any, *args: Any) -> threading.Thread:
    """A thread that does not keep the process alive."""
    return service.started(threading.Thread(target=_on_one_core, args=(target, *args), name="penstock pipeline", daemon=True))


def _start_threads(target: Any, most: int) -> list[threading.Thread]:
    """As many threads as the system allows, up to `most`; the error if it allows none."""
    threads: list[threading.Thread] = []
    try:
        for _ in range(most):
            threads.append(start_thread(target))
    except errors.ResourceExhaustedError:
        if not threads:
            raise
    return threads


def _on_one_core(target: Any, *args: Any) -> None:
    """Limits kernels to one thread: with kernels on all cores, this thread and the consuming step would compete."""
    use_at_most(1)
    target(*args)


def join_thread(thread: threading.Thread | None) -> None:
    """Waits for the end of a thread that was asked to stop, unless it is the calling thread."""
    if thread is not None and thread is not threading.current_thread():
        thread.join(10)


def _stop(buffer: Any, ctx: Any) -> None:
    ctx.cancellation.cancel(errors.CancelledError(None, None, "The iterator was closed."))
    buffer.stop()


def _read_ahead(source: Cursor, buffer: _Buffer, ctx: Any) -> None:
    item: Any = ()
    while item is not None:
        if not buffer.room():
            return
        try:
            item = source.next(ctx.within(ctx.streams))
        except BaseException as e:
            item = Failed(e)
        buffer.put(item)
    with buffer.changed:
        buffer.idle = True
        buffer.changed.notify_all()


class ParallelMap(Stage):
    """A function of every element, several at a time."""

    label = "ParallelMapDataset"

    def __init__(self, source: Stage, body: Any, parallel: int, ordered: bool | None, preserve_cardinality: bool):
        if parallel < 1:
            raise errors.invalid("num_parallel_calls must be greater than zero.")
        self.inputs, self.body, self.parallel = (source,), body, parallel
        self.ordered, self.preserve, self.threads = ordered, preserve_cardinality, _MOST_THREADS

    def iterate(self, ctx: Any) -> Cursor:
        source = self.inputs[0].iterate(ctx)
        plain_map = _MapCursor(source, self.body, ctx, self.preserve)
        return plain_map if plain_map.blocks and self.stats is None else _ParallelCursor(self, source, ctx)

    def cardinality(self) -> int:
        n = self.cardinality_of_input()
        return n if self.preserve or n == INFINITE else UNKNOWN


class _Job:
    """One pending call of a function."""

    __slots__ = ("element", "result", "done")

    def __init__(self, element: Any):
        self.element, self.done = element, False
        self.result: Any = None


class _Workers:
    """Threads that run a function on jobs, and the state that they share with the cursor of a parallel map."""

    def __init__(self, source: Cursor, run: Any, most: int, ordered: bool, ctx: Any):
        self.source, self.run, self.most, self.ordered, self.ctx = source, run, most, ordered, ctx
        lock = threading.Lock()
        self.changed = threading.Condition(lock)                 # for the consumer: a job is done, or all is over
        self.room = threading.Condition(lock)                    # for the threads: a job has gone, or they may read again
        self.jobs: collections.deque = collections.deque()       # in the order of the input, until they are returned
        self.ended = self.stopped = self.reading = self.paused = False
        self.threads: list[threading.Thread] = []

    def work(self) -> None:
        """The loop of a thread: read an element, call the function."""
        while True:
            job = self._take()
            if job is None:
                return
            try:
                job.result = self.run(self.ctx.within(self.ctx.streams), job.element)
            except BaseException as e:
                job.result = Failed(e)
            with self.changed:
                job.element, job.done = None, True
                if not self.ordered or self.paused or self.jobs[0] is job:       # others wait for their turn
                    self.changed.notify_all()

    def _take(self) -> Any:
        """The next element of the input as a job; one thread at a time reads."""
        while True:
            with self.room:
                while (len(self.jobs) >= self.most or self.reading or self.paused) and not (self.stopped or self.ended):
                    self.room.wait()
                if self.stopped or self.ended:
                    return None
                self.reading = True
            try:
                element: Any = self.source.next(self.ctx.within(self.ctx.streams))
            except BaseException as e:
                element = Failed(e)
            with self.room:
                self.reading = False
                if element is None or self.paused or isinstance(element, Failed):
                    self.changed.notify_all()
                if element is None:
                    self.ended = True
                    self.room.notify_all()
                    return None
                self.room.notify()
                job = _Job(element)
                self.jobs.append(job)
                if not isinstance(element, Failed):
                    return job
                job.result, job.done = element, True

    def stop(self) -> None:
        """Ends the threads."""
        self.ctx.cancellation.cancel(errors.CancelledError(None, None, "The iterator was closed."))
        with self.changed:
            self.stopped = True
            self.changed.notify_all()
            self.room.notify_all()


class _ParallelCursor(Cursor):
    quick = False

    def __init__(self, stage: ParallelMap, source: Cursor, ctx: Any):
        self.inputs, self._stage, self._source = (source,), stage, source
        computes = stage.stats is None and stage.body.computes
        ahead = 2 * stage.parallel if computes and source.quick else stage.parallel      # where it cannot be observed
        self._workers = _Workers(source, stage.body.runner(ctx), ahead, stage.ordered is not False, ctx.background())
        self._finalizer = weakref.finalize(self, self._workers.stop)
        self._ready: collections.deque = collections.deque()
        self._done = False
        # A function that may read files is short if no time passes, others if they compute for a short time.
        self._statements = stage.body.statements(ctx) if stage.stats is None and stage.body.prompt else 0
        self._clock = time.thread_time if computes else time.perf_counter
        # Whether elements are computed by the thread that needs them; None: the first calls of the function will tell.
        self._here = self._statements > 0 and stage.body.short
        self._tried: list[float] = []                # seconds of these calls

    def _call_here(self, ctx: Any) -> tuple | None:
        """The next element, computed by the thread that needs it. In threads, a function of short kernels waits for the
        interpreter lock at each of them, which takes longer than the calls. The first calls show whether it is one."""
        element = self._source.next(ctx)
        if element is None:
            self._done = True
            return None
        began = self._clock() if self._here is None else 0.0
        try:
            return on_cores(1, self._workers.run, ctx, element)
        except errors.OutOfRangeError as e:
            if self._stage.preserve:
                raise ended(e) from None
            self._done = True
            return None
        finally:
            if began:
                self._tried.append(self._clock() - began)
                if len(self._tried) == _TRIALS:
                    self._here = min(self._tried) < max(_SHORT * self._statements, _SHORT_CALL)
                    self._stage.body.short = self._here

    def next(self, ctx: Any) -> tuple | None:
        if self._ready:
            return given(self._ready.popleft())
        if self._done:
            return None
        if self._here is not False:
            return self._call_here(ctx)
        workers = self._workers
        if not workers.threads:
            workers.threads = _start_threads(workers.work, min(self._stage.parallel, self._stage.threads))
        with workers.changed:
            ctx.wait(workers.changed, lambda: self._first() is not None or workers.ended and not workers.jobs
                     or workers.stopped, lambda: _AHEAD)
            job = self._first()
            if job is None:
                self._done = True
                if workers.stopped:
                    raise errors.CancelledError(None, None, "The iterator was closed.")
            else:
                if self._stage.stats is not None:
                    busy = sum(not j.done for j in workers.jobs)
                    self._stage.stats.histogram("thread_utilization", busy / self._stage.parallel)
                workers.jobs.remove(job)
                workers.room.notify()
        if job is None:
            for t in workers.threads:    # one that is in a kernel while Python exits aborts the process
                join_thread(t)
            return None
        try:
            return given(job.result)
        except errors.OutOfRangeError as e:
            if self._stage.preserve:
                raise ended(e) from None
            self._done = True
            workers.stop()
            return None

    def _first(self) -> Any:
        """The job to return: the oldest, or any finished one if the order does not matter."""
        jobs = self._workers.jobs
        if self._stage.ordered is not False:
            return jobs[0] if jobs and jobs[0].done else None
        return next((j for j in jobs if j.done), None)

    def close(self) -> None:
        self._workers.stop()
        for t in self._workers.threads:
            join_thread(t)
        super().close()

    def save(self) -> Any:
        workers = self._workers
        if not workers.threads:
            return {"ready": list(self._ready), "done": self._done, "input": self._source.save()}
        with workers.changed:                        # no thread reads on, and what was read is completed
            workers.paused = True
            try:
                wait_for(workers.changed, lambda: not workers.reading and all(j.done for j in workers.jobs),
                         lambda: f"{sum(not j.done for j in workers.jobs)} calls of a dataset's function, to save the position")
                return {"ready": [plain(j.result) for j in workers.jobs], "done": self._done, "input": self._source.save()}
            finally:
                workers.paused = False
                workers.room.notify_all()

    def restore(self, state: Any, ctx: Any) -> None:
        self._ready = collections.deque(tuple(e) for e in state["ready"])
        self._done = state["done"]
        self._source.restore(state["input"], ctx)


class ParallelInterleave(Stage):
    """The elements of `cycle_length` datasets at a time, each read on its own thread.

    If deterministic, in the order of `Interleave`; otherwise in the order of completion.
    """

    def __init__(self, source: Stage, body: Any, cycle_length: int, block_length: int, sloppy: bool | None, ahead: int):
        if cycle_length <= 0:
            raise errors.invalid(f"`cycle_length` must be > 0, got {cycle_length}")
        if block_length <= 0:
            raise errors.invalid(f"`block_length` must be > 0, got {block_length}")
        self.inputs, self.body, self.cycle, self.block = (source,), body, cycle_length, block_length
        self.sloppy, self.ahead = sloppy, max(1, ahead)

    def iterate(self, ctx: Any) -> Cursor:
        return _ParallelInterleaveCursor(self, self.inputs[0].iterate(ctx), ctx)


class _Branch:
    """One dataset of an interleave: its buffer is filled by a thread."""

    __slots__ = ("buffer", "thread", "element", "taken")

    def __init__(self, owner: Any, element: Any):
        self.buffer, self.element, self.taken = _Buffer(owner._stage.ahead), element, 0
        if isinstance(element, Failed):                # the input failed: that is all of this one
            self.buffer.items.extend((element, None))
            self.thread = None
            return
        self.thread = start_thread(_read_branch, owner._run, element, self.buffer, owner._background, owner._news)


def _read_branch(run: Any, element: tuple, buffer: _Buffer, ctx: Any, news: threading.Condition) -> None:
    try:
        cursor = stage_of(run(ctx, element)[0]).iterate(ctx)
    except BaseException as e:
        buffer.put(Failed(e))
        buffer.put(None)
        _tell(news)
        return
    item: Any = ()
    try:
        while item is not None and buffer.room():
            try:
                item = cursor.next(ctx.within(ctx.streams))
            except BaseException as e:
                item = Failed(e)
            buffer.put(item)
            _tell(news)
    finally:
        cursor.close()


def _tell(news: threading.Condition) -> None:
    with news:
        news.notify_all()


class _ParallelInterleaveCursor(Cursor):
    quick = False

    def __init__(self, stage: ParallelInterleave, source: Cursor, ctx: Any):
        self.inputs, self._stage, self._source = (source,), stage, source
        self._run, self._background = stage.body.runner(ctx), ctx.background()
        self._news = threading.Condition(threading.Lock())
        self._branches: dict[int, _Branch] = {}
        self._buffers: list = []
        self._finalizer = weakref.finalize(self, _stop_all, self._buffers, self._background)
        self._at = self._given = 0
        self._ended = False
        self._failed: collections.deque = collections.deque()

    def _open(self, place: int, ctx: Any) -> None:
        try:
            element: Any = self._source.next(ctx)
        except (errors.CancelledError, errors.DeadlineExceededError):
            raise
        except errors.OpError as e:
            element = Failed(e)
        if element is None:
            self._ended = True
            return
        branch = self._branches[place] = _Branch(self, element)
        self._buffers.append(branch.buffer)

    def _fill(self, ctx: Any) -> None:
        for place in range(self._stage.cycle):
            if self._ended:
                return
            if place not in self._branches:
                self._open(place, ctx)

    def next(self, ctx: Any) -> tuple | None:
        self._fill(ctx)
        while self._branches:
            place = self._choose(ctx)
            branch = self._branches[place]
            item = branch.buffer.take(ctx)
            if item is None:
                self._close(place)
                self._advance(place)
                if not self._ended:
                    self._open(place, ctx)
                continue
            branch.taken += 1
            self._given += 1
            if self._stage.stats is not None:
                self._stage.stats.histogram("thread_utilization", len(self._branches) / self._stage.cycle)
            if self._given >= self._stage.block:
                self._advance(place)
            return given(item)
        return None

    def save(self) -> Any:
        return {"input": self._source.save(), "at": self._at, "given": self._given, "ended": self._ended,
                "branches": [(i, plain(b.element), b.taken) for i, b in self._branches.items()]}

    def restore(self, state: Any, ctx: Any) -> None:
        self._source.restore(state["input"], ctx)
        self._at, self._given, self._ended = state["at"], state["given"], state["ended"]
        for place, element, taken in state["branches"]:
            branch = self._branches[place] = _Branch(self, tuple(element))
            self._buffers.append(branch.buffer)
            for _ in range(taken):
                branch.buffer.take(ctx)
            branch.taken = taken

    def _choose(self, ctx: Any) -> int:
        if self._stage.sloppy:
            with self._news:
                ctx.wait(self._news, lambda: any(b.buffer.items for b in self._branches.values()), lambda: _AHEAD)
            order = sorted(self._branches, key=lambda i: (i < self._at, i))
            return next(i for i in order if self._branches[i].buffer.items)
        while self._at not in self._branches:
            self._advance(self._at)
        return self._at

    def _advance(self, place: int) -> None:
        self._given, self._at = 0, (place + 1) % self._stage.cycle

    def _close(self, place: int) -> None:
        branch = self._branches.pop(place)
        branch.buffer.stop()
        self._buffers.remove(branch.buffer)

    def close(self) -> None:
        _stop_all(self._buffers, self._background)
        for b in self._branches.values():
            join_thread(b.thread)
        super().close()


def _stop_all(buffers: list, ctx: Any) -> None:
    ctx.cancellation.cancel(errors.CancelledError(None, None, "The iterator was closed."))
    for b in list(buffers):
        b.stop()


def adjusted(stage: Stage, ordered: bool | None, threads: int | None) -> Stage:
    """A copy of a pipeline whose parallel stages without an explicit choice are deterministic or not, and have at most so many
    threads."""
    stage = copy.copy(stage)
    stage.inputs = tuple(adjusted(s, ordered, threads) for s in stage.inputs)
    if isinstance(stage, ParallelMap):
        stage.ordered = ordered if stage.ordered is None else stage.ordered
        stage.threads = min(stage.threads, threads or stage.threads)
    if isinstance(stage, ParallelInterleave) and stage.sloppy is None and ordered is not None:
        stage.sloppy = not ordered
    return stage
