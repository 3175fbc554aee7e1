"""Simulated tasks and the steps that they run together.

The state of a step is the real one (cluster/step_state.py): `MasterRun` does for a `MasterStep` what cluster/task_step.py does
with threads and sockets, and `Task` does for `WorkerSteps` what cluster/worker.py does. A part runs its instructions
(`plan.py`) on the cores of its host.
"""
from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock._src.base import errors
from penstock._src.cluster.peers import task_name
from penstock._src.cluster.step_state import Abort, Actions, CancelOwn, Deliver, EndBy, Finish, MasterStep, WorkerSteps
from penstock._src.execute.context import ResourceManager, StepContext
from penstock._src.simulate.control import Parked, Parking
from penstock._src.simulate.engine import Clock, Cores
from penstock._src.simulate.machines import Machines
from penstock._src.simulate.memory import Memory, Touch
from penstock._src.simulate.plan import MASTER, Buffer, Call, PartCode, Run, Send, SimulatedDevice, StepCode, Wait
from penstock._src.simulate.wire import Host, LocalHost, LocalWire, Wire

_NOTHING = (None,) * 64              # values without content


class Cluster:
    """The tasks of a simulated cluster."""

    def __init__(self, jobs: dict[str, int], machines: Machines, wire: Callable[..., Any] | None = None,
                 pins: Mapping[tuple[str, int], int] | None = None):
        self.clock, self.machines = Clock(), machines
        local = machines.network.one_machine
        made: Callable[..., Any] = wire or (LocalWire if local else Wire)
        self.wire = made(self.clock, machines.network)
        self.numbers = itertools.count(1)
        self.trace: Any = None                       # a Trace, if requested
        self.tasks: dict[str, Task] = {}
        of_one = machines.of("worker")
        memory = Memory(machines.network, of_one.memory_bandwidth)
        self.cores = Cores(self.clock, of_one.cores, memory, machines.network.jitter)           # of one machine
        for job, count in jobs.items():
            for i in range(count):
                rack = len(self.tasks) // machines.network.rack_size if machines.network.rack_size else 0
                name = task_name(job, i)
                machine = machines.of(job)
                number = pins[job, i] if pins is not None else i if job == "worker" else jobs.get("worker", 0) + len(self.tasks)
                self.tasks[name] = Task(self, name, LocalHost(name, machine, self.cores, number) if local else
                                        Host(name, machine, rack))

    def job(self, name: str) -> list[Task]:
        """The tasks of a job."""
        return [t for n, t in self.tasks.items() if n.startswith(f"/job:{name}/")]

    def traced(self, receive: Callable, source: str, target: str, label: str, step: str, size: int) -> Callable:
        """A receiver that records when it is called. A trace that is full ends: the steps after it cost nothing more."""
        sent, trace = self.clock.now, self.trace
        if trace.full:
            self.trace = None
            return receive

        def noted(*args: Any) -> None:
            trace.came(source, target, label, step, sent, self.clock.now, size)
            receive(*args)
        return noted

    def devices(self, tasks: Sequence[str]) -> list[SimulatedDevice]:
        """The devices of some tasks."""
        return [SimulatedDevice(t, self.tasks[t].host.machine) for t in tasks]


class Task:
    """One task: the worker's side of steps, and the resources that outlive them."""

    __slots__ = ("cluster", "name", "host", "steps", "runs", "resources", "kept", "life", "alive", "masters")

    def __init__(self, cluster: Cluster, name: str, host: Host):
        self.cluster, self.name, self.host = cluster, name, host
        self.life, self.alive = 0, True
        self._empty()

    def _empty(self) -> None:
        self.steps = WorkerSteps(self.cluster.clock.now)
        self.runs: dict[str, PartRun] = {}
        self.resources, self.kept = ResourceManager(), {}                    # type: ignore[var-annotated]
        self.masters: set[MasterRun] = set()

    # -- messages -------------------------------------------------------------------------------------------------------
    def begin(self, step: str, code: PartCode, master: MasterRun, keys: Sequence[str], values: Sequence[Any]) -> None:
        """A master has sent a part."""
        if not self.alive:
            return
        run = PartRun(self, code, step, master)
        try:
            early = self.steps.begin(step, (master.task.name, master.task.life))
        except errors.AbortedError as e:
            self._send(master, 0, master.failed, self.name, e)
            return
        self.runs[step] = run
        for some in early:
            run.put(some.keys, some.values)
        run.put(keys, values)
        seconds = self.host.machine.begin_seconds
        if seconds:
            self.host.compute(self.cluster.clock, step, "begin", seconds, (), run.advance, ())
        else:
            run.advance()

    def tensor(self, step: str, keys: Sequence[str], values: Sequence[Any]) -> None:
        """Another task has sent values."""
        if self.alive:
            for _ in self.steps.tensor(step, keys, values):
                self.runs[step].take(keys, values)

    def abort(self, step: str, why: str) -> None:
        """The master has aborted a step."""
        if self.alive:
            for action in self.steps.abort(step, errors.AbortedError(None, None, why)):
                self.runs[step].cancel(action.error)

    def master_lost(self, name: str, life: int) -> None:
        """The connection to a master has ended, and its steps with it."""
        if self.alive:
            for action in self.steps.master_lost((name, life), errors.AbortedError(None, None, f"The master {name} is lost.")):
                self.runs[action.step].cancel(action.error)

    # -- reports of its parts ------------------------------------------------------------------------------------------
    def ended(self, run: PartRun, error: errors.OpError | None) -> None:
        """Reports the end of a part to its master, with the pending values."""
        self.steps.end(run.step)
        self.runs.pop(run.step, None)
        if error is not None:
            self._send(run.master, 0, run.master.failed, self.name, error)
            return
        last = run.code.last
        if last is None:
            self._send(run.master, 0, run.master.done, self.name, (), ())
        else:
            self._send(run.master, last.size, run.master.done, self.name, last.keys, run.values_of(last),
                       touched=run.touches(last.touched))

    def _send(self, master: MasterRun, size: int, receive: Callable, *args: Any, touched: Sequence[Touch] = ()) -> None:
        if self.cluster.trace is not None:
            receive = self.cluster.traced(receive, self.name, master.task.name, "end", master.step, size)
        self.cluster.wire.send(self.host, master.task.host, size, receive, *args, step=master.step, touched=touched)

    # -- failure ----------------------------------------------------------------------------------------------------------
    def crash(self) -> None:
        """The process dies: its connections close, and the tasks at their other ends notice at once."""
        masters = {run.master for run in self.runs.values()}
        own, self.masters = self.masters, set()
        self.alive = False
        self.life += 1
        for part in self.runs.values():
            part.die()
        for run in own:
            run.die()
        self._empty()
        for master in masters:
            master.lose(self.name, "the connection was closed")

    def restart(self) -> None:
        """A new process replaces the one that died."""
        self.alive = True


class PartRun:
    """One part of one step, while it runs."""

    __slots__ = ("task", "code", "step", "master", "at", "got", "waits", "values", "over", "parking", "ctx", "slow", "since")

    def __init__(self, task: Task, code: PartCode, step: str, master: MasterRun, slow: float = 1.0):
        self.task, self.code, self.step, self.master, self.slow = task, code, step, master, slow
        self.at, self.waits, self.over = 0, None, False
        self.got: dict[str, Any] = {}
        self.values: dict[Any, Any] | None = None
        self.parking: Parking | None = None
        self.since = 0.0

    def put(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        """Values have arrived; the part does not continue."""
        if keys:
            self.got.update(zip(keys, values, strict=True))

    def take(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        """Values have arrived."""
        self.got.update(zip(keys, values, strict=True))
        if self.waits is not None and self.waits in self.got:
            self.waits = None
            self.advance()

    def advance(self) -> None:
        """Continues until the part has to wait, or has ended."""
        if self.over:
            return
        code, clock = self.code.code, self.task.cluster.clock
        end = len(code)
        while self.at < end:
            now: Any = code[self.at]
            kind = type(now)
            if kind is Wait:
                if now.key not in self.got:
                    self.waits, self.since = now.key, clock.now
                    if self is self.master.own:
                        self.master.flush()
                    return
                if now.into is not None and self.got[now.key] is not None:
                    self._values()[id(now.into)] = self.got[now.key]
                self.at += 1
            elif kind is Run:
                self.at += 1
                seconds = now.seconds * self.slow
                traced = self.task.cluster.trace is not None
                self.task.host.compute(clock, self.step, "run", seconds, self.touches(now.touched),
                                       self._traced if traced else self.advance, (now.label, seconds) if traced else ())
                return
            elif kind is Send:
                self.at += 1
                self._send(now)
            else:
                if not self._call(now):
                    return
                self.at += 1
        if self is self.master.own:
            self.master.flush()
        self.over = True
        self.master.part_over(self, None)

    def _traced(self, label: str, seconds: float) -> None:
        """Work of the part has ended."""
        cluster = self.task.cluster
        if cluster.trace is not None:
            cluster.trace.ran(self.task.name, label, self.step, cluster.clock.now - seconds, cluster.clock.now)
        self.advance()

    def _send(self, message: Send) -> None:
        values = self.values_of(message)
        cluster = self.task.cluster
        if message.task == MASTER:
            receive, target = self.master.tensor, self.master.task
            if target is self.task:                      # a step with parts of other tasks only
                self.master.tensor(message.keys, values)
                return
            args: tuple = (message.keys, values)
        else:
            target = cluster.tasks[message.task]
            if self is self.master.own and message.task in self.master.unsent:
                self.master.begin(message.task, message.keys, values, message.size, self.touches(message.touched))
                return
            receive, args = target.tensor, (self.step, message.keys, values)     # type: ignore[assignment]
        if cluster.trace is not None:
            receive = cluster.traced(receive, self.task.name, target.name, message.keys[0], self.step, message.size)
        cluster.wire.send(self.task.host, target.host, message.size, receive, *args, step=self.step,
                          touched=self.touches(message.touched))

    def touches(self, buffers: Sequence[Buffer]) -> Sequence[Touch]:
        """What is touched, by the names that it has on one machine."""
        return [((self.master.task.name if b.shared else self.task.name, b.name), b.size) for b in buffers] if buffers else ()

    def values_of(self, message: Send) -> Sequence[Any]:
        """The values of a message: None where they have no content."""
        known = self.values
        if known is None:
            return _NOTHING[:len(message.values)] if len(message.values) <= len(_NOTHING) else (None,) * len(message.values)
        return [None if t is None else known.get(id(t)) for t in message.values]

    def _values(self) -> dict[Any, Any]:
        if self.values is None:
            self.values = {}
            self.parking = Parking(self._woken)
            self.ctx = StepContext(self.task.resources)
            self.ctx.parking = self.parking
        return self.values

    def _call(self, call: Call) -> bool:
        """Calls a kernel; whether the part continues."""
        values = self._values()
        try:
            call.control(values, self.ctx, self.task.kept, self.master.task.name)
        except Parked:
            self.since = self.task.cluster.clock.now
            if self is self.master.own:
                self.master.flush()
            return False
        except errors.OpError as e:
            self.fail(e)
            return False
        return True

    def _woken(self) -> None:
        self.task.cluster.clock.after(0.0, self.advance)

    def fail(self, error: errors.OpError) -> None:
        """The part ends with an error."""
        if not self.over:
            self.over = True
            if self.parking is not None:
                self.parking.cancel(error)
            self.master.part_over(self, error)

    cancel = fail

    def die(self) -> None:
        """The process dies: the part stops without a report."""
        self.over = True


class MasterRun:
    """One run of a step, at its master. `ended(error)` is called when it is over."""

    __slots__ = ("task", "code", "state", "own", "step", "unsent", "_ended", "since", "values")

    def __init__(self, task: Task, code: StepCode, ended: Callable[[BaseException | None], None], slow: float = 1.0):
        cluster = task.cluster
        number = next(cluster.numbers)
        self.task, self.code, self._ended, self.step = task, code, ended, f"{task.name}:{number}"
        self.state = MasterStep(number, code.plan)
        self.own = PartRun(task, code.own, self.step, self, slow) if code.own is not None else None
        self.unsent: set[str] = set()
        self.since = cluster.clock.now
        task.masters.add(self)

    def start(self, client: int = 0) -> None:
        """A client of the task requests the step."""
        self.task.host.prepare(self.task.cluster.clock, self.step, self._go, client)

    def _go(self) -> None:
        if self not in self.task.masters:                # the task has died before it could begin
            return
        tasks = self.task.cluster.tasks
        begun = self.state.start()
        self.unsent = {task for task, in begun}
        for name in sorted(self.unsent):
            if not tasks[name].alive:
                self._act(self.state.task_lost(name, errors.UnavailableError(None, None, "it did not answer")))
                break
        if self.own is None or not self.own.code.light:
            self.flush()
        if self.own is not None and not self.own.over:
            if self.state.error is not None:
                self.own.fail(self.state.error)          # type: ignore[arg-type]
            else:
                self.own.advance()

    def flush(self) -> None:
        """Starts the tasks that have not started yet."""
        if self.unsent:
            for name in self.code.plan.fetches:
                if name in self.unsent:
                    self.begin(name, (), (), 0)

    def begin(self, name: str, keys: Sequence[str], values: Sequence[Any], size: int, touched: Sequence[Touch] = ()) -> None:
        """Sends a task its part, with values."""
        self.unsent.discard(name)
        if self.state.begins(name):
            cluster = self.task.cluster
            target = cluster.tasks[name]
            if not target.alive:
                self.lose(name, "the connection was closed")
                return
            receive = target.begin if cluster.trace is None else \
                cluster.traced(target.begin, self.task.name, name, "begin", self.step, size)
            cluster.wire.send(self.task.host, target.host, size, receive, self.step, self.code.others[name], self, keys, values,
                              step=self.step, touched=touched)

    # -- events -------------------------------------------------------------------------------------------------------------
    def part_over(self, run: PartRun, error: errors.OpError | None) -> None:
        """A part has ended, here or on another task."""
        if run is not self.own:
            run.task.ended(run, error)
        elif error is not None:
            self._act(self.state.own_failed(error))
        else:
            self._act(self.state.own_done([None] * len(self.code.plan.own or ())))

    def tensor(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        """A task has sent values for the own part."""
        self._act(self.state.tensor(self.state.number, keys, values))

    def done(self, task: str, keys: Sequence[str], values: Sequence[Any]) -> None:
        """A task has ended its part."""
        fetched = [None] * len(self.code.plan.fetches[task])
        self._act(self.state.part_done(task, self.state.number, fetched, keys, values))

    def failed(self, task: str, error: errors.OpError) -> None:
        """The part of a task has failed."""
        self._act(self.state.part_failed(task, self.state.number, error))

    def lose(self, task: str, why: str) -> None:
        """The connection to a task has ended."""
        self._act(self.state.task_lost(task, errors.UnavailableError(None, None, why)))

    def deadline_passed(self) -> None:
        """The time of the step is up."""
        self._act(self.state.deadline_passed())

    def cancel(self) -> None:
        """The client cancels the step."""
        self._act(self.state.cancelled(errors.CancelledError(None, None, "The client has cancelled the step.")))

    def die(self) -> None:
        """This task dies with its step: tasks that have a part of it are notified."""
        if self.own is not None:
            self.own.die()
        for name in self.code.others:
            self.task.cluster.tasks[name].master_lost(self.task.name, self.task.life - 1)

    def _act(self, actions: Actions) -> None:
        action: Any
        for action in actions:
            kind = type(action)
            if kind is Deliver:
                self.own.take(action.keys, action.values)              # type: ignore[union-attr]
            elif kind is Finish:
                self._finish(action)
            elif kind is Abort:
                target = self.task.cluster.tasks[action.task]
                self.task.cluster.wire.send(self.task.host, target.host, 0, target.abort, self.step, action.why, step=self.step)
            elif kind is CancelOwn:
                self.own.cancel(action.error)                          # type: ignore[union-attr]
            elif kind is EndBy:
                self.task.cluster.clock.after(action.seconds, self._time_is_up)

    def _time_is_up(self) -> None:
        self._act(self.state.time_is_up())

    def _finish(self, finish: Finish) -> None:
        self.own = None                                  # no cycle is left: simulations run without a collector
        if self in self.task.masters:                    # else the task has died
            self.task.masters.discard(self)
            self._ended(finish.error)
