"""The base classes of input pipelines. A *stage* is a dataset as a value; a *cursor* is a position in it, which returns
elements.

An element is a tuple of run-time values. `Cursor.next` returns one, or None at the end. Small elements are passed in blocks if
it cannot be observed when they are computed: `Cursor.block` returns a *block*, a tuple of columns (see
`values`) with between 1 and `limit` rows, or None at the end. Calls of both may alternate. `Cursor.blocks`
tells whether blocks are cheaper than elements; it may become False later, but `block` still works.

Errors count as elements: after an exception, the next call continues with the following element.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

from penstock._src.data.pipelines import values

INFINITE, UNKNOWN = -1, -2          # cardinalities that are not numbers of elements
MOST_ROWS = 1024                    # of a block that is computed ahead of its use
_MOST_BYTES = 1 << 20
_DEEP, _CALLS = 50, 10              # stages that every stack has room for; calls for each of them, at most
_MOST_CALLS = 20_000                # some calls do take room on the thread's stack: deeper pipelines are a RecursionError


def most_rows(columns: tuple) -> int:
    """The number of such rows to compute at once, ahead of their use."""
    return min(MOST_ROWS, max(1, _MOST_BYTES // max(1, sum(map(values.row_bytes, columns)))))


class Function(Protocol):
    """A function that stages call (see `ops.data.dataset_base.Body`)."""

    def runner(self, ctx: Any) -> Callable:
        """A callable f(ctx, element) -> values of the outputs."""


class Stage:
    """A dataset as a value: immutable, but for what iterations of it share (a cache, a generator of seeds)."""

    types: tuple = ()
    shapes: tuple = ()              # static shapes of the components
    inputs: tuple = ()
    depth: int = 1                  # of the stages that it is made of, one in another
    label: str = ""                 # its name in statistics, where that is not the name of the op that made it
    stats: Any = None               # where statistics of its work go (see `data.pipelines.statistics`)
    recipe: Any = None              # the op that made it (see `ops.data.dataset_recipe`)

    def iterate(self, ctx: Any) -> Cursor:
        """A new cursor, at the start."""
        raise NotImplementedError

    def cardinality(self) -> int:
        """The number of elements, INFINITE or UNKNOWN."""
        return UNKNOWN

    def cardinality_of_input(self) -> int:
        """The cardinality of the one input."""
        return self.inputs[0].cardinality()


def make_room(stage: Stage) -> None:
    """Notes how deep a new stage is, and lets Python's stack hold the calls through its inputs: programs add one dataset per
    file to another."""
    stage.depth = 1 + max((s.depth for s in stage.inputs), default=0)
    if stage.depth % _DEEP == 0:
        sys.setrecursionlimit(max(sys.getrecursionlimit(), min(_MOST_CALLS, _CALLS * (stage.depth + 2 * _DEEP))))


class Cursor:
    """A position in a stage."""

    blocks = False
    inputs: tuple = ()              # the cursors that this one reads

    @property
    def quick(self) -> bool:
        """Whether elements are produced without waiting, files and side effects: then it is unobservable when they are
        computed."""
        return bool(self.inputs) and all(c.quick for c in self.inputs)

    def next(self, ctx: Any) -> tuple | None:
        """The next element; None at the end."""
        raise NotImplementedError

    def block(self, ctx: Any, limit: int) -> tuple | None:
        """Between 1 and `limit` further elements as columns; None at the end."""
        element = self.next(ctx)
        return None if element is None else tuple(map(values.single, element))

    def jump(self, count: int) -> int:
        """Passes over up to `count` elements without computing them; returns over how many."""
        return 0

    def close(self) -> None:
        """Ends threads and frees resources. Nothing is read afterwards."""
        for c in self.inputs:
            c.close()

    def save(self) -> Any:
        """The position as plain data: numbers, text, bytes, None, values, and lists, tuples and dicts of them."""
        raise NotImplementedError(f"The position of {type(self).__name__} cannot be saved.")

    def restore(self, state: Any, ctx: Any) -> None:
        """Restores a position returned by `save`."""
        raise NotImplementedError(f"The position of {type(self).__name__} cannot be restored.")


class BlockCursor(Cursor):
    """A cursor that produces blocks. Single elements are taken from blocks, whose size grows while they are consumed."""

    blocks = True

    def __init__(self) -> None:
        self._columns: tuple = ()               # the block that is being given out, its rows once they are requested,
        self._rows: list | None = None
        self._at = self._count = 0              # and what was given out of how many
        self._size, self._most = 1, MOST_ROWS

    def produce(self, ctx: Any, limit: int) -> tuple | None:
        """The next block; None at the end. It may have more than `limit` rows if reading ahead cannot be observed."""
        raise NotImplementedError

    def next(self, ctx: Any) -> tuple | None:
        """The next element; None at the end."""
        i = self._at
        if i < self._count:
            if self._rows is None:
                self._rows = values.elements(self._columns)
            self._at = i + 1
            return self._rows[i]
        columns = self._take(self.produce(ctx, self._size))
        if columns is None:
            return None
        if self._size == 1:
            self._most = most_rows(columns)
        self._size = min(self._most, self._size * 2)
        self._at = 1
        return tuple(values.row(c, 0) for c in columns)

    def _take(self, columns: tuple | None) -> tuple | None:
        """Sets the current block."""
        self._columns, self._rows, self._at = columns or (), None, 0
        self._count = 0 if columns is None else len(columns[0])
        return columns

    def block(self, ctx: Any, limit: int) -> tuple | None:
        """Between 1 and `limit` further elements as columns; None at the end."""
        if self._at >= self._count:
            columns = self.produce(ctx, limit)
            if columns is None or len(columns[0]) <= limit:
                self._take(None)
                return columns
            self._take(columns)
        i = self._at
        self._at = min(self._count, i + limit)
        return tuple(c[i:self._at] for c in self._columns)

    def save(self) -> Any:
        """The position after the current block, and its remaining rows."""
        left = tuple(c[self._at:] for c in self._columns) if self._at < self._count else None
        return {"pending": left, "position": self.position()}

    def restore(self, state: Any, ctx: Any) -> None:
        """Restores a position returned by `save`."""
        self._take(None if state["pending"] is None else tuple(state["pending"]))
        self.go_to(state["position"], ctx)

    def position(self) -> Any:
        """The position of the next block of `produce`."""
        raise NotImplementedError(f"The position of {type(self).__name__} cannot be saved.")

    def go_to(self, position: Any, ctx: Any) -> None:
        """Makes `produce` continue from a position."""
        raise NotImplementedError(f"The position of {type(self).__name__} cannot be restored.")
