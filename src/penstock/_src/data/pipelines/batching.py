"""Stages that combine and split elements: batch, padded_batch, window, unbatch, sparse batches."""
from __future__ import annotations

import collections
from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.data.pipelines import values
from penstock._src.data.pipelines.base import INFINITE, UNKNOWN, BlockCursor, Cursor, Stage


def _batches(n: int, size: int, drop: bool) -> int:
    return n if n < 0 else n // size if drop else -(-n // size)


def positive(number: int, name: str) -> int:
    """The number, which must be greater than zero."""
    if number <= 0:
        raise errors.invalid(f"{name.replace('_', ' ').capitalize()} must be greater than zero.")
    return number


class Batch(Stage):
    """`size` elements as one, stacked."""

    def __init__(self, source: Stage, size: int, drop: bool, whole: bool = False):
        self.inputs, self.size, self.drop = (source,), positive(size, "batch_size"), drop
        self.whole = whole                           # whether a failing element discards the rest of its batch

    def iterate(self, ctx: Any) -> Cursor:
        return _BatchCursor(self.inputs[0].iterate(ctx), self.size, self.drop, self.whole)

    def cardinality(self) -> int:
        return _batches(self.cardinality_of_input(), self.size, self.drop)


class _Grouping(Cursor):
    """A cursor that reads several elements at a time."""

    def __init__(self, source: Cursor, size: int, drop: bool, whole: bool = False):
        self.inputs, self._source, self._size, self._drop, self._whole = (source,), source, size, drop, whole
        self._ended = False

    def read(self, ctx: Any) -> list:
        """Up to `size` elements; none if there are too few."""
        found: list = []
        failed = None
        while len(found) < self._size and not self._ended:
            try:
                element = self._source.next(ctx)
            except errors.OpError as e:
                if not self._whole or isinstance(e, (errors.CancelledError, errors.DeadlineExceededError)):
                    raise
                element, failed = (), failed or e
            if element is None:
                self._ended = True
            else:
                found.append(element)
        if failed is not None:
            raise failed
        return [] if self._drop and len(found) < self._size else found

    def save(self) -> Any:
        return self._ended, self._source.save()

    def restore(self, state: Any, ctx: Any) -> None:
        self._ended = state[0]
        self._source.restore(state[1], ctx)


class _BatchCursor(_Grouping):
    def next(self, ctx: Any) -> tuple | None:
        if not self._source.blocks:
            found = self.read(ctx)
            if self._whole and found:
                _check_sizes(found)
            return values.batch(found) if found else None
        parts: list = []
        have = 0
        while have < self._size and not self._ended:
            columns = self._source.block(ctx, self._size - have)
            if columns is None:
                self._ended = True
            else:
                parts.append(columns)
                have += len(columns[0])
        if not parts or self._drop and have < self._size:
            return None
        return values.join(parts)


def _check_sizes(found: list[tuple]) -> None:
    """Checks that all elements have the size of the first one; the message is that of a batch which is filled incrementally."""
    for element in found:
        for x, first in zip(element, found[0], strict=True):
            a, b = values.shape_of(x), values.shape_of(first)
            if a != b:
                raise errors.invalid("Cannot add tensor to the batch: number of elements does not match. Shapes are: [tensor]: "
                                     f"{values.show_dims(a)}, [batch]: {values.show_dims(b)}")


class PaddedBatch(Stage):
    """`size` elements as one, each padded to a common shape."""

    def __init__(self, source: Stage, size: int, shapes: list, padding: list, drop: bool):
        self.inputs, self.size, self.drop = (source,), positive(size, "batch_size"), drop
        if any(d < -1 for s in shapes for d in s):
            raise errors.invalid(f"The dimensions of a padded shape must be >= -1, got {shapes}")
        self.padded, self.padding = shapes, padding

    def iterate(self, ctx: Any) -> Cursor:
        return _PaddedCursor(self, self.inputs[0].iterate(ctx))

    def cardinality(self) -> int:
        return _batches(self.cardinality_of_input(), self.size, self.drop)


class _PaddedCursor(_Grouping):
    def __init__(self, stage: PaddedBatch, source: Cursor):
        super().__init__(source, stage.size, stage.drop)
        self._stage = stage

    def next(self, ctx: Any) -> tuple | None:
        found = self.read(ctx)
        if not found:
            return None
        stage = self._stage
        return tuple(padded([e[i] for e in found], shape, value, i)
                     for i, (shape, value) in enumerate(zip(stage.padded, stage.padding, strict=True)))


def padded(items: list, shape: tuple, value: Any, component: int) -> Any:
    """Values of one rank as a column, filled up with `value`; -1 in `shape` represents the largest of the sizes."""
    rank = len(shape)
    sizes = [values.shape_of(x) for x in items]
    for s in sizes:
        if len(s) != rank:
            raise errors.invalid(f"All elements in a batch must have the same rank as the padded shape for component"
                                 f"{component}: expected rank {rank} but got element with rank {len(s)}")
        if any(0 <= d < n for d, n in zip(shape, s, strict=True)):
            raise errors.DataLossError(None, None, f"Attempted to pad to a smaller size than the input element: shape "
                                                   f"{values.show_dims(s)} in {values.show_dims(shape)}.")
    full = [max(s[i] for s in sizes) if d < 0 else d for i, d in enumerate(shape)]
    if all(list(s) == full for s in sizes):
        return values.stack(items)
    first = items[0]
    out: Any
    if isinstance(first, torch.Tensor):
        out = first.new_empty([len(items), *full])
        out[...] = value
    else:
        out = np.empty([len(items), *full], dtype=object)
        out.fill(value[()] if isinstance(value, np.ndarray) else value)
    for i, (x, s) in enumerate(zip(items, sizes, strict=True)):
        out[(i, *map(slice, s))] = x
    return out


class SparseBatch(Stage):
    """`size` dense elements as one sparse tensor of a given row shape: indices, values, shape."""

    def __init__(self, source: Stage, size: int, row_shape: tuple):
        self.inputs, self.size, self.row_shape = (source,), positive(size, "batch_size"), row_shape

    def iterate(self, ctx: Any) -> Cursor:
        return _SparseBatchCursor(self, self.inputs[0].iterate(ctx))

    def cardinality(self) -> int:
        return _batches(self.cardinality_of_input(), self.size, False)


class _SparseBatchCursor(_Grouping):
    def __init__(self, stage: SparseBatch, source: Cursor):
        super().__init__(source, stage.size, False)
        self._stage = stage

    def next(self, ctx: Any) -> tuple | None:
        found = self.read(ctx)
        if not found:
            return None
        items, shape = [e[0] for e in found], self._stage.row_shape
        sizes = [values.shape_of(x) for x in items]
        for s in sizes:
            if len(s) != len(shape):
                raise errors.invalid(f"Input element had shape ({values.show_dims(s)}) that is incompatible with the row shape "
                                     f"({values.show_dims(shape)}).")
            if any(0 <= d < n for d, n in zip(shape, s, strict=True)):
                raise errors.DataLossError(None, None, f"Input element had shape ({values.show_dims(s)}) that is larger than "
                                                       f"the row shape ({values.show_dims(shape)}).")
        full = [max(s[i] for s in sizes) if d < 0 else d for i, d in enumerate(shape)]
        indices = [torch.nn.functional.pad(torch.cartesian_prod(*map(torch.arange, s)).reshape(-1, len(s)), (1, 0), value=i)
                   if s else torch.tensor([[i]]) for i, s in enumerate(sizes)]
        flat = [x.reshape(-1) for x in items]
        variant = values.objects([torch.cat(indices).to(torch.int64), values.concat(flat),
                                  torch.tensor([len(items), *full], dtype=torch.int64)])
        return (variant,)


class Unbatch(Stage):
    """The rows of elements, as elements."""

    def __init__(self, source: Stage):
        self.inputs = (source,)

    def iterate(self, ctx: Any) -> Cursor:
        return _UnbatchCursor(self.inputs[0].iterate(ctx))

    def cardinality(self) -> int:
        n = self.cardinality_of_input()
        sizes = {s[0] for s in self.inputs[0].shapes if s}
        if n in (INFINITE, 0):
            return n
        return n * sizes.pop() if n > 0 and len(sizes) == 1 and None not in sizes else UNKNOWN


class _UnbatchCursor(BlockCursor):
    def __init__(self, source: Cursor):
        super().__init__()
        self.inputs, self._source = (source,), source
        self._batch: tuple | None = None
        self._row = 0

    def produce(self, ctx: Any, limit: int) -> tuple | None:
        while self._batch is None or self._row >= len(self._batch[0]):
            self._batch, self._row = self._source.next(ctx), 0
            if self._batch is None:
                return None
            self._check(self._batch)
        start, self._row = self._row, self._row + limit
        return tuple(c[start:start + limit] for c in self._batch)

    def _check(self, batch: tuple) -> None:
        if any(not values.shape_of(c) for c in batch):
            self._batch = None
            raise errors.invalid("An element to unbatch has a scalar component; each component needs at least one dimension.")
        if len({len(c) for c in batch}) > 1:
            self._batch = None
            i = next(i for i, c in enumerate(batch) if len(c) != len(batch[0]))
            raise errors.invalid("All components of an element to unbatch must have the same number of rows: component 0 has "
                                 f"{len(batch[0])} but component {i} had size {len(batch[i])}.")

    def position(self) -> Any:
        return self._batch, self._row, self._source.save()

    def go_to(self, position: Any, ctx: Any) -> None:
        batch, self._row, state = position
        self._batch = None if batch is None else tuple(batch)
        self._source.restore(state, ctx)


class Elements(Stage):
    """A list of existing elements: a window, or a group."""

    def __init__(self, elements: list, types: tuple, shapes: tuple):
        self.elements, self.types, self.shapes = elements, types, shapes

    def iterate(self, ctx: Any) -> Cursor:
        return _ElementsCursor(self.elements)

    def cardinality(self) -> int:
        return len(self.elements)


class _ElementsCursor(Cursor):
    quick = True

    def __init__(self, elements: list):
        self._elements, self._at = elements, 0

    def next(self, ctx: Any) -> tuple | None:
        i = self._at
        if i >= len(self._elements):
            return None
        self._at = i + 1
        return self._elements[i]

    def save(self) -> Any:
        return self._at

    def restore(self, state: Any, ctx: Any) -> None:
        self._at = state


class Window(Stage):
    """Datasets of `size` elements each, `stride` apart; the next starts `shift` elements later."""

    def __init__(self, source: Stage, size: int, shift: int, stride: int, drop: bool):
        for n, name in ((size, "size"), (shift, "shift"), (stride, "stride")):
            if n <= 0:
                raise errors.invalid(f"Window {name} must be greater than zero.")
        self.inputs, self.size, self.shift, self.stride, self.drop = (source,), size, shift, stride, drop

    def iterate(self, ctx: Any) -> Cursor:
        return _WindowCursor(self, self.inputs[0].iterate(ctx))

    def cardinality(self) -> int:
        n = self.cardinality_of_input()
        if n < 0:
            return n
        span = (self.size - 1) * self.stride + 1
        return max(0, (n - span) // self.shift + 1) if self.drop else -(-n // self.shift)


class _WindowCursor(Cursor):
    def __init__(self, stage: Window, source: Cursor):
        self.inputs, self._source, self._stage = (source,), source, stage
        self._buffer: collections.deque = collections.deque()       # elements, or exceptions that represent them
        self._skip, self._ended = 0, False

    def next(self, ctx: Any) -> tuple | None:
        stage = self._stage
        span = (stage.size - 1) * stage.stride + 1
        while self._skip and not self._ended:
            self._skip -= 1
            self._ended = self._source.next(ctx) is None
        while len(self._buffer) < span and not self._ended:
            try:
                element: Any = self._source.next(ctx)
            except errors.OpError as e:
                element = e
            if element is None:
                self._ended = True
            else:
                self._buffer.append(element)
        if not self._buffer or stage.drop and len(self._buffer) < span:
            return None
        chosen = [self._buffer[i] for i in range(0, min(span, len(self._buffer)), stage.stride)]
        for _ in range(min(stage.shift, len(self._buffer))):
            self._buffer.popleft()
        self._skip = max(0, stage.shift - span)
        for element in chosen:
            if isinstance(element, Exception):
                raise element
        below = stage.inputs[0]
        return tuple(Elements([(e[i],) for e in chosen], below.types[i:i + 1], below.shapes[i:i + 1])
                     for i in range(len(chosen[0])))

    def save(self) -> Any:
        if any(isinstance(e, Exception) for e in self._buffer):
            raise errors.UnimplementedError(None, None, "The position of a window with a failed element cannot be saved.")
        return list(self._buffer), self._skip, self._ended, self._source.save()

    def restore(self, state: Any, ctx: Any) -> None:
        buffer, self._skip, self._ended, position = state
        self._buffer = collections.deque(tuple(e) for e in buffer)
        self._source.restore(position, ctx)


class SlidingBatch(Stage):
    """The elements of windows, each window stacked into one element."""

    def __init__(self, source: Stage, size: int, shift: int, stride: int, drop: bool):
        self.windows = Window(source, size, shift, stride, drop)
        self.inputs = (source,)

    def iterate(self, ctx: Any) -> Cursor:
        return _SlidingCursor(_WindowCursor(self.windows, self.inputs[0].iterate(ctx)))

    def cardinality(self) -> int:
        return self.windows.cardinality()


class _SlidingCursor(Cursor):
    def __init__(self, windows: _WindowCursor):
        self.inputs, self._windows = (windows,), windows

    def next(self, ctx: Any) -> tuple | None:
        window = self._windows.next(ctx)
        if window is None:
            return None
        return tuple(column for part in window for column in values.batch(part.elements))

    def save(self) -> Any:
        return self._windows.save()

    def restore(self, state: Any, ctx: Any) -> None:
        self._windows.restore(state, ctx)


class Rebatch(Stage):
    """Rebatches rows into batches of other sizes, which repeat."""

    def __init__(self, source: Stage, sizes: list[int], drop: bool):
        if not sizes or any(size < 0 for size in sizes) or not sizes[0]:
            raise errors.invalid(f"`batch_sizes` must not be negative, and the first must be greater than zero, got {sizes}")
        self.inputs, self.sizes, self.drop = (source,), sizes, drop

    def iterate(self, ctx: Any) -> Cursor:
        return _RebatchCursor(self, self.inputs[0].iterate(ctx))


class _RebatchCursor(Cursor):
    def __init__(self, stage: Rebatch, source: Cursor):
        self._rows = _UnbatchCursor(source)
        self.inputs, self._stage, self._turn, self._ended = (self._rows,), stage, 0, False
        self._empty: tuple | None = None             # an empty batch, after at least one batch

    def next(self, ctx: Any) -> tuple | None:
        size, parts, have = self._stage.sizes[self._turn % len(self._stage.sizes)], [], 0
        while have < size and not self._ended:
            columns = self._rows.block(ctx, size - have)
            if columns is None:
                self._ended = True
            else:
                parts.append(columns)
                have += len(columns[0])
        if self._ended and (self._stage.drop or not have):
            return None
        self._turn += 1
        if not parts:
            return self._empty
        batch = values.join(parts)
        self._empty = tuple(c[:0] for c in batch)
        return batch

    def save(self) -> Any:
        return self._turn, self._ended, self._empty, self._rows.save()

    def restore(self, state: Any, ctx: Any) -> None:
        self._turn, self._ended, empty, rows = state
        self._empty = None if empty is None else tuple(empty)
        self._rows.restore(rows, ctx)


class SplitBatches(Stage):
    """Splits every batch into `count` parts of equal size; the last parts have fewer rows, or none, if it cannot be divided
    evenly."""

    def __init__(self, source: Stage, count: int):
        self.inputs, self.count = (source,), positive(count, "num_replicas")

    def iterate(self, ctx: Any) -> Cursor:
        return _SplitCursor(self.inputs[0].iterate(ctx), self.count)

    def cardinality(self) -> int:
        n = self.cardinality_of_input()
        return n if n < 0 else n * self.count


class _SplitCursor(Cursor):
    def __init__(self, source: Cursor, count: int):
        self.inputs, self._source, self._count = (source,), source, count
        self._batch: tuple | None = None
        self._part = 0

    def next(self, ctx: Any) -> tuple | None:
        if self._part % self._count == 0:
            self._batch, self._part = self._source.next(ctx), 0
            if self._batch is None:
                return None
            if any(not values.shape_of(c) for c in self._batch):
                raise errors.invalid("Cannot split a batch that has a scalar component")
        batch: tuple = self._batch                   # type: ignore[assignment]
        rows = -(-len(batch[0]) // self._count)
        start = self._part * rows
        self._part += 1
        return tuple(c[start:start + rows] for c in batch)

    def save(self) -> Any:
        return self._batch, self._part, self._source.save()

    def restore(self, state: Any, ctx: Any) -> None:
        batch, self._part, position = state
        self._batch = None if batch is None else tuple(batch)
        self._source.restore(position, ctx)
