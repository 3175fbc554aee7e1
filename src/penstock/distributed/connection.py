"""Connections of a client: opened when needed, authenticated, kept for the next call. One call uses one connection."""
from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from penstock import errors
from penstock.distributed import security, wire


def split_address(address: str) -> tuple[str, int]:
    """("host", port) of an address; InvalidArgumentError without a port."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise errors.invalid(f"Could not interpret \"{address}\" as a host-port pair: the port is missing or no number.")
    return host.strip("[]"), int(port)


class Connections:
    """The connections to one server."""

    def __init__(self, address: str, timeout: float | None = None):
        self.host, self.port = split_address(address)
        self._timeout = timeout                        # for reaching the server
        self._free: list[socket.socket] = []
        self._all: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False

    def call(self, header: dict[str, Any], values: list[Any] | None = None) -> tuple[dict[str, Any], list[Any]]:
        """Sends a message and gives the answer; an error of the server is raised here."""
        with self._borrowed() as sock:
            try:
                wire.send(sock, header, values)
                answer = wire.receive(sock)
            except OSError as e:
                raise errors.UnavailableError(None, None, f"The server at {self.host}:{self.port} is gone: {e}") from None
            if answer is None:
                raise errors.UnavailableError(None, None, f"The server at {self.host}:{self.port} closed the connection.")
        if "error" in answer[0]:
            raise _error(answer[0]["error"])
        return answer

    @contextlib.contextmanager
    def _borrowed(self) -> Iterator[socket.socket]:
        with self._lock:
            if self._closed:
                raise errors.CancelledError(None, None, "Session::Close: the session was closed.")
            sock = self._free.pop() if self._free else None
        sock = sock or self._open()
        try:
            yield sock
        except BaseException:
            self._drop(sock)
            raise
        with self._lock:
            if not self._closed:
                self._free.append(sock)
                return
        self._drop(sock)

    def _open(self) -> socket.socket:
        deadline = time.monotonic() + (20.0 if self._timeout is None else self._timeout)
        pause = 0.01
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise errors.DeadlineExceededError(None, None, f"No server answered at {self.host}:{self.port} in time.")
            try:
                sock = socket.create_connection((self.host, self.port), timeout=left)
                break
            except OSError:
                time.sleep(min(pause, max(left, 0)))
                pause = min(pause * 2, 0.5)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            security.authenticate(sock, security.secret(), serving=False)
            sock.settimeout(None)
        except BaseException as e:
            sock.close()
            if isinstance(e, OSError):
                raise errors.UnavailableError(None, None, f"{self.host}:{self.port} ended the connection: {e}") from None
            raise
        with self._lock:
            self._all.add(sock)
        return sock

    def _drop(self, sock: socket.socket) -> None:
        with self._lock:
            self._all.discard(sock)
        sock.close()

    def close(self) -> None:
        """Ends all connections."""
        with self._lock:
            self._closed = True
            ended, self._all, self._free = self._all, set(), []
        for sock in ended:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()


def _error(said: dict[str, Any]) -> errors.OpError:
    kind = errors.exception_type_from_error_code(said["code"]) if said.get("code") in range(1, 17) else errors.UnknownError
    made = kind(None, None, str(said.get("message", "")))
    made.remote_op = said.get("op")                       # type: ignore[attr-defined]
    return made
