"""Runs a step across tasks: carries out the actions of the step's state machine (`step_state.py`) for a master.

The thread that requested the step sends each task its part, runs this task's own, and reads the links of the step while it
waits. A cancellation may come from any other thread.
"""
from __future__ import annotations

import functools
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

from penstock._src.base import errors
from penstock._src.base.waits import spent
from penstock._src.cluster.exchange import Exchange, Sent, keys_of, values_of
from penstock._src.cluster.link import Link, made_error
from penstock._src.cluster.pump import Pump
from penstock._src.cluster.step_state import Abort, Actions, CancelOwn, Deliver, EndBy, Finish, MasterStep, StepPlan
from penstock._src.cluster.task_engine import Part
from penstock._src.cluster.tasks import Tasks
from penstock._src.cluster.wire import Head
from penstock._src.cluster.worker import WorkerSession
from penstock._src.step.partition.split import Partition
from penstock._src.step.runnable import Runnable

_MOST_HEADS = 64                    # of requests for one part, that are kept
_numbers = itertools.count(1)       # of the steps of this process


class RemotePart:
    """The part of one other task: its number there, the feeds it takes, and the fetches it returns."""

    __slots__ = ("task", "number", "feeds", "fetches", "request", "heads")

    def __init__(self, session: str, task: str, number: int, part: Partition):
        self.task, self.number = task, number
        self.request = {"do": "run", "session": session, "part": number}
        self.heads: dict[tuple, Head] = {}                   # by what goes along
        self.feeds, self.fetches = sorted(i for i, _ in part.feeds), sorted(i for i, _ in part.fetches)


class OwnPart:
    """The part of this task, with the feeds it takes and the fetches it returns."""

    __slots__ = ("part", "feeds", "fetches")

    def __init__(self, part: Part, feeds: list[int], fetches: list[int]):
        self.part, self.feeds, self.fetches = part, feeds, fetches


class TaskStep(Runnable):
    """A step that several tasks run together. `here` is what its session has at this task."""

    def __init__(self, tasks: Tasks, here: WorkerSession, own: OwnPart | None, others: list[RemotePart], fetches: int):
        self.tasks, self.here, self.own = tasks, here, own
        self.others = {p.task: p for p in others}
        self.plan = StepPlan({p.task: p.fetches for p in others}, own.fetches if own is not None else None, fetches)

    def run(self, ctx: Any, *values: Any, metadata: Any = None) -> tuple:
        """One step."""
        return _Run(self, ctx, values, metadata).go()

    def failing_op(self, traceback: Any) -> None:
        """The parts have already added the op to the error."""
        return None

    def __str__(self) -> str:
        own = [f"# {self.tasks.own}\n{self.own.part.runnable.text()}"] if self.own is not None else []
        return "\n".join([*own, *(f"# {p.task}: part {p.number}" for p in self.others.values())])


class _Run:
    """One run of a step."""

    def __init__(self, step: TaskStep, ctx: Any, values: tuple, metadata: Any):
        self.its, self.ctx, self.values, self.metadata = step, ctx, values, metadata
        self.tasks, self.worker = step.tasks, step.tasks.worker
        number = next(_numbers)
        self.name = f"{self.tasks.steps}{number}"
        self.state = MasterStep(number, step.plan)
        self.lock = threading.Lock()                         # around events, which a cancelling thread may bring too
        self.finish: Finish | None = None
        self.end_by: float | None = None                     # when a failed step gives up waiting
        self.own_ctx = step.here.engine.step_context(None)
        self.own_ctx.deadline, self.own_ctx.step_id = ctx.deadline, ctx.step_id

    def go(self) -> tuple:
        """Runs the step; returns what it fetches."""
        began, waited, moved = time.monotonic(), spent.waited, spent.moved
        try:
            return self._go()
        finally:
            self.worker.account.add(began, waited, moved)

    def _go(self) -> tuple:
        exchange = self.worker.begin(self.name, self.own_ctx, None)
        exchange.format = self.its.here.format
        links = self._connect()
        for link in links:
            exchange.links[link.peer] = link
        pump = exchange.pump = Pump.again(links, self._handle, self._link_ended)
        release = self.ctx.cancellation.on_cancel(functools.partial(self._cancelled, pump))
        exchange.parted = functools.partial(self._parted, pump)
        try:
            self._start(exchange)
            self._run_own(exchange, pump)
            if self.finish is None:
                self._wait(pump)
        except BaseException as e:
            self._feed(self.state.own_failed, e)
        finish = self.finish or self._end(pump)
        release()
        exchange.pump = exchange.parted = None
        pump.rest()
        self.worker.end(self.name)
        for link in links:
            if link.peer in finish.dropped:
                link.close()
            else:
                self.worker.peers.give_back(link)
        if finish.error is not None:
            raise finish.error
        return finish.values

    # -- events and actions -------------------------------------------------------------------------------------------
    def _feed(self, event: Callable[..., Actions], *about: Any) -> None:
        """Passes an event to the state machine, and carries out the resulting actions."""
        with self.lock:
            actions = event(*about)
        for action in actions:
            if type(action) is Deliver:
                self.own_ctx.rendezvous.take(action.keys, action.values)
            elif type(action) is Finish:
                self.finish = action
            elif type(action) is CancelOwn:
                self.worker.abort(self.name, action.error)
            elif type(action) is Abort:
                self._abort(action)
            elif type(action) is EndBy:
                self.end_by = time.monotonic() + action.seconds

    def _abort(self, action: Abort) -> None:
        """Aborts go over the tasks' shared link: the step's own is not read while its part waits for a queue."""
        try:
            self.tasks.links[action.task].post({"do": "abort", "master": self.tasks.steps[:-1], "why": action.why}, None,
                                               self.state.number)
        except errors.OpError:
            pass                                             # lost: the pump will notice

    def _handle(self, link: Link, header: dict[str, Any], values: list[Any]) -> None:
        do, number = header.get("do"), header.get("number")
        if do == "tensor":
            self._feed(self.state.tensor, number, header["keys"], values)
        elif do == "done":
            said = header.get("error")
            if said is not None:
                self._feed(self.state.part_failed, link.peer, number, made_error(said))
                return
            fetched = len(self.its.others[link.peer].fetches)
            rest = values[fetched:]
            if self.metadata is not None and number == self.state.number:
                self.metadata.MergeFromString(rest.pop(0))
            self._feed(self.state.part_done, link.peer, number, values[:fetched], header.get("keys"), rest)

    def _cancelled(self, pump: Pump) -> None:
        self._feed(self.state.cancelled, self.ctx.cancellation.error)
        pump.wake()

    def _parted(self, pump: Pump, task: str, other: str, why: str) -> None:
        self._feed(self.state.parted, task, other, why)
        pump.wake()

    def _link_ended(self, link: Link, error: errors.OpError) -> None:
        self._feed(self.state.task_lost, link.peer, error)

    # -- the course of a step -----------------------------------------------------------------------------------------
    def _connect(self) -> list[Link]:
        """A link to each task that can be reached; the step fails if one cannot."""
        found = []
        for task in self.its.others:
            try:
                found.append(self.tasks.borrow(task))
            except errors.OpError as e:
                self._feed(self.state.task_lost, task, e)
                break
        return found

    def _start(self, exchange: Exchange) -> None:
        """Starts the parts of all tasks: at once, or together with the values that this task sends before it first waits."""
        left, trace = self.ctx.remaining(), self.metadata is not None
        for task, in self.state.start():
            link, part = exchange.links[task], self.its.others[task]
            feeds = [self.values[i] for i in part.feeds]
            exchange.openings[link] = functools.partial(self._begin, link, part, feeds, left, trace)
        if self.its.own is None or not self.its.own.part.begins_lightly:
            exchange.flush_all()

    def _begin(self, link: Link, part: RemotePart, values: list, left: float | None, trace: bool, sent: list[Sent]) -> None:
        with self.lock:
            if not self.state.begins(part.task):
                return
        keys = keys_of(sent)
        head = part.heads.get(keys) if left is None and not trace else None
        if head is None:
            head = Head({**part.request, **({"keys": keys} if keys else {}), **({"timeout": left} if left is not None else {}),
                         **({"trace": True} if trace else {})})
            if left is None and not trace and len(part.heads) < _MOST_HEADS:
                part.heads[keys] = head
        link.post(head, values + values_of(sent) if sent else values, self.state.number)

    def _run_own(self, exchange: Exchange, pump: Pump) -> None:
        own = self.its.own
        if self.state.error is not None:
            raise self.state.error
        if own is None:
            return
        part, values = own.part, tuple([self.values[i] for i in own.feeds])
        if part.on_one_thread and not part.blocks and self.metadata is None:
            exchange.joins = part.joins
            got = self.worker.run(part, self.own_ctx, values)
            exchange.flush_all()
        else:
            exchange.pump = None                             # others run it, while this thread reads
            exchange.flush_all()
            got = self.worker.run_beside(part, self.own_ctx, values, self.metadata, pump)
        self._feed(self.state.own_done, got)

    def _wait(self, pump: Pump) -> None:
        """Reads until all parts have ended, or the step has failed."""
        state, ctx = self.state, self.ctx
        try:
            with ctx.waiting(lambda: f"the parts of a step on {', '.join(state.waits_for)}", remote=True) as waited:
                while self.finish is None and state.error is None:
                    pump.once(waited.patience(ctx.remaining()))
        except errors.DeadlineExceededError:
            self._feed(state.deadline_passed)

    def _end(self, pump: Pump) -> Finish:
        """Returns the result of the step; after a failure, waits for the parts of other tasks as long as the state machine
        requires."""
        while self.finish is None:
            left = None if self.end_by is None else self.end_by - time.monotonic()
            if left is not None and left <= 0:
                self._feed(self.state.time_is_up)
            else:
                pump.once(left)
        return self.finish
