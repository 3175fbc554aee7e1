"""Jobs: the steps of the workers of a simulated cluster, and their measurements.

A `Program` is the graph of one worker, built by real code; all workers have the same one, as in between-graph replication.
It is placed and partitioned once, and every worker runs the result as the master of its own steps, with device filters that
show it itself and the servers.
"""
from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock._src.base import errors
from penstock._src.base.modes import paused_collector
from penstock._src.cluster.peers import task_name
from penstock._src.cluster.recovery import LONGEST, Recovery
from penstock._src.graph.graph import Graph
from penstock._src.kernels.devices.devices import DeviceSet
from penstock._src.simulate.cluster import Cluster, MasterRun, Task
from penstock._src.simulate.machines import Machines
from penstock._src.simulate.plan import Costs, StepCode, compile_step
from penstock._src.simulate.results import Results


@dataclasses.dataclass
class Program:
    """The graph of a worker, and the ops to run: `step` in every step; `setup`, stage by stage, once on the first worker, and
    then `join` on every worker, before the measurement; `chief` repeatedly, beside the first worker's steps."""
    graph: Graph
    step: list[Any]
    setup: list[list[Any]] = dataclasses.field(default_factory=list)
    join: list[list[Any]] = dataclasses.field(default_factory=list)
    chief: list[Any] = dataclasses.field(default_factory=list)
    feeds: list[Any] = dataclasses.field(default_factory=list)
    costs: dict[str, float] = dataclasses.field(default_factory=dict)
    examples: int = 1                                # that a step processes
    record: Any = None                               # a CostGraphDef with measured times
    code: StepCode | None = None                     # the step, if it was recorded and there is no graph


Build = Callable[[int], Program]                     # the number of servers -> the graph of worker 0
LOCKSTEP, FREE = "lockstep", "free"


class Job:
    """A program on a cluster.

    `pace` determines when a worker starts its next step: FREE, as soon as its last one has ended; LOCKSTEP, when all have ended
    theirs. In training with SyncReplicasOptimizer workers are free, and wait for tokens inside of their steps. Tasks fail by
    the rates of their machines, in asynchronous training: lost steps are run again.

    A worker has `clients`, each of which requests one step after the other. `beside` are programs of further workers, which run
    meanwhile and are not measured; `pins`, on one machine, has the cores of workers and servers.
    """

    def __init__(self, program: Program, machines: Machines, workers: int, servers: int, pace: str = FREE, seed: int = 0,
                 beside: Sequence[Program] = (), pins: Mapping[tuple[str, int], int] | None = None,
                 clients: int = 1):
        self.program, self.pace, self.clients = program, pace, clients
        self.cluster = Cluster({"ps": servers, "worker": workers + len(beside)}, machines, pins=pins)
        every = self.cluster.job("worker")
        self.workers, further = every[:workers], every[workers:]
        own = self.workers[0].name
        devices = DeviceSet(self.cluster.devices([own, *(task_name("ps", i) for i in range(servers))]))
        network = machines.network
        costs = Costs(program.costs, network.small if network.one_machine else 0)
        if program.record is not None:
            costs.learn(program.record, devices)

        def compiled(what: list[Any], program: Program = program) -> StepCode:
            return compile_step(what, program.feeds, devices, own, costs)
        with program.graph.as_default():
            self.step = program.code or compiled(program.step)
            self._setup, self._join = [compiled(s) for s in program.setup], [compiled(s) for s in program.join]
            self._chief = compiled(program.chief) if program.chief else None
        self._beside: dict[Task, StepCode] = {}
        for task, other in zip(further, beside, strict=True):
            with other.graph.as_default():
                self._beside[task] = compiled(other.step, other)
        self.ended: dict[Task, int] = {}                   # steps of each worker
        self.errors: list[BaseException] = []
        self.results = Results(self)
        self._failures = random.Random(f"{seed} failures")
        self._draws = {t: random.Random(f"{seed} {t.name}") for t in self.workers}     # the same, whatever else is changed
        self._recoveries = {t: Recovery() for t in self.workers}
        self._restoring = False
        self._at_barrier = 0
        self._wanted = 0

    # -- running ----------------------------------------------------------------------------------------------------------
    def run(self, steps: int, limit: float = float("inf")) -> Results:
        """Runs so many steps of every worker, on average; returns the measurements."""
        self._wanted = steps * len(self.workers)
        self._prepare()
        self.ended = dict.fromkeys(self.workers, 0)
        clock = self.cluster.clock
        self.results.began(clock.now)
        self._plan_failures()
        if self._chief is not None:
            self._run_chief()
        for task in self.workers:
            for client in range(self.clients):
                self._next(task, client)
        for task in self._beside:
            self._next(task)
        with paused_collector():
            clock.run(lambda: self.results.count >= self._wanted, limit)
        self.results.over(clock.now)
        return self.results

    def _prepare(self) -> None:
        """Runs the set-up of the job, in simulated time, without measuring it."""
        for stages, tasks in ((self._setup, self.workers[:1]), (self._join, self.workers)):
            for code in stages:
                for task in tasks:
                    MasterRun(task, code, _must_not_fail).start()
                self.cluster.clock.run()

    def _next(self, task: Task, client: int = 0) -> None:
        if task in self._beside:
            MasterRun(task, self._beside[task], lambda _: self._next(task)).start()
            return
        slow = task.host.machine.straggling.factor(self._draws[task])
        began = self.cluster.clock.now
        MasterRun(task, self.step, lambda error: self._step_ended(task, began, error, client), slow).start(client)

    def _step_ended(self, task: Task, began: float, error: BaseException | None, client: int = 0) -> None:
        if error is not None:
            self._lost(task, error)
            return
        self._recoveries[task].made()
        self.ended[task] += 1
        self.results.step(task, began, self.cluster.clock.now)
        if self.pace == FREE:
            self._next(task, client)
            return
        self._at_barrier += 1
        if self._at_barrier == len(self.workers):
            self._at_barrier = 0
            self.results.round(began, self.cluster.clock.now)
            for each in self.workers:
                self._next(each)

    # -- failures -----------------------------------------------------------------------------------------------------
    def _plan_failures(self) -> None:
        """Draws when tasks fail, by the rates of their machines."""
        for task in self.cluster.tasks.values():
            if task.host.machine.failures_per_day:
                self._plan_failure(task)

    def _plan_failure(self, task: Task) -> None:
        rate = task.host.machine.failures_per_day / 86400
        self.cluster.clock.after(self._failures.expovariate(rate), self._crash, task)

    def _crash(self, task: Task) -> None:
        """A task dies, and comes back after a while; the next failure is drawn then."""
        self.results.failures += 1
        task.crash()
        self.cluster.clock.after(task.host.machine.restart_seconds, self._restart, task)

    def _restart(self, task: Task) -> None:
        task.restart()
        self._plan_failure(task)
        if task in self._recoveries:
            self._again(task)
        else:
            self._restoring = True
            self._restore(list(self._setup))

    def _restore(self, stages: list[StepCode]) -> None:
        """The chief initializes a server that has come back, as it would restore a checkpoint."""
        if not stages:
            self._restoring = False
            return

        def ended(error: BaseException | None) -> None:
            if error is None:
                self._restore(stages[1:])
            else:
                self.cluster.clock.after(LONGEST, self._restore, stages)
        chief = self.workers[0]
        if chief.alive:
            MasterRun(chief, stages[0], ended).start()
        else:
            self.cluster.clock.after(LONGEST, self._restore, stages)

    def _lost(self, task: Task, error: BaseException) -> None:
        """A step has failed. One that has lost a task is run again in a new session, as monitored sessions do."""
        if not isinstance(error, (errors.UnavailableError, errors.AbortedError)):
            self.errors.append(error)
            return
        self.cluster.clock.after(self._recoveries[task].failed(), self._again, task)

    def _again(self, task: Task) -> None:
        if not task.alive:
            return                                   # it starts when it is back
        if self._restoring or not all(self.cluster.tasks[name].alive for name in self.step.others):
            self.cluster.clock.after(self._recoveries[task].failed(), self._again, task)
        else:
            self._next(task)

    def _run_chief(self) -> None:
        began = self.cluster.clock.now

        def ended(error: BaseException | None) -> None:
            if error is not None:
                self.errors.append(error)
                return
            self.results.round(began, self.cluster.clock.now)
            self._run_chief()
        MasterRun(self.workers[0], self._chief, ended).start()  # type: ignore[arg-type]


def _must_not_fail(error: BaseException | None) -> None:
    if error is not None:
        raise error
