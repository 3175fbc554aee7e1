"""Whether a batch runs as one step or, on CPUs, as several smaller ones at once.

One large step uses all cores within each op, and several small ones use a core each, for all of their ops. Which is faster
depends on the model, the number of rows and the machine, so it is measured: batches of each size run in both ways, and then in
the faster one. Short steps are never divided: threads would wait for Python's lock more than they compute.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

_WORTH = 0.005                      # seconds: shorter steps stay whole
_IGNORED = 1                        # first runs, which compile
_TRIALS = 2                         # runs of each way before one is chosen
_AGAIN = 50                         # runs of the faster way before the other one is tried again
_NEW = 0.3                          # the weight of a new time in the average


class _Sized(Protocol):
    rows: int


T = TypeVar("T", bound=_Sized)


@dataclass(slots=True)
class _Times:
    """The runs of one way, and their mean time."""
    runs: int = 0
    mean: float = 0.0

    @property
    def known(self) -> bool:
        return self.runs >= _IGNORED + _TRIALS

    def add(self, seconds: float) -> None:
        self.runs += 1
        if self.runs > _IGNORED:
            self.mean = seconds if self.runs == _IGNORED + 1 else (1 - _NEW) * self.mean + _NEW * seconds


@dataclass(slots=True)
class _Size:
    """What is known of batches with so many rows."""
    whole: _Times = field(default_factory=_Times)
    divided: _Times = field(default_factory=_Times)
    since: int = 0                  # runs since both ways were compared


class Division:
    """Decides for the batches of one model. `most` is the number of steps that can run at once."""

    def __init__(self, most: int):
        self._most = most
        self._sizes: dict[int, _Size] = {}

    def parts(self, rows: int, tasks: int, idle: int) -> int:
        """Into how many steps to divide a batch, of which `idle` can run beside the first one."""
        most = min(self._most, tasks, idle + 1)
        if most < 2:
            return 1
        size = self._sizes.setdefault(rows, _Size())
        if not size.whole.known or size.whole.mean < _WORTH:
            return 1
        if not size.divided.known:
            return most
        better, other = (1, most) if size.whole.mean <= size.divided.mean else (most, 1)
        size.since += 1
        if size.since > _AGAIN:
            size.since = 0
            return other
        return better

    def took(self, rows: int, parts: int, seconds: float) -> None:
        """A batch of so many rows has run in so many parts."""
        if self._most > 1:
            size = self._sizes.setdefault(rows, _Size())
            (size.whole if parts == 1 else size.divided).add(seconds)


def shares(tasks: Sequence[T], parts: int) -> list[list[T]]:
    """Tasks in order, in so many groups of about the same number of rows; none is empty."""
    made: list[list[T]] = []
    left = sum(t.rows for t in tasks)
    rest = list(tasks)
    for n in range(parts, 0, -1):
        group = [rest.pop(0)]
        rows = group[0].rows
        while len(rest) >= n and rows + rest[0].rows / 2 <= left / n:
            group.append(rest.pop(0))
            rows += group[-1].rows
        left -= rows
        made.append(group)
    made[-1].extend(rest)
    return made
