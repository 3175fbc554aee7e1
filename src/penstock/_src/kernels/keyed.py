"""Embeddings by key at run time: rows of numbers that are created when their key is first seen.

A `KeyedTable` is the resource behind an embedding variable. Its rows are kept by a core: `Compiled` (`_keyed.c`), which works
on many threads without Python's lock, or `_Plain`, the same in Python, where there is no compiler or values are not float32.
Both take batches of keys, and agree on every result; only the order of an export may differ.

A row has columns: the values, and one group per slot of an optimizer. Slots are added when an optimizer first requests them.
"""
from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import tempfile
import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.kernels import hashing, strings
from penstock._src.kernels.devices.cpu import to_host
from penstock._src.kernels.devices.device import Device
from penstock._src.kernels.host_threads import compiled
from penstock._src.kernels.updates import Chosen

CONSTANT, UNIFORM, NORMAL, TRUNCATED, POOL = range(5)              # how rows begin
ADMIT_ALL, ADMIT_COUNTED, ADMIT_BLOOM, ADMIT_PROBABLY = range(4)
LEAST_RECENT, LEAST_FREQUENT = range(2)
_SHARDS, _ROWS_PER_SHARD = 16, 4096
AT_ONCE = 16                     # a full shard evicts this fraction of its rows at once
_NO_STEP = -1
_kernels = functools.partial(compiled, "_keyed")
Tensor = torch.Tensor


@dataclasses.dataclass(frozen=True)
class KeyedConfig:
    """The configuration of a table. `start` is the distribution of initial rows, `start_a` and `start_b` its parameters."""

    dim: int
    seed: int = 0
    start: int = CONSTANT
    start_a: float = 0.0
    start_b: float = 0.0
    capacity: int = 0                 # rows in memory; 0: no limit
    policy: int = LEAST_RECENT
    admission: int = ADMIT_ALL
    threshold: int = 0                # how often a key is seen before it is admitted
    probability: float = 1.0
    bloom_items: int = 0
    bloom_error: float = 0.01
    refused: float = 0.0              # the value of keys that are not admitted yet
    steps_to_live: int = 0            # 0: rows are never evicted by age
    l2_threshold: float = -1.0        # rows with a smaller norm are evicted; below 0: none
    device_rows: int = 0              # rows in the memory of a GPU that the table is placed on
    storage: str = ""                 # the folder or URL that evicted rows are written to; "": they are dropped
    part: int = 0
    parts: int = 1                    # tables that share the keys, on parameter servers

    def to_json(self) -> str:
        """The configuration as text, for the attribute of an op."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> KeyedConfig:
        """The configuration of a text; InvalidArgumentError if it is not one."""
        try:
            made = cls(**json.loads(text))
        except (ValueError, TypeError) as e:
            raise errors.invalid(f"Not the configuration of an embedding variable: {e}") from None
        made.check()
        return made

    def check(self) -> None:
        """InvalidArgumentError for sizes that no table can have."""
        if not 0 < self.dim <= 1 << 20:
            raise errors.invalid(f"The dimension of an embedding must be between 1 and {1 << 20}, got {self.dim}")
        sizes = min(self.capacity, self.device_rows, self.bloom_items) >= 0 and self.device_rows < 1 << 31
        if not sizes or not 0 < self.bloom_error < 1 or self.parts < 1:
            raise errors.invalid(f"Capacity, filter or parts out of range: {self}")

    @property
    def shards(self) -> int:
        """The number of shards of a table: fewer if its capacity is small, so that none fills up early."""
        if not self.capacity:
            return _SHARDS
        return 1 << max(0, min(_SHARDS, self.capacity // _ROWS_PER_SHARD).bit_length() - 1)

    def bloom(self) -> tuple[int, int]:
        """Counters of a shard's filter, and hashes per key."""
        if self.admission != ADMIT_BLOOM:
            return 0, 0
        size = math.ceil(-max(self.bloom_items, 1) * math.log(self.bloom_error) / math.log(2) ** 2)
        hashes = max(1, min(8, round(size / max(self.bloom_items, 1) * math.log(2))))
        return max(64, size // self.shards), hashes


class Columns(NamedTuple):
    """A group of columns: where it begins in a row, and what it begins with."""

    offset: int
    initial: float


class Export(NamedTuple):
    """Rows of a table, and keys that have left it."""

    epoch: int                      # rows that change from now on are after it
    keys: Any
    versions: Tensor
    frequencies: Tensor
    columns: dict[str, Tensor]
    gone: Any


class KeyedTable:
    """An embedding variable at run time. Thread-safe."""

    def __init__(self, name: str, config: KeyedConfig, is_text: bool, dtype: Any, core: Callable[..., Any] | None = None,
                 device: Device | None = None):
        self.name, self.config, self.is_text, self.dtype = name, config, is_text, dtype
        if is_text and config.storage:
            raise errors.invalid(f"Embedding variable {name} has string keys: their rows stay in memory (storage_path)")
        self._make, self._device = core or host_core, device         # what makes the core, and where its rows are looked up
        self.dims = (None, config.dim)
        self.lock = threading.RLock()             # for adding columns, and for updates that are not fused
        self.slots: dict[str, Columns] = {}
        self.core: Any = None                     # None before initialization
        self.step = _NO_STEP                      # the latest step that updated rows
        self.saved = self.saving = 0              # the epochs of the last save that ended, and of the current one

    # -- beginning ----------------------------------------------------------------------------------------------------
    def initialize(self, pool: Tensor | None) -> None:
        """Makes the table empty. `pool` has the rows that new ones are copied from, if so configured."""
        dim = self.config.dim
        if self.config.start == POOL and (pool is None or pool.ndim != 2 or not pool.shape[0] or pool.shape[1] != dim):
            raise errors.invalid(f"The initial rows of {self.name} must be a matrix with {dim} columns")
        with self.lock:
            slots, self.core = self.slots, self._make(self.config, self.is_text, self.dtype.torch, pool)
            self.slots, self.saved, self.saving = {}, 0, 0
            for slot, columns in slots.items():
                self.add_slot(slot, columns.initial)

    @property
    def kernel_type(self) -> str:
        """The type of the kernels that work on rows which are read."""
        return "cpu" if self._device is None else self._device.kernel_type

    def placed(self, value: Tensor) -> Tensor:
        """A value where the rows are looked up."""
        return to_host(value) if self._device is None else self._device.put(value)

    def _empty(self, n: int) -> Tensor:
        shape, dtype = (n, self.config.dim), self.dtype.torch
        return torch.empty(shape, dtype=dtype) if self._device is None else self._device.allocate(shape, dtype)

    def ready(self) -> Any:
        """The core; FailedPreconditionError before initialization."""
        if self.core is None:
            raise errors.FailedPreconditionError(
                None, None, f"Attempting to use uninitialized embedding variable {self.name} (run "
                "tf.global_variables_initializer(), or restore a checkpoint, first)")
        return self.core

    def add_slot(self, slot: str, initial: float) -> Columns:
        """The columns of a slot, made if they do not exist."""
        found = self.slots.get(slot)
        if found is None:
            with self.lock:
                found = self.slots.get(slot)
                if found is None:
                    found = self.slots[slot] = Columns(self.ready().add_columns(initial), initial)
        return found

    # -- keys ---------------------------------------------------------------------------------------------------------
    def _keys(self, keys: Any) -> tuple[Any, int]:
        """Keys as the core takes them (a vector of int64, or a list of bytes), and how many they are."""
        if self.is_text:
            flat = keys if isinstance(keys, list) else keys.reshape(-1).tolist()
            return flat, len(flat)
        flat = to_host(keys).reshape(-1)
        return (flat if flat.dtype is torch.int64 else flat.long()).contiguous(), flat.numel()

    def lookup(self, keys: Any, step: int = _NO_STEP, insert: bool = True, count: bool = True) -> Tensor:
        """The values of keys, with a row for each. New keys get rows if `insert`; otherwise the initial values are returned."""
        flat, n = self._keys(keys)
        out = self._empty(n)
        self._call(self.ready().lookup, flat, n, out, step, insert, count)
        return out.reshape(*keys.shape, self.config.dim)

    def apply(self, chosen: Chosen, keys: Any, grad: Tensor, slots: Iterable[Columns], step: int = _NO_STEP) -> bool:
        """Updates rows by a rule, with the sum of the gradients of equal keys; False if the core has no rules."""
        core = self.ready()
        if not core.has_rules:
            return False
        flat, n = self._keys(keys)
        self._check_rows(n, grad)
        self.step = max(self.step, step)
        self._call(core.apply, chosen, flat, n, self.placed(grad).contiguous(), tuple(s.offset for s in slots), step)
        return True

    def _check_rows(self, n: int, rows: Tensor) -> None:
        if tuple(rows.shape) != (n, self.config.dim):
            raise errors.invalid(f"Expected rows of shape [{n},{self.config.dim}] for embedding variable {self.name}, got "
                                 f"{list(rows.shape)}")

    def read(self, keys: Any, slot: str | None = None) -> tuple[Tensor, Tensor]:
        """The values of keys, or those of a slot, and which keys have a row. Nothing is counted."""
        flat, n = self._keys(keys)
        out, found = self._empty(n), torch.empty(n, dtype=torch.bool)
        self._call(self.ready().read, flat, n, out, self._offset(slot), found)
        return out, found

    def write(self, keys: Any, values: Tensor, slot: str | None = None, creates: bool = True, versions: Tensor | None = None,
              frequencies: Tensor | None = None) -> None:
        """Sets the values of keys, or those of a slot; of equal keys the last counts."""
        flat, n = self._keys(keys)
        self._check_rows(n, values)
        given = [None if t is None or t.numel() != n else to_host(t).long().contiguous() for t in (versions, frequencies)]
        values = self.placed(values).to(self.dtype.torch).contiguous()
        self._call(self.ready().write, flat, n, values, self._offset(slot), creates, *given)

    def _offset(self, slot: str | None) -> int:
        return 0 if slot is None else self.slots[slot].offset

    def remove(self, keys: Any) -> int:
        """Removes keys; returns how many had a row."""
        return self._call(self.ready().remove, *self._keys(keys))

    def prefetch(self, keys: Any) -> None:
        """Brings rows from disk to memory."""
        self._call(self.ready().prefetch, *self._keys(keys))

    def statistics(self, keys: Any) -> tuple[Tensor, Tensor]:
        """The steps of last use, and the frequencies, of keys."""
        flat, n = self._keys(keys)
        versions, frequencies = torch.zeros(n, dtype=torch.int64), torch.zeros(n, dtype=torch.int64)
        self.ready().statistics(flat, n, versions, frequencies)
        return versions, frequencies

    # -- all rows -----------------------------------------------------------------------------------------------------
    def size(self) -> int:
        """The number of rows, in memory and on disk."""
        return sum(self.ready().sizes()[:2])

    def evict(self, step: int) -> int:
        """Evicts rows that are too old or too small by the configuration; returns how many."""
        config, gone = self.config, 0
        if config.steps_to_live > 0 and step >= 0:
            gone += self._call(self.ready().evict, step - config.steps_to_live, -1.0)
        if config.l2_threshold > 0:
            gone += self._call(self.ready().evict, 0, config.l2_threshold)
        return gone

    def export(self, since: int = 0) -> Export:
        """The rows that changed after an epoch, by groups of columns: "" names the values."""
        self.ready().track_gone()           # the next export may be an incremental one
        epoch, keys, versions, frequencies, rows, gone = self._call(self.ready().export, since)
        columns = {"": 0, **{name: c.offset for name, c in self.slots.items()}}
        parts = {name: rows[:, at:at + self.config.dim] for name, at in columns.items()}
        return Export(epoch, keys, versions, frequencies, parts, gone)

    def begin_save(self, incremental: bool) -> Export:
        """The rows to save: all, or those that changed since the last completed save. Evicts expired rows first."""
        self.evict(self.step)
        found = self.export(self.saved if incremental else 0)
        self.saving = found.epoch
        return found

    def end_save(self) -> None:
        """Marks the rows of `begin_save` as saved: the next incremental save omits them."""
        self.saved = max(self.saved, self.saving)

    def mark_saved(self) -> None:
        """Marks all rows as saved, because they were restored."""
        self.ready().track_gone()
        self.saved = self.saving = self._call(self.ready().export, 1 << 62)[0]

    def clear(self) -> None:
        """Removes all rows."""
        self.ready().clear()

    def close(self) -> None:
        """Frees the rows."""
        self.core = None

    def _call(self, fn: Any, *args: Any) -> Any:
        try:
            return fn(*args)
        except MemoryError:
            raise errors.ResourceExhaustedError(None, None, f"No memory for rows of embedding variable {self.name}") from None
        except OSError as e:
            raise errors.InternalError(None, None, f"The file of evicted rows of {self.name} failed: {e.strerror}") from None


def host_core(config: KeyedConfig, is_text: bool, dtype: torch.dtype, pool: Tensor | None) -> Any:
    """A core in host memory."""
    return (Compiled if is_compiled(dtype) else _Plain)(config, is_text, dtype, pool)


def is_compiled(dtype: torch.dtype) -> bool:
    """Whether rows of a type are kept in C."""
    return dtype is torch.float32 and _kernels() is not None


def _at(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _record_file(config: KeyedConfig) -> str | None:
    """A file for evicted rows. It is unlinked immediately where the system allows that, so that it is removed with the
    table."""
    if not config.storage:
        return None
    os.makedirs(config.storage, exist_ok=True)
    handle, path = tempfile.mkstemp(prefix="rows-", dir=config.storage)
    os.close(handle)
    return path


class Compiled:
    """Rows in C."""

    has_rules = True

    def __init__(self, config: KeyedConfig, is_text: bool, dtype: torch.dtype, pool: Tensor | None, outside: bool = False):
        self._c, self._config, self._is_text, self.dim = _kernels(), config, is_text, config.dim
        pool = None if pool is None or config.start != POOL else pool.float().contiguous()
        numbers = (config.dim, config.shards, config.capacity, config.policy, config.seed, config.admission, config.threshold,
                   *config.bloom(), int(is_text), config.start, 0 if pool is None else pool.shape[0])
        path = "" if outside else _record_file(config)
        self._table = self._c.new(numbers, config.start_a, config.start_b, config.probability, config.refused, _at(pool), path)
        if path:
            os.unlink(path)
        self._rules = {name: i for i, name in enumerate(self._c.RULES)}

    def _given(self, keys: Any) -> Any:
        return keys if self._is_text else keys.data_ptr()

    def lookup(self, keys: Any, n: int, out: Tensor | None, step: int, insert: bool, count: bool,
               found: Tensor | None = None) -> None:
        self._c.lookup(self._table, self._given(keys), n, _at(out), step, insert, count, _at(found))

    def prefetch(self, keys: Any, n: int) -> None:
        self._c.lookup(self._table, self._given(keys), n, 0, _NO_STEP, False, False, 0)

    def apply(self, chosen: Chosen, keys: Any, n: int, grad: Tensor, offsets: tuple, step: int) -> None:
        rule, numbers = chosen
        self._c.apply(self._table, self._given(keys), n, grad.data_ptr(), step, self._rules[rule], offsets, numbers)

    def read(self, keys: Any, n: int, out: Tensor, offset: int, found: Tensor) -> None:
        self._c.move(self._table, self._given(keys), n, False, out.data_ptr(), offset, self._config.dim, _NO_STEP, False, 0, 0,
                     found.data_ptr())

    def write(self, keys: Any, n: int, values: Tensor, offset: int, creates: bool, versions: Tensor | None,
              frequencies: Tensor | None) -> None:
        self._c.move(self._table, self._given(keys), n, True, values.data_ptr(), offset, self._config.dim, _NO_STEP, creates,
                     _at(versions), _at(frequencies), 0)

    def remove(self, keys: Any, n: int) -> int:
        return self._c.remove(self._table, self._given(keys), n)

    def statistics(self, keys: Any, n: int, versions: Tensor, frequencies: Tensor) -> None:
        self._c.statistics(self._table, self._given(keys), n, versions.data_ptr(), frequencies.data_ptr())

    # -- rows that the caller keeps -------------------------------------------------------------------------------------
    @property
    def stride(self) -> int:
        """The floats of a row."""
        return self._c.take(self._table, 0, 0)[2]

    def places(self, keys: Tensor) -> Tensor:
        """Where the rows of keys were put by `take`; -1 for keys that are not away."""
        made = torch.empty(len(keys), dtype=torch.int64)
        self._c.places(self._table, self._given(keys), len(keys), made.data_ptr())
        return made

    def take(self, place: int, most: int) -> tuple[Tensor, np.ndarray]:
        """Keys and records of up to so many rows above the capacity, which are at this place and the next ones from now on."""
        keys, records, stride = self._c.take(self._table, place, most)
        return _numbers(keys, torch.int64), np.frombuffer(records, record_type(stride))

    def give(self, keys: Tensor, places: Tensor, records: np.ndarray) -> Tensor:
        """Puts records back that are still at their places; returns these places, and -1 for the others."""
        places = places.clone()
        self._c.give(self._table, self._given(keys), len(keys), places.data_ptr(), records.ctypes.data, 0)
        return places

    def renumber(self, keys: Tensor, places: Tensor, first: int) -> None:
        """The i-th of some rows, if it is still at its place, is at `first` + i now."""
        self._c.give(self._table, self._given(keys), len(keys), places.clone().data_ptr(), 0, first)

    def add_columns(self, initial: float) -> int:
        return self._c.add_columns(self._table, self._config.dim, initial)

    def sizes(self) -> tuple[int, int, int, int]:
        return self._c.sizes(self._table)

    def track_gone(self) -> None:
        """Keeps the keys that leave, from now on, for incremental exports."""
        self._c.track_gone(self._table)

    def evict(self, oldest: int, norm: float) -> int:
        return self._c.evict(self._table, oldest, norm)

    def clear(self) -> None:
        self._c.clear(self._table)

    def export(self, since: int) -> tuple:
        epoch, keys, versions, frequencies, rows, gone, stride = self._c.export(self._table, since)
        return (epoch, self._unpacked(keys), _numbers(versions, torch.int64), _numbers(frequencies, torch.int64),
                _numbers(rows, torch.float32).reshape(-1, stride), self._unpacked(gone))

    def _unpacked(self, keys: bytearray) -> Any:
        return strings.pack(_texts(keys)) if self._is_text else _numbers(keys, torch.int64)


def record_type(stride: int) -> np.dtype:
    """A row that is kept outside."""
    return np.dtype([("version", "<i8"), ("frequency", "<i8"), ("changed", "<i8"), ("row", "<f4", (stride,))])


def _numbers(data: bytearray, dtype: torch.dtype) -> Tensor:
    return torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)


def _texts(data: bytearray) -> list[bytes]:
    made, at, whole = [], 0, bytes(data)
    while at < len(whole):
        size = int.from_bytes(whole[at:at + 4], "little")
        made.append(whole[at + 4:at + 4 + size])
        at += 4 + size
    return made


# -- the same in Python -------------------------------------------------------------------------------------------------
_MASK = (1 << 64) - 1


def _mix(x: Any) -> Any:
    """The hash of `_keyed.c`, for a number or for an array."""
    array = isinstance(x, np.ndarray)
    with np.errstate(over="ignore"):
        def product(a: Any, b: int) -> Any:
            return a * np.uint64(b) if array else a * b & _MASK
        x = x + np.uint64(0x9e3779b97f4a7c15) if array else x + 0x9e3779b97f4a7c15 & _MASK
        wide = (np.uint64(30), np.uint64(27), np.uint64(31)) if array else (30, 27, 31)
        x = product(x ^ x >> wide[0], 0xbf58476d1ce4e5b9)
        x = product(x ^ x >> wide[1], 0x94d049bb133111eb)
        return x ^ x >> wide[2]


def text_hash(text: bytes) -> int:
    """The hash of a string key, without sign."""
    hashed, whole = _mix(len(text)), len(text) // 8 * 8
    for at in range(0, whole, 8):
        hashed = _mix(hashed ^ int.from_bytes(text[at:at + 8], "little"))
    return _mix(hashed ^ int.from_bytes(text[whole:], "little"))


def key_parts(keys: Any, parts: int) -> np.ndarray:
    """For each key the part of a variable that it belongs to: the remainder of the key, or of a string's fingerprint."""
    if isinstance(keys, np.ndarray):
        return (hashing.fingerprint64(keys.reshape(-1).tolist()).astype(np.uint64) % np.uint64(parts)).astype(np.int64)
    return (keys.reshape(-1) % parts).numpy()


def _unit(bits: Any) -> Any:
    return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0 ** -53


def begin(config: KeyedConfig, keys: list[int], pool: Tensor | None = None) -> np.ndarray:
    """What the rows of keys (of string keys, their hashes) begin with."""
    streams = np.array([_mix(_mix(config.seed & _MASK) ^ k & _MASK) for k in keys], np.uint64).reshape(-1, 1)
    column, dim = np.arange(config.dim, dtype=np.uint64), config.dim
    if config.start == POOL:
        assert pool is not None
        return pool.double().numpy()[np.mod(streams[:, 0], np.uint64(len(pool))).astype(np.int64)]
    if config.start == CONSTANT:
        return np.full((len(keys), dim), config.start_a)
    if config.start == UNIFORM:
        return config.start_a + (config.start_b - config.start_a) * _unit(_mix(streams + column))

    def gaussian(number: Any) -> Any:
        two = np.uint64(2)
        a, b = _unit(_mix(streams + two * number)), _unit(_mix(streams + two * number + np.uint64(1)))
        return np.sqrt(-2 * np.log(a)) * np.cos(2 * np.pi * b)
    x = gaussian(column)
    if config.start == TRUNCATED:
        for again in range(1, 64):
            far = np.abs(x) >= 2
            if not far.any():
                break
            x = np.where(far, gaussian(column + np.uint64(dim * again)), x)
        x = np.where(np.abs(x) < 2, x, 0.0)
    return config.start_a + config.start_b * x


class _Gone(dict):
    """The keys that have left, with the epochs in which they did; nothing is kept before `tracks` is set."""

    tracks = False

    def __setitem__(self, key: Any, epoch: int) -> None:
        if self.tracks:
            super().__setitem__(key, epoch)


class _Record:
    """What `_Plain` keeps of a key."""

    __slots__ = ("row", "version", "frequency", "used", "changed", "on_disk")

    def __init__(self, row: Any):
        self.row, self.version, self.frequency, self.used, self.changed, self.on_disk = row, 0, 0, 0, 0, False


class _Plain:
    """Rows in a dictionary, by shard. Rows that would be on disk stay in memory, but count as being there."""

    has_rules = False

    def __init__(self, config: KeyedConfig, is_text: bool, dtype: torch.dtype, pool: Tensor | None):
        self._config, self._is_text, self._dtype, self._pool = config, is_text, dtype, pool
        self._lock, self._epoch = threading.RLock(), 1
        self._start = [0.0] * config.dim
        self.clear()

    def clear(self) -> None:
        n = self._config.shards
        self._shards: list[dict] = [{} for _ in range(n)]
        self._waiting: list[dict] = [{} for _ in range(n)]
        self._counters = [np.zeros(self._config.bloom()[0], np.int64) for _ in range(n)]
        self._random = [_mix(self._config.seed & _MASK ^ i) for i in range(n)]
        self._clock = [0] * n
        self._gone = _Gone()

    def track_gone(self) -> None:
        self._gone.tracks = True

    def _listed(self, keys: Any) -> list:
        return keys if self._is_text else keys.tolist()

    def _hash(self, key: Any) -> int:
        return text_hash(key) if self._is_text else _mix(key & _MASK)

    def _number(self, key: Any) -> int:
        return text_hash(key) if self._is_text else key

    def _by_shard(self, keys: Any) -> Iterable[tuple[int, int, Any, int]]:
        """Positions, keys and hashes by shard, in the order in which the shards see them."""
        hashed = [(i, k, self._hash(k)) for i, k in enumerate(self._listed(keys))]
        return ((h >> 40 & self._config.shards - 1, i, k, h) for i, k, h in hashed)

    def _new(self, key: Any) -> Tensor:
        row = torch.tensor(self._start, dtype=torch.float64)
        row[:self._config.dim] = torch.from_numpy(begin(self._config, [self._number(key)], self._pool)[0])
        return row.to(self._dtype)

    def _make_room(self, at: int) -> None:
        shard, most = self._shards[at], self._config.capacity // self._config.shards
        live = sum(not r.on_disk for r in shard.values())
        if self._config.capacity and live >= most:
            self._evict_first(at, live - most + max(1, most // AT_ONCE))

    def _evict_first(self, at: int, count: int) -> None:
        frequent = self._config.policy == LEAST_FREQUENT
        live = [(k, r) for k, r in self._shards[at].items() if not r.on_disk]
        live.sort(key=lambda kr: (kr[1].frequency if frequent else 0, kr[1].used))
        for key, record in live[:count]:
            if self._config.storage:
                record.on_disk = True
            else:
                self._gone[key] = self._epoch
                del self._shards[at][key]

    def _admits(self, at: int, key: Any, hashed: int) -> bool:
        config = self._config
        if config.admission == ADMIT_ALL or config.admission == ADMIT_COUNTED and config.threshold <= 1:
            return True
        if config.admission == ADMIT_BLOOM:
            return self._bloom_admits(at, hashed)
        if config.admission == ADMIT_PROBABLY:
            self._random[at] = _mix(self._random[at])
            return ((self._random[at] >> 11) + 0.5) * 2.0 ** -53 < config.probability
        seen = self._waiting[at][key] = self._waiting[at].get(key, 0) + 1
        return seen >= config.threshold

    def _bloom_admits(self, at: int, hashed: int) -> bool:
        (size, hashes), counters, places = self._config.bloom(), self._counters[at], []
        hashed = _mix(hashed ^ 0x5bd1e995)
        for _ in range(hashes):
            places.append(hashed % size)
            hashed = _mix(hashed)
        least = min(counters[p] for p in places)
        if least + 1 >= self._config.threshold:
            return True
        for p in {p for p in places if counters[p] == least}:
            counters[p] += 1
        return False

    def _resolve(self, at: int, key: Any, hashed: int, creates: bool, filtered: bool = True) -> _Record | None:
        found = self._shards[at].get(key)
        if found is None:
            if not creates or filtered and not self._admits(at, key, hashed):
                return None
            self._make_room(at)
            found = self._shards[at][key] = _Record(self._new(key))
            found.changed = self._epoch
            found.frequency = max(self._waiting[at].pop(key, 1) - 1, 0)
        elif found.on_disk:
            self._make_room(at)
            found.on_disk = False
            self._touch(at, found, _NO_STEP, False)
        return found

    def _touch(self, at: int, record: _Record, step: int, count: bool) -> None:
        self._clock[at] += 1
        record.used = self._clock[at]
        record.frequency += count
        record.version = step if step >= 0 else record.version

    def lookup(self, keys: Any, n: int, out: Tensor | None, step: int, insert: bool, count: bool,
               found: Tensor | None = None) -> None:
        dim = self._config.dim
        with self._lock:
            for at, i, key, hashed in self._by_shard(keys):
                record = self._resolve(at, key, hashed, insert)
                if record is not None:
                    if insert:
                        self._touch(at, record, step, count)
                if found is not None:
                    found[i] = record is not None
                if out is None:
                    continue
                if record is not None:
                    out[i] = record.row[:dim]
                else:
                    out[i] = torch.full((dim,), self._config.refused) if insert else self._new(key)[:dim]

    def prefetch(self, keys: Any, n: int) -> None:
        with self._lock:
            for at, _, key, hashed in self._by_shard(keys):
                record = self._resolve(at, key, hashed, False)
                if record is not None:
                    self._touch(at, record, _NO_STEP, False)

    def read(self, keys: Any, n: int, out: Tensor, offset: int, found: Tensor) -> None:
        end = offset + self._config.dim
        with self._lock:
            for at, i, key, hashed in self._by_shard(keys):
                record = self._resolve(at, key, hashed, False)
                found[i] = record is not None
                out[i] = (self._new(key) if record is None else record.row)[offset:end]

    def write(self, keys: Any, n: int, values: Tensor, offset: int, creates: bool, versions: Tensor | None,
              frequencies: Tensor | None) -> None:
        end = offset + self._config.dim
        with self._lock:
            for at, i, key, hashed in self._by_shard(keys):
                record = self._resolve(at, key, hashed, creates, filtered=False)
                if record is None:
                    continue
                record.row[offset:end] = values[i]
                record.changed = self._epoch
                self._touch(at, record, _NO_STEP, False)
                record.version = record.version if versions is None else int(versions[i])
                record.frequency = record.frequency if frequencies is None else int(frequencies[i])

    def remove(self, keys: Any, n: int) -> int:
        gone = 0
        with self._lock:
            for at, _, key, _ in self._by_shard(keys):
                self._waiting[at].pop(key, None)
                if self._shards[at].pop(key, None) is not None:
                    self._gone[key] = self._epoch
                    gone += 1
        return gone

    def statistics(self, keys: Any, n: int, versions: Tensor, frequencies: Tensor) -> None:
        with self._lock:
            for at, i, key, _ in self._by_shard(keys):
                record = self._shards[at].get(key)
                versions[i] = 0 if record is None else record.version
                frequencies[i] = self._waiting[at].get(key, 0) if record is None else record.frequency

    def add_columns(self, initial: float) -> int:
        with self._lock:
            offset = len(self._start)
            self._start = self._start + [initial] * self._config.dim
            more = torch.full((self._config.dim,), initial, dtype=self._dtype)
            for record in (r for shard in self._shards for r in shard.values()):
                record.row = torch.cat([record.row, more])
        return offset

    def sizes(self) -> tuple[int, int, int, int]:
        with self._lock:
            records = [r for shard in self._shards for r in shard.values()]
            disk = sum(r.on_disk for r in records)
            return len(records) - disk, disk, sum(map(len, self._waiting)), len(records) * len(self._start) * 4

    def evict(self, oldest: int, norm: float) -> int:
        gone = 0
        with self._lock:
            for shard in self._shards:
                for key, record in list(shard.items()):
                    size = record.row[:self._config.dim].double().norm().item()
                    if size < norm if norm >= 0 else record.version < oldest:
                        self._gone[key] = self._epoch
                        del shard[key]
                        gone += 1
        return gone

    def export(self, since: int) -> tuple:
        with self._lock:
            epoch, self._epoch = self._epoch, self._epoch + 1
            rows = [(k, r) for shard in self._shards for k, r in shard.items() if r.changed > since]
            for key in [k for k, e in self._gone.items() if e <= since]:
                del self._gone[key]
            return (epoch, self._packed([k for k, _ in rows]), torch.tensor([r.version for _, r in rows], dtype=torch.int64),
                    torch.tensor([r.frequency for _, r in rows], dtype=torch.int64),
                    torch.stack([r.row for _, r in rows]) if rows else torch.empty(0, len(self._start), dtype=self._dtype),
                    self._packed(list(self._gone)))

    def _packed(self, keys: list) -> Any:
        return strings.pack(keys) if self._is_text else torch.tensor(keys, dtype=torch.int64)
