"""A small HTTP/1.1 server on asyncio, for clients that are slow, broken or hostile.

Everything a client can make the server wait for or store has a limit: headers, bodies, the time for each of them and for
reading an answer, idle connections, the number of connections: for one more, the one that has sent no request for the longest
time is dropped. Bodies are read in pieces, so that a length that is only declared costs nothing. Handlers are coroutines from
Request to Response.
"""
from __future__ import annotations

import asyncio
import re
import resource
import ssl
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus

_HEXADECIMAL = re.compile(rb"[0-9a-fA-F]{1,16}")
_PIECE = 1 << 20
_MAX_HEADERS = 64 << 10
_INFLATED, _TIMES = 16 << 20, 100                    # bytes that any body may inflate to, and per byte that was sent
_LINGER = 2.0                                        # seconds
_RATE = 64 << 10                                     # minimum bytes per second of a client


@dataclass(frozen=True)
class Limits:
    """The limits of a client."""
    body: int = 1 << 30
    header_seconds: float = 30.0
    idle_seconds: float = 75.0
    body_seconds: float = 30.0                       # beyond what the body needs at _RATE
    connections: int = 4096

    def open_at_once(self) -> int:
        """Connections that there may be: half of the process's descriptors stay for other things."""
        return max(1, min(self.connections, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2))


@dataclass
class Request:
    """A request; header names are in lower case."""
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Response:
    """An answer."""
    body: bytes = b""
    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


class BadRequest(Exception):
    """A request that is not HTTP, or exceeds a limit. The connection ends after the answer."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


Handler = Callable[[Request], Awaitable[Response]]


class HttpServer:
    """Listens, and calls a handler for each request."""

    def __init__(self, handler: Handler, limits: Limits, on_error: Callable[[str], bytes]):
        self._handler, self._limits, self._on_error = handler, limits, on_error
        self._connections: set[asyncio.Task] = set()
        self._waiting: dict[asyncio.StreamWriter, None] = {}     # connections without a request, the longest first
        self._busy = 0                               # requests that are being answered
        self._draining = False
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listens; returns the port."""
        how = {"ssl": tls, "ssl_handshake_timeout": self._limits.header_seconds} if tls is not None else {}
        self._server = await asyncio.start_server(self._connected, host, port, limit=_MAX_HEADERS, backlog=1024,
                                                  **how)                                            # type: ignore[arg-type]
        return self._server.sockets[0].getsockname()[1]

    async def stop(self, grace: float) -> None:
        """Stops listening, waits for pending answers, and closes connections."""
        self._draining = True
        if self._server is not None:
            self._server.close()
        deadline = asyncio.get_running_loop().time() + grace
        while self._busy and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            try:
                if len(self._connections) > self._limits.open_at_once():
                    self._make_room()
                await self._serve(reader, writer)
            except BadRequest as e:
                await self._write(writer, Response(self._on_error(str(e)), e.status), False)
                await self._linger(reader, writer)
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass                                     # the client is gone, or too slow
        except asyncio.CancelledError:
            if not self._draining:
                raise
        finally:
            self._connections.discard(task)
            writer.close()

    def _make_room(self) -> None:
        """Drops the connection that has been without a request for the longest time; 503 if all have one."""
        longest = next(iter(self._waiting), None)
        if longest is None:
            raise BadRequest(503, "too many connections")
        del self._waiting[longest]
        longest.transport.abort()

    async def _linger(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Discards the data that the client still sends. Closing at once would reset the connection, and the answer would be
        lost."""
        if writer.can_write_eof():
            try:
                writer.write_eof()
            except OSError:                          # the client has reset the connection
                return
            async with asyncio.timeout(_LINGER):
                while await reader.read(_PIECE):
                    pass

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        limits, keep, first = self._limits, True, True
        while keep and not self._draining:
            self._waiting[writer] = None
            try:
                head = await self._head(reader, limits.header_seconds if first else limits.idle_seconds)
            finally:
                self._waiting.pop(writer, None)
            if head is None:
                return
            first = False
            self._busy += 1                          # from here on, stopping waits for the answer
            try:
                keep = await self._answer(head, reader, writer)
            finally:
                self._busy -= 1

    async def _answer(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Reads the rest of a request and answers it; returns whether the connection is kept."""
        method, target, version, headers = _parsed(head)
        body = await self._body(reader, writer, headers)
        path, _, query = target.partition("?")
        options = headers.get("connection", "").lower()
        keep = "close" not in options and (version == "HTTP/1.1" or "keep-alive" in options)
        response = await self._handler(Request(method, path, query, headers, body))
        keep = keep and not self._draining
        await self._write(writer, response, keep, method == "HEAD")
        return keep

    async def _head(self, reader: asyncio.StreamReader, seconds: float) -> bytes | None:
        """The request line and headers, without the empty line; None if the client closes the connection instead."""
        try:
            async with asyncio.timeout(seconds):
                return (await reader.readuntil(b"\r\n\r\n"))[:-4]
        except asyncio.IncompleteReadError as e:
            if not e.partial.strip():
                return None
            raise BadRequest(400, "the request is truncated") from None
        except asyncio.LimitOverrunError:
            raise BadRequest(431, f"the headers have more than {_MAX_HEADERS} bytes") from None

    async def _body(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: dict[str, str]) -> bytes:
        coding, length = headers.get("transfer-encoding", "").lower(), headers.get("content-length")
        if coding and length is not None:
            raise BadRequest(400, "both Content-Length and Transfer-Encoding")
        if coding not in ("", "chunked", "identity"):
            raise BadRequest(501, f"unknown Transfer-Encoding {coding}")
        size = 0
        if length is not None:
            if not (length.isascii() and length.isdigit()):
                raise BadRequest(400, "Content-Length is not a number")
            size = int(length[:20])
            self._check_size(size)
        if headers.get("expect", "").lower() == "100-continue" and (size or coding):
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        async with asyncio.timeout(self._limits.body_seconds + size / _RATE):
            body = await self._chunks(reader) if coding == "chunked" else await self._pieces(reader, size)
        if headers.get("content-encoding", "").lower() == "gzip":
            return await asyncio.to_thread(self._inflated, body)       # meanwhile other connections are served
        return body

    def _check_size(self, size: int) -> None:
        if size > self._limits.body:
            raise BadRequest(413, f"the body has more than {self._limits.body} bytes")

    async def _pieces(self, reader: asyncio.StreamReader, size: int) -> bytes:
        body = bytearray()
        while len(body) < size:
            piece = await reader.read(min(_PIECE, size - len(body)))
            if not piece:
                raise BadRequest(400, "the body is truncated")
            body += piece
        return bytes(body)

    async def _chunks(self, reader: asyncio.StreamReader) -> bytes:
        body = bytearray()
        while True:
            line = (await reader.readuntil(b"\r\n")).split(b";")[0].strip()
            if not _HEXADECIMAL.fullmatch(line):              # no "0x5", which other servers read as 0
                raise BadRequest(400, "a chunk has no size")
            size = int(line, 16)
            self._check_size(len(body) + size)
            body += await self._pieces(reader, size)
            end = await reader.readuntil(b"\r\n")    # after the last chunk, trailers may follow
            if size == 0:
                while end != b"\r\n":
                    end = await reader.readuntil(b"\r\n")
                return bytes(body)
            if end != b"\r\n":
                raise BadRequest(400, "a chunk is longer than its size")

    def _inflated(self, body: bytes) -> bytes:
        """A compressed body; a small one that inflates to a huge one is refused."""
        stream, most = zlib.decompressobj(16 + zlib.MAX_WBITS), min(self._limits.body, max(_INFLATED, _TIMES * len(body)))
        try:
            data = stream.decompress(body, most + 1)
        except zlib.error as e:
            raise BadRequest(400, f"the body is not gzip: {e}") from None
        if len(data) > most:
            raise BadRequest(413, f"a body of {len(body)} bytes inflates to more than {most}")
        return data

    async def _write(self, writer: asyncio.StreamWriter, response: Response, keep: bool, only_head: bool = False) -> None:
        phrase = HTTPStatus(response.status).phrase
        lines = [f"HTTP/1.1 {response.status} {phrase}", f"Content-Type: {response.content_type}",
                 f"Content-Length: {len(response.body)}", f"Connection: {'keep-alive' if keep else 'close'}",
                 *(f"{k}: {v}" for k, v in response.headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + (b"" if only_head else response.body))
        async with asyncio.timeout(self._limits.body_seconds + len(response.body) / _RATE):
            await writer.drain()


def _parsed(head: bytes) -> tuple[str, str, str, dict[str, str]]:
    lines = head.decode("latin-1").lstrip("\r\n").split("\r\n")
    parts = lines[0].split(" ")
    if len(parts) != 3 or parts[2] not in ("HTTP/1.1", "HTTP/1.0") or not parts[0].isalpha():
        raise BadRequest(400, "the request line is not HTTP")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadRequest(400, "a header is malformed")
        name = name.lower()
        if name in headers and name in ("content-length", "transfer-encoding", "host"):
            raise BadRequest(400, f"{name} is given twice")
        headers[name] = value.strip()
    target = parts[1]
    if target.startswith(("http://", "https://")):
        target = "/" + target.split("://", 1)[1].partition("/")[2]
    return parts[0].upper(), target, parts[2], headers
