"""First in, first out."""
from __future__ import annotations

import collections
from typing import Any

from penstock.queues.base import Queue, Row


class FIFOQueue(Queue):
    """Rows come out in the order in which they went in."""

    kind = "FIFOQueue"

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.rows: collections.deque[Row] = collections.deque()
        self._push = self.rows.append                   # type: ignore[method-assign]
        self._pop = self.rows.popleft                   # type: ignore[method-assign]

    def __len__(self) -> int:
        return len(self.rows)

    def _give_back(self, rows: list[Row]) -> None:
        self.rows.extendleft(reversed(rows))
