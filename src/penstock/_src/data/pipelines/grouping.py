"""Stages that group elements by key, choose among datasets, and drop elements: windows by key, reducers, sampling, unique."""
from __future__ import annotations

import logging
import time
from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.data.pipelines.base import INFINITE, UNKNOWN, Cursor, Stage
from penstock._src.data.pipelines.batching import Elements
from penstock._src.data.pipelines.mapping import stage_of


def _scalar(result: tuple, what: str) -> int:
    value = result[0]
    if len(result) != 1 or not isinstance(value, torch.Tensor) or value.dtype is not torch.int64 or value.numel() != 1:
        raise errors.invalid(f"`{what}` must return a scalar int64.")
    return int(value)


class GroupByWindow(Stage):
    """The elements that a function returns for windows of elements with the same key."""

    def __init__(self, source: Stage, key: Any, reduce: Any, size: Any):
        self.inputs, self.key, self.reduce, self.size = (source,), key, reduce, size

    def iterate(self, ctx: Any) -> Cursor:
        return _WindowsCursor(self, self.inputs[0].iterate(ctx), ctx)

    def cardinality(self) -> int:
        return INFINITE if self.cardinality_of_input() == INFINITE else UNKNOWN


class _WindowsCursor(Cursor):
    quick = False

    def __init__(self, stage: GroupByWindow, source: Cursor, ctx: Any):
        self.inputs, self._source, self._stage = (source,), source, stage
        self._key, self._reduce, self._size = (b.runner(ctx) for b in (stage.key, stage.reduce, stage.size))
        self._groups: dict[int, list] = {}
        self._sizes: dict[int, int] = {}
        self._current: Cursor | None = None
        self._from: tuple = ()                       # key and elements of the window that is being given out
        self._ended = False

    def next(self, ctx: Any) -> tuple | None:
        while True:
            if self._current is not None:
                found = self._current.next(ctx)
                if found is not None:
                    return found
                self._current.close()
                self._current = None
            if not self._ended:
                element = self._source.next(ctx)
                if element is None:
                    self._ended = True
                else:
                    self._add(element, ctx)
            elif self._groups:
                self._open(min(self._groups), ctx)
            else:
                return None

    def _add(self, element: tuple, ctx: Any) -> None:
        key = _scalar(self._key(ctx, element), "key_func")
        group = self._groups.setdefault(key, [])
        if key not in self._sizes:
            size = _scalar(self._size(ctx, (torch.tensor(key),)), "window_size_func")
            if size <= 0:
                raise errors.invalid(f"Window size must be greater than zero, but got {size}.")
            self._sizes[key] = size
        group.append(element)
        if len(group) == self._sizes[key]:
            self._open(key, ctx)

    def _open(self, key: int, ctx: Any) -> None:
        self._from = (key, self._groups.pop(key))
        self._sizes.pop(key, None)
        self._current = self._made(ctx)

    def _made(self, ctx: Any) -> Cursor:
        key, elements = self._from
        below = self._stage.inputs[0]
        window = Elements(elements, below.types, below.shapes)
        return stage_of(self._reduce(ctx, (torch.tensor(key), window))[0]).iterate(ctx)

    def close(self) -> None:
        if self._current is not None:
            self._current.close()
        super().close()

    def save(self) -> Any:
        return {"input": self._source.save(), "groups": self._groups, "sizes": self._sizes, "from": self._from,
                "current": None if self._current is None else self._current.save(), "ended": self._ended}

    def restore(self, state: Any, ctx: Any) -> None:
        self._source.restore(state["input"], ctx)
        self._groups = {k: [tuple(e) for e in g] for k, g in state["groups"].items()}
        self._sizes, self._from, self._ended = dict(state["sizes"]), tuple(state["from"]), state["ended"]
        self._current = None
        if state["current"] is not None:
            self._from = (self._from[0], [tuple(e) for e in self._from[1]])
            self._current = self._made(ctx)
            self._current.restore(state["current"], ctx)


class GroupByReducer(Stage):
    """One element per key: a state that a function updates with every element of that key."""

    def __init__(self, source: Stage, key: Any, first: Any, reduce: Any, last: Any):
        self.inputs, self.key, self.first, self.reduce, self.last = (source,), key, first, reduce, last

    def iterate(self, ctx: Any) -> Cursor:
        return _ReducersCursor(self, self.inputs[0].iterate(ctx), ctx)


class _ReducersCursor(Cursor):
    quick = False

    def __init__(self, stage: GroupByReducer, source: Cursor, ctx: Any):
        self.inputs, self._source = (source,), source
        self._key, self._first, self._reduce, self._last = (
            b.runner(ctx) for b in (stage.key, stage.first, stage.reduce, stage.last))
        self._states: dict[int, tuple] = {}
        self._left: list[int] | None = None          # the keys to return out, once the input has ended

    def next(self, ctx: Any) -> tuple | None:
        while self._left is None:
            element = self._source.next(ctx)
            if element is None:
                self._left = sorted(self._states, reverse=True)
                break
            key = _scalar(self._key(ctx, element), "key_func")
            state = self._states.get(key)
            if state is None:
                state = self._first(ctx, (torch.tensor(key),))
            self._states[key] = self._reduce(ctx, (*state, *element))
        return self._last(ctx, self._states.pop(self._left.pop())) if self._left else None

    def save(self) -> Any:
        return {"input": self._source.save(), "states": self._states, "left": self._left}

    def restore(self, state: Any, ctx: Any) -> None:
        self._source.restore(state["input"], ctx)
        self._states = {k: tuple(v) for k, v in state["states"].items()}
        self._left = state["left"]


class DirectedInterleave(Stage):
    """Elements of several datasets; another dataset selects which one is next."""

    def __init__(self, selector: Stage, sources: list[Stage], stop_on_empty: bool):
        self.inputs, self.stop = (selector, *sources), stop_on_empty

    def iterate(self, ctx: Any) -> Cursor:
        return _DirectedCursor(tuple(s.iterate(ctx) for s in self.inputs), self.stop)

    def cardinality(self) -> int:
        counts = [s.cardinality() for s in self.inputs[1:]]
        return INFINITE if INFINITE in counts and not self.stop and self.inputs[0].cardinality() == INFINITE else UNKNOWN


class _DirectedCursor(Cursor):
    def __init__(self, cursors: tuple, stop_on_empty: bool):
        self.inputs, self._stop = cursors, stop_on_empty
        self._ended = [False] * (len(cursors) - 1)

    def next(self, ctx: Any) -> tuple | None:
        while not all(self._ended):
            choice = self.inputs[0].next(ctx)
            if choice is None:
                break
            i = int(choice[0])
            if not 0 <= i < len(self._ended):
                raise errors.invalid(f"Selector index out of range: {i} >= {len(self._ended)}")
            if self._ended[i]:
                continue
            element = self.inputs[i + 1].next(ctx)
            if element is not None:
                return element
            self._ended[i] = True
            if self._stop:
                break
        self._ended = [True] * len(self._ended)
        return None

    def save(self) -> Any:
        return list(self._ended), [c.save() for c in self.inputs]

    def restore(self, state: Any, ctx: Any) -> None:
        self._ended = list(state[0])
        for c, position in zip(self.inputs, state[1], strict=True):
            c.restore(position, ctx)


class Unique(Stage):
    """Elements without duplicates."""

    def __init__(self, source: Stage):
        self.inputs = (source,)

    def iterate(self, ctx: Any) -> Cursor:
        return _UniqueCursor(self.inputs[0].iterate(ctx))


class _UniqueCursor(Cursor):
    def __init__(self, source: Cursor):
        self.inputs, self._source = (source,), source
        self._seen: set = set()

    def next(self, ctx: Any) -> tuple | None:
        while True:
            element = self._source.next(ctx)
            if element is None:
                return None
            key = tuple(map(_identity, element))
            if key not in self._seen:
                self._seen.add(key)
                return element

    def save(self) -> Any:
        return [list(k) for k in self._seen], self._source.save()

    def restore(self, state: Any, ctx: Any) -> None:
        self._seen = {tuple(tuple(p) if isinstance(p, list) else p for p in k) for k in state[0]}
        self._source.restore(state[1], ctx)


def _identity(value: Any) -> Any:
    """A hashable key, equal for equal values."""
    if isinstance(value, torch.Tensor):
        return value.item() if value.ndim == 0 else (str(value.dtype), tuple(value.shape), value.numpy().tobytes())
    if isinstance(value, np.ndarray):
        return value[()] if value.ndim == 0 else (value.shape, tuple(value.ravel().tolist()))
    raise errors.invalid(f"Elements of type {type(value).__name__} cannot be compared.")


class IgnoreErrors(Stage):
    """The elements that do not fail."""

    def __init__(self, source: Stage, log: bool):
        self.inputs, self.log = (source,), log

    def iterate(self, ctx: Any) -> Cursor:
        return _IgnoringCursor(self.inputs[0].iterate(ctx), self.log)


class _IgnoringCursor(Cursor):
    def __init__(self, source: Cursor, log: bool):
        self.inputs, self._source, self._log = (source,), source, log

    def next(self, ctx: Any) -> tuple | None:
        while True:
            try:
                return self._source.next(ctx)
            except (errors.CancelledError, errors.DeadlineExceededError):
                raise
            except errors.OpError as e:
                if self._log:
                    logging.getLogger("penstock").warning("Error raised with error message %s", e)
                ctx.remaining()

    def save(self) -> Any:
        return self._source.save()

    def restore(self, state: Any, ctx: Any) -> None:
        self._source.restore(state, ctx)


class AssertCardinality(Stage):
    """The same elements; fails unless there are as many as given."""

    def __init__(self, source: Stage, count: int):
        self.inputs, self.count = (source,), count

    def iterate(self, ctx: Any) -> Cursor:
        return _CountedCursor(self.inputs[0].iterate(ctx), self.count)

    def cardinality(self) -> int:
        return self.count


class _CountedCursor(Cursor):
    def __init__(self, source: Cursor, count: int):
        self.inputs, self._source, self._count, self._seen = (source,), source, count, 0

    def next(self, ctx: Any) -> tuple | None:
        element = self._source.next(ctx)
        if element is None:
            if self._count != UNKNOWN and self._seen != self._count:
                raise errors.FailedPreconditionError(
                    None, None, f"Input dataset was expected to contain {_elements(self._count)} but contained only "
                                f"{_elements(self._seen)}.")
            return None
        self._seen += 1
        if self._count >= 0 and self._seen > self._count:
            raise errors.FailedPreconditionError(None, None, f"Input dataset was expected to contain "
                                                             f"{_elements(self._count)} but contained at least "
                                                             f"{_elements(self._seen)}.")
        return element

    def save(self) -> Any:
        return self._seen, self._source.save()

    def restore(self, state: Any, ctx: Any) -> None:
        self._seen = state[0]
        self._source.restore(state[1], ctx)


def _elements(n: int) -> str:
    return "an infinite number of elements" if n == INFINITE else f"{n} element{'' if n == 1 else 's'}"


class OnDevice(Stage):
    """The same elements with their tensors on a device of torch."""

    def __init__(self, source: Stage, device: str):
        self.inputs, self.device = (source,), device

    def iterate(self, ctx: Any) -> Cursor:
        return _DeviceCursor(self.inputs[0].iterate(ctx), self.device)

    def cardinality(self) -> int:
        return self.cardinality_of_input()


class _DeviceCursor(Cursor):
    quick = False                                    # copies to a device are worth a thread

    def __init__(self, source: Cursor, device: str):
        self.inputs, self._source, self._device = (source,), source, torch.device(device)
        self._pin = self._device.type == "cuda"

    def next(self, ctx: Any) -> tuple | None:
        element = self._source.next(ctx)
        return None if element is None else tuple(map(self._moved, element))

    def _moved(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.device == self._device:
            return value
        return (value.pin_memory() if self._pin else value).to(self._device, non_blocking=self._pin)

    def save(self) -> Any:
        return self._source.save()

    def restore(self, state: Any, ctx: Any) -> None:
        self._source.restore(state, ctx)


class Slow(Stage):
    """The same elements, each after a pause."""

    def __init__(self, source: Stage, seconds: float):
        self.inputs, self.seconds = (source,), seconds

    def iterate(self, ctx: Any) -> Cursor:
        return _SlowCursor(self.inputs[0].iterate(ctx), self.seconds)

    def cardinality(self) -> int:
        return self.cardinality_of_input()


class _SlowCursor(Cursor):
    quick = False

    def __init__(self, source: Cursor, seconds: float):
        self.inputs, self._source, self._seconds = (source,), source, seconds

    def next(self, ctx: Any) -> tuple | None:
        until = time.monotonic() + self._seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))
            ctx.remaining()                            # ends with the step's cancellation or deadline
        return self._source.next(ctx)

    def save(self) -> Any:
        return self._source.save()

    def restore(self, state: Any, ctx: Any) -> None:
        self._source.restore(state, ctx)


class Fastest(Stage):
    """The elements of the fastest of several equal datasets, measured on the first elements."""

    def __init__(self, sources: list[Stage], trials: int):
        self.inputs, self.trials = tuple(sources), trials

    def iterate(self, ctx: Any) -> Cursor:
        return _FastestCursor([s.iterate(ctx) for s in self.inputs], self.trials)

    def cardinality(self) -> int:
        counts = {s.cardinality() for s in self.inputs}
        return counts.pop() if len(counts) == 1 else UNKNOWN


class _FastestCursor(Cursor):
    quick = False

    def __init__(self, sources: list, trials: int):
        self.inputs, self._seconds, self._trials = tuple(sources), [0.0] * len(sources), trials

    def next(self, ctx: Any) -> tuple | None:
        element = None
        for i, source in enumerate(self.inputs):
            start = time.perf_counter()
            element = source.next(ctx)
            self._seconds[i] += time.perf_counter() - start
        self._trials -= 1
        if self._trials <= 0 and len(self.inputs) > 1:
            self._choose(self._seconds.index(min(self._seconds)))
        return element

    def _choose(self, fastest: int) -> None:
        for i, source in enumerate(self.inputs):
            if i != fastest:
                source.close()
        self.inputs, self._seconds = (self.inputs[fastest],), [0.0]
