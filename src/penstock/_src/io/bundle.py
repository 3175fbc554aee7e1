"""Tensor bundles: V2 checkpoints. `PREFIX.index` is a table of the tensors and their places; `PREFIX.data-00000-of-00001` …
hold the bytes.

`BundleWriter` writes one data file; `merge` makes one bundle of several. Data are written to temporary files. `_publish` then
takes the lock of the folder, renames them to numbers that no file has, renames the index into place, and removes the data
of the index that was replaced. A bundle exists if its index does. So there is a complete bundle at every moment, even if
writers are killed, or many threads and processes write one prefix: the last index wins, with its data. A reader opens the data
files while the index it has read is still in place, and keeps them open.

Temporary files and `_temp_` folders are locked by their writers (`locks.py`); the next save removes those of killed ones. Data
files without an index (a writer was killed between two renames) are removed after an hour. On other file systems ("s3://") data
are written to unique names at once, and the lock holds within the process.

`BundleReader` checks every size against the file before it allocates, and every checksum; damage is a DataLossError that
names the tensor. Values are run-time values: torch tensors, and numpy arrays of bytes for strings.
"""
from __future__ import annotations

import contextlib
import io
import math
import os
import re
import secrets
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from google.protobuf.message import DecodeError

from penstock._src.base import dtypes, errors
from penstock._src.base.near_names import near_names
from penstock._src.io import crc, locks, paths, slices
from penstock._src.io.messages import BundleEntryProto, BundleHeaderProto
from penstock._src.io.table import Table, TableWriter, get_varint, put_varint
from penstock._src.kernels import strings

_VERSION = 1
_PIECE, _STEP = 1 << 23, 1 << 20                    # bytes that are written, and that are summed, at a time
_UNNAMED_FOR = 3600 * 10**9                         # nanoseconds after which data that no index names are removed
_REPLACED_MEANWHILE = 100                           # times that a reader begins again because the bundle was replaced


def index_name(prefix: str) -> str:
    """The name of the index file of a bundle."""
    return prefix + ".index"


def data_name(prefix: str, shard: int, total: int) -> str:
    """A file with bytes of tensors."""
    return f"{prefix}.data-{shard:05d}-of-{total:05d}"


def exists(prefix: str) -> bool:
    """Whether a bundle with that prefix exists."""
    return paths.exists(index_name(prefix))


# -- bytes of values -------------------------------------------------------------------------------------------------
def _of_numpy(dtype: Any) -> bool:
    """Whether values are numpy arrays of numbers: of types with fewer than eight bits, each in a byte."""
    return dtype.torch is None and (dtype.is_integer or dtype.is_floating)


def _empty(shape: Any, dtype: Any) -> Any:
    """Memory for a value."""
    if dtype == dtypes.string:
        return np.empty(shape, dtype=object)
    return np.empty(shape, dtype.as_numpy_dtype) if _of_numpy(dtype) else torch.empty(shape, dtype=dtype.torch)


def raw_bytes(value: torch.Tensor | np.ndarray) -> np.ndarray:
    """The bytes of a tensor; a view where it is contiguous and on the CPU."""
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    value = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return value.reshape(-1).view(torch.uint8).numpy() if value.numel() else np.empty(0, np.uint8)


def _text_bytes(value: np.ndarray) -> tuple[list[bytes], int]:
    """The pieces that a string tensor is stored as, and their checksum (over lengths as numbers, not as stored)."""
    items = value.ravel().tolist()
    sizes = [len(s) for s in items]
    lengths = bytes(sizes) if max(sizes, default=0) < 0x80 else b"".join(map(put_varint, sizes))
    check = crc.value(_length_words(sizes))
    stored = struct.pack("<I", crc.mask(check))
    body = b"".join(items)
    return [lengths, stored, body], crc.extend(crc.extend(check, stored), body)


def _checksum(data: np.ndarray) -> int:
    """The checksum of many bytes, piece by piece, so that other threads can run in between."""
    check = 0
    for at in range(0, len(data), _STEP):
        check = crc.extend(check, data[at:at + _STEP])
    return check


def _length_words(sizes: list[int]) -> bytes:
    if max(sizes, default=0) <= 0xFFFFFFFF:
        return np.array(sizes, dtype="<u4").tobytes()
    return b"".join(struct.pack("<I" if n <= 0xFFFFFFFF else "<Q", n) for n in sizes)


def _dims(shape: Any) -> tuple[int, ...]:
    return tuple(d.size for d in shape.dim)


# -- writing ---------------------------------------------------------------------------------------------------------
class BundleWriter:
    """Writes a bundle: `add` and `add_slice`, then `finish`. Until then nothing is visible."""

    def __init__(self, prefix: str):
        self.prefix = prefix
        self._entries: dict[bytes, Any] = {}
        self._offset = 0
        paths.makedirs(os.path.dirname(prefix) or ".")
        with paths.typed(prefix):
            if paths.remote(prefix) is None:
                place = data_name(prefix, 0, 1)
                locks.remove_abandoned(place)
                self._data, self._path = locks.create_temporary(place)
            else:
                total = _free_total(prefix, 1)
                self._path = data_name(prefix, total - 1, total)
                self._data = paths.open_file(self._path, "wb")

    def add(self, name: str | bytes, value: Any, dtype: Any) -> None:
        """Adds a tensor."""
        key = slices.name_bytes(name) if isinstance(name, str) else name
        if not key or key in self._entries:
            raise errors.invalid(f"Adding duplicate key: {strings.show(key)}")
        pieces: list[Any]
        if isinstance(value, np.ndarray) and dtype == dtypes.string:
            pieces, check = _text_bytes(value)
        elif isinstance(value, torch.Tensor) or _of_numpy(dtype):
            pieces, check = [raw_bytes(value)], None
        else:
            raise errors.UnimplementedError(None, None, f"Saving data type {dtype.name} not yet supported: "
                                            f"{strings.show(key)}")
        entry = self._entries[key] = BundleEntryProto(dtype=dtype.base_dtype.enum, shard_id=0,
                                                      offset=self._offset, size=sum(len(p) for p in pieces))
        entry.shape.SetInParent()
        for d in value.shape:
            entry.shape.dim.add(size=d)
        if check is None:
            check = self._write_array(pieces[0])
        else:
            with paths.typed(self.prefix):
                self._data.writelines(pieces)
        entry.crc32c = crc.mask(check)
        self._offset += entry.size

    def _write_array(self, data: Any) -> int:
        """Writes bytes and returns their checksum; for large data, it is computed while the system writes."""
        if len(data) < 2 * _PIECE:
            with paths.typed(self.prefix):
                self._data.write(data)
            return crc.value(data)
        with ThreadPoolExecutor(1) as beside:
            check = beside.submit(_checksum, data)
            with paths.typed(self.prefix):
                for at in range(0, len(data), _PIECE):
                    self._data.write(data[at:at + _PIECE])
                    paths.begin_sync(self._data)
            return check.result()

    def add_slice(self, name: str, shape: tuple[int, ...], part: slices.Slice, value: Any, dtype: Any) -> None:
        """Adds a part of a tensor of the given shape."""
        if slices.is_full(part, shape):
            self.add(name, value, dtype)
            return
        entry = self._entries.setdefault(slices.name_bytes(name), BundleEntryProto(dtype=dtype.base_dtype.enum))
        if entry.dtype != dtype.base_dtype.enum or entry.slices and _dims(entry.shape) != shape:
            raise errors.invalid(f"Slices of {name} differ in type or full shape")
        if not entry.slices:
            for d in shape:
                entry.shape.dim.add(size=d)
        slices.to_proto(part, entry.slices.add())
        self.add(slices.key(name, part), value, dtype)

    def finish(self) -> None:
        """Publishes the bundle; removes all files after a failure."""
        try:
            with paths.typed(self.prefix):
                self._data.flush()
                if paths.remote(self.prefix) is None:
                    os.fsync(self._data.fileno())
                else:
                    self._data.close()
            _publish(self.prefix, [self._path], self._entries)
        except BaseException:
            self.abandon()
            raise
        _keep_or_close(os.path.dirname(self.prefix), self._data)

    def abandon(self) -> None:
        """Removes all temporary files."""
        with contextlib.suppress(OSError, errors.OpError):
            self._data.close()
        with contextlib.suppress(errors.OpError):
            paths.remove(self._path)


def _publish(prefix: str, sources: list[str], entries: dict[bytes, Any]) -> None:
    """Publishes data files and an index as the bundle of a prefix; `shard_id` of an entry is the index of its file in
    `sources`."""
    folder = os.path.dirname(prefix) or "."
    paths.makedirs(folder)
    with locks.folder_lock(folder):
        replaced = _data_files(prefix)
        total, first = _numbers(prefix, sources)
        for entry in entries.values():
            if not entry.slices:
                entry.shard_id += first
        placed: list[str] = []
        try:
            for i, source in enumerate(sources):
                placed.append(data_name(prefix, first + i, total))
                if source != placed[-1]:
                    paths.rename(source, placed[-1])
            _write_index(prefix, total, entries)
        except BaseException:
            for path in set(placed) - set(_data_files(prefix)):
                with contextlib.suppress(errors.OpError):
                    paths.remove(path)
            raise
        _remove_old(prefix, set(replaced) - set(placed), set(placed))


def _numbers(prefix: str, sources: list[str]) -> tuple[int, int]:
    """The total number of shards in file names, and the number of our first one."""
    total = _total_of(prefix, sources[0]) if sources else None
    if total is None:
        total = _free_total(prefix, max(len(sources), 1))
    return total, total - max(len(sources), 1)


def _total_of(prefix: str, path: str) -> int | None:
    """The number of shards in the name of a data file; None if it is not a data file of this prefix."""
    found = re.fullmatch(r"\.data-\d{5}-of-(\d{5})", path[len(prefix):]) if path.startswith(prefix) else None
    return int(found[1]) if found else None


def _free_total(prefix: str, shards: int) -> int:
    """A total number of shards that no existing file name has; on other file systems, one that no other process chooses."""
    if paths.remote(prefix) is not None:
        return shards + 1 + secrets.randbelow(99_998 - shards)
    total = shards
    while any(paths.exists(data_name(prefix, i, total)) for i in range(total)):
        total += 1
    return total


def _data_files(prefix: str) -> list[str]:
    """The data files of the current bundle."""
    try:
        total = _header(prefix).num_shards
    except errors.OpError:
        return []
    return paths.glob(f"{_escaped(prefix)}.data-?????-of-{total:05d}")


def _header(prefix: str) -> Any:
    with BundleReader(prefix, data=False) as reader:
        return reader.header


def _write_index(prefix: str, total: int, entries: dict[bytes, Any]) -> None:
    header = BundleHeaderProto(num_shards=total)
    header.version.producer = _VERSION
    with paths.atomic(index_name(prefix), stored=True) as f:
        table = TableWriter(f)
        table.add(b"", header.SerializeToString())
        for key in sorted(entries):
            table.add(key, entries[key].SerializeToString(deterministic=True))
        table.finish()


def remove(prefix: str) -> None:
    """Removes a bundle, while no other writer publishes one. The index is removed first: without it there is no bundle."""
    folder = os.path.dirname(prefix) or "."
    if not paths.isdir(folder):
        return
    with locks.folder_lock(folder):
        known = _escaped(prefix) if paths.exists(index_name(prefix)) else prefix         # else it may be a pattern
        for pattern in (index_name(known), known + ".data-?????-of-?????"):
            for path in paths.glob(pattern):
                paths.remove(path)


# -- what is not needed any longer -----------------------------------------------------------------------------------
def _remove_old(prefix: str, replaced: set[str], ours: set[str]) -> None:
    """Removes the data of the bundle that was replaced, and what killed writers left: those of this prefix, and of the prefixes
    of other steps. A folder of parts belongs to one save, and a training saves each step to its own prefix."""
    for path in replaced:
        with contextlib.suppress(errors.OpError):
            paths.remove(path)
    if paths.remote(prefix) is not None:
        return
    now = paths.stat(index_name(prefix)).mtime_nsec             # by the clock of the file system
    for path in set(paths.glob(f"{_escaped(prefix)}.data-?????-of-?????")) - ours:
        with contextlib.suppress(errors.OpError):
            if now - paths.stat(path).mtime_nsec > _UNNAMED_FOR:
                paths.remove(path)
    folder, name = os.path.split(prefix)
    theirs = re.compile(locks.same_but_for_numbers(name) + _TEMPORARY)
    for entry in os.listdir(folder or "."):
        if theirs.fullmatch(entry) and not _about_to_be_filled(os.path.join(folder, entry), now):
            _remove_parts(os.path.join(folder, entry))


_TEMPORARY = "_temp_[0-9a-f]{32}"


def _is_temporary(folder: str) -> bool:
    return re.search(_TEMPORARY + "$", folder) is not None


def _about_to_be_filled(folder: str, now: int) -> bool:
    """Whether a folder of parts is new and has no data yet: its writer may be about to open the first file."""
    with contextlib.suppress(OSError):
        return not any(".data-" in name for name in os.listdir(folder)) and now - os.stat(folder).st_mtime_ns <= _UNNAMED_FOR
    return False


def _remove_parts(folder: str) -> None:
    """Removes a folder of parts that will never be merged: none of its files has a living writer."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        files = [e.path for e in entries]
        data = [f for f in files if ".data-" in f]
        if all([locks.remove_if_abandoned(f) for f in data]):
            for f in set(files) - set(data):
                locks.remove_if_abandoned(f)
            os.rmdir(folder)


_held: dict[str, list[Any]] = {}            # open, locked data files of parts that wait to be merged, by their folders
_held_lock = threading.Lock()


def _keep_or_close(folder: str, file: Any) -> None:
    """Closes a data file; one that is to be merged stays locked, which shows that its writer is alive."""
    with _held_lock:
        gone = [f for name in list(_held) if not os.path.isdir(name) for f in _held.pop(name)]
        if _is_temporary(folder) and "://" not in folder:
            _held.setdefault(folder, []).append(file)
        else:
            gone.append(file)
    for f in gone:
        f.close()


def release_parts(folder: str) -> None:
    """Releases the parts that this process has written to a folder: they were merged, or never will be."""
    with _held_lock:
        files = _held.pop(folder, [])
    for f in files:
        f.close()


def drop_parts(folder: str) -> None:
    """Removes the folder of parts of a save that has failed."""
    release_parts(folder)
    if "://" not in folder:
        _remove_parts(folder)


def _escaped(prefix: str) -> str:
    import glob
    return prefix if "://" in prefix else glob.escape(prefix)


def merge(prefixes: list[str], target: str) -> None:
    """Merges several bundles into one and removes their files; partitioned tensors that share a name become one."""
    entries: dict[bytes, Any] = {}
    files: list[str] = []
    for prefix in prefixes:
        with BundleReader(prefix) as reader:
            for key, entry in reader.entries().items():
                known = entries.get(key)
                if known is not None:
                    if not (known.slices and entry.slices) or known.dtype != entry.dtype or known.shape != entry.shape:
                        raise errors.invalid(f"Duplicate tensor keyed by {strings.show(key)} encountered, when merging "
                                             f"prefix: {prefix}")
                    known.slices.extend(entry.slices)
                    continue
                if not entry.slices:
                    file = reader.data_file(entry)
                    if file not in files:
                        files.append(file)
                    entry.shard_id = files.index(file)
                entries[key] = entry
    _publish(target, files, entries)
    for prefix in prefixes:
        with contextlib.suppress(errors.OpError):
            paths.remove(index_name(prefix))
    for folder in {os.path.dirname(p) for p in prefixes}:
        release_parts(folder)


def _still_there(file: Any, path: str) -> bool:
    """Whether a path names the file that is open."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except OSError:
        return False


# -- reading ---------------------------------------------------------------------------------------------------------
class BundleReader:
    """Reads a bundle. Use it in a `with` block, or close it.

    It is a snapshot: the data files are opened while the index is in place, and stay readable when the bundle is replaced.
    """

    def __init__(self, prefix: str, data: bool = True):
        self.prefix = prefix
        self._files: dict[int, tuple[Any, int]] = {}
        local = paths.remote(prefix) is None
        for _ in range(_REPLACED_MEANWHILE):
            with paths.open_stored(index_name(prefix)) as index, paths.typed(prefix):
                self._read_index(index.read())
                if not (data and local):
                    return
                self._open_data()
                if _still_there(index, index_name(prefix)):
                    return
            self.close()
        raise errors.AbortedError(None, None, f"{index_name(prefix)} was replaced {_REPLACED_MEANWHILE} times while being read")

    def _read_index(self, data: bytes) -> None:
        name = index_name(self.prefix)
        self._table = Table(io.BytesIO(data), len(data), name)
        header = self.header = BundleHeaderProto()
        found = self._table.get(b"")
        try:
            if found is None:
                raise DecodeError
            header.ParseFromString(found)
        except DecodeError:
            raise errors.DataLossError(None, None, f"Unable to read file ({name}). Perhaps the file is corrupt or was "
                                       "produced by a newer version with format changes (no header)") from None
        self._total, self._swap = header.num_shards, header.endianness == 1
        if header.version.min_consumer > _VERSION:
            raise errors.invalid(f"Checkpoint min consumer version {header.version.min_consumer} above current version "
                                 f"{_VERSION}: {name}")

    def _open_data(self) -> None:
        """Opens the data files; a missing one is an error only when a tensor in it is read."""
        for path in paths.glob(f"{_escaped(self.prefix)}.data-?????-of-{self._total:05d}"):
            with contextlib.suppress(errors.NotFoundError):
                file = paths.open_stored(path)
                self._files[int(path[-14:-9])] = file, os.fstat(file.fileno()).st_size

    def __enter__(self) -> BundleReader:
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        self.close()

    def close(self) -> None:
        """Closes the data files."""
        for f, _ in self._files.values():
            f.close()
        self._files.clear()

    def entries(self) -> dict[bytes, Any]:
        """All entries: of tensors, and of their slices under keys that begin with a zero byte."""
        return {k: self._parsed(k, v) for k, v in self._table.items() if k}

    def names(self) -> list[str]:
        """The names of the tensors, in order."""
        return [self._name(k) for k, _ in self._table.items() if k and k[0] != 0]

    def tensors(self) -> dict[str, tuple[Any, tuple[int, ...]]]:
        """Type and shape of each tensor."""
        return {self._name(k): self._described(e) for k, e in self.entries().items() if k[0] != 0}

    @staticmethod
    def _name(key: bytes) -> str:
        try:
            return key.decode()
        except UnicodeDecodeError:
            raise errors.DataLossError(None, None, f"The name of a tensor is not UTF-8: {strings.show(key)}") from None

    def _parsed(self, key: bytes, value: bytes) -> Any:
        entry = BundleEntryProto()
        try:
            entry.ParseFromString(value)
        except DecodeError:
            raise errors.DataLossError(None, None, f"Entry for key {strings.show(key)} not parseable.") from None
        if any(d.size < 0 for d in entry.shape.dim) or entry.size < 0 or entry.offset < 0:
            raise errors.DataLossError(None, None, f"Invalid tensor shape: {strings.show(key)}")
        return entry

    def _entry(self, key: bytes) -> Any:
        value = self._table.get(key)
        if value is None:
            name = strings.show(key)
            near = near_names(name, self.names(), cutoff=0.7)
            hint = f" (nearest: {', '.join(near)})" if near else ""
            raise errors.NotFoundError(None, None, f"Key {name} not found in checkpoint{hint}")
        return self._parsed(key, value)

    @staticmethod
    def _described(entry: Any) -> tuple[Any, tuple[int, ...]]:
        try:
            dtype = dtypes.as_dtype(entry.dtype)
        except TypeError:
            raise errors.DataLossError(None, None, f"Invalid type {entry.dtype} in checkpoint") from None
        return dtype, _dims(entry.shape)

    def has(self, name: str) -> bool:
        """Whether a tensor of that name exists."""
        return bool(name) and self._table.get(slices.name_bytes(name)) is not None

    def describe(self, name: str) -> tuple[Any, tuple[int, ...]]:
        """Type and shape of a tensor; NotFoundError, with similar names, if there is none."""
        return self._described(self._entry(slices.name_bytes(name)))

    def data_file(self, entry: Any) -> str:
        """The file that holds the bytes of an entry."""
        return data_name(self.prefix, entry.shard_id, self._total)

    def read(self, name: str) -> Any:
        """A whole tensor, assembled from its slices if it was saved in parts."""
        entry = self._entry(slices.name_bytes(name))
        if not entry.slices:
            return self._value(name, entry)
        return self._assemble(name, entry, slices.full(len(entry.shape.dim)))

    def read_slice(self, name: str, part: slices.Slice) -> Any:
        """A part of a tensor, however it was saved."""
        entry = self._entry(slices.name_bytes(name))
        if not entry.slices:
            shape = _dims(entry.shape)
            slices.shape_of(part, shape)
            value = self._value(name, entry)
            return value[tuple(slice(a, b) for a, b in slices.bounds(part, shape))]
        return self._assemble(name, entry, part)

    def _assemble(self, name: str, entry: Any, part: slices.Slice) -> Any:
        dtype, shape = self._described(entry)
        stored = [slices.from_proto(s) for s in entry.slices]
        wanted = slices.shape_of(part, shape)
        for s in stored:
            slices.shape_of(s, shape)
        if part in stored:
            return self._value(name, self._slice_entry(name, part))
        plan = slices.cover(part, stored, shape)
        if plan is None:
            raise errors.invalid(f"Does not have sufficient slices for partitioned tensor {name} to restore in slice_spec: "
                                 f"{slices.show(part)}")
        entries = {i: self._slice_entry(name, stored[i]) for i, _, _ in plan}
        for i, e in entries.items():
            if _dims(e.shape) != slices.shape_of(stored[i], shape) or e.dtype != entry.dtype:
                raise errors.DataLossError(None, None, f"Slice {slices.show(stored[i])} of {name} differs in shape or type")
        out = _empty(wanted, dtype)
        for i, there, here in plan:
            out[here] = self._value(name, entries[i])[there]
        return out

    def _slice_entry(self, name: str, part: slices.Slice) -> Any:
        found = self._table.get(slices.key(name, part))
        if found is None:
            raise errors.DataLossError(None, None, f"Slice {slices.show(part)} of {name} is listed but missing")
        return self._parsed(slices.name_bytes(name), found)

    def _file(self, name: str, entry: Any) -> tuple[Any, int]:
        held = self._files.get(entry.shard_id)
        if held is None:
            path = self.data_file(entry)
            if not paths.exists(path):
                raise errors.DataLossError(None, None, f"{path} is missing: it holds {name}")
            held = self._files[entry.shard_id] = paths.open_stored(path), paths.stat(path).length
        return held

    def _value(self, name: str, entry: Any) -> Any:
        dtype, shape = self._described(entry)
        file, length = self._file(name, entry)
        if entry.offset + entry.size > length:
            raise errors.DataLossError(None, None, f"{self.data_file(entry)} is too short: {name} should be at {entry.offset} "
                                       f"with {entry.size} bytes, and the file has {length}")
        if dtype == dtypes.string:
            return self._text(name, entry, file, shape)
        if dtype.torch is None and not _of_numpy(dtype):
            raise errors.UnimplementedError(None, None, f"Restoring data type {dtype.name} not yet supported: {name}")
        if entry.size != math.prod(shape) * dtype.size:
            raise errors.DataLossError(None, None, f"Invalid size in bundle entry: key {name}; stored size {entry.size}; "
                                       f"expected size {math.prod(shape) * dtype.size}")
        out = _empty(shape, dtype)
        data = raw_bytes(out)
        with paths.typed(self.prefix):
            file.seek(entry.offset)
            self._fill(name, file, data)
        if crc.value(data) != crc.unmask(entry.crc32c):
            raise self._damaged(name)
        if self._swap and dtype.size > 1:
            unit = dtype.size // 2 if dtype.is_complex else dtype.size
            data[:] = data.reshape(-1, unit)[:, ::-1].reshape(-1)
        return out

    def _fill(self, name: str, file: Any, data: np.ndarray) -> None:
        at, view = 0, memoryview(data.data)
        while at < len(data):
            got = file.readinto(view[at:])
            if not got:
                raise errors.DataLossError(None, None, f"{self.prefix}: the file ends inside {name}")
            at += got

    def _damaged(self, name: str) -> errors.OpError:
        return errors.DataLossError(None, None, f"Checksum does not match: the bytes of {name} in {self.prefix} are damaged")

    def _text(self, name: str, entry: Any, file: Any, shape: tuple[int, ...]) -> np.ndarray:
        count = math.prod(shape)
        if entry.size < count:
            raise errors.DataLossError(None, None, f"Invalid size in bundle entry: key {name}; stored size {entry.size}; "
                                       f"expected size is at least {count}")
        if entry.size == 0:
            return np.empty(shape, dtype=object)
        with paths.typed(self.prefix):
            file.seek(entry.offset)
            data = file.read(entry.size)
        sizes, at = [], 0
        for _ in range(count):
            n, at = get_varint(data, at)
            sizes.append(n)
        if at + 4 + sum(sizes) != len(data):
            raise self._damaged(name)
        check = crc.value(_length_words(sizes))
        if crc.unmask(struct.unpack_from("<I", data, at)[0]) != check or \
                crc.extend(crc.extend(check, data[at:at + 4]), data[at + 4:]) != crc.unmask(entry.crc32c):
            raise self._damaged(name)
        ends = np.cumsum([at + 4, *sizes]).tolist()
        return strings.pack([data[a:b] for a, b in zip(ends, ends[1:])], shape)
