"""Accepts the connections of a server, and serves those that authenticate themselves as members of the cluster.

Each connection has a thread. The number of connections in their handshake (*pending*) is bounded, and each has one deadline,
so that they cannot use up the server's descriptors or threads. At the limit the oldest pending connection is dropped, unless
it is younger than `_SLOW` seconds. If `accept` or starting a thread fails, the loop logs the reason, waits a moment, and
continues.
"""
from __future__ import annotations

import contextlib
import errno
import resource
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from penstock._src.base import tf_logging
from penstock._src.cluster import security

MOST_PENDING = 256                      # connections in their handshake,
_PART = 8                               # and of the process's descriptors, one of so many at most
_SLOW = 1.0                             # seconds after which a pending connection may be dropped for another one
_PAUSE = 0.1                            # seconds before the next attempt, when the system has refused something
_SHORT_PAUSE = 0.01                     # the same, when a pending connection was dropped
_SAY_AGAIN = 10.0                       # seconds between two warnings
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Acceptor:
    """The connections of one server. `serve(sock)` is called on a thread of the connection after its handshake."""

    def __init__(self, listener: socket.socket, credentials: security.Credentials, serve: Callable[[Any], None],
                 ended: threading.Event):
        self._listener, self._credentials, self._serve, self._ended = listener, credentials, serve, ended
        self._port = listener.getsockname()[1]
        self._changed = threading.Condition()
        self._threads: dict[socket.socket, threading.Thread] = {}
        self._pending: dict[socket.socket, float] = {}       # since when, the oldest first
        self._said = float("-inf")

    def accept(self) -> None:
        """Accepts connections until the server ends."""
        while not self._ended.is_set():
            self._make_room()
            try:
                raw, _ = self._listener.accept()
            except OSError as e:
                if not self._ended.is_set():
                    self._refused(e)
                continue
            self._start(raw)

    def _make_room(self) -> None:
        """Waits until one more pending connection is allowed."""
        most = max(1, min(MOST_PENDING, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _PART))
        with self._changed:
            while len(self._pending) >= most and not self._ended.is_set():
                since = next(iter(self._pending.values()))
                left = since + _SLOW - time.monotonic()
                if left <= 0:
                    self._drop_oldest()
                else:
                    self._changed.wait(min(left, 1.0))

    def _drop_oldest(self) -> bool:
        """Ends the oldest handshake, if any; its thread closes the connection. The lock is held."""
        raw = next(iter(self._pending), None)
        if raw is None:
            return False
        del self._pending[raw]
        _shut(raw)
        return True

    def _start(self, raw: socket.socket) -> None:
        thread = threading.Thread(target=self._authenticate, args=(raw,), name=f"penstock connection {self._port}", daemon=True)
        with self._changed:                             # `close` joins only what has been started
            self._threads[raw], self._pending[raw] = thread, time.monotonic()
            try:
                thread.start()
                return
            except (RuntimeError, MemoryError) as e:
                self._forget(raw)
                refused = e
        raw.close()
        self._refused(refused)

    def _refused(self, why: BaseException) -> None:
        """Handles a refused descriptor or thread: drops a pending connection, logs at intervals, and waits a moment."""
        with self._changed:
            room = getattr(why, "errno", None) in _EXHAUSTED and self._drop_oldest()
        if time.monotonic() - self._said > _SAY_AGAIN:
            self._said = time.monotonic()
            tf_logging.warning("The server at port %d cannot accept a connection, and retries: %s", self._port, why)
        self._ended.wait(_SHORT_PAUSE if room else _PAUSE)

    def _authenticate(self, raw: socket.socket) -> None:
        try:
            sock = self._credentials.open(raw)
            with self._changed:
                self._pending.pop(raw, None)
                self._changed.notify_all()
            self._serve(sock)
        except Exception as e:                          # a malformed message ends this connection only
            if not self._ended.is_set():
                tf_logging.debug("A connection has ended: %r", e)
        finally:
            with self._changed:
                self._forget(raw)
            raw.close()

    def _forget(self, raw: socket.socket) -> None:
        self._threads.pop(raw, None)
        self._pending.pop(raw, None)
        self._changed.notify_all()

    def shut(self) -> None:
        """Stops accepting connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Ends all connections, and waits for their threads."""
        with self._changed:
            left = list(self._threads.items())
        for raw, _ in left:
            _shut(raw)
        for _, thread in left:
            if thread is not threading.current_thread():
                thread.join(5.0)


def _shut(raw: socket.socket) -> None:
    with contextlib.suppress(OSError):
        raw.shutdown(socket.SHUT_RDWR)
