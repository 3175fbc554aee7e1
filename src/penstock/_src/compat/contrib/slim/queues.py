"""slim.queues: queue runners in a `with` block."""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from penstock._src.base.api import export
from penstock.compat import v1 as tf

_LOCK = threading.Lock()


@export(v1=["contrib.slim.queues.NestedQueueRunnerError"])
class NestedQueueRunnerError(Exception):
    """There is such a block around this one."""


@export(v1=["contrib.slim.queues.QueueRunners"])
@contextlib.contextmanager
def QueueRunners(session: Any) -> Iterator[None]:
    """Runs the queue runners of the graph while the block lasts.

    >>> with slim.queues.QueueRunners(session): session.run(batch)
    """
    if not _LOCK.acquire(blocking=False):
        raise NestedQueueRunnerError("QueueRunners cannot be nested")
    coordinator, threads = tf.train.Coordinator(), []
    try:
        for runner in tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS):
            threads += runner.create_threads(session, coord=coordinator, daemon=True, start=True)
        yield
    finally:
        coordinator.request_stop()
        try:
            coordinator.join(threads, stop_grace_period_secs=120)
        except RuntimeError:
            session.close()
        _LOCK.release()
