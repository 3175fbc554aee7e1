"""Slices of tensors, as checkpoints of partitioned variables name them.

A slice has one (start, length) per dimension; length -1 means all of it. Text describes which part of a larger tensor a
variable is: "10 20 0,5:-" is the first five of ten rows, all twenty columns.
"""
from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from penstock._src.base import errors

FULL = -1
Slice = tuple[tuple[int, int], ...]


def full(rank: int) -> Slice:
    """All of a tensor."""
    return ((0, FULL),) * rank


def is_full(part: Slice, shape: tuple[int, ...]) -> bool:
    """Whether a slice covers a tensor of that shape."""
    return all(length == FULL or start == 0 and length == d for (start, length), d in zip(part, shape, strict=True))


def shape_of(part: Slice, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a slice of a tensor of that shape; InvalidArgumentError if it is out of bounds."""
    if len(part) != len(shape):
        raise errors.invalid(f"Mismatching ranks: shape = {list(shape)}, slice = {show(part)}")
    out = []
    for d, (start, length) in zip(shape, part, strict=True):
        if length == FULL:
            out.append(d)
        elif start < 0 or length < 0 or start + length > d:
            raise errors.invalid(f"Extent in dimension {len(out)} out of bounds: shape = {list(shape)}, slice = {show(part)}")
        else:
            out.append(length)
    return tuple(out)


def show(part: Slice) -> str:
    """The text of a slice: "0,5:-"."""
    return ":".join("-" if length == FULL else f"{start},{length}" for start, length in part)


def parse_shape_and_slice(text: str) -> tuple[tuple[int, ...], Slice, tuple[int, ...]]:
    """Full shape, slice and shape of the slice from their text."""
    words = text.split(" ")
    if len(words) < 2:
        raise errors.invalid("Need least two elements in shape_and_slice specification: " + text)
    try:
        shape = tuple(int(w) for w in words[:-1])
        bounds = [(0, FULL) if w == "-" else tuple(map(int, w.split(","))) for w in words[-1].split(":")]
        part = tuple((begin, size) for begin, size in bounds)        # ValueError if there are not two
        if any(d < 0 for d in shape):
            raise ValueError
    except ValueError:
        raise errors.invalid(f"Could not parse the shape and slice '{text}'") from None
    return shape, part, shape_of(part, shape)


def name_bytes(name: str) -> bytes:
    """The name of a tensor in a file; InvalidArgumentError if it came from bytes that are not UTF-8."""
    try:
        return name.encode()
    except UnicodeEncodeError:
        raise errors.invalid(f"The name of a tensor is not UTF-8: {name!r}") from None


# -- messages and keys -----------------------------------------------------------------------------------------------
def from_proto(proto: Any) -> Slice:
    """The slice in a TensorSliceProto."""
    return tuple((e.start, e.length if e.HasField("length") else FULL) for e in proto.extent)


def to_proto(part: Slice, proto: Any) -> None:
    """Fills a TensorSliceProto."""
    for start, length in part:
        e = proto.extent.add()
        if length != FULL:
            e.start, e.length = start, length


def key(name: str, part: Slice) -> bytes:
    """The key of a slice in a table: keys sort as (name, slice) do."""
    escaped = re.sub(rb"[\x00\xff]", lambda m: b"\0\xff" if m[0] == b"\0" else b"\xff\0", name_bytes(name))
    out = b"\0" + escaped + b"\0\1" + _unsigned(len(part))
    for start, length in part:
        out += _signed(start) + _signed(length)
    return out


def _unsigned(n: int) -> bytes:
    data = n.to_bytes((n.bit_length() + 7) // 8, "big")
    return bytes([len(data)]) + data


def _signed(n: int) -> bytes:
    """A number so that bytes sort as numbers do: as many leading bits like the sign bit as bytes are used."""
    bits = (~n if n < 0 else n).bit_length()
    size = next(s for s in range(1, 11) if bits < 7 * s or s == 10)
    mark = int("1" * size + "0" * (8 * size - size), 2)
    return ((n & (1 << 8 * size) - 1) ^ mark).to_bytes(size, "big")


# -- putting parts together ------------------------------------------------------------------------------------------
def bounds(part: Slice, shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """Begin and end per dimension."""
    return [(0, d) if length == FULL else (start, start + length) for (start, length), d in zip(part, shape, strict=True)]


def cover(wanted: Slice, stored: list[Slice], shape: tuple[int, ...]) -> list[tuple[int, tuple, tuple]] | None:
    """How to assemble a slice: (number of the stored slice, index in it, index in the result) …; None if parts are missing.

    Stored slices that overlap are a DataLossError.
    """
    want = bounds(wanted, shape)
    out, boxes, volume = [], [], 0
    for i, part in enumerate(stored):
        have = bounds(part, shape)
        common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(want, have, strict=True)]
        if any(b <= a for a, b in common):
            continue
        volume += math.prod(b - a for a, b in common)
        boxes.append(common)
        out.append((i, tuple(slice(a - h, b - h) for (a, b), (h, _) in zip(common, have, strict=True)),
                    tuple(slice(a - w, b - w) for (a, b), (w, _) in zip(common, want, strict=True))))
    _refuse_overlap(np.array(boxes, dtype=np.int64).reshape(len(boxes), len(want), 2))      # of numbers, too
    return out if volume == math.prod(b - a for a, b in want) else None


def _refuse_overlap(boxes: np.ndarray) -> None:
    for i in range(len(boxes) - 1):
        low = np.maximum(boxes[i, :, 0], boxes[i + 1:, :, 0])
        high = np.minimum(boxes[i, :, 1], boxes[i + 1:, :, 1])
        if (low < high).all(axis=1).any():
            raise errors.DataLossError(None, None, "slices of a tensor in the checkpoint overlap")
