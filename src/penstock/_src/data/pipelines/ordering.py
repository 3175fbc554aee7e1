"""Stages that choose and order elements without inspecting them: take, skip, shard, repeat, zip, concatenate, shuffle."""
from __future__ import annotations

import threading
from typing import Any

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.data.pipelines import values
from penstock._src.data.pipelines.base import INFINITE, UNKNOWN, Cursor, Stage
from penstock._src.data.pipelines.shuffle import ShuffleCursor
from penstock._src.data.pipelines.sources import generator_seeds
from penstock._src.kernels import philox

SHARD_HINT = -1                      # instead of the number and the index of shards
export.value(SHARD_HINT, "data.experimental.SHARD_HINT")
_CHUNK = 1024                        # how many places a shuffle draws at a time


class Take(Stage):
    """The first elements; all of them for a negative count."""

    def __init__(self, source: Stage, count: int):
        self.inputs, self.count = (source,), count

    def iterate(self, ctx: Any) -> Cursor:
        source = self.inputs[0].iterate(ctx)
        return source if self.count < 0 else _TakeCursor(source, self.count)

    def cardinality(self) -> int:
        n = self.cardinality_of_input()
        if self.count < 0:
            return n
        return self.count if n == INFINITE else n if n == UNKNOWN else min(n, self.count)


class _TakeCursor(Cursor):
    def __init__(self, source: Cursor, left: int):
        self.inputs, self._source, self._left = (source,), source, left

    @property
    def blocks(self) -> bool:        # type: ignore[override]
        return self._source.blocks

    def next(self, ctx: Any) -> tuple | None:
        if self._left <= 0:
            self.close()
            return None
        element = self._source.next(ctx)
        self._left = self._left - 1 if element is not None else 0
        return element

    def block(self, ctx: Any, limit: int) -> tuple | None:
        if self._left <= 0:
            self.close()
            return None
        columns = self._source.block(ctx, min(limit, self._left))
        self._left = self._left - len(columns[0]) if columns is not None else 0
        return columns

    def save(self) -> Any:
        return self._left, self._source.save()

    def restore(self, state: Any, ctx: Any) -> None:
        self._left = state[0]
        self._source.restore(state[1], ctx)


class Skip(Stage):
    """All but the first elements; none for a negative count."""

    def __init__(self, source: Stage, count: int):
        self.inputs, self.count = (source,), count

    def iterate(self, ctx: Any) -> Cursor:
        return _SkipCursor(self.inputs[0].iterate(ctx), self.count)

    def cardinality(self) -> int:
        n = self.cardinality_of_input()
        if n == UNKNOWN:
            return n
        if self.count < 0:
            return 0
        return n if n == INFINITE else max(0, n - self.count)


class _SkipCursor(Cursor):
    def __init__(self, source: Cursor, count: int):
        self.inputs, self._source, self._left = (source,), source, count

    @property
    def blocks(self) -> bool:        # type: ignore[override]
        return self._source.blocks

    def _skipped(self, ctx: Any) -> bool:
        """Skips the first elements; returns whether there are more."""
        if self._left < 0:
            return False
        self._left -= self._source.jump(self._left)
        while self._left:
            if self._source.blocks:
                columns = self._source.block(ctx, min(self._left, _CHUNK))
                if columns is None:
                    return False
                self._left -= len(columns[0])
            else:
                if self._source.next(ctx) is None:
                    return False
                self._left -= 1
        return True

    def next(self, ctx: Any) -> tuple | None:
        return self._source.next(ctx) if self._left == 0 or self._skipped(ctx) else None

    def block(self, ctx: Any, limit: int) -> tuple | None:
        return self._source.block(ctx, limit) if self._left == 0 or self._skipped(ctx) else None

    def save(self) -> Any:
        return self._left, self._source.save()

    def restore(self, state: Any, ctx: Any) -> None:
        self._left = state[0]
        self._source.restore(state[1], ctx)


class Shard(Stage):
    """Every n-th element, starting at the index."""

    def __init__(self, source: Stage, shards: int, index: int, require_non_empty: bool):
        self.inputs, self.shards, self.index, self.require = (source,), shards, index, require_non_empty
        if shards == index == SHARD_HINT:
            return                                   # a place that automatic sharding fills
        if shards < 1:
            raise errors.invalid(f"Number of shards must be greater than zero (currently num_shards = {shards}).")
        if not 0 <= index < shards:
            raise errors.invalid(f"Index must be between 0 and {shards - 1} (currently index = {index}).")

    def iterate(self, ctx: Any) -> Cursor:
        if self.shards == SHARD_HINT:
            raise errors.FailedPreconditionError(
                None, None, "`tf.data.Dataset.shard(SHARD_HINT, ...)` can only be used in `tf.distribute.Strategy.experimental_"
                            "distribute_dataset()` with `tf.data.experimental.AutoShardPolicy.HINT` policy")
        return _ShardCursor(self.inputs[0].iterate(ctx), self.shards, self.index, self.require)

    def cardinality(self) -> int:
        n = self.cardinality_of_input()
        return n if n < 0 or self.shards == SHARD_HINT else n // self.shards + (self.index < n % self.shards)


class _ShardCursor(Cursor):
    def __init__(self, source: Cursor, shards: int, index: int, require: bool):
        self.inputs, self._source = (source,), source
        self._shards, self._index, self._require, self._seen = shards, index, require, 0

    @property
    def blocks(self) -> bool:        # type: ignore[override]
        return self._source.blocks

    def next(self, ctx: Any) -> tuple | None:
        while True:
            element = self._source.next(ctx)
            if element is None:
                self._check()
                return None
            self._seen += 1
            if (self._seen - 1) % self._shards == self._index:
                return element

    def block(self, ctx: Any, limit: int) -> tuple | None:
        while True:
            columns = self._source.block(ctx, limit)
            if columns is None:
                self._check()
                return None
            first = (self._index - self._seen) % self._shards
            self._seen += len(columns[0])
            if first < len(columns[0]):
                return tuple(c[first::self._shards] for c in columns)

    def _check(self) -> None:
        if self._require and self._seen < self._shards:
            raise errors.invalid(f"There aren't enough elements in this dataset for each shard to have at least one element "
                                 f"(# elems = {self._seen}, # shards = {self._shards}). If you are using datasets with "
                                 "distribution strategy, consider setting the auto sharding policy to either DATA or OFF.")

    def save(self) -> Any:
        return self._seen, self._source.save()

    def restore(self, state: Any, ctx: Any) -> None:
        self._seen = state[0]
        self._source.restore(state[1], ctx)


class Repeat(Stage):
    """The elements `count` times, or infinitely often if it is negative."""

    def __init__(self, source: Stage, count: int):
        self.inputs, self.count = (source,), count

    def iterate(self, ctx: Any) -> Cursor:
        return _RepeatCursor(self.inputs[0], self.count, ctx)

    def cardinality(self) -> int:
        n = self.cardinality_of_input()
        if self.count < 0:
            return 0 if n == 0 else INFINITE
        return 0 if self.count == 0 else n * self.count if n >= 0 else n


class _RepeatCursor(Cursor):
    def __init__(self, stage: Stage, count: int, ctx: Any):
        self._stage, self._count, self._round, self._empty = stage, count, 0, True
        self._open(ctx)

    def _open(self, ctx: Any) -> None:
        self._source: Cursor | None = None if 0 <= self._count <= self._round else self._stage.iterate(ctx)
        self.inputs = () if self._source is None else (self._source,)

    @property
    def blocks(self) -> bool:        # type: ignore[override]
        return self._source is not None and self._source.blocks

    def _again(self, ctx: Any) -> bool:
        """Starts the next repetition; False if there is none."""
        if self._count < 0 and self._empty:          # nothing to repeat
            return False
        self._round, self._empty = self._round + 1, True
        self.close()
        self._open(ctx)
        return self._source is not None

    def next(self, ctx: Any) -> tuple | None:
        while self._source is not None:
            element = self._source.next(ctx)
            if element is not None:
                self._empty = False
                return element
            if not self._again(ctx):
                break
        return None

    def block(self, ctx: Any, limit: int) -> tuple | None:
        while self._source is not None:
            columns = self._source.block(ctx, limit)
            if columns is not None:
                self._empty = False
                return columns
            if not self._again(ctx):
                break
        return None

    def save(self) -> Any:
        return self._round, self._empty, None if self._source is None else self._source.save()

    def restore(self, state: Any, ctx: Any) -> None:
        self._round, self._empty, position = state
        self._open(ctx)
        if self._source is not None and position is not None:
            self._source.restore(position, ctx)


class Concatenate(Stage):
    """The elements of one dataset, then those of another."""

    def __init__(self, first: Stage, second: Stage):
        self.inputs = (first, second)

    def iterate(self, ctx: Any) -> Cursor:
        return _ConcatenateCursor(self.inputs, ctx)

    def cardinality(self) -> int:
        counts = [s.cardinality() for s in self.inputs]
        return INFINITE if INFINITE in counts else UNKNOWN if UNKNOWN in counts else sum(counts)


class _ConcatenateCursor(Cursor):
    def __init__(self, stages: tuple, ctx: Any):
        self._stages, self._at = stages, 0
        self._open(ctx)

    def _open(self, ctx: Any) -> None:
        self._source: Cursor | None = self._stages[self._at].iterate(ctx) if self._at < len(self._stages) else None
        self.inputs = () if self._source is None else (self._source,)

    @property
    def blocks(self) -> bool:        # type: ignore[override]
        return self._source is not None and self._source.blocks

    def _further(self, ctx: Any) -> None:
        self.close()
        self._at += 1
        self._open(ctx)

    def next(self, ctx: Any) -> tuple | None:
        while self._source is not None:
            element = self._source.next(ctx)
            if element is not None:
                return element
            self._further(ctx)
        return None

    def block(self, ctx: Any, limit: int) -> tuple | None:
        while self._source is not None:
            columns = self._source.block(ctx, limit)
            if columns is not None:
                return columns
            self._further(ctx)
        return None

    def save(self) -> Any:
        return self._at, None if self._source is None else self._source.save()

    def restore(self, state: Any, ctx: Any) -> None:
        self._at, position = state
        self._open(ctx)
        if self._source is not None:
            self._source.restore(position, ctx)


class Zip(Stage):
    """Elements made of one element of each dataset, as long as all have one."""

    def __init__(self, sources: list[Stage]):
        self.inputs = tuple(sources)

    def iterate(self, ctx: Any) -> Cursor:
        return _ZipCursor(tuple(s.iterate(ctx) for s in self.inputs))

    def cardinality(self) -> int:
        counts = [s.cardinality() for s in self.inputs]
        known = [n for n in counts if n != INFINITE]
        return INFINITE if not known else UNKNOWN if UNKNOWN in known else min(known)


class _ZipCursor(Cursor):
    def __init__(self, sources: tuple):
        self.inputs, self._done = sources, False

    @property
    def blocks(self) -> bool:        # type: ignore[override]
        return all(s.blocks for s in self.inputs)

    def next(self, ctx: Any) -> tuple | None:
        if self._done:
            return None
        parts: list = []
        error = None
        for s in self.inputs:                        # all inputs advance, also if one of them fails
            try:
                element = s.next(ctx)
            except Exception as e:
                error = error or e
                continue
            if element is None:
                self._done = True
                return None
            parts.extend(element)
        if error is not None:
            raise error
        return tuple(parts)

    def block(self, ctx: Any, limit: int) -> tuple | None:
        if self._done or not self.blocks:
            return super().block(ctx, limit)
        parts: list[tuple] = []
        rows = limit
        for s in self.inputs:
            columns = _exactly(s, ctx, rows) if parts else s.block(ctx, rows)
            if columns is None:
                self._done = True
                return None
            if len(columns[0]) < rows and parts:     # this one ends here
                self._done = True
            rows = len(columns[0])
            parts.append(columns)
        return tuple(c[:rows] for columns in parts for c in columns)

    def save(self) -> Any:
        return self._done, [s.save() for s in self.inputs]

    def restore(self, state: Any, ctx: Any) -> None:
        self._done = state[0]
        for s, position in zip(self.inputs, state[1], strict=True):
            s.restore(position, ctx)


def _exactly(source: Cursor, ctx: Any, rows: int) -> tuple | None:
    """Returns `count` rows; fewer only at the end."""
    parts: list = []
    have = 0
    while have < rows:
        columns = source.block(ctx, rows - have)
        if columns is None:
            break
        parts.append(columns)
        have += len(columns[0])
    return values.join(parts) if parts else None


class SeedGenerator:
    """Seeds of the iterations of random stages. Stages that share a generator continue one sequence."""

    def __init__(self, seed: int, seed2: int, reshuffle: bool):
        self.seeds, self.rounds, self.reshuffle = generator_seeds(seed, seed2), 0, reshuffle
        self._lock = threading.Lock()

    def next_seeds(self, first: bool = False) -> tuple[int, int]:
        """The seeds of the next iteration, or again of the first one: TensorFlow's numbers, two for each."""
        if not self.reshuffle:
            return self.seeds
        with self._lock:
            at, self.rounds = (0, self.rounds) if first else (2 * self.rounds, self.rounds + 1)
        words = philox.Philox.seeded(*self.seeds).skip(at // 4).words(1).reshape(-1)
        return int(words[at % 4]), int(words[at % 4 + 1])


class Shuffle(Stage):
    """Elements in random order: each is drawn from a buffer, and the next of the input takes its place.

    If its generator reshuffles, each iteration of a stage has another order, from seeds that follow from the first ones.
    """

    def __init__(self, source: Stage, buffer_size: int, generator: SeedGenerator, count: int = 1):
        if buffer_size < 1 and buffer_size != UNKNOWN:
            raise errors.invalid(f"buffer_size must be greater than zero or UNKNOWN_CARDINALITY, got {buffer_size}")
        self.inputs, self.buffer_size, self.generator, self.count = (source,), buffer_size, generator, count

    def iterate(self, ctx: Any) -> Cursor:
        return ShuffleCursor(self, ctx)

    def cardinality(self) -> int:
        n = self.cardinality_of_input()
        return n if self.count == 1 else INFINITE if self.count < 0 and n else max(n, n * self.count)


class Sample(Stage):
    """Each element with a probability: that of a number of TensorFlow's generator being less than `rate`."""

    def __init__(self, source: Stage, rate: float, seeds: tuple[int, int]):
        self.inputs, self.rate, self.seeds = (source,), rate, seeds

    def iterate(self, ctx: Any) -> Cursor:
        return _SampleCursor(self.inputs[0].iterate(ctx), self.rate, self.seeds)


class _SampleCursor(Cursor):
    def __init__(self, source: Cursor, rate: float, seeds: tuple[int, int]):
        self.inputs, self._source, self._seeds = (source,), source, seeds
        self._least = rate * (1 << 23)
        self._seen = 0
        self._chunk: tuple[int, list] = (-1, [])

    def _kept(self) -> bool:
        """Whether the next element is drawn."""
        chunk, at = divmod(self._seen, _CHUNK)
        if self._chunk[0] != chunk:
            words = philox.Philox.seeded(*self._seeds).skip(chunk * _CHUNK // 4).words(_CHUNK // 4).reshape(-1)
            self._chunk = (chunk, ((words & 0x7fffff) < self._least).tolist())
        self._seen += 1
        return self._chunk[1][at]

    def next(self, ctx: Any) -> tuple | None:
        while (element := self._source.next(ctx)) is not None:
            if self._kept():
                return element
        return None

    def save(self) -> Any:
        return self._seen, list(self._seeds), self._source.save()

    def restore(self, state: Any, ctx: Any) -> None:
        self._seen, self._seeds, self._chunk = state[0], tuple(state[1]), (-1, [])
        self._source.restore(state[2], ctx)
