"""Locks between the writers of one folder, and temporary files that show whether their writer is alive.

Writers that publish several files together (a checkpoint's data and index) take the lock of the folder: a thread lock in this
process, and `flock` on the folder itself between processes, which leaves no file behind and ends with its process. Both are
held for renames and the writing of an index, not while the data are written.

A temporary file is locked by its writer as long as it is open. A temporary file that can be locked by another process has lost
its writer, whatever its name or age, and may be removed. File systems without `flock` (some network mounts) keep the lock
inside the process, and nothing there is considered abandoned.
"""
from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

from penstock._src.base import errors
from penstock._src.base import tf_logging as logging
from penstock._src.io.system_errors import typed

try:
    import fcntl
except ImportError:                                  # not a POSIX system: threads of one process only
    fcntl = None                                     # type: ignore[assignment]

_WARN_AFTER, _GIVE_UP_AFTER = 10.0, 600.0            # seconds that a writer waits for another one
_LONGEST = 220                                       # bytes of a temporary file's name that are the final name's; 255 in all
_BUSY = (errno.EACCES, errno.EAGAIN)


class _Lock:
    """A thread lock that a weak dictionary can hold."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.depth = 0


class _Table:
    """The thread locks of this process by folder."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """In a fork, whose other threads are gone: what they held is free. Locks between processes are not affected."""
        self.lock = threading.Lock()
        self.locks: weakref.WeakValueDictionary[str, _Lock] = weakref.WeakValueDictionary()

    def of(self, key: str) -> _Lock:
        """The lock of a folder."""
        with self.lock:
            found = self.locks.get(key)
            if found is None:
                found = self.locks[key] = _Lock()
            return found


_table = _Table()
_in_process = _table.of
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_table.reset)


@contextlib.contextmanager
def folder_lock(folder: str) -> Iterator[None]:
    """Holds the lock of a folder that exists; of another file system ("s3://…") within this process only."""
    local = "://" not in folder
    held = _in_process(os.path.realpath(folder) if local else folder)
    with held.lock:
        held.depth += 1
        try:
            if not local or fcntl is None or held.depth > 1:
                yield
            else:
                with _folder_flock(folder):
                    yield
        finally:
            held.depth -= 1


@contextlib.contextmanager
def _folder_flock(folder: str) -> Iterator[None]:
    with typed(folder):
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _wait_for(fd, folder)
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_UN)           # also for a child that was forked meanwhile
        os.close(fd)


def _wait_for(fd: int, folder: str) -> None:
    """Locks a folder; logs what it waits for, and raises after a limit."""
    began, pause, warned = time.monotonic(), 0.001, False
    while not try_lock(fd):
        waited = time.monotonic() - began
        if waited > _GIVE_UP_AFTER:
            raise errors.DeadlineExceededError(None, None, f"Another process has held the lock of {folder} for "
                                               f"{waited:.0f} seconds: end it, or save to another folder")
        if waited > _WARN_AFTER and not warned:
            logging.warning("Waiting for the lock of %s: another process is publishing a checkpoint there", folder)
            warned = True
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def try_lock(fd: int) -> bool:
    """Tries to lock an open file; returns whether it is locked, also if the file system does not support locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e:
        return e.errno not in _BUSY
    return True


def is_still(fd: int, path: str) -> bool:
    """Whether an open file is the one at `path`, which others may remove or replace at any time."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def is_abandoned(folder: str) -> bool:
    """Whether no process holds the lock of a local folder."""
    if fcntl is None or "://" in folder or _in_process(os.path.realpath(folder)).depth:
        return False
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


# -- temporary files -------------------------------------------------------------------------------------------------
def create_temporary(path: str) -> tuple[Any, str]:
    """A new locked file beside `path`, open for writing, and its name."""
    folder, name = os.path.split(path)
    while True:
        temporary = os.path.join(folder, f".{_beginning(name)}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
        try:
            file = open(temporary, "x+b")  # noqa: SIM115
        except FileNotFoundError:                    # the folder is missing, or was empty and removed by another writer
            os.makedirs(folder, exist_ok=True)
            continue
        if fcntl is None:
            return file, temporary
        with contextlib.suppress(OSError):
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        if is_still(file.fileno(), temporary):       # it was not removed before it was locked
            return file, temporary
        file.close()


def _beginning(name: str) -> str:
    """So much of a file's name that what `create_temporary` adds fits beside it."""
    return os.fsdecode(os.fsencode(name)[:_LONGEST])


def same_but_for_numbers(name: str) -> str:
    """A regular expression for names that differ from `name` in numbers only, as those of one training's checkpoints do."""
    return re.sub(r"\d+", r"\\d+", re.escape(name))


def remove_abandoned(path: str) -> None:
    """Removes the temporary files beside `path`, for it or for files that are numbered otherwise, whose writers are gone."""
    folder, name = os.path.split(path)
    theirs = re.compile(rf"\.{same_but_for_numbers(_beginning(name))}\..*\.tmp")
    with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
        for entry in entries:
            if theirs.fullmatch(entry.name):
                remove_if_abandoned(entry.path)


def remove_if_abandoned(path: str) -> bool:
    """Removes a file whose writer is gone, which is when its lock is free; returns whether it was removed."""
    if fcntl is None:
        return False
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)       # it may be a pipe
    except OSError:
        return not os.path.lexists(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)                              # while it is locked: a writer that waits for the lock sees it go
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
