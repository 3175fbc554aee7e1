"""The place of a process in a cluster, from its environment (TF_CONFIG) or a command line."""
from __future__ import annotations

import json
import os
from typing import Any

from penstock._src.base import errors
from penstock._src.cluster.cluster import ClusterSpec


def parse_cluster(text: str) -> ClusterSpec:
    """A cluster from JSON (`{"ps": ["host:port"]}`), or from `ps=host:port,host:port;worker=host:port`."""
    text = text.strip()
    try:
        if text.startswith("{"):
            jobs = json.loads(text)
            return ClusterSpec({job: {int(i): a for i, a in tasks.items()} if isinstance(tasks, dict) else tasks
                                for job, tasks in jobs.items()})
        jobs = {}
        for part in filter(None, text.split(";")):
            job, equals, addresses = part.partition("=")
            if not equals or not addresses:
                raise ValueError(f"{part!r} is not of the form job=host:port,host:port")
            jobs[job.strip()] = [a.strip() for a in addresses.split(",")]
        return ClusterSpec(jobs)
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as e:
        raise errors.invalid(f"The cluster cannot be read: {e}") from None


def from_environment() -> tuple[ClusterSpec, str, int] | None:
    """(cluster, job, task) from TF_CONFIG; None if it is not set."""
    text = os.environ.get("TF_CONFIG")
    if not text:
        return None
    try:
        config = json.loads(text)
        cluster, task = parse_cluster(json.dumps(config["cluster"])), config["task"]
        return cluster, str(task["type"]), int(task["index"])
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as e:
        raise errors.invalid(f"TF_CONFIG cannot be read: {e!r}. It has the form "
                             '{"cluster": {"ps": ["host:port"]}, "task": {"type": "ps", "index": 0}}.') from None


def tf_config(cluster: dict[str, Any], job: str, index: int) -> str:
    """TF_CONFIG of a task."""
    return json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})
