"""Reductions beside computation: a thread of each member that reduces buckets of arrays while its step continues.

A bucket is handed over as soon as its arrays are there, and waited for when its result is needed. Buckets are reduced one at a
time, in the order in which they were handed over, which is that of the program and so the same for all members. With
priorities, the first member chooses, among the buckets that it has, the one that is needed first, and tells the others.
"""
from __future__ import annotations

import collections
import threading
import time
from typing import TYPE_CHECKING

import torch

from penstock._src.base import errors
from penstock._src.base.waits import wait_for

if TYPE_CHECKING:
    from penstock._src.collective.group import Group, Limit

SEQUENCE = "buckets"
_SPANS = 10_000                     # reductions that are remembered, for timelines


class Bucket:
    """Arrays on their way."""

    def __init__(self, inputs: list[torch.Tensor], number: int, how: str, limit: Limit, about: str):
        self.inputs, self.number, self.how, self.limit, self.about = inputs, number, how, limit, about
        self.there = threading.Event()
        self._outputs: list[torch.Tensor] = []
        self._error: errors.OpError | None = None

    def finish(self, outputs: list[torch.Tensor], error: errors.OpError | None = None) -> None:
        """The result is there, or will not come."""
        self._outputs, self._error, self.inputs = outputs, error, []
        self.there.set()

    def wait(self, limit: Limit) -> list[torch.Tensor]:
        """The sums, in the shapes of the inputs."""
        if not self.there.is_set():
            limit.wait(self.there, lambda: self.about)
        if self._error is not None:
            raise self._error
        return self._outputs


class Mover:
    """The thread of one member. It ends with its group."""

    def __init__(self, group: Group, rank: int):
        self._group, self._rank = group, rank
        self._changed = threading.Condition()
        self._waiting: list[Bucket] = []
        self._prioritize = False
        self._closed = False
        self.spans: collections.deque[tuple[str, float, float]] = collections.deque(maxlen=_SPANS)
        self._thread = threading.Thread(target=self._work, name=f"penstock buckets of {group.members[rank]}", daemon=True)
        group._hub.threads.add(self._thread)
        self._thread.start()

    def start(self, bucket: Bucket, prioritize: bool) -> Bucket:
        """Hands a bucket over."""
        with self._changed:
            if self._closed:
                raise self._group.error or errors.CancelledError(None, None, "The collective group has ended.")
            self._prioritize = prioritize
            self._waiting.append(bucket)
            self._changed.notify_all()
        return bucket

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
            try:
                bucket = self._next()
            except Exception as e:
                self._fail(e if isinstance(e, errors.OpError) else errors.InternalError(None, None, f"{type(e).__name__}: {e}"))
                continue
            if bucket is None:
                return
            began = time.monotonic()
            try:
                bucket.finish(self._reduced(bucket))
            except errors.OpError as e:
                bucket.finish([], e)
            except Exception as e:
                bucket.finish([], errors.InternalError(None, None, f"{bucket.about}: {type(e).__name__}: {e}"))
            self.spans.append((bucket.about, began, time.monotonic()))

    def _next(self) -> Bucket | None:
        """The bucket that is reduced now; None if the group has ended."""
        if not self._prioritize:
            with self._changed:
                return self._waiting.pop(0) if self._waiting else None
        first = self._waiting[0]
        with self._changed:
            number = min(b.number for b in self._waiting)
        if self._group.size > 1:
            number = int(self._group.broadcast(self._rank, "bucket order", torch.tensor([number]), 0, limit=first.limit,
                                               about=first.about))
        with self._changed:
            wait_for(self._changed, lambda: self._closed or any(b.number == number for b in self._waiting),
                     lambda: f"bucket {number} of {self._group.members[self._rank]}, which the first member reduces next",
                     first.limit.left)
            found = next((b for b in self._waiting if b.number == number), None)
            if found is not None:
                self._waiting.remove(found)
            return found

    def _reduced(self, bucket: Bucket) -> list[torch.Tensor]:
        inputs = bucket.inputs
        together = torch.cat([x.reshape(-1) for x in inputs])
        total = self._group.all_reduce(self._rank, SEQUENCE, together, how=bucket.how, limit=bucket.limit, about=bucket.about,
                                       sequence=SEQUENCE, in_place=True)
        return [part.view(x.shape) for x, part in zip(inputs, total.split([x.numel() for x in inputs]), strict=True)]

    def _fail(self, error: errors.OpError) -> None:
        with self._changed:
            waiting, self._waiting = self._waiting, []
        for bucket in waiting:
            bucket.finish([], error)

    def close(self, error: errors.OpError) -> None:
        """Ends the thread, and what is handed over, with an error."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._fail(error)
