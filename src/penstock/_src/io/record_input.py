"""Records of many TFRecord files in random order, epoch after epoch: what the op RecordInput yields.

Within an epoch every record comes once. Files are read in a random order, `parallelism` of them side by side, into a
buffer; a record is taken from a random place in it.
"""
from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterator
from typing import Any

from penstock._src.base import errors
from penstock._src.io import paths
from penstock._src.io.record import RecordReader

_STRETCH = 16            # records that are read from a file before the next file


class RecordInput:
    """The endless stream of records. It is thread-safe."""

    def __init__(self, pattern: str, seed: int, shift_ratio: float, buffer_size: int, parallelism: int, compression: str):
        if buffer_size <= 0 or parallelism <= 0:
            raise errors.invalid(f"RecordInput needs a buffer and parallelism > 0, got {buffer_size} and {parallelism}")
        self._pattern, self._seed, self._shift = pattern, seed, shift_ratio
        self._buffer_size, self._parallelism, self._compression = buffer_size, parallelism, compression
        self._lock = threading.Lock()
        self._records = self._stream()

    def take(self, count: int) -> list[bytes]:
        """The next records."""
        with self._lock:
            try:
                return list(itertools.islice(self._records, count))
            except BaseException:
                self._records = self._stream()       # a generator that has failed is exhausted
                raise

    def _stream(self) -> Iterator[bytes]:
        for epoch in itertools.count():
            rng = random.Random(f"{self._seed}/{epoch}")
            found = False
            for record in _shuffled(self._epoch(rng), self._buffer_size, rng):
                found = True
                yield record
            if not found:
                raise errors.NotFoundError(None, None, f"Found no records in the files at {self._pattern}")

    def _epoch(self, rng: random.Random) -> Iterator[bytes]:
        files = [f for p in self._pattern.split(",") for f in paths.glob(p)]
        if not files:
            raise errors.NotFoundError(None, None, f"Found no files at {self._pattern}")
        rng.shuffle(files)
        if 0 <= self._shift < 1:
            first = int(self._shift * len(files))
            files = files[first:] + files[:first]
        waiting = iter(files)
        opened = [RecordReader(f, self._compression) for f in itertools.islice(waiting, self._parallelism)]
        readers: list[Any] = list(opened)
        try:
            while readers:
                for i, reader in enumerate(readers):
                    stretch = reader.read_many(_STRETCH)
                    yield from stretch
                    if len(stretch) < _STRETCH:
                        reader.close()
                        following = next(waiting, None)
                        readers[i] = None if following is None else RecordReader(following, self._compression)
                readers = [r for r in readers if r is not None]
        finally:
            for reader in readers:
                if reader is not None:
                    reader.close()


def _shuffled(records: Iterator[bytes], size: int, rng: random.Random) -> Iterator[bytes]:
    """All records, each from a random place of a buffer of `size`."""
    buffer = list(itertools.islice(records, size))
    for record in records:
        at = rng.randrange(len(buffer))
        out, buffer[at] = buffer[at], record
        yield out
    rng.shuffle(buffer)
    while buffer:
        yield buffer.pop()
