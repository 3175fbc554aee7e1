"""Ports for servers that start later, possibly in other processes.

A port found by binding port 0 and releasing it lies in the kernel's ephemeral range: before the server binds it, any outgoing
connection or any other listener may be given it. So ports come from below that range, where the kernel never assigns one by
itself. Each stays reserved for the life of this process by a lock on one byte of a file that all processes of a user share.
"""
from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import pathlib
import random
import socket
import tempfile
import threading

_LOWEST = 15000                         # below: well-known services
_DEFAULT_EPHEMERAL = 32768              # where Linux's ephemeral range begins unless configured; macOS's is higher
_TRIES = 2000

_reserved: set[int] = set()
_lock = threading.Lock()


def free_addresses(count: int, host: str = "localhost") -> list[str]:
    """Returns `count` distinct addresses whose ports are free and stay reserved while this process runs."""
    with _lock:
        table = _table()
        return [f"{host}:{_reserve(table, host)}" for _ in range(count)]


@functools.cache
def _table() -> int:
    """The descriptor of the shared file. It stays open: closing it would release this process's locks."""
    path = pathlib.Path(tempfile.gettempdir()) / f"penstock-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _reserve(table: int, host: str) -> int:
    highest = _first_ephemeral()
    draw = random.SystemRandom()
    for _ in range(_TRIES if highest > _LOWEST else 0):
        port = draw.randrange(_LOWEST, highest)
        if port in _reserved or not _locked(table, port):
            continue
        if _is_free(host, port):
            _reserved.add(port)
            return port
        fcntl.lockf(table, fcntl.LOCK_UN, 1, port)
    with socket.create_server((host, 0)) as probe:      # an unusual range: what the kernel offers is the best there is
        return int(probe.getsockname()[1])


def _first_ephemeral() -> int:
    with contextlib.suppress(OSError, ValueError):
        return int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    return _DEFAULT_EPHEMERAL


def _locked(table: int, port: int) -> bool:
    """Locks a port's byte of the table, unless another process has done so."""
    try:
        fcntl.lockf(table, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _is_free(host: str, port: int) -> bool:
    try:
        socket.create_server((host, port)).close()
    except OSError:
        return False
    return True
