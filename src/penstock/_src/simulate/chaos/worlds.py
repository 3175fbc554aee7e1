"""The worlds, and campaigns over them."""
from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
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


class Ran(NamedTuple):
    """A run of schedules of one world."""
    world: str
    schedules: int
    seconds: float


def share(schedules: int, name: str) -> int:
    """How many of so many schedules are of one world."""
    return max(1, schedules * _SHARES[name] // 1000)


def campaign(schedules: int, seed: int = 0, only: str | None = None, done: Mapping[str, int] | None = None,
             seconds: float = math.inf) -> Iterator[Failure | Ran]:
    """Runs schedules of all worlds, or of one: yields failures with their shortest schedules, and at the end of each world how
    many were run. `done` has the numbers that an earlier call has run; after a time limit no further schedule starts."""
    start = time.process_time()
    for name, world in WORLDS.items():
        if only is not None and name != only:
            continue
        count, began, number = schedules if only else share(schedules, name), time.process_time(), 0
        for number in range(first := seed + (done or {}).get(name, 0), seed + count):
            if time.process_time() - start > seconds:
                break
            choices = Choices(number)
            try:
                world(choices)
            except Violation:
                short = shrink(world, choices.taken)
                yield Failure(name, number, violation(world, short) or "", short)
        else:
            number = seed + count
        yield Ran(name, max(0, number - first), time.process_time() - began)
