"""Stages that call functions: map, filter, flat_map, interleave, scan, take_while.

A function is a *body* (see `ops.data.dataset_base`): `body.runner(ctx)` returns a callable of one element, and
`body.vectorized(ctx)` one of a whole block, or None for functions that must be called on single elements.
"""
from __future__ import annotations

import collections
from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.data.pipelines import values
from penstock._src.data.pipelines.base import INFINITE, UNKNOWN, BlockCursor, Cursor, Stage, most_rows

_MOST_ROW_BYTES = 1 << 14           # larger elements are computed one by one: their kernels are long enough


def stage_of(value: Any) -> Stage:
    """The stage in a variant; InvalidArgumentError for anything else."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    if not isinstance(value, Stage):
        raise errors.invalid(f"Tensor must be a Dataset object, got {type(value).__name__}")
    return value


class Calling(BlockCursor):
    """A cursor that calls a function on blocks of its input, and after a failure on single elements."""

    def __init__(self, source: Cursor, body: Any, ctx: Any):
        super().__init__()
        self.inputs, self._source = (source,), source
        self._run = body.runner(ctx)
        self._body, self._many = body, body.vectorized(ctx) if source.blocks else None
        self.blocks = self._many is not None
        self._stash: collections.deque = collections.deque()       # elements of a block that could not be called at once
        self._ahead = 1                              # rows to compute at once, up to the useful maximum
        self._most_rows = 0

    @property
    def quick(self) -> bool:
        return self._body.pure and self._source.quick

    def next(self, ctx: Any) -> tuple | None:
        return super().next(ctx) if self._many is not None or self._at < self._count else self.one(ctx)

    def one(self, ctx: Any) -> tuple | None:
        """The next element, computed separately."""
        raise NotImplementedError

    def read(self, ctx: Any) -> tuple | None:
        """The next element of the input."""
        return self._stash.popleft() if self._stash else self._source.next(ctx)

    def produce(self, ctx: Any, limit: int) -> tuple | None:
        while self._many is not None and limit > 1:
            self._ahead = min(max(limit, 2 * self._ahead), self._most_rows or limit)
            columns = self._source.block(ctx, max(self._ahead - self._ahead % limit, min(self._ahead, limit)))
            if columns is None:
                return None
            try:
                out = self.several(ctx, columns, self._many(ctx, columns))
            except Exception:                                      # some ops depend on values on the host: call it per element
                self._body.give_up()
                self._many, self.blocks = None, False
                self._stash.extend(values.elements(columns))
                break
            if not self._most_rows:
                self._measure(columns, out)
            if out is not None:
                return out
        element = self.one(ctx)
        return None if element is None else tuple(map(values.single, element))

    def several(self, ctx: Any, columns: tuple, results: tuple) -> tuple | None:
        """The block to return, from an input block and the function's results for it; None if it has no rows."""
        raise NotImplementedError

    def _measure(self, columns: tuple, out: tuple | None) -> None:
        both = (*columns, *(out or ()))
        if sum(map(values.row_bytes, both)) > _MOST_ROW_BYTES:
            self._many, self.blocks = None, False
        self._most_rows = most_rows(both)

    def position(self) -> Any:
        return {"stash": list(self._stash), "input": self._source.save()}

    def go_to(self, position: Any, ctx: Any) -> None:
        self._stash = collections.deque(tuple(e) for e in position["stash"])
        self._source.restore(position["input"], ctx)


class Map(Stage):
    """A function of every element."""

    def __init__(self, source: Stage, body: Any, preserve_cardinality: bool):
        self.inputs, self.body, self.preserve = (source,), body, preserve_cardinality

    def iterate(self, ctx: Any) -> Cursor:
        return _MapCursor(self.inputs[0].iterate(ctx), self.body, ctx, self.preserve)

    def cardinality(self) -> int:
        n = self.cardinality_of_input()
        return n if self.preserve or n == INFINITE else UNKNOWN


class _MapCursor(Calling):
    def __init__(self, source: Cursor, body: Any, ctx: Any, preserve: bool):
        super().__init__(source, body, ctx)
        self._preserve, self._done = preserve, False

    def one(self, ctx: Any) -> tuple | None:
        element = None if self._done else self.read(ctx)
        if element is None:
            return None
        try:
            return self._run(ctx, element)
        except errors.OutOfRangeError as e:
            if self._preserve:
                raise ended(e) from None
            self._done = True
            return None

    def several(self, ctx: Any, columns: tuple, results: tuple) -> tuple | None:
        return results


def ended(error: errors.OpError) -> errors.OpError:
    """The error for an OutOfRangeError in a function of a stage that keeps the number of elements."""
    return errors.invalid(f"Function invocation produced OutOfRangeError: {error.message}")


class Filter(Stage):
    """The elements for which a function is true."""

    def __init__(self, source: Stage, body: Any):
        self.inputs, self.body = (source,), body

    def iterate(self, ctx: Any) -> Cursor:
        source = self.inputs[0].iterate(ctx)
        if self.stats is not None:
            return _CountingFilter(source, self.body, ctx, self.stats)
        return _FilterCursor(source, self.body, ctx)


def truth(result: tuple) -> bool:
    """The result of a predicate."""
    value = result[0]
    if len(result) != 1 or value.dtype is not torch.bool or value.numel() != 1:
        raise errors.invalid("Filter predicate `f` must return a scalar bool.")
    return bool(value)


class _FilterCursor(Calling):
    def one(self, ctx: Any) -> tuple | None:
        while True:
            element = self.read(ctx)
            if element is None or truth(self._run(ctx, element)):
                return element

    def several(self, ctx: Any, columns: tuple, results: tuple) -> tuple | None:
        mask = results[0]
        if len(results) != 1 or mask.dtype is not torch.bool or mask.ndim != 1:
            raise errors.invalid("Filter predicate `f` must return a scalar bool.")
        keep = mask.nonzero().reshape(-1).numpy()
        return tuple(values.gather(c, keep) for c in columns) if len(keep) else None


class _CountingFilter(_FilterCursor):
    """A filter that reports how many elements it has kept and dropped."""

    def __init__(self, source: Cursor, body: Any, ctx: Any, stats: Any):
        super().__init__(source, body, ctx)
        self._stats, self._kept, self._dropped = stats, 0, 0

    def one(self, ctx: Any) -> tuple | None:
        while (element := self.read(ctx)) is not None:
            if truth(self._run(ctx, element)):
                self._kept += 1
                self._stats.scalar("filtered_elements", self._kept)
                return element
            self._dropped += 1
            self._stats.scalar("dropped_elements", self._dropped)
        return None


class FlatMap(Stage):
    """The elements of the datasets that a function returns for every element, in sequence."""

    def __init__(self, source: Stage, body: Any):
        self.inputs, self.body = (source,), body

    def iterate(self, ctx: Any) -> Cursor:
        return _FlatMapCursor(self.inputs[0].iterate(ctx), self.body, ctx)


class _FlatMapCursor(Cursor):
    quick = False

    def __init__(self, source: Cursor, body: Any, ctx: Any):
        self.inputs, self._source, self._run = (source,), source, body.runner(ctx)
        self._current: Cursor | None = None
        self._from: tuple = ()                       # the element that the current dataset was created of

    @property
    def blocks(self) -> bool:                        # type: ignore[override]
        """Whether the current dataset produces blocks; True before the first one."""
        return self._current is None or self._current.blocks

    def _open(self, ctx: Any) -> bool:
        element = self._source.next(ctx)
        if element is None:
            return False
        self._from = element
        self._current = stage_of(self._run(ctx, element)[0]).iterate(ctx)
        return True

    def next(self, ctx: Any) -> tuple | None:
        while True:
            if self._current is not None:
                found = self._current.next(ctx)
                if found is not None:
                    return found
                self._finish()
            if not self._open(ctx):
                return None

    def block(self, ctx: Any, limit: int) -> tuple | None:
        while True:
            if self._current is not None:
                found = self._current.block(ctx, limit)
                if found is not None:
                    return found
                self._finish()
            if not self._open(ctx):
                return None

    def _finish(self) -> None:
        current, self._current = self._current, None
        if current is not None:
            current.close()

    def close(self) -> None:
        self._finish()
        super().close()

    def save(self) -> Any:
        current = self._current
        return {"input": self._source.save(), "from": self._from, "current": None if current is None else current.save()}

    def restore(self, state: Any, ctx: Any) -> None:
        self._source.restore(state["input"], ctx)
        self._from, self._current = tuple(state["from"]), None
        if state["current"] is not None:
            self._current = stage_of(self._run(ctx, self._from)[0]).iterate(ctx)
            self._current.restore(state["current"], ctx)


class Interleave(Stage):
    """The elements of `cycle_length` datasets at a time, returned by a function, `block_length` of each in turn."""

    def __init__(self, source: Stage, body: Any, cycle_length: int, block_length: int):
        if cycle_length <= 0:
            raise errors.invalid(f"`cycle_length` must be > 0, got {cycle_length}")
        if block_length <= 0:
            raise errors.invalid(f"`block_length` must be > 0, got {block_length}")
        self.inputs, self.body, self.cycle, self.block = (source,), body, cycle_length, block_length

    def iterate(self, ctx: Any) -> Cursor:
        return _InterleaveCursor(self.inputs[0].iterate(ctx), self.body, self.cycle, self.block, ctx)


class _InterleaveCursor(Cursor):
    quick = False

    def __init__(self, source: Cursor, body: Any, cycle: int, block: int, ctx: Any):
        self.inputs, self._source, self._run = (source,), source, body.runner(ctx)
        self._cycle, self._length = cycle, block
        self._open: dict[int, tuple] = {}            # place in the cycle -> (cursor, the element it was created of)
        self._at = self._given = 0
        self._ended = False

    def next(self, ctx: Any) -> tuple | None:
        while self._open or not self._ended:
            current = self._open.get(self._at)
            if current is not None:
                found = current[0].next(ctx)
                if found is not None:
                    self._given += 1
                    if self._given == self._length:
                        self._advance()
                    return found
                del self._open[self._at]
                current[0].close()
                self._advance()
            elif not self._ended:
                element = self._source.next(ctx)
                if element is None:
                    self._ended = True
                else:
                    self._open[self._at] = (stage_of(self._run(ctx, element)[0]).iterate(ctx), element)
            else:
                self._advance()
        return None

    def _advance(self) -> None:
        self._given, self._at = 0, (self._at + 1) % self._cycle
        if self._ended and self._open:               # long cycles with few open datasets
            while self._at not in self._open:
                self._at = min((i for i in self._open if i >= self._at), default=min(self._open))

    def close(self) -> None:
        for cursor, _ in self._open.values():
            cursor.close()
        super().close()

    def save(self) -> Any:
        return {"input": self._source.save(), "at": self._at, "given": self._given, "ended": self._ended,
                "open": [(i, element, cursor.save()) for i, (cursor, element) in self._open.items()]}

    def restore(self, state: Any, ctx: Any) -> None:
        self._source.restore(state["input"], ctx)
        self._at, self._given, self._ended, self._open = state["at"], state["given"], state["ended"], {}
        for i, element, position in state["open"]:
            cursor = stage_of(self._run(ctx, tuple(element))[0]).iterate(ctx)
            cursor.restore(position, ctx)
            self._open[i] = (cursor, tuple(element))


class Scan(Stage):
    """A function of a state and every element: returns the new state and an element."""

    def __init__(self, source: Stage, state: list, body: Any, preserve_cardinality: bool):
        self.inputs, self.state, self.body, self.preserve = (source,), tuple(state), body, preserve_cardinality

    def iterate(self, ctx: Any) -> Cursor:
        return _ScanCursor(self.inputs[0].iterate(ctx), self.state, self.body, self.preserve, ctx)

    def cardinality(self) -> int:
        return self.cardinality_of_input() if self.preserve else UNKNOWN


class _ScanCursor(Cursor):
    quick = False

    def __init__(self, source: Cursor, state: tuple, body: Any, preserve: bool, ctx: Any):
        self.inputs, self._source, self._run = (source,), source, body.runner(ctx)
        self._state, self._preserve, self._done = state, preserve, False

    def next(self, ctx: Any) -> tuple | None:
        element = None if self._done else self._source.next(ctx)
        if element is None:
            return None
        try:
            out = self._run(ctx, (*self._state, *element))
        except errors.OutOfRangeError as e:
            if self._preserve:
                raise ended(e) from None
            self._done = True
            return None
        n = len(self._state)
        self._state = out[:n]
        return out[n:]

    def save(self) -> Any:
        return {"input": self._source.save(), "state": self._state, "done": self._done}

    def restore(self, state: Any, ctx: Any) -> None:
        self._source.restore(state["input"], ctx)
        self._state, self._done = tuple(state["state"]), state["done"]


class TakeWhile(Stage):
    """The elements before the first for which a function is false."""

    def __init__(self, source: Stage, body: Any):
        self.inputs, self.body = (source,), body

    def iterate(self, ctx: Any) -> Cursor:
        return _TakeWhileCursor(self.inputs[0].iterate(ctx), self.body, ctx)


class _TakeWhileCursor(Cursor):
    quick = False

    def __init__(self, source: Cursor, body: Any, ctx: Any):
        self.inputs, self._source, self._run, self._done = (source,), source, body.runner(ctx), False

    def next(self, ctx: Any) -> tuple | None:
        element = None if self._done else self._source.next(ctx)
        if element is None or not truth(self._run(ctx, element)):
            self._done = True
            return None
        return element

    def save(self) -> Any:
        return self._done, self._source.save()

    def restore(self, state: Any, ctx: Any) -> None:
        self._done = state[0]
        self._source.restore(state[1], ctx)
