"""tf.test.create_local_cluster: the tasks of a cluster as servers of this process."""
from __future__ import annotations

import contextlib
import socket
from typing import Any

from penstock.api import export


@export("test.create_local_cluster")
def create_local_cluster(num_workers: int, num_ps: int, protocol: str = "grpc", worker_config: Any = None,
                         ps_config: Any = None) -> tuple[list[Any], list[Any]]:
    """Starts servers for workers and parameter servers, on free ports of this machine; gives both lists.

    >>> workers, ps = tf.test.create_local_cluster(num_workers=2, num_ps=1)
    >>> with tf.Session(workers[0].target) as sess: ...
    """
    from penstock.distributed.server import Server
    with contextlib.ExitStack() as held:                      # until all are known, so that they differ
        socks = [held.enter_context(socket.socket()) for _ in range(num_workers + num_ps)]
        for sock in socks:
            sock.bind(("localhost", 0))
        ports = [sock.getsockname()[1] for sock in socks]
    jobs = {"worker": [f"localhost:{p}" for p in ports[:num_workers]], "ps": [f"localhost:{p}" for p in ports[num_workers:]]}
    made = {job: [Server(jobs, job, i, protocol, config) for i in range(len(jobs[job]))]
            for job, config in (("worker", worker_config), ("ps", ps_config))}
    return made["worker"], made["ps"]
