"""Mutual TLS: every task and client presents a certificate of the cluster's authority, and connections are encrypted.

PENSTOCK_TLS_CERT and PENSTOCK_TLS_KEY name the files of this process's certificate and key, PENSTOCK_TLS_CA the authority's.
A holder of a certificate of the authority belongs to the cluster; names in certificates are not compared with addresses.
"""
from __future__ import annotations

import socket
import ssl
import threading
from typing import Any, cast

from penstock._src.base import errors, switches

_FILES = (switches.TLS_CERT, switches.TLS_KEY, switches.TLS_CA)
_PIECE = 256 << 10
_BUFFER = 64 << 10


def files() -> tuple[str, str, str] | None:
    """The files of certificate, key and authority; None if none is named. FailedPreconditionError if some are missing."""
    found = [s.value() for s in _FILES]
    if not any(found):
        return None
    if not all(found):
        raise errors.FailedPreconditionError(None, None, f"Mutual TLS needs all of {', '.join(s.name for s in _FILES)}.")
    return found[0], found[1], found[2]


def context(serving: bool) -> ssl.SSLContext | None:
    """The SSL context of connections; None if no files are configured."""
    named = files()
    if named is None:
        return None
    certificate, key, authority = named
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if serving else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        made.check_hostname = False
        made.load_cert_chain(certificate, key)
        made.load_verify_locations(authority)
    except (OSError, ssl.SSLError) as e:
        raise errors.FailedPreconditionError(None, None, f"The files for mutual TLS cannot be used: {e}") from None
    made.verify_mode = ssl.CERT_REQUIRED
    return made


def secured(sock: Any, how: ssl.SSLContext, serving: bool) -> TlsSocket:
    """A connection under TLS; PermissionDeniedError if the other side has no certificate of the cluster."""
    made = TlsSocket(sock, how, serving)
    try:
        made.handshake()
    except ssl.SSLError as e:
        raise errors.PermissionDeniedError(None, None, f"The peer has no certificate of this cluster: {e}") from None
    return made


class TlsSocket:
    """A connection under TLS that one thread may read while another one writes."""

    def __init__(self, sock: Any, context: ssl.SSLContext, serving: bool):
        self._sock = sock
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=serving)
        self._lock = threading.Lock()                # of the TLS object, which is not thread-safe
        self._writing = threading.Lock()             # keeps encrypted data in order

    def handshake(self) -> None:
        """Performs the handshake: both sides present their certificates."""
        while True:
            try:
                self._tls.do_handshake()
                self._flush()
                return
            except ssl.SSLWantReadError:
                self._flush()
                self._feed()
            except ssl.SSLError:
                self._flush()                        # the other side learns why
                raise

    def use(self, sock: socket.socket) -> None:
        """Continues with this socket: that of the handshake had a deadline."""
        self._sock = sock

    def _flush(self) -> None:
        if self._out.pending:
            with self._writing:
                with self._lock:
                    data = self._out.read()
                self._sock.sendall(data)

    def _feed(self) -> bool:
        data = self._sock.recv(_BUFFER)
        if not data:
            self._in.write_eof()
            return False
        self._in.write(data)
        return True

    # -- as a socket does it ------------------------------------------------------------------------------------------
    def sendmsg(self, parts: Any, ancillary: Any = (), flags: int = 0) -> int:
        """Sends some of the parts; returns the number of bytes sent. It may block, so threads that must not block leave it to
        another one."""
        if flags & socket.MSG_DONTWAIT:
            raise BlockingIOError
        piece = parts[0][:_PIECE]
        if len(piece) < _PIECE and len(parts) > 1:
            piece = b"".join([piece, *(p[:_PIECE] for p in parts[1:])])[:_PIECE]
        with self._writing:
            with self._lock:
                sent = self._tls.write(piece)
                data = self._out.read()
            self._sock.sendall(data)
        return sent

    def sendall(self, data: Any) -> None:
        """Sends all of it."""
        view = memoryview(data)
        while len(view):
            view = view[self.sendmsg([view]):]

    def recv_into(self, view: Any) -> int:
        """Reads something into `view`; returns how many bytes, 0 at the end of the connection."""
        while True:
            try:
                with self._lock:
                    return cast(int, self._tls.read(len(view), view))        # with a buffer, it returns a number
            except ssl.SSLWantReadError:
                self._flush()
                if not self._feed():
                    return 0
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return 0

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Reads up to `size` bytes; with flags, from the socket below TLS."""
        if flags:
            return self._sock.recv(size, flags)
        data = bytearray(size)
        return bytes(data[:self.recv_into(memoryview(data))])

    @property
    def pending(self) -> bool:
        """Whether received data has not been read yet."""
        return self._in.pending > 0 or self._tls.pending() > 0

    def fileno(self) -> int:
        """The file descriptor of the connection."""
        return self._sock.fileno()

    def settimeout(self, seconds: float | None) -> None:
        """How long a call may wait."""
        self._sock.settimeout(seconds)

    def setsockopt(self, level: int, name: int, value: int) -> None:
        """Sets an option of the connection below TLS."""
        self._sock.setsockopt(level, name, value)

    def shutdown(self, how: int) -> None:
        """Ends the connection for all its users."""
        self._sock.shutdown(how)

    def close(self) -> None:
        """Closes the connection."""
        self._sock.close()
