"""Plain data as bytes and back: positions of iterators, and elements in cache files.

Plain data is None, booleans, numbers, text, bytes, run-time values (tensors, arrays of strings or of plain data), and
lists, tuples and dicts of it. Other classes are encoded by name after `register`. Decoding checks every length
before it allocates anything, and creates only plain data.
"""
from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors

_MAGIC = b"PSTK1\n"
_DEPTH = 64
_U32, _I64, _F64 = struct.Struct("<I"), struct.Struct("<q"), struct.Struct("<d")
_CLASSES: dict[str, tuple[type, Callable, Callable]] = {}
_TORCH = {str(t.torch): t.torch for t in vars(dtypes).values() if isinstance(t, dtypes.DType) and t.torch is not None}


def register(name: str, cls: type, to_plain: Callable, from_plain: Callable) -> None:
    """Registers a class with its conversions to and from plain data."""
    _CLASSES[name] = (cls, to_plain, from_plain)


def encode(value: Any) -> bytes:
    """Plain data as bytes; UnimplementedError for anything else."""
    out: list = [_MAGIC]
    _write(value, out)
    return b"".join(out)


def _sized(tag: bytes, data: bytes, out: list) -> None:
    out += (tag, _U32.pack(len(data)), data)


def _write(x: Any, out: list) -> None:
    if x is None or x is True or x is False:
        out.append(b"N" if x is None else b"T" if x else b"F")
    elif isinstance(x, (int, np.integer)):
        x = int(x)
        out += (b"i", _I64.pack(x)) if -2**63 <= x < 2**63 else ()
        if not -2**63 <= x < 2**63:
            _sized(b"I", str(x).encode(), out)
    elif isinstance(x, float):
        out += (b"d", _F64.pack(x))
    elif isinstance(x, str):
        _sized(b"s", x.encode(), out)
    elif isinstance(x, bytes):
        _sized(b"b", x, out)
    elif isinstance(x, (list, tuple)):
        out += (b"l" if isinstance(x, list) else b"t", _U32.pack(len(x)))
        for item in x:
            _write(item, out)
    elif isinstance(x, dict):
        out += (b"m", _U32.pack(len(x)))
        for k, v in x.items():
            _write(k, out)
            _write(v, out)
    else:
        _write_value(x, out)


def _write_value(x: Any, out: list) -> None:
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu()
        flat = (torch.view_as_real(x.resolve_conj()) if x.is_complex() else x).contiguous().reshape(-1)
        out.append(b"X")
        _write(str(x.dtype), out)
        _write(list(x.shape), out)
        _write(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"", out)
    elif isinstance(x, np.ndarray) and x.dtype == object:
        out.append(b"O")
        _write(list(x.shape), out)
        _write(x.ravel().tolist(), out)
    else:
        for name, (cls, to_plain, _) in _CLASSES.items():
            if type(x) is cls:
                out.append(b"R")
                _write(name, out)
                _write(to_plain(x), out)
                return
        raise errors.UnimplementedError(None, None, f"A value of type {type(x).__name__} cannot be written to bytes.")


class _Reading:
    """The bytes that are left."""

    def __init__(self, data: bytes):
        self.data, self.at = memoryview(data), 0

    def take(self, n: int) -> memoryview:
        """The next n bytes."""
        if n > len(self.data) - self.at:
            raise _lost()
        self.at += n
        return self.data[self.at - n:self.at]

    def count(self) -> int:
        """The number of items, each of which takes at least one byte."""
        n = _U32.unpack(self.take(4))[0]
        if n > len(self.data) - self.at:
            raise _lost()
        return n


def _lost() -> errors.OpError:
    return errors.DataLossError(None, None, "The bytes are not a saved position or element: they are truncated or corrupted.")


def decode(data: bytes) -> Any:
    """The inverse of `encode`; DataLossError for invalid bytes."""
    r = _Reading(data)
    if bytes(r.take(len(_MAGIC))) != _MAGIC:
        raise _lost()
    value = _read(r, 0)
    if r.at != len(r.data):
        raise _lost()
    return value


def _read(r: _Reading, depth: int) -> Any:
    if depth > _DEPTH:
        raise _lost()
    tag = bytes(r.take(1))
    if tag in (b"N", b"T", b"F"):
        return {b"N": None, b"T": True, b"F": False}[tag]
    if tag == b"i":
        return _I64.unpack(r.take(8))[0]
    if tag == b"d":
        return _F64.unpack(r.take(8))[0]
    if tag in (b"s", b"b", b"I"):
        raw = bytes(r.take(r.count()))
        try:
            return raw if tag == b"b" else raw.decode() if tag == b"s" else _big(raw)
        except ValueError:
            raise _lost() from None
    if tag in (b"l", b"t"):
        items = [_read(r, depth + 1) for _ in range(r.count())]
        return items if tag == b"l" else tuple(items)
    if tag == b"m":
        try:
            return {_read(r, depth + 1): _read(r, depth + 1) for _ in range(r.count())}
        except TypeError:
            raise _lost() from None
    return _read_value(tag, r, depth)


def _big(raw: bytes) -> int:
    if len(raw) > 100:
        raise ValueError("too long")
    return int(raw)


def _read_value(tag: bytes, r: _Reading, depth: int) -> Any:
    first = _read(r, depth + 1)
    if tag == b"X":
        dims, raw = _read(r, depth + 1), _read(r, depth + 1)
        dtype = _TORCH.get(first) if isinstance(first, str) else None
        if dtype is None or not _shape(dims) or not isinstance(raw, bytes) or len(raw) != math.prod(dims) * dtype.itemsize:
            raise _lost()
        return torch.frombuffer(bytearray(raw), dtype=dtype).reshape(dims) if raw else torch.empty(dims, dtype=dtype)
    if tag == b"O":
        items = _read(r, depth + 1)
        if not _shape(first) or not isinstance(items, list) or len(items) != math.prod(first):
            raise _lost()
        out = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):
            out[i] = item
        return out.reshape(first)
    if tag == b"R" and isinstance(first, str) and first in _CLASSES:
        return _CLASSES[first][2](_read(r, depth + 1))
    raise _lost()


def _shape(dims: Any) -> bool:
    return isinstance(dims, list) and len(dims) <= 64 and all(isinstance(d, int) and 0 <= d < 2**48 for d in dims)
