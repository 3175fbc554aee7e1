"""Zip and tar files from untrusted sources: the unpacked size is bounded by the packed size."""
from __future__ import annotations

import contextlib
import lzma
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

from penstock._src.base import errors

FLOOR, RATIO = 256 << 20, 100               # bytes that any member may unpack to, and per byte of it in the file


@contextlib.contextmanager
def opened(path: Any) -> Iterator[zipfile.ZipFile]:
    """Opens a zip file for reading; raises DataLossError if it is damaged."""
    try:
        with zipfile.ZipFile(path) as z:
            yield z
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, NotImplementedError, UnicodeError) as e:
        if isinstance(e, RuntimeError) and type(e).__module__ != "builtins":
            raise
        raise errors.DataLossError(None, None, f"{path} is damaged: {type(e).__name__}: {e}") from e


def read(z: zipfile.ZipFile, name: str) -> bytes:
    """A member of a zip file; KeyError if there is none."""
    info = z.getinfo(name)
    check(info)
    return z.read(info)


def check(info: zipfile.ZipInfo) -> None:
    """Raises ResourceExhaustedError if the unpacked size of a member is far larger than its packed size."""
    if info.file_size > max(FLOOR, RATIO * info.compress_size):
        raise errors.ResourceExhaustedError(None, None, f"{info.filename} has {info.compress_size} bytes in the file and "
                                            f"claims to unpack to {info.file_size}")


@contextlib.contextmanager
def opened_tar(path: Any) -> Iterator[tarfile.TarFile]:
    """Opens a tar file, compressed or not, for reading; raises DataLossError if it is damaged, and PermissionDeniedError if a
    member would be written outside of the folder that it is unpacked to."""
    try:
        with tarfile.open(path) as tar:
            yield tar
    except tarfile.FilterError as e:
        raise errors.PermissionDeniedError(None, None, f"{path} is refused: {e}") from e
    except (tarfile.TarError, zlib.error, lzma.LZMAError, struct.error, EOFError, UnicodeError) as e:
        raise errors.DataLossError(None, None, f"{path} is damaged: {type(e).__name__}: {e}") from e


def checked_members(tar: tarfile.TarFile, path: Any) -> Iterator[tarfile.TarInfo]:
    """The members of a tar file; raises ResourceExhaustedError where they become far larger than the file."""
    packed, total = os.stat(path).st_size, 0
    for info in tar:
        total += info.size
        if total > max(FLOOR, RATIO * packed):
            raise errors.ResourceExhaustedError(None, None, f"{path} has {packed} bytes and unpacks to more than {total}")
        yield info
