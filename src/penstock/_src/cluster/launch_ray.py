"""The same cluster on Ray: each task is an actor, which runs the script in its own process.

The tasks that a job begins with are placed together (a placement group), so that two jobs do not wait for each other's room.
Ray restarts the parameter servers and the chief where their addresses are. Other workers may move: when the machine of one is
lost, it is placed again where Ray has room, under the same index and a new address, and sends its cluster to the servers
(PENSTOCK_JOINS). In the same way up to `most` workers join a running job. Actors that wait for room are what Ray's autoscaler
counts as demand.
"""
from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from typing import Any

from penstock._src.base import errors, switches
from penstock._src.cluster import launch as local
from penstock._src.cluster import security
from penstock._src.cluster.ports import free_addresses

_LIGHT = 0.1                        # CPUs that Ray counts for a task that mostly waits
_GRACE = 15.0                       # seconds for tasks to end at the end of the job
_REMIND = 30.0                      # seconds between messages about tasks that have no place
Name = tuple[str, int]              # job and index of a task


class _Runner:
    """The actor of a task. `stop` is called while `run` runs, on another thread."""

    def __init__(self, name: str):
        self._name = name
        self._launcher: local.Launcher | None = None

    def __repr__(self) -> str:
        """Ray asks for it once, and writes it before every line that the task prints."""
        return self._name

    def address(self) -> str:
        """An address of this machine whose port is free."""
        import ray
        return free_addresses(1, ray.util.get_node_ip_address())[0]

    def run(self, job: str, index: int, command: list[str], environment: dict[str, str], restarts: int) -> int:
        """Runs the script to its end, again if it dies; returns its exit status."""
        task = local.Task(job, index, command, environment)
        self._launcher = local.Launcher([task], restarts, lambda line: print(line, flush=True),
                                        prefixed=self._name != task.name)
        return self._launcher.run()

    def stop(self) -> None:
        """Requests the end of the task, as a signal would."""
        if self._launcher is not None:
            self._launcher.stop()


@dataclasses.dataclass(frozen=True)
class Options:
    """What a job needs beside its tasks: whether parameter servers run the script, how often a task is restarted, the number
    of workers up to which more may join (0: none), and what Ray counts for a worker."""
    plain_ps: bool = False
    restarts: int = 3
    most: int = 0
    worker_cpus: float = _LIGHT
    worker_gpus: float = 0.0


def launch(script: list[str], jobs: dict[str, int], options: Options, address: str | None) -> int:
    """Runs a script as tasks of a Ray cluster; returns the exit status."""
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    try:
        import ray
    except ImportError:
        raise errors.FailedPreconditionError(None, None, "--on ray needs Ray: pip install 'penstock[ray]'") from None
    began = not ray.is_initialized()
    if began:
        ray.init(address=address, log_to_driver=True, runtime_env={"env_vars": _inherited()})
    try:
        return _Job(ray, script, jobs, options).run()
    finally:
        if began:
            ray.shutdown()


def _inherited() -> dict[str, str]:
    """What actors need of this environment to find the same modules."""
    return {"PYTHONPATH": os.pathsep.join([os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])])}


class _Job:
    """The tasks of one job on Ray. `_running` has the call of each task that runs, `_placing` those that have no place yet."""

    def __init__(self, ray: Any, script: list[str], jobs: dict[str, int], options: Options):
        self._ray, self._options, self._jobs = ray, options, jobs
        self._script = [os.path.abspath(script[0]), *script[1:]]
        with open(script[0], encoding="utf-8", errors="replace") as file:
            self._source = file.read()
        self._secret = security.secret().decode()
        self._first: Name = ("chief", 0) if jobs.get("chief") else ("worker", 0)
        self._cluster: dict[str, list[str]] = {}
        self._group: Any = None
        self._actors: dict[Any, Any] = {}                      # of each call in _running and _placing
        self._running: dict[Any, Name] = {}
        self._placing: dict[Any, Name | None] = {}             # a task that moves, or None: one that joins
        self._moves: dict[Name, int] = {}                      # how often tasks of the beginning were lost
        self._left: set[int] = set()                           # indices of joined workers whose machines were lost
        self._ended: set[Name] = set()
        self._watching = contextlib.ExitStack()                # the status page

    def run(self) -> int:
        """Runs the job to its end; returns the exit status."""
        try:
            self._begin()
            self._watching.enter_context(local.watched(self._cluster, _say))
            for _ in range(max(0, self._options.most - self._jobs["worker"])):
                self._place(None)
            while not self._done():
                code = self._look()
                if code:
                    return code
            return 0
        finally:
            self._watching.close()
            self._end()
            if self._group is not None:
                self._ray.util.remove_placement_group(self._group)

    def _done(self) -> bool:
        """Whether the first worker has ended, and no other task runs but the parameter servers."""
        return self._first in self._ended and all(job == local.SERVES for job, _ in self._running.values())

    def _end(self) -> None:
        """Ends what still runs in order, then the actors. Ray reports an actor that is killed in a call as a failure."""
        for call in self._running:
            self._actors[call].stop.remote()
        if self._running:
            self._ray.wait(list(self._running), num_returns=len(self._running), timeout=_GRACE)
        for actor in self._actors.values():
            self._ray.kill(actor)

    # -- the tasks of the beginning ------------------------------------------------------------------------------------
    def _begin(self) -> None:
        """Places all tasks of the beginning together, and starts them."""
        names = [(job, i) for job, count in self._jobs.items() for i in range(count)]
        bundles = [{k: v for k, v in self._needs(job).items() if v} for job, _ in names]
        self._group = self._ray.util.placement_group(bundles, strategy="SPREAD")
        self._wait(self._group.ready(), f"{len(names)} tasks, which need {_summed(bundles)}")
        actors = {name: self._actor(name, bundle) for bundle, name in enumerate(names)}
        found = dict(zip(names, self._ray.get([a.address.remote() for a in actors.values()]), strict=True))
        self._cluster = {job: [found[job, i] for i in range(count)] for job, count in self._jobs.items()
                         if count and job != local.OUTSIDE}
        for name, actor in actors.items():
            self._start(name, actor, joins=False)

    def _wait(self, ready: Any, what: str) -> None:
        """Waits for a place, and says every half minute what is missing."""
        while not self._ray.wait([ready], timeout=_REMIND)[0]:
            free = {k: v for k, v in self._ray.available_resources().items() if k in ("CPU", "GPU")}
            _say(f"waiting for room for {what}; Ray has {_summed([free])} free")

    def _needs(self, job: str) -> dict[str, float]:
        """What Ray counts for a task of a job."""
        heavy = job in ("worker", "chief")
        return {"CPU": self._options.worker_cpus if heavy else _LIGHT, "GPU": self._options.worker_gpus if heavy else 0.0}

    def _moves_freely(self, name: Name) -> bool:
        """Whether a task may get another address: no other task has to know it."""
        return name[0] == "worker" and name != self._first

    def _actor(self, name: Name | None, bundle: int | None = None) -> Any:
        """The actor of a task; in the bundle that was reserved for it, or wherever there is room."""
        job = name[0] if name else "worker"
        needs, stays = self._needs(job), name is not None and not self._moves_freely(name)
        options: dict[str, Any] = {"num_cpus": needs["CPU"], "num_gpus": needs["GPU"], "max_concurrency": 2}
        if stays:
            options |= {"max_restarts": self._options.restarts, "max_task_retries": self._options.restarts}
        if bundle is not None:
            from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(self._group, bundle)
        return self._ray.remote(_Runner).options(**options).remote(f"{name[0]} {name[1]}" if name else "joined")

    def _start(self, name: Name, actor: Any, joins: bool) -> None:
        job, index = name
        command = local.command_of(sys.executable, self._script, self._source, self._cluster, job, index,
                                   self._options.plain_ps)
        environment = local.surroundings(self._cluster, job, index, self._secret)
        if joins:
            environment[switches.JOINS.name] = "1"
        call = actor.run.remote(job, index, command, environment, self._options.restarts)
        self._running[call], self._actors[call] = name, actor

    # -- the tasks that come and go ------------------------------------------------------------------------------------
    def _place(self, name: Name | None) -> None:
        """Requests a place for a worker that was lost, or (None) that may join."""
        actor = self._actor(name)
        call = actor.address.remote()
        self._placing[call], self._actors[call] = name, actor

    def _joined(self, call: Any, address: str) -> None:
        """A worker has a place: the lowest index that is free, in a list of addresses without gaps."""
        name, actor = self._placing.pop(call), self._actors.pop(call)
        workers = self._cluster["worker"]
        if name is None:
            index = min(self._left, default=len(workers))
            self._left.discard(index)
            name = ("worker", index)
        workers[name[1]:name[1] + 1] = [address]
        _say(f"worker {name[1]} joins at {address}")
        self._start(name, actor, joins=True)

    def _lost(self, name: Name) -> int:
        """The actor of a task is gone, with its machine or without; returns the exit status of the job, or 0 to go on."""
        moved = self._moves[name] = self._moves.get(name, 0) + 1
        if not self._moves_freely(name):
            _say(f"{name[0]} {name[1]} is lost, and has no other place: ending the job")
            return 1
        began_with = name[1] < self._jobs["worker"]
        if began_with and moved > self._options.restarts:
            _say(f"worker {name[1]} was lost {moved} times: ending the job")
            return 1
        _say(f"worker {name[1]} is lost; it joins again when there is room")
        if self._first not in self._ended:
            if not began_with:
                self._left.add(name[1])
            self._place(name if began_with else None)
        return 0

    def _look(self) -> int:
        """Waits for what happens next; returns an exit status that ends the job, or 0."""
        done, _ = self._ray.wait([*self._running, *self._placing], num_returns=1, timeout=1.0)
        for call in done:
            if call in self._placing:
                self._placed(call)
            else:
                return self._gone(call)
        return 0

    def _placed(self, call: Any) -> None:
        """An actor that waited has a place."""
        try:
            self._joined(call, self._ray.get(call))
        except self._ray.exceptions.RayActorError:             # its machine was lost before the task began
            del self._actors[call]
            self._place(self._placing.pop(call))

    def _gone(self, call: Any) -> int:
        """A task has ended, or is lost; returns an exit status that ends the job, or 0."""
        name = self._running.pop(call)
        try:
            code = self._ray.get(call)
        except self._ray.exceptions.RayActorError:
            self._actors.pop(call)
            return self._lost(name)
        if code == 0 and name[0] != local.SERVES:
            self._ended.add(name)
        if name == self._first and not code:
            for waiting in list(self._placing):                # no worker joins a training that has ended
                del self._placing[waiting]
                with contextlib.suppress(Exception):
                    self._ray.kill(self._actors.pop(waiting))
        return code


def _summed(parts: list[dict[str, float]]) -> str:
    """Resources as text: "2 CPU, 1 GPU"."""
    total: dict[str, float] = {}
    for part in parts:
        for kind, count in part.items():
            total[kind] = total.get(kind, 0.0) + count
    return ", ".join(f"{count:g} {kind}" for kind, count in total.items()) or "nothing"


def _say(line: str) -> None:
    print(f"-- {line}", flush=True)
