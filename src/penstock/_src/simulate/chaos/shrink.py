"""Shrinks a failing schedule: removes parts of it, then lowers its numbers, as long as it still fails."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from penstock._src.simulate.chaos.choices import Choices, Violation

World = Callable[[Choices], None]


def violation(world: World, schedule: Sequence[int]) -> str | None:
    """The violation in the run of a schedule, or None."""
    try:
        world(Choices(given=schedule))
    except Violation as e:
        return str(e)
    return None


def shrink(world: World, schedule: Sequence[int], most: int = 5000) -> list[int]:
    """The shortest failing schedule found in `most` runs."""
    best, runs = _trimmed(list(schedule)), 0
    changed = True
    while changed and runs < most:
        changed = False
        for candidate in _simpler(best):
            runs += 1
            if runs > most:
                break
            if violation(world, candidate) is not None:
                best, changed = _trimmed(candidate), True
                break
    return best


def _simpler(schedule: list[int]) -> Iterator[list[int]]:
    """Slightly simpler schedules, the largest changes first."""
    size = len(schedule) // 2
    while size:
        for at in range(0, len(schedule) - size + 1, max(1, size // 2)):
            yield schedule[:at] + schedule[at + size:]
        size //= 2
    for at, number in enumerate(schedule):
        for lower in sorted({0, number // 2, number - 1}):
            if 0 <= lower < number:
                yield [*schedule[:at], lower, *schedule[at + 1:]]


def _trimmed(schedule: list[int]) -> list[int]:
    """Removes zeros at the end, which have no effect."""
    while schedule and not schedule[-1]:
        schedule = schedule[:-1]
    return schedule
