"""Elastic training: workers of a MultiWorkerMirroredStrategy may fail and restart while the others wait for them.

Every worker runs the same program, and a supervisor (Kubernetes, a shell loop) restarts one that has
died. The others notice at once (their links end) or within seconds (its heartbeats stop), and wait. When all are available,
they synchronize: the worker with the most steps broadcasts its variables, and training continues from there. A step in which a
worker was lost is repeated by the workers that had not finished it.
"""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.collective.group import Limit
from penstock._src.graph.eager_tensor import EagerTensor
from penstock._src.models.distribute.values import local_values

_LOST = (errors.UnavailableError, errors.AbortedError, errors.CancelledError, errors.DeadlineExceededError)


@export(v2=["distribute.experimental.ElasticJob"])
class ElasticJob:
    """Training that continues when workers come back.

    >>> job = tf.distribute.experimental.ElasticJob(strategy)
    >>> with job.scope():
    ...     model, optimizer = make_model(), tf.keras.optimizers.SGD(0.1)
    >>> job.run(lambda step: train_on(batch(step)), 1000, lambda: model.variables + optimizer.variables())

    `wait_seconds` is how long a worker may be away.
    """

    def __init__(self, strategy: Any, wait_seconds: float = 300.0):
        self._strategy, self._wait = strategy, wait_seconds
        self._extended = strategy.extended
        if not hasattr(self._extended, "_workers"):
            raise ValueError(f"An elastic job needs a MultiWorkerMirroredStrategy, not {type(strategy).__name__}.")
        self._alone = self._extended._workers.size == 1
        self.reformed = 0                      # how often workers were waited for
        if not self._alone:
            self._hub.hold(self._key)

    _hub = property(lambda self: self._extended._server._resources.hub)
    _key = property(lambda self: self._extended._workers.key)

    @contextlib.contextmanager
    def scope(self) -> Iterator[Any]:
        """The strategy's scope, in which every worker creates its variables: a restarted one finds no other that creates
        them. `run` makes them the same."""
        before, self._extended._begins_as_first = self._extended._begins_as_first, False
        try:
            with self._strategy.scope() as strategy:
                yield strategy
        finally:
            self._extended._begins_as_first = before

    def run(self, step: Callable[[int], Any], steps: int, variables: Callable[[], Sequence]) -> int:
        """Calls `step(number)` until `steps` are done, even if workers are lost; returns the number done. `variables`
        returns all that a step changes (a worker that has just begun must have made them: build models and optimizers
        first)."""
        done, agreed = 0, self._alone
        while done < steps or not agreed:
            try:
                if not agreed:
                    done, agreed = self._agree(done, list(variables())), True
                    continue
                step(done)
                done += 1
            except _LOST as e:
                if self._alone:
                    raise
                logging.warning("A worker was lost at step %d; waiting for it: %s", done, e.message)
                self.reformed += 1
                agreed = False
        return done

    def _agree(self, done: int, variables: list) -> int:
        """Waits until all workers are there; all get the variables of the one that has done the most steps, and its number."""
        place, hub = self._extended._place, self._hub
        hub.resume(self._key)
        member = f"{hub.task}/device:CPU:0"
        limit = Limit(seconds=self._wait)
        group = hub.join(self._key, place.count, member, limit)
        rank, how = group.rank_of[member], {"limit": limit, "about": "ElasticJob: workers agree on a step"}
        numbers = [int(n) for n in group.gather_any(rank, "elastic", torch.tensor([done]), **how)]
        source = max(range(group.size), key=lambda r: (numbers[r], -r))
        for v in variables:
            copies = local_values(v)
            value = group.broadcast(rank, "elastic", copies[0].value()._value, source, **how)
            for copy in copies:
                copy.assign(_tensor(value, copy))
        return numbers[source]


def _tensor(value: torch.Tensor, like: Any) -> Any:
    return EagerTensor(value, like.dtype)
