"""ClusterSpec: the jobs of a cluster, and the addresses of their tasks."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.messages import ClusterDef


@export("train.ClusterSpec")
class ClusterSpec:
    """Jobs with their tasks, from a dict, a ClusterDef, or another ClusterSpec.

    Args:
        cluster: Dictionary from job names to addresses: a list, or a dictionary by task number.

    Raises:
        TypeError: if an address is not a string.

    >>> cluster = tf.train.ClusterSpec({"ps": ["ps0:2222"], "worker": {0: "worker0:2222", 2: "worker2:2222"}})
    >>> cluster.num_tasks("worker"), cluster.task_address("worker", 2)
    (2, 'worker2:2222')
    """

    def __init__(self, cluster: Any):
        if isinstance(cluster, dict):
            self._jobs = {_text(job, "job name"): _tasks(job, tasks) for job, tasks in cluster.items()}
        elif isinstance(cluster, ClusterDef):
            self._jobs = {job.name: dict(sorted(job.tasks.items())) for job in cluster.job}
        elif isinstance(cluster, ClusterSpec):
            self._jobs = {job: dict(tasks) for job, tasks in cluster._jobs.items()}
        else:
            raise TypeError("`cluster` must be a dictionary mapping one or more job names to lists of network addresses, or a "
                            f"`ClusterDef` protocol buffer, got {type(cluster).__name__}")

    def __bool__(self) -> bool:
        return bool(self._jobs)

    __nonzero__ = __bool__

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, ClusterSpec) and self._jobs == other._jobs

    def __ne__(self, other: Any) -> bool:
        return not self == other

    __hash__ = None                                          # type: ignore[assignment]

    def __repr__(self) -> str:
        jobs = self.as_dict()
        return "ClusterSpec({" + ", ".join(f"{job!r}: {jobs[job]!r}" for job in sorted(jobs)) + "})"

    def as_dict(self) -> dict[str, Any]:
        """Job names to lists of addresses, or to dicts where task numbers are missing."""
        return {job: list(tasks.values()) if list(tasks) == list(range(len(tasks))) else dict(tasks)
                for job, tasks in self._jobs.items()}

    def as_cluster_def(self) -> Any:
        """The same as a ClusterDef."""
        made = ClusterDef()
        for job, tasks in sorted(self._jobs.items()):
            made.job.add(name=job).tasks.update(tasks)
        return made

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs."""
        return list(self._jobs)

    def num_tasks(self, job_name: str) -> int:
        """The number of tasks of a job."""
        return len(self._job(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """The numbers of a job's tasks, in order."""
        return sorted(self._job(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """The address of a task."""
        tasks = self._job(job_name)
        if task_index not in tasks:
            raise ValueError(f"No task with index {task_index!r} in job {job_name!r}")
        return tasks[task_index]

    def job_tasks(self, job_name: str) -> list[str | None]:
        """The addresses of a job's tasks by number; None for numbers that are missing."""
        tasks = self._job(job_name)
        return [tasks.get(i) for i in range(max(tasks) + 1)] if tasks else []

    def _job(self, job_name: str) -> dict[int, str]:
        if job_name not in self._jobs:
            raise ValueError(f"No such job in cluster: {job_name!r}. The jobs are: {', '.join(sorted(self._jobs)) or 'none'}")
        return self._jobs[job_name]


def _tasks(job: Any, tasks: Any) -> dict[int, str]:
    if isinstance(tasks, (list, tuple)):
        return {i: _text(address, "Task address") for i, address in enumerate(tasks)}
    if not isinstance(tasks, dict):
        raise TypeError(f"The tasks for job {job!r} must be a list or a dictionary from integers to strings.")
    made = {}
    for i, address in tasks.items():
        if not isinstance(i, int) or isinstance(i, bool):
            raise TypeError(f"Task keys must be integers, got {i!r} in job {job!r}")
        made[i] = _text(address, "Task address")
    return dict(sorted(made.items()))


def _text(value: Any, what: str) -> str:
    if isinstance(value, bytes):
        value = value.decode()
    if not isinstance(value, str):
        raise TypeError(f"{what} must be bytes or unicode string, got {value!r}")
    return value
