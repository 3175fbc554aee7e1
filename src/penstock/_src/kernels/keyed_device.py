"""Embeddings by key with a tier in device memory: the core of a table that keeps the rows of recent keys on a device.

The core below has a row for every key, and decides which keys are admitted and which leave. Rows that batches use are copied to
the device, where lookups read and updates change them; a row that changed returns when its place is needed for another one, or
when all rows are looked at. Keys are found on the host, in an index of places; the places of the keys that were found last are
kept, because an update reads and writes the values and all slots of the same keys. A batch with more keys than there are places
works on the host for the rest.
"""
from __future__ import annotations

import threading
from typing import Any

import numpy as np
import torch

from penstock._src.kernels.devices.cpu import to_host
from penstock._src.kernels.devices.device import Device
from penstock._src.kernels.keyed import AT_ONCE, LEAST_FREQUENT, KeyedConfig, host_core

_FIRST = 1 << 12                  # places at first; their number doubles until all are there
Tensor = torch.Tensor


class OnDevice:
    """Rows on a device, and in the core below."""

    has_rules = False             # updates run as kernels of the device, on rows that are read and written

    def __init__(self, config: KeyedConfig, core: Any, dtype: torch.dtype, device: Device):
        self._core, self._config, self._dtype, self.device = core, config, dtype, device
        self._lock = threading.RLock()
        self._columns: dict[int, float] = {0: 0.0}              # groups of columns: where they begin, and with what
        self._begin()

    def _begin(self) -> None:
        """Makes all places free."""
        n = min(_FIRST, self._config.device_rows)
        self._index = host_core(KeyedConfig(dim=1), False, torch.float32, None)     # of a key: the bits of its place + 1
        self._rows = {offset: self._new(n, initial) for offset, initial in self._columns.items()}
        self._keys, self._used = np.zeros(n, np.int64), np.zeros(n, np.int64)       # by place: its key, and its last batch,
        self._uses, self._versions = np.zeros(n, np.int64), np.zeros(n, np.int64)   # how often it was used, its version,
        self._changed = np.zeros(n, bool)                                           # and whether the core has another row
        self._free, self._batch = np.arange(n), 1
        self._writes = np.zeros(n, np.int64)                                        # by place: the last row of a write
        self._found: tuple[Tensor, np.ndarray] | None = None                        # keys and places that were found last

    def _new(self, n: int, initial: float) -> Tensor:
        return self.device.put(torch.full((n, self._config.dim), initial, dtype=self._dtype))

    # -- batches --------------------------------------------------------------------------------------------------------
    def lookup(self, keys: Tensor, n: int, out: Tensor, step: int, insert: bool, count: bool) -> None:
        """Copies the values of keys to `out`, on the device."""
        with self._lock:
            admitted = torch.ones(n, dtype=torch.bool)
            if insert:
                self._core.lookup(keys, n, None, step, True, count, admitted)       # rows, frequencies and order of use
            self._copy(keys, self._brought(keys), out, 0)
            if not admitted.all():
                out[self._at(np.flatnonzero(~admitted))] = self._config.refused

    def read(self, keys: Tensor, n: int, out: Tensor, offset: int, found: Tensor) -> None:
        """Copies some columns of keys to `out`, on the device."""
        with self._lock:
            found.copy_(self._copy(keys, self._places(keys), out, offset))

    def _from_core(self, keys: Tensor, offset: int) -> tuple[Tensor, Tensor]:
        rows, found = torch.empty(len(keys), self._config.dim, dtype=self._dtype), torch.empty(len(keys), dtype=torch.bool)
        self._core.read(keys, len(keys), rows, offset, found)
        return rows, found

    def _copy(self, keys: Tensor, places: np.ndarray, out: Tensor, offset: int) -> Tensor:
        """Copies rows of the device, and of the core those without a place; returns which keys have one."""
        here = places >= 0
        found = torch.from_numpy(here)
        if here.all():
            out.copy_(self._rows[offset][self._at(places)])
            return found
        away = ~found
        rest, known = self._from_core(keys[away], offset)
        out[self._at(np.flatnonzero(here))] = self._rows[offset][self._at(places[here])]
        out[self._at(np.flatnonzero(~here))] = self.device.put(rest)
        return found.masked_scatter(away, known)

    def write(self, keys: Tensor, n: int, values: Tensor, offset: int, creates: bool, versions: Tensor | None,
              frequencies: Tensor | None) -> None:
        """Sets some columns of keys; of equal keys the last counts."""
        with self._lock:
            if frequencies is not None:             # rows of a checkpoint, which no batch needs yet
                self._give_up(keys)
            places = self._places(keys)
            here = np.flatnonzero(places >= 0)
            if len(here):
                self._writes[places[here]] = here   # of equal places the last one stays
                here = here[self._writes[places[here]] == here]
                at = places[here]
                self._rows[offset][self._at(at)] = self.device.put(values)[self._at(here)].to(self._dtype)
                self._changed[at], self._used[at] = True, self._batch
                if versions is not None:
                    self._versions[at] = versions.numpy()[here]
            away = torch.from_numpy(np.flatnonzero(places < 0))
            if len(away):
                given = [None if t is None else t[away] for t in (versions, frequencies)]
                self._core.write(keys[away], len(away), to_host(values)[away].contiguous(), offset, creates, *given)

    def prefetch(self, keys: Tensor, n: int) -> None:
        """Brings rows to the device."""
        with self._lock:
            self._core.prefetch(keys, n)
            self._brought(keys)

    # -- places ---------------------------------------------------------------------------------------------------------
    def _at(self, places: np.ndarray) -> Tensor:
        return self.device.put(torch.from_numpy(np.ascontiguousarray(places, dtype=np.int64)))

    def _places(self, keys: Tensor) -> np.ndarray:
        """Where the rows of keys are on the device; -1 for those that are not there."""
        if self._found is not None and torch.equal(self._found[0], keys):
            return self._found[1]
        bits, found = torch.zeros(len(keys), 1), torch.empty(len(keys), dtype=torch.bool)
        self._index.read(keys, len(keys), bits, 0, found)
        places = bits.numpy().view(np.int32)[:, 0].astype(np.int64) - 1
        self._found = keys.clone(), places
        return places

    def _brought(self, keys: Tensor) -> np.ndarray:
        """The places of keys, after those that the core has were brought to the device, as far as there is room."""
        places = self._places(keys)
        self._batch += 1
        here = places[places >= 0]
        self._used[here] = self._batch
        self._uses[here] += 1
        missing = keys[torch.from_numpy(places < 0)]
        if not len(missing) or not self._bring(torch.unique(missing)):
            return places
        return self._places(keys)

    def _bring(self, keys: Tensor) -> bool:
        """Brings rows to the device; returns whether there were any."""
        values, found = self._from_core(keys, 0)
        keys, values = keys[found], values[found]
        at = self._room(len(keys))
        keys, values = keys[:len(at)], values[:len(at)]
        if not len(at):
            return False
        for offset, rows in self._rows.items():
            rows[self._at(at)] = self.device.put(values if offset == 0 else self._from_core(keys, offset)[0])
        versions, frequencies = torch.zeros(len(at), dtype=torch.int64), torch.zeros(len(at), dtype=torch.int64)
        self._core.statistics(keys, len(at), versions, frequencies)
        self._keys[at], self._versions[at], self._used[at], self._uses[at] = keys, versions, self._batch, frequencies
        self._point(keys, at + 1)
        return True

    def _point(self, keys: Tensor, numbers: np.ndarray) -> None:
        self._found = None
        bits = torch.from_numpy(numbers.astype(np.int32).view(np.float32)).reshape(-1, 1)
        self._index.write(keys, len(keys), bits, 0, True, None, None)

    def _room(self, count: int) -> np.ndarray:
        """Free places, up to so many. Rows of the current batch stay."""
        while len(self._free) < count and len(self._keys) < self._config.device_rows:
            self._grow()
        if len(self._free) < count:
            self._leave(count - len(self._free))
        taken, self._free = self._free[:count], self._free[count:]
        return taken

    def _grow(self) -> None:
        old = len(self._keys)
        more = min(old, self._config.device_rows - old)
        for offset, initial in self._columns.items():
            self._rows[offset] = torch.cat([self._rows[offset], self._new(more, initial)])
        for name in ("_keys", "_used", "_uses", "_versions", "_changed", "_writes"):
            held = getattr(self, name)
            setattr(self, name, np.concatenate([held, np.zeros(more, held.dtype)]))
        self._free = np.concatenate([self._free, np.arange(old, old + more)])

    def _leave(self, count: int) -> None:
        """Frees at least so many places, if the current batch leaves as many: those used least recently, or least often."""
        taken = np.ones(len(self._keys), bool)
        taken[self._free] = False
        others = np.flatnonzero(taken & (self._used < self._batch))
        count = min(len(others), max(count, len(self._keys) // AT_ONCE))
        order = (self._used[others], self._uses[others]) if self._config.policy == LEAST_FREQUENT else (self._used[others],)
        self._release(others[np.lexsort(order)[:count]])

    def _release(self, places: np.ndarray) -> None:
        """Gives rows back to the core, and their places to others."""
        self._return(places[self._changed[places]])
        keys, self._found = torch.from_numpy(self._keys[places]), None
        self._index.remove(keys, len(keys))
        self._free = np.concatenate([self._free, places])

    def _return(self, places: np.ndarray) -> None:
        """Copies rows that changed to the core."""
        if not len(places):
            return
        keys, versions = torch.from_numpy(self._keys[places]), torch.from_numpy(self._versions[places])
        for offset, rows in self._rows.items():
            values = to_host(rows[self._at(places)]).contiguous()
            self._core.write(keys, len(keys), values, offset, True, versions, None)
        self._changed[places] = False

    def _give_up(self, keys: Tensor) -> None:
        places = np.unique(self._places(keys))
        self._release(places[places >= 0])

    def _settle(self) -> None:
        """Makes the core have what the device has."""
        self._return(np.flatnonzero(self._changed))

    # -- all rows -------------------------------------------------------------------------------------------------------
    def remove(self, keys: Tensor, n: int) -> int:
        """Removes keys; returns how many had a row."""
        with self._lock:
            self._give_up(keys)
            return self._core.remove(keys, n)

    def statistics(self, keys: Tensor, n: int, versions: Tensor, frequencies: Tensor) -> None:
        """Versions and frequencies of keys."""
        with self._lock:
            self._settle()
            self._core.statistics(keys, n, versions, frequencies)

    def add_columns(self, initial: float) -> int:
        """Makes rows longer."""
        with self._lock:
            offset = self._core.add_columns(initial)
            self._columns[offset] = initial
            self._rows[offset] = self._new(len(self._keys), initial)
            return offset

    def sizes(self) -> tuple[int, int, int, int]:
        """Rows in memory, rows on disk, waiting keys, bytes of host memory."""
        with self._lock:
            if self._config.capacity:               # rows on the device may have left the core
                self._settle()
            return self._core.sizes()

    def resident(self) -> int:
        """The number of rows on the device."""
        with self._lock:
            return len(self._keys) - len(self._free)

    def track_gone(self) -> None:
        """Keeps the keys that leave, from now on, for incremental exports."""
        self._core.track_gone()

    def evict(self, oldest: int, norm: float) -> int:
        """Removes rows by age or norm; returns how many."""
        with self._lock:
            self._settle()
            gone = self._core.evict(oldest, norm)
            if gone:
                self._begin()
            return gone

    def clear(self) -> None:
        """Removes all rows."""
        with self._lock:
            self._begin()
            self._core.clear()

    def export(self, since: int) -> tuple:
        """The rows that changed after an epoch."""
        with self._lock:
            self._settle()
            return self._core.export(since)
