"""tf.test.create_local_cluster: the tasks of a cluster as servers of this process."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.cluster.ports import free_addresses
from penstock._src.cluster.server import Server


@export("test.create_local_cluster")
def create_local_cluster(num_workers: int, num_ps: int, protocol: str = "grpc", worker_config: Any = None,
                         ps_config: Any = None) -> tuple[list[Any], list[Any]]:
    """Starts servers for workers and parameter servers, on free ports of this machine; returns both lists.

    >>> workers, ps = tf.test.create_local_cluster(num_workers=2, num_ps=1)
    >>> with tf.Session(workers[0].target) as sess: ...
    """
    addresses = free_addresses(num_workers + num_ps)
    jobs = {"worker": addresses[:num_workers], "ps": addresses[num_workers:]}
    made = {job: [Server(jobs, job, i, protocol, config) for i in range(len(jobs[job]))]
            for job, config in (("worker", worker_config), ("ps", ps_config))}
    return made["worker"], made["ps"]
