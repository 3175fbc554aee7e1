"""The base of queues: rows of components, a capacity, enqueues and dequeues in line, closing.

A subclass defines the order of rows (`_push`, `_pop`, `_give_back`) and how many may be taken (`_ready`). A row is stored as a
pair: the values it was enqueued with, and its index in them if they were a batch (-1 otherwise), so that a batch that is
dequeued whole is never split.

A dequeue of many rows takes them as they arrive, so that it can request more than the capacity of the queue. If the queue
closes or the step ends before it has all of them, they are put back.
"""
from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.data.queues.attempts import Attempt, Lines
from penstock._src.data.queues.shared import Shared
from penstock._src.kernels import arrays

Row = tuple[Sequence[Any], int]


def shown(dims: tuple) -> str:
    """A shape as messages of queues write it: [2,?]."""
    return arrays.show(["?" if d is None else d for d in dims])


class Queue(Shared):
    """A queue of rows; `kind` is its name in messages."""

    kind = "Queue"

    def __init__(self, name: str, types: Sequence[Any], shapes: Sequence[tuple], capacity: int, container: str = ""):
        super().__init__(name, container)
        self.types, self.shapes = list(types), [tuple(s) for s in shapes]
        self.capacity = capacity if capacity >= 0 else (1 << 31) - 1
        self.closed = False
        self.waiting = Lines(2, lambda: f"{'closed' if self.closed else 'open'} queue {self.name!r} with {len(self)} of at "
                                        f"most {self.capacity} elements")
        self.enqueues, self.dequeues = self.waiting.lines

    # -- the order of rows ------------------------------------------------------------------------------------------
    def __len__(self) -> int:
        raise NotImplementedError

    def _push(self, row: Row) -> None:
        raise NotImplementedError

    def _pop(self) -> Row:
        raise NotImplementedError

    def _push_all(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._push(row)

    def _pop_some(self, count: int) -> list[Row]:
        return [self._pop() for _ in range(count)]

    def _give_back(self, rows: list[Row]) -> None:
        """Puts back rows that were popped last, in that order."""
        raise NotImplementedError

    def _ready(self, wanted: int) -> int:
        """How many of `wanted` rows may be taken now."""
        return min(wanted, len(self))

    # -- operations -------------------------------------------------------------------------------------------------
    def enqueue(self, row: Sequence[Any], ctx: Any) -> None:
        """Adds one row, waiting for space."""
        self._check_types(row)
        if self.shapes:
            for i, (value, dims) in enumerate(zip(row, self.shapes, strict=True)):
                self._check_shape(i, dims, arrays.dims_of(value))
        self.waiting.run(_Enqueue(self, ((tuple(map(kept, row)), -1),)), self.enqueues, ctx)

    def enqueue_many(self, components: Sequence[Any], ctx: Any) -> None:
        """Adds the slices of the components as rows, one by one as there is space."""
        self._check_types(components)
        size = self._check_batch(components)
        if size:
            rows = list(zip(itertools.repeat(Batch(kept(c) for c in components)), range(size)))  # noqa: B905
            self.waiting.run(_Enqueue(self, rows), self.enqueues, ctx)

    def dequeue(self, ctx: Any) -> Sequence[Any]:
        """Takes one row, waiting for it."""
        return values_of(self.waiting.run(_Dequeue(self, 1, False), self.dequeues, ctx)[0])

    def dequeue_many(self, count: int, ctx: Any, fewer: bool = False) -> list:
        """Takes `count` rows (fewer after closing, if that is allowed) and stacks their components."""
        if len(self.shapes) != len(self.types):
            raise errors.invalid(f"{self.kind}'s DequeueMany and DequeueUpTo require the components to have specified shapes.")
        rows = self.waiting.run(_Dequeue(self, count, fewer), self.dequeues, ctx) if count else []
        return self.batch(rows)

    def close(self, cancel_pending_enqueues: bool = True, ctx: Any = None) -> None:
        """Ends enqueuing: after the enqueues that are waiting, or at once by cancelling them."""
        if not cancel_pending_enqueues:
            self.waiting.run(_Close(self), self.enqueues, ctx)
            return
        with self.waiting.lock:
            self.closed = True
            self.waiting.cancel(self.enqueues)
            self.waiting.flush()

    def size(self) -> int:
        """The number of rows."""
        return len(self)

    def at_end(self, wanted: int, have: int = 0) -> errors.OpError:
        """The error for a dequeue of more elements than a closed queue has."""
        return errors.OutOfRangeError(None, None, f"{self.kind} '{self.name}' is closed and has insufficient elements "
                                      f"(requested {wanted}, current size {have})")

    # -- batches ----------------------------------------------------------------------------------------------------
    def batch(self, rows: list[Row]) -> list:
        """The components of rows, stacked."""
        if not rows:
            return [_empty(t, dims) for t, dims in zip(self.types, self.shapes, strict=True)]
        source = rows[0][0]
        if rows[0][1] >= 0 and all(r[0] is source for r in rows):
            return [_taken(c, [i for _, i in rows]) for c in source]
        if self._alike and all(type(r[0]) is Batch for r in rows):
            return [_picked(i, rows) for i in range(len(source))]
        return [self._stack(i, values) for i, values in enumerate(zip(*map(values_of, rows), strict=True))]

    _alike = True                                       # whether all values of a component have its shape

    def _stack(self, i: int, values: Sequence[Any]) -> Any:
        return arrays.stack(values, 0)

    # -- checks -----------------------------------------------------------------------------------------------------
    def _check_types(self, row: Sequence[Any]) -> None:
        if len(row) != len(self.types):
            raise errors.invalid(f"The element has the wrong number of components: expected {len(self.types)}, got {len(row)}")
        for i, (value, dtype) in enumerate(zip(row, self.types, strict=True)):
            if getattr(value, "dtype", None) is not dtype.torch and isinstance(value, torch.Tensor):
                raise errors.invalid(f"Type mismatch in tuple component {i}. Expected {dtype.name}, got "
                                     f"{str(value.dtype).removeprefix('torch.')}")

    def _check_shape(self, i: int, expected: tuple, got: tuple) -> None:
        if expected != got:
            raise errors.invalid(f"Shape mismatch in tuple component {i}. Expected {shown(expected)}, got {shown(got)}")

    def _check_batch(self, components: Sequence[Any]) -> int:
        """The common first dimension of the components of a batch."""
        dims = [arrays.dims_of(c) for c in components]
        for i, d in enumerate(dims):
            if not d:
                raise errors.invalid(f"Component {i} of a batch must have a first dimension, got a scalar")
        size = dims[0][0]
        for i, d in enumerate(dims):
            if self.shapes:
                self._check_shape(i, (size, *self.shapes[i]), d)
            elif d[0] != size:
                raise errors.invalid("All input tensors must have the same size in the 0th dimension. Component "
                                     f"{i} has {d[0]}, and should have {size}")
        return size

    def check_same(self, capacity: int, types: Sequence[Any], shapes: Sequence[tuple]) -> None:
        """InvalidArgumentError unless a second op that shares this queue describes the same one."""
        capacity = capacity if capacity >= 0 else (1 << 31) - 1
        asked = {"capacity": (self.capacity, capacity), "component types": (_names(self.types), _names(types)),
                 "component shapes": (_shown(self.shapes), _shown([tuple(s) for s in shapes]))}
        for word, (have, want) in asked.items():
            if have != want:
                verb = "was" if word == "capacity" else "were"
                raise errors.invalid(f"Shared queue '{self.name}' has {word} {have} but requested {word} {verb} {want}")


class _Enqueue(Attempt):
    __slots__ = ("queue", "rows", "next")
    what = "Enqueue"

    def __init__(self, queue: Queue, rows: Sequence[Row]):
        super().__init__()
        self.queue, self.rows, self.next = queue, rows, 0

    def advance(self) -> bool:
        queue = self.queue
        if queue.closed:
            return self.fail(errors.CancelledError(None, None, f"{queue.kind} '{queue.name}' is closed."))
        room = min(queue.capacity - len(queue), len(self.rows) - self.next)
        if room <= 0:
            return False
        queue._push_all(self.rows if room == len(self.rows) else self.rows[self.next:self.next + room])
        self.next += room
        return self.finish() if self.next == len(self.rows) else True


class _Close(Attempt):
    __slots__ = ("queue",)
    what = "Close"

    def __init__(self, queue: Queue):
        super().__init__()
        self.queue = queue

    def advance(self) -> bool:
        if self.queue.closed:
            return self.fail(errors.CancelledError(None, None, f"Queue '{self.queue.name}' is already closed."))
        self.queue.closed = True
        return self.finish()


class _Dequeue(Attempt):
    __slots__ = ("queue", "count", "fewer")
    what = "Dequeue"

    def __init__(self, queue: Queue, count: int, fewer: bool):
        super().__init__()
        self.queue, self.count, self.fewer = queue, count, fewer
        self.result = []                                # the rows taken so far

    def advance(self) -> bool:
        queue, rows = self.queue, self.result
        missing = self.count - len(rows)
        if queue.closed and len(queue) < missing:
            have = len(queue)
            self.undo()
            if not (self.fewer and len(queue)):
                return self.fail(queue.at_end(missing, have))
            rows, missing = self.result, len(queue)
            self.count = missing
        ready = queue._ready(missing)
        if ready <= 0:
            return False
        rows.extend(queue._pop_some(ready))
        return self.finish(rows) if ready == missing else True

    def undo(self) -> None:
        if self.result:
            self.queue._give_back(self.result)
            self.result = []


# -- values -----------------------------------------------------------------------------------------------------------
def kept(value: Any) -> Any:
    """A value that may be kept. Values are immutable, except for fed arrays, which belong to the user."""
    if isinstance(value, torch.Tensor) and not (value.is_contiguous() and value.untyped_storage().resizable()):
        return value.clone(memory_format=torch.contiguous_format)
    return value


def values_of(row: Row) -> Sequence[Any]:
    """The values of a row."""
    source, at = row
    return source if at < 0 else [c[at] if isinstance(c, torch.Tensor) else c[at, ...] for c in source]


def _taken(batch: Any, places: list[int]) -> Any:
    """The slices of a batch at some places."""
    first, count = places[0], len(places)
    if places == list(range(first, first + count)):
        part = batch[first:first + count]
        return part if count == len(batch) or not isinstance(batch, torch.Tensor) else part.clone()
    return arrays.take(batch, torch.tensor(places), 0)


class Batch(list):
    """The components of rows that came together. `rows_of` is kept: rows are taken one by one, in any order."""

    __slots__ = ("_rows",)

    def rows_of(self, component: int) -> np.ndarray:
        """The rows of a component as rows of bytes, in place."""
        if not hasattr(self, "_rows"):
            self._rows: dict[int, np.ndarray] = {}
        if component not in self._rows:
            self._rows[component] = _bytes(self[component])
        return self._rows[component]


def _picked(component: int, rows: list[Row]) -> Any:
    """A component of rows from several batches: each is copied from its batch to its place."""
    first = rows[0][0][component]
    if not isinstance(first, torch.Tensor) or first.device.type != "cpu" or not first[0].numel():
        return arrays.stack([values_of(row)[component] for row in rows], 0)
    out = first.new_empty((len(rows), *first.shape[1:]))
    to = _bytes(out)
    for i, (batch, at) in enumerate(rows):
        to[i] = batch.rows_of(component)[at]             # type: ignore[attr-defined]
    return out


def _bytes(batch: torch.Tensor) -> np.ndarray:
    return batch.detach().reshape(len(batch), -1).view(torch.uint8).numpy()


def slices(batch: Any) -> Sequence[Any]:
    """The slices of a batch along its first dimension, independent of memory that is the user's."""
    if isinstance(batch, torch.Tensor):
        return kept(batch).unbind(0)
    return [batch[i, ...] for i in range(len(batch))]


def _empty(dtype: Any, dims: tuple) -> Any:
    dims = (0, *(d or 0 for d in dims))
    return np.empty(dims, dtype=object) if dtype.torch is None else torch.empty(dims, dtype=dtype.torch)


def _names(types: Sequence[Any]) -> str:
    return "[" + ", ".join(t.name for t in types) + "]"


def _shown(shapes: Sequence[tuple]) -> str:
    return "[" + ", ".join(map(shown, shapes)) + "]"
