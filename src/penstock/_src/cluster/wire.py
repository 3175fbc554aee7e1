"""Messages: a small header, and tensors as raw bytes.

A frame is `magic, header length, body length, number`, the header (JSON: names, and for each value its kind, type and shape),
and the bytes of the values in sequence. Only the number differs from step to step: the sender encodes the rest of a header once
(`Head`), and the receiver looks up bytes that it has parsed before. Tensors are sent from where they
are and received into their own memory. A large body follows its header in pieces, each with its own frame, between which
other messages may travel. Nothing is unpickled, and nothing is allocated before its size was checked against the frame and
MOST.
"""
from __future__ import annotations

import json
import math
import struct
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.waits import spent
from penstock._src.cluster.shared import LEAST, Incoming, Outgoing

_PREFIX = struct.Struct("<4sIQQ")
_WHOLE, _BEGIN, _PIECE = b"PNS2", b"PNSb", b"PNSp"         # a message; one whose body comes in pieces; a piece
_MOST_HEADER = 64 << 20
_encode = json.JSONEncoder(separators=(",", ":")).encode
_decode: Callable[[str, int], tuple[Any, int]] = vars(json.JSONDecoder())["scan_once"]
MOST = 16 << 30                     # bytes of one message
_MOST_RANK = 254
MOST_PARTS = 64                     # parts that the system takes in one call
_BUFFER = 1 << 16
_STEP = 4 << 20
_SMALL = 4096                       # bytes: smaller parts are copied
PIECE = 1 << 20                     # bytes of a large body that travel together
_MOST_OPEN = 64                     # messages that may come in pieces at once
_KEPT = 256                         # headers and kinds that are remembered
_KEPT_BYTES = 4096
_PLAIN_RANK = 32
_PLAIN = {torch.float32, torch.float64, torch.int32, torch.int64, torch.bool, torch.uint8}


class Head:
    """A header that is sent repeatedly, with a different number each time."""

    __slots__ = ("text",)

    def __init__(self, header: dict[str, Any]):
        self.text = _opened(header)


def _opened(header: dict[str, Any]) -> str:
    """The text of a header up to where its values are described."""
    return f'{_encode(header)[:-1]},"values":[' if header else '{"values":['


def send(sock: Any, header: dict[str, Any] | Head, values: list[Any] | None = None) -> None:
    """Sends a header with values: tensors, string arrays, bytes, or None."""
    parts = pack(header, values)[0]
    while parts:
        parts = unsent(parts, sock.sendmsg(parts[:MOST_PARTS]))


def pack(header: dict[str, Any] | Head, values: Any = None) -> tuple[list[Any], int]:
    """The bytes of a message, in parts that are not copied unless they are small, and how many bytes its values have."""
    text, parts, size = _described(header, values, None, None)
    return _whole(text, parts, size, 0), size


def pack_pieces(header: dict[str, Any] | Head, values: Any, number: int, stream: int, shared: Outgoing | None,
                free: list[int] | None) -> tuple[list[Any], int, Pieces | None]:
    """As `pack`; but if the values are large, the parts are those of the header alone, and the rest is to follow. Large tensors
    are left in `shared` memory, where there is some; `free` are the blocks of the other side that it may use again."""
    text, parts, size = _described(header, values, shared, free)
    if size <= PIECE:
        return _whole(text, parts, size, number), size, None
    first = text[:-1] + b',"stream":%d}' % stream
    return [_PREFIX.pack(_BEGIN, len(first), size, number) + first], size, Pieces(parts, stream)


def _whole(text: bytes, parts: list[Any], size: int, number: int) -> list[Any]:
    prefix = _PREFIX.pack(_WHOLE, len(text), size, number)
    return [b"".join([prefix, text, *parts])] if size <= _SMALL else [prefix + text, *parts]


def _described(header: dict[str, Any] | Head, values: Any, shared: Outgoing | None,
               free: list[int] | None) -> tuple[bytes, list[Any], int]:
    """The whole header, and the bytes of the values."""
    kinds, parts, size = [], [], 0
    for value in values or ():
        if isinstance(value, torch.Tensor):
            if shared is not None and value.nbytes >= LEAST:
                value = value.detach().resolve_conj().resolve_neg()
                where = shared.put(value)
                if where is not None:
                    kinds.append(_encode(["shared", _name(value.dtype), list(value.shape), where]))
                    continue
            elif value.dtype in _PLAIN and value.is_cpu and not value.is_neg() and not value.requires_grad:
                small = value.nbytes <= _SMALL
                if small or value.is_contiguous():
                    kinds.append(_KINDS.get((value.dtype, value.shape)) or _remembered(value))
                    parts.append(value.numpy().tobytes() if small else memoryview(value.numpy().data).cast("B"))
                    size += value.nbytes
                    continue
        kind, pieces = _pack(value)
        kinds.append(_encode(kind))
        for part in pieces:
            if len(part):
                parts.append(part)
                size += len(part)
    text = f"{header.text if isinstance(header, Head) else _opened(header)}{','.join(kinds)}]"
    return (f'{text},"free":{_encode(free)}}}' if free else text + "}").encode(), parts, size


_KINDS: dict[tuple[torch.dtype, torch.Size], str] = {}


def _remembered(value: torch.Tensor) -> str:
    """The description of a small tensor, made once for all of its type and shape."""
    if len(_KINDS) >= _KEPT:
        _KINDS.clear()
    made = _KINDS[value.dtype, value.shape] = _encode(["tensor", _name(value.dtype), list(value.shape)])
    return made


def unsent(parts: list[Any], sent: int) -> list[Any]:
    """The rest of a message's parts after `sent` bytes of them."""
    for i, part in enumerate(parts):
        if sent < len(part):
            return [memoryview(part)[sent:], *parts[i + 1:]] if sent else parts[i:]
        sent -= len(part)
    return []


class Pieces:
    """A large body that is being sent."""

    __slots__ = ("_parts", "_stream")

    def __init__(self, parts: list[Any], stream: int):
        self._parts, self._stream = parts, stream

    def next(self) -> list[Any]:
        """The parts of the next piece; empty after the last one."""
        taken: list[Any] = []
        room = PIECE
        while self._parts and room and len(taken) < MOST_PARTS - 1:
            part = memoryview(self._parts[0])
            taken.append(part[:room])
            self._parts[0] = part[room:]
            if not len(self._parts[0]):
                del self._parts[0]
            room -= len(taken[-1])
        return [_PREFIX.pack(_PIECE, 0, PIECE - room, self._stream), *taken] if taken else []


class _Kind(NamedTuple):
    """The description of one value in a header."""
    tag: str
    size: int = 0
    dtype: Any = None
    plain: Any = None                   # numpy's dtype, where both have the same
    shape: Any = ()
    where: Any = None


class _Arriving:
    """A message whose body comes in pieces: strings and bytes grow with what has come, tensors are filled."""

    def __init__(self, header: dict[str, Any], kinds: list[_Kind], left: int):
        self.header, self.left = header, left
        self._kinds = kinds
        self._values: list[Any] = [None] * len(kinds)
        self._open: list[tuple[int, Any, int]] = []          # number of the value, its memory, bytes of it
        for i, kind in enumerate(kinds):
            if kind.tag == "tensor":
                made = torch.empty(kind.shape, dtype=kind.dtype)
                self._values[i] = made
                if kind.size:
                    self._open.append((i, made.reshape(-1).view(torch.uint8).numpy().data, kind.size))
            elif kind.size:
                self._open.append((i, bytearray(), kind.size))
        self._at = 0

    def take(self, reader: Reader, size: int) -> None:
        """Reads a piece of the body."""
        self.left -= size
        while size:
            i, memory, whole = self._open[0]
            n = min(size, whole - self._at)
            if isinstance(memory, bytearray):
                memory += reader._take(n)
            else:
                reader.fill(memory[self._at:self._at + n])
            self._at += n
            size -= n
            if self._at == whole:
                if isinstance(memory, bytearray):
                    self._values[i] = bytes(memory)
                del self._open[0]
                self._at = 0

    def values(self, reader: Reader) -> list[Any]:
        """All values, after the last piece."""
        return [_finished(k, v or b"") if k.tag in ("bytes", "strings") else v if k.tag == "tensor" else reader._value(k)
                for k, v in zip(self._kinds, self._values, strict=True)]


class Reader:
    """Reads messages from a connection; small ones with one call to the system, large tensors into their own memory."""

    def __init__(self, sock: Any, shared: Incoming | None = None):
        self._sock, self.shared = sock, shared
        self._buffer = memoryview(bytearray(_BUFFER))
        self._at = self._end = 0
        self._known: dict[bytes, tuple[dict[str, Any], list[_Kind], int]] = {}
        self._arriving: dict[int, _Arriving] = {}
        self.received = 0                   # bytes so far

    @property
    def buffered(self) -> bool:
        """Whether the buffer has unused bytes."""
        return self._at < self._end or getattr(self._sock, "pending", False)

    def begun(self) -> bool:
        """Waits for the beginning of a message; False if the connection has ended. After a time-out it may be called again."""
        return self._have(_PREFIX.size, at_start=True)

    def message(self) -> tuple[dict[str, Any], list[Any]] | None:
        """The next message; None when the other side has ended the connection between two messages. Its number, if it has one,
        is described by the header."""
        while True:
            if self._end - self._at < _PREFIX.size and not self.begun():
                return None
            began = time.monotonic()
            magic, length, size, number = _PREFIX.unpack_from(self._buffer, self._at)
            self._at += _PREFIX.size
            if magic == _PIECE and not length and number in self._arriving:
                made = self._piece(size, number)
                spent.moved += time.monotonic() - began
                if made is not None:
                    return made
                continue
            if magic not in (_WHOLE, _BEGIN) or length > _MOST_HEADER or size > MOST:
                raise errors.invalid(f"Not a penstock message, or too large: {length} and {size} bytes.")
            known, kinds, total = self._header(length)
            if total != size:
                raise errors.invalid(f"A message declares {size} bytes, but its values have {total}.")
            header = known.copy()
            if number:
                header["number"] = number
            if magic == _WHOLE:
                values = [self._value(kind) for kind in kinds]
                spent.moved += time.monotonic() - began
                return header, values
            self._begin(header, kinds, size)

    def _header(self, length: int) -> tuple[dict[str, Any], list[_Kind], int]:
        """The next header, its descriptions of the values, and how many bytes those have."""
        text = self._take(length)
        found = self._known.get(text)
        if found is not None:
            return found
        try:
            decoded = text.decode()
            header, end = _decode(decoded, 0)
            if end != len(decoded):
                raise ValueError("trailing characters")
            kinds = [_kind(k) for k in header.pop("values")]
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError, StopIteration) as e:
            raise errors.invalid(f"The header of a message cannot be read: {e!r}") from None
        made = header, kinds, sum([k.size for k in kinds])
        if length <= _KEPT_BYTES:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[text] = made
        return made

    def _begin(self, header: dict[str, Any], kinds: list[_Kind], size: int) -> None:
        stream = header.pop("stream", None)
        if not isinstance(stream, int) or stream in self._arriving or len(self._arriving) >= _MOST_OPEN or not size:
            raise errors.invalid("The first chunk of a chunked message is malformed.")
        self._arriving[stream] = _Arriving(header, kinds, size)

    def _piece(self, size: int, stream: int) -> tuple[dict[str, Any], list[Any]] | None:
        """Reads a piece; returns the message when it was the last one."""
        arriving = self._arriving[stream]
        if size > arriving.left:
            raise errors.invalid("A chunked message is longer than its declared size.")
        arriving.take(self, size)
        if arriving.left:
            return None
        del self._arriving[stream]
        return arriving.header, arriving.values(self)

    def _have(self, size: int, at_start: bool = False) -> bool:
        """Fills the buffer until it has `size` bytes; False if the connection ended before the first of them."""
        if self._end - self._at >= size:
            return True
        left = self._end - self._at
        self._buffer[:left] = self._buffer[self._at:self._end]
        self._at, self._end = 0, left
        while self._end < size:
            n = self._sock.recv_into(self._buffer[self._end:])
            if not n:
                if at_start and not self._end:
                    return False
                raise _cut_short()
            self._end += n
            self.received += n
        return True

    def _take(self, size: int) -> bytes:
        if size <= _BUFFER:
            self._have(size)
            self._at += size
            return bytes(self._buffer[self._at - size:self._at])
        data = bytearray()                  # grows with the received bytes: a declared size allocates no memory
        while len(data) < size:
            piece = memoryview(bytearray(min(size - len(data), _STEP)))
            self.fill(piece)
            data += piece
        return bytes(data)

    def fill(self, view: memoryview) -> None:
        """Reads as many bytes as `view` has into it."""
        at = min(len(view), self._end - self._at)
        view[:at] = self._buffer[self._at:self._at + at]
        self._at += at
        while at < len(view):
            if len(view) - at < _BUFFER:
                rest = len(view) - at
                self._have(rest)
                view[at:] = self._buffer[self._at:self._at + rest]
                self._at += rest
                return
            n = self._sock.recv_into(view[at:])
            if not n:
                raise _cut_short()
            at += n
            self.received += n

    def _value(self, kind: _Kind) -> Any:
        tag, size = kind.tag, kind.size
        if tag == "tensor":
            if 0 < size <= _BUFFER:
                if self._end - self._at < size:
                    self._have(size)
                data = bytearray(self._buffer[self._at:self._at + size])
                self._at += size
                if kind.plain is not None:
                    return torch.from_numpy(np.ndarray(kind.shape, kind.plain, data))
                return torch.frombuffer(data, dtype=kind.dtype).reshape(kind.shape)
            made = torch.empty(kind.shape, dtype=kind.dtype)
            if size:
                self.fill(made.reshape(-1).view(torch.uint8).numpy().data)
            return made
        if tag == "none":
            return None
        if tag == "shared":
            if self.shared is None:
                raise errors.invalid("A message refers to shared memory on a connection without it.")
            return self.shared.get(kind.where, kind.dtype, kind.shape)
        return _finished(kind, self._take(size))


def receive(sock: Any) -> tuple[dict[str, Any], list[Any]] | None:
    """The next message of a connection from which nothing else is read later."""
    return Reader(sock).message()


def _cut_short() -> errors.OpError:
    return errors.UnavailableError(None, None, "The connection ended within a message.")


# -- values -----------------------------------------------------------------------------------------------------------
def _pack(value: Any) -> tuple[Any, list[memoryview]]:
    if value is None:
        return None, []
    if isinstance(value, bytes):
        return ["bytes", len(value)], [memoryview(value)]
    if isinstance(value, np.ndarray):                      # strings
        flat = value.ravel().tolist()
        lengths = np.array([len(s) for s in flat], np.uint64)
        text = b"".join(flat)
        return ["strings", list(value.shape), len(text)], [memoryview(lengths.tobytes()), memoryview(text)]
    if not isinstance(value, torch.Tensor):
        raise errors.invalid(f"A value of type {type(value).__name__} cannot be sent to another process.")
    value = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
    data = value.reshape(-1).view(torch.uint8).numpy() if value.numel() else np.empty(0, np.uint8)
    return ["tensor", _name(value.dtype), list(value.shape)], [data.data]


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _kind(said: Any) -> _Kind:
    """The description of a value in a header, checked; its bytes follow from that alone."""
    if said is None:
        return _Kind("none")
    tag = said[0]
    if tag == "bytes":
        return _Kind(tag, _count(said[1]))
    shape = said[1] if tag == "strings" else said[2]
    if len(shape) > _MOST_RANK:
        raise ValueError("too many dimensions")
    elements = math.prod([_count(d) for d in shape])
    if tag == "strings":
        return _Kind(tag, elements * 8 + _count(said[2]), shape=shape)
    if tag not in ("tensor", "shared") or said[1] not in _TYPES:
        raise ValueError(f"a value of unknown kind {said[:2]}")
    dtype = _TYPES[said[1]]
    if tag == "shared":
        return _Kind(tag, 0 if len(said[3]) == 4 else _count(None), dtype, shape=shape, where=said[3])
    plain = np.dtype(said[1]) if dtype in _PLAIN and len(shape) <= _PLAIN_RANK else None
    return _Kind(tag, elements * dtype.itemsize, dtype, plain, tuple(shape))


def _finished(kind: _Kind, data: bytes) -> Any:
    return data if kind.tag == "bytes" else _strings(data, kind.shape)


def _count(n: Any) -> int:
    if not isinstance(n, int) or isinstance(n, bool) or not 0 <= n <= MOST:
        raise ValueError(f"{n!r} is not a size")
    return n


_TYPES = {str(d.torch).removeprefix("torch."): d.torch for d in vars(dtypes).values()
          if isinstance(d, dtypes.DType) and d.torch is not None}


def _strings(data: bytes, shape: list[int]) -> np.ndarray:
    count = math.prod(shape)
    ends: Any = np.cumsum(np.frombuffer(data, np.uint64, count).astype(object)) if count else []
    text = data[count * 8:]
    if (int(ends[-1]) if count else 0) != len(text):
        raise errors.invalid("The string lengths in a message do not match its size.")
    made = np.empty(count, object)
    made[:] = [text[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)] if count else []
    return made.reshape(shape)

