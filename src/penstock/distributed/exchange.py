"""The rendezvous of a step that runs on several tasks, as one of them sees it.

What is for an op of this task waits here, as in a step of one task. What is for another task is pushed to it at once: the
sender knows where the value is wanted, so nobody has to ask. A value may come before its step has begun here; it waits.
"""
from __future__ import annotations

import time
from typing import Any

from penstock.distributed.peers import Peers
from penstock.execute.rendezvous import DEAD, LocalRendezvous


class Exchange(LocalRendezvous):
    """One step's values at one task."""

    __slots__ = ("step", "task", "_peers", "since")

    def __init__(self, step: str, peers: Peers):
        super().__init__()
        self.step, self.task, self._peers = step, peers.task, peers
        self.since = time.monotonic()                # when it was made

    def send(self, key: str, value: Any) -> None:
        """Leaves a value for its receiver, here or at another task."""
        target = key.split(";", 3)[2]
        task = target[:target.rindex("/device:")]
        if task == self.task:
            super().send(key, value)
            return
        if self.error is not None:
            raise self.error
        dead = value is DEAD
        self._peers.get(task).post({"do": "tensor", "step": self.step, "key": key, "dead": dead}, [None if dead else value])

    def take(self, key: str, dead: bool, value: Any) -> None:
        """A value that another task has sent."""
        if self.error is None:
            super().send(key, DEAD if dead else value)
