"""Messages: a small header, and tensors that travel as their bytes.

A frame is `magic, header length, body length`, the header (JSON: numbers, names, and for each value its kind, type and
shape), and the bytes of the values one after the other. Tensors are sent from where they are and received into their own
memory. Nothing is unpickled, and nothing is allocated before its size was checked against the frame and against MOST.
"""
from __future__ import annotations

import json
import math
import socket
import struct
from typing import Any

import numpy as np
import torch

from penstock import dtypes, errors

_PREFIX = struct.Struct("<4sIQ")
_MAGIC = b"PNS1"
_MOST_HEADER = 64 << 20
MOST = 16 << 30                     # bytes of one message
_MOST_RANK = 254


def send(sock: socket.socket, header: dict[str, Any], values: list[Any] | None = None) -> None:
    """Sends a header with values: tensors, string arrays, bytes, or None."""
    kinds, parts = [], []
    for value in values or ():
        kind, pieces = _pack(value)
        kinds.append(kind)
        parts += pieces
    text = json.dumps({**header, "values": kinds}).encode()
    size = sum(len(p) for p in parts)
    _send_all(sock, [memoryview(_PREFIX.pack(_MAGIC, len(text), size)), memoryview(text), *parts])


def receive(sock: socket.socket) -> tuple[dict[str, Any], list[Any]] | None:
    """The next message; None when the other side has ended the connection between two messages."""
    prefix = bytearray(_PREFIX.size)
    if not _fill(sock, memoryview(prefix), at_start=True):
        return None
    magic, length, size = _PREFIX.unpack(prefix)
    if magic != _MAGIC or length > _MOST_HEADER or size > MOST:
        raise errors.invalid(f"This is no message of penstock's, or it is too large: {length} and {size} bytes.")
    text = bytearray(length)
    _fill(sock, memoryview(text))
    try:
        header = json.loads(bytes(text))
        kinds = header.pop("values")
        sizes = [_size(k) for k in kinds]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as e:
        raise errors.invalid(f"The header of a message cannot be read: {e}") from None
    if sum(sizes) != size:
        raise errors.invalid(f"A message announces {size} bytes, and its values have {sum(sizes)}.")
    return header, [_unpack(sock, kind, n) for kind, n in zip(kinds, sizes, strict=True)]


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
        return ["strings", list(value.shape), len(text)], [memoryview(lengths).cast("B"), memoryview(text)]
    if not isinstance(value, torch.Tensor):
        raise errors.invalid(f"A value of type {type(value).__name__} cannot be sent to another process.")
    value = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
    name = str(value.dtype).removeprefix("torch.")
    data = value.reshape(-1).view(torch.uint8).numpy() if value.numel() else np.empty(0, np.uint8)
    return ["tensor", name, list(value.shape)], [memoryview(data)]


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
    if kind[0] != "tensor" or kind[1] not in _TYPES:
        raise ValueError(f"a value of unknown kind {kind[:2]}")
    return elements * _TYPES[kind[1]].itemsize


def _count(n: Any) -> int:
    if not isinstance(n, int) or isinstance(n, bool) or not 0 <= n <= MOST:
        raise ValueError(f"{n!r} is no size")
    return n


_TYPES = {str(d.torch).removeprefix("torch."): d.torch for d in vars(dtypes).values()
          if isinstance(d, dtypes.DType) and d.torch is not None}


def _unpack(sock: socket.socket, kind: Any, size: int) -> Any:
    if kind is None:
        return None
    if kind[0] == "tensor":
        made = torch.empty(kind[2], dtype=_TYPES[kind[1]])
        if size:
            _fill(sock, memoryview(made.reshape(-1).view(torch.uint8).numpy()))
        return made
    data = bytearray(size)
    _fill(sock, memoryview(data))
    if kind[0] == "bytes":
        return bytes(data)
    return _strings(data, kind[1])


def _strings(data: bytearray, shape: list[int]) -> np.ndarray:
    count = math.prod(shape)
    ends = np.cumsum(np.frombuffer(data, np.uint64, count).astype(object)) if count else []
    text = bytes(memoryview(data)[count * 8:])
    if (int(ends[-1]) if count else 0) != len(text):
        raise errors.invalid("The lengths of the strings in a message do not fit its size.")
    made = np.empty(count, object)
    made[:] = [text[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)] if count else []
    return made.reshape(shape)


# -- bytes ------------------------------------------------------------------------------------------------------------
def _send_all(sock: socket.socket, parts: list[memoryview]) -> None:
    parts = [p for p in parts if len(p)]
    while parts:
        sent = sock.sendmsg(parts[:64])
        while parts and sent >= len(parts[0]):
            sent -= len(parts.pop(0))
        if sent:
            parts[0] = parts[0][sent:]


def _fill(sock: socket.socket, buffer: memoryview, at_start: bool = False) -> bool:
    at = 0
    while at < len(buffer):
        n = sock.recv_into(buffer[at:])
        if not n:
            if at_start and not at:
                return False
            raise errors.UnavailableError(None, None, "The connection ended within a message.")
        at += n
    return True
