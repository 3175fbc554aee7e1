"""Training and testing under ParameterServerStrategy: each step is a function that a ClusterCoordinator runs on some worker.

Batches of this process (arrays, generators, datasets without a number of steps) are sent to the worker that runs the
step. A DatasetCreator, or a dataset with a number of steps, is created on every worker, and steps take its next batch. Steps
are waited for at the end of an epoch; metrics are variables of the parameter servers like any other.
"""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from penstock._src.base import errors, nest
from penstock._src.base import tf_logging as logging
from penstock._src.eager.function import Function
from penstock._src.graph.scopes import name_scope
from penstock._src.models.distribute.coordinator.cluster_coordinator import ClusterCoordinator
from penstock._src.models.keras.engine.data_adapter import Batch, Source, pack_x_y_sample_weight, unpack_x_y_sample_weight
from penstock._src.models.keras.engine.replicas import ReplicaStep
from penstock._src.models.keras.engine.steps import run_step
from penstock._src.ops.registry import get

_AHEAD = 4                          # steps for each worker that may wait with their batches


def _coordinator(strategy: Any) -> Any:
    return ClusterCoordinator(strategy)


class _Scheduled:
    """The base of both kinds of steps: they are scheduled, and waited for at the end of the epoch."""

    def __init__(self, strategy: Any):
        self._coordinator = _coordinator(strategy)
        self._most = _AHEAD * strategy.extended.num_workers
        self._last: Any = None
        self._over = False

    def schedule(self, function: Any, args: Any) -> None:
        """Schedules a step; waits while too many are pending. No further steps run after the end of the data."""
        if not self._over:
            with self._until_data_ends():
                self._last = self._coordinator._schedule(function, args, {}, self._most)

    def finish(self) -> Any:
        """Waits for all steps; returns the results of the last one."""
        with self._until_data_ends():
            self._coordinator.join()
        last = None if self._over else self._last
        self._last, self._over = None, False
        return None if last is None else last.get()

    @contextlib.contextmanager
    def _until_data_ends(self) -> Iterator[None]:
        try:
            yield
        except errors.OutOfRangeError:
            self._over = True
            logging.warning("Your input ran out of data; interrupting training. Make sure that the dataset of each worker can "
                            "generate as many batches as are asked for: use repeat() when building it.")


class ScheduledStep(ReplicaStep):
    """A step on a batch of this program."""

    def __init__(self, model: Any, mode: str, layout: Any, eagerly: bool):
        super().__init__(model, mode, layout, False)
        self._scheduled = None if mode == "predict" else _Scheduled(model._distribution_strategy)

    def _run(self, concrete: Any, flat: list) -> Any:
        if self._scheduled is None:
            return super()._run(concrete, flat)
        self._scheduled.schedule(concrete, flat)
        return None

    def finish(self) -> Any:
        """Waits for all steps."""
        return None if self._scheduled is None else self._scheduled.finish()


class OnWorkers(NamedTuple):
    """The layout of batches that workers create."""
    key: str = "on workers"


class WorkerStep:
    """A step on the next batch of the worker that takes it."""

    def __init__(self, model: Any, mode: str, eagerly: bool):
        strategy = model._distribution_strategy
        default = model._is_default_step(mode)

        def replica(item: Any) -> Any:
            return run_step(model, mode, default, pack_x_y_sample_weight(*unpack_x_y_sample_weight(item)))

        def step(iterator: Any) -> Any:
            return strategy.run(replica, args=(next(iterator),))
        self._model, self._mode = model, mode
        self._function, self._scheduled = Function(step, f"{mode}_function", autograph=False), _Scheduled(strategy)
        self._prepared = False

    def __call__(self, flat: list) -> None:
        """Schedules the step."""
        if not self._prepared:
            self._prepared = True
            optimizer: Any = getattr(self._model, "optimizer", None)
            if self._mode == "train" and self._model.built and hasattr(optimizer, "build"):
                with self._model._distribution_strategy.scope(), name_scope(optimizer.name or None):
                    optimizer.build(self._model.trainable_variables)
        self._scheduled.schedule(self._function, flat)

    def finish(self) -> Any:
        """Waits for all steps."""
        return self._scheduled.finish()


def _weighted(make: Any, class_weight: dict[int, float]) -> Any:
    """A dataset, or a function that makes one, with the weights of classes in its elements."""
    if sorted(class_weight) != list(range(len(class_weight))):
        raise ValueError("Expected `class_weight` to be a dict with keys from 0 to one less than the number of classes, found "
                         f"{class_weight}")
    weights = np.array([class_weight[i] for i in range(len(class_weight))], np.float32)

    def element(*item: Any) -> tuple:
        x, y, given = unpack_x_y_sample_weight(item if len(item) > 1 else item[0])
        if nest.is_nested(y):
            raise ValueError("`class_weight` is only supported for Models with a single output.")
        if y.shape.rank is None or y.shape.rank > 2:
            raise ValueError("`class_weight` not supported for 3+ dimensional targets.")
        one_hot = y.shape.rank == 2 and y.shape.as_list()[1] != 1
        classes = get("ArgMax")(y, 1) if one_hot else get("Cast")(get("Reshape")(y, [-1]), DstT="int64")
        found = get("GatherV2")(weights, classes, 0)
        return x, y, found if given is None else get("Cast")(found, DstT=given.dtype) * given
    return (lambda: make().map(element)) if callable(make) else make.map(element)


class WorkerSource(Source):
    """A dataset that each worker creates. The next epoch continues where this one stopped; a test starts again."""

    def __init__(self, model: Any, data: Any, steps: int | None, class_weight: Any, steps_name: str):
        if steps is None:
            raise ValueError("When using a `tf.keras.utils.experimental.DatasetCreator`, `steps_per_epoch`, `validation_steps` "
                             f"or `steps` argument must be provided: here, `{steps_name}`.")
        strategy = model._distribution_strategy
        make = (lambda: strategy.distribute_datasets_from_function(data)) if callable(data) else data
        if class_weight is not None:
            make = _weighted(make, class_weight)
        self.steps, self._layout, self._iterator = steps, OnWorkers(), None
        self._dataset = _coordinator(strategy).create_per_worker_dataset(make)

    def epoch(self) -> Iterator[Batch]:
        """As many batches as there are steps."""
        if self._iterator is None:
            self._iterator = iter(self._dataset)
        batch = Batch(self._layout, [self._iterator])                  # type: ignore[arg-type]
        for _ in range(self.steps or 0):
            yield batch

    def restart(self) -> None:
        """Begins the dataset again."""
        self._iterator = None
