"""Who may talk to a server.

A server listens on the loopback address, unless it is told another one; then it needs a secret, which every client has to know.
The secret comes from PENSTOCK_SECRET, or from the file that PENSTOCK_SECRET_FILE names. It never travels: each side sends a
random challenge and answers the other's with a keyed hash. Nothing else is read from a connection before that. Mutual TLS
(`tls.py`) stands in its place, or below it.
"""
from __future__ import annotations

import hashlib
import hmac
import os
import pathlib
import secrets
import socket
from typing import Any

from penstock._src.base import errors
from penstock._src.cluster import tls

_SIZE = 32
_HELLO = b"penstock1"


def secret() -> bytes:
    """The secret of this process; empty if it has none."""
    path = os.environ.get("PENSTOCK_SECRET_FILE")
    if path:
        return pathlib.Path(path).read_bytes().strip()
    return os.environ.get("PENSTOCK_SECRET", "").encode()


def check_address(host: str, key: bytes, under_tls: bool = False) -> None:
    """Refuses to serve other machines without a secret or mutual TLS."""
    if host not in ("localhost", "::1") and not host.startswith("127.") and not key and not under_tls:
        raise errors.FailedPreconditionError(
            None, None, f"A server on {host or 'all addresses'} can be reached by other machines: set PENSTOCK_SECRET or "
            "PENSTOCK_SECRET_FILE, or PENSTOCK_TLS_CERT, PENSTOCK_TLS_KEY and PENSTOCK_TLS_CA, for servers and clients alike, "
            "or listen on localhost.")


class Credentials:
    """How a process shows that it belongs to a cluster: its secret, its certificate, both, or nothing."""

    def __init__(self, serving: bool):
        self._serving, self.key, self._tls = serving, secret(), tls.context(serving)

    def check_address(self, host: str) -> None:
        """Refuses to serve other machines without a secret or mutual TLS."""
        check_address(host, self.key, self._tls is not None)

    def open(self, sock: socket.socket) -> Any:
        """A connection on which both sides have shown that they belong to the cluster."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made = sock if self._tls is None else tls.secured(sock, self._tls, self._serving)
        authenticate(made, self.key, self._serving)
        return made


def authenticate(sock: Any, key: bytes, serving: bool) -> None:
    """Both sides show that they know the secret; PermissionDeniedError, or the end of the connection, if one does not."""
    mine = secrets.token_bytes(_SIZE)
    sock.sendall(_HELLO + mine)
    theirs = _read(sock, len(_HELLO) + _SIZE)
    if not theirs.startswith(_HELLO):
        raise errors.UnavailableError(None, None, "The other side does not speak penstock's protocol.")
    theirs = theirs[len(_HELLO):]
    sock.sendall(_answer(key, theirs, serving))
    if not hmac.compare_digest(_read(sock, _SIZE), _answer(key, mine, not serving)):
        raise errors.PermissionDeniedError(None, None, "Server and client have different secrets: see PENSTOCK_SECRET.")


def _answer(key: bytes, challenge: bytes, serving: bool) -> bytes:
    return hmac.digest(key or b"\0", (b"server" if serving else b"client") + challenge, hashlib.sha256)


def _read(sock: Any, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            raise errors.UnavailableError(None, None, "The connection ended before it was set up.")
        data += part
    return data
