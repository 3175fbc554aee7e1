"""The results of a simulation: rates, the distribution of step times, utilization, the slowest resource."""
from __future__ import annotations

import dataclasses
import statistics
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock._src.simulate.job import Job


@dataclasses.dataclass
class Use:
    """The utilization of a resource."""
    task: str
    cores: float
    threads: float
    out: float
    into: float

    @property
    def most(self) -> tuple[float, str]:
        """The share of the resource that is used most, and its name."""
        return max((self.cores, "cores"), (self.threads, "message threads"), (self.out, "NIC, sending"),
                   (self.into, "NIC, receiving"))


class Results:
    """Filled by a job. A *round* is a step of the chief, one update of synchronous training; or the steps of all
    workers, where they keep in step."""

    def __init__(self, job: Job):
        self._job = job
        self.times: list[float] = []                 # of the steps of workers, in the order of their ends
        self.ends: list[float] = []
        self.rounds: list[float] = []                # when they ended
        self.start = self.end = 0.0
        self.failures = 0                            # of tasks
        self._before: dict[str, tuple[float, ...]] = {}

    # -- while the job runs -----------------------------------------------------------------------------------------------
    def began(self, now: float) -> None:
        """Measuring begins."""
        self.start = now
        self._before = {name: self._busy(t) for name, t in self._job.cluster.tasks.items()}

    def step(self, task: Any, began: float, now: float) -> None:
        """A worker's step has ended."""
        self.times.append(now - began)
        self.ends.append(now)

    def round(self, began: float, now: float) -> None:
        """A round has ended."""
        self.rounds.append(now)

    def over(self, now: float) -> None:
        """Measuring ends."""
        self.end = now

    @property
    def count(self) -> int:
        """Steps of workers so far."""
        return len(self.times)

    # -- afterwards ---------------------------------------------------------------------------------------------------------
    @property
    def seconds(self) -> float:
        """Simulated seconds."""
        return self.end - self.start

    @property
    def warm(self) -> list[float]:
        """Step times without those of the first fifth, in which workers get out of step with each other."""
        return self.times[len(self.times) // 5:] or self.times

    @property
    def steps_per_second(self) -> float:
        """Steps of all workers per second, without the first fifth."""
        first = len(self.ends) // 5
        if len(self.ends) - first < 2:
            return len(self.ends) / self.seconds if self.seconds else 0.0
        return (len(self.ends) - 1 - first) / (self.ends[-1] - self.ends[first])

    @property
    def examples_per_second(self) -> float:
        """Examples of all workers per second."""
        return self.steps_per_second * self._job.program.examples

    @property
    def median(self) -> float:
        """The median time of a step."""
        return statistics.median(self.warm) if self.times else 0.0

    @property
    def median_round(self) -> float:
        """The median time between the ends of two rounds."""
        warm = self.rounds[len(self.rounds) // 5:]
        return statistics.median(b - a for a, b in zip(warm, warm[1:], strict=False)) if len(warm) > 1 else 0.0

    def percentile(self, share: float) -> float:
        """The time that a share of the steps does not exceed."""
        times = sorted(self.warm)
        return times[min(len(times) - 1, int(share * len(times)))] if times else 0.0

    @staticmethod
    def _busy(task: Any) -> tuple[float, ...]:
        host = task.host
        return host.cores.busy, host.threads.busy, host.out.busy, host.into.busy

    def use(self) -> list[Use]:
        """The utilization of each task."""
        out = []
        for name, task in self._job.cluster.tasks.items():
            machine, seconds = task.host.machine, self.seconds or 1.0
            shares = [(now - before) / seconds for now, before in zip(self._busy(task), self._before[name], strict=True)]
            shares[0], shares[1] = shares[0] / machine.cores, shares[1] / machine.message_threads
            out.append(Use(name, *(min(1.0, s) for s in shares)))       # bookings may end after the last step
        return out

    def bottleneck(self) -> tuple[float, str, str]:
        """The resource that was in use most: its share, the task, and its name."""
        return max((u.most[0], u.task, u.most[1]) for u in self.use())
