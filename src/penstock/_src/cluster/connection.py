"""Connections of a client: opened when needed, authenticated, kept for the next call. One call uses one connection."""
from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from penstock._src.base import errors
from penstock._src.base.waits import Wait
from penstock._src.cluster import security, wire
from penstock._src.cluster.link import made_error

_ATTEMPTS = 5                           # attempts to set up a connection that the server drops
_ATTEMPT_SECONDS = 5.0                  # of one attempt to reach a machine


def split_address(address: str) -> tuple[str, int]:
    """("host", port) of an address; InvalidArgumentError without a port."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise errors.invalid(f"Could not interpret \"{address}\" as a host-port pair: the port is missing or not a number.")
    return host.strip("[]"), int(port)


def connect(address: str, timeout: float, ended: Callable[[], bool] = lambda: False, task: str = "a server",
            begun: Callable[[socket.socket], None] = lambda sock: None) -> Any:
    """An authenticated connection to a server, which may still be starting; DeadlineExceededError if none answers in time, or
    when `ended()`.

    An overloaded server may drop a connection before it is set up; a few attempts are made. `begun(sock)` is called before
    each handshake, so that another thread can end it.
    """
    where, credentials = split_address(address), security.Credentials(serving=False)
    deadline = time.monotonic() + timeout
    pause, why, dropped = 0.01, "there was no time for an attempt", 0
    waited = Wait(lambda: f"{task} to answer at {address}, of {timeout:g} s at most: {why}")
    while True:
        waited.patience()
        left = deadline - time.monotonic()
        if left <= 0 or ended():
            raise errors.DeadlineExceededError(None, None, f"No server answered at {address} in {timeout:g} seconds: {why}.")
        try:
            sock = socket.create_connection(where, timeout=min(left, _ATTEMPT_SECONDS))
        except OSError as e:
            why = str(e)
        else:
            begun(sock)
            try:
                return _opened(credentials, sock, address, deadline)
            except security.ConnectionDropped as e:
                dropped += 1
                if dropped >= _ATTEMPTS:
                    raise
                why = e.message
        time.sleep(min(pause, max(left, 0)))
        pause = min(pause * 2, 0.5)


def _opened(credentials: security.Credentials, sock: socket.socket, address: str, deadline: float) -> Any:
    """Connects a new socket, and authenticates both sides."""
    try:
        return credentials.open(sock, max(deadline - time.monotonic(), 0.1))
    except BaseException as e:
        sock.close()
        if isinstance(e, (ConnectionResetError, BrokenPipeError)):
            raise security.ConnectionDropped(None, None, f"{address} ended the connection: {e}") from None
        if isinstance(e, OSError):
            raise errors.UnavailableError(None, None, f"{address} ended the connection: {e}") from None
        raise


class _Open(NamedTuple):
    sock: Any
    reader: wire.Reader


class Connections:
    """The connections to one server."""

    def __init__(self, address: str, timeout: float | None = None):
        self.host, self.port = split_address(address)
        self._timeout = timeout                        # for reaching the server
        self._free: list[_Open] = []
        self._all: set[_Open] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._lost = ""                                # why the server is considered lost

    @staticmethod
    def prepared(header: dict[str, Any]) -> wire.Head:
        """A header that is used for many calls."""
        return wire.Head(header)

    def call(self, header: dict[str, Any] | wire.Head, values: list[Any] | None = None) -> tuple[dict[str, Any], list[Any]]:
        """Sends a message and returns the answer; an error of the server is raised here."""
        with self._borrowed() as (sock, reader):
            try:
                wire.send(sock, header, values)
                answer = reader.message()
            except (OSError, errors.UnavailableError) as e:
                raise self._gone(str(e)) from None
            if answer is None:
                raise self._gone("it has closed the connection")
        if "error" in answer[0]:
            raise made_error(answer[0]["error"])
        return answer

    def _gone(self, why: str) -> errors.OpError:
        return errors.UnavailableError(None, None, f"The server at {self.host}:{self.port} is gone: {self._lost or why}.")

    @contextlib.contextmanager
    def _borrowed(self) -> Iterator[_Open]:
        with self._lock:
            if self._lost:
                raise self._gone("")
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

    def _open(self) -> Any:
        sock = self.connect()
        made = _Open(sock, wire.Reader(sock))
        with self._lock:
            self._all.add(made)
        return made

    def _drop(self, sock: _Open) -> None:
        with self._lock:
            self._all.discard(sock)
        sock.sock.close()

    def connect(self) -> Any:
        """Another connection, for purposes other than calls."""
        return connect(f"{self.host}:{self.port}", 20.0 if self._timeout is None else self._timeout)

    def close(self, lost: str = "") -> None:
        """Closes all connections; `lost` is the reason, if the server is considered lost."""
        with self._lock:
            self._closed, self._lost = True, lost
            ended, self._all, self._free = self._all, set(), []
        for sock, _ in ended:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

