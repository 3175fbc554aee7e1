"""Clusters whose tasks a scheduler has started: Slurm, Kubernetes, Google Compute Engine."""
from __future__ import annotations

import enum
import os
import re
from typing import Any

from penstock._src.base.api import export
from penstock._src.cluster.cluster import ClusterSpec
from penstock._src.models.distribute.cluster_resolver import _NAMES, ClusterResolver, _address


def expand_hostlist(hostlist: str) -> list[str]:
    """The hosts of Slurm's short form: "n[1-2,05],m" is n1, n2, n05 and m."""
    hosts: list[str] = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?[^,\[]*", hostlist):
        found = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", part.strip())
        if found is None:
            hosts.append(part.strip())
            continue
        before, ranges, behind = found.groups()
        for piece in ranges.split(","):
            first, _, last = piece.partition("-")
            for number in range(int(first), int(last or first) + 1):
                hosts.append(f"{before}{number:0{len(first)}d}{behind}")
    return hosts


def _counts(text: str) -> list[int]:
    """The numbers of tasks per node: "2(x3),1" is 2, 2, 2, 1."""
    counts: list[int] = []
    for piece in text.split(","):
        number, _, times = piece.partition("(x")
        counts += [int(number)] * int(times.rstrip(")") or 1)
    return counts


@export(_NAMES + "SlurmClusterResolver")
class SlurmClusterResolver(ClusterResolver):
    """The cluster of a Slurm step, from the variables of its environment.

    Args:
        jobs: Number of tasks of each job; by default all tasks are workers.
        port_base: Port of the first task of a node.
        gpus_per_node: Number of GPUs of each node.
        gpus_per_task: Number of GPUs of each task.
        tasks_per_node: Number of tasks of each node, or a list of them; by default what Slurm says.
        auto_set_gpu: Whether each task sees its own GPUs only (CUDA_VISIBLE_DEVICES).
        rpc_layer: How tasks talk to each other.
    """

    def __init__(self, jobs: dict[str, int] | None = None, port_base: int = 8888, gpus_per_node: int | None = None,
                 gpus_per_task: int | None = None, tasks_per_node: Any = None, auto_set_gpu: bool = True,
                 rpc_layer: str = "grpc"):
        environ = os.environ
        if "SLURM_PROCID" not in environ:
            raise RuntimeError("SlurmClusterResolver is for processes that srun has started: SLURM_PROCID is not set.")
        self._rank = int(environ["SLURM_PROCID"])
        hosts = expand_hostlist(environ["SLURM_STEP_NODELIST"])
        given = tasks_per_node if tasks_per_node is not None else _counts(environ["SLURM_STEP_TASKS_PER_NODE"])
        per_node = [given] * len(hosts) if isinstance(given, int) else list(given)
        self._jobs = dict(jobs) if jobs else {"worker": sum(per_node)}
        if sum(self._jobs.values()) > sum(per_node):
            raise RuntimeError(f"Requested {sum(self._jobs.values())} tasks, but Slurm has started {sum(per_node)}.")
        self._addresses = [(f"{host}:{port_base + i}", i) for host, count in zip(hosts, per_node, strict=True)
                           for i in range(count)]
        self._gpus = 1 if gpus_per_task is None and gpus_per_node else gpus_per_task or 0
        self.rpc_layer = rpc_layer
        self.task_type, self.task_id = self._own()
        if auto_set_gpu and self._gpus and gpus_per_node:
            first = self._addresses[self._rank][1] * self._gpus
            environ["CUDA_VISIBLE_DEVICES"] = ",".join(str(first + i) for i in range(self._gpus))

    def _own(self) -> tuple[str, int]:
        """The job and the number of the task that this process is."""
        left = self._rank
        for job, count in self._jobs.items():
            if left < count:
                return job, left
            left -= count
        raise RuntimeError(f"Task {self._rank} belongs to none of the jobs {self._jobs}.")

    def cluster_spec(self) -> ClusterSpec:
        """The cluster."""
        addresses = iter(address for address, _ in self._addresses)
        return ClusterSpec({job: [next(addresses) for _ in range(count)] for job, count in self._jobs.items()})

    def master(self, task_type: Any = None, task_id: Any = None, rpc_layer: Any = None) -> str:
        """The target of sessions with a task; this one by default."""
        kind = task_type if task_type is not None else self.task_type
        number = task_id if task_id is not None else self.task_id
        return _address(self.cluster_spec(), kind, number, rpc_layer or self.rpc_layer)


@export(_NAMES + "KubernetesExecutableLocation")
class KubernetesExecutableLocation(enum.Enum):
    """The environment of the calling program."""
    WITHIN_CLUSTER = 0
    OFF_CLUSTER = 1


@export(_NAMES + "KubernetesClusterResolver")
class KubernetesClusterResolver(ClusterResolver):
    """The running pods of a Kubernetes cluster, by labels. It needs the package `kubernetes`.

    >>> KubernetesClusterResolver({"worker": ["job-name=worker-cluster"]})
    """

    def __init__(self, job_to_label_mapping: dict[str, list[str]] | None = None, tf_server_port: int = 8470,
                 rpc_layer: str = "grpc", override_client: Any = None,
                 executable_location: KubernetesExecutableLocation = KubernetesExecutableLocation.WITHIN_CLUSTER):
        if not isinstance(executable_location, KubernetesExecutableLocation):
            raise ValueError(f"Invalid executable location {executable_location!r}: it is a KubernetesExecutableLocation")
        self._labels = job_to_label_mapping or {"worker": ["job-name=tensorflow"]}
        self._port, self.rpc_layer = tf_server_port, rpc_layer
        self._client = override_client if override_client is not None else self._connected(executable_location)

    @staticmethod
    def _connected(location: KubernetesExecutableLocation) -> Any:
        try:
            from kubernetes import client, config
        except ImportError:
            raise ImportError("The Kubernetes Python client must be installed for KubernetesClusterResolver: "
                              "pip install kubernetes") from None
        if location is KubernetesExecutableLocation.OFF_CLUSTER:
            config.load_kube_config()
        else:
            config.load_incluster_config()
        return client.CoreV1Api()

    def cluster_spec(self) -> ClusterSpec:
        """The pods that run now; RuntimeError if one does not."""
        found: dict[str, list[str]] = {}
        for job, selectors in self._labels.items():
            for selector in selectors:
                pods = self._client.list_pod_for_all_namespaces(label_selector=selector).items
                for pod in sorted(pods, key=lambda p: p.metadata.name):
                    if pod.status.phase != "Running":
                        raise RuntimeError(f'Pod "{pod.metadata.name}" is not running; phase: "{pod.status.phase}"')
                    found.setdefault(job, []).append(f"{pod.status.host_ip}:{self._port}")
        return ClusterSpec(found)

    def master(self, task_type: Any = None, task_id: Any = None, rpc_layer: Any = None) -> str:
        """The target of sessions with a task; empty if none is named."""
        kind = task_type if task_type is not None else self.task_type
        number = task_id if task_id is not None else self.task_id
        if kind is None or number is None:
            return ""
        return _address(self.cluster_spec(), kind, number, rpc_layer or self.rpc_layer)


@export(_NAMES + "GCEClusterResolver")
class GCEClusterResolver(ClusterResolver):
    """The instances of a group of Google Compute Engine. It needs the package `google-api-python-client`.

    >>> GCEClusterResolver("project", "us-east1-d", "workers", 8470)
    """

    def __init__(self, project: str, zone: str, instance_group: str, port: int, task_type: str = "worker", task_id: int = 0,
                 rpc_layer: str = "grpc", credentials: Any = "default", service: Any = None):
        self._where = {"project": project, "zone": zone}
        self._group, self._port, self._task_type, self.task_id = instance_group, port, task_type, task_id
        self.rpc_layer = rpc_layer
        self._service = service if service is not None else self._connected(credentials)

    @property
    def task_type(self) -> str:
        """The job of all instances."""
        return self._task_type

    @task_type.setter
    def task_type(self, value: Any) -> None:
        raise RuntimeError("You cannot reset the task_type of the GCEClusterResolver after it has been created.")

    @staticmethod
    def _connected(credentials: Any) -> Any:
        try:
            from googleapiclient import discovery
        except ImportError:
            raise ImportError("googleapiclient must be installed for GCEClusterResolver: "
                              "pip install google-api-python-client") from None
        return discovery.build("compute", "v1", **({} if credentials == "default" else {"credentials": credentials}))

    def cluster_spec(self) -> ClusterSpec:
        """The instances that run now, in the order of their names."""
        groups, found = self._service.instanceGroups(), []
        request = groups.listInstances(instanceGroup=self._group, body={"instanceState": "RUNNING"},
                                       orderBy="name", **self._where)
        while request is not None:
            response = request.execute()
            for item in response["items"]:
                name = item["instance"].split("/")[-1]
                instance = self._service.instances().get(instance=name, **self._where).execute()
                found.append(f"{instance['networkInterfaces'][0]['networkIP']}:{self._port}")
            request = groups.listInstances_next(previous_request=request, previous_response=response)
        return ClusterSpec({self.task_type: sorted(found)})

    def master(self, task_type: Any = None, task_id: Any = None, rpc_layer: Any = None) -> str:
        """The target of sessions with a task; this one by default."""
        kind = task_type if task_type is not None else self.task_type
        number = task_id if task_id is not None else self.task_id
        return _address(self.cluster_spec(), kind, number, rpc_layer or self.rpc_layer)
