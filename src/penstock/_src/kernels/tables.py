"""Lookup tables at run time: keys to rows of values, with TensorFlow's three kinds.

A `Table` keeps its values in one array with a row per key, and finds rows through a dictionary; many integer keys at
once are found by a binary search in sorted keys, which are kept until the table changes.
"""
from __future__ import annotations

import itertools
import math
import threading
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.kernels import arrays, hashing, strings

_FEW = 64               # keys for which the dictionary is quicker than the sorted keys


class Table:
    """A mutable table from keys (scalars or vectors) to values of a fixed shape. Thread-safe."""

    def __init__(self, container: str, name: str, key_dtype: Any, value_dtype: Any, value_dims: tuple = (),
                 key_dims: tuple = ()):
        self.container, self.name = container, name
        self.key_dtype, self.value_dtype = key_dtype, value_dtype
        self.key_dims, self.value_dims = key_dims, value_dims
        self.lock = threading.RLock()
        self.clear()

    def read(self) -> np.ndarray:
        """The value of a fetched reference to the table: container and name."""
        return strings.pack([self.container.encode(), self.name.encode()])

    def clear(self) -> None:
        """Removes all entries."""
        with self.lock:
            self._rows: dict[Any, int] = {}
            self._free: list[int] = []
            self._values = self._room(0)
            self._sorted: tuple[torch.Tensor, torch.Tensor] | None = None

    def _room(self, rows: int) -> Any:
        if self.value_dtype.torch is None:
            return np.full((rows, *self.value_dims), b"" if self.value_dtype == dtypes.string else None, dtype=object)
        return torch.zeros((rows, *self.value_dims), dtype=self.value_dtype.torch)

    # -- arguments ---------------------------------------------------------------------------------------------------
    def check_types(self, key_dtype: Any, value_dtype: Any = None) -> None:
        """InvalidArgumentError if an op was built for other types."""
        if key_dtype != self.key_dtype or value_dtype not in (None, self.value_dtype):
            raise errors.invalid(f"Conflicting key/value dtypes {key_dtype.name}->"
                                 f"{'?' if value_dtype is None else value_dtype.name} with {self.key_dtype.name}-"
                                 f"{self.value_dtype.name} for table {self.name}")

    def _lead(self, keys: Any) -> tuple:
        """The dimensions of a batch of keys."""
        dims, n = tuple(keys.shape), len(self.key_dims)
        if n and dims[-n:] != self.key_dims:
            raise errors.invalid(f"Input key shape must end in {arrays.show(self.key_dims)}, got {arrays.show(dims)}")
        return dims[:len(dims) - n]

    def _listed(self, keys: Any) -> list:
        flat = keys.reshape(-1, *self.key_dims).tolist()
        return [tuple(k) for k in flat] if self.key_dims else flat

    def check_entries(self, keys: Any, values: Any) -> None:
        """InvalidArgumentError unless there is a value of the right shape for each key."""
        expected = self._lead(keys) + self.value_dims
        if tuple(values.shape) != expected:
            raise errors.invalid(f"Expected shape {arrays.show(expected)} for value, got {arrays.show(values.shape)}")

    # -- entries -----------------------------------------------------------------------------------------------------
    def size(self) -> int:
        """The number of entries."""
        return len(self._rows)

    def find(self, keys: Any, default: Any) -> Any:
        """The values of keys; `default` (one value, or one for each key) where there is none."""
        lead = self._lead(keys)
        if tuple(default.shape) not in (self.value_dims, lead + self.value_dims):
            raise errors.invalid(f"Expected shape {arrays.show(self.value_dims)} for default value, got "
                                 f"{arrays.show(default.shape)}")
        with self.lock:
            rows = self._find_rows(keys)
            missing = rows < 0
            if not self._rows:
                return arrays.copy(arrays.expand(default, lead + self.value_dims))
            found = arrays.take(self._values, rows.clamp(min=0), 0)
        mask = missing.reshape(-1, *(1 for _ in self.value_dims))
        other = default.reshape(-1, *self.value_dims)
        if isinstance(found, np.ndarray):
            return np.where(mask.numpy(), other, found).reshape(lead + self.value_dims)
        return torch.where(mask, other, found).reshape(lead + self.value_dims)

    def _find_rows(self, keys: Any) -> torch.Tensor:
        """The rows of keys, -1 where there is none."""
        if isinstance(keys, torch.Tensor) and not self.key_dims and keys.dtype in (torch.int64, torch.int32) \
                and keys.numel() > _FEW and (self._sorted is not None or keys.numel() * 4 > len(self._rows)):
            return self._search(keys.reshape(-1))
        listed = self._listed(keys)
        return arrays.vector(map(self._rows.get, listed, itertools.repeat(-1)), len(listed), torch.int64)

    def _search(self, keys: torch.Tensor) -> torch.Tensor:
        if self._sorted is None:
            known = torch.tensor(list(self._rows), dtype=keys.dtype)
            order = torch.argsort(known)
            self._sorted = known[order], torch.tensor(list(self._rows.values()), dtype=torch.int64)[order]
        known, rows = self._sorted
        if not known.numel():
            return torch.full(keys.shape, -1, dtype=torch.int64)
        at = torch.searchsorted(known, keys).clamp(max=known.numel() - 1)
        return torch.where(known[at] == keys, rows[at], -1)

    def insert(self, keys: Any, values: Any) -> None:
        """Adds or replaces entries; of equal keys the last counts."""
        self.check_entries(keys, values)
        with self.lock:
            last = {k: i for i, k in enumerate(self._listed(keys))}
            self._insert(list(last), arrays.take(values.reshape(-1, *self.value_dims),
                                                 torch.tensor(list(last.values()), dtype=torch.int64), 0))

    def _insert(self, keys: list, values: Any) -> None:
        """Adds or replaces entries of different keys."""
        new = [k for k in keys if k not in self._rows]
        used = len(self._rows) + len(self._free)
        self._grow(used + max(len(new) - len(self._free), 0))
        for k in new:
            if self._free:
                self._rows[k] = self._free.pop()
            else:
                self._rows[k] = used
                used += 1
        if new:
            self._sorted = None
        rows = [self._rows[k] for k in keys]
        self._values[np.array(rows, np.int64) if isinstance(self._values, np.ndarray) else torch.tensor(
            rows, dtype=torch.int64)] = values

    def _grow(self, rows: int) -> None:
        have = len(self._values)
        if rows > have:
            room = self._room(max(rows, 2 * have))
            room[:have] = self._values
            self._values = room

    def remove(self, keys: Any) -> None:
        """Removes the entries of some keys."""
        self._lead(keys)
        with self.lock:
            for k in self._listed(keys):
                row = self._rows.pop(k, None)
                if row is not None:
                    self._free.append(row)
                    self._sorted = None

    def import_entries(self, keys: Any, values: Any) -> None:
        """Replaces all entries."""
        self.check_entries(keys, values)
        with self.lock:
            self.clear()
            self.insert(keys, values)

    def export(self) -> tuple[Any, Any]:
        """All keys and values, in the order in which they were added."""
        with self.lock:
            rows = torch.tensor(list(self._rows.values()), dtype=torch.int64)
            return self._keys(list(self._rows)), arrays.take(self._values, rows, 0)

    def _keys(self, keys: list) -> Any:
        if self.key_dtype == dtypes.string:
            flat = [part for k in keys for part in k] if self.key_dims else keys
            return strings.pack(flat, (len(keys), *self.key_dims))
        return torch.tensor(keys, dtype=self.key_dtype.torch).reshape(len(keys), *self.key_dims)


_STATIC = {"int32": "float64 float32 int32 string", "int64": "float64 float32 int32 int64 string",
           "string": "bool float64 float32 int32 int64 string"}


class StaticTable(Table):
    """A table that is filled once."""

    initialized = False

    def __init__(self, container: str, name: str, key_dtype: Any, value_dtype: Any):
        if value_dtype.name not in _STATIC.get(key_dtype.name, "").split():
            raise errors.NotFoundError(None, None, f"There is no HashTable from {key_dtype.name} to {value_dtype.name}; "
                                       f"tables exist for {', '.join(f'{k} to {v}' for k, v in _STATIC.items())}")
        super().__init__(container, name, key_dtype, value_dtype)

    def _check_initialized(self) -> None:
        if not self.initialized:
            raise errors.FailedPreconditionError(None, None, "Table not initialized. Run tf.tables_initializer() first.")

    def initialize(self, keys: Any, values: Any) -> None:
        """Fills the table; repeating it is allowed only with the same entries."""
        if keys.ndim != 1 or tuple(keys.shape) != tuple(values.shape):
            raise errors.invalid("Keys and values must be vectors of the same size, got shapes "
                                 f"{arrays.show(keys.shape)} and {arrays.show(values.shape)}")
        with self.lock:
            entries: dict[Any, Any] = {}
            for k, v in zip(keys.tolist(), values.tolist(), strict=True):
                if entries.setdefault(k, v) != v and v == v:
                    raise errors.FailedPreconditionError(
                        None, None, f"HashTable has different value for same key. Key {_shown(k)} has "
                        f"{_shown(entries[k])} and trying to add value {_shown(v)}")
            if self.initialized:
                mine = dict(zip(*(x.tolist() for x in super().export()), strict=True))
                if mine != entries:
                    raise errors.FailedPreconditionError(None, None, "Table already initialized.")
                return
            super().insert(keys, values)
            self.initialized = True

    import_entries = initialize

    def find(self, keys: Any, default: Any) -> Any:
        """The values of keys; `default` where there is none."""
        self._check_initialized()
        return super().find(keys, default)

    def export(self) -> tuple[Any, Any]:
        """All keys and values."""
        self._check_initialized()
        return super().export()

    def insert(self, keys: Any, values: Any) -> None:
        """Not for this kind of table."""
        raise errors.UnimplementedError(None, None, "Insert not supported by InitializableLookupTable implementations")

    def remove(self, keys: Any) -> None:
        """Not for this kind of table."""
        raise errors.UnimplementedError(None, None, "Remove not supported by InitializableLookupTable implementations")


def _shown(item: Any) -> str:
    return strings.show(item) if isinstance(item, bytes) else str(item)


class DenseTable(Table):
    """A table over buckets: two keys represent empty and deleted buckets, and exports show all buckets."""

    def __init__(self, container: str, name: str, key_dtype: Any, value_dtype: Any, value_dims: tuple, empty: Any,
                 deleted: Any, buckets: int, max_load_factor: float):
        if not 0 < max_load_factor < 1:
            raise errors.invalid(f"max_load_factor must be between 0 and 1, got: {max_load_factor}")
        if len(value_dims) > 1:
            raise errors.invalid(f"Empty value must be a scalar or a vector, got shape {arrays.show(value_dims)}")
        if empty.ndim > 1:
            raise errors.invalid(f"Empty key must be a scalar or a vector, got shape {arrays.show(empty.shape)}")
        if deleted is not None and empty.shape != deleted.shape:
            raise errors.invalid("Empty and deleted keys must have same shape, got shapes: "
                                 f"{arrays.show(empty.shape)} and {arrays.show(deleted.shape)}")
        self._empty, self._deleted = _as_key(empty), None if deleted is None else _as_key(deleted)
        if self._empty == self._deleted:
            raise errors.invalid("Empty and deleted keys cannot be equal")
        self._buckets, self._load = _checked_buckets(buckets), max_load_factor
        super().__init__(container, name, key_dtype, value_dtype, value_dims, tuple(empty.shape))

    def clear(self) -> None:
        """Empties all buckets."""
        super().clear()
        strings.check_elements(self._buckets * max(math.prod(self.value_dims), 1), "The buckets of the table")
        self._values = self._room(self._buckets)
        self._held: list = [self._empty] * self._buckets        # the key of each bucket

    def _lead(self, keys: Any) -> tuple:
        dims, n = tuple(keys.shape), len(self.key_dims)
        batch = dims[:1] if len(dims) > n else ()
        if dims != batch + self.key_dims and dims not in ((), (1,)):
            expected = (dims[0] if dims else 1, *self.key_dims)
            raise errors.invalid(f"Expected key shape {arrays.show(expected)} got {arrays.show(dims)}")
        return dims[:len(dims) - n]

    def _listed(self, keys: Any) -> list:
        listed = super()._listed(keys)
        for mark, what in ((self._empty, "empty_key"), (self._deleted, "deleted_key")):
            if mark is not None and mark in listed:
                raise errors.invalid(f"Using the {what} as a table key is not allowed")
        return listed

    def _find_rows(self, keys: Any) -> torch.Tensor:
        self._listed(keys)
        return super()._find_rows(keys)

    def _insert(self, keys: list, values: Any) -> None:
        wanted = self._buckets
        while len(self._rows) + len(keys) > wanted * self._load:
            wanted *= 2
        if wanted > self._buckets:
            old, rows = list(self._rows), torch.tensor(list(self._rows.values()), dtype=torch.int64)
            kept = arrays.take(self._values, rows, 0)
            self._buckets = wanted
            self.clear()
            self._place(old, kept)
        self._place(keys, values)

    def _place(self, keys: list, values: Any) -> None:
        """Puts keys into buckets: the first free one, probing with growing steps."""
        free = (self._empty, self._deleted)
        for key in keys:
            if key in self._rows:
                continue
            at, step = _bucket_hash(key) % self._buckets, 0
            while self._held[at] not in free:
                step += 1
                at = (at + step) % self._buckets
            self._held[at] = key
            self._rows[key] = at
            self._sorted = None
        rows = torch.tensor([self._rows[k] for k in keys], dtype=torch.int64)
        self._values[rows.numpy() if isinstance(self._values, np.ndarray) else rows] = values

    def remove(self, keys: Any) -> None:
        """Removes the entries of some keys; their buckets are marked as deleted."""
        self._lead(keys)
        with self.lock:
            for k in self._listed(keys):
                at = self._rows.pop(k, None)
                if at is not None:
                    self._held[at] = self._empty if self._deleted is None else self._deleted
                    self._sorted = None

    def import_entries(self, keys: Any, values: Any) -> None:
        """Replaces all buckets."""
        self.check_entries(keys, values)
        listed = Table._listed(self, keys)
        kept = [i for i, k in enumerate(listed) if k not in (self._empty, self._deleted)]
        flat = values.reshape(-1, *self.value_dims)
        with self.lock:
            self._buckets = _checked_buckets(len(listed))
            self.clear()
            self._insert([listed[i] for i in kept], arrays.take(flat, torch.tensor(kept, dtype=torch.int64), 0))

    def export(self) -> tuple[Any, Any]:
        """The keys and values of all buckets."""
        with self.lock:
            return self._keys(self._held), arrays.copy(self._values)


def _as_key(value: Any) -> Any:
    listed = value.tolist()
    return tuple(listed) if isinstance(listed, list) else listed


def _checked_buckets(count: int) -> int:
    if count < 4 or count & count - 1 or count > 2 ** 31:
        raise errors.invalid(f"Number of buckets must be at least 4 and a power of 2, got: {count}")
    return count


def _bucket_hash(key: Any) -> int:
    parts = [_scalar_hash(p) for p in (key if isinstance(key, tuple) else (key,))]
    if len(parts) == 1:
        return parts[0]
    result = 0
    for part in parts:
        result ^= (part + 0x9E3779B97F4A7800 + (result << 10) + (result >> 4)) & (1 << 64) - 1
    return result


def _scalar_hash(part: Any) -> int:
    return int(hashing.murmur64([part])[0]) if isinstance(part, bytes) else int(part) & (1 << 64) - 1
