"""Eager operations on other tasks: tf.config.experimental_connect_to_cluster and experimental_connect_to_host.

This process becomes a task beside those of the cluster, with a session whose `cluster_def` names them all (channel.py). An op
under `tf.device("/job:worker/task:1")` is a step of that session, made once for each kind of call: its inputs go there, and
its results come back. Resources stay where they were created, and ops that use them run there, wherever they were requested. A
function runs as a whole on the task of its resources; where they are on several, each of its ops runs where it belongs.

ParameterServerStrategy connects otherwise (`spread`): there is a channel to the parameter servers, and one to each worker
beside them, so that the loss of a worker ends only its channel. Functions run in this process unless a worker is
requested.
"""
from __future__ import annotations

import atexit
import itertools
import secrets
import threading
import weakref
from typing import Any

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.cluster.cluster import ClusterSpec
from penstock._src.cluster.peers import LOST, task_name
from penstock._src.cluster.remote import SCHEME
from penstock._src.cluster.server import Server, serving
from penstock._src.graph import context
from penstock._src.graph.build import output_types
from penstock._src.graph.eager_tensor import EagerTensor
from penstock._src.graph.engine import engine
from penstock._src.graph.messages import ConfigProto
from penstock._src.kernels.devices.device_spec import DeviceSpecV2 as DeviceSpec
from penstock._src.kernels.devices.device_spec import parts_of
from penstock._src.kernels.tables import StaticTable
from penstock._src.models.distribute import table_copies
from penstock._src.models.distribute.channel import Channel, RemoteHandle, task_of
from penstock._src.ops.registry import OpDef

_HERE = (dtypes.resource, dtypes.variant)          # values that cannot be sent
_connected: Connection | None = None


class PerWorker:
    """The run-time value of a tensor that has another value on each worker: `on(channel, index)` returns it."""

    __slots__ = ("on", "shape")

    def __init__(self, on: Any, shape: tuple = ()):
        self.on, self.shape = on, shape


class Connection:
    """The cluster that eager ops of this process may run on."""

    def __init__(self, cluster: ClusterSpec, job: str, index: int, spread: bool = False):
        jobs = cluster.as_dict()
        own = jobs.get(job)
        if own is not None and not spread:
            raise ValueError(f"The cluster has a job {job!r} already: choose another job_name for this process.")
        address = cluster.task_address(job, index) if own is not None else "127.0.0.1:0"
        host, _, port = address.rpartition(":")
        there = serving(host, int(port)) if own is not None else None
        self._server, self._started = there or Server({job: {index: address}}, job, index), there is None
        self._cluster_def = cluster.as_cluster_def()
        if own is None:
            added = self._cluster_def.job.add(name=job)
            added.tasks[index] = self._server.target.removeprefix(SCHEME)
        self._own, self._spread = task_name(job, index), spread
        self._lock = threading.Lock()
        self._names, self._life = itertools.count(), f"{secrets.randbits(62):x}"
        self._workers: dict[str, Channel] = {}
        try:
            self.main = self._channel(["/job:ps", self._own] if spread else [], reconnects=True)
        except BaseException:
            self._stop()
            raise
        self.jobs = set(jobs) - {job} if spread else {parts_of(d.name)[0] for d in self.main.devices}

    def _channel(self, filters: list[str], reconnects: bool = False) -> Channel:
        config = ConfigProto(allow_soft_placement=self._spread)
        config.experimental.share_session_state_in_clusterspec_propagation = True
        config.cluster_def.CopyFrom(self._cluster_def)
        config.device_filters.extend(filters)
        return Channel(self._server.target, config, self._own, reconnects)

    # -- tasks --------------------------------------------------------------------------------------------------------
    def incarnation(self, task: str, seconds: float) -> int:
        """The incarnation of a task; UnavailableError if it does not answer in time."""
        return self._server.peers(self._cluster_def).reach(task, seconds).incarnation

    def worker(self, task: str, fresh: bool = False) -> Channel:
        """The channel to a worker, opened if there is none; `fresh` in place of one that was lost."""
        with self._lock:
            found = None if fresh else self._workers.get(task)
        if found is not None:
            return found
        self.incarnation(task, LOST)                             # fails soon if it does not exist
        made = self._channel(["/job:ps", task, self._own])
        with self._lock:
            old, self._workers[task] = self._workers.get(task), made
        if old is not None:
            old.close()
        return made

    def place(self, opdef: OpDef, inputs: list) -> Any:
        """The device of another task on which a call runs; None if it runs here."""
        asked = context.state.device
        wanted = parts_of(asked) if asked and parts_of(asked)[0] in self.jobs else None
        if opdef.calls and self._spread:
            if wanted is not None:
                return self._device(opdef, wanted, asked)
            return self.main.host if any(type(t._value) in (RemoteHandle, PerWorker) for t in inputs) else None
        for t in inputs:
            if type(t._value) is RemoteHandle:
                return t._value.device
        if opdef.constant or any(t.dtype in _HERE and type(t._value) is not PerWorker for t in inputs):
            return None
        return None if wanted is None else self._device(opdef, wanted, asked)

    def _device(self, opdef: OpDef, wanted: tuple, asked: Any) -> Any:
        if self._spread and wanted[0] == "worker":
            devices = self.worker(task_name("worker", wanted[2] or 0)).devices
        else:
            devices = self.main.devices
        for d in devices:
            if all(w is None or w == h for w, h in zip(wanted, parts_of(d.name), strict=True)):
                return d
        raise errors.invalid(f"There is no device {asked!r} for {opdef.name}. The cluster has: "
                             f"{', '.join(d.name for d in devices)}.")

    # -- calls --------------------------------------------------------------------------------------------------------
    def run(self, opdef: OpDef, inputs: list, attrs: dict[str, Any], counts: tuple) -> list[EagerTensor] | None:
        """The results of a call on another task; None if it is one for this process."""
        where = self.place(opdef, inputs)
        if where is None:
            return None
        channel = self._workers.get(task_of(where), self.main)
        if opdef.per_session and dtypes.resource in output_types(opdef, attrs):
            return [self.made(opdef, attrs, where, channel)]
        values = [self._here(t._value, channel, where) for t in inputs]
        got = channel.run(opdef, values, [t.dtype for t in inputs], attrs, where)
        outputs = [EagerTensor(v, t) for v, t in zip(got, output_types(opdef, attrs), strict=True)]
        for t in outputs:
            t._on = where
        return outputs

    def on_worker(self, value: Any, channel: Channel, index: int) -> Any:
        """A worker's counterpart of a value of this process: its own, or its copy of an immutable table."""
        if type(value) is PerWorker:
            return value.on(channel, index)
        return table_copies.copied(self, channel, value) if isinstance(value, StaticTable) else value

    def _here(self, value: Any, channel: Channel, where: Any) -> Any:
        if channel is not self.main:
            return self.on_worker(value, channel, parts_of(where.name)[2] or 0)
        if type(value) is not PerWorker:
            return value
        raise errors.invalid("A per-worker value (of a per-worker dataset, or the worker's number) "
                             "can be used only in functions that ClusterCoordinator.schedule runs on workers.")

    def made(self, opdef: OpDef, attrs: dict[str, Any], where: Any, channel: Channel) -> EagerTensor:
        """The handle of a new resource of another task; the resource is freed with the handle."""
        handle = RemoteHandle(opdef, {**attrs, "shared_name": f"eager/{self._life}/{next(self._names)}"}, where)
        weakref.finalize(handle, channel.gone.append, (opdef, handle.attrs, where)).atexit = False
        made = EagerTensor(handle, dtypes.resource)
        made._on = where
        return made

    at_end: Any = staticmethod(lambda: None)         # called first when the connection ends

    def close(self) -> None:
        """Ends the sessions and the server of this process."""
        self.at_end()
        with self._lock:
            channels, self._workers = list(self._workers.values()), {}
        for channel in (*channels, self.main):
            channel.close()
        self._stop()

    def _stop(self) -> None:
        if self._started:
            self._server.stop()


def connect(cluster: Any, job: str, index: int, spread: bool = False) -> Connection:
    """Lets eager ops run on the tasks of a cluster."""
    global _connected
    close()
    cluster = ClusterSpec(cluster.cluster_spec() if hasattr(cluster, "cluster_spec") else cluster)
    _connected = Connection(cluster, job, index, spread)
    engine.elsewhere = _connected.run
    return _connected


def connected() -> Connection:
    """The connection; FailedPreconditionError without one."""
    if _connected is None:
        raise errors.FailedPreconditionError(None, None, "This process is not connected to a cluster any more.")
    return _connected


@atexit.register
def close() -> None:
    """Ends the connection, if any."""
    global _connected
    if _connected is not None:
        engine.elsewhere = None
        connected, _connected = _connected, None
        connected.close()


@export("config.experimental.ClusterDeviceFilters")
class ClusterDeviceFilters:
    """Which tasks of a cluster a task works with.

    >>> filters = tf.config.experimental.ClusterDeviceFilters()
    >>> filters.set_device_filters("worker", 0, ["/job:ps", "/job:worker/replica:0/task:0"])
    """

    def __init__(self) -> None:
        self._filters: dict[tuple[str, int], list[str]] = {}

    def set_device_filters(self, job_name: str, task_index: int, device_filters: Any) -> None:
        """Sets the devices, or their beginnings, that a task works with."""
        if not all(isinstance(f, str) for f in device_filters):
            raise TypeError(f"Device filters must be strings, got {device_filters!r}.")
        self._filters[job_name, int(task_index)] = list(device_filters)

    def of_task(self, job_name: str, task_index: int) -> list[str]:
        """The filters of a task; none if there are no limits."""
        return self._filters.get((job_name, task_index), [])


def _within(spec: ClusterSpec, filters: list[str]) -> ClusterSpec:
    """The tasks of a cluster that match some filters."""
    found: dict[str, dict[int, str]] = {}
    for job in spec.jobs:
        for task in spec.task_indices(job):
            device = DeviceSpec(job=job, replica=0, task=task)
            if not filters or any(_covers(DeviceSpec.from_string(f), device) for f in filters):
                found.setdefault(job, {})[task] = spec.task_address(job, task)
    return ClusterSpec(found)


def _covers(wanted: DeviceSpec, device: DeviceSpec) -> bool:
    return wanted.job in (None, device.job) and wanted.task in (None, device.task)


@export("config.experimental_connect_to_cluster")
def connect_to_cluster(cluster_spec_or_resolver: Any, job_name: str = "localhost", task_index: int = 0,
                       protocol: str | None = None, make_master_device_default: bool = True,
                       cluster_device_filters: ClusterDeviceFilters | None = None) -> None:
    """Lets eager operations run on the tasks of a cluster, under `tf.device("/job:worker/task:1")`.

    >>> tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec({"worker": ["localhost:2222", "localhost:2223"]}))
    """
    if not context.executing_eagerly():
        raise ValueError("`tf.config.experimental_connect_to_cluster` can only be called in eager mode.")
    if cluster_device_filters is not None:
        if not isinstance(cluster_device_filters, ClusterDeviceFilters):
            raise ValueError("`cluster_device_filters` must be an instance of `tf.config.experimental.ClusterDeviceFilters`.")
        spec = cluster_spec_or_resolver.cluster_spec() if hasattr(cluster_spec_or_resolver, "cluster_spec") \
            else cluster_spec_or_resolver
        cluster_spec_or_resolver = _within(ClusterSpec(spec), cluster_device_filters.of_task(job_name, task_index))
    connect(cluster_spec_or_resolver, job_name, task_index)


@export("config.experimental_connect_to_host")
def connect_to_host(remote_host: Any = None, job_name: str = "worker") -> None:
    """Lets eager operations run on the servers of one or several addresses, as the tasks of a job.

    >>> tf.config.experimental_connect_to_host("grpc://localhost:2222")
    """
    if not remote_host:
        raise ValueError("Must provide at least one remote_host")
    hosts = [remote_host] if isinstance(remote_host, str) else list(remote_host)
    connect_to_cluster({job_name: [h.removeprefix("grpc://") for h in hosts]})
