"""Stages that have no input: tensors, slices of tensors, ranges, rows of sparse tensors, random numbers, generators."""
from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.data.pipelines import values
from penstock._src.data.pipelines.base import INFINITE, BlockCursor, Cursor, Function, Stage
from penstock._src.kernels import philox


class Tensors(Stage):
    """One element."""

    def __init__(self, components: list):
        self.components = tuple(components)

    def iterate(self, ctx: Any) -> Cursor:
        return _Once(self.components)

    def cardinality(self) -> int:
        return 1


class _Once(Cursor):
    quick = True

    def __init__(self, element: tuple):
        self._element, self._done = element, False

    def next(self, ctx: Any) -> tuple | None:
        if self._done:
            return None
        self._done = True
        return self._element

    def save(self) -> Any:
        return self._done

    def restore(self, state: Any, ctx: Any) -> None:
        self._done = state


class _Counting(BlockCursor):
    """A cursor over a known number of rows."""

    quick = True

    def __init__(self, size: int):
        super().__init__()
        self.size, self.done = size, 0

    def produce(self, ctx: Any, limit: int) -> tuple | None:
        start = self.done
        if start >= self.size:
            return None
        self.done = min(self.size, start + limit)
        return self.rows_between(start, self.done)

    def jump(self, count: int) -> int:
        given = min(count, self._count - self._at)               # of the block that is being given out
        self._at += given
        further = min(count - given, self.size - self.done)
        self.done += further
        return given + further

    def rows_between(self, start: int, stop: int) -> tuple:
        """The columns of some rows."""
        raise NotImplementedError

    def position(self) -> Any:
        return self.done

    def go_to(self, position: Any, ctx: Any) -> None:
        self.done = position


class Slices(Stage):
    """The slices of tensors along their first axis."""

    def __init__(self, components: list):
        if any(not values.shape_of(c) for c in components):
            raise errors.invalid("All components must be at least 1-dimensional")
        self.columns, self.size = tuple(components), len(components[0])
        for i, c in enumerate(components):
            if len(c) != self.size:
                raise errors.invalid(f"All components must have the same size in the 0th dimension: component {i} has "
                                     f"{len(c)}, the first has {self.size}")

    def iterate(self, ctx: Any) -> Cursor:
        return _SliceCursor(self.columns, self.size)

    def cardinality(self) -> int:
        return self.size


class _SliceCursor(_Counting):
    def __init__(self, columns: tuple, size: int):
        super().__init__(size)
        self._all = columns

    def rows_between(self, start: int, stop: int) -> tuple:
        return tuple(c[start:stop] for c in self._all)


class Range(Stage):
    """The numbers from `start` until `stop` in steps."""

    def __init__(self, start: int, stop: int, step: int):
        if step == 0:
            raise errors.invalid("The step of a range must not be zero.")
        self.start, self.step = start, step
        self.size = max(0, -((start - stop) // step))
        self.endless = step > 0 and stop == dtypes.int64.max         # as `counter` has it

    def iterate(self, ctx: Any) -> Cursor:
        return _RangeCursor(self.start, self.step, self.size, self.types[0].torch)

    def cardinality(self) -> int:
        return INFINITE if self.endless else self.size


class _RangeCursor(_Counting):
    def __init__(self, start: int, step: int, size: int, dtype: Any):
        super().__init__(size)
        self._start, self._step, self._dtype = start, step, dtype

    def rows_between(self, start: int, stop: int) -> tuple:
        first = self._start + start * self._step
        return (torch.arange(first, first + (stop - start) * self._step, self._step, dtype=self._dtype),)


class SparseSlices(Stage):
    """The rows of a sparse tensor along its first axis, as sparse tensors: indices, values, shape."""

    def __init__(self, indices: torch.Tensor, sparse_values: Any, shape: torch.Tensor):
        n, rank = len(indices), len(shape)
        if indices.ndim != 2 or indices.shape[1] != rank or rank < 1 or len(sparse_values) != n:
            raise errors.invalid(f"The components of a sparse tensor do not match: indices {list(indices.shape)}, values "
                                 f"{list(sparse_values.shape)}, shape {list(shape.shape)}")
        first = indices[:, 0]
        if n and (bool((first[1:] < first[:-1]).any()) or int(first[0]) < 0 or int(first[-1]) >= int(shape[0])):
            raise errors.UnimplementedError(None, None, "The SparseTensor must be ordered in the batch dimension; handling "
                                                        "arbitrarily ordered input is not currently supported.")
        self.indices, self.values, self.shape = indices, sparse_values, shape

    def iterate(self, ctx: Any) -> Cursor:
        return _SparseCursor(self)

    def cardinality(self) -> int:
        return int(self.shape[0])


class _SparseCursor(Cursor):
    def __init__(self, stage: SparseSlices):
        self._stage, self._row, self._at = stage, 0, 0

    def next(self, ctx: Any) -> tuple | None:
        s = self._stage
        if self._row >= int(s.shape[0]):
            return None
        start = self._at
        stop = int(torch.searchsorted(s.indices[:, 0].contiguous(), self._row, right=True))
        self._row, self._at = self._row + 1, stop
        return s.indices[start:stop, 1:], s.values[start:stop], s.shape[1:]

    def save(self) -> Any:
        return self._row, self._at

    def restore(self, state: Any, ctx: Any) -> None:
        self._row, self._at = state


class Random(Stage):
    """An infinite stream of pseudo-random 32-bit numbers. `next_seeds` returns the two seeds of an iteration."""

    def __init__(self, next_seeds: Callable[[], tuple[int, int]]):
        self.next_seeds = next_seeds

    def iterate(self, ctx: Any) -> Cursor:
        return _RandomCursor(self.next_seeds())

    def cardinality(self) -> int:
        return INFINITE


class _RandomCursor(_Counting):
    """TensorFlow's numbers. Those of a chunk depend on the seeds and its place alone, so that a position is one number."""

    CHUNK = 1024

    def __init__(self, seeds: tuple):
        super().__init__(1 << 62)
        self._seeds = generator_seeds(*seeds)
        self._chunk: tuple = (-1, None)

    def rows_between(self, start: int, stop: int) -> tuple:
        self.done = stop = min(stop, (start // self.CHUNK + 1) * self.CHUNK)
        at, numbers = self._chunk
        if at != start // self.CHUNK:
            at = start // self.CHUNK
            place = philox.Philox.seeded(*self._seeds).skip(at * self.CHUNK // 4)
            numbers = place.words(self.CHUNK // 4).reshape(-1)
            self._chunk = (at, numbers)
        return (numbers[start - at * self.CHUNK:stop - at * self.CHUNK],)

    def position(self) -> Any:
        return self.done, self._seeds

    def go_to(self, position: Any, ctx: Any) -> None:
        self.done, self._seeds = position[0], tuple(position[1])


def generator_seeds(seed: int, seed2: int) -> tuple[int, int]:
    """Two seeds as a generator takes them; unpredictable ones if both are zero."""
    if seed == 0 and seed2 == 0:
        drawn = np.random.SeedSequence().generate_state(2, np.uint64)
        return int(drawn[0]), int(drawn[1])
    return seed & (2**64 - 1), seed2 & (2**64 - 1)


class Generator(Stage):
    """Elements from functions: `first` creates a state, `next_one` returns an element, `last` finalizes the state."""

    def __init__(self, first: Function, next_one: Function, last: Function):
        self.first, self.next_one, self.last = first, next_one, last

    def iterate(self, ctx: Any) -> Cursor:
        return _GeneratorCursor(self, ctx)


class _GeneratorCursor(Cursor):
    def __init__(self, stage: Generator, ctx: Any):
        self._next, self._last = stage.next_one.runner(ctx), stage.last.runner(ctx)
        self._first = stage.first.runner(ctx)
        self._background = ctx.background()
        self._state: tuple | None = None
        self._done = False
        self._lock = threading.Lock()

    def next(self, ctx: Any) -> tuple | None:
        if self._done:
            return None
        if self._state is None:
            self._state = self._first(ctx, ())
        try:
            return self._next(ctx, self._state)
        except errors.OutOfRangeError:
            self._end(ctx)
            return None

    def _end(self, ctx: Any) -> None:
        with self._lock:
            if self._done:
                return
            self._done = True
        if self._state is not None:
            self._last(ctx, self._state)

    def close(self) -> None:
        self._end(self._background)

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:          # there is no caller to raise it to
            return
