"""Records of CSV files (RFC 4180): quoted fields may hold delimiters, quotes and line breaks. Fields become numbers here."""
from __future__ import annotations

import re
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.data.pipelines.readers import Files, open_stream
from penstock._src.io import paths

_LINE_END = re.compile(rb"\r\n?|\n")
_QUOTED = re.compile(rb'"((?:[^"]|"")*+)"')
_LEAST_PIECE = 1 << 16


class Csv(Files):
    """The records of CSV files, with one component for each selected column."""

    goes_on = True

    def __init__(self, files: list[bytes], compression: str, buffer_size: int, header: bool, delimiter: bytes, quotes: bool,
                 missing: bytes, columns: list[int], types: list, defaults: list):
        if buffer_size <= 0:
            raise errors.invalid("buffer_size should be positive")
        if len(delimiter) != 1:
            raise errors.invalid("field_delim should be only 1 char")
        _check_increasing(columns, "select_cols")
        if columns and len(columns) != len(types):
            raise errors.invalid("select_cols should match output size")
        super().__init__(files, compression, max(buffer_size, _LEAST_PIECE))
        self.header, self.delimiter, self.quotes, self.missing, self.selected = header, delimiter, quotes, missing, columns
        self.kinds, self.defaults = types, defaults
        self.parsers = [_parser(t) for t in types]

    def exclude(self, columns: list[int]) -> None:
        """Selects all columns except these."""
        _check_increasing(columns, "exclude_cols")
        self.left_out = frozenset(columns)

    left_out: frozenset = frozenset()

    def open(self, path: bytes) -> Any:
        return _Records(self, open_stream(path, self.compression, self.piece), path)

    def columns(self, found: list) -> tuple:
        out: list = []
        for kind, column in zip(self.kinds, zip(*found, strict=True), strict=True):
            if kind == dtypes.string:
                made = np.empty(len(column), dtype=object)
                made[:] = column
                out.append(made)
            else:
                out.append(torch.tensor(column, dtype=kind.torch))
        return tuple(out)

    def values(self, fields: list[bytes]) -> tuple:
        """The fields of a record as values."""
        chosen = self.selected
        count = len(self.kinds)
        if chosen:
            fields = [fields[i] for i in chosen if i < len(fields)]
        elif self.left_out:
            fields = [field for i, field in enumerate(fields) if i not in self.left_out]
        if len(fields) > count:
            raise errors.invalid(f"Expect {count} fields but have more in record")
        if len(fields) < count:
            raise errors.invalid(f"Expect {count} fields but have {len(fields)} in record")
        out = []
        for i, (field, parse) in enumerate(zip(fields, self.parsers, strict=True)):
            if not field or field == self.missing:
                if self.defaults[i] is None:
                    raise errors.invalid(f"Field {i} is required but missing in record!")
                out.append(self.defaults[i])
                continue
            try:
                out.append(parse(field))
            except ValueError:
                raise errors.invalid(f"Field {i} in record is not a valid {self.kinds[i].name}: "
                                     f"{field.decode(errors='replace')}") from None
        return tuple(out)


def _check_increasing(columns: list[int], name: str) -> None:
    if any(a >= b for a, b in zip(columns, columns[1:], strict=False)) or columns and columns[0] < 0:
        raise errors.invalid(f"{name} should be strictly increasing indices, none of them negative")


def _parser(dtype: Any) -> Any:
    if dtype == dtypes.string:
        return bytes
    if dtype.is_floating:
        return lambda field: float(_number(field))

    def whole(field: bytes) -> int:
        value = int(_number(field))
        if not dtype.min <= value <= dtype.max:
            raise ValueError("out of range")
        return value
    return whole


def _number(field: bytes) -> bytes:
    if b"_" in field:
        raise ValueError("not a number")
    return field


class _Records:
    """The records of one file. An invalid record raises an error, and reading continues after its line."""

    def __init__(self, stage: Csv, file: Any, path: bytes):
        self._stage, self._file, self._path = stage, file, path
        self._buffer, self._at, self._start = b"", 0, 0
        self._ended = self._begun = False

    @property
    def offset(self) -> int:
        """Where the next record begins, in the uncompressed file."""
        return self._start + self._at

    def read_into(self, found: list, limit: int) -> None:
        """Adds records until there are `limit`."""
        stage = self._stage
        if not self._begun:
            self._begun = True
            if stage.header and self._fields() is None:
                raise errors.invalid(f"Can't read header of file {paths.as_text(self._path)}")
        while len(found) < limit:
            fields = self._fields()
            if fields is None:
                return
            found.append(stage.values(fields))

    def seek(self, offset: int) -> None:
        """Seeks to a record that starts at `offset`."""
        self._begun = True
        while self.offset < offset:
            step = min(len(self._buffer) - self._at, offset - self.offset)
            self._at += step
            if not step and not self._more():
                return

    def _more(self) -> bool:
        """Reads on; False at the end of the file."""
        if self._ended:
            return False
        with paths.typed(self._path):
            piece = self._file.read(max(self._stage.piece, len(self._buffer) - self._at))
        self._start += self._at
        self._buffer, self._at = self._buffer[self._at:] + piece, 0
        self._ended = not piece
        return bool(piece)

    def _fields(self) -> list[bytes] | None:
        """The fields of the next record; None at the end."""
        while True:
            if self._at == len(self._buffer) and not self._more():
                return None
            end = _LINE_END.search(self._buffer, self._at)
            if end is not None and end.end() == len(self._buffer) and self._buffer[-1:] == b"\r" and self._more():
                continue                                   # a line feed may follow
            if end is None and self._more():
                continue
            stop = len(self._buffer) if end is None else end.start()
            line = self._buffer[self._at:stop]
            if self._stage.quotes and b'"' in line:
                fields = self._quoted()
                if fields is None:
                    continue                               # a quoted field continues behind what was read
                return fields
            self._at = stop if end is None else end.end()
            return line.split(self._stage.delimiter)

    def _quoted(self) -> list[bytes] | None:
        """The fields of a record with quotes; None if the record was incomplete, after reading more data."""
        buffer, at, fields = self._buffer, self._at, []
        while True:
            if buffer[at:at + 1] == b'"':
                match = _QUOTED.match(buffer, at)
                if match is None or match.end() + 1 >= len(buffer) and not self._ended:
                    if self._more():
                        return None
                    if match is None:
                        self._at = len(self._buffer)
                        raise errors.invalid("Reached end of file without closing quoted field in record")
                    buffer, at = self._buffer, at
                field, at = match.group(1).replace(b'""', b'"'), match.end()
                if buffer[at:at + 1] not in (self._stage.delimiter, b"\n", b"\r", b""):
                    self._skip_line(at)
                    raise errors.invalid("Quote inside a string has to be escaped by another quote")
            else:
                stop = self._end_of_field(buffer, at)
                field, at = buffer[at:stop], stop
                if b'"' in field:
                    self._skip_line(at)
                    raise errors.invalid("Unquoted fields cannot have quotes inside")
            fields.append(field)
            if buffer[at:at + 1] != self._stage.delimiter:
                self._at = at + 2 if buffer[at:at + 2] == b"\r\n" else min(at + 1, len(buffer))
                return fields
            at += 1

    def _end_of_field(self, buffer: bytes, at: int) -> int:
        found = [i for i in (buffer.find(c, at) for c in (self._stage.delimiter, b"\n", b"\r")) if i >= 0]
        return min(found, default=len(buffer))

    def _skip_line(self, at: int) -> None:
        end = _LINE_END.search(self._buffer, at)
        self._at = len(self._buffer) if end is None else end.end()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
