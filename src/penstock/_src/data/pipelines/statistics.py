"""Statistics of a pipeline while it runs: how long elements take, how large they are, how full buffers are, what threads do.

`measured` returns a copy of a pipeline whose stages know where their statistics go (`Stage.stats`): elements are then passed
one by one, so that every measurement belongs to one of them. A pipeline without statistics has no overhead.
"""
from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.data.pipelines.base import Cursor, Stage


class Statistics:
    """Where the statistics of one stage go, under the name of the stage."""

    def __init__(self, recorder: Any, name: str):
        self.recorder, self.name = recorder, name

    def histogram(self, what: str, value: float) -> None:
        """Adds a number to a histogram of the stage."""
        self.recorder.histogram(f"{self.name}::{what}", value)

    def scalar(self, what: str, value: float) -> None:
        """Sets a number of the stage."""
        self.recorder.scalar(f"{self.name}::{what}", value)

    def buffer(self, size: int, capacity: int) -> None:
        """How full a buffer was when an element was taken out of it."""
        self.histogram("buffer_utilization", size / capacity)
        self.scalar("buffer_size", size)
        self.scalar("buffer_capacity", capacity)


class _TimedBody:
    """A function whose calls are timed. It is called on single elements."""

    pure = False

    def __init__(self, body: Any, recorder: Any):
        self._body, self._recorder = body, recorder

    def runner(self, ctx: Any) -> Callable:
        """As of the function itself."""
        run, record, tag = self._body.runner(ctx), self._recorder.histogram, f"{self._body.function.name}::execution_time"

        def call(ctx: Any, element: tuple) -> Any:
            start = time.perf_counter()
            try:
                return run(ctx, element)
            finally:
                record(tag, (time.perf_counter() - start) * 1e6)
        return call

    def vectorized(self, ctx: Any) -> None:
        """Never on blocks."""

    def give_up(self) -> None:
        """Never vectorized."""


def measured(stage: Stage, recorder: Any) -> Stage:
    """A copy of a pipeline that reports statistics to a recorder (`histogram(tag, value)`, `scalar(tag, value)`)."""
    return _measured(stage, recorder, "")[0]


def _measured(stage: Stage, recorder: Any, owner: str) -> tuple[Stage, int]:
    """The copy, and the number of nodes that make the pipeline as a graph; stages are named after theirs."""
    recipe = stage.recipe
    own = 0 if recipe is None else 1 + sum(not isinstance(_stage_in(v), Stage) for v in recipe.inputs)
    name = "" if recipe is None else stage.label or recipe.opdef.name
    parts = [_measured(s, recorder, name or owner) for s in stage.inputs]
    count = own + sum(n for _, n in parts)
    made = copy.copy(stage)
    made.inputs = tuple(s for s, _ in parts)
    made.stats = Statistics(recorder, f"{name or owner}/_{count - 1}")
    for key, value in list(vars(made).items()):
        if hasattr(value, "runner") and hasattr(value, "vectorized"):
            setattr(made, key, _TimedBody(value, recorder))
    return made, count


def _stage_in(value: Any) -> Any:
    value = getattr(value, "_value", value)
    return value.reshape(-1)[0] if getattr(value, "size", None) == 1 and hasattr(value, "reshape") else value


class Measured(Stage):
    """The same elements; statistics of their computation go to a recorder."""

    def __init__(self, source: Stage, recorder: Any):
        self.inputs, self.recorder = (source,), recorder

    def iterate(self, ctx: Any) -> Cursor:
        return _MeasuredCursor(measured(self.inputs[0], self.recorder).iterate(ctx))

    def cardinality(self) -> int:
        return self.cardinality_of_input()


class _MeasuredCursor(Cursor):
    quick = False

    def __init__(self, source: Cursor):
        self.inputs, self._source = (source,), source

    def next(self, ctx: Any) -> tuple | None:
        return self._source.next(ctx)

    def save(self) -> Any:
        raise errors.UnimplementedError(None, None, "A dataset with a statistics aggregator does not support checkpointing.")


class Watched(Stage):
    """The same elements. In a pipeline that is measured, a number for each goes to a histogram: its latency, or its bytes."""

    def __init__(self, source: Stage, tag: str, kind: str):
        self.inputs, self.tag, self.kind = (source,), tag, kind

    def iterate(self, ctx: Any) -> Cursor:
        source = self.inputs[0].iterate(ctx)
        return source if self.stats is None else _WatchedCursor(source, self)

    def cardinality(self) -> int:
        return self.cardinality_of_input()


class _WatchedCursor(Cursor):
    quick = False

    def __init__(self, source: Cursor, stage: Watched):
        self.inputs, self._source, self._stage = (source,), source, stage

    def next(self, ctx: Any) -> tuple | None:
        start = time.perf_counter()
        element = self._source.next(ctx)
        if element is not None:
            took = (time.perf_counter() - start) * 1e6
            self._stage.stats.recorder.histogram(self._stage.tag, took if self._stage.kind == "latency" else
                                                 sum(map(_bytes, element)))
        return element

    def save(self) -> Any:
        return self._source.save()

    def restore(self, state: Any, ctx: Any) -> None:
        self._source.restore(state, ctx)


def _bytes(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    return sum(len(v) for v in value.ravel().tolist() if isinstance(v, bytes)) if hasattr(value, "ravel") else 0
