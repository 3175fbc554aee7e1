"""First in, first out."""
from __future__ import annotations

import collections
import itertools
from typing import Any

import torch

from penstock._src.data.queues.attempts import Attempt
from penstock._src.data.queues.base import Queue, Row, values_of


class FIFOQueue(Queue):
    """Rows come out in the order in which they went in."""

    kind = "FIFOQueue"

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.rows: collections.deque[Row] = collections.deque()
        vars(self).update(_push=self.rows.append, _push_all=self.rows.extend, _pop=self.rows.popleft)     # instead of methods
        self._tokens: Any = None                        # the batch that put_tokens has added last

    def __len__(self) -> int:
        return len(self.rows)

    def _give_back(self, rows: list[Row]) -> None:
        self.rows.extendleft(reversed(rows))

    # -- tokens of synchronous training: a row is the number of a step ------------------------------------------------------
    def put_tokens(self, tokens: torch.Tensor) -> None:
        """Adds tokens, replacing the remaining ones of the previous call. It reopens a closed queue."""
        with self.waiting.lock:
            left = [row for row in self.rows if row[0] is not self._tokens]
            self._tokens, self.closed = [tokens], False
            self.rows.clear()                           # in place: `_push` and `_pop` are its methods
            self.rows.extend(left)
            self.rows.extend(zip(itertools.repeat(self._tokens), range(len(tokens))))  # noqa: B905
            self.waiting.flush()

    def take_token(self, local_step: int, ctx: Any) -> torch.Tensor:
        """Takes a token of another step than `local_step`, or one that was enqueued; a waiter does not block others."""
        line = self.waiting.add()
        try:
            return values_of(self.waiting.run(_Take(self, local_step), line, ctx))[0]
        finally:
            self.waiting.drop(line)


class _Take(Attempt):
    __slots__ = ("queue", "local_step")
    what = "Dequeue"

    def __init__(self, queue: FIFOQueue, local_step: int):
        super().__init__()
        self.queue, self.local_step = queue, local_step

    def advance(self) -> bool:
        queue = self.queue
        for i, row in enumerate(queue.rows):
            if row[0] is not queue._tokens or int(row[0][0][row[1]]) != self.local_step:
                del queue.rows[i]
                return self.finish(row)
        return self.fail(queue.at_end(1)) if queue.closed else False

    def undo(self) -> None:
        if self.result is not None:
            self.queue._give_back([self.result])
