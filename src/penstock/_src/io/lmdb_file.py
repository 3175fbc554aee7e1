"""LMDB databases, read from the first pair to the last: for LMDBReader and LMDBDataset.

The lmdb library maps a file into memory and does not validate it. Here files may be damaged or hostile, and on any file system
that fsspec supports: so pages are read one by one, and every offset is checked before use.

A file is a sequence of pages. Two of them are *meta* pages, of which the one with the newer transaction is valid; it points to
the root of a tree. Branch pages point to pages, leaf pages hold pairs; values that are too long for a page are on separate
pages.
"""
from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Any

from penstock._src.base import errors
from penstock._src.io import paths

_MAGIC, _VERSION = 0xBEEFC0DE, 1
_BRANCH, _LEAF, _OVERFLOW, _META = 1, 2, 4, 8          # kinds of pages
_LONG, _DATABASE, _SEVERAL = 1, 2, 4                   # kinds of values: on their own pages, a tree, several for one key
_HEAD = 16                                             # bytes before what a page holds
_NOWHERE = (1 << 64) - 1
_DEEPEST = 64


def pairs(path: Any) -> Iterator[tuple[bytes, bytes]]:
    """The (key, value) pairs of a database, in the order of their keys; `path` is its file, or a folder with `data.mdb`."""
    path = paths.as_text(path)
    if paths.isdir(path):
        path = paths.join(path, "data.mdb")
    with paths.open_stored(path) as file, paths.typed(path):
        file.seek(0, os.SEEK_END)
        yield from _Database(file, path, file.tell())


class _Database:
    def __init__(self, file: Any, path: str, size: int):
        self._file, self._path, self._size = file, path, size
        self._order, self._page_size = "<", 0
        first = self._meta(self._bytes(0, 4096))
        second = self._meta(self._bytes(self._page_size, 4096))
        self._root, self._depth, _ = max(first, second, key=lambda meta: meta[2])
        self._left = size // self._page_size + 1           # pages that a traversal may still visit

    def _damaged(self, what: str) -> errors.OpError:
        return errors.DataLossError(None, None, f"{self._path} is not a readable LMDB database: {what}")

    def _bytes(self, at: int, count: int) -> bytes:
        """Some bytes of the file; the file may end before the last page does."""
        if at >= self._size or at < 0:
            raise self._damaged(f"a page at {at} of {self._size} bytes")
        self._file.seek(at)
        return self._file.read(min(count, self._size - at))

    def _unpack(self, form: str, data: bytes, at: int) -> tuple:
        if at < 0 or at + struct.calcsize(self._order + form) > len(data):
            raise self._damaged(f"a field at {at} of a page of {len(data)} bytes")
        return struct.unpack_from(self._order + form, data, at)

    def _meta(self, page: bytes) -> tuple[int, int, int]:
        """Root, depth and number of the transaction; the first one sets byte order and size of pages."""
        if not self._page_size and page[_HEAD:_HEAD + 4] == struct.pack(">I", _MAGIC):
            self._order = ">"
        magic, version = self._unpack("II", page, _HEAD)
        if magic != _MAGIC or version not in (_VERSION, 999):
            raise self._damaged(f"magic {magic:#x}, version {version}")
        size, = self._unpack("I", page, _HEAD + 24)
        if size < 512 or size > 1 << 16 or size & (size - 1) or self._page_size not in (0, size):
            raise self._damaged(f"pages of {size} bytes")
        self._page_size = size
        depth, = self._unpack("H", page, _HEAD + 78)
        root, = self._unpack("Q", page, _HEAD + 112)
        transaction, = self._unpack("Q", page, _HEAD + 128)
        return root, depth, transaction

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return iter(()) if self._root == _NOWHERE else self._walk(self._root, min(self._depth, _DEEPEST))

    def _walk(self, number: int, depth: int) -> Iterator[tuple[bytes, bytes]]:
        """The pairs below a page. A tree that is deeper than its header states, or larger than the file, has a cycle."""
        self._left -= 1
        if depth <= 0 or self._left < 0:
            raise self._damaged(f"page {number} is not part of a tree")
        page = self._bytes(number * self._page_size, self._page_size)
        _, _, flags, lower, _ = self._unpack("QHHHH", page, 0)
        if not flags & (_BRANCH | _LEAF) or lower < _HEAD or lower > len(page):
            raise self._damaged(f"page {number} of kind {flags}")
        for at in self._unpack(f"{(lower - _HEAD) // 2}H", page, _HEAD):
            low, high, kind, key_size = self._unpack("HHHH", page, at)
            if self._order == ">":
                low, high = high, low
            start, size = at + 8, low | high << 16
            if flags & _BRANCH:
                yield from self._walk(size | kind << 32, depth - 1)
                continue
            if kind & (_DATABASE | _SEVERAL):
                raise errors.UnimplementedError(None, None, f"{self._path} has named databases, or several values for a key")
            if start + key_size > len(page):
                raise self._damaged(f"a key of {key_size} bytes on page {number}")
            yield page[start:start + key_size], self._value(page, start + key_size, size, bool(kind & _LONG))

    def _value(self, page: bytes, at: int, size: int, long: bool) -> bytes:
        if long:
            number, = self._unpack("Q", page, at)
            begin = number * self._page_size
            _, _, flags, _ = self._unpack("QHHI", self._bytes(begin, _HEAD), 0)
            if not flags & _OVERFLOW or begin + _HEAD + size > self._size:
                raise self._damaged(f"a value of {size} bytes at page {number}")
            return self._bytes(begin + _HEAD, size)
        if at + size > len(page):
            raise self._damaged(f"a value of {size} bytes at {at} of a page")
        return page[at:at + size]
