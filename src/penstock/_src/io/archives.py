"""Zip files from untrusted sources: the unpacked size is bounded by the packed size."""
from __future__ import annotations

import contextlib
import struct
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
