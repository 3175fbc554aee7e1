"""Shuffling through a buffer, many elements at a time where the input comes in blocks.

The order is TensorFlow's for the same seeds. Its buffer is a ring: every draw swaps the first slot with one that a random
number chooses, and the slot that was drawn takes the next element of the input. Here rows stay where they are, and numbers of
rows are swapped instead (`philox.draw_slots`). So one round of `k` draws from a full buffer with `k` new elements is one pass
over numbers of rows: a draw returns the element that the last draw of the same row put there, or the buffer's. Without C code
it is two gathers and a scatter.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.data.pipelines import values
from penstock._src.data.pipelines.base import BlockCursor, most_rows
from penstock._src.kernels import philox

_CHUNK = 1024


class ShuffleCursor(BlockCursor):
    """The cursor of `ordering.Shuffle`."""

    def __init__(self, stage: Any, ctx: Any):
        super().__init__()
        self._stage, self._left = stage, stage.count
        self._source: Any = None
        self._start(ctx)

    def _start(self, ctx: Any) -> None:
        self._source = self._stage.inputs[0].iterate(ctx) if self._left else None
        self.inputs = () if self._source is None else (self._source,)
        self._seeds = self._stage.generator.next_seeds(first=ctx.random_access) if self._left else (0, 0)
        self._slots = np.empty(0, np.int64)          # which row is in each slot of the ring, before `_draws`
        self._later = self._slots                    # and after all of them
        self._before = 0                             # how many draws were made before `_draws`
        self._draws = np.empty(0, np.int64)          # rows that are drawn next, from the ring as it is while it is full;
        self._drawn = 0                              # this many of them were
        self._filled: list = []                      # elements, or one block: `_kept` says which
        self._kept: tuple | None = None
        self._full = self._permuted = self._gave = False
        self._ended = self._source is None
        self.blocks = self._source is not None and self._source.blocks
        self._ahead = 0                              # number to draw at once if that cannot be observed

    # -- filling -------------------------------------------------------------------------------------------------------
    def _fill(self, ctx: Any) -> None:
        """Fills the buffer, as one block if the input comes in blocks, else as a list of elements."""
        size = self._stage.buffer_size
        size = 1 << 62 if size < 0 else size
        parts: list = []
        have = 0
        while have < size and self._source.blocks:
            columns = self._source.block(ctx, size - have)
            if columns is None:
                self._ended = True
                break
            parts.append(columns)
            have += len(columns[0])
        if self._ended or have == size:
            self._kept = tuple(map(_own, values.join(parts))) if parts else None
            self._ahead = most_rows(self._kept) if self._kept and self._source.quick else 0
        else:
            self._filled = [e for p in parts for e in values.elements(p)]
            self._by_element(ctx, size)
        self._full = True

    def _by_element(self, ctx: Any, size: int) -> None:
        while len(self._filled) < size and not self._ended:
            element = self._source.next(ctx)
            if element is None:
                self._ended = True
            else:
                self._filled.append(element)

    def _places(self, count: int, size: int) -> np.ndarray:
        """The next `count` rows that are drawn from a full buffer of `size`, at most what is left of a chunk."""
        if self._drawn == len(self._draws):
            self._settle(size)
            self._later = self._slots.copy()
            self._draws = philox.draw_slots(self._later, self._before % size, self._words(_CHUNK), once=False)
        out = self._draws[self._drawn:self._drawn + count]
        self._drawn += len(out)
        return out

    def _settle(self, size: int) -> None:
        """Applies the draws so far to the slots."""
        if not self._before:
            self._slots = np.arange(size)
        if self._drawn and self._drawn == len(self._draws):
            self._slots = self._later
        elif self._drawn:
            philox.draw_slots(self._slots, self._before % size, self._words(self._drawn), once=False)
        self._before, self._drawn, self._draws = self._before + self._drawn, 0, self._draws[:0]

    def _order(self, size: int) -> np.ndarray:
        """The rows of a buffer of `size` in the order of drawing when the input has ended."""
        if not size:
            return self._draws[:0]
        self._settle(size)
        return philox.draw_slots(self._slots, self._before % size, self._words(size), once=True)

    def _words(self, count: int) -> np.ndarray:
        """Random numbers for the draws from the first of `_draws` on."""
        skipped, at = divmod(self._before, 4)
        return philox.Philox.seeded(*self._seeds).skip(skipped).words((at + count + 3) // 4).reshape(-1)[at:at + count].numpy()

    # -- giving --------------------------------------------------------------------------------------------------------
    def produce(self, ctx: Any, limit: int) -> tuple | None:
        while self._source is not None:
            if not self._full:
                self._fill(ctx)
            if self._kept is not None:
                found = self._block(ctx, limit)
            else:
                element = self._one(ctx)
                found = None if element is None else tuple(map(values.single, element))
            if found is not None:
                return found
            self._again(ctx)
        return None

    def next(self, ctx: Any) -> tuple | None:
        if self._source is not None and self._at >= self._count and self._full and self._kept is None and self._filled:
            element = self._one(ctx)
            if element is not None:
                return element
        return super().next(ctx)

    def _again(self, ctx: Any) -> None:
        """Starts the next round, if any."""
        self._left = 0 if self._left < 0 and not self._gave else self._left - 1
        self.close()
        self._start(ctx)

    def _block(self, ctx: Any, limit: int) -> tuple | None:
        kept: tuple = self._kept                     # type: ignore[assignment]
        size = len(kept[0])
        if not self._ended:
            places = self._places(min(self._ahead or limit, _CHUNK), size)
            new = self._source.block(ctx, len(places))
            count = 0 if new is None else len(new[0])
            self._drawn -= len(places) - count
            if new is not None:
                self._gave = True
                return _exchange(kept, new, places[:count])
            self._ended = True
        if not self._permuted:
            order = self._order(size)
            self._kept = kept = tuple(values.gather(c, order) for c in kept)
            self._permuted = True
        if not size:
            return None
        self._kept, self._gave = tuple(c[limit:] for c in kept), True
        return tuple(c[:limit] for c in kept)

    def _one(self, ctx: Any) -> tuple | None:
        filled = self._filled
        if not self._ended:
            element = self._source.next(ctx)
            if element is None:
                self._ended = True
            else:
                i = int(self._places(1, len(filled))[0])
                out, filled[i] = filled[i], element
                self._gave = True
                return out
        if not self._permuted:
            self._filled = filled = [filled[i] for i in self._order(len(filled))[::-1].tolist()]
            self._permuted = True
        if not filled:
            return None
        self._gave = True
        return filled.pop()

    # -- positions -------------------------------------------------------------------------------------------------------
    def position(self) -> Any:
        if self._full and not self._permuted and (self._kept or self._filled):
            self._settle(len(self._kept[0]) if self._kept else len(self._filled))
        return {"left": self._left, "rounds": self._stage.generator.rounds, "ended": self._ended, "full": self._full,
                "permuted": self._permuted, "before": self._before, "gave": self._gave, "of_round": list(self._seeds),
                "slots": torch.from_numpy(self._slots.copy()), "seeds": list(self._stage.generator.seeds), "kept": self._kept,
                "filled": self._filled, "input": None if self._source is None else self._source.save()}

    def go_to(self, position: Any, ctx: Any) -> None:
        self._left = position["left"]
        self._stage.generator.seeds = tuple(position["seeds"])
        self._start(ctx)
        self._stage.generator.rounds, self._seeds = position["rounds"], tuple(position["of_round"])
        self._slots, self._before = position["slots"].numpy().copy(), position["before"]
        self._full, self._ended, self._permuted = position["full"], position["ended"], position["permuted"]
        self._gave = position["gave"]
        self._kept = None if position["kept"] is None else tuple(position["kept"])
        self._filled = [tuple(e) for e in position["filled"]]
        if self._source is not None and position["input"] is not None:
            self._source.restore(position["input"], ctx)


def _own(column: Any) -> Any:
    """A contiguous copy that may be written."""
    return column.clone(memory_format=torch.contiguous_format) if isinstance(column, torch.Tensor) else column.copy()


def _exchange(kept: tuple, new: tuple, places: np.ndarray) -> tuple:
    """Draws `places` of the buffer in turn, each followed by putting one new row there."""
    rounds: tuple | None = None
    out = []
    for k, c in zip(kept, new, strict=True):
        drawn = philox.exchange_rows(k, c, places) if type(k) is torch.Tensor and k.is_cpu else None
        if drawn is None:
            rounds = rounds or _rounds(places)
            drawn = _exchange_column(k, c, places, *rounds)
        out.append(drawn)
    return tuple(out)


def _rounds(places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The draws of a place that was drawn before, when that was, and the last draw of every place, whose row stays there."""
    order = np.argsort(places, kind="stable")
    ranked = places[order]
    same = ranked[1:] == ranked[:-1]
    return order[1:][same], order[:-1][same], order[np.append(~same, True)]


def _exchange_column(k: Any, c: Any, places: np.ndarray, later: np.ndarray, before: np.ndarray, last: np.ndarray) -> Any:
    drawn = values.gather(k, places)
    if isinstance(k, torch.Tensor):
        if len(later):
            drawn[torch.from_numpy(later)] = c[torch.from_numpy(before)]
        k[torch.from_numpy(places[last])] = c[torch.from_numpy(last)]
    else:
        drawn[later] = c[before]
        k[places[last]] = c[last]
    return drawn
