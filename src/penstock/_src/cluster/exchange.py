"""The rendezvous of a step that runs on several tasks, as one of them sees it.

Values for ops of this task wait here, as in a step of one task. Values for another task are pushed to it at once: the sender
knows the destination of each value, so there are no requests. A value that arrives before its step has begun here is kept.

Between the master and the others of a step, values travel on the step's own link, which the thread that needs them reads
itself (`pump`). Small values that are sent right after each other travel together (`joins`): with the next one that has to go
at once, before the part waits for a value, or with the message that begins or ends the part.
"""
from __future__ import annotations

import functools
import time
from collections.abc import Callable, Container
from typing import Any

from penstock._src.base.waits import spent
from penstock._src.cluster.formats import decode, encode
from penstock._src.cluster.link import Link
from penstock._src.cluster.peers import Peers
from penstock._src.cluster.pump import Pump
from penstock._src.cluster.wire import Head
from penstock._src.execute.rendezvous import DEAD, LocalRendezvous, parse_key

HOLD = 64 << 10                     # bytes: larger values are sent at once


Sent = tuple[str, Any, Any]         # key, value (or DEAD), and its format


class Exchange(LocalRendezvous):
    """One step's values at one task."""

    __slots__ = ("step", "task", "_peers", "links", "pump", "joins", "waiting_to_go", "openings", "format", "parted")

    def __init__(self, step: str, peers: Peers):
        super().__init__()
        self.step, self.task, self._peers = step, peers.task, peers
        self.links: dict[str, Link] = {}             # the step's own, by the task at the other end
        self.pump: Pump | None = None                # set where one thread runs all of the part, and reads these links
        self.joins: Container[str] = ()              # edges whose values may travel with what is sent next
        self.waiting_to_go: dict[Link, list[Sent]] = {}
        self.openings: dict[Link, Callable[[list[Sent]], None]] = {}      # what must be sent first over a link, if anything
        self.format = ""                             # in which values go to other tasks (formats.py)
        self.parted: Callable[[str, str, str], None] | None = None       # at the master: two tasks have lost their connection

    def send(self, key: str, value: Any) -> None:
        """Sends a value to its receiver, here or at another task."""
        task, edge = _ends(key)
        if task == self.task:
            super().send(key, value)
            return
        if self.error is not None:
            raise self.error
        link = self.links.get(task)
        if self.format:
            began = time.monotonic()
            value, form = encode(value, self.format)
            spent.moved += time.monotonic() - began
        else:
            form = None
        if link is None or self.pump is None:
            self._post(link or self._peers.get(task), [(key, value, form)])
            return
        waiting = self.waiting_to_go.setdefault(link, [])
        waiting.append((key, value, form))
        if edge not in self.joins or getattr(value, "nbytes", 0) > HOLD:
            self.flush(link)

    def flush(self, link: Link) -> None:
        """Sends the values that are queued for a link of the step."""
        sent, opening = self.waiting_to_go.pop(link, ()), self.openings.pop(link, None)
        if opening is not None:
            began = time.monotonic()
            opening(list(sent))
            spent.moved += time.monotonic() - began
        elif sent:
            self._post(link, list(sent))

    def flush_all(self) -> None:
        """Sends all queued values."""
        for link in (*self.openings, *self.waiting_to_go):
            self.flush(link)

    def _post(self, link: Link, sent: list[Sent]) -> None:
        master, _, number = self.step.partition(":")
        began = time.monotonic()
        link.post(_head(master, *keys_of(sent)), values_of(sent), int(number))
        spent.moved += time.monotonic() - began

    def take(self, keys: Any, values: Any) -> None:
        """Values that another task has sent, under keys as `keys_of` returns them."""
        if self.error is not None:
            return
        for (key, dead, form), value in zip(keys, values, strict=True):
            super().send(key, DEAD if dead else decode(value, form))
        if self.pump is not None:
            self.pump.wake()

    def recv(self, key: str, ctx: Any) -> Any:
        """Returns the value; reads the step's links until it has arrived."""
        pump = self.pump
        if pump is None:
            return super().recv(key, ctx)
        if self.waiting_to_go or self.openings:
            self.flush_all()
        values = self._values
        if key not in values and self.error is None:
            with ctx.waiting(lambda: _edge(key), remote=True) as waited:
                while key not in values and self.error is None:
                    pump.once(waited.patience(ctx.remaining()))
        with self._lock:
            if self.error is not None:
                raise self.error
            return values.pop(key)

    def abort(self, error: BaseException) -> None:
        """Wakes all waiters with an error."""
        super().abort(error)
        if self.pump is not None:
            self.pump.wake()


@functools.lru_cache(maxsize=65536)
def _ends(key: str) -> tuple[str, str]:
    """The task that receives what is sent under a key, and the edge."""
    _, _, target, edge, _ = key.split(";")
    return target[:target.rindex("/device:")], edge


def keys_of(sent: list[Sent]) -> tuple:
    """The description of values that the receiver needs: for each its key, whether it is dead, and its format."""
    return tuple([(key, value is DEAD, None if form is None else tuple(form)) for key, value, form in sent])


def values_of(sent: list[Sent]) -> list[Any]:
    """The values in their wire format."""
    return [None if value is DEAD else value for _, value, _ in sent]


@functools.lru_cache(maxsize=4096)
def _head(master: str, *keys: tuple) -> Head:
    return Head({"do": "tensor", "master": master, "keys": keys})


def _edge(key: str) -> str:
    source, _, target, edge, _ = parse_key(key)
    return f"{edge} from {source} to {target}"
