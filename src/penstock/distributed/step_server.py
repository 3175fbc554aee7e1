"""The worker's end of a step link: one thread that runs the steps which a master asks for, one after the other.

The thread reads the link itself while a part waits (`pump`), so that a message wakes the thread that wants it. What a short part
sends to the master goes with its answer. Messages may overtake each other if some are large: a value that comes before its step
has begun waits for it, and what comes for a step that is over is dropped.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import errors, tf_logging
from penstock.distributed.exchange import Exchange
from penstock.distributed.link import Link, described
from penstock.distributed.pump import Pump
from penstock.distributed.task_session import Part
from penstock.distributed.wire import Head
from penstock.execute.context import StepContext
from penstock.execute.rendezvous import DEAD
from penstock.graph.messages import RunMetadata

if TYPE_CHECKING:
    from penstock.distributed.worker import Worker

QUICK = 0.0005                      # seconds of work: parts that take less, and wait for nothing, send only one message
_DONE = Head({"do": "done"})
_MOST_HEADS = 64


class StepServer:
    """Serves one link."""

    def __init__(self, worker: Worker, link: Link):
        self._worker, self._link = worker, link
        self._master = link.peer, link.incarnation
        self._steps = f"{link.incarnation:x}:"
        self._exchange: Exchange | None = None           # of the step that runs now
        self._pump = Pump([link], self._while_running, self._ended)
        self._heads: dict[tuple[str, ...], Head] = {}    # of answers, by what they bring along

    def serve(self) -> None:
        """Runs steps until the link ends."""
        link = self._link
        try:
            while True:
                header, values = link.next()
                do = header.get("do")
                if do == "run":
                    self._run(header, values)
                elif do in ("tensor", "abort"):
                    self._early(do, header, values)
                del header, values
        except Exception as e:                           # the link has ended, or should
            if link.error is None:
                tf_logging.error("A message of %s could not be handled: %r", link.peer, e)
        finally:
            link.close()

    def _early(self, do: str, header: dict[str, Any], values: list[Any]) -> None:
        """Something for a step that has not begun, or is over."""
        if do == "tensor":
            self._worker.tensor(header, values[0])
        else:
            self._worker.abort(f"{self._steps}{header['number']}", errors.AbortedError(None, None, str(header["why"])))

    def _while_running(self, _: Link, header: dict[str, Any], values: list[Any]) -> None:
        exchange, do = self._exchange, header.get("do")
        if exchange is None or header.get("number") != exchange.number:
            if do in ("tensor", "abort"):
                self._early(do, header, values)
        elif do == "tensor":
            exchange.take(header["key"], header["dead"], values[0], header["form"])
        elif do == "abort":
            self._worker.abort(exchange.step, errors.AbortedError(None, None, str(header["why"])))

    def _ended(self, _: Link, error: errors.OpError) -> None:
        if self._exchange is not None:
            self._worker.abort(self._exchange.step, error)

    def _run(self, header: dict[str, Any], values: list[Any]) -> None:
        """Runs one part, and tells the master the result, with the values that have waited for it."""
        number = header["number"]
        head: Head | dict[str, Any] = _DONE
        results: Any = ()
        try:
            results, held = self._result(header, values)
            if held:
                head = self._with_held(held)
                results = [*results, *[None if value is DEAD else value for _, value, _ in held]]
        except Exception as e:
            head, results = {"do": "done", "error": described(e)}, ()
        try:
            self._link.post(head, results, number)
        except OSError as e:
            self._link.end(errors.UnavailableError(None, None, f"{self._link.peer} cannot be reached: {e}"))
        except errors.UnavailableError:
            raise
        except errors.OpError as e:                      # a value that cannot be sent
            self._link.post({"do": "done", "error": described(e)}, (), number)

    def _with_held(self, held: list[tuple[str, Any, Any]]) -> Head:
        key = tuple([k for k, value, form in held if form is None and value is not DEAD])
        plain = len(key) == len(held)
        head = self._heads.get(key) if plain else None
        if head is None:
            head = Head({"do": "done", "held": [[k, value is DEAD, form] for k, value, form in held]})
            if plain:
                if len(self._heads) >= _MOST_HEADS:
                    self._heads.clear()
                self._heads[key] = head
        return head

    def _result(self, header: dict[str, Any], values: list[Any]) -> tuple[Any, list[tuple[str, Any, Any]] | None]:
        """What the part fetches, and what it sends along."""
        worker = self._worker
        session = worker.session(header["session"])
        part = session.parts.get(header["part"])
        if part is None:
            raise errors.AbortedError(None, None, f"Graph {header['part']} is not found on {worker.peers.task}.")
        ctx = session.session.step_context(header.get("timeout"))
        exchange = self._exchange = worker.begin(f"{self._steps}{header['number']}", ctx, self._master)
        exchange.links[self._link.peer] = self._link
        exchange.format = session.format
        stats = RunMetadata() if header.get("trace") else None
        try:
            results = self._run_reading(exchange, part, ctx, values, stats)
        finally:
            exchange.pump = self._exchange = None
        return [*results, stats.SerializeToString()] if stats is not None else results, exchange.held

    def _run_reading(self, exchange: Exchange, part: Part, ctx: StepContext, values: Any, stats: Any) -> tuple:
        """Runs a part while the link is read: by the same thread, if that can do both."""
        if part.on_one_thread and stats is None:
            exchange.pump = self._pump
            if part.waits_for_nothing and part.seconds < QUICK:
                exchange.held = []
            return self._worker.run(exchange, part, ctx, values)
        return self._worker.run_beside(exchange, part, ctx, values, stats, self._pump)
