"""The compatibility namespaces, and tf.compat's helpers for text and bytes."""
from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from penstock._src.base.api import export


@export("compat.as_bytes")
def as_bytes(bytes_or_text: Any, encoding: str = "utf-8") -> bytes:
    """Text or bytes as bytes.

    Args:
        bytes_or_text: Bytes, or text to encode.
        encoding: Encoding of the text.

    Returns:
        Bytes.

    Raises:
        TypeError: for other types.

    >>> tf.compat.as_bytes("abc")
    b'abc'
    """
    if isinstance(bytes_or_text, bytearray):
        return bytes(bytes_or_text)
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


@export("compat.as_text", "compat.as_str")
def as_text(bytes_or_text: Any, encoding: str = "utf-8") -> str:
    """Text or bytes as text.

    Args:
        bytes_or_text: Text, or bytes to decode.
        encoding: Encoding of the text.

    Returns:
        A str.

    Raises:
        TypeError: for other types.

    >>> tf.compat.as_str(b"abc")
    'abc'
    """
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text.decode(encoding)
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


as_str = as_text


@export("compat.as_str_any")
def as_str_any(value: Any, encoding: str = "utf-8") -> str:
    """Bytes decoded, anything else by str()."""
    return as_text(value, encoding) if isinstance(value, bytes) else str(value)


@export("compat.path_to_str")
def path_to_str(path: Any) -> Any:
    """A path-like object as text."""
    return as_str_any(path.__fspath__()) if hasattr(path, "__fspath__") else path


def shown_text(value: Any) -> str:
    """An attribute or a handle as text; bytes that are no UTF-8 are escaped, so that they equal no name."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


export.value((numbers.Integral, np.integer), "compat.integral_types")
export.value((numbers.Real, np.integer, np.floating), "compat.real_types")
export.value((numbers.Complex, np.number), "compat.complex_types")
export.value((bytes, str), "compat.bytes_or_text_types")


@export("compat.forward_compatible")
def forward_compatible(year: int, month: int, day: int) -> bool:
    """Whether the forward-compatibility window of a change is over: always, here."""
    return True


@export("compat.forward_compatibility_horizon")
def forward_compatibility_horizon(year: int, month: int, day: int) -> Any:
    """A context manager that does nothing: there is no forward-compatibility window here."""
    import contextlib
    return contextlib.nullcontext()
