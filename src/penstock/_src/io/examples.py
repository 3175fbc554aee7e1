"""tf.Example messages to columns, many rows at a time.

`_scanner.c`, which is compiled when penstock is installed with a compiler available, parses rows in the form that serializers
write; without it, `example_templates.py` does. Rows that they reject (another order, a repeated feature, damage) are parsed one
by one with protobuf, which decides: it returns the values, or the error.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.base.api import LazyModule
from penstock._src.io.example_columns import BYTES, FLOAT, KINDS, MISSING, NAMES, Column, Values, packed
from penstock._src.io.example_templates import Irregular, Templates
from penstock._src.kernels import strings

try:
    from penstock._src.io import _scanner as scanner  # type: ignore[attr-defined]  # compiled
except ImportError:
    scanner = None

messages = LazyModule("penstock._src.graph.messages")

_FEW = 12                                          # rows that are not worth a comparison with templates

Fail = Callable[[int, int | None, str], errors.OpError]     # makes the error for a row and a column, or a row as such


class ExampleParser:
    """Parses the values of some columns; caches the templates of rows. Threads may share one."""

    def __init__(self, columns: Sequence[Column]):
        self.columns = list(columns)
        self._templates = Templates(columns)
        self._wanted: Any = None                           # the columns as the scanner takes them

    def parse(self, rows: Sequence[bytes], fail: Fail) -> list[Values]:
        """The values of each column."""
        if scanner is not None:
            pieces, left = self._scan(rows)
            if not len(left):
                return pieces[0][1]
        elif len(rows) >= _FEW:
            try:
                pieces, left = self._templates.compare(rows)
            except (Irregular, IndexError):
                pieces, left = [], np.arange(len(rows))
            if not len(left) and len(pieces) == 1:
                return pieces[0][1]
        else:
            pieces, left = [], np.arange(len(rows))
        if len(left):
            pieces.append((left, self._single(rows, left, fail)))
        if len(pieces) == 1:
            return pieces[0][1]
        return [_merged(len(rows), c, [(r, v[i]) for r, v in pieces]) for i, c in enumerate(self.columns)]

    def _scan(self, rows: Sequence[bytes]) -> tuple[list, np.ndarray]:
        """Runs the scanner; returns the same as `Templates.compare`."""
        if self._wanted is None:
            self._wanted = prepared(tuple(self.columns))
        found, rest = scanner.scan(self._wanted, rows, object_array, torch.get_num_threads())
        values = [_as_values(c, *v) for c, v in zip(self.columns, found, strict=True)]
        left = np.frombuffer(rest, np.int64)
        if not len(left):
            return [(None, values)], left
        if len(left) == len(rows):
            return [], left
        return [(np.setdiff1d(np.arange(len(rows)), left, assume_unique=True), values)], left

    def _single(self, rows: Sequence[bytes], which: np.ndarray, fail: Fail) -> list[Values]:
        """Rows read one by one."""
        def maps() -> Any:
            for row in which.tolist():
                try:
                    yield row, messages.Example.FromString(rows[row]).features.feature
                except messages.DecodeError:
                    raise fail(row, None, f"Could not parse example input, value: '{strings.show(rows[row][:200])}'") from None
        return read_maps(self.columns, maps(), len(which), fail)


def read_maps(columns: Sequence[Column], maps: Any, count: int, fail: Fail) -> list[Values]:
    """The values of columns in maps of features, given as pairs (row, map)."""
    counts = np.full((len(columns), count), MISSING, np.int64)
    flat: list[list] = [[] for _ in columns]
    wanted = [(i, c.key.decode("utf-8", "replace"), c.kind) for i, c in enumerate(columns)]
    for n, (row, features) in enumerate(maps):
        for i, key, kind in wanted:
            if key not in features:
                continue
            feature = features[key]
            field = feature.WhichOneof("kind")
            if field is None:
                continue
            if KINDS[field] != kind:
                raise fail(row, i, NAMES[KINDS[field]])
            values = getattr(feature, field).value
            counts[i, n] = len(values)
            flat[i].extend(values)
    return [Values(counts[i], packed(c.kind, flat[i])) for i, c in enumerate(columns)]


@functools.lru_cache(maxsize=128)
def prepared(columns: tuple[Column, ...]) -> Any:
    """Columns as the scanner takes them."""
    return scanner.prepare([(c.key, c.kind, -1 if c.size is None else c.size) for c in columns])


object_array = functools.partial(np.empty, dtype=object)


def scan_sequences(context: tuple[Column, ...], lists: tuple[Column, ...], rows: Sequence[bytes]) -> Any:
    """The Values of a context, and (steps per row, values per step, values) of lists; None if protobuf must parse them."""
    if scanner is None or len({c.key for c in lists}) != len(lists):
        return None
    found = scanner.scan_sequences(prepared(context), prepared(lists), rows, object_array)
    if found is None:
        return None
    return ([_as_values(c, *v) for c, v in zip(context, found[0], strict=True)],
            [(np.frombuffer(steps, np.int64), np.frombuffer(counts, np.int64), scanned(c.kind, flat))
             for c, (steps, counts, flat) in zip(lists, found[1], strict=True)])


def _as_values(column: Column, counts: Any, flat: Any) -> Values:
    return Values(counts and np.frombuffer(counts, np.int64), scanned(column.kind, flat))


def places(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the values of lists with these counts are in a sparse tensor [rows, longest], and its shape."""
    if scanner is not None:
        pairs, shape = scanner.places(counts)
        return np.frombuffer(pairs, np.int64).reshape(-1, 2), np.frombuffer(shape, np.int64)
    counts = np.maximum(counts, 0)
    place = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    longest = int(counts.max()) if len(counts) else 0
    return np.stack([np.repeat(np.arange(len(counts)), counts), place], 1), np.array([len(counts), longest])


def step_places(steps: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same for sequences, [rows, steps, values]: `steps` of each row, `counts` of each step."""
    if scanner is not None:
        triples, shape = scanner.step_places(steps, counts)
        return np.frombuffer(triples, np.int64).reshape(-1, 3), np.frombuffer(shape, np.int64)
    (rows, step), (of_step, place) = places(steps)[0].T, places(counts)[0].T
    indices = np.stack([rows[of_step], step[of_step], place], 1)
    return indices, np.array([len(steps), steps.max(initial=0), counts.max(initial=0)])


def scanned(kind: int, flat: Any) -> np.ndarray:
    """The scanner's results in the form of `packed`."""
    return flat if kind == BYTES else np.frombuffer(flat, "<f4" if kind == FLOAT else np.int64)


def _merged(total: int, column: Column, pieces: list[tuple[np.ndarray, Values]]) -> Values:
    """The values of several sets of rows, in the order of the rows."""
    counts = np.empty(total, np.int64)
    for rows, values in pieces:
        counts[rows] = (column.size or 0) if values.counts is None else values.counts
    sizes = np.maximum(counts, 0)
    before = np.cumsum(sizes) - sizes
    flat = np.empty(int(sizes.sum()), packed(column.kind, []).dtype)
    for rows, values in pieces:
        mine = sizes[rows]
        to = np.repeat(before[rows] - (np.cumsum(mine) - mine), mine) + np.arange(int(mine.sum()))
        flat[to] = values.flat
    return Values(counts, flat)
