"""Sweeps over the numbers of workers, servers, backups or examples, and the search for a sufficient number of servers."""
from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence

from penstock._src.base import errors
from penstock._src.simulate.job import FREE, Job, Program
from penstock._src.simulate.machines import Machines

Make = Callable[["Case"], Program]


@dataclasses.dataclass(frozen=True)
class Case:
    """One simulation."""
    workers: int = 4
    servers: int = 1
    backups: int = 0
    batch: int = 0                  # 0: that of the program


def cases(base: Case, over: dict[str, Sequence[int]]) -> Iterator[Case]:
    """All combinations of the values that are given for some fields.

    >>> list(cases(Case(), {"workers": [1, 2], "servers": [1, 2]}))
    """
    fields = {f.name for f in dataclasses.fields(Case)}
    for name, values in over.items():
        if name not in fields:
            raise errors.invalid(f"A sweep is over {', '.join(sorted(fields))}, not {name!r}.")
        least = int(name in ("workers", "servers"))
        if not values or min(values) < least:
            raise errors.invalid(f"A sweep over {name} needs values of at least {least}, got {list(values)}.")
    for values in itertools.product(*over.values()):
        yield dataclasses.replace(base, **dict(zip(over, values, strict=True)))


def run(make: Make, machines: Machines, case: Case, steps: int, pace: str = FREE, seed: int = 0) -> Job:
    """The simulation of one case, after it was run."""
    job = Job(make(case), machines, case.workers + case.backups, case.servers, pace, seed)
    job.run(steps)
    return job


def servers_needed(make: Make, machines: Machines, base: Case, steps: int, gain: float = 0.05,
                   most: int = 256) -> list[tuple[int, float, float]]:
    """Doubles the number of servers until that brings less than `gain`: for each number, it, steps per second, and the share of
    the time in which the busiest server's busiest resource is in use. The answer is the last but one, if there are several."""
    found: list[tuple[int, float, float]] = []
    servers = 1
    while servers <= most:
        job = run(make, machines, dataclasses.replace(base, servers=servers), steps)
        busiest = max(u.most[0] for u in job.results.use() if u.task.startswith("/job:ps/"))
        found.append((servers, job.results.steps_per_second, busiest))
        if len(found) > 1 and found[-1][1] < (1 + gain) * found[-2][1]:
            break
        servers *= 2
    return found
