"""Event files: records of Event messages, which TensorBoard shows. The first record contains the version.

`EventsWriter` is what FileWriter, summary writers and their ops share. Events are appended to a buffer, which is written to the
file when it is full, on flush, and some time after the first event in it.
"""
from __future__ import annotations

import itertools
import os
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

from penstock._src.base import errors, progress
from penstock._src.graph.message_names import message_class
from penstock._src.io import paths
from penstock._src.io.record import RecordReader, TFRecordWriter

VERSION = "brain.Event:2"
_FLOAT = 1                          # DT_FLOAT
_uid = itertools.count()


def event_class() -> Any:
    """The message of one record. Protocol messages are loaded when they are first needed."""
    return message_class("Event")


class EventsWriter:
    """Writes an event file in a directory. It may be used by several threads."""

    def __init__(self, logdir: Any, max_queue: int = 10, flush_secs: float = 120, filename_suffix: str = ""):
        self.logdir = paths.as_text(logdir)
        self._max_queue, self._flush_secs, self._suffix = max_queue, flush_secs, filename_suffix or ""
        self._lock = threading.RLock()
        self._writer: TFRecordWriter | None = None
        self._waiting = 0
        self._timer: threading.Timer | None = None
        self._tags: set[str] = set()
        self.closed = True
        self.reopen()

    def reopen(self) -> None:
        """Begins a new file, if this one is closed."""
        with self._lock:
            if not self.closed:
                return
            import socket

            paths.makedirs(self.logdir)
            name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(_uid)}"
            self.path = paths.join(self.logdir, name + self._suffix)
            self._writer, self.closed = TFRecordWriter(self.path), False
            self._tags.clear()
            self._writer.write(event_class()(wall_time=time.time(), file_version=VERSION).SerializeToString())
            self._writer.flush()

    def write(self, event: bytes) -> None:
        """Appends a serialized Event."""
        with self._lock:
            if self._writer is None:
                return
            self._writer.write(event)
            self._waiting += 1
            if self._waiting > self._max_queue:
                self.flush()
            elif self._timer is None:
                self._timer = threading.Timer(self._flush_secs, self.flush)
                self._timer.daemon = True
                self._timer.start()

    def add(self, event: Any) -> None:
        """Appends an Event message."""
        self.write(event.SerializeToString())

    def add_summary(self, summary: Any, step: int | None) -> None:
        """Appends a Summary; metadata of a tag is written the first time only."""
        with self._lock:
            for value in summary.value:
                if value.HasField("metadata"):
                    if value.tag in self._tags:
                        value.ClearField("metadata")
                    else:
                        self._tags.add(value.tag)
            self.add(event_class()(wall_time=time.time(), step=int(step or 0), summary=summary))
        for value in summary.value:
            number = _scalar(value)
            if number is not None:
                progress.process.scalar(value.tag, int(step or 0), number)

    def flush(self) -> None:
        """Writes all buffered events to the file."""
        with self._lock:
            self._stop_timer()
            self._waiting = 0
            if self._writer is not None:
                self._writer.flush()

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """Closes the file; `reopen` creates another."""
        with self._lock:
            self._stop_timer()
            writer, self._writer, self.closed = self._writer, None, True
            if writer is not None:
                writer.close()


def _scalar(value: Any) -> float | None:
    """The number in a value of a summary, if it is one: a field of 1.x, or a float tensor without dimensions of 2.x."""
    if value.HasField("simple_value"):
        return value.simple_value
    if not value.HasField("tensor") or value.tensor.tensor_shape.dim or value.tensor.dtype != _FLOAT:
        return None
    if value.tensor.float_val:
        return value.tensor.float_val[0]
    return struct.unpack("<f", value.tensor.tensor_content)[0] if len(value.tensor.tensor_content) == 4 else None


class read_events:                                 # noqa: N801  (called as a function)
    """The Event messages of a file. After the end it continues with what has been written meanwhile."""

    def __init__(self, path: Any):
        self._path, self._offset = path, 0
        self._reader: RecordReader | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._reader is None:
            self._reader = RecordReader(self._path, offset=self._offset)
        record = self._reader.read()
        if record is None:
            self._offset = self._reader.offset
            self._reader.close()
            self._reader = None
            raise StopIteration
        return _event_of(record, self._path)


def _event_of(record: bytes, path: Any) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return event_class().FromString(record)
    except DecodeError:
        raise errors.DataLossError(None, None, f"{paths.as_text(path)}: a record is not an Event") from None
