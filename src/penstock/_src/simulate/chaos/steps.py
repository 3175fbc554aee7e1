"""Distributed steps (cluster/step_state.py) while messages are late or lost, and tasks crash, stop and come back.

A client runs steps of a master with parts on two other tasks, which exchange values. After an error it makes a new session, as
`Recovery` does. Invariants: a step ends once, and not later than its limit; it succeeds only if each of its parts has; it
leaves no state on any task; after the last fault, training continues to its end.
"""
from __future__ import annotations

from typing import Any

from penstock._src.cluster.peers import LOST
from penstock._src.cluster.recovery import Recovery
from penstock._src.cluster.step_state import END_SECONDS, ORPHANED
from penstock._src.simulate.chaos.choices import Choices, check
from penstock._src.simulate.cluster import Cluster, MasterRun, PartRun, Task
from penstock._src.simulate.machines import Machines
from penstock._src.simulate.plan import MASTER, PartCode, Run, Send, StepCode, Wait

STEPS, DEADLINE, CALM = 3, 20.0, 60.0
DELAYS = (0.001, 0.001, 0.001, 0.01, 0.1, 1.0, 3.0)


class ChaosWire:
    """A wire on which messages have random delays, overtake each other, and are lost while a connection is cut or its task is
    dead."""

    def __init__(self, clock: Any, network: Any):
        self.clock = clock
        self.choices: Choices = None                 # type: ignore[assignment]
        self.tasks: dict[Any, Task] = {}             # by host
        self.cuts: set[frozenset] = set()
        self.dials: dict[frozenset, int] = {}        # connections so far between two hosts

    def send(self, source: Any, target: Any, size: int, receive: Any, *args: Any, **_: Any) -> None:
        """Delivers a message, unless its connection was cut or its target has died."""
        if not self.tasks[target].alive:
            return
        if source is target:
            self.clock.after(0.0, receive, *args)
            return
        delay = DELAYS[self.choices.choose(len(DELAYS))] if self.clock.now < CALM else DELAYS[0]
        self.clock.after(delay, self._arrive, source, target, self._connection(source, target), receive, args)

    def _connection(self, source: Any, target: Any) -> tuple[int, int, int]:
        return self.tasks[source].life, self.tasks[target].life, self.dials.get(frozenset((source, target)), 0)

    def _arrive(self, source: Any, target: Any, connection: tuple, receive: Any, args: tuple) -> None:
        if frozenset((source, target)) not in self.cuts and connection == self._connection(source, target):
            receive(*args)

    def hang_up(self, source: Any, target: Any) -> None:
        """The connection between two hosts ends, and what is on its way is lost."""
        pair = frozenset((source, target))
        self.dials[pair] = self.dials.get(pair, 0) + 1


def _step_code(a: str, b: str) -> StepCode:
    """The master sends to a, a to b, b to the master, and both others end after it."""
    work = Run(0.01, "work")
    own = PartCode([work, Send(a, ("x",), 4, (None,)), Wait("z", None), work], None, True)
    first = PartCode([Wait("x", None), work, Send(b, ("y",), 4, (None,)), work], None, False)
    second = PartCode([work, Wait("y", None), work], Send(MASTER, ("z",), 4, (None,)), False)
    return StepCode({MASTER: own, a: first, b: second}, {}, 0)


class World:
    """One run."""

    def __init__(self, choices: Choices):
        self.choices = choices
        self.cluster = Cluster({"worker": 3}, Machines(), wire=ChaosWire)
        self.clock, wire = self.cluster.clock, self.cluster.wire
        self.master, self.a, self.b = self.tasks = list(self.cluster.tasks.values())
        wire.choices, wire.tasks = choices, {t.host: t for t in self.tasks}
        self.code = _step_code(self.a.name, self.b.name)
        self.well: dict[str, int] = {}               # parts of each step that have succeeded
        self.done, self.over = 0, False
        self.running: MasterRun | None = None
        self.recovery = Recovery()
        self.ahead = dict.fromkeys(self.tasks, 0)    # seconds that the clocks of tasks have jumped
        self.session: dict[str, int] = {}

    def run(self) -> None:
        """Faults, then a period without faults in which everything must end."""
        for _ in range(self.choices.choose(5)):
            self.clock.at(self.choices.choose(400) / 100, self._fault)
        self._new_session()
        self.clock.run(limit=CALM + 10 * (DEADLINE + END_SECONDS))
        check(self.over, f"{STEPS - self.done} steps were left, and the training has not gone on in the calm")
        for task in self.tasks:
            task.steps.tick(self.clock.now + self.ahead[task] + ORPHANED + 1)
            check(not task.runs and not len(task.steps), f"a step is left on {task.name}")

    # -- faults -------------------------------------------------------------------------------------------------------
    def _fault(self) -> None:
        kind = self.choices.choose(7)
        if kind == 1:
            self._crash(self.tasks[1 + self.choices.choose(2)])
        elif kind == 2:
            self._cut(self.tasks[1 + self.choices.choose(2)])
        elif kind == 3:
            self._pause(self.tasks[1 + self.choices.choose(2)])
        elif kind == 4 and self.running is not None:
            self.running.cancel()
        elif kind == 5:
            for task in self.tasks:                  # its clock jumps: the machine was suspended
                self.ahead[task] += self.choices.choose(200)
                task.steps.tick(self.clock.now + self.ahead[task])
        elif kind == 6:
            self._crash(self.master)

    def _crash(self, task: Task) -> None:
        if task.alive:
            task.crash()
            self.clock.after(0.1 + self.choices.choose(60) / 10, self._restart, task)
            if task is self.master:
                self.running = None

    def _restart(self, task: Task) -> None:
        task.restart()
        if task is self.master and not self.over:
            self._new_session()

    def _cut(self, task: Task) -> None:
        """Silences the connections between the master and a task until each considers the other lost."""
        pair = frozenset((self.master.host, task.host))
        self.cluster.wire.cuts.add(pair)
        self.clock.after(LOST, self._lost, task)
        self.clock.after(LOST + self.choices.choose(80) / 10, self.cluster.wire.cuts.discard, pair)

    def _pause(self, task: Task) -> None:
        """Stops a task. After too long a pause (here, as long as that of a cut) it is considered lost, and finds its
        connections closed when it resumes."""
        seconds = self.choices.choose(60) / 10
        task.host.cores.book(self.clock.now, seconds)
        if seconds > LOST:
            self.clock.after(LOST, self._lost, task)

    def _lost(self, task: Task) -> None:
        self.session.pop(task.name, None)
        self.cluster.wire.hang_up(self.master.host, task.host)
        if self.running is not None:
            self.running.lose(task.name, "it has been silent")
        task.master_lost(self.master.name, self.master.life)

    # -- the client ---------------------------------------------------------------------------------------------------
    def _new_session(self) -> None:
        if not self.master.alive or self.running is not None or self.over:
            return
        if not all(t.alive for t in self.tasks) or self.cluster.wire.cuts:
            self.clock.after(self.recovery.failed(), self._new_session)
            return
        self.recovery.made()
        self.session = {t.name: t.life for t in self.tasks}
        self._step()

    def _step(self) -> None:
        if self.done == STEPS:
            self.over = True
            return
        began, ended = self.clock.now, []

        def end(error: BaseException | None) -> None:
            ended.append(error)
            check(len(ended) == 1, "a step has ended twice")
            check(self.clock.now - began <= DEADLINE + END_SECONDS + 1e-6, "a step has ended later than its limit")
            self._ended(run, error)
        run = self.running = _Counted(self.master, self.code, end, self)
        run.start()
        self.clock.after(DEADLINE, self._deadline, run)

    def _deadline(self, run: MasterRun) -> None:
        if self.running is run:
            run.deadline_passed()

    def _ended(self, run: MasterRun, error: BaseException | None) -> None:
        self.running = None
        if error is None:
            check(self.well.get(run.step) == 3, "a step has ended well, and one of its parts has not")
            self.done += 1
        stale = any(self.session.get(t.name) != t.life for t in self.tasks)
        if error is None and not stale:
            self._step()
        else:
            self.clock.after(self.recovery.failed(), self._new_session)


class _Counted(MasterRun):
    """A step whose parts are counted as they end."""

    __slots__ = ("world",)

    def __init__(self, task: Task, code: StepCode, ended: Any, world: World):
        super().__init__(task, code, ended)
        self.world = world

    def part_over(self, run: PartRun, error: Any) -> None:
        """A part has ended."""
        if error is None:
            self.world.well[self.step] = self.world.well.get(self.step, 0) + 1
        super().part_over(run, error)


def world(choices: Choices) -> None:
    """One schedule."""
    World(choices).run()
