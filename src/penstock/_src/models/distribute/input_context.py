"""The position of an input pipeline among the others."""
from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock._src.base.api import export
from penstock._src.data.datasets.dataset import DatasetV2


@export("distribute.InputReplicationMode")
class InputReplicationMode(enum.Enum):
    """How often an input function is called: once for each worker."""

    PER_WORKER = "PER_WORKER"
    PER_REPLICA = "PER_REPLICA"


@export(v2=["distribute.InputOptions"])
class InputOptions(NamedTuple):
    """How a dataset is distributed: a function of datasets is called once for all replicas of a worker, or for each of them.

    The other options concern buffering; they do not change the elements, and are unused.

    >>> strategy.distribute_datasets_from_function(dataset_fn, tf.distribute.InputOptions(
    ...     experimental_fetch_to_device=False, experimental_replication_mode=tf.distribute.InputReplicationMode.PER_REPLICA))
    """

    experimental_fetch_to_device: bool = True
    experimental_replication_mode: InputReplicationMode = InputReplicationMode.PER_WORKER
    experimental_place_dataset_on_device: bool = False
    experimental_per_replica_buffer_size: int = 1

    @property
    def per_replica(self) -> bool:
        """Whether each replica has its own dataset."""
        return self.experimental_replication_mode == InputReplicationMode.PER_REPLICA


def for_each_replica(dataset_fn: Callable[[InputContext], Any], replicas: int) -> Callable[[InputContext], Any]:
    """A function whose dataset has one element after the other from datasets that are created for each replica."""
    def together(_: InputContext) -> Any:
        made = [dataset_fn(InputContext(replicas, i, replicas)) for i in range(replicas)]
        return DatasetV2.choose_from_datasets(made, DatasetV2.range(replicas).repeat())
    return together


@export("distribute.InputContext")
class InputContext:
    """Which of the input pipelines a dataset is created for, and how many replicas it feeds.

    >>> def dataset_fn(context):
    ...     d = dataset.shard(context.num_input_pipelines, context.input_pipeline_id)
    ...     return d.batch(context.get_per_replica_batch_size(global_batch_size))
    """

    def __init__(self, num_input_pipelines: int = 1, input_pipeline_id: int = 0, num_replicas_in_sync: int = 1):
        self._num_input_pipelines, self._input_pipeline_id = num_input_pipelines, input_pipeline_id
        self._num_replicas_in_sync = num_replicas_in_sync

    num_replicas_in_sync = property(lambda self: self._num_replicas_in_sync, doc="The replicas that step together.")
    input_pipeline_id = property(lambda self: self._input_pipeline_id, doc="The number of this pipeline.")
    num_input_pipelines = property(lambda self: self._num_input_pipelines, doc="How many pipelines there are.")

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """The batch size of one replica; ValueError if the global one does not divide.

        >>> tf.distribute.InputContext(num_replicas_in_sync=4).get_per_replica_batch_size(64)
        16
        """
        if global_batch_size % self._num_replicas_in_sync:
            raise ValueError(f"The `global_batch_size` {global_batch_size} is not divisible by `num_replicas_in_sync` "
                             f"{self._num_replicas_in_sync} ")
        return global_batch_size // self._num_replicas_in_sync

    def __str__(self) -> str:
        return (f"tf.distribute.InputContext(input pipeline id {self._input_pipeline_id}, total: "
                f"{self._num_input_pipelines})")


@export(v2=["distribute.experimental.ValueContext"])
class ValueContext:
    """The replica that a value is created for."""

    def __init__(self, replica_id_in_sync_group: int = 0, num_replicas_in_sync: int = 1):
        self._replica_id, self._count = replica_id_in_sync_group, num_replicas_in_sync

    replica_id_in_sync_group: Any = property(lambda self: self._replica_id, doc="The number of the replica.")
    num_replicas_in_sync: Any = property(lambda self: self._count, doc="How many replicas there are.")
