"""TFRecord files: a sequence of byte strings, each with its length and two checksums; plain, gzip or zlib.

A record is `length: uint64, masked crc of length: uint32, data, masked crc of data: uint32`, little-endian. `RecordReader`
is what ops and datasets use; it reads large pieces and never allocates more than the file has.
"""
from __future__ import annotations

import atexit
import os
import struct
import weakref
import zlib
from collections.abc import Iterator
from typing import Any

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.io import crc, paths
from penstock._src.io.system_errors import reported

_HEADER = struct.Struct("<QI")
_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_PIECE = 1 << 18             # bytes that are read at once
_WBITS = {"ZLIB": 15, "GZIP": 31}

TFRecordCompressionType = type("TFRecordCompressionType", (), {
    "__doc__": "How records are compressed: NONE, ZLIB or GZIP.", "NONE": 0, "ZLIB": 1, "GZIP": 2})
export.value(TFRecordCompressionType, v1=["io.TFRecordCompressionType", "python_io.TFRecordCompressionType"])


@export("io.TFRecordOptions", v1=["python_io.TFRecordOptions"])
class TFRecordOptions:
    """How a record file is compressed: "GZIP", "ZLIB" or "", and zlib's own settings.

    >>> tf.io.TFRecordWriter(path, tf.io.TFRecordOptions("GZIP", compression_level=9))
    """

    compression_type_map = {1: "ZLIB", 2: "GZIP", 0: ""}

    def __init__(self, compression_type: Any = None, flush_mode: int | None = None, input_buffer_size: int | None = None,
                 output_buffer_size: int | None = None, window_bits: int | None = None,
                 compression_level: int | None = None, compression_method: int | None = None,
                 mem_level: int | None = None, compression_strategy: int | None = None):
        self.get_compression_type_string(compression_type)
        self.compression_type, self.flush_mode = compression_type, flush_mode
        self.input_buffer_size, self.output_buffer_size = input_buffer_size, output_buffer_size
        self.window_bits, self.compression_level = window_bits, compression_level
        self.compression_method, self.mem_level = compression_method, mem_level
        self.compression_strategy = compression_strategy

    @classmethod
    def get_compression_type_string(cls, options: Any) -> str:
        """The compression type of a number, text or TFRecordOptions, as text."""
        if not options:
            return ""
        if isinstance(options, TFRecordOptions):
            return cls.get_compression_type_string(options.compression_type)
        if isinstance(options, (int, str)):
            if options in cls.compression_type_map:
                return cls.compression_type_map[options]
            if options in cls.compression_type_map.values():
                return options                                  # type: ignore[return-value]
        raise ValueError(f'Not a valid compression_type: "{options}"')

    def _compressor(self) -> Any:
        kind = self.get_compression_type_string(self.compression_type)
        if not kind:
            return None
        bits = self.window_bits if self.window_bits is not None else 15
        if bits == 8:                                           # zlib itself writes streams for 9 then
            bits = 9
        chosen: dict[str, Any] = {"level": self.compression_level, "method": self.compression_method,
                                  "memLevel": self.mem_level, "strategy": self.compression_strategy}
        return zlib.compressobj(wbits=bits + 16 if kind == "GZIP" and 0 < bits < 16 else bits,
                                **{k: v for k, v in chosen.items() if v is not None})


# -- writing ---------------------------------------------------------------------------------------------------------
@export("io.TFRecordWriter", v1=["python_io.TFRecordWriter"])
class TFRecordWriter:
    """Writes a TFRecord file.

    Args:
        path: File to write.
        options: `TFRecordOptions`, or a compression type.

    >>> with tf.io.TFRecordWriter("a.tfrecord") as writer:
    ...     writer.write(b"one")
    ...     writer.write(b"two")
    >>> [record.numpy() for record in tf.data.TFRecordDataset("a.tfrecord")]
    [b'one', b'two']
    """

    def __init__(self, path: Any, options: Any = None):
        if not isinstance(options, TFRecordOptions):
            options = TFRecordOptions(compression_type=options)
        self._path, self._compressor = path, options._compressor()
        self._flush_mode = options.flush_mode or zlib.Z_NO_FLUSH
        self._file = paths.open_file(path, "wb")
        self._pieces: list[bytes] = []
        self._size = 0
        _open.add(self)

    def write(self, record: Any) -> None:
        """Appends one record."""
        if isinstance(record, str):
            record = record.encode("utf-8")
        elif not isinstance(record, bytes):
            if not isinstance(record, (bytearray, memoryview)):
                raise TypeError(f"A record is bytes, such as `example.SerializeToString()`. Received: {record!r}")
            record = bytes(record)
        if self._file is None:
            raise errors.FailedPreconditionError(None, None, "Writer is closed.")
        length = _LENGTH.pack(len(record))
        self._pieces += (length, _CRC.pack(crc.masked(length)), record, _CRC.pack(crc.masked(record)))
        self._size += len(record) + 16
        if self._size >= _PIECE:
            self._drain()

    def _drain(self) -> None:
        data = b"".join(self._pieces)
        self._pieces, self._size = [], 0
        if self._compressor is not None:
            data = self._compressor.compress(data)
            if self._flush_mode != zlib.Z_NO_FLUSH:
                data += self._compressor.flush(self._flush_mode)
        with paths.typed(self._path):
            self._file.write(data)

    def flush(self) -> None:
        """Flushes written records to the operating system."""
        if self._file is None:
            raise errors.FailedPreconditionError(None, None, "Writer is closed.")
        self._drain()
        with paths.typed(self._path):
            if self._compressor is not None:
                self._file.write(self._compressor.flush(zlib.Z_SYNC_FLUSH))
            self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        if self._file is None:
            return
        try:
            self._drain()
            if self._compressor is not None:
                with paths.typed(self._path):
                    self._file.write(self._compressor.flush(zlib.Z_FINISH))
        finally:
            file, self._file = self._file, None
            _open.discard(self)
            with paths.typed(self._path):
                file.close()

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            with reported():
                self.close()


_open: weakref.WeakSet[TFRecordWriter] = weakref.WeakSet()
os.register_at_fork(after_in_child=_open.clear)         # the parent writes what it has buffered


def _close_all() -> None:
    """Closes the writers that a program leaves open: when its last objects are deleted, modules that `close` needs are gone."""
    for writer in list(_open):
        with reported():
            writer.close()


atexit.register(_close_all)


# -- reading ---------------------------------------------------------------------------------------------------------
class Inflated:
    """The bytes of a zlib or gzip file (of several parts, too), uncompressed piece by piece."""

    def __init__(self, file: Any, kind: str, path: Any, piece: int):
        self._file, self._path, self._wbits, self._piece = file, path, _WBITS[kind], piece
        self._inflater = zlib.decompressobj(self._wbits)
        self._left = b""

    def read(self, n: int) -> bytes:
        """At most n bytes, fewer only at the end."""
        out, got = [], 0
        while got < n:
            if not self._left:
                self._left = self._file.read(self._piece)
                if not self._left:
                    break
            if self._inflater.eof:
                self._inflater = zlib.decompressobj(self._wbits)
            try:
                data = self._inflater.decompress(self._left, n - got)
            except zlib.error as e:
                raise errors.DataLossError(None, None, f"{paths.as_text(self._path)}: corrupt compressed data: {e}") from None
            self._left = self._inflater.unused_data if self._inflater.eof else self._inflater.unconsumed_tail
            if data:
                out.append(data)
                got += len(data)
        return b"".join(out)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class RecordReader:
    """The records of one file, in order. `read()` returns the next one, and None at the end.

    >>> for record in RecordReader("/tmp/a.tfrecord"): ...
    """

    def __init__(self, path: Any, compression: str = "", buffer_size: int | None = None, offset: int = 0):
        self.path = path
        self._piece = max(buffer_size or _PIECE, 4096)
        raw = paths.open_file(path, "rb")
        self._file = Inflated(raw, compression, path, self._piece) if compression else raw
        self._buffer, self._at = b"", 0
        self._start = 0                  # where in the (uncompressed) file the buffer begins
        self._known: dict[int, int] = {}           # checksums of lengths: records are often of one size
        if offset:
            self.seek(offset)

    @property
    def offset(self) -> int:
        """Where the next record begins, in the uncompressed file."""
        return self._start + self._at

    def seek(self, offset: int) -> None:
        """Continues at a record that begins at `offset`; in a compressed file only forward."""
        if isinstance(self._file, Inflated):
            ahead = offset - self.offset
            if ahead < 0:
                raise errors.UnimplementedError(None, None, f"{paths.as_text(self.path)}: cannot go back in a compressed file")
            while ahead > 0:
                step = min(ahead, self._piece)
                if not self._have(step):
                    raise errors.OutOfRangeError(None, None, f"{paths.as_text(self.path)}: no record at {offset}")
                self._at += step
                ahead -= step
            return
        self._file.seek(offset)
        self._buffer, self._at, self._start = b"", 0, offset

    def _have(self, n: int) -> bool:
        """Makes the buffer hold at least n bytes from here; False at the end of the file."""
        left = len(self._buffer) - self._at
        if left >= n:
            return True
        pieces = [self._buffer[self._at:]]
        self._start += self._at
        self._at = 0
        while left < n:
            piece = self._file.read(max(min(n - left, 1 << 24), self._piece))
            if not piece:
                break
            pieces.append(piece)
            left += len(piece)
        self._buffer = b"".join(pieces)
        return left >= n

    def read(self) -> bytes | None:
        """The next record; None at the end. Raises DataLossError for a corrupt or truncated file."""
        buffer, at = self._buffer, self._at
        if len(buffer) - at < 12:
            if not self._have(12):
                if len(self._buffer) == self._at:
                    return None
                raise self._lost("truncated record header")
            buffer, at = self._buffer, self._at
        length, stored = _HEADER.unpack_from(buffer, at)
        if crc.masked(buffer[at:at + 8]) != stored:
            raise self._lost("corrupted record")
        if len(buffer) - at < length + 16:
            if not self._have(length + 16):
                raise self._lost(f"truncated record: expected {length} bytes")
            buffer, at = self._buffer, self._at
        end = at + 12 + length
        data = buffer[at + 12:end]
        if crc.masked(data) != _CRC.unpack_from(buffer, end)[0]:
            raise self._lost("corrupted record")
        self._at = end + 4
        return data

    def read_into(self, found: list, limit: int) -> None:
        """Adds records until there are `limit`, fewer only at the end."""
        while len(found) < limit:
            record = self.read()
            if record is None:
                return
            found.append(record)
            if len(found) < limit:
                found += self._buffered(limit - len(found))

    def read_many(self, n: int) -> list[bytes]:
        """At most n records, fewer only at the end."""
        out: list[bytes] = []
        self.read_into(out, n)
        return out

    def _buffered(self, limit: int) -> list[bytes]:
        """At most `limit` complete, valid records from the buffer; `read` handles the rest."""
        masked, header, checksum, known = crc.masked, _HEADER.unpack_from, _CRC.unpack_from, self._known
        buffer, at, found = self._buffer, self._at, []
        last = len(buffer) - 16
        while at <= last:
            length, stored = header(buffer, at)
            end = at + 12 + length
            if end - 12 > last or known.get(length) != stored:
                if end - 12 > last or len(known) > 1000 or masked(buffer[at:at + 8]) != stored:
                    break
                known[length] = stored
            data = buffer[at + 12:end]
            if masked(data) != checksum(buffer, end)[0]:
                break
            at = end + 4
            found.append(data)
            if len(found) == limit:
                break
        self._at = at
        return found

    def _lost(self, what: str) -> errors.OpError:
        return errors.DataLossError(None, None, f"{what} at {self.offset} of {paths.as_text(self.path)}")

    def __iter__(self) -> Iterator[bytes]:
        """All records."""
        try:
            while (record := self.read()) is not None:
                yield record
                yield from self._buffered(len(self._buffer))
        finally:
            self.close()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()


class _RecordIterator:
    """The records of a file. After the end, or a record that is not complete yet, it continues where the file has grown."""

    def __init__(self, path: Any, compression: str):
        self._path, self._compression = path, compression
        self._offset = 0
        self._reader: RecordReader | None = None
        self.reopen()

    def __iter__(self) -> _RecordIterator:
        return self

    def __next__(self) -> bytes:
        if self._reader is None:
            raise errors.FailedPreconditionError(None, None, "The iterator is closed; call reopen() first.")
        record = self._reader.read()
        if record is None:
            raise StopIteration
        return record

    def close(self) -> None:
        """Closes the file; `reopen` continues at the same place."""
        if self._reader is not None:
            self._offset = self._reader.offset
            self._reader.close()
            self._reader = None

    def reopen(self) -> None:
        """Opens the file, or another one of the same name, at the place that was reached."""
        self.close()
        self._reader = RecordReader(self._path, self._compression, offset=self._offset)


@export(v1=["io.tf_record_iterator", "python_io.tf_record_iterator"])
def tf_record_iterator(path: Any, options: Any = None) -> Iterator[bytes]:
    """The records of a file, in sequence.

    Args:
        path: TFRecord file.
        options: `TFRecordOptions`.

    Returns:
        An iterator of bytes. It can be asked again after its end: it continues where the file has grown.

    >>> with tf.python_io.TFRecordWriter("a.tfrecord") as writer:
    ...     writer.write(b"one")
    ...     writer.write(b"two")
    >>> list(tf.python_io.tf_record_iterator("a.tfrecord"))
    [b'one', b'two']
    """
    return _RecordIterator(path, TFRecordOptions.get_compression_type_string(options))
