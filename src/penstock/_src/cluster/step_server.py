"""The worker's end of a step link: one thread that runs the steps which a master requests, in sequence.

The thread reads the link itself while a part waits for a value (`pump`), so that a message wakes the thread that needs it.
While an op waits for a queue, the link is not read: aborts come over the tasks' shared link. The last values that a part sends
to the master are sent with its answer. Messages may overtake each other if some are large: a value that arrives before its step
has begun is kept, and one for a finished step is dropped.
"""
from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any

from penstock._src.base import errors, tf_logging
from penstock._src.base.waits import spent
from penstock._src.cluster.exchange import Exchange, Sent, keys_of, values_of
from penstock._src.cluster.link import Link, described
from penstock._src.cluster.pump import Pump
from penstock._src.cluster.task_engine import Part
from penstock._src.cluster.wire import Head
from penstock._src.execute.context import StepContext
from penstock._src.graph.messages import RunMetadata

if TYPE_CHECKING:
    from penstock._src.cluster.worker import Worker

QUICK = 0.0005                      # seconds: parts that take less, and wait for nothing, send only one message
_DONE = Head({"do": "done"})


@functools.lru_cache(maxsize=4096)
def _with(keys: tuple) -> Head:
    return Head({"do": "done", "keys": keys})


class _All:
    """What everything is in."""

    def __contains__(self, _: Any) -> bool:
        return True


ALL = _All()


class StepServer:
    """Serves one link."""

    def __init__(self, worker: Worker, link: Link):
        self._worker, self._link = worker, link
        self._master = link.peer, link.incarnation
        self._steps = f"{link.incarnation:x}:"
        self._exchange: Exchange | None = None           # of the step that runs now
        self._pump = Pump([link], self._while_running, self._ended)
        link.on_end(lambda link: self._ended(link, link.error))         # type: ignore[arg-type]

    def serve(self) -> None:
        """Runs steps until the link ends."""
        link = self._link
        try:
            while True:
                waited, moved = spent.waited, spent.moved
                header, values = link.next()
                do = header.get("do")
                if do == "run":
                    began = time.monotonic() - (spent.moved - moved)
                    self._run(header, values)
                    self._worker.account.add(began, waited, moved)
                elif do == "tensor":                     # for a step that has not begun, or is over
                    self._worker.tensor(header, values)
                del header, values
        except Exception as e:                           # the link has ended, or should
            if link.error is None:
                tf_logging.error("A message of %s could not be handled: %r", link.peer, e)
        finally:
            link.close()

    def _while_running(self, _: Link, header: dict[str, Any], values: list[Any]) -> None:
        if header.get("do") == "tensor":
            self._worker.tensor(header, values)

    def _ended(self, _: Link, error: errors.OpError) -> None:
        exchange = self._exchange
        if exchange is not None:
            self._worker.abort(exchange.step, error)

    def _run(self, header: dict[str, Any], values: list[Any]) -> None:
        """Runs one part, and sends the master the result with the queued values."""
        number = header["number"]
        head: Head | dict[str, Any] = _DONE
        results: Any = ()
        try:
            results, sent = self._result(header, values)
            if sent:
                head, results = _with(keys_of(sent)), [*results, *values_of(sent)]
        except Exception as e:
            head, results = {"do": "done", "error": described(e)}, ()
        try:
            began = time.monotonic()
            self._link.post(head, results, number)
            spent.moved += time.monotonic() - began
        except errors.UnavailableError:
            raise
        except errors.OpError as e:                      # a value that cannot be sent
            self._link.post({"do": "done", "error": described(e)}, (), number)

    def _result(self, header: dict[str, Any], values: list[Any]) -> tuple[Any, list[Sent] | None]:
        """What the part fetches, and what it sends along."""
        worker = self._worker
        session = worker.session(header["session"])
        part = session.parts.get(header["part"])
        if part is None:
            raise errors.AbortedError(None, None, f"Graph {header['part']} is not found on {worker.peers.task}.")
        ctx = session.engine.step_context(header.get("timeout"))
        step = f"{self._steps}{header['number']}"
        exchange = self._exchange = worker.begin(step, ctx, self._master)
        try:
            if self._link.error is not None:             # it ended before `_ended` could know of this step
                raise self._link.error
            exchange.links[self._link.peer] = self._link
            exchange.format = session.format
            if "keys" in header:                         # values that came along
                exchange.take(header["keys"], values[part.feeds:])
                del values[part.feeds:]
            stats = RunMetadata() if header.get("trace") else None
            results = self._run_reading(exchange, part, ctx, values, stats)
        finally:
            exchange.pump = self._exchange = None
            worker.end(step)
        return [*results, stats.SerializeToString()] if stats is not None else results, \
            exchange.waiting_to_go.pop(self._link, None)

    def _run_reading(self, exchange: Exchange, part: Part, ctx: StepContext, values: Any, stats: Any) -> tuple:
        """Runs a part while the link is read: on the same thread, if possible."""
        if part.on_one_thread and stats is None:
            exchange.pump = self._pump
            exchange.joins = ALL if part.waits_for_nothing and part.seconds < QUICK else part.joins
            return self._worker.run(part, ctx, values)
        return self._worker.run_beside(part, ctx, values, stats, self._pump)
