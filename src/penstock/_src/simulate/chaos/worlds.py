"""The worlds, and campaigns over them."""
from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from penstock._src.simulate.chaos import checkpoints, collectives, membership, steps, synchrony
from penstock._src.simulate.chaos.choices import Choices, Violation
from penstock._src.simulate.chaos.shrink import World, shrink, violation

WORLDS: dict[str, World] = {"steps": steps.world, "membership": membership.world, "collectives": collectives.world,
                            "synchrony": synchrony.world, "checkpoints": checkpoints.world}
_SHARES = {"steps": 500, "membership": 330, "collectives": 150, "synchrony": 15, "checkpoints": 5}       # of a thousand


class Failure(NamedTuple):
    """A schedule that breaks an invariant."""
    world: str
    seed: int
    what: str
    schedule: list[int]


def campaign(schedules: int, seed: int = 0, only: str | None = None) -> Iterator[Failure | tuple[str, int]]:
    """Runs schedules of all worlds, or of one: yields failures with their shortest schedules, and at the end of each world its
    name and the number of its schedules."""
    for name, world in WORLDS.items():
        if only is not None and name != only:
            continue
        count = schedules if only else max(1, schedules * _SHARES[name] // 1000)
        for number in range(seed, seed + count):
            choices = Choices(number)
            try:
                world(choices)
            except Violation:
                short = shrink(world, choices.taken)
                yield Failure(name, number, violation(world, short) or "", short)
        yield name, count
