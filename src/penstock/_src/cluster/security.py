"""Authentication: which connections belong to the cluster.

A cluster has a secret, from PENSTOCK_SECRET or from the file that PENSTOCK_SECRET_FILE names. Without either, it is the secret
of the user (`user_secret.py`), which only servers on the loopback address accept; other addresses need a configured secret.
Mutual TLS (`tls.py`) can replace the secret or be combined with it.

The secret is never sent. The server sends a random challenge; the client sends one, too, with a keyed hash of both; the server
answers with its own only if that hash is correct. So a client without the secret receives nothing that depends on it. Nothing
else is read from a connection before that, and the whole handshake has one deadline.
"""
from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import pathlib
import secrets
import socket
import time
from typing import Any

from penstock._src.base import errors, switches
from penstock._src.base.waits import Wait
from penstock._src.cluster import tls
from penstock._src.cluster.user_secret import user_folders, user_secret

_SIZE = 32
_HELLO = b"penstock2"
_REFUSED = bytes(_SIZE)                  # instead of the server's proof
_STRONG = 32                             # bytes; shorter secrets were probably chosen by people, and are stretched
HANDSHAKE_SECONDS = 10.0


def given_secret() -> bytes:
    """The secret that the environment sets; empty if it sets none."""
    path = switches.SECRET_FILE.value()
    if path:
        return pathlib.Path(path).read_bytes().strip()
    return switches.SECRET.value().encode()


def secret() -> bytes:
    """The secret of this process: the configured one, or its user's. With certificates alone there is none."""
    return given_secret() or (b"" if tls.files() is not None else user_secret())


def private_files() -> list[str]:
    """The files with this process's secrets, which the ops of clients must not read."""
    return [switches.SECRET_FILE.value(), switches.TLS_KEY.value(), *map(str, user_folders())]


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    return host in ("localhost", "::1") or host.startswith("127.")


def check_address(host: str, key: bytes, under_tls: bool = False) -> None:
    """Refuses to serve other machines without a configured secret or mutual TLS."""
    if not is_loopback(host) and not key and not under_tls:
        raise errors.FailedPreconditionError(
            None, None, f"A server on {host or 'all addresses'} can be reached by other machines: set PENSTOCK_SECRET or "
            "PENSTOCK_SECRET_FILE, or PENSTOCK_TLS_CERT, PENSTOCK_TLS_KEY and PENSTOCK_TLS_CA, for servers and clients alike, "
            "or listen on localhost.")


class ConnectionDropped(errors.UnavailableError):
    """The other side ended a connection before it was set up."""


class Credentials:
    """The credentials of a process: its secret, its certificate, or both."""

    def __init__(self, serving: bool):
        self._serving, self.key, self._tls = serving, secret(), tls.context(serving)

    def check_address(self, host: str) -> None:
        """Refuses to serve other machines without a configured secret or mutual TLS."""
        check_address(host, given_secret(), self._tls is not None)

    def open(self, sock: socket.socket, seconds: float = HANDSHAKE_SECONDS) -> Any:
        """Authenticates both sides of a connection within `seconds`, and returns it."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        timed: Any = _Timed(sock, seconds)
        if self._tls is None:
            authenticate(timed, self.key, self._serving)
            made: Any = sock
        else:
            made = tls.secured(timed, self._tls, self._serving)
            authenticate(made, self.key, self._serving)
            made.use(sock)
        made.settimeout(None)
        return made


class _Timed:
    """A socket all of whose reads and writes share one deadline."""

    def __init__(self, sock: socket.socket, seconds: float):
        self._sock, self._seconds, self._until = sock, seconds, time.monotonic() + seconds

        self._wait = Wait(lambda: f"the handshake with {_other_end(sock)}")

    def _left(self) -> float:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"the handshake took more than {self._seconds:g} seconds")
        return left

    def recv(self, size: int) -> bytes:
        """Reads something."""
        while True:
            self._sock.settimeout(self._wait.patience(self._left()))
            with contextlib.suppress(TimeoutError):
                return self._sock.recv(size)

    def sendall(self, data: bytes) -> None:
        """Sends all of it."""
        self._sock.settimeout(self._left())
        self._sock.sendall(data)


def _other_end(sock: socket.socket) -> str:
    try:
        return ":".join(map(str, sock.getpeername()[:2]))
    except OSError:
        return "a connection that has ended"


def authenticate(sock: Any, key: bytes, serving: bool) -> None:
    """Both sides prove that they have the secret, the client first; PermissionDeniedError if one does not."""
    (_admit if serving else _apply)(sock, _stretched(key))


def _admit(sock: Any, key: bytes) -> None:
    """The server's side."""
    mine = secrets.token_bytes(_SIZE)
    sock.sendall(_HELLO + mine)
    theirs = _greeting(sock)
    if not hmac.compare_digest(_read(sock, _SIZE), _proof(key, b"client", mine, theirs)):
        sock.sendall(_REFUSED)
        raise errors.PermissionDeniedError(None, None, "The client uses a different secret.")
    sock.sendall(_proof(key, b"server", mine, theirs))


def _apply(sock: Any, key: bytes) -> None:
    """The client's side."""
    sock.sendall(_HELLO)                               # a server that expects TLS refuses it at once
    mine, theirs = secrets.token_bytes(_SIZE), _greeting(sock)
    sock.sendall(mine + _proof(key, b"client", theirs, mine))
    if not hmac.compare_digest(_read(sock, _SIZE), _proof(key, b"server", theirs, mine)):
        raise errors.PermissionDeniedError(
            None, None, "Server and client have different secrets: see PENSTOCK_SECRET and PENSTOCK_SECRET_FILE. Without them, "
            "each uses the secret of the user who runs it.")


def _greeting(sock: Any) -> bytes:
    """The other side's challenge."""
    found = _read(sock, len(_HELLO) + _SIZE)
    if not found.startswith(_HELLO):
        raise errors.UnavailableError(None, None, "The peer does not speak this version of the penstock protocol.")
    return found[len(_HELLO):]


def _proof(key: bytes, role: bytes, servers: bytes, clients: bytes) -> bytes:
    return hmac.digest(key or b"\0", role + servers + clients, hashlib.sha256)


@functools.lru_cache(maxsize=8)
def _stretched(key: bytes) -> bytes:
    """A key that is costly to guess from a recorded handshake; generated secrets are long enough as they are."""
    if not key or len(key) >= _STRONG:
        return key
    return hashlib.scrypt(key, salt=b"penstock cluster secret", n=1 << 14, r=8, p=1)


def _read(sock: Any, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            raise ConnectionDropped(None, None, "The connection ended before it was set up.")
        data += part
    return data
