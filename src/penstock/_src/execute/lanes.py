"""Runs a step of several partitions: one thread per lane, including the caller's, connected by a rendezvous.

A lane has the ops of one or more partitions, compiled together in the order of the step. The first error of any lane is the
step's: it aborts the rendezvous and cancels blocking ops, so that the other lanes end immediately, and is then raised.
"""
from __future__ import annotations

import functools
import queue
import threading
import types
from collections.abc import Callable
from typing import Any

from penstock._src.base import service
from penstock._src.execute.dataflow import Executor
from penstock._src.execute.rendezvous import LocalRendezvous
from penstock._src.graph.failure import typed
from penstock._src.step.compile.program import compile_lane, wait_for_each_other
from penstock._src.step.ir import Node, StepGraph
from penstock._src.step.partition.split import Partition
from penstock._src.step.runnable import Runnable

IDLE_SECONDS = 10.0                 # idle seconds after which a thread ends, if its session was not closed


class Threads:
    """Threads that run lanes, kept between steps: as many as are needed at once."""

    def __init__(self) -> None:
        self._idle: list[queue.SimpleQueue] = []
        self._lock = threading.Lock()
        self._closed = False

    def start(self, work: Callable[[], None]) -> None:
        """Runs `work` on an idle thread."""
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            inbox = queue.SimpleQueue()
            service.started(threading.Thread(target=self._serve, args=(inbox,), daemon=True, name="penstock lane"))
        inbox.put(work)

    def _serve(self, inbox: queue.SimpleQueue) -> None:
        while True:
            try:
                work = inbox.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if inbox in self._idle:
                        self._idle.remove(inbox)
                        return
                continue                              # it has just been assigned work
            if work is None:
                return
            work()
            del work
            with self._lock:
                if self._closed:
                    return
                self._idle.append(inbox)

    def close(self) -> None:
        """Ends the threads; busy ones end after their work."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for inbox in idle:
            inbox.put(None)


class Lane:
    """The ops of some partitions as one runnable: which feeds of the step it takes, which fetches it returns."""

    __slots__ = ("runnable", "feeds", "fetches")

    def __init__(self, runnable: Runnable, feeds: list[int], fetches: list[int]):
        self.runnable, self.feeds, self.fetches = runnable, feeds, fetches

    def run(self, ctx: Any, values: tuple, results: list) -> None:
        """Runs the lane, and puts what it fetches into `results`."""
        for i, value in zip(self.fetches, self.runnable.run(ctx, *[values[i] for i in self.feeds]), strict=True):
            results[i] = value


class _Joint:
    """The state that the lanes of one run share: how many are running, and the first error."""

    def __init__(self, ctx: Any, others: int):
        self.ctx, self.left = ctx, others
        self.rendezvous = ctx.rendezvous
        self.error: BaseException | None = None
        self._lock = threading.Lock()
        self._done = threading.Event()
        if not others:
            self._done.set()

    def fail(self, error: BaseException) -> None:
        """The first error ends the step for all."""
        with self._lock:
            if self.error is not None:
                return
            self.error = error
        self.rendezvous.abort(error)
        self.ctx.cancellation.cancel(error)

    def one_done(self, count: int = 1) -> None:
        """A lane has ended, or several have not begun."""
        with self._lock:
            self.left -= count
            if not self.left:
                self._done.set()

    def wait(self) -> None:
        """Waits until all lanes have ended. At the deadline, or on Ctrl-C, they are cancelled."""
        while not self._done.is_set():
            try:
                self._done.wait(self.ctx.remaining() if self.error is None else None)
            except BaseException as e:
                self.fail(e)


class LanesRun(Runnable):
    """A step of several partitions. `run(ctx, *feeds)` returns the fetched values; any number of threads may call it."""

    def __init__(self, lanes: list[Lane], threads: Threads):
        self.lanes, self.threads = lanes, threads
        self.fetches = sum(len(lane.fetches) for lane in lanes)

    def run(self, ctx: Any, *values: Any) -> tuple:
        """One step."""
        results: list = [None] * self.fetches
        ctx.rendezvous = rendezvous = ctx.rendezvous or LocalRendezvous()     # or that of a step across tasks
        mine, *others = self.lanes
        if not others:
            mine.run(ctx, values, results)
            return tuple(results)
        joint = _Joint(ctx, len(others))
        release = ctx.cancellation.on_cancel(lambda: rendezvous.abort(ctx.cancellation.error))
        begun = 0
        try:
            try:
                for lane in others:
                    self.threads.start(functools.partial(_work, lane, ctx, values, results, joint))
                    begun += 1
                mine.run(ctx, values, results)
            except BaseException as e:
                joint.fail(typed(e, mine.runnable.failing_op(e.__traceback__)))
                if begun < len(others):
                    joint.one_done(len(others) - begun)
            joint.wait()
        finally:
            release()
        if joint.error is not None:
            error, joint.error = joint.error, None
            raise error
        return tuple(results)

    def failing_op(self, traceback: types.TracebackType | None) -> Node | None:
        """The op whose statement raised; errors of several lanes have their op already."""
        return next((op for op in (lane.runnable.failing_op(traceback) for lane in self.lanes) if op is not None), None)

    def __str__(self) -> str:
        return "\n".join(f"# lane {i}\n{lane.runnable.text()}" for i, lane in enumerate(self.lanes))


def compile_lanes(lanes: list[list[Partition]], ctx: Any, threads: Threads, by_tokens: bool = False) -> LanesRun:
    """A runnable for partitions, grouped by the thread that runs them. If several ops of the step may wait for each other, or
    it has control flow, or `by_tokens`, lanes run on the dataflow executor, where an op that can run never waits."""
    all_ops = [op for parts in lanes for p in parts for op in p.positions]
    by_tokens = by_tokens or wait_for_each_other(all_ops) or any(op.opdef.control_flow for op in all_ops)
    compiler: Callable = Executor if by_tokens else compile_lane
    out = []
    for parts in lanes:
        where = {op: position for p in parts for op, position in p.positions.items()}
        feeds, fetches = [f for p in parts for f in p.feeds], [f for p in parts for f in p.fetches]
        given = {t.op for _, t in feeds}
        ops = sorted((op for op in where if op not in given), key=where.__getitem__)
        step = StepGraph.of(ops, [t for _, t in fetches], [], [t for _, t in feeds])
        runnable = compiler(step.ops, step.fetches, step.feeds, ctx, step.placed if ctx.devices.mixed else None)
        out.append(Lane(runnable, [i for i, _ in feeds], [i for i, _ in fetches]))
    return LanesRun(out, threads)


def _work(lane: Lane, ctx: Any, values: tuple, results: list, joint: _Joint) -> None:
    try:
        lane.run(ctx, values, results)
    except BaseException as e:
        joint.fail(typed(e, lane.runnable.failing_op(e.__traceback__)))
    finally:
        joint.one_done()
