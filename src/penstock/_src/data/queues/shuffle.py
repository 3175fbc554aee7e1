"""A queue that returns its rows in random order, and the same order as TensorFlow for the same seeds."""
from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from penstock._src.base import errors
from penstock._src.data.queues.base import Queue, Row
from penstock._src.kernels.philox import Philox

_BLOCKS = 256           # counters drawn at a time


class RandomShuffleQueue(Queue):
    """Rows are dequeued at random. While it is open, at least `min_after_dequeue` rows stay, so that the order is random
    enough."""

    kind = "RandomShuffleQueue"

    def __init__(self, *args: Any, min_after_dequeue: int = 0, seed: int = 0, seed2: int = 0, **kwargs: Any):
        super().__init__(*args, **kwargs)
        if min_after_dequeue < 0:
            raise errors.invalid(f"min_after_dequeue {min_after_dequeue} must be >= 0")
        if min_after_dequeue >= self.capacity:
            raise errors.invalid(f"min_after_dequeue {min_after_dequeue} must be < capacity {self.capacity}")
        self.min_after_dequeue, self.seeds = min_after_dequeue, (seed, seed2)
        self.rows: list[Row] = []
        drawn = (seed, seed2) if seed or seed2 else (secrets.randbits(64), secrets.randbits(64))
        self._stream = Philox.seeded(*drawn)
        self._words: list[int] = []

    def __len__(self) -> int:
        return len(self.rows)

    def _push(self, row: Row) -> None:
        self.rows.append(row)

    def _push_all(self, rows: Sequence[Row]) -> None:
        self.rows.extend(rows)

    def _pop(self) -> Row:
        return self._pop_some(1)[0]

    def _pop_some(self, count: int) -> list[Row]:
        rows, found = self.rows, []
        left = len(rows)
        for _ in range(count):
            if not self._words:
                self._words = self._stream.words(_BLOCKS).flatten().tolist()[::-1]
                self._stream = self._stream.skip(_BLOCKS)
            at = self._words.pop() % left
            last = rows.pop()
            left -= 1
            if at < left:
                found.append(rows[at])
                rows[at] = last
            else:
                found.append(last)
        return found

    def _give_back(self, rows: list[Row]) -> None:
        self.rows.extend(reversed(rows))

    def _ready(self, wanted: int) -> int:
        return min(wanted, len(self.rows) - (0 if self.closed else self.min_after_dequeue))

    def check_same(self, capacity: int, types: Sequence[Any], shapes: Sequence[tuple], min_after_dequeue: int = 0,
                   seed: int = 0, seed2: int = 0) -> None:
        """InvalidArgumentError unless a second op that shares this queue describes the same one."""
        super().check_same(capacity, types, shapes)
        if min_after_dequeue != self.min_after_dequeue:
            raise errors.invalid(f"Shared queue '{self.name}' has min_after_dequeue {self.min_after_dequeue} but requested "
                                 f"min_after_dequeue was {min_after_dequeue}.")
        if (seed or seed2) and (seed, seed2) != self.seeds:
            raise errors.invalid(f"Shared queue '{self.name}' has random seeds {self.seeds} but requested seeds are "
                                 f"{(seed, seed2)}.")
