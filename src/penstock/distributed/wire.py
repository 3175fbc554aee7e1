"""Messages: a small header, and tensors that travel as their bytes.

A frame is `magic, header length, body length`, the header (JSON: numbers, names, and for each value its kind, type and
shape), and the bytes of the values one after the other. Tensors are sent from where they are and received into their own
memory. Nothing is unpickled, and nothing is allocated before its size was checked against the frame and against MOST.
"""
from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np
import torch

from penstock import dtypes, errors
from penstock.distributed.shared import LEAST, Incoming, Outgoing

_PREFIX = struct.Struct("<4sIQ")
_MAGIC = b"PNS1"
_MOST_HEADER = 64 << 20
_encode = json.JSONEncoder(separators=(",", ":")).encode
MOST = 16 << 30                     # bytes of one message
_MOST_RANK = 254
MOST_PARTS = 64                     # pieces that the system takes in one call
_BUFFER = 1 << 16
_STEP = 4 << 20
_SMALL = 4096                       # bytes that are copied sooner than looked at
_PLAIN = {torch.float32, torch.float64, torch.int32, torch.int64, torch.bool, torch.uint8}


def send(sock: Any, header: dict[str, Any], values: list[Any] | None = None) -> None:
    """Sends a header with values: tensors, string arrays, bytes, or None."""
    parts = pack(header, values)[0]
    while parts:
        parts = unsent(parts, sock.sendmsg(parts[:MOST_PARTS]))


def pack(header: dict[str, Any], values: Any = None, shared: Outgoing | None = None) -> tuple[list[memoryview], int]:
    """The bytes of a message, in pieces that are not copied, and how many bytes its values have. Large tensors are left in
    `shared` memory, where there is some."""
    kinds, parts = [], []
    for value in values or ():
        if shared is not None and isinstance(value, torch.Tensor) and value.nbytes >= LEAST:
            value = value.detach().resolve_conj().resolve_neg()
            where = shared.put(value)
            if where is not None:
                kinds.append(["shared", _name(value.dtype), list(value.shape), where])
                continue
        kind, pieces = _pack(value)
        kinds.append(kind)
        parts += pieces
    header["values"] = kinds
    text = _encode(header).encode()
    parts = [p for p in parts if len(p)]
    size = sum([len(p) for p in parts])
    return [memoryview(_PREFIX.pack(_MAGIC, len(text), size) + text), *parts], size


def unsent(parts: list[memoryview], sent: int) -> list[memoryview]:
    """What is left of the pieces of a message when `sent` bytes of them are on their way."""
    for i, part in enumerate(parts):
        if sent < len(part):
            return [part[sent:], *parts[i + 1:]] if sent else parts[i:]
        sent -= len(part)
    return []


class Reader:
    """Reads messages from a connection; small ones with one call to the system, large tensors into their own memory."""

    def __init__(self, sock: Any, shared: Incoming | None = None):
        self._sock, self.shared = sock, shared
        self._buffer = memoryview(bytearray(_BUFFER))
        self._at = self._end = 0
        self.received = 0                   # bytes so far

    @property
    def buffered(self) -> bool:
        """Whether there are bytes that were read and not used yet."""
        return self._at < self._end or getattr(self._sock, "pending", False)

    def message(self) -> tuple[dict[str, Any], list[Any]] | None:
        """The next message; None when the other side has ended the connection between two messages."""
        if not self._have(_PREFIX.size, at_start=True):
            return None
        magic, length, size = _PREFIX.unpack_from(self._buffer, self._at)
        self._at += _PREFIX.size
        if magic != _MAGIC or length > _MOST_HEADER or size > MOST:
            raise errors.invalid(f"This is no message of penstock's, or it is too large: {length} and {size} bytes.")
        try:
            header = json.loads(self._take(length))
            kinds = header.pop("values")
            sizes = [_size(k) for k in kinds]
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as e:
            raise errors.invalid(f"The header of a message cannot be read: {e}") from None
        if sum(sizes) != size:
            raise errors.invalid(f"A message announces {size} bytes, and its values have {sum(sizes)}.")
        return header, [self._value(kind, n) for kind, n in zip(kinds, sizes, strict=True)]

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
        data = bytearray()                  # grows with what has come: an announced size alone takes no memory
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

    def _value(self, kind: Any, size: int) -> Any:
        if kind is None:
            return None
        if kind[0] == "tensor":
            if 0 < size <= _BUFFER:
                self._have(size)
                data = bytearray(self._buffer[self._at:self._at + size])
                self._at += size
                return torch.frombuffer(data, dtype=_TYPES[kind[1]]).reshape(kind[2])
            made = torch.empty(kind[2], dtype=_TYPES[kind[1]])
            if size:
                self.fill(memoryview(made.reshape(-1).view(torch.uint8).numpy()))
            return made
        if kind[0] == "shared":
            if self.shared is None:
                raise errors.invalid("A tensor is said to be in shared memory, on a connection that has none.")
            return self.shared.get(kind[3], _TYPES[kind[1]], kind[2])
        data = self._take(size)
        return data if kind[0] == "bytes" else _strings(data, kind[1])


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
    name = _name(value.dtype)
    if value.nbytes <= _SMALL and value.dtype in _PLAIN and value.device.type == "cpu":
        return ["tensor", name, list(value.shape)], [memoryview(value.numpy().tobytes())]
    value = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
    data = value.reshape(-1).view(torch.uint8).numpy() if value.numel() else np.empty(0, np.uint8)
    return ["tensor", name, list(value.shape)], [memoryview(data)]


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _size(kind: Any) -> int:
    """The bytes that a value of some kind has, by its description alone."""
    if kind is None:
        return 0
    if kind[0] == "bytes":
        return _count(kind[1])
    shape = kind[1] if kind[0] == "strings" else kind[2]
    if len(shape) > _MOST_RANK:
        raise ValueError("too many dimensions")
    elements = math.prod(_count(d) for d in shape)
    if kind[0] == "strings":
        return elements * 8 + _count(kind[2])
    if kind[0] not in ("tensor", "shared") or kind[1] not in _TYPES:
        raise ValueError(f"a value of unknown kind {kind[:2]}")
    if kind[0] == "shared":
        return 0 if len(kind[3]) == 4 else _count(None)
    return elements * _TYPES[kind[1]].itemsize


def _count(n: Any) -> int:
    if not isinstance(n, int) or isinstance(n, bool) or not 0 <= n <= MOST:
        raise ValueError(f"{n!r} is no size")
    return n


_TYPES = {str(d.torch).removeprefix("torch."): d.torch for d in vars(dtypes).values()
          if isinstance(d, dtypes.DType) and d.torch is not None}


def _strings(data: bytes, shape: list[int]) -> np.ndarray:
    count = math.prod(shape)
    ends = np.cumsum(np.frombuffer(data, np.uint64, count).astype(object)) if count else []
    text = data[count * 8:]
    if (int(ends[-1]) if count else 0) != len(text):
        raise errors.invalid("The lengths of the strings in a message do not fit its size.")
    made = np.empty(count, object)
    made[:] = [text[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)] if count else []
    return made.reshape(shape)

