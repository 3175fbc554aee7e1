"""Downloads to a file: resumed after an interruption, checked, and visible under its name only when it is complete.

Bytes go to `<path>.part`, and `<path>.part.tag` keeps the server's version of the file (ETag or Last-Modified). An interrupted
download continues where it ended if the server still has that version; otherwise it starts over. The file is renamed into place
after its length and checksum were verified. A lock keeps two processes from writing the same part.
"""
from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from penstock._src.base import switches
from penstock._src.base.waits import Wait
from penstock._src.io.locks import is_still, try_lock

_BLOCK = 1 << 20
_TRIES = 3
_SECONDS = 30.0                         # seconds that a connection may be silent
_SCHEMES = ("http://", "https://")
_PARTIAL, _RANGE_NOT_SATISFIABLE = 206, 416

Progress = Callable[[int, int | None], None]      # bytes so far, bytes in all (None if the server does not say)


class DownloadError(ConnectionError):
    """A file could not be downloaded; the message says from where, why, and where to put it by hand."""


def offline() -> bool:
    """Whether the environment forbids downloads (`PENSTOCK_OFFLINE=1`)."""
    return switches.OFFLINE.value()


def download(url: str, path: str, checksum: str | None = None, progress: Progress | None = None) -> None:
    """Downloads `url` to `path`.

    Args:
        url: An http or https address.
        path: Where the file goes. Its folder is made if necessary. An existing file is replaced when the new one is complete.
        checksum: MD5 (32 hexadecimal digits) or SHA-256 (64) of the file; optional.
        progress: Called with the number of bytes that have arrived and the number expected; optional.

    Raises:
        DownloadError: if downloads are switched off, the server cannot be reached, or the connection keeps breaking.
        ValueError: if the file does not have the checksum.
    """
    if not url.startswith(_SCHEMES):
        raise ValueError(f"Only http and https addresses can be downloaded, not {url!r}")
    if offline():
        raise _failed(url, path, "downloads are switched off by PENSTOCK_OFFLINE")
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    part = path + ".part"
    with _locked(part + ".lock"):
        _fetch(url, path, part, progress)
        found = checksum and digest(part, "sha256" if len(checksum) == 64 else "md5")
        if checksum and found != checksum.lower():
            _discard(part)
            raise ValueError(f"Incomplete or corrupted file: {url} has the checksum {found}, expected {checksum}.")
        os.replace(part, path)
        _discard(part)


def digest(path: str, kind: str) -> str:
    """The "md5" or "sha256" checksum of a file, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()


def _fetch(url: str, path: str, part: str, progress: Progress | None) -> None:
    """Downloads the whole file to `part`, reconnecting if the connection breaks."""
    reason: Any = None
    for _ in range(_TRIES):
        try:
            return _attempt(url, path, part, progress)
        except urllib.error.HTTPError as e:
            e.close()
            if e.code == _RANGE_NOT_SATISFIABLE:           # the part is longer than the file has become
                _discard(part)
            elif e.code < 500:
                raise _failed(url, path, f"the server answered {e.code} {e.reason}") from e
            reason = e
        except (OSError, http.client.HTTPException) as e:
            if isinstance(e, OSError) and e.errno == 28:
                raise
            reason = e
    raise _failed(url, path, str(getattr(reason, "reason", None) or reason)) from reason


def _attempt(url: str, path: str, part: str, progress: Progress | None) -> None:
    have, tag = (os.path.getsize(part), _tag_of(part)) if os.path.exists(part) else (0, None)
    request = urllib.request.Request(url, headers={"User-Agent": "penstock"})
    if have and tag:
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", tag)
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
        resumed = answer.status == _PARTIAL
        have = have if resumed else 0
        length = answer.headers.get("Content-Length")
        expected = None if length is None else have + int(length)
        _require_space(part, expected, have)
        _keep_tag(part, answer.headers.get("ETag") or answer.headers.get("Last-Modified"))
        with open(part, "ab" if resumed else "wb") as file:
            while block := answer.read(_BLOCK):
                file.write(block)
                have += len(block)
                if progress is not None:
                    progress(have, expected)
    if expected is not None and have != expected:
        raise ConnectionError(f"the connection ended after {have} of {expected} bytes")


def _require_space(part: str, expected: int | None, have: int) -> None:
    free = shutil.disk_usage(os.path.dirname(part) or ".").free
    if expected is not None and expected - have > free:
        raise OSError(28, f"{expected - have} bytes are needed, and {free} are free", part)


def _tag_of(part: str) -> str | None:
    with contextlib.suppress(OSError), open(part + ".tag", encoding="utf-8") as file:
        tag = file.read()
        return tag if tag and not tag.startswith("W/") else None       # weak tags cannot be continued from
    return None


def _keep_tag(part: str, tag: str | None) -> None:
    with open(part + ".tag", "w", encoding="utf-8") as file:
        file.write(tag or "")


def _discard(part: str) -> None:
    for name in (part, part + ".tag"):
        with contextlib.suppress(FileNotFoundError):
            os.remove(name)


@contextlib.contextmanager
def _locked(name: str) -> Iterator[None]:
    """Holds a lock file, which is removed at the end. Another process that needs the same download waits here."""
    while True:
        with open(name, "wb") as file:
            waited = Wait(lambda: f"another process to download what {name} locks")
            while not try_lock(file.fileno()):
                time.sleep(min(waited.patience() or 0.05, 0.05))
            if not is_still(file.fileno(), name):
                continue                                   # its holder has removed it meanwhile: lock the new one
            try:
                yield
            finally:
                os.remove(name)
            return


def _failed(url: str, path: str, reason: str) -> DownloadError:
    return DownloadError(f"Cannot download {url}: {reason}. Without a network, get the file elsewhere and save it as {path}.")
