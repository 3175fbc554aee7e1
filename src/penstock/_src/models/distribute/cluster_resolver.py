"""Cluster resolvers: where the tasks of a cluster are, and which of them this process is."""
from __future__ import annotations

import json
import os
from typing import Any

from penstock._src.base.api import export
from penstock._src.cluster.cluster import ClusterSpec
from penstock._src.kernels.devices.device_config import list_logical_devices

_NAMES = "distribute.cluster_resolver."


@export(_NAMES + "ClusterResolver")
class ClusterResolver:
    """Base of the resolvers: a subclass has `cluster_spec` and `master`."""

    task_type: Any = None
    task_id: Any = None
    rpc_layer: Any = None
    environment = ""

    def cluster_spec(self) -> ClusterSpec:
        """The cluster as it is now."""
        raise NotImplementedError(f"{type(self).__name__} must implement cluster_spec.")

    def master(self, task_type: Any = None, task_id: Any = None, rpc_layer: Any = None) -> str:
        """The target of sessions with a task; empty without a cluster."""
        raise NotImplementedError(f"{type(self).__name__} must implement master.")

    def num_accelerators(self, task_type: Any = None, task_id: Any = None, config_proto: Any = None) -> dict[str, int]:
        """How many accelerators of each kind this process has."""
        found = len(list_logical_devices("GPU"))
        return {"GPU": found} if found else {}


def _address(cluster: ClusterSpec, task_type: Any, task_id: Any, rpc_layer: Any) -> str:
    address = cluster.task_address(task_type, task_id)
    return f"{rpc_layer}://{address}" if rpc_layer else address


@export(_NAMES + "SimpleClusterResolver")
class SimpleClusterResolver(ClusterResolver):
    """A cluster that is given.

    >>> resolver = SimpleClusterResolver(tf.train.ClusterSpec({"ps": [...], "worker": [...]}), task_type="worker", task_id=0)
    """

    def __init__(self, cluster_spec: Any, master: str = "", task_type: Any = None, task_id: Any = None, environment: str = "",
                 num_accelerators: Any = None, rpc_layer: Any = None):
        if not isinstance(cluster_spec, ClusterSpec):
            raise TypeError("cluster_spec must be a `tf.train.ClusterSpec`.")
        if not isinstance(master, str):
            raise TypeError("master must be a string.")
        self._cluster, self._master, self._accelerators = cluster_spec, master, num_accelerators
        self.task_type, self.task_id, self.environment, self.rpc_layer = task_type, task_id, environment, rpc_layer

    def cluster_spec(self) -> ClusterSpec:
        """The cluster."""
        return self._cluster

    def master(self, task_type: Any = None, task_id: Any = None, rpc_layer: Any = None) -> str:
        """The target of sessions: of that task, or the one that was given."""
        if task_type is not None and task_id is not None:
            return _address(self._cluster, task_type, task_id, rpc_layer or self.rpc_layer)
        return self._master

    def num_accelerators(self, task_type: Any = None, task_id: Any = None, config_proto: Any = None) -> dict[str, int]:
        """How many accelerators a task has."""
        return self._accelerators if self._accelerators is not None else super().num_accelerators()


@export(_NAMES + "TFConfigClusterResolver")
class TFConfigClusterResolver(ClusterResolver):
    """The cluster of the environment variable TF_CONFIG. Arguments take precedence.

    >>> resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    """

    def __init__(self, task_type: Any = None, task_id: Any = None, rpc_layer: Any = None, environment: Any = None):
        self._given = {"type": task_type, "index": task_id, "rpc_layer": rpc_layer, "environment": environment}

    @staticmethod
    def _config() -> dict[str, Any]:
        return json.loads(os.environ.get("TF_CONFIG", "") or "{}")

    def _of_task(self, what: str) -> Any:
        given = self._given[what]
        return given if given is not None else self._config().get("task", {}).get(what)

    task_type = property(lambda self: None if self._of_task("type") is None else str(self._of_task("type")),
                         lambda self, value: self._given.update(type=value), doc="The job of this process.")
    task_id = property(lambda self: None if self._of_task("index") is None else int(self._of_task("index")),
                       lambda self, value: self._given.update(index=value), doc="The number of this process in its job.")
    rpc_layer = property(lambda self: self._given["rpc_layer"] or self._config().get("rpc_layer"),
                         lambda self, value: self._given.update(rpc_layer=value), doc="How tasks talk to each other.")
    environment = property(lambda self: self._given["environment"] or self._config().get("environment", ""),
                           doc="Where the program runs.")

    def cluster_spec(self) -> ClusterSpec:
        """The cluster of TF_CONFIG; empty without one. A job is a list, or a dictionary of those tasks that are known."""
        jobs = self._config().get("cluster", {})
        return ClusterSpec({job: {int(i): a for i, a in tasks.items()} if isinstance(tasks, dict) else tasks
                            for job, tasks in jobs.items()})

    def master(self, task_type: Any = None, task_id: Any = None, rpc_layer: Any = None) -> str:
        """The target of sessions: that of TF_CONFIG, of a task, or of the chief; empty without a cluster or with one task."""
        if self._config().get("session_master") is not None:
            return self._config()["session_master"]
        cluster = self.cluster_spec()
        jobs = cluster.as_dict()
        if not jobs or len(jobs) == 1 and len(next(iter(jobs.values()))) == 1:
            return ""
        job = task_type if task_type is not None else self.task_type
        index = task_id if task_id is not None else self.task_id
        return _address(cluster, job, index or 0, rpc_layer or self.rpc_layer) if job else ""


@export(_NAMES + "UnionResolver")
class UnionResolver(ClusterResolver):
    """Several clusters as one: the tasks of a job are concatenated. The first resolver defines the task of this process."""

    def __init__(self, *args: Any, **kwargs: Any):
        if not args:
            raise ValueError("At least one ClusterResolver is required.")
        for resolver in args:
            if not isinstance(resolver, ClusterResolver):
                raise TypeError("All arguments must be a sub-class of `ClusterResolver.`")
        self._resolvers, first = args, args[0]
        self.rpc_layer = kwargs.pop("rpc_layer", first.rpc_layer)
        self.task_type, self.task_id = kwargs.pop("task_type", first.task_type), kwargs.pop("task_id", first.task_id)

    def cluster_spec(self) -> ClusterSpec:
        """All tasks of all clusters."""
        jobs: dict[str, Any] = {}
        for resolver in self._resolvers:
            for job, tasks in resolver.cluster_spec().as_dict().items():
                before = jobs.setdefault(job, type(tasks)())
                if isinstance(tasks, list) and isinstance(before, list):
                    before.extend(tasks)
                    continue
                numbered = [dict(enumerate(t)) if isinstance(t, list) else t for t in (before, tasks)]
                for number in numbered[0].keys() & numbered[1].keys():
                    raise KeyError(f"Two ClusterSpecs have different addresses for task {number} of job {job!r}")
                jobs[job] = numbered[0] | numbered[1]
        return ClusterSpec(jobs)

    def master(self, task_type: Any = None, task_id: Any = None, rpc_layer: Any = None) -> str:
        """The target of sessions."""
        if task_type is not None and task_id is not None:
            return _address(self.cluster_spec(), task_type, task_id, rpc_layer or self.rpc_layer)
        return self._resolvers[0].master(rpc_layer=rpc_layer)

    environment = property(lambda self: self._resolvers[0].environment, doc="Where the program runs.")

    def num_accelerators(self, task_type: Any = None, task_id: Any = None, config_proto: Any = None) -> dict[str, int]:
        """The value of the first resolver."""
        return self._resolvers[0].num_accelerators(task_type, task_id, config_proto)
