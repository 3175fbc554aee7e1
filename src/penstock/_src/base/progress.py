"""What this process reports of its training: the newest scalars of summaries and of `fit`, checkpoints, and the steps that it
runs itself (`tf.function`, `fit`, sessions without a target). The status page shows them.

Whatever writes a summary or a checkpoint notes it here; nothing is computed or kept beyond the newest values. Steps are counted
while a server of this process reports them.
"""
from __future__ import annotations

import collections
import contextlib
import time
from collections.abc import Iterator

from penstock._src.base import clock
from penstock._src.base.waits import Account, spent

_MOST_TAGS = 50
_MOST_SAVES = 10


class Progress:
    """See `process`, the only instance."""

    def __init__(self) -> None:
        self.scalars: dict[str, tuple[int, float]] = {}      # step and value by tag
        self.saves: collections.deque[tuple[float, str, float]] = collections.deque(maxlen=_MOST_SAVES)
        self.account = Account()
        self.reporters = 0                           # servers that report the steps

    def scalar(self, tag: str, step: int, value: float) -> None:
        """A scalar was written to a summary."""
        if tag in self.scalars or len(self.scalars) < _MOST_TAGS:
            self.scalars[tag] = step, value

    def saved(self, path: str, seconds: float) -> None:
        """A checkpoint was written, in so many seconds."""
        self.saves.append((clock.steady(), path, seconds))

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Counts a step, which this thread runs inside of no other."""
        began, waited, moved = time.monotonic(), spent.waited, spent.moved
        spent.inside += 1
        try:
            yield
        finally:
            spent.inside -= 1
            if not spent.inside:
                self.account.steps += 1
                self.account.add(began, waited, moved)


process = Progress()
