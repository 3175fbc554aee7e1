"""Measures which of two equivalent versions of a step is faster, while they run the steps of a program in turns.

A compiled step is usually faster than the captured program, but not always: cuDNN and the kernels of the program may be better
than what Inductor generates. Only runs of captured versions count, whose times on the device do not depend on the host. The
captures share their memory, since they never run at once.
"""
from __future__ import annotations

import statistics
from typing import Any

import torch

_TURNS = 7                           # runs of each version that are measured


class Rival:
    """A version of a step, with what its Slot has of it while it runs."""

    FIELDS = ("version", "tier", "_captured", "_paths", "_numbers", "_copies", "_runs", "_uses", "_misses")

    def __init__(self, slot: Any):
        self.state = {name: getattr(slot, name) for name in self.FIELDS}
        self.times: list[tuple[Any, Any]] = []

    def enter(self, slot: Any) -> None:
        """Makes it the version that runs."""
        for name, value in self.state.items():
            setattr(slot, name, value)

    def leave(self, slot: Any) -> None:
        """Keeps its state while the other one runs."""
        self.state = {name: getattr(slot, name) for name in self.FIELDS}

    def milliseconds(self) -> float:
        """The median time of a run on the device."""
        for _, end in self.times:
            end.synchronize()
        return statistics.median(begin.elapsed_time(end) for begin, end in self.times)


class Rivals:
    """The version that runs, and one that may replace it."""

    def __init__(self, old: Rival, new: Rival):
        self.old, self.new = old, new

    def next(self) -> Rival:
        """The version whose turn it is."""
        return min(self.new, self.old, key=lambda r: len(r.times))

    @property
    def pool(self) -> Any:
        """The memory of the captures."""
        return next((p.pool for r in (self.old, self.new) for p in r.state["_paths"].values()), None)

    @property
    def decided(self) -> bool:
        """Whether both have run often enough."""
        return all(len(r.times) >= _TURNS for r in (self.old, self.new))


def begun() -> torch.cuda.Event:
    """An event that has the time on the device."""
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event
