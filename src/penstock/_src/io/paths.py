"""Files by path, local or on any file system that fsspec supports ("memory://", "s3://", "gs://" …).

Local paths use the operating system directly; fsspec is imported on the first use of another one. Every failure is one of
`penstock.errors`. All functions take text, bytes or path-like objects.
"""
from __future__ import annotations

import contextlib
import errno
import fnmatch
import functools
import glob as _glob
import io
import os
import re
import shutil
import stat as _stat
from collections.abc import Iterator
from typing import Any, NamedTuple

from penstock._src.base import errors
from penstock._src.io import confine, locks
from penstock._src.io.system_errors import typed

_NAMES, _LONGEST = 1_000_000, 4096                         # entries of folders that a pattern may inspect; its characters


class FileStatistics(NamedTuple):
    """The result of `stat`."""
    length: int
    mtime_nsec: int
    is_directory: bool


def as_text(path: Any) -> str:
    """A path as text; "file://" is dropped."""
    path = os.fspath(path)
    path = os.fsdecode(path) if isinstance(path, bytes) else path
    return path[7:] if path.startswith("file://") else path


def remote(path: str) -> Any:
    """The fsspec file system of a path, and the path in it; None for a local path. Every use of a file goes through here."""
    confine.check(path)
    if "://" not in path:
        return None
    from fsspec.core import url_to_fs
    try:
        return url_to_fs(path)
    except (ValueError, ImportError) as e:
        raise errors.UnimplementedError(None, None, f"No file system for {path}: {e}") from None


# -- asking ----------------------------------------------------------------------------------------------------------
def exists(path: Any) -> bool:
    """Whether a file or directory of that name exists."""
    path = as_text(path)
    far = remote(path)
    return os.path.exists(path) if far is None else far[0].exists(far[1])


def isdir(path: Any) -> bool:
    """Whether the path is a directory."""
    path = as_text(path)
    far = remote(path)
    return os.path.isdir(path) if far is None else far[0].isdir(far[1])


def stat(path: Any) -> FileStatistics:
    """Size, time of the last change, and kind of a file."""
    path = as_text(path)
    far = remote(path)
    with typed(path):
        if far is None:
            s = os.stat(path)
            return FileStatistics(s.st_size, s.st_mtime_ns, os.path.isdir(path))
        info = far[0].info(far[1])
        when = info.get("mtime") or info.get("LastModified") or info.get("created") or 0
        seconds = when.timestamp() if hasattr(when, "timestamp") else float(when)
        return FileStatistics(info.get("size") or 0, int(seconds * 1e9), info["type"] == "directory")


def listdir(path: Any) -> list[str]:
    """The names in a directory."""
    path = as_text(path)
    if not isdir(path):
        raise errors.NotFoundError(None, None, f"Could not find directory {path}")
    far = remote(path)
    with typed(path):
        if far is None:
            return sorted(os.listdir(path))
        return sorted({os.path.basename(p.rstrip("/")) for p in far[0].ls(far[1], detail=False)})


def glob(pattern: Any) -> list[str]:
    """The paths that match a pattern, in order."""
    pattern = as_text(pattern)
    far = None if "://" not in pattern and _glob.has_magic(pattern) else remote(pattern)
    if far is None:
        if not _glob.has_magic(pattern):
            return [pattern] if os.path.exists(pattern) else []
        return sorted(filter(confine.allows, _matching(pattern)))
    scheme = pattern.partition("://")[0]
    return sorted(f"{scheme}://{p}" for p in far[0].glob(far[1]))


def named(path: Any) -> list[str]:
    """The file of that name, whatever characters it has; if there is none, those that match it as a pattern."""
    return [as_text(path)] if exists(path) else glob(path)


def _matching(pattern: str) -> list[str]:
    """The local paths that match, folder by folder; ResourceExhaustedError for a pattern that visits too many names."""
    if len(pattern) > _LONGEST:
        raise errors.invalid(f"A pattern of {len(pattern)} characters matches no path")
    root = "/" if pattern.startswith("/") else ""
    found, seen, parts = [root], 0, pattern.lstrip("/").split("/")
    for i, part in enumerate(parts):
        if not _glob.has_magic(part):
            found = [p + part for p in found if os.path.lexists(p + part)] if part or i == len(parts) - 1 else found
        else:
            match, hidden, deeper = re.compile(fnmatch.translate(part)).match, part.startswith("."), []
            for folder in found:
                with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
                    for entry in entries:
                        seen += 1
                        if seen > _NAMES:
                            raise errors.ResourceExhaustedError(None, None, f"{pattern} visits more than {_NAMES} names")
                        if (hidden or not entry.name.startswith(".")) and match(entry.name):
                            deeper.append(folder + entry.name)
            found = deeper
        if i < len(parts) - 1:
            found = [p if p.endswith("/") else p + "/" for p in found if os.path.isdir(p or ".")] if part or i else found
    return found


def join(folder: str, name: str) -> str:
    """A path below a folder; also of other file systems."""
    return f"{folder.rstrip('/')}/{name}" if "://" in folder else os.path.join(folder, name)


# -- changing --------------------------------------------------------------------------------------------------------
def makedirs(path: Any) -> None:
    """Creates a directory and its parents; it may exist."""
    path = as_text(path)
    far = remote(path)
    with typed(path):
        _make_local(path) if far is None else far[0].makedirs(far[1], exist_ok=True)


def _make_local(path: str) -> None:
    try:
        os.stat(path)
    except OSError as e:
        if e.errno == errno.ENAMETOOLONG:            # before any part of it is made
            raise
    missing = []                                     # a loop: names may be deeper than Python's stack
    while path and not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path.rstrip("/"))
    for folder in reversed(missing):
        try:
            os.mkdir(folder)
        except FileExistsError:
            if not os.path.isdir(folder):
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory") from None


def mkdir(path: Any) -> None:
    """Creates a directory whose parent exists."""
    path = as_text(path)
    far = remote(path)
    with typed(path):
        os.mkdir(path) if far is None else far[0].mkdir(far[1], create_parents=False)


def remove(path: Any) -> None:
    """Removes a file."""
    path = as_text(path)
    far = remote(path)
    with typed(path):
        os.remove(path) if far is None else far[0].rm_file(far[1])


def rmtree(path: Any) -> None:
    """Removes a directory and its contents."""
    path = as_text(path)
    far = remote(path)
    if not exists(path):
        raise errors.NotFoundError(None, None, f"{path}; No such file or directory")
    with typed(path):
        if far is not None:
            far[0].rm(far[1], recursive=True)
        elif os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.remove(path)


def rename(old: Any, new: Any, overwrite: bool = True) -> None:
    """Renames a file; replaces an existing one only if `overwrite`."""
    old, new = as_text(old), as_text(new)
    confine.check(new)
    _free(new, overwrite)
    far = remote(old)
    with typed(old):
        if far is None:
            os.replace(old, new)
        else:
            far[0].mv(far[1], remote(new)[1], recursive=far[0].isdir(far[1]))


def copy(old: Any, new: Any, overwrite: bool = False) -> None:
    """Copies a file, also from one file system to another."""
    old, new = as_text(old), as_text(new)
    _free(new, overwrite)
    with open_file(old, "rb") as source, open_file(new, "wb") as target, typed(new):
        shutil.copyfileobj(source, target, 1 << 20)


def _free(path: str, overwrite: bool) -> None:
    if not overwrite and exists(path):
        raise errors.AlreadyExistsError(None, None, f"{path} already exists")


# -- contents --------------------------------------------------------------------------------------------------------
def open_file(path: Any, mode: str = "rb") -> Any:
    """An open binary file."""
    path = as_text(path)
    far = remote(path)
    with typed(path):
        if far is None:
            if "r" in mode and os.path.isdir(path):
                raise IsADirectoryError(21, "Is a directory")
            return open(path, mode)  # noqa: SIM115
        return far[0].open(far[1], mode)


def open_stored(path: Any) -> Any:
    """An open binary file of a checkpoint or a model. FailedPreconditionError for a pipe, a socket or a device in its place:
    another program may never write to it, and nothing says how long it is."""
    path = as_text(path)
    if remote(path) is not None or os.path.isdir(path):
        return open_file(path)
    with typed(path):
        file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115
        if not _stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise errors.FailedPreconditionError(None, None, f"{path} is not a file, but a pipe, a socket or a device")
        return file


def _without_waiting(path: str, flags: int) -> int:
    """Opens a pipe that no other program has open, too. For files the flag means nothing."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_bytes(path: Any) -> bytes:
    """The contents of a file."""
    with open_file(path) as f, typed(path):
        return f.read()


def read_stored(path: Any) -> bytes:
    """The contents of a file of a checkpoint or a model."""
    with open_stored(path) as f, typed(path):
        return f.read()


def write_atomically(path: Any, data: bytes, stored: bool = False) -> None:
    """Writes a file atomically: readers see the old or the complete new one, also after a crash."""
    with atomic(path, stored) as f:
        f.write(data)


@contextlib.contextmanager
def atomic(path: Any, stored: bool = False) -> Iterator[Any]:
    """A file to write that becomes visible at the end, complete; after an exception it does not.

    It is written to a temporary file beside it, flushed to the disk, and renamed. A link remains and what it leads to is
    replaced; a device or a pipe is written directly, and so are files of fsspec, which become visible when they are closed. A
    `stored` file, of a checkpoint or a model, replaces whatever has its name: a link in such a folder must not lead a save to
    another file, nor a pipe make it wait.
    """
    path = as_text(path)
    far = remote(path)
    if far is not None:
        with typed(path), far[0].open(far[1], "wb") as f:
            yield f
        return
    path = path if stored else _behind_links(path)
    if not stored and _is_stream(path):
        with typed(path), open(path, "wb") as f:
            yield f
        return
    with beside(path) as (file, temporary):
        yield file
        publish(file, temporary, path)


@contextlib.contextmanager
def atomic_name(path: Any) -> Iterator[str]:
    """The name of a temporary local file, renamed to `path` at the end; for libraries that open files themselves."""
    path = as_text(path)
    confine.check(path)
    path = _behind_links(path)
    if _is_stream(path):
        yield path
        return
    with beside(path) as (file, temporary):
        yield temporary
        publish(file, temporary, path)


def _behind_links(path: str) -> str:
    return os.path.realpath(path) if os.path.islink(path) else path


def _is_stream(path: str) -> bool:
    """Whether a path is a device, a pipe or a socket, which must not be replaced by a file."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not _stat.S_ISREG(mode) and not _stat.S_ISDIR(mode)


@contextlib.contextmanager
def beside(path: str) -> Iterator[tuple[Any, str]]:
    """A temporary file beside a local path; those of writers that were killed are removed first."""
    with typed(path):
        _make_local(os.path.dirname(path) or ".")
        locks.remove_abandoned(path)
        file, temporary = locks.create_temporary(path)
        try:
            with file:
                yield file, temporary
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


def publish(file: Any, temporary: str, path: str) -> None:
    """Renames a complete temporary file, which is still locked, to its place, with the rights of the file that was there."""
    file.flush()
    with contextlib.suppress(OSError):
        before = os.lstat(path).st_mode
        if _stat.S_ISREG(before):
            os.fchmod(file.fileno(), _stat.S_IMODE(before))
    os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(os.path.dirname(path) or ".")


def begin_sync(file: Any) -> None:
    """Starts writing the data of a local file to disk, so that a later fsync takes less time."""
    begin = _range_sync()
    if begin is not None and isinstance(file, io.BufferedWriter):
        begin(file.fileno(), 0, 0, 2)


@functools.cache
def _range_sync() -> Any:
    """Linux's sync_file_range, or None; it is a hint, whose failure changes nothing."""
    import ctypes
    try:
        found = ctypes.CDLL(None).sync_file_range
    except (AttributeError, OSError):
        return None
    found.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return found


def sync_file(path: str) -> None:
    """Makes the contents of a closed local file durable; files of other file systems are when they are closed."""
    if remote(path) is None:
        with typed(path):
            fd = os.open(path, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


def sync_folder(path: str) -> None:
    """Makes renames in a local directory durable."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
