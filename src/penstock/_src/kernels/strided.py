"""Strided slices: what `x[1:, ..., None, ::-1]` means, written as begin, end, strides and five bit masks.

`plan` spells a specification out axis by axis, `sliced_dims` returns the static shape of the result, and `view` the part
of a value that it selects, as a view that can be read or written. Slices of tensors and assignments to parts of
variables all use this module.
"""
from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from penstock._src.base import errors
from penstock._src.kernels import arrays

MASKS = "begin_mask: int = 0, end_mask: int = 0, ellipsis_mask: int = 0, new_axis_mask: int = 0, " \
        "shrink_axis_mask: int = 0"
MASK_NAMES = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
_MAX_ENTRIES = 32              # bits of a mask


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """One entry of a plan: a range of an axis, one position of it (`shrink`), or a new axis (`axis` is None).

    `full_begin`, `full_end`: the range starts at the first, ends after the last element. A begin, end or stride of
    None is not known (only at build time).
    """
    axis: int | None
    begin: int | None = 0
    end: int | None = 0
    stride: int | None = 1
    full_begin: bool = False
    full_end: bool = False
    shrink: bool = False

    def bounds(self, size: int) -> tuple[int, int]:
        """The first position and the number of positions on an axis of a size."""
        begin, end, stride = self.begin, self.end, self.stride
        assert begin is not None and end is not None and stride is not None
        if self.shrink:
            at = begin + size if begin < 0 else begin
            if not 0 <= at < size:
                raise errors.invalid(f"slice index {begin} of dimension {self.axis} out of bounds.")
            return at, 1
        low, high = (0, size) if stride > 0 else (-1, size - 1)
        first = (low if stride > 0 else high) if self.full_begin else _clamp(begin, size, low, high)
        last = (high if stride > 0 else low) if self.full_end else _clamp(end, size, low, high)
        span = last - first
        return first, max(0, -(-span // stride))


def _clamp(x: int, size: int, low: int, high: int) -> int:
    return min(max(x + size if x < 0 else x, low), high)


def plan(rank: int, begin: Sequence, end: Sequence, strides: Sequence, begin_mask: int = 0, end_mask: int = 0,
         ellipsis_mask: int = 0, new_axis_mask: int = 0, shrink_axis_mask: int = 0) -> list[Part]:
    """The specification axis by axis, ellipsis and implicit tail spelled out; InvalidArgumentError if it is not one."""
    n = len(strides)
    if rank == 0 and n == 1 and not (ellipsis_mask or new_axis_mask):
        raise errors.invalid("Attempting to slice scalar input.")
    if not len(begin) == len(end) == n or n >= _MAX_ENTRIES:
        raise errors.invalid(f"Expected begin, end, and strides to be 1D equal size tensors, but got shapes "
                             f"[{len(begin)}], [{len(end)}], and [{n}] instead.")
    ellipsis = [i for i in range(n) if ellipsis_mask >> i & 1]
    if len(ellipsis) > 1:
        raise errors.invalid("Multiple ellipses in slice spec not allowed")
    dots = ellipsis[0] if ellipsis else n
    new = [i != dots and bool(new_axis_mask >> i & 1) for i in range(n)]
    taken = sum(not new[i] for i in range(n) if i != dots)       # axes that its own entry represents
    parts: list[Part] = []
    axis = 0
    for i in range(n if ellipsis else n + 1):
        if i == dots:
            for _ in range(max(rank - taken, 0)):
                parts.append(Part(axis, full_begin=True, full_end=True))
                axis += 1
        elif new[i]:
            parts.append(Part(None))
        elif axis >= rank:
            raise errors.invalid(f"Index out of range using input dim {axis}; input has only {rank} dims")
        else:
            parts.append(Part(axis, begin[i], end[i], strides[i], bool(begin_mask >> i & 1), bool(end_mask >> i & 1),
                              bool(shrink_axis_mask >> i & 1)))
            axis += 1
    _check_strides(parts)
    return parts


def _check_strides(parts: list[Part]) -> None:
    for p in parts:
        if p.stride == 0:
            raise errors.invalid(f"strides[{p.axis}] must be non-zero")
        if p.shrink and p.stride is not None and p.stride < 0:
            raise errors.invalid("only stride 1 allowed on non-range indexing.")


def sliced_dims(dims: tuple, parts: list[Part]) -> tuple:
    """The static shape of a slice, as far as sizes and bounds are known."""
    out: list[int | None] = []
    for p in parts:
        if p.axis is None:
            out.append(1)
            continue
        size = dims[p.axis]
        if p.shrink:
            if size is not None and p.begin is not None:
                p.bounds(size)
            continue
        out.append(_static_count(p, size))
    return tuple(out)


def _static_count(p: Part, size: int | None) -> int | None:
    begin, end = 0 if p.full_begin else p.begin, 0 if p.full_end else p.end
    if p.stride is None or begin is None or end is None:
        return None
    if size is not None:
        return p.bounds(size)[1]
    return _count_of_any(p, begin, end)


def _count_of_any(p: Part, begin: int, end: int) -> int | None:
    """Empty ranges are empty whatever the size of the axis."""
    if p.full_begin or p.full_end or p.stride is None or (begin < 0) != (end < 0):
        return None
    return 0 if (end - begin) * p.stride <= 0 else None


def view(x: Any, parts: list[Part]) -> tuple[Any, list[int]]:
    """What a plan selects of `x`, as a view with rising positions, and the axes of it that are to be reversed."""
    index, flips = index_of(arrays.dims_of(x), parts)
    return arrays.part(x, index), flips


def index_of(dims: Sequence[int], parts: list[Part]) -> tuple[tuple, list[int]]:
    """What a plan selects of a value of shape `dims`, as an index with rising positions, and the axes to be reversed."""
    index: list[Any] = []
    flips: list[int] = []
    rank = 0
    for p in parts:
        if p.axis is None:
            index.append(None)
            rank += 1
            continue
        first, count = p.bounds(dims[p.axis])
        if p.shrink:
            index.append(first)
            continue
        stride = p.stride or 1
        if count == 0:
            index.append(slice(0, 0))
        elif stride > 0:
            index.append(slice(first, first + (count - 1) * stride + 1, stride))
        else:
            index.append(slice(first + (count - 1) * stride, first + 1, -stride))
            flips.append(rank)
        rank += 1
    return tuple(index), flips


def index_of_any(parts: list[Part]) -> tuple | None:
    """What a plan with rising positions selects of a value of any size, as an index; None if the index depends on the size."""
    index: list[Any] = []
    for p in parts:
        if p.axis is None or p.shrink:
            index.append(None if p.axis is None else p.begin)
        elif p.stride is None or p.stride < 0:
            return None
        else:
            index.append(slice(None if p.full_begin else p.begin, None if p.full_end else p.end, p.stride))
    return tuple(index)


def located(dims: Sequence[int], begin: Sequence, end: Sequence, strides: Sequence,
            **masks: int) -> tuple[tuple, Sequence[int]]:
    """`index_of` the plan of a slice of a value of shape `dims`; most come again."""
    if any(type(n) is not int for n in dims):            # of a trace
        return index_of(dims, plan(len(dims), begin, end, strides, **masks))
    return _located(tuple(dims), tuple(begin), tuple(end), tuple(strides), tuple(masks.items()))


@functools.lru_cache(1024)
def _located(dims: tuple, begin: tuple, end: tuple, strides: tuple, masks: tuple) -> tuple[tuple, tuple]:
    index, flips = index_of(dims, plan(len(dims), begin, end, strides, **dict(masks)))
    return index, tuple(flips)


def strided_view(x: Any, begin: Any, end: Any, strides: Any, **masks: int) -> tuple[Any, Sequence[int]]:
    """`view` for begin, end and strides as tensors."""
    for t in (begin, end, strides):
        if t.dim() != 1:
            raise errors.invalid("Expected begin, end, and strides to be 1D equal size tensors, but got shapes "
                                 f"{arrays.show(begin.shape)}, {arrays.show(end.shape)}, and "
                                 f"{arrays.show(strides.shape)} instead.")
    index, flips = located(arrays.dims_of(x), begin.tolist(), end.tolist(), strides.tolist(), **masks)
    return arrays.part(x, index), flips


def read(x: Any, begin: Any, end: Any, strides: Any, **masks: int) -> Any:
    """The slice of a value."""
    out, flips = strided_view(x, begin, end, strides, **masks)
    return arrays.flip(out, flips)


def write(x: Any, begin: Any, end: Any, strides: Any, value: Any, **masks: int) -> None:
    """Sets the slice of `x`, in place; the value has the shape of the slice, or broadcasts to it."""
    out, flips = strided_view(x, begin, end, strides, **masks)
    wanted, found = arrays.dims_of(out), arrays.dims_of(value)
    if not arrays.expands(found, wanted):
        raise errors.invalid(f"Assign requires shapes of both tensors to match. lhs shape= {arrays.show(wanted)} "
                             f"rhs shape= {arrays.show(found)}")
    out[...] = arrays.flip(arrays.expand(value, wanted), flips) if flips else value
