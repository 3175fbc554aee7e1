"""MultiWorkerMirroredStrategy: the same program in several processes, a replica on each device of each, kept in step.

TF_CONFIG lists the workers and the index of this one. Each starts a server (cluster/server.py), over whose links the
collectives of the strategy run (collective/). Variables begin with the first worker's values. A global batch is cut into a
part for each replica of all workers: every worker reads the same input and takes its rows of it.
"""
from __future__ import annotations

import atexit
import itertools
import sys
from typing import Any

from penstock._src.base import errors, nest
from penstock._src.base.api import export
from penstock._src.cluster import tf_config
from penstock._src.cluster.cluster import ClusterSpec
from penstock._src.cluster.server import Server
from penstock._src.data.datasets.options import AutoShardPolicy
from penstock._src.execute.context import eager_context
from penstock._src.graph.convert import convert
from penstock._src.models.distribute.cluster_resolver import TFConfigClusterResolver
from penstock._src.models.distribute.communication import CollectiveCommunication, CommunicationOptions
from penstock._src.models.distribute.datasets import DistributedDataset, _row_count, _rows_of
from penstock._src.models.distribute.devices import local_devices
from penstock._src.models.distribute.input_context import InputContext
from penstock._src.models.distribute.mirrored import MirroredExtended
from penstock._src.models.distribute.strategy import Strategy, StrategyV1
from penstock._src.models.distribute.values import local_values
from penstock._src.models.distribute.worker_ops import Workers, WorkersReduction
from penstock._src.ops.registry import get

_KEYS = itertools.count(0x4d57)                # groups of strategies: the nth one of each worker belongs to those of the others
_servers: dict[str, Any] = {}                  # by address: a process has one, however many strategies it makes
_CHIEFS = ("chief", "master")
_LAST_STEP = 10.0                              # seconds that a finished worker waits for the others


class Place:
    """The place of this process among the workers."""

    def __init__(self, cluster: ClusterSpec | None, job: str, index: int):
        self.job, self.index, self.tasks = job, index, [(job, index)]
        if cluster is not None and job != "evaluator":
            jobs = [j for j in (*_CHIEFS, "worker") if j in cluster.jobs]
            self.tasks = [(j, i) for j in jobs for i in cluster.task_indices(j)]
            if (job, index) not in self.tasks:
                raise errors.invalid(f"TF_CONFIG declares that this is {job} {index}, which is not a worker of the cluster: "
                                     f"{', '.join(f'{j} {i}' for j, i in self.tasks) or 'it has none'}.")
        self.count, self.rank = len(self.tasks), self.tasks.index((job, index))
        self.cluster = ClusterSpec({j: {i: cluster.task_address(j, i) for k, i in self.tasks if k == j}
                                    for j in dict.fromkeys(k for k, _ in self.tasks)}) \
            if cluster is not None and self.count > 1 else None

    @classmethod
    def of(cls, resolver: Any) -> Place:
        """From a cluster resolver, or from TF_CONFIG; alone without either."""
        if resolver is not None:
            return cls(ClusterSpec(resolver.cluster_spec()), str(resolver.task_type), int(resolver.task_id or 0))
        found = tf_config.from_environment()
        return cls(None, "worker", 0) if found is None else cls(*found)

    def serve(self) -> Any:
        """The server of this process, started if there is none; eager execution reduces over its links from now on."""
        if self.cluster is None:
            return None
        address = self.cluster.task_address(self.job, self.index)
        if address not in _servers:
            _servers[address] = Server(self.cluster, self.job, self.index)
            atexit.register(_leave, _servers[address]._resources.hub)
        eager_context().resources.hub = _servers[address]._resources.hub
        return _servers[address]


def _leave(hub: Any) -> None:
    """Waits at the normal end of a process: other workers may still be in the last step."""
    if getattr(sys, "last_value", None) is None:
        hub.leave(_LAST_STEP)


class MultiWorkerExtended(MirroredExtended):
    """The implementation of MultiWorkerMirroredStrategy."""

    _batches_are_global = True                 # this worker takes its rows of them
    _begins_as_first = True                    # variables begin with the first worker's values

    def __init__(self, container_strategy: Any, options: CommunicationOptions, resolver: Any = None):
        self._cluster_resolver, self._communication_options = resolver or TFConfigClusterResolver(), options
        self._join(Place.of(resolver))
        super().__init__(container_strategy, local_devices())

    def _join(self, place: Place) -> None:
        """Takes a place among the workers. Sessions of this process, Keras's among them, meet the others at its server."""
        self._place, self._server = place, place.serve()
        self._workers = Workers(place.count, next(_KEYS), self._communication_options)
        if self._server is not None:
            self._server._resources.hub.claim(self._workers.key)

    def _set_devices(self, devices: tuple) -> None:
        self._devices = devices
        self._cross_device_ops = WorkersReduction(self._workers, len(devices))

    @property
    def _num_replicas_in_sync(self) -> int:
        return len(self._devices) * self._place.count

    def _replica_id(self, index: int) -> int:
        return self._place.rank * len(self._devices) + index

    def _local_index(self, replica_id: int) -> int:
        return replica_id - self._place.rank * len(self._devices)

    def _in_multi_worker_mode(self) -> bool:
        return self._place.count > 1

    @property
    def _own_copies(self) -> bool:
        return self._place.count > 1

    # -- variables ----------------------------------------------------------------------------------------------------
    def _create_variable(self, next_creator: Any, **kwargs: Any) -> Any:
        given, dtype = kwargs.get("initial_value"), kwargs.get("dtype")

        def first_workers() -> Any:
            value = given() if callable(given) else given
            return self._workers.broadcast(convert(value, dtype))
        if self._workers.size > 1 and self._begins_as_first and given is not None:
            kwargs["initial_value"] = first_workers
        return super()._create_variable(next_creator, **kwargs)

    # -- reductions ---------------------------------------------------------------------------------------------------
    def _gather_to(self, value: Any, axis: int) -> Any:
        here = super()._gather_to(value, axis)
        if axis == 0 or self._workers.size == 1:
            return self._workers.gathered(here)
        order = [axis, *(i for i in range(here.shape.rank) if i != axis)]
        back = [order.index(i) for i in range(here.shape.rank)]
        return get("Transpose")(self._workers.gathered(get("Transpose")(here, order)), back)

    # -- input --------------------------------------------------------------------------------------------------------
    def _input_context(self) -> Any:
        return InputContext(self._place.count, self._place.rank, self._num_replicas_in_sync)

    def _experimental_distribute_dataset(self, dataset: Any) -> Any:
        return DistributedDataset(self._own_rows(dataset), self._container_strategy())

    def _make_dataset_iterator(self, dataset: Any) -> Any:
        return super()._make_dataset_iterator(self._own_rows(dataset))

    def _own_rows(self, dataset: Any) -> Any:
        """A dataset of this worker's rows of each batch; as it is, where its options say that it is not to be divided."""
        policy = dataset.options().experimental_distribute.auto_shard_policy
        if self._place.count == 1 or policy == AutoShardPolicy.OFF:
            return dataset
        rank, count = self._place.rank, self._place.count

        def own(*element: Any) -> Any:
            value = element[0] if len(element) == 1 and not isinstance(dataset.element_spec, tuple) else element
            rows = _row_count(nest.flatten(value)[0])
            return nest.map_structure(lambda x: _rows_of(x, rows * rank // count, rows * (rank + 1) // count), value)
        return dataset.map(own)

    # -- around sessions ----------------------------------------------------------------------------------------------
    experimental_between_graph = property(lambda self: True, doc="Whether each worker builds its own graph.")
    should_checkpoint = property(lambda self: self._place.rank == 0, doc="Whether this process writes checkpoints.")
    should_save_summary = property(lambda self: self._place.rank == 0, doc="Whether this process writes summaries.")

    def _configure(self, session_config: Any = None, cluster_spec: Any = None, task_type: Any = None,
                   task_id: Any = None) -> None:
        """Configures a strategy that was created without TF_CONFIG; a session's configuration is not changed."""
        if cluster_spec is not None and self._server is None:
            self._join(Place(ClusterSpec(cluster_spec), str(task_type), int(task_id or 0)))
            self._set_devices(self._devices)

    def _local_results(self, value: Any) -> tuple:
        return local_values(value)


def _options(communication: Any, given: CommunicationOptions | None) -> CommunicationOptions:
    return given if given is not None else CommunicationOptions(implementation=communication)


@export(v2=["distribute.MultiWorkerMirroredStrategy"])
class MultiWorkerMirroredStrategy(Strategy):
    """A replica on each device of each of several workers, with the same variables on all of them. TF_CONFIG names the workers.

    >>> strategy = tf.distribute.MultiWorkerMirroredStrategy()
    >>> with strategy.scope():
    ...     model = make_model()
    ...     model.compile("sgd", "mse")
    >>> model.fit(dataset)                       # the same program in every worker
    """

    def __init__(self, cluster_resolver: Any = None, communication_options: Any = None):
        super().__init__(MultiWorkerExtended(self, communication_options or CommunicationOptions(), cluster_resolver))


@export(v2=["distribute.experimental.MultiWorkerMirroredStrategy"])
class ExperimentalMultiWorkerMirroredStrategy(Strategy):
    """MultiWorkerMirroredStrategy under its older name, which takes the communication first."""

    def __init__(self, communication: Any = CollectiveCommunication.AUTO, cluster_resolver: Any = None,
                 communication_options: Any = None):
        super().__init__(MultiWorkerExtended(self, _options(communication, communication_options), cluster_resolver))


@export(v1=["distribute.experimental.MultiWorkerMirroredStrategy"])
class MultiWorkerMirroredStrategyV1(StrategyV1):
    """A replica on each device of each of several workers, with the same variables on all of them (v1 form)."""

    def __init__(self, communication: Any = CollectiveCommunication.AUTO):
        super().__init__(MultiWorkerExtended(self, _options(communication, None)))
