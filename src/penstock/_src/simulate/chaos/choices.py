"""Schedules: the numbers that determine the faults of a run."""
from __future__ import annotations

import random
from collections.abc import Sequence


class Violation(AssertionError):
    """An invariant does not hold."""


class Choices:
    """Numbers for a world: random ones of a seed, or those of a schedule. After the end of a schedule every number is 0, which
    means no fault: so shorter schedules and smaller numbers are simpler runs."""

    __slots__ = ("taken", "_given", "_draw")

    def __init__(self, seed: int = 0, given: Sequence[int] | None = None):
        self.taken: list[int] = []
        self._given, self._draw = given, random.Random(seed).random

    def choose(self, count: int) -> int:
        """A number below `count`."""
        if self._given is None:
            number = int(self._draw() * count)
        else:
            at = len(self.taken)
            number = min(self._given[at], count - 1) if at < len(self._given) else 0
        self.taken.append(number)
        return number

    def happens(self, one_in: int) -> bool:
        """Whether an event of probability 1 / `one_in` happens."""
        return self.choose(one_in) == one_in - 1


def check(holds: bool, what: str) -> None:
    """An invariant."""
    if not holds:
        raise Violation(what)
