"""Text in an encoding to code points, with byte positions and with malformed parts marked; and back.

The converters are Python's. Names of encodings are those that both Python and ICU support; byte order marks are handled here as
ICU does.
"""
from __future__ import annotations

import codecs
import encodings.aliases
import functools
import threading

import numpy as np

from penstock._src.base import errors

LAST = 0x10FFFF
REPLACEMENT = 0xFFFD
MALFORMED = -1                       # represents a malformed part among code points
_MARK = "\ud800"                     # no converter returns a lone surrogate: it marks malformed parts in text
_WIDE = {"utf-16": ((codecs.BOM_UTF16_BE, "utf-16-be"), (codecs.BOM_UTF16_LE, "utf-16-le")),
         "utf-32": ((codecs.BOM_UTF32_BE, "utf-32-be"), (codecs.BOM_UTF32_LE, "utf-32-le"))}
_NOT_ENCODINGS = {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs", "oem"}
_spans = threading.local()


def _mark(error: UnicodeError) -> tuple[str, int]:
    """The error handler of decoding: a mark, and the length of the malformed part kept."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    _spans.lengths.append(error.end - error.start)
    return _MARK, error.end


codecs.register_error("penstock.mark", _mark)


def _similar(name: str) -> codecs.CodecInfo | None:
    """An encoding by a name of other punctuation: `latin-9` is Python's `latin9`."""
    wanted = _letters(name)
    found = next((known for known in encodings.aliases.aliases.values() if _letters(known) == wanted), None)
    found = found or next((to for alias, to in encodings.aliases.aliases.items() if _letters(alias) == wanted), None)
    return None if found is None else codecs.lookup(found)


def _letters(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())


@functools.lru_cache(maxsize=64)
def encoding_name(name: str) -> str:
    """Python's name of an encoding; InvalidArgumentError if there is none."""
    info: codecs.CodecInfo | None
    try:
        info = codecs.lookup(name)
    except (LookupError, ValueError):
        info = _similar(name)
    if info is None or not getattr(info, "_is_text_encoding", False) or info.name.replace("-", "_") in _NOT_ENCODINGS:
        raise errors.invalid(f"Could not create converter for input encoding: {name}")
    return info.name


def code_points(text: bytes, encoding: str) -> tuple[np.ndarray, np.ndarray]:
    """Code points (MALFORMED for invalid parts) and the byte positions at which they start."""
    name, skip = encoding_name(encoding), 0
    if name in _WIDE:
        name, skip = _byte_order(text, name)
    if name == "utf-8" and text.isascii():
        return np.frombuffer(text, np.uint8).astype(np.int32), np.arange(len(text), dtype=np.int64)
    _spans.lengths = []
    decoded = text[skip:].decode(name, "penstock.mark")
    points = np.frombuffer(decoded.encode("utf-32-le", "surrogatepass"), np.int32).copy()
    bad = points == 0xD800
    lengths = _lengths(decoded, points, name)
    lengths[bad] = _spans.lengths
    points[bad] = MALFORMED
    if lengths.size:
        lengths[0] += skip
    return points, np.cumsum(lengths) - lengths


def all_code_points(texts: list[bytes], encoding: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The code points and byte positions of many texts, one after the other, and how many each text has."""
    found = _valid_code_points(texts) if encoding_name(encoding) == "utf-8" else None
    if found is not None:
        return found
    each = [code_points(text, encoding) for text in texts]
    return np.concatenate([np.zeros(0, np.int32), *(points for points, _ in each)]), \
        np.concatenate([np.zeros(0, np.int64), *(at for _, at in each)]), np.array([len(at) for _, at in each], np.int64)


def _valid_code_points(texts: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The same for texts in UTF-8, converted at once; None if one of them has a malformed part."""
    joined = b"".join(texts)
    try:
        points = np.frombuffer(joined.decode().encode("utf-32-le"), np.int32)
    except UnicodeDecodeError:
        return None
    begins = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=begins[1:])
    at = np.flatnonzero(np.frombuffer(joined, np.int8) >= -0x40)         # not the second byte of a character, or a later one
    rows = np.searchsorted(at, begins)
    if not np.array_equal(np.append(at, len(joined))[rows], begins):     # a text begins within a character
        return None
    sizes = np.diff(rows)
    return points, at - np.repeat(begins[:-1], sizes), sizes


def _byte_order(text: bytes, name: str) -> tuple[str, int]:
    for mark, exact in _WIDE[name]:
        if text.startswith(mark):
            return exact, len(mark)
    return f"{name}-be", 0


def _lengths(decoded: str, points: np.ndarray, name: str) -> np.ndarray:
    """How many bytes each character takes in the encoding."""
    if name == "utf-8":
        return 1 + (points >= 0x80).astype(np.int64) + (points >= 0x800) + (points >= 0x10000)
    if name.startswith("utf-16"):
        return np.where(points >= 0x10000, 4, 2).astype(np.int64)
    if name.startswith("utf-32"):
        return np.full(points.shape, 4, np.int64)
    return np.array([1 if c == _MARK else len(c.encode(name)) for c in decoded], np.int64).reshape(points.shape)


def is_surrogate(points: np.ndarray) -> np.ndarray:
    """A mask of the code points that are surrogates."""
    return (points >= 0xD800) & (points <= 0xDFFF)


def encoded(points: np.ndarray, encoding: str) -> bytes:
    """Code points as UTF-8, UTF-16-BE or UTF-32-BE; surrogates are replaced."""
    points = np.where(is_surrogate(points), REPLACEMENT, points)
    return points.astype("<u4").tobytes().decode("utf-32-le").encode(encoding)
