"""Sorted string tables, as LevelDB lays them out: the index of a V2 checkpoint, and the whole of a V1 checkpoint.

A table is a sequence of blocks; a block is a sequence of entries whose keys share prefixes, then the offsets at which
a key is whole ("restarts"). After each block come one byte for its compression and a masked checksum. An index block has,
for each data block, a key not smaller than the last one in it; the footer points to the index.
"""
from __future__ import annotations

import bisect
import struct
from collections.abc import Iterator
from typing import Any

from penstock._src.base import errors
from penstock._src.io import crc

_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
_TRAILER = 5
_RESTART_INTERVAL = 16
BLOCK_SIZE = 1 << 18


def put_varint(n: int) -> bytes:
    """A number in groups of seven bits, the lowest first."""
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def get_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at an offset, and the offset after it."""
    result = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise errors.DataLossError(None, None, "a number runs over the end of its block")
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7


# -- writing ---------------------------------------------------------------------------------------------------------
class _Block:
    """Entries of one block."""

    def __init__(self, interval: int):
        self.interval = interval
        self.reset()

    def reset(self) -> None:
        self.parts: list[bytes] = []
        self.size, self.count, self.last = 0, 0, b""
        self.restarts = [0]

    def add(self, key: bytes, value: bytes) -> None:
        shared = 0
        if self.count < self.interval:
            limit = min(len(key), len(self.last))
            while shared < limit and key[shared] == self.last[shared]:
                shared += 1
        else:
            self.restarts.append(self.size)
            self.count = 0
        head = put_varint(shared) + put_varint(len(key) - shared) + put_varint(len(value))
        self.parts += (head, key[shared:], value)
        self.size += len(head) + len(key) - shared + len(value)
        self.last = key
        self.count += 1

    def estimate(self) -> int:
        """The current size of the block."""
        return self.size + 4 * len(self.restarts) + 4

    def finish(self) -> bytes:
        restarts = struct.pack(f"<{len(self.restarts)}I", *self.restarts)
        return b"".join(self.parts) + restarts + struct.pack("<I", len(self.restarts))


def _between(last: bytes, following: bytes) -> bytes:
    """A short key that is at least `last` and smaller than `following`."""
    n = 0
    while n < min(len(last), len(following)) and last[n] == following[n]:
        n += 1
    if n < min(len(last), len(following)) and last[n] < 0xFF and last[n] + 1 < following[n]:
        return last[:n] + bytes([last[n] + 1])
    return last


def _after(last: bytes) -> bytes:
    """A short key that is at least `last`."""
    for i, b in enumerate(last):
        if b != 0xFF:
            return last[:i] + bytes([b + 1])
    return last


class TableWriter:
    """Writes a table to a file; keys come in order."""

    def __init__(self, file: Any, block_size: int = BLOCK_SIZE):
        self._file, self._block_size = file, block_size
        self._data, self._index = _Block(_RESTART_INTERVAL), _Block(1)
        self._offset, self._last = 0, b""
        self._pending: bytes | None = None         # the handle of a block whose index key is not known yet

    def add(self, key: bytes, value: bytes) -> None:
        """Appends an entry."""
        if self._pending is not None:
            self._index.add(_between(self._last, key), self._pending)
            self._pending = None
        self._data.add(key, value)
        self._last = key
        if self._data.estimate() >= self._block_size:
            self._flush()

    def _flush(self) -> None:
        if self._data.size:
            self._pending = self._write(self._data)

    def _write(self, block: _Block) -> bytes:
        data = block.finish() + b"\0"
        self._file.write(data + struct.pack("<I", crc.masked(data)))
        handle = put_varint(self._offset) + put_varint(len(data) - 1)
        self._offset += len(data) + 4
        block.reset()
        return handle

    def finish(self) -> None:
        """Writes index and footer."""
        self._flush()
        meta = self._write(_Block(_RESTART_INTERVAL))
        if self._pending is not None:
            self._index.add(_after(self._last), self._pending)
        footer = meta + self._write(self._index)
        self._file.write(footer.ljust(40, b"\0") + struct.pack("<Q", _MAGIC))


# -- reading ---------------------------------------------------------------------------------------------------------
class Table:
    """A table in a file: looks up keys and iterates over entries. `name` is for messages."""

    def __init__(self, file: Any, size: int, name: str):
        self._file, self._size, self._name = file, size, name
        if size < _FOOTER:
            raise self._lost("file is too short to be an sstable")
        file.seek(size - _FOOTER)
        footer = file.read(_FOOTER)
        if len(footer) < _FOOTER or struct.unpack("<Q", footer[40:])[0] != _MAGIC:
            raise self._lost("not an sstable (bad magic number)")
        try:
            _, at = get_varint(footer, 0)
            _, at = get_varint(footer, at)
            index = self._block(*self._handle(footer[:40], at))
            self._keys = [k for k, _ in index]
            self._handles = [self._handle(h, 0) for _, h in index]
        except errors.DataLossError as e:
            raise self._lost(e.message) if not e.message.startswith(self._name) else e from None
        self._held: tuple[int, list] = (-1, [])

    def _lost(self, what: str) -> errors.OpError:
        return errors.DataLossError(None, None, f"{self._name}: {what}")

    @staticmethod
    def _handle(data: bytes, at: int) -> tuple[int, int]:
        offset, at = get_varint(data, at)
        return offset, get_varint(data, at)[0]

    def _block(self, offset: int, size: int) -> list[tuple[bytes, bytes]]:
        """The entries of the block at a place."""
        if offset + size + _TRAILER > self._size - _FOOTER:
            raise self._lost("truncated block read")
        self._file.seek(offset)
        data = self._file.read(size + _TRAILER)
        if len(data) != size + _TRAILER:
            raise self._lost("truncated block read")
        if crc.masked(data[:size + 1]) != struct.unpack_from("<I", data, size + 1)[0]:
            raise self._lost("block checksum mismatch")
        kind, data = data[size], data[:size]
        if kind == 1:
            data = _unsnap(data)
        elif kind != 0:
            raise self._lost("bad block type")
        return _entries(data)

    def _data(self, number: int) -> list[tuple[bytes, bytes]]:
        if self._held[0] != number:
            try:
                self._held = number, self._block(*self._handles[number])
            except errors.DataLossError as e:
                raise self._lost(e.message) if not e.message.startswith(self._name) else e from None
        return self._held[1]

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None."""
        number = bisect.bisect_left(self._keys, key)
        if number == len(self._keys):
            return None
        block = self._data(number)
        i = bisect.bisect_left(block, key, key=lambda e: e[0])
        return block[i][1] if i < len(block) and block[i][0] == key else None

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """All entries in order."""
        for number in range(len(self._handles)):
            yield from self._data(number)


def _entries(data: bytes) -> list[tuple[bytes, bytes]]:
    if len(data) < 4:
        raise errors.DataLossError(None, None, "bad block contents")
    restarts = struct.unpack_from("<I", data, len(data) - 4)[0]
    end = len(data) - 4 - 4 * restarts
    if end < 0:
        raise errors.DataLossError(None, None, "bad block contents")
    out, at, key = [], 0, b""
    while at < end:
        shared, at = get_varint(data, at)
        fresh, at = get_varint(data, at)
        size, at = get_varint(data, at)
        if shared > len(key) or at + fresh + size > end:
            raise errors.DataLossError(None, None, "bad entry in block")
        key = key[:shared] + data[at:at + fresh]
        at += fresh
        out.append((key, data[at:at + size]))
        at += size
    return out


def _unsnap(data: bytes) -> bytes:
    """Snappy's block format uncompressed: literals, and copies of what was written before."""
    total, at = get_varint(data, 0)
    if total > 64 * len(data):                     # a copy of 64 bytes takes at least two
        raise errors.DataLossError(None, None, "corrupted compressed block contents")
    out = bytearray()
    try:
        while at < len(data):
            tag = data[at]
            at += 1
            kind = tag & 3
            if kind == 0:
                length = tag >> 2
                if length >= 60:
                    width = length - 59
                    length = int.from_bytes(data[at:at + width], "little")
                    at += width
                out += data[at:at + length + 1]
                at += length + 1
                continue
            if kind == 1:
                length, offset = (tag >> 2 & 7) + 4, tag >> 5 << 8 | data[at]
                at += 1
            else:
                width = 2 if kind == 2 else 4
                length, offset = (tag >> 2) + 1, int.from_bytes(data[at:at + width], "little")
                at += width
            start = len(out) - offset
            if offset == 0 or start < 0 or len(out) + length > total:
                raise errors.DataLossError(None, None, "corrupted compressed block contents")
            piece = out[start:start + length]
            out += (piece * (length // len(piece) + 1))[:length]
    except IndexError:
        raise errors.DataLossError(None, None, "corrupted compressed block contents") from None
    if len(out) != total:
        raise errors.DataLossError(None, None, "corrupted compressed block contents")
    return bytes(out)
