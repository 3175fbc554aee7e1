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
from penstock._src.kernels import device_philox, philox

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
        start = stream.here()
        return OnDevice(start.key, start.counter >> 64, self._places[len(self.taken) - 1])

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
    """A position in a stream that is known only on the device, with the interface of `philox.Philox`: `low`, the lower half of
    the counter, is an int64 tensor, and the key and the upper half may be."""

    def __init__(self, key: Any, high: Any, low: torch.Tensor):
        self.place = key, high, low

    @classmethod
    def scrambled(cls, seed: torch.Tensor) -> OnDevice:
        """As `Philox.scrambled`, for a pair of seeds on the device."""
        low, high = seed.to(torch.int64).unbind()
        c = cls(philox.SCRAMBLE, high, low).words(1)[0]
        return cls(c[0] | c[1] << 32, c[2] | c[3] << 32, torch.zeros_like(low))

    def words(self, count: int, device: Any = None) -> torch.Tensor:
        """The words of the next `count` counters, [count, 4]."""
        here = self.place[2].device
        made = device_philox.words(self.place, count, here)
        return self.at(torch.arange(count, device=here)) if made is None else made

    def at(self, offsets: torch.Tensor) -> torch.Tensor:
        """The words of the counters at `offsets` from here, [len(offsets), 4]."""
        key, high, low = self.place
        return philox.words_at(key, high, offsets + low)


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


def device_of(position: Any, usual: torch.device) -> torch.device:
    """Where the numbers of a position are made: where it is known."""
    return position.place[2].device if isinstance(position, OnDevice) else device_for(usual)


def device_for(usual: torch.device) -> torch.device:
    """Where random numbers are made."""
    return getattr(_local, "device", None) or usual
