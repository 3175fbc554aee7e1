"""Stages that read files: lines of text, records, records of a fixed length, and databases.

They read large chunks and return blocks. After an error in a file, reading continues with the next file.
"""
from __future__ import annotations

import contextlib
import itertools
import urllib.parse
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.data.pipelines.base import BlockCursor, Cursor, Stage
from penstock._src.io import confine, lmdb_file, paths
from penstock._src.io.record import Inflated, RecordReader
from penstock._src.kernels import strings

_PIECE = 1 << 18
_KINDS = ("", "GZIP", "ZLIB")
_INSTRUCTIONS = 100_000          # of a query, after which it asks whether to go on


class Files(Stage):
    """A stage over the contents of files."""

    def __init__(self, files: list[bytes], compression: str = "", buffer_size: int = 0):
        if compression not in _KINDS:
            raise errors.invalid(f"Unsupported compression_type: {compression}.")
        if buffer_size < 0:
            raise errors.invalid("`buffer_size` must be >= 0 (0 == default)")
        self.files, self.compression, self.piece = files, compression, buffer_size or _PIECE

    def open(self, path: bytes) -> Any:
        """A reader of one file: `read_into(found, limit)` and `seek(offset)`, `offset` and `close()`."""
        raise NotImplementedError

    def open_file(self, number: int) -> Any:
        """A reader of the file with that number."""
        return self.open(self.files[number])

    goes_on = False                 # whether reading a file continues after an error

    def columns(self, found: list) -> tuple:
        """The read records as a block."""
        out = np.empty(len(found), dtype=object)
        out[:] = found
        return (out,)

    def iterate(self, ctx: Any) -> Cursor:
        return _FilesCursor(self)


def open_stream(path: Any, compression: str, piece: int) -> Any:
    """A file, uncompressed while it is read."""
    raw = paths.open_file(path, "rb")
    return Inflated(raw, compression, path, piece) if compression else raw


class _FilesCursor(BlockCursor):
    def __init__(self, stage: Files):
        super().__init__()
        self._stage, self._at_file = stage, 0
        self._reader: Any = None                                # of the current file
        self._failed: Exception | None = None

    quick = False

    def produce(self, ctx: Any, limit: int) -> tuple | None:
        found: list = []
        while not found:
            if self._failed is not None:
                error, self._failed = self._failed, None
                raise error
            if self._reader is None:
                if self._at_file >= len(self._stage.files):
                    return None
                self._open()
                continue
            self._read(found, limit)
        return self._stage.columns(found)

    def _open(self) -> None:
        try:
            self._reader = self._stage.open_file(self._at_file)
        except errors.OpError:
            self._at_file += 1
            raise

    def _read(self, found: list, limit: int) -> None:
        """Adds records of the current file; continues with the next file at its end, and after an error."""
        try:
            self._reader.read_into(found, limit)
            ended = len(found) < limit
        except errors.OpError as e:
            self._failed, ended = e, not self._stage.goes_on
        if ended:
            self._close_file()
            self._at_file += 1

    def _close_file(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def close(self) -> None:
        self._close_file()
        super().close()

    def __del__(self) -> None:
        self._close_file()

    def position(self) -> Any:
        return self._at_file, None if self._reader is None else self._reader.offset

    def go_to(self, position: Any, ctx: Any) -> None:
        self._close_file()
        self._at_file, offset = position
        if offset is not None:
            self._open()
            self._reader.seek(offset)


class Records(Files):
    """The records of TFRecord files, each from an offset on."""

    def __init__(self, files: list[bytes], compression: str = "", buffer_size: int = 0, offsets: list[int] | None = None):
        super().__init__(files, compression, buffer_size)
        self.offsets = offsets

    def open(self, path: bytes) -> Any:
        return RecordReader(path, self.compression, self.piece)

    def open_file(self, number: int) -> Any:
        reader = super().open_file(number)
        if self.offsets and self.offsets[number]:
            reader.seek(self.offsets[number])
        return reader


class Lines(Files):
    """The lines of text files, without their ends."""

    def open(self, path: bytes) -> Any:
        return _Lines(open_stream(path, self.compression, self.piece), path, self.piece)


class _Lines:
    def __init__(self, file: Any, path: bytes, piece: int):
        self._file, self._path, self._piece = file, path, piece
        self._lines: list[bytes] = []                           # whole lines that were read, from `_next` on
        self._next, self._ended = 0, False
        self._rest: list[bytes] = []                            # the pieces of a line that has not ended
        self.offset = 0                                         # of the next line, in the uncompressed file

    def read_into(self, found: list, limit: int) -> None:
        """Adds lines until there are `limit`."""
        while len(found) < limit:
            if self._next == len(self._lines) and not self._more():
                return
            part = self._lines[self._next:self._next + limit - len(found)]
            self._next += len(part)
            self.offset += sum(map(len, part)) + len(part)
            found.extend(line.replace(b"\r", b"") if b"\r" in line else line for line in part)

    def _more(self) -> bool:
        """Reads on; False at the end."""
        while not self._ended:
            with paths.typed(self._path):
                piece = self._file.read(self._piece)
            if not piece:
                self._ended = True
            elif b"\n" not in piece:                            # joined once: a long line takes linear time
                self._rest.append(piece)
                continue
            *lines, rest = b"".join([*self._rest, piece]).split(b"\n")
            if self._ended and rest:
                lines, rest = [*lines, rest], b""
            self._rest = [rest] if rest else []
            if lines:
                self._lines, self._next = lines, 0
                return True
        return False

    def seek(self, offset: int) -> None:
        """Seeks to a line that starts at `offset`."""
        while offset > 0:
            piece = self._file.read(min(offset, self._piece))
            if not piece:
                return
            offset -= len(piece)
            self.offset += len(piece)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class FixedLength(Files):
    """The records of files in which all are equally long, between a header and a footer."""

    def __init__(self, files: list[bytes], header: int, record: int, footer: int, buffer_size: int, compression: str = ""):
        super().__init__(files, compression, buffer_size)
        for n, name, least in ((header, "header_bytes", 0), (record, "record_bytes", 1), (footer, "footer_bytes", 0)):
            if n < least:
                raise errors.invalid(f"`{name}` must be >= 0" if not least else f"`{name}` must be > 0")
        self.header, self.record, self.footer = header, record, footer

    def open(self, path: bytes) -> Any:
        if not self.compression:
            self.check(path, paths.stat(path).length)
        return _Fixed(self, open_stream(path, self.compression, self.piece), path)

    def check(self, path: Any, size: int) -> None:
        """Checks that the body of a file holds complete records."""
        body = size - self.header - self.footer
        if body < 0 or body % self.record:
            raise errors.invalid(f"Excluding the header ({self.header} bytes) and footer ({self.footer} bytes), input file "
                                 f"\"{paths.as_text(path)}\" has body length {body} bytes, which is not an exact multiple of "
                                 f"the record length ({self.record} bytes).")


class _Fixed:
    def __init__(self, stage: FixedLength, file: Any, path: bytes):
        self._stage, self._file, self._path = stage, file, path
        self._buffer, self._at, self.offset = b"", 0, 0
        self._size = 0
        self._started = False

    def _fill(self, wanted: int) -> None:
        parts = [self._buffer[self._at:]]
        have = len(parts[0])
        while have < wanted:
            with paths.typed(self._path):
                piece = self._file.read(max(self._stage.piece, min(wanted - have, 1 << 24)))
            if not piece:
                break
            parts.append(piece)
            have += len(piece)
            self._size += len(piece)
        self._buffer, self._at = b"".join(parts), 0

    def read_into(self, found: list, limit: int) -> None:
        """Adds records until there are `limit`."""
        s = self._stage
        if not self._started:
            self._started = True
            self._fill(s.header)
            self._at = s.header
        while len(found) < limit:
            need = s.record + s.footer
            if len(self._buffer) - self._at < need:
                self._fill(need)
                if len(self._buffer) < need:
                    s.check(self._path, self._size)
                    return
            found.append(self._buffer[self._at:self._at + s.record])
            self._at += s.record
            self.offset += s.record

    def seek(self, offset: int) -> None:
        """Seeks to a record that starts `offset` bytes after the header."""
        skipped: list = []
        self.read_into(skipped, offset // self._stage.record)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class Lmdb(Files):
    """The pairs of LMDB databases."""

    def open(self, path: bytes) -> Any:
        return _Pairs(lmdb_file.pairs(path))

    def columns(self, found: list) -> tuple:
        return tuple(strings.pack(list(column)) for column in zip(*found, strict=True))


class _Pairs:
    def __init__(self, pairs: Any):
        self._pairs, self.offset = pairs, 0                     # how many were read

    def read_into(self, found: list, limit: int) -> None:
        """Adds pairs until there are `limit`."""
        for pair in itertools.islice(self._pairs, limit - len(found)):
            found.append(pair)
            self.offset += 1

    def seek(self, offset: int) -> None:
        """Skips some pairs."""
        self.read_into([], offset)

    def close(self) -> None:
        """Closes the file."""
        self._pairs.close()


class Sql(Stage):
    """The rows that a query of an SQLite database returns."""

    def __init__(self, path: str, query: str):
        self.path, self.query = path, query

    def iterate(self, ctx: Any) -> Cursor:
        return _SqlCursor(self)


class _SqlCursor(Cursor):
    def __init__(self, stage: Sql):
        self._stage, self._seen = stage, 0
        self._connection: Any = None
        self._rows: Any = None

    def _open(self, ctx: Any) -> None:
        import sqlite3
        stage = self._stage
        confine.check(stage.path)
        try:
            self._connection = sqlite3.connect(f"file:{urllib.parse.quote(stage.path)}?mode=rw", uri=True,
                                               check_same_thread=False)
        except sqlite3.Error as e:
            raise errors.UnknownError(None, None, f"{e} ({stage.path}: {stage.query})") from None
        self._connection.set_authorizer(_only_its_file)
        with self._running(ctx):
            self._rows = self._connection.execute(stage.query)
            if self._rows.description is None:                  # it would change the database, and has no rows
                self._connection.rollback()
        if len(self._rows.description or ()) != len(stage.types):
            raise errors.invalid(f"The number of columns in query ({len(self._rows.description or ())}) must match the number "
                                 f"of elements in output_types ({len(stage.types)})")

    @contextlib.contextmanager
    def _running(self, ctx: Any) -> Iterator[None]:
        """Types the errors of the database. A query ends with the step: SQLite asks at intervals, when signals arrive, too."""
        import sqlite3
        ended: list[BaseException] = []

        def over() -> bool:
            try:
                ctx.cancellation.check()
            except BaseException as e:
                ended.append(e)
            return bool(ended)
        self._connection.set_progress_handler(over, _INSTRUCTIONS)
        try:
            yield
        except (sqlite3.Error, MemoryError) as e:            # MemoryError: of a connection that was closed meanwhile
            self.close()
            if ended:
                raise ended[0] from None
            ctx.cancellation.check()
            raise errors.UnknownError(None, None, f"{e!r} ({self._stage.path}: {self._stage.query})") from None
        finally:
            if self._connection is not None:
                self._connection.set_progress_handler(None, 0)

    def next(self, ctx: Any) -> tuple | None:
        if self._rows is None:
            self._open(ctx)
        with self._running(ctx):
            row = self._rows.fetchone()
        if row is None:
            return None
        self._seen += 1
        return tuple(_sql_value(v, t) for v, t in zip(row, self._stage.types, strict=True))

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def save(self) -> Any:
        return self._seen

    def restore(self, state: Any, ctx: Any) -> None:
        for _ in range(state):
            self.next(ctx)


def _only_its_file(action: int, *names: Any) -> int:
    """Refuses ATTACH, and VACUUM INTO, which attaches too: a query uses the file of its dataset and no other one."""
    import sqlite3
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK


def _sql_value(value: Any, dtype: Any) -> Any:
    """A column's value converted to a type; zero for NULL."""
    if dtype.torch is None:
        data = b"" if value is None else value if isinstance(value, bytes) else str(value).encode()
        return np.array(data, dtype=object)
    if dtype.torch is torch.bool:
        return torch.tensor(bool(value))
    try:
        number = (float if dtype.is_floating else int)(value or 0)
    except ValueError:
        number = 0
    if not dtype.is_floating:                                   # as the database narrows integers: modulo their range
        span = int(dtype.max) - int(dtype.min) + 1
        number = (int(number) - int(dtype.min)) % span + int(dtype.min)
    return torch.tensor(number, dtype=dtype.torch)
