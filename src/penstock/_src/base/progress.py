"""What this process reports of its training: the newest scalars of summaries, and checkpoints. The status page shows them.

Whatever writes a summary or a checkpoint notes it here; nothing is computed or kept beyond the newest values.
"""
from __future__ import annotations

import collections

from penstock._src.base import clock

_MOST_TAGS = 50
_MOST_SAVES = 10


class Progress:
    """See `process`, the only instance."""

    def __init__(self) -> None:
        self.scalars: dict[str, tuple[int, float]] = {}      # step and value by tag
        self.saves: collections.deque[tuple[float, str, float]] = collections.deque(maxlen=_MOST_SAVES)

    def scalar(self, tag: str, step: int, value: float) -> None:
        """A scalar was written to a summary."""
        if tag in self.scalars or len(self.scalars) < _MOST_TAGS:
            self.scalars[tag] = step, value

    def saved(self, path: str, seconds: float) -> None:
        """A checkpoint was written, in so many seconds."""
        self.saves.append((clock.steady(), path, seconds))


process = Progress()
