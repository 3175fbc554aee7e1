"""Random numbers in traced steps, and the device on which random numbers are made.

A seeded op takes the next segment of its Philox stream (`philox.Stream`). In a traced step the start of a segment is an input
of the graph, and the words are computed on the device. So a step draws the same numbers in every tier.
"""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import torch

from penstock._src.base import tracing
from penstock._src.kernels import philox

MOST = 1024                      # draws from streams in one step

_local = threading.local()


class Draws:
    """The draws of a step from streams, in order."""

    def __init__(self, lowering: bool = False) -> None:
        self.lowering = lowering                 # whether the step becomes a graph of ATen calls (step/tiers/lower.py)
        self.taken: list[tuple[Any, int]] = []
        self.unseeded = False                    # whether it also draws from the generator of its device
        self.later: list | None = None           # calls that run behind the graph (step/tiers/lower.py)
        self.choosing = False                    # whether what is computed may not be needed (`tracing.choosing`)
        self.required: list[torch.Tensor] = []   # what must be true for the graph to hold
        self._places: torch.Tensor | None = None

    def require(self, condition: torch.Tensor) -> bool:
        """Whether a condition is true; if only the device will know, it is taken to be, and the graph holds where it is."""
        if not isinstance(condition, torch._subclasses.FakeTensor):
            return bool(condition)
        if self.choosing:
            raise RuntimeError("a branch that may not run checks what the device computes")
        self.required.append(condition)
        return True

    @staticmethod
    def places(mode: Any, device: torch.device) -> torch.Tensor:
        """A stand-in for the input that holds the places."""
        with mode:
            return torch.empty(MOST, dtype=torch.int64, device=device)

    def begin(self, places: torch.Tensor) -> None:
        """A trace begins; `places` is its input."""
        self.taken, self.required, self._places = [], [], places

    def reserve(self, stream: Any, count: int) -> OnDevice:
        """Takes `count` counters of a stream in every run."""
        if len(self.taken) == MOST or self._places is None:
            raise RuntimeError(f"it draws from more than {MOST} streams")
        self.taken.append((stream, count))
        return OnDevice(stream.here(), self._places[len(self.taken) - 1])

    def all_of(self, others: Draws) -> torch.Tensor:
        """Repeats the draws of a compiled step during its capture; returns the tensor that holds the positions."""
        self.taken += others.taken
        assert self._places is not None
        return self._places

    def next(self, take: bool = True) -> torch.Tensor:
        """The starts of the segments of the next run; the streams advance unless this is a trial."""
        out = torch.zeros(MOST, dtype=torch.int64)
        ahead: dict[int, int] = {}
        for i, (stream, count) in enumerate(self.taken):
            here = stream.reserve(count) if take else stream.here().skip(ahead.get(id(stream), 0))
            ahead[id(stream)] = ahead.get(id(stream), 0) + count
            out[i] = philox.signed(here.counter & (1 << 64) - 1)
        return out

    def advance(self) -> None:
        """Takes from the streams what `next` has only looked at."""
        for stream, count in self.taken:
            stream.reserve(count)


class OnDevice:
    """A position in a stream that is known only on the device, with the interface of `philox.Philox`."""

    def __init__(self, start: philox.Philox, low: torch.Tensor):
        self.key, self._high, self._low = start.key, start.counter >> 64, low

    def words(self, count: int, device: Any = None) -> torch.Tensor:
        """The words of the next `count` counters, [count, 4]."""
        return self.at(torch.arange(count, device=self._low.device))

    def at(self, offsets: torch.Tensor) -> torch.Tensor:
        """The words of the counters at `offsets` from here, [len(offsets), 4]."""
        return philox.words_at(self.key, self._high, offsets + self._low)


@contextlib.contextmanager
def traced(draws: Draws) -> Iterator[Draws]:
    """In this block, random ops of this thread are traced."""
    before = tracing.set_draws(draws)
    try:
        yield draws
    finally:
        tracing.set_draws(before)


@contextlib.contextmanager
def made_on(device: torch.device) -> Iterator[None]:
    """In this block, ops of this thread without tensor inputs make their results on `device`."""
    before = getattr(_local, "device", None)
    _local.device = device
    try:
        yield
    finally:
        _local.device = before


def device_for(usual: torch.device) -> torch.device:
    """Where random numbers are made."""
    return getattr(_local, "device", None) or usual
