"""The secret of a user: a file that only this user can read, made when a process first needs it.

Processes of one user on one machine share it, so that their servers refuse other users without any configuration. The file is
`$XDG_CONFIG_HOME/penstock/secret` (`~/.config/penstock/secret`); if there is no writable home, it is in a folder of the user
inside the folder for temporary files.
"""
from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import secrets
import stat
import tempfile

from penstock._src.base import errors

_BYTES = 32                             # of randomness; the file has them as hexadecimal digits
_NAME = "secret"


def user_secret() -> bytes:
    """Returns this user's secret; creates it if there is none."""
    return _kept(os.environ.get("XDG_CONFIG_HOME", ""), os.environ.get("HOME", ""), tempfile.gettempdir())


def user_folders() -> list[pathlib.Path]:
    """The folders that the secret may be in."""
    return _folders(os.environ.get("XDG_CONFIG_HOME", ""), os.environ.get("HOME", ""), tempfile.gettempdir())


@functools.lru_cache(maxsize=8)
def _kept(config: str, home: str, temporary: str) -> bytes:
    """The secret for one set of folders: a process reads the file once."""
    found = []
    for folder in _folders(config, home, temporary):
        try:
            return _read_or_make(folder)
        except OSError as e:
            found.append(f"{folder}: {e}")
    raise errors.FailedPreconditionError(
        None, None, f"No usable location for this user's secret ({'; '.join(found)}): set PENSTOCK_SECRET or "
        "PENSTOCK_SECRET_FILE.")


def _folders(config: str, home: str, temporary: str) -> list[pathlib.Path]:
    first = [pathlib.Path(config) / "penstock"] if config else [pathlib.Path(home) / ".config" / "penstock"] if home else []
    return [*first, pathlib.Path(temporary) / f"penstock-{os.getuid()}"]


def _read_or_make(folder: pathlib.Path) -> bytes:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check(folder, os.stat(folder, follow_symlinks=False), stat.S_IWGRP | stat.S_IWOTH)
    path = folder / _NAME
    with contextlib.suppress(FileNotFoundError):
        return _read(path)
    made = folder / f".{_NAME}.{os.getpid()}.{secrets.token_hex(4)}"
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(made, path)                    # atomic: of several processes, one makes the file, whole
    finally:
        os.unlink(made)
    return _read(path)


def _read(path: pathlib.Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        _check(path, os.fstat(file.fileno()), stat.S_IRWXG | stat.S_IRWXO)
        found = file.read(4096).strip()
    if not found:
        raise errors.FailedPreconditionError(None, None, f"{path} is empty: remove it to have a new secret created.")
    return found


def _check(path: pathlib.Path, status: os.stat_result, forbidden: int) -> None:
    """Raises FailedPreconditionError if other users may have written a file or, if that is forbidden, read it."""
    if status.st_uid != os.getuid() or status.st_mode & forbidden:
        raise errors.FailedPreconditionError(
            None, None, f"{path} is accessible to other users (owner {status.st_uid}, mode {stat.S_IMODE(status.st_mode):o}): "
            "remove it, or set PENSTOCK_SECRET or PENSTOCK_SECRET_FILE.")
