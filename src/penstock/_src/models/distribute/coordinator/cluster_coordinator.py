"""ClusterCoordinator: runs functions on the workers of a ParameterServerStrategy, as soon as one of them is free."""
from __future__ import annotations

import threading
import weakref
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.base.service import supervise
from penstock._src.models.distribute.coordinator.closures import Closure, ClosureQueue
from penstock._src.models.distribute.coordinator.inputs import PerWorkerDataset
from penstock._src.models.distribute.coordinator.values import RemoteValue
from penstock._src.models.distribute.coordinator.workers import ParameterServers, Worker

_making = threading.Lock()


@export(v2=["distribute.coordinator.ClusterCoordinator", "distribute.experimental.coordinator.ClusterCoordinator"])
class ClusterCoordinator:
    """Runs functions on workers, each when one is free; those that a lost worker did not end run on another one.

    >>> strategy = tf.distribute.ParameterServerStrategy(resolver)
    >>> coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    >>> iterator = iter(coordinator.create_per_worker_dataset(dataset_fn))
    >>> for _ in range(100): coordinator.schedule(train_step, args=(iterator,))
    >>> coordinator.join()
    """

    def __new__(cls, strategy: Any) -> ClusterCoordinator:
        """Returns the one coordinator of a strategy."""
        extended = getattr(strategy, "extended", None)
        if not hasattr(extended, "connection"):
            raise ValueError("Only `tf.distribute.experimental.ParameterServerStrategy` is supported to work with "
                             "`tf.distribute.experimental.coordinator.ClusterCoordinator` currently: one with a cluster, in "
                             f"the process of its chief. Got {strategy!r}.")
        with _making:
            found = getattr(strategy, "_cluster_coordinator", None)
            if found is None:
                found = super().__new__(cls)
                found._begin(strategy)
                strategy._cluster_coordinator = found
        return found

    def __init__(self, strategy: Any):
        self._strategy = strategy

    def _begin(self, strategy: Any) -> None:
        extended = strategy.extended
        self._queue = ClosureQueue()
        servers = ParameterServers(extended.connection, len(extended.parameter_devices))
        workers = [Worker(i, extended.connection, self._queue, servers) for i in range(extended.num_workers)]
        self._workers, self._ended = workers, threading.Event()
        self._watch = supervise("penstock coordinator's watch", lambda: servers.watch(self._queue, self._ended), self._ended)

        def cancel(why: Any) -> None:
            for w in workers:
                w.cancel(why)
        self._queue.on_error = cancel
        extended.at_end.append(weakref.WeakMethod(self._end))

    strategy = property(lambda self: self._strategy, doc="The strategy.")

    def schedule(self, fn: Any, args: Any = None, kwargs: Any = None) -> RemoteValue:
        """Schedules a function on the next free worker; returns its result, to be fetched later.

        A tf.function is traced here, when it is first scheduled. If a function that was scheduled before has failed, its error
        is raised here or in `join`, once; then all functions that had not ended are cancelled.
        """
        return self._schedule(fn, args, kwargs, None)

    def _schedule(self, fn: Any, args: Any, kwargs: Any, most: int | None) -> RemoteValue:
        """The same; waits while `most` functions wait already."""
        with self._strategy.scope():
            closure = Closure(fn, args, kwargs)
        self._queue.put(closure, most)
        return closure.result

    def join(self, timeout: float | None = None) -> None:
        """Waits until all scheduled functions have ended; raises the error of one that failed.

        With `timeout`, DeadlineExceededError after so many seconds: it names what has not ended.
        """
        self._queue.wait(timeout)

    def done(self) -> bool:
        """Whether all scheduled functions have ended; raises the error of one that failed."""
        return self._queue.done()

    def create_per_worker_dataset(self, dataset_fn: Any) -> PerWorkerDataset:
        """A dataset for each worker: made there by a function, or like a dataset that is given.

        >>> iterator = iter(coordinator.create_per_worker_dataset(lambda: tf.data.Dataset.range(10).shuffle(10)))
        """
        with self._strategy.scope():
            return PerWorkerDataset(dataset_fn)

    def fetch(self, val: Any) -> Any:
        """A structure with the values of all results in it; waits for them."""
        return nest.map_structure(lambda v: v.fetch() if isinstance(v, RemoteValue) else v, val)

    def _end(self) -> None:
        self._ended.set()
        self._queue.end()
        for worker in self._workers:
            worker.end()
