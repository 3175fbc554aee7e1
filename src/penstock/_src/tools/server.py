"""Run a task of a cluster: a server, until it is ended.

    penstock server --job ps --task 0 --cluster 'ps=localhost:2222,localhost:2223;worker=localhost:2224'
    TF_CONFIG='{"cluster": {...}, "task": {"type": "ps", "index": 0}}' penstock server

The cluster may also be JSON, or @FILE with either. Without --cluster, everything is read from TF_CONFIG; --job and --task
override it. A server that other machines can reach needs a secret: PENSTOCK_SECRET or PENSTOCK_SECRET_FILE (docs/security.md).
"""
from __future__ import annotations

import argparse
import signal
import threading

from penstock._src.base import errors
from penstock._src.cluster import tf_config
from penstock._src.cluster.server import Server


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the subcommand."""
    parser.add_argument("--cluster", help="jobs and addresses of all tasks; from TF_CONFIG, if left out")
    parser.add_argument("--job", help="the job of this task")
    parser.add_argument("--task", type=int, help="the number of this task in its job")


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM or Ctrl-C."""
    known = tf_config.from_environment() if args.cluster is None else None
    if args.cluster is None and known is None:
        raise errors.invalid("The cluster is unknown: pass --cluster, or set TF_CONFIG.")
    cluster, job, task = known or (tf_config.parse_cluster(_text(args.cluster)), None, None)
    job, task = args.job or job, task if args.task is None else args.task
    ended = threading.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda *_: ended.set())
    server = Server(cluster, job_name=job, task_index=task)
    made = server.server_def
    print(f"/job:{made.job_name}/task:{made.task_index} listens at {server.target}", flush=True)
    while not ended.wait(1.0):
        pass
    server.stop()
    return 0


def _text(given: str) -> str:
    if given.startswith("@"):
        with open(given[1:]) as file:
            return file.read()
    return given
