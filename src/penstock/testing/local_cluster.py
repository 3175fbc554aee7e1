"""Clusters in one process, for tests."""
from __future__ import annotations

from typing import Any

from penstock.api import export


@export("test.create_local_cluster")
def create_local_cluster(num_workers: int, num_ps: int, protocol: str = "grpc", worker_config: Any = None,
                         ps_config: Any = None) -> tuple[list, list]:
    """Servers of workers and parameter servers in this process, on free ports; gives both.

    >>> workers, ps = tf.test.create_local_cluster(num_workers=2, num_ps=1)
    >>> with tf.Session(workers[0].target) as sess: ...
    """
    from penstock.distributed.launch import free_addresses
    from penstock.distributed.server import Server
    addresses = free_addresses(num_workers + num_ps)
    cluster = {"worker": addresses[:num_workers], "ps": addresses[num_workers:]}

    def servers(job: str, config: Any) -> list:
        return [Server(cluster, job_name=job, task_index=i, protocol=protocol, config=config)
                for i in range(len(cluster[job]))]
    return servers("worker", worker_config), servers("ps", ps_config)
