"""Safe reading of untrusted HDF5 files.

One flipped byte can crash or hang the HDF5 library. `checked` has a short-lived process, with limits on time and memory,
inspect a file first (`hdf5_child.py`); if that succeeds, this process reads the file with h5py. Links to other files and
values in other files are refused, and so are declared sizes without stored data.
"""
from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from penstock._src.base import errors

_SCRIPT = os.path.join(os.path.dirname(__file__), "hdf5_child.py")
_FLOOR, _RATIO = 1 << 30, 1100              # bytes that the datasets of any file may take, and per byte of the file
_SPARE = 2 << 30                            # address space of the process that looks, besides three times the file
_SECONDS, _PER_BYTE = 10, 2e-8              # of computing for any file, and per byte that it can unpack to
_PATIENCE = 30                              # seconds of any kind for each of these, on a busy machine or a slow disk

_REMEMBERED = 64                            # files that are not inspected again until they change
_TABLES = 1 << 20                           # bytes of the largest write that is not a dataset's: the library's accumulator
_TICK = 50_000_000                          # nanoseconds in which a file may change without another time of change
_passed: dict[tuple, None] = {}


@contextlib.contextmanager
def opened(path: Any) -> Iterator[Any]:
    """An h5py.File to read from, of a path or of an io.BytesIO, after it was checked."""
    check(path)
    import h5py
    with typed(path), h5py.File(path, "r", locking=False) as f:
        yield f


@contextlib.contextmanager
def written(file: Any) -> Iterator[Any]:
    """A new h5py.File, of a path or of an io.BytesIO; OSError at the end if not everything could be written."""
    import h5py
    if isinstance(file, io.BytesIO):
        with h5py.File(file, "w", locking=False) as f:
            yield f
        return
    with open(file, "w+b", buffering=0) as raw:
        kept = _Kept(raw)
        with h5py.File(kept, "w", locking=False) as f:
            yield f
    if kept.error is not None:
        raise kept.error


class _Kept:
    """A file whose writes never fail, because the HDF5 library crashes when one does.

    The first failure is kept in `error`. What is written from then on is lost, except for what the library reads again, its
    own tables, which stay in memory until the file is closed.
    """

    def __init__(self, raw: Any) -> None:
        self._raw, self._at, self._end = raw, 0, 0
        self._later: list[tuple[int, bytes]] = []
        self.error: OSError | None = None

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._end)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def write(self, data: Any) -> int:
        data, done = memoryview(data).cast("B"), 0
        try:
            while self.error is None and done < len(data):
                done += os.pwrite(self._raw.fileno(), data[done:], self._at + done)
        except OSError as e:
            self.error = e
        if self.error is not None and len(data) <= _TABLES:
            self._later.append((self._at, bytes(data)))
        self._at += len(data)
        self._end = max(self._end, self._at)
        return len(data)

    def readinto(self, buffer: Any) -> int:
        into, size = memoryview(buffer).cast("B"), max(0, min(len(buffer), self._end - self._at))
        found = os.pread(self._raw.fileno(), size, self._at)
        into[:size] = found + bytes(size - len(found))
        for at, data in self._later:
            first, last = max(at, self._at), min(at + len(data), self._at + size)
            if first < last:
                into[first - self._at:last - self._at] = data[first - at:last - at]
        self._at += size
        return size

    def read(self, size: int) -> bytes:
        data = bytearray(size)
        return bytes(data[:self.readinto(data)])

    def truncate(self, size: int) -> int:
        self._end = size
        try:
            if self.error is None:
                os.ftruncate(self._raw.fileno(), size)
        except OSError as e:
            self.error = e
        return size

    def flush(self) -> None:
        """What is written is with the system already."""


@contextlib.contextmanager
def typed(path: Any) -> Iterator[None]:
    """Converts the exceptions of damaged files to one of tf.errors or an OSError; ValueError and TypeError pass through."""
    import struct
    import zipfile
    import zlib
    try:
        yield
    except (KeyError, IndexError, UnicodeError, RecursionError, MemoryError, struct.error, zipfile.BadZipFile, zlib.error,
            EOFError) as e:
        raise errors.DataLossError(None, None, f"{_name(path)} is damaged or of another format: {type(e).__name__}: {e}") from e
    except RuntimeError as e:
        if "Unable to" not in str(e) and "Can't" not in str(e):           # the message of the HDF5 library is not shown
            raise
        raise errors.DataLossError(None, None, f"{_name(path)} is damaged: {e}") from e


def check(path: Any) -> None:
    """DataLossError if a file crashes, hangs or exhausts the HDF5 library, PermissionDeniedError for what is refused.

    DeadlineExceededError if the inspection took too long without computing.
    """
    if not isinstance(path, io.BytesIO):
        name = os.fspath(path)
        if not os.path.isfile(name):
            raise FileNotFoundError(2, f"Unable to open file: no such file: '{name}'")
        found = os.stat(name)
        key = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
        if key not in _passed:
            settled = time.time_ns() - found.st_mtime_ns > _TICK
            _look_at(name, path)
            if not settled:
                return
            _passed[key] = None
            while len(_passed) > _REMEMBERED:
                _passed.pop(next(iter(_passed)))
        return
    with tempfile.NamedTemporaryFile(suffix=".h5") as copy:
        copy.write(path.getbuffer())
        copy.flush()
        _look_at(copy.name, path)


def _look_at(name: str, path: Any) -> None:
    import h5py
    size = os.path.getsize(name)
    most = max(_FLOOR, _RATIO * size)
    seconds = int(_SECONDS + _PER_BYTE * _RATIO * size)
    folder = os.path.dirname(os.path.dirname(h5py.__file__))
    command = [sys.executable, "-E", "-s", _SCRIPT, folder, name, str(_SPARE + 3 * size + _FLOOR), str(seconds), str(most)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              timeout=_PATIENCE * seconds, check=False)
    except subprocess.TimeoutExpired:                # it may be intact: a loop of the library ends by the limit on computing
        raise errors.DeadlineExceededError(None, None, f"{_name(path)} was not inspected in {_PATIENCE * seconds} seconds: "
                                           "the machine is busy, or the file's disk does not answer") from None
    words = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode == 2:
        raise errors.PermissionDeniedError(None, None, f"{_name(path)} is refused: {words}")
    if done.returncode == 3 and words.startswith(("OSError", "FileNotFoundError", "BlockingIOError", "PermissionError")):
        raise OSError(f"{_name(path)}: {words.partition(': ')[2]}")
    if done.returncode:
        what = words or f"the HDF5 library ended with signal {-done.returncode}"
        raise errors.DataLossError(None, None, f"{_name(path)} is damaged: {what}")


def _name(path: Any) -> str:
    return "The file of weights" if isinstance(path, io.BytesIO) else str(path)
