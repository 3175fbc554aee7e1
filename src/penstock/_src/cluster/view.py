"""A server as a task of a cluster: the other tasks, and the worker that runs parts of steps under that name.

A server has the view of its own cluster. A session may bring its own cluster (ConfigProto.cluster_def): then its master and all
tasks that it reaches have another view of that cluster, with the session's names for the tasks. Such a view is created on first
use, and dropped when it has had no open session and no connected task for a while. A server that joins a running cluster
(PENSTOCK_JOINS) brings its own cluster in the same way; its variables are those of the other workers.
"""
from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from penstock._src.base import errors, switches
from penstock._src.cluster.cluster import ClusterSpec
from penstock._src.cluster.connection import split_address
from penstock._src.cluster.peers import Peers, task_name
from penstock._src.cluster.worker import Worker
from penstock._src.execute.context import ResourceManager
from penstock._src.kernels.devices.devices import DeviceSet, local_devices

_MOST = 1024                        # views of one server: each worker that joins later brings one
_IDLE = 60.0                        # seconds after which an unused view is dropped
_HERE = {"localhost", "127.0.0.1"}


class View:
    """One cluster, as one task of it sees it. `spoken` is the cluster as sent to tasks that do not know it."""

    def __init__(self, task: str, incarnation: int, cluster: ClusterSpec, resources: ResourceManager, defaults: Any,
                 spoken: Any = None):
        self.peers = Peers(task, incarnation, cluster, lambda *message: self.worker.handle(*message), spoken)
        self.worker = Worker(self.peers, resources, DeviceSet(_own_devices(defaults, task)), defaults)

        self.visitors: set[Any] = set()              # connections that other tasks have opened
        self.asked_for = time.monotonic()            # when it was last looked up

    @property
    def idle(self) -> bool:
        """Whether it has been unused for a while."""
        return not self.worker.sessions and not self.visitors and time.monotonic() - self.asked_for > _IDLE

    def close(self) -> None:
        """Ends all running parts, and all links."""
        self.worker.close()
        self.peers.close()


class Views:
    """The views of one server: its own cluster's, and those that sessions have brought."""

    def __init__(self, task: str, incarnation: int, cluster: ClusterSpec, resources: ResourceManager, defaults: Any):
        self._make = lambda *args: View(args[0], incarnation, args[1], resources, defaults, *args[2:])
        self.own = self._make(task, cluster, _spoken(cluster.as_cluster_def()) if switches.JOINS.value() else None)
        self._others: dict[tuple[str, str], View] = {}
        self._steps_before = 0                       # of views that were dropped
        self._spent_before = [0.0, 0.0, 0.0]
        self._lock = threading.Lock()

    def all(self) -> list[View]:
        """All views; the server's own cluster first."""
        with self._lock:
            return [self.own, *self._others.values()]

    @property
    def steps_run(self) -> int:
        """The parts of steps that this task has run, in all its clusters."""
        with self._lock:
            return self._steps_before + sum(view.worker.account.steps for view in (self.own, *self._others.values()))

    @property
    def spent(self) -> list[float]:
        """Seconds that this task's steps have computed, waited, and moved bytes, in all its clusters."""
        with self._lock:
            return [sum(parts) for parts in zip(self._spent_before, *(view.worker.account.seconds for view in (
                self.own, *self._others.values())), strict=True)]

    def of_session(self, cluster_def: Any, host: str, port: int) -> View:
        """The view for a session of this server; its task is the one that has the server's address."""
        if not cluster_def.job:
            return self.own
        spoken = _spoken(cluster_def)
        for job, i, address in spoken:
            at = split_address(address)
            if at[1] == port and (at[0] == host or {at[0], host} <= _HERE):
                return self.of_peer(spoken, task_name(job, i))
        raise errors.invalid(f"The cluster_def of a session has no task at {host}:{port}, which is its master: "
                             f"{', '.join(address for *_, address in spoken)}.")

    def of_peer(self, spoken: Any, task: str) -> View:
        """The view of a cluster as another task describes it (None: the own cluster), in which this server is `task`."""
        if spoken is None:
            return self.own
        tasks: dict[str, dict[int, str]] = {}
        for job, i, address in spoken:
            tasks.setdefault(str(job), {})[int(i)] = str(address)
        key = task, repr(sorted(tasks.items()))
        with self._lock:
            found = self._others.get(key)
            if found is None:
                if len(self._others) >= _MOST:
                    raise errors.ResourceExhaustedError(None, None, f"This server is in {_MOST} clusters of sessions already.")
                found = self._others[key] = self._make(task, ClusterSpec(tasks), spoken)
            found.asked_for = time.monotonic()
            return found

    def sweep(self) -> None:
        """Drops unused views; called periodically."""
        with self._lock:
            gone = [self._others.pop(key) for key, view in list(self._others.items()) if view.idle]
            self._steps_before += sum(view.worker.account.steps for view in gone)
            self._spent_before = [sum(p) for p in zip(self._spent_before, *(v.worker.account.seconds for v in gone),
                                                      strict=True)]
        for view in gone:
            view.close()
        for view in self.all():
            view.worker.sweep()

    def close(self, between: Callable[[], None]) -> None:
        """Ends all views: their running parts, then what `between` ends, then their links."""
        views = self.all()
        for view in views:
            view.worker.close()
        between()
        for view in views:
            view.peers.close()


def _spoken(cluster_def: Any) -> list[list[Any]]:
    """A cluster as it is sent to other tasks: [job, index, address] of each task."""
    return sorted([job.name, i, address] for job in cluster_def.job for i, address in job.tasks.items())


def _own_devices(config: Any, task: str) -> list:
    """The devices of a task. Servers of one process have separate devices, even if the names are equal."""
    return [type(d)(d.index, d.physical, d.memory_limit_bytes, task) for d in local_devices(config, task)]
