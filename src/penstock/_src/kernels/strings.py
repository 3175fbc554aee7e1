"""Arrays of byte strings: reading, making and measuring them.

A string tensor at run time is a numpy object array of bytes. Loops over its elements are Python's: there is no
vectorized way. The memory that they allocate is checked here.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from penstock._src.base import errors

MAX_BYTES = 2 ** 29          # of text that one kernel makes from sizes in its arguments


def pack(items: list, shape: Any = None) -> np.ndarray:
    """A string tensor of byte strings in row-major order; a vector unless a shape is given."""
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out if shape is None else out.reshape(tuple(shape))


def each(function: Callable[[bytes], bytes], array: np.ndarray) -> np.ndarray:
    """A string tensor with `function` applied to every element."""
    return pack([function(s) for s in array.ravel().tolist()], array.shape)


def scalar(array: np.ndarray, what: str) -> bytes:
    """The one element of a scalar string tensor."""
    if array.ndim != 0:
        raise errors.invalid(f"{what} must be a scalar, but received tensor of shape: {list(array.shape)}")
    return array.item()


def raw(text: Any) -> bytes:
    """A string attribute as bytes."""
    return text.encode("utf-8") if isinstance(text, str) else text


def show(text: bytes) -> str:
    """Bytes for a message."""
    return text.decode("utf-8", "backslashreplace")


def check_bytes(total: int, what: str) -> None:
    """ResourceExhaustedError if a kernel would make too much text."""
    if total > MAX_BYTES:
        raise errors.ResourceExhaustedError(
            None, None, f"{what} would need {total} bytes of text, more than {MAX_BYTES}")



def check_elements(count: int, what: str) -> None:
    """ResourceExhaustedError if a kernel would make too many strings (each takes a pointer)."""
    check_bytes(8 * count, what)


# -- UTF-8 -----------------------------------------------------------------------------------------------------------
TRAIL_BYTES = bytes(range(0x80, 0xC0))       # of a character after its first byte


def utf8_length(text: bytes) -> int:
    """The number of characters: of bytes that do not continue one."""
    return len(text) if text.isascii() else len(text.translate(None, TRAIL_BYTES))


def utf8_starts(text: bytes) -> list[int]:
    """The byte positions at which characters start, and the end."""
    return [i for i, b in enumerate(text) if i == 0 or not 0x80 <= b < 0xC0] + [len(text)]
