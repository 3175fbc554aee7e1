"""Rows of different lengths on the host: places of ragged values in a box, chosen rows, coordinates, sums by row, empty rows,
positions of coordinates, rows in the order of labels.

The kernels are in `_rows.c`. Every function returns None where they are not compiled, where a tensor has no memory (in traces),
or where an argument is wrong; the caller then does the same with torch, and raises the error.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch

from penstock._src.kernels.host_threads import compiled

_kernels = functools.partial(compiled, "_rows")
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor       # under vmap it has no memory
_WIDE = {torch.int32: 0, torch.int64: 1}
_SUMS = {torch.float32: ord("f"), torch.float64: ord("d"), torch.int32: ord("i"), torch.int64: ord("l")}
_LONGEST_SUM = 1 << 18                   # elements of a sum in one thread
_MOST_DISTINCT = 1 << 14                 # numbers, for which a table stays in the cache
_MOST_VALUES = 1 << 26                   # that splits promise; torch reports what memory cannot hold
_DEEPEST = 16                            # axes of a box
Partition = tuple[bool, torch.Tensor]    # whether a tensor has the row of each value, or the splits of the rows


def _plain(*tensors: Any) -> bool:
    """Whether C code can read the tensors."""
    return all(type(t) is torch.Tensor and t.is_cpu and t.is_contiguous() and not _is_wrapped(t) for t in tensors)


def _integers(*tensors: Any) -> bool:
    return _plain(*tensors) and all(t.dtype in _WIDE for t in tensors)


def _together(numbers: torch.Tensor) -> torch.Tensor:
    """Numbers in their order in memory: those of a column of coordinates are apart, and coordinates that torch has found
    (`nonzero`) lie column by column."""
    return numbers.contiguous() if type(numbers) is torch.Tensor and numbers.is_cpu else numbers


def extents(first: int, parts: Sequence[Partition]) -> list[tuple[int, int]] | None:
    """The number of values and of columns of each ragged dimension, outermost first."""
    kernels, found, above = _kernels(), [], first
    if kernels is None:
        return None
    for by_rows, part in parts:
        if not _integers(part) or part.dim() != 1:
            return None
        sizes = kernels.extent(by_rows, part.data_ptr(), _WIDE[part.dtype], part.numel(), above)
        if sizes is None or sizes[0] > _MOST_VALUES:
            return None
        found.append(sizes)
        above = sizes[0]
    return found


def places(parts: Sequence[Partition], found: Sequence[tuple[int, int]], dims: Sequence[int]) -> torch.Tensor:
    """Where in a box of size `dims` the values go, counted in values; -1 if they are outside. The partitions are those that
    `extents` has measured."""
    kernels, above = _kernels(), None
    for (by_rows, part), (total, _), size in zip(parts, found, dims[1:], strict=False):
        to = torch.empty(total, dtype=torch.int64)
        kernels.place(by_rows, part.data_ptr(), _WIDE[part.dtype], part.numel(), 0 if above is None else above.data_ptr(), size,
                      dims[0], to.data_ptr())
        above = to
    assert above is not None
    return above


def spread(values: torch.Tensor, place: torch.Tensor, out: torch.Tensor) -> bool:
    """Writes each value to its place in `out`, unless that is negative. Returns whether it could."""
    kernels = _kernels()
    if kernels is None or not _plain(values, place, out):
        return False
    width = math.prod(values.shape[1:]) * values.element_size()
    kernels.spread(values.data_ptr(), place.data_ptr(), place.numel(), width, out.data_ptr())
    return True


def chosen(splits: torch.Tensor, most: int, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The splits of the rows that are chosen, and the positions of their values among `most`."""
    kernels = _kernels()
    if kernels is None or not _integers(splits, rows) or splits.dim() != 1:
        return None
    made = torch.empty(rows.numel() + 1, dtype=splits.dtype)
    wide = _WIDE[splits.dtype], _WIDE[rows.dtype]
    total = kernels.chosen(splits.data_ptr(), wide[0], splits.numel(), most, rows.data_ptr(), wide[1], rows.numel(),
                           made.data_ptr())
    if total < 0:
        return None
    members = torch.empty(total, dtype=torch.int64)
    kernels.members(splits.data_ptr(), wide[0], rows.data_ptr(), wide[1], rows.numel(), members.data_ptr())
    return made, members


def coordinates(splits: torch.Tensor, count: int) -> tuple[torch.Tensor, int] | None:
    """The row and the column of each of `count` values, and the number of columns."""
    found = extents(splits.numel() - 1, [(False, splits)])
    kernels = _kernels()
    if kernels is None or found is None or found[0][0] != count:
        return None
    to = torch.empty(count, 2, dtype=torch.int64)
    kernels.coordinates(splits.data_ptr(), _WIDE[splits.dtype], splits.numel(), to.data_ptr())
    return to, found[0][1]


def sums(data: torch.Tensor, ids: torch.Tensor, count: int) -> torch.Tensor | None:
    """The sums [count, ...] of the rows of each id; rows with negative ids are left out."""
    return _reduced(data, ids, count, "add", 0)


def extremes(data: torch.Tensor, ids: torch.Tensor, count: int, largest: bool, start: Any) -> torch.Tensor | None:
    """The largest or smallest numbers of the rows of each id, and `start`; rows with negative ids are left out."""
    return _reduced(data, ids, count, "largest" if largest else "smallest", start)


def _reduced(data: torch.Tensor, ids: torch.Tensor, count: int, how: str, start: Any) -> torch.Tensor | None:
    kernels, ids = _kernels(), _together(ids)
    if kernels is None or not _plain(data) or not _integers(ids) or data.dtype not in _SUMS or data.numel() > _LONGEST_SUM:
        return None
    rows, dims = ids.numel(), data.shape[ids.dim():]
    out = torch.full((count, *dims), start, dtype=data.dtype)
    bad = getattr(kernels, how)(_SUMS[data.dtype], data.data_ptr(), ids.data_ptr(), _WIDE[ids.dtype], rows, math.prod(dims),
                                count, out.data_ptr())
    return out if bad < 0 else None


def counts(values: torch.Tensor, size: int) -> torch.Tensor | None:
    """How often each number below `size` occurs."""
    kernels = _kernels()
    if kernels is None or not _integers(values):
        return None
    out = torch.zeros(size, dtype=torch.int64)
    negative = kernels.count(values.data_ptr(), _WIDE[values.dtype], values.numel(), size, out.data_ptr())
    return None if negative else out


def rising(ids: torch.Tensor, limit: int) -> bool:
    """Whether ids are known to be sorted, and to be from 0 to limit - 1."""
    kernels, ids = _kernels(), _together(ids)
    return kernels is not None and _integers(ids) and kernels.rising(ids.data_ptr(), _WIDE[ids.dtype], ids.numel(), limit)


def filled(indices: torch.Tensor, rows: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor] | None:
    """Coordinates with a place in each empty row; the position of the value of each, or the number of values for the default;
    which rows were empty; and where each value went."""
    kernels, indices = _kernels(), _together(indices)
    if kernels is None or not _plain(indices) or rows > _MOST_VALUES:
        return None
    count, depth = indices.shape
    to, source = torch.empty(count + rows, depth, dtype=torch.int64), torch.empty(count + rows, dtype=torch.int64)
    empty, back = torch.empty(rows, dtype=torch.bool), torch.empty(count, dtype=torch.int64)
    total = kernels.filled(indices.data_ptr(), count, depth, rows, to.data_ptr(), source.data_ptr(), empty.data_ptr(),
                           back.data_ptr())
    return None if total < 0 else (to[:total], source[:total], empty, back)


def distinct(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Where each distinct number of a vector is first, in the order of appearance, and which of them each number is."""
    kernels, values = _kernels(), _together(values)
    if kernels is None or not _integers(values) or values.numel() > _MOST_DISTINCT:
        return None
    firsts, index = torch.empty_like(values, dtype=torch.int64), torch.empty_like(values, dtype=torch.int64)
    kinds = kernels.distinct(values.data_ptr(), _WIDE[values.dtype], values.numel(), firsts.data_ptr(), index.data_ptr())
    return firsts[:kinds], index


def positions(indices: torch.Tensor, dims: Sequence[int]) -> tuple[torch.Tensor, bool] | None:
    """The position of each row of coordinates in a box of these sizes, and whether positions grow; None if one is outside."""
    kernels, indices = _kernels(), _together(indices)
    if kernels is None or not _integers(indices) or not 0 < len(dims) <= _DEEPEST or indices.dim() != 2 or \
            indices.shape[1] != len(dims):
        return None
    to = torch.empty(indices.shape[0], dtype=torch.int64)
    growing = kernels.positions(indices.data_ptr(), _WIDE[indices.dtype], to.numel(), to.data_ptr(), *dims)
    return None if growing is None else (to, growing)


def apart(places: torch.Tensor, dims: Sequence[int]) -> torch.Tensor | None:
    """The coordinates of positions in a box of these sizes, none of them 0: the inverse of `positions`."""
    kernels = _kernels()
    if kernels is None or not _plain(places) or places.dtype is not torch.int64 or not 0 < len(dims) <= _DEEPEST:
        return None
    to = torch.empty(places.numel(), len(dims), dtype=torch.int64)
    kernels.apart(places.data_ptr(), places.numel(), to.data_ptr(), *dims)
    return to


def labelled(labels: torch.Tensor, kinds: int) -> tuple[torch.Tensor, list[int]] | None:
    """The numbers of the rows with label 0, then of those with label 1 and so on, and how many each of the labels has."""
    kernels = _kernels()
    if kernels is None or not _integers(labels) or kinds > _MOST_VALUES:
        return None
    order, sizes = torch.empty(labels.numel(), dtype=torch.int64), torch.empty(kinds, dtype=torch.int64)
    fits = kernels.labelled(labels.data_ptr(), _WIDE[labels.dtype], labels.numel(), kinds, order.data_ptr(), sizes.data_ptr())
    return (order, sizes.tolist()) if fits else None
