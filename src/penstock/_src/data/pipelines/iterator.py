"""Iterators as resources: a cursor that steps share, one of them at a time."""
from __future__ import annotations

import itertools
import threading
import weakref
from typing import Any

from penstock._src.base import errors, marks
from penstock._src.data.pipelines.base import Cursor, Stage
from penstock._src.data.pipelines.devices import MultiDeviceIterator
from penstock._src.data.pipelines.values import check_types

_numbers = itertools.count()


class IteratorResource:
    """An iterator. `start` assigns it a dataset, and may be called again."""

    def __init__(self, types: tuple, shapes: tuple, name: str = ""):
        self.types, self.shapes, self.name = types, shapes, name
        self.handle = f"penstock iterator {next(_numbers)} {name}".encode()
        self._cursor: Cursor | None = None
        self._stage: Stage | None = None
        self._turn = threading.Condition(threading.Lock())
        self._busy = False
        self._streams: dict = {}
        self._failed: Exception | None = None

    stage = property(lambda self: self._stage, doc="Its dataset; None before it is started.")

    def start(self, stage: Stage, ctx: Any) -> None:
        """Starts at the beginning of a dataset of the right types."""
        check_types(self.types, self.shapes, stage.types, stage.shapes)
        streams: dict = {}
        cursor = stage.iterate(ctx.within(streams))
        self._enter(ctx)
        try:
            old, self._cursor, self._stage, self._streams = self._cursor, cursor, stage, streams
        finally:
            self._leave()
        if old is not None:
            old.close()

    def fail(self, error: Exception) -> None:
        """Makes every further use raise."""
        self._failed = error

    def next(self, ctx: Any) -> tuple:
        """The next element; OutOfRangeError at the end."""
        element = self.next_or_none(ctx)
        if element is None:
            raise errors.OutOfRangeError(None, None, "End of sequence")
        return element

    def next_or_none(self, ctx: Any) -> tuple | None:
        """The next element; None at the end."""
        if marks.recording():
            with marks.block(marks.GET_NEXT):
                return self._next(ctx)
        return self._next(ctx)

    def _next(self, ctx: Any) -> tuple | None:
        self._enter(ctx)
        try:
            return self._ready().next(ctx.within(self._streams))
        finally:
            self._leave()

    def _ready(self) -> Cursor:
        if self._failed is not None:
            raise self._failed
        if self._cursor is None:
            raise errors.FailedPreconditionError(
                None, None, "GetNext() failed because the iterator has not been initialized. Ensure that you have run the "
                            "initializer operation for this iterator before getting the next element.")
        return self._cursor

    def _enter(self, ctx: Any) -> None:
        with self._turn:
            if self._busy:
                ctx.wait(self._turn, lambda: not self._busy, lambda: "an iterator, from which another call reads")
            self._busy = True

    def _leave(self) -> None:
        with self._turn:
            self._busy = False
            self._turn.notify()

    def save(self, ctx: Any) -> Any:
        """The position as plain data (see `Cursor.save`)."""
        self._enter(ctx)
        try:
            return self._ready().save()
        finally:
            self._leave()

    def restore(self, state: Any, ctx: Any) -> None:
        """Restores a position in the same dataset, which must have been started."""
        self._enter(ctx)
        try:
            if self._stage is None:
                self._ready()
            within = ctx.within(self._streams)
            cursor = self._stage.iterate(within)                 # type: ignore[union-attr]
            cursor.restore(state, within)
            old, self._cursor = self._cursor, cursor
        finally:
            self._leave()
        if old is not None:
            old.close()

    def close(self) -> None:
        """Ends the background work of the iterator."""
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            cursor.close()


class Handles:
    """Iterators by their string handles, in one set of resources."""

    def __init__(self) -> None:
        self._known: weakref.WeakValueDictionary = weakref.WeakValueDictionary()

    @classmethod
    def of(cls, ctx: Any) -> Handles:
        """Those of a session, or of the process."""
        return ctx.resources.get_or_create("", "iterator handles", cls, cls)

    def name(self, iterator: IteratorResource | MultiDeviceIterator) -> bytes:
        """The string handle of an iterator."""
        self._known[iterator.handle] = iterator
        return iterator.handle

    def find(self, handle: bytes) -> IteratorResource | MultiDeviceIterator:
        """The iterator of a string handle."""
        found = self._known.get(handle)
        if found is None:
            raise errors.invalid(f"The string handle {handle!r} does not name an iterator of this session.")
        return found
