"""An iterator whose elements go to several devices in turn."""
from __future__ import annotations

import collections
import itertools
import threading
from typing import Any

from penstock._src.base import errors
from penstock._src.data.pipelines.base import Cursor, Stage
from penstock._src.data.pipelines.values import check_types

_numbers = itertools.count()


class MultiDeviceIterator:
    """Element number i belongs to shard i modulo the number of devices. A reader that finds none reads further elements."""

    def __init__(self, devices: list[str], types: tuple, shapes: tuple, name: str = ""):
        self.devices, self.types, self.shapes = devices, types, shapes
        self.handle = f"penstock multi-device iterator {next(_numbers)} {name}".encode()
        self.incarnation = 0
        self._cursor: Cursor | None = None
        self._streams: dict = {}
        self._changed = threading.Condition(threading.Lock())
        self._reading = False

    def start(self, stage: Stage, most: int, ctx: Any) -> int:
        """Starts at the beginning of a dataset; returns the incarnation, which readers must pass."""
        check_types(self.types, self.shapes, stage.types, stage.shapes)
        streams: dict = {}
        cursor = stage.iterate(ctx.within(streams))
        with self._changed:
            ctx.wait(self._changed, lambda: not self._reading, self._about)
            old, self._cursor, self._streams = self._cursor, cursor, streams
            self._buffers: list = [collections.deque() for _ in self.devices]
            self._most, self._turn, self._ended = max(1, most), 0, False
            self.incarnation += 1
        if old is not None:
            old.close()
        return self.incarnation

    def next(self, shard: int, incarnation: int, ctx: Any) -> tuple:
        """The next element of a shard; OutOfRangeError at the end."""
        if not 0 <= shard < len(self.devices):
            raise errors.invalid(f"shard_num must be in [0, {len(self.devices)}), got {shard}")
        with self._changed:
            while True:
                self._check(incarnation)
                if self._buffers[shard]:
                    self._changed.notify_all()
                    return self._given(self._buffers[shard].popleft())
                if self._ended:
                    raise errors.OutOfRangeError(None, None, "End of sequence")
                if self._reading or len(self._buffers[self._turn]) >= self._most:
                    ctx.wait(self._changed, lambda: self._movable(shard, incarnation), self._about)
                else:
                    self._read(ctx)

    def _about(self) -> str:
        if self._reading:
            return "a multi-device iterator, from whose dataset another call reads"
        return f"a multi-device iterator, until device {self.devices[self._turn]} takes one of its {self._most} elements"

    def _movable(self, shard: int, incarnation: int) -> bool:
        return bool(incarnation != self.incarnation or self._buffers[shard] or self._ended or
                    not self._reading and len(self._buffers[self._turn]) < self._most)

    def _check(self, incarnation: int) -> None:
        if self._cursor is None:
            raise errors.FailedPreconditionError(None, None, "The multi-device iterator has not been initialized")
        if incarnation != self.incarnation:
            raise errors.invalid(f"Invalid incarnation id. Provided: {incarnation}; Expected: {self.incarnation}")

    @staticmethod
    def _given(item: Any) -> tuple:
        if isinstance(item, Exception):
            raise item
        return item

    def _read(self, ctx: Any) -> None:
        """Reads one element into the buffer of its shard. Other readers wait meanwhile."""
        self._reading = True
        self._changed.release()
        item: Any = None
        try:
            item = self._cursor.next(ctx.within(self._streams))          # type: ignore[union-attr]
        except errors.OpError as e:
            item = e
        finally:
            self._changed.acquire()
            self._reading = False
            self._changed.notify_all()
        if item is None:
            self._ended = True
        else:
            self._buffers[self._turn].append(item)
            self._turn = (self._turn + 1) % len(self._buffers)

    def close(self) -> None:
        """Ends the background work of the iterator."""
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            cursor.close()
