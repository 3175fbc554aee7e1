"""A queue ordered by its first component."""
from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from penstock._src.base import dtypes, errors
from penstock._src.data.queues.base import Queue, Row
from penstock._src.kernels import arrays


class PriorityQueue(Queue):
    """The row of least priority (an int64 scalar, the first component) comes out first; equal ones in the order of insertion.

    A batch is sorted, so that it is taken at once when there are enough rows, and not as they come.
    """

    kind = "PriorityQueue"

    def __init__(self, name: str, types: Any, shapes: Any, *args: Any, **kwargs: Any):
        types, shapes = [dtypes.int64, *types], [(), *shapes] if shapes or not types else []
        super().__init__(name, types, shapes, *args, **kwargs)
        self._heap: list[tuple[int, int, Row]] = []
        self._count = itertools.count()

    def __len__(self) -> int:
        return len(self._heap)

    def enqueue(self, row: Sequence[Any], ctx: Any) -> None:
        """Adds one row, waiting for space."""
        self._check_priority(row, 0)
        super().enqueue(row, ctx)

    def enqueue_many(self, components: Any, ctx: Any) -> None:
        """Adds the slices of the components as rows, one by one as there is space."""
        self._check_priority(components, 1)
        super().enqueue_many(components, ctx)

    def extend(self, rows: Iterable[Sequence[Any]]) -> None:
        """Adds rows that are known to fit, without waiting."""
        with self.waiting.lock:
            for row in rows:
                self._push((row, -1))
            self.waiting.flush()

    def _check_priority(self, row: Any, rank: int) -> None:
        dims = arrays.dims_of(row[0]) if row else ()
        if not self.shapes and dims and len(dims) != rank:
            raise errors.invalid("Expected the priority element to be a scalar, but received shape: "
                                 f"{arrays.show(dims[rank:])}")

    def _push(self, row: Row) -> None:
        source, at = row
        heapq.heappush(self._heap, (int(source[0] if at < 0 else source[0][at]), next(self._count), row))

    def _pop(self) -> Row:
        return heapq.heappop(self._heap)[2]

    def _give_back(self, rows: list[Row]) -> None:
        for row in rows:
            self._push(row)

    def _ready(self, wanted: int) -> int:
        return wanted if len(self._heap) >= wanted else 0

    def check_same(self, capacity: int, types: Any, shapes: Any) -> None:
        """InvalidArgumentError unless a second op that shares this queue describes the same one."""
        super().check_same(capacity, [dtypes.int64, *types], [(), *shapes] if shapes or not types else [])
