"""Which files ops may use: a server runs the file ops of its clients with its own rights.

`PENSTOCK_FILE_FOLDERS` declares folders, separated by os.pathsep (":"; folders of other file systems as "s3://bucket/data").
Where it is set, ops, checkpoints, event files and `tf.io.gfile` can access only these folders, after following links, in the
whole process. Without it, every folder is allowed, so that training programs work unchanged. Files that were declared
private, as a server declares its secret and its key, are not accessible to ops in either case, under no name of theirs.
"""
from __future__ import annotations

import contextlib
import functools
import os
import re
import stat
from collections.abc import Iterator

from penstock._src.base import errors, switches

_LOCAL = ("file", "local")                  # the schemes that fsspec has for files of this machine
_INDIRECT = "reference"                     # its files are listed in another one
_OF_PROCESSES = re.compile(r"/proc/[^/]+/(task/[^/]+/)?(environ|mem)$")
_private: set[str] = set()


def keep_private(*files: str) -> None:
    """Declares files, or all files in folders, private: ops refuse them."""
    _private.update(os.path.realpath(f) for f in files if f)


def check(path: str) -> None:
    """Raises PermissionDeniedError if ops may not use a path."""
    declared = switches.FILE_FOLDERS.value()
    if not declared and not _private:
        return
    there = path if "://" in path else os.path.realpath(path)
    if _private and any(map(_is_private, _local_files(path))):
        raise errors.PermissionDeniedError(None, None, f"{path} holds a secret of this server, which ops may not use.")
    if _private and any(part.partition("://")[0] == _INDIRECT for part in path.split("::")):
        raise errors.PermissionDeniedError(None, None, f"{path} names files by what is in another one, which could be a secret "
                                           "of this server: ops may not use it.")
    if declared and (".." in there.split("/") or not any(_within(there, f) for f in _folders(declared))):
        raise errors.PermissionDeniedError(
            None, None, f"{path} is not in a folder that PENSTOCK_FILE_FOLDERS declares for this process: {declared}")


def _local_files(path: str) -> list[str]:
    """The files of this machine that a path reaches: itself, or what a URL of fsspec names, which may be a chain as in
    "simplecache::file:///data". A letter before "://" is a drive to fsspec, and the path is a local one."""
    if "://" not in path:
        return [os.path.realpath(path)]
    found = []
    for part in path.split("::"):
        scheme, separated, rest = part.partition("://")
        if not separated or len(scheme) < 2:
            found.append(os.path.realpath(part))
        elif scheme in _LOCAL:
            found.append(os.path.realpath(rest))
        elif "://" in rest:                                # "generic://file:///data"
            found += _local_files(rest)
    return found


def _is_private(path: str) -> bool:
    """Whether a file is private: by its name, as another name of the same file (a hard link), or as what the system shows of
    the environment and the memory of processes, which may contain a secret."""
    if any(_within(path, p) for p in _private) or _OF_PROCESSES.match(path):
        return True
    try:
        found = os.stat(path)
        if found.st_nlink < 2 or not stat.S_ISREG(found.st_mode):
            return False
    except (OSError, ValueError):
        return False
    return any(os.path.samestat(found, known) for known in _private_files())


def _private_files() -> Iterator[os.stat_result]:
    for place in list(_private):
        names = [place]
        if os.path.isdir(place):
            names = [os.path.join(folder, name) for folder, _, inside in os.walk(place) for name in inside]
        for name in names:
            with contextlib.suppress(OSError):
                yield os.stat(name)


def allows(path: str) -> bool:
    """Whether ops may use a path."""
    try:
        check(path)
    except errors.PermissionDeniedError:
        return False
    return True


@functools.lru_cache(maxsize=8)
def _folders(declared: str) -> tuple[str, ...]:
    parts, made = declared.split(os.pathsep), []
    while parts:
        part = parts.pop(0)
        if parts and parts[0].startswith("//"):            # "s3" ":" "//bucket/data"
            made.append(f"{part}:{parts.pop(0)}".rstrip("/"))
        elif part:
            made.append(os.path.realpath(part))
    return tuple(made)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
