"""Readers: records from the files in a queue, and the position of a reader.

A *source* returns the (key, value) pairs of one piece of work, lazily; a Reader goes from one piece of work to the next. The
ops over readers are in `ops.io.reader`.
"""
from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from penstock._src.base import dtypes, errors
from penstock._src.base.api import LazyModule
from penstock._src.io import paths
from penstock._src.io.record import Inflated, RecordReader

messages = LazyModule("penstock._src.graph.messages")

_PIECE = 1 << 18              # bytes that are read at once
Pair = tuple[bytes, bytes]
Source = Callable[[bytes], Iterator[Pair]]


# -- sources ----------------------------------------------------------------------------------------------------------
def whole_file(work: bytes) -> Iterator[Pair]:
    """A file as one record; its name is the key."""
    yield work, paths.read_bytes(work)


def identity(work: bytes) -> Iterator[Pair]:
    """The work itself as a record."""
    yield work, work


def text_lines(work: bytes, skip: int = 0) -> Iterator[Pair]:
    """The lines of a file, without their ends; keys are file:line number."""
    with paths.open_file(work) as file, paths.typed(work):
        for number, line in enumerate(itertools.islice(file, skip, None), skip + 1):
            text = line[:-1] if line.endswith(b"\n") else line
            yield b"%b:%d" % (work, number), text.replace(b"\r", b"") if b"\r" in text else text


def records(work: bytes, compression: str = "") -> Iterator[Pair]:
    """The records of a TFRecord file; keys are file:offset."""
    reader = RecordReader(work, compression)
    try:
        while True:
            offset = reader.offset
            data = reader.read()
            if data is None:
                return
            yield b"%b:%d" % (work, offset), data
    finally:
        reader.close()


def fixed_length(work: bytes, header: int, record: int, footer: int, hop: int, encoding: str = "") -> Iterator[Pair]:
    """Records of equal length between a header and a footer, `hop` bytes apart; keys are file:number."""
    raw = paths.open_file(work)
    file = Inflated(raw, encoding, work, _PIECE) if encoding else raw
    try:
        with paths.typed(work):
            if len(_read(file, header)) < header:
                raise errors.OutOfRangeError(None, None, f"{paths.as_text(work)} is shorter than its header of {header} bytes")
            buffer, at = b"", 0
            for number in itertools.count():
                if len(buffer) - at < record + footer:
                    left, ahead = buffer[at:], max(at - len(buffer), 0)
                    if ahead and len(_read(file, ahead)) < ahead:
                        return
                    buffer, at = left + _read(file, max(record + footer - len(left), _PIECE)), 0
                    if len(buffer) < record + footer:
                        return
                yield b"%b:%d" % (work, number), buffer[at:at + record]
                at += hop
    finally:
        file.close()


def _read(file: Any, n: int) -> bytes:
    """n bytes, fewer only at the end of the file; memory grows with the file, not with n."""
    if n <= _PIECE:
        return file.read(n)
    pieces = []
    while n > 0 and (piece := file.read(min(n, 1 << 24))):
        pieces.append(piece)
        n -= len(piece)
    return b"".join(pieces)


# -- readers ----------------------------------------------------------------------------------------------------------
class Reader:
    """Records of all work items in a queue. One step reads at a time; the others wait, and can be cancelled."""

    def __init__(self, name: str, source: Source, single: bool = False, container: str = ""):
        self.name, self.container = name, container
        self._source, self._single = source, single         # single: a piece of work is one record
        self._free = threading.Condition()
        self._busy = False
        self._reset()

    def _reset(self) -> None:
        self.started = self.finished = self.produced = 0
        self._work = b""
        self._pairs: Iterator[tuple[bytes, bytes]] = iter(())

    def read(self) -> Any:
        """The value of a reference to the reader."""
        return np.array([self.container.encode(), self.name.encode()], dtype=object)

    def __enter__(self) -> None:
        """Held by the call whose turn it is (`_turn`)."""

    def __exit__(self, *exc: Any) -> None:
        with self._free:
            self._busy = False
            self._free.notify()

    def _turn(self, ctx: Any) -> Reader:
        with self._free:
            if self._busy:
                ctx.wait(self._free, lambda: not self._busy, lambda: f"reader {self.name!r}, from which another call reads")
            self._busy = True
        return self

    def next(self, queue: Any, ctx: Any) -> Pair:
        """The next record."""
        return self.next_many(1, queue, ctx)[0]

    def next_many(self, count: int, queue: Any, ctx: Any) -> list[Pair]:
        """At most `count` records, all of one piece of work; at least one."""
        with self._turn(ctx):
            while True:
                if self.started == self.finished:
                    self._begin(queue, ctx)
                try:
                    found = list(itertools.islice(self._pairs, count))
                except BaseException:
                    self.finished = self.started               # an unreadable work item counts as finished
                    raise
                self.produced += len(found)
                if len(found) < count or self._single:
                    self.finished = self.started
                if found:
                    return found

    def _begin(self, queue: Any, ctx: Any) -> None:
        if queue.types != [dtypes.string]:
            raise errors.invalid("Expected queue with single string component" if len(queue.types) == 1 else
                                 "Expected single component queue")
        value = queue.dequeue(ctx)[0]
        if value.size != 1:
            raise errors.invalid("The queue of a reader must return scalar strings")
        self._work = value.item()
        self._pairs = self._source(self._work)
        self.started += 1

    def reset(self, ctx: Any) -> None:
        """Resets the reader to its initial state."""
        with self._turn(ctx):
            self._reset()

    def state(self, ctx: Any) -> bytes:
        """The position of the reader, for readers of single records."""
        self._check_single("SerializeState")
        with self._turn(ctx):
            return messages.ReaderBaseState(
                work_started=self.started, work_finished=self.finished, num_records_produced=self.produced,
                current_work=self._work).SerializeToString()

    def restore(self, state: bytes, ctx: Any) -> None:
        """Continues from a state; an invalid one resets the reader."""
        from google.protobuf.message import DecodeError
        self._check_single("RestoreState")
        with self._turn(ctx):
            self._reset()
            try:
                given = messages.ReaderBaseState.FromString(state)
            except DecodeError:
                raise errors.invalid(f"Could not parse state for {self.name}: {state[:100]!r}") from None
            counts = given.work_started, given.work_finished, given.num_records_produced
            if min(counts) < 0:
                raise errors.invalid(f"Unexpected negative value when restoring in {self.name}: {given}")
            if counts[0] > counts[1]:
                raise errors.invalid(f"Inconsistent counts of work in the state of {self.name}: {given}")
            self.started, self.finished, self.produced = counts
            self._work = given.current_work

    def _check_single(self, what: str) -> None:
        if not self._single:
            raise errors.UnimplementedError(None, None, f"Reader {what}: {self.name} reads several records of each file")
