"""Embeddings by key whose rows leave memory to an object store: the core of a table whose `storage` is a URL.

Rows that leave are written together, as one object of up to `SEGMENT` rows, which is never changed. The index of the keys stays
in memory, in the table itself: an entry has the place of its row, which is the number of the object and the position in it. A
batch first brings back the rows that it needs, then works in memory, and then lets the rows go that are too many. Reads of the
store do not hold the lock, so that prefetching and training overlap. An object without rows that are still away is removed, and
objects are merged when most of their rows have come back.
"""
from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.io import objects
from penstock._src.kernels.devices.device import Device
from penstock._src.kernels.keyed import Compiled, KeyedConfig, host_core, is_compiled, record_type
from penstock._src.kernels.keyed_device import OnDevice
from penstock._src.kernels.updates import Chosen

SEGMENT = 1 << 14                 # rows of an object at most
_FEW = 8                          # records are read one by one if the object has this many times more
_PATIENCE = 2                     # reads without the lock before one with it
_KEY = 8                          # bytes
Tensor = torch.Tensor


class Objects(Protocol):
    """Where objects are kept, by name."""

    def write(self, name: str, data: bytes) -> None:
        """Makes an object."""

    def read(self, name: str) -> bytes:
        """A whole object; NotFoundError if there is none."""

    def read_ranges(self, name: str, ranges: list[tuple[int, int]]) -> list[bytes]:
        """The bytes between pairs of positions; NotFoundError if there is no such object."""

    def remove(self, name: str) -> None:
        """Removes an object."""

    def close(self) -> None:
        """Removes all objects."""


class _Segment(NamedTuple):
    """What is known about an object: its name, which is never used again (its number is), its rows, the floats of a row, the
    newest change of one, and how many are still away."""

    name: str
    rows: int
    stride: int
    newest: int
    away: list[int]               # one number, which changes


class Stored:
    """Rows in C, and in an object store."""

    has_rules = True

    def __init__(self, config: KeyedConfig, pool: Tensor | None, objects: Objects):
        self._core, self._objects = Compiled(config, False, torch.float32, pool, outside=True), objects
        self._lock, self._names = threading.RLock(), itertools.count()
        self._segments: dict[int, _Segment] = {}
        self._columns: list[tuple[int, float]] = []             # groups that were added: where they begin, and with what
        weakref.finalize(self, objects.close)

    # -- batches --------------------------------------------------------------------------------------------------------
    def lookup(self, keys: Tensor, n: int, out: Tensor | None, step: int, insert: bool, count: bool,
               found: Tensor | None = None) -> None:
        """Copies the values of keys."""
        self._run(keys, lambda: self._core.lookup(keys, n, out, step, insert, count, found))

    def apply(self, chosen: Chosen, keys: Tensor, n: int, grad: Tensor, offsets: tuple, step: int) -> None:
        """Updates rows by a rule."""
        self._run(keys, lambda: self._core.apply(chosen, keys, n, grad, offsets, step))

    def read(self, keys: Tensor, n: int, out: Tensor, offset: int, found: Tensor) -> None:
        """Copies some columns of keys."""
        self._run(keys, lambda: self._core.read(keys, n, out, offset, found))

    def write(self, keys: Tensor, n: int, values: Tensor, offset: int, creates: bool, versions: Tensor | None,
              frequencies: Tensor | None) -> None:
        """Sets some columns of keys."""
        self._run(keys, lambda: self._core.write(keys, n, values, offset, creates, versions, frequencies))

    def statistics(self, keys: Tensor, n: int, versions: Tensor, frequencies: Tensor) -> None:
        """Versions and frequencies of keys."""
        self._run(keys, lambda: self._core.statistics(keys, n, versions, frequencies))

    def prefetch(self, keys: Tensor, n: int) -> None:
        """Brings rows back to memory, as if they were used."""
        self._run(keys, lambda: self._core.prefetch(keys, n))

    def _run(self, keys: Tensor, call: Callable[[], None]) -> None:
        """Makes a call when the rows of all its keys are in memory. Other threads may push them out again while the store is
        read; then it is read once more, and in the end with the lock."""
        attempt = 0
        while True:
            with self._lock:
                places = self._core.places(keys)
                away = places >= 0
                segments = self._at(places[away])     # with the places: numbers of removed objects are used again
                if attempt >= _PATIENCE and away.any():
                    self._give(keys[away], places[away], self._fetched(places[away], segments), segments)
                    away = torch.zeros_like(away)
                if not away.any():
                    call()
                    self._let_go()
                    return
            try:
                records = self._fetched(places[away], segments)
            except errors.NotFoundError:              # the object was removed: its rows have come back for another thread
                pass
            else:
                with self._lock:
                    self._give(keys[away], places[away], records, segments)
            attempt += 1

    def _at(self, places: Tensor) -> dict[int, _Segment]:
        """The objects that places are in, by their numbers."""
        return {n: self._segments[n] for n in torch.unique(places // SEGMENT).tolist()}

    def _fetched(self, places: Tensor, segments: dict[int, _Segment]) -> np.ndarray:
        """The records at places in objects, with today's columns."""
        with self._lock:
            columns, stride = self._columns, self._core.stride
        made = np.zeros(len(places), record_type(stride))
        for number, segment in segments.items():
            wanted = (places // SEGMENT == number).numpy()
            made[wanted] = _longer(self._some(segment, (places[wanted] % SEGMENT).numpy()), columns, stride)
        return made

    def _some(self, segment: _Segment, positions: np.ndarray) -> np.ndarray:
        """Records of an object, by position: one by one if they are few, else cut out of the whole."""
        kind, distinct = record_type(segment.stride), np.unique(positions)
        if len(distinct) * _FEW > segment.rows:
            return self._whole(segment)[1][positions]
        begins = segment.rows * _KEY + distinct * kind.itemsize
        parts = self._objects.read_ranges(segment.name, [(int(b), int(b) + kind.itemsize) for b in begins])
        return np.frombuffer(b"".join(parts), kind)[np.searchsorted(distinct, positions)]

    def _whole(self, segment: _Segment) -> tuple[Tensor, np.ndarray]:
        """The keys and the records of an object."""
        data = self._objects.read(segment.name)
        keys, kind = np.frombuffer(data, "<i8", segment.rows), record_type(segment.stride)
        return torch.from_numpy(keys.copy()), np.frombuffer(data, kind, segment.rows, segment.rows * _KEY)

    # -- coming and going -----------------------------------------------------------------------------------------------
    def _give(self, keys: Tensor, places: Tensor, records: np.ndarray, segments: dict[int, _Segment]) -> None:
        """Puts records back whose rows are still at their places, in the objects that the records come from."""
        current = [n for n, segment in segments.items() if self._segments.get(n) is segment]
        valid = torch.isin(places // SEGMENT, torch.tensor(current, dtype=torch.int64))
        records = _longer(records[valid.numpy()], self._columns, self._core.stride)     # columns may have been added since
        self._left(self._core.give(keys[valid], places[valid], np.ascontiguousarray(records)))

    def _left(self, places: Tensor) -> None:
        """Rows at places are no longer away; negative places are of rows that were not."""
        numbers, counts = torch.unique(places[places >= 0] // SEGMENT, return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            segment = self._segments[number]
            segment.away[0] -= count
            if not segment.away[0]:
                del self._segments[number]
                self._objects.remove(segment.name)

    def _let_go(self) -> None:
        """Writes the rows that are too many to the store. A failure puts them back."""
        while True:
            number = self._free_number()
            keys, records = self._core.take(number * SEGMENT, SEGMENT)
            if not len(keys):
                break
            self._store(number, keys, records)
        self._merge()

    def _free_number(self) -> int:
        return next(n for n in range(len(self._segments) + 1) if n not in self._segments)

    def _store(self, number: int, keys: Tensor, records: np.ndarray) -> None:
        try:
            self._write(number, keys, records)
        except BaseException:
            self._core.give(keys, number * SEGMENT + torch.arange(len(keys)), records)
            raise

    def _write(self, number: int, keys: Tensor, records: np.ndarray) -> None:
        name = str(next(self._names))
        self._objects.write(name, keys.numpy().tobytes() + records.tobytes())
        self._segments[number] = _Segment(name, len(keys), records["row"].shape[1], int(records["changed"].max()), [len(keys)])

    def _merge(self) -> None:
        """Writes the rows of the emptiest objects to a new one, if objects have more rows that came back than are away."""
        rows, away = sum(s.rows for s in self._segments.values()), sum(s.away[0] for s in self._segments.values())
        if rows <= 2 * away + 2 * SEGMENT:
            return
        parts: list[tuple[Tensor, Tensor, np.ndarray]] = []
        room = SEGMENT
        for number in sorted(self._segments, key=lambda n: self._segments[n].away[0] / self._segments[n].rows):
            room -= self._segments[number].away[0]
            if room < 0:
                break
            parts.append(self._still_away(number))
        keys, places = torch.cat([k for k, _, _ in parts]), torch.cat([p for _, p, _ in parts])
        records = np.concatenate([r for _, _, r in parts])
        number = self._free_number()
        self._write(number, keys, records)
        self._core.renumber(keys, places, number * SEGMENT)
        self._left(places)

    def _still_away(self, number: int) -> tuple[Tensor, Tensor, np.ndarray]:
        """Keys, places and records of an object whose rows are still there."""
        keys, records = self._whole(self._segments[number])
        own = number * SEGMENT + torch.arange(len(keys))
        still = self._core.places(keys) == own
        return keys[still], own[still], _longer(records[still.numpy()], self._columns, self._core.stride)

    def _all_away(self, since: int = -1) -> Iterator[tuple[Tensor, np.ndarray]]:
        """Keys and records of all rows in the store, by object, without objects that did not change after an epoch."""
        for number in [n for n, s in self._segments.items() if s.newest > since]:
            keys, _, records = self._still_away(number)
            yield keys, records

    # -- all rows -------------------------------------------------------------------------------------------------------
    def remove(self, keys: Tensor, n: int) -> int:
        """Removes keys; returns how many had a row."""
        with self._lock:
            distinct = torch.unique(keys)
            places = self._core.places(distinct)
            gone = self._core.remove(distinct, len(distinct))
            self._left(places)
            return gone

    def add_columns(self, initial: float) -> int:
        """Makes rows longer. Objects keep theirs, which are completed when they are read."""
        with self._lock:
            offset = self._core.add_columns(initial)
            self._columns = [*self._columns, (offset, initial)]
            return offset

    def sizes(self) -> tuple[int, int, int, int]:
        """Rows in memory, rows in the store, waiting keys, bytes of memory."""
        return self._core.sizes()

    def track_gone(self) -> None:
        """Keeps the keys that leave, from now on, for incremental exports."""
        self._core.track_gone()

    def evict(self, oldest: int, norm: float) -> int:
        """Removes rows by age or norm; returns how many."""
        with self._lock:
            gone, dim = self._core.evict(oldest, norm), self._core.dim
            for keys, records in list(self._all_away()):
                size = np.linalg.norm(records["row"][:, :dim].astype(np.float64), axis=1)
                leaves = torch.from_numpy(size < norm if norm >= 0 else records["version"] < oldest)
                gone += self.remove(keys[leaves], int(leaves.sum()))
            return gone

    def clear(self) -> None:
        """Removes all rows."""
        with self._lock:
            self._core.clear()
            for segment in self._segments.values():
                self._objects.remove(segment.name)
            self._segments = {}

    def export(self, since: int) -> tuple:
        """The rows that changed after an epoch, in memory and in the store."""
        with self._lock:
            epoch, *parts, gone = self._core.export(since)
            columns = [[part] for part in parts]
            for keys, records in self._all_away(since):
                changed = records["changed"] > since
                found = records[changed]
                for column, more in zip(columns, (keys[torch.from_numpy(changed)], *(
                        torch.from_numpy(found[name].copy()) for name in ("version", "frequency", "row"))), strict=True):
                    column.append(more)
            return (epoch, *(torch.cat(c) for c in columns), gone)


def _longer(records: np.ndarray, columns: list[tuple[int, float]], stride: int) -> np.ndarray:
    """Records with the columns that were added since they were written."""
    have = records["row"].shape[1]
    if have == stride:
        return records
    made = np.empty(len(records), record_type(stride))
    for name in ("version", "frequency", "changed"):
        made[name] = records[name]
    made["row"][:, :have] = records["row"]
    for offset, initial in columns:
        if offset >= have:
            made["row"][:, offset:] = initial
    return made


def core_in_tiers(config: KeyedConfig, is_text: bool, dtype: torch.dtype, pool: Tensor | None, *, device: Device | None) -> Any:
    """A core with the tiers of its configuration: above host memory a device, below it an object store."""
    if "://" in config.storage and is_compiled(dtype) and not is_text:
        below: Any = Stored(config, pool, objects.Folder(config.storage, "rows"))
    else:
        below = host_core(config, is_text, dtype, pool)
    return below if device is None else OnDevice(config, below, dtype, device)
