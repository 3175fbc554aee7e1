"""Run-time values as short text, for Assert, Print and StringFormat.

Two layouts, both TensorFlow's. `summarize` is the older one: the first elements in a row, with brackets around inner
dimensions. `summarize_ends` is that of `tf.print`: nested like numpy's, with the first and last elements of every
dimension.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.kernels.bridge import to_numpy

_ESCAPES = {ord("\n"): b"\\n", ord("\r"): b"\\r", ord("\t"): b"\\t", ord('"'): b'\\"', ord("'"): b"\\'",
            ord("\\"): b"\\\\"}
for _code in (*range(32), 127):
    _ESCAPES.setdefault(_code, b"\\%03o" % _code)


def escape(text: bytes) -> bytes:
    """`text` with quotes, backslashes and control characters written as in C; UTF-8 stays readable."""
    return b"".join([_ESCAPES.get(b) or bytes((b,)) for b in text])


def show_float(value: float, single: bool) -> str:
    """A float with the few digits that are enough, or with all of them: %.6g, else %.9g (double: 15 and 17)."""
    short, full = (6, 9) if single else (15, 17)
    text = f"{value:.{short}g}"
    back = float(np.float32(float(text))) if single else float(text)
    return text if back == value else f"{value:.{full}g}"


def _shower(array: np.ndarray) -> Any:
    """A function from one element to bytes."""
    kind = array.dtype.kind
    if kind == "f" or array.dtype.name == "bfloat16":
        single = array.dtype.itemsize < 8
        return lambda x: show_float(float(x), single).encode()
    if kind in "iub":
        return lambda x: b"%d" % int(x)
    if kind == "O" and (array.size == 0 or isinstance(array.flat[0], bytes)):
        return escape
    return lambda x: b"?"


def _array(value: Any) -> np.ndarray | None:
    if isinstance(value, torch.Tensor):
        return to_numpy(value)
    return value if isinstance(value, np.ndarray) else None


def summarize(value: Any, entries: int) -> str:
    """The first `entries` elements (negative: all), as Assert and Print write them: ``[1 2][3...]...``."""
    array = _array(value)
    if array is None:
        return "?"
    limit = array.size if entries < 0 else min(entries, array.size)
    flat = array.reshape(-1)
    show = _shower(array)
    items = [show(x) for x in flat[:limit].tolist()] if array.dtype.name != "bfloat16" else \
        [show(x) for x in flat[:limit]]
    text = b" ".join(items) if array.ndim < 2 else _bracketed(items, array.shape, array.size)
    return (text + (b"..." if array.size > limit else b"")).decode("utf-8", "backslashreplace")


def _bracketed(items: list[bytes], shape: tuple, size: int) -> bytes:
    """Elements in a row with brackets around every inner dimension, cut off where the items end."""
    position, out = 0, []

    def visit(dim: int) -> None:
        nonlocal position
        if dim == len(shape) - 1:
            row = items[position:position + shape[dim]]
            position += len(row)
            out.append(b" ".join(row) + (b"..." if len(row) < shape[dim] else b""))
            return
        for _ in range(shape[dim]):
            if position >= len(items):
                return
            out.append(b"[")
            visit(dim + 1)
            out.append(b"]")
    if size:
        visit(0)
    return b"".join(out)


def summarize_ends(value: Any, entries: int) -> bytes:
    """The first and last `entries` elements of each dimension (negative: all), as tf.print writes them."""
    array = _array(value)
    if array is None:
        return b"?"
    limit = array.size if entries < 0 else min(entries, array.size)
    show = _shower(array)
    if array.dtype.kind == "c" and array.ndim:
        flat = array.reshape(-1)
        return b"[" + b" ".join([b"?"] * min(limit, flat.size)) + (b"..." if limit < flat.size else b"") + b"]"
    quoted = (lambda x: b'"' + escape(x) + b'"') if show is escape else show
    return _nested(array, limit, quoted, 0, array.ndim) if array.ndim else (quoted(array[()]) if limit else b"...")


def _nested(array: np.ndarray, limit: int, show: Any, dim: int, rank: int) -> bytes:
    if dim == rank:
        return show(array[()] if isinstance(array, np.ndarray) else array)
    gap = b" " if dim == rank - 1 else b"\n" * (rank - dim - 1) + b" " * (dim + 1)
    n = array.shape[0]
    head = [_nested(array[i], limit, show, dim + 1, rank) for i in range(min(limit, n))]
    tail = [_nested(array[i], limit, show, dim + 1, rank) for i in range(max(limit, n - limit), n)]
    parts = head + ([b"..."] if n > 2 * limit else []) + tail
    return b"[" + (gap if parts and not head else b"") + gap.join(parts) + b"]"
