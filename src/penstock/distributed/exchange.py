"""The rendezvous of a step that runs on several tasks, as one of them sees it.

What is for an op of this task waits here, as in a step of one task. What is for another task is pushed to it at once: the
sender knows where the value is wanted, so nobody has to ask. A value may come before its step has begun here; it waits.

Between the master and the others of a step, values travel on the step's own link, which the thread that wants them reads
itself (`pump`). A part that is over in no time keeps what it sends to the master for its answer (`held`).
"""
from __future__ import annotations

import functools
import time
from typing import Any

from penstock.distributed.formats import decode, encode
from penstock.distributed.link import Link
from penstock.distributed.peers import Peers
from penstock.distributed.pump import Pump
from penstock.distributed.wire import Head
from penstock.execute.rendezvous import DEAD, LocalRendezvous, parse_key

_HOLD = 64 << 10                    # bytes: larger values are not kept back


class Exchange(LocalRendezvous):
    """One step's values at one task."""

    __slots__ = ("step", "number", "task", "_peers", "since", "links", "pump", "held", "format")

    def __init__(self, step: str, peers: Peers):
        super().__init__()
        self.step, self.task, self._peers = step, peers.task, peers
        self.number = int(step.rpartition(":")[2])   # of those that its master has begun
        self.since = time.monotonic()                # when it was made
        self.links: dict[str, Link] = {}             # the step's own, by the task at the other end
        self.pump: Pump | None = None                # set where one thread runs all of the part, and reads these links
        self.held: list[tuple[str, Any, Any]] | None = None     # key, value, and its format
        self.format = ""                             # in which values go to other tasks (formats.py)

    def send(self, key: str, value: Any) -> None:
        """Leaves a value for its receiver, here or at another task."""
        task = _task_at(key)
        if task == self.task:
            super().send(key, value)
            return
        if self.error is not None:
            raise self.error
        link = self.links.get(task)
        value, form = encode(value, self.format) if self.format else (value, None)
        if self.held is not None and link is not None and getattr(value, "nbytes", 0) <= _HOLD:
            self.held.append((key, value, form))
            return
        dead = value is DEAD
        head = _head(self.step.partition(":")[0], key) if not dead and form is None else \
            Head({"do": "tensor", "master": self.step.partition(":")[0], "key": key, "dead": dead, "form": form})
        (link or self._peers.get(task)).post(head, [None if dead else value], self.number)

    def take(self, key: str, dead: bool, value: Any, form: Any) -> None:
        """A value that another task has sent."""
        if self.error is None:
            super().send(key, DEAD if dead else decode(value, form))
            if self.pump is not None:
                self.pump.wake()

    def recv(self, key: str, ctx: Any) -> Any:
        """The value; reads the step's links until it is there."""
        pump = self.pump
        if pump is None:
            return super().recv(key, ctx)
        values = self._values
        if key not in values and self.error is None:
            with ctx.waiting(lambda: _edge(key)) as waited:
                while key not in values and self.error is None:
                    pump.once(waited.patience(ctx.remaining()))
        with self._lock:
            if self.error is not None:
                raise self.error
            return values.pop(key)

    def abort(self, error: BaseException) -> None:
        """Wakes all who wait, with an error."""
        super().abort(error)
        if self.pump is not None:
            self.pump.wake()


@functools.lru_cache(maxsize=65536)
def _task_at(key: str) -> str:
    """The task that receives what is sent under a key."""
    target = key.split(";", 3)[2]
    return target[:target.rindex("/device:")]


@functools.lru_cache(maxsize=65536)
def _head(master: str, key: str) -> Head:
    return Head({"do": "tensor", "master": master, "key": key, "dead": False, "form": None})


def _edge(key: str) -> str:
    source, _, target, edge, _ = parse_key(key)
    return f"{edge} from {source} to {target}"
