"""ParameterServerStrategy, between graphs: each worker builds a graph, and all of them update the same variables.

Variables are on the parameter servers of the cluster, in sequence; everything else is on the worker whose process this
is. Workers do not wait for each other. The chief (or worker 0) initializes and writes checkpoints. Without a cluster in
TF_CONFIG, replicas are on the devices of this process and variables on its CPU, as in CentralStorageStrategy.
"""
from __future__ import annotations

import time
from typing import Any

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.base.waits import Wait
from penstock._src.cluster import server
from penstock._src.cluster.cluster import ClusterSpec
from penstock._src.cluster.device_setter import replica_device_setter
from penstock._src.graph import context
from penstock._src.graph.scopes import colocate_with, device, init_scope
from penstock._src.models.distribute.central_storage import CentralStorageExtended
from penstock._src.models.distribute.cluster_resolver import ClusterResolver, TFConfigClusterResolver
from penstock._src.models.distribute.coordinated import CoordinatedExtended
from penstock._src.models.distribute.devices import local_devices
from penstock._src.models.distribute.input_context import InputContext
from penstock._src.models.distribute.one_device import OneDeviceExtended
from penstock._src.models.distribute.strategy import Strategy, StrategyV1
from penstock._src.ops.registry import get
from penstock._src.session.session import Session
from penstock._src.state.variables.policy import VariableSynchronization

PATIENCE = 300.0                # seconds that a worker waits for the chief to initialize the variables


def _number_of_workers(cluster: ClusterSpec) -> int:
    return sum(cluster.num_tasks(job) for job in ("chief", "master", "worker") if job in cluster.jobs)


class BetweenGraphExtended(OneDeviceExtended):
    """The implementation of ParameterServerStrategy in a worker of a cluster."""

    def __init__(self, container_strategy: Any, cluster: ClusterSpec, task_type: str, task_id: int, resolver: Any = None):
        jobs = cluster.jobs
        if "ps" not in jobs:
            raise ValueError(f"The cluster must have `ps` jobs for the variables; its jobs are {sorted(jobs)}.")
        if task_type not in jobs:
            raise ValueError(f"This process is task {task_id} of the job {task_type!r}, but the jobs are {sorted(jobs)}.")
        kind = "GPU" if local_devices("GPU") else "CPU"
        self.cluster, self.task_type, self.task_id = cluster, task_type, task_id
        self._cluster_resolver = resolver
        worker = f"/job:{task_type}/replica:0/task:{task_id}"
        super().__init__(container_strategy, f"{worker}/device:{kind}:0")
        self._default_device = worker
        self._variables_at = replica_device_setter(worker_device=worker, cluster=cluster)
        self._is_chief = task_type in ("chief", "master") or task_type == "worker" and task_id == 0 and \
            not {"chief", "master"} & set(jobs)

    @property
    def parameter_devices(self) -> tuple:
        """The first device of each parameter server."""
        return tuple(f"/job:ps/replica:0/task:{i}/device:CPU:0" for i in self.cluster.task_indices("ps"))

    def _create_variable(self, next_creator: Any, **kwargs: Any) -> Any:
        if context.eager_outside_functions():
            raise RuntimeError("Variables on parameter servers need a graph and a session with the cluster: call "
                               "tf.compat.v1.disable_v2_behavior(), or build in a tf.Graph.")
        beside = kwargs.pop("colocate_with", None)
        local = kwargs.get("synchronization") is VariableSynchronization.ON_READ
        with init_scope(), device(self._device) if local else _place(beside, self._variables_at):
            graph = context.current_graph()
            graph.caches.update({"new session": self.session, "own variables": self._own_variables})
            made = next_creator(**kwargs)
        made._distribute_strategy = self._container_strategy()
        return made

    def session(self, graph: Any = None, config: Any = None) -> Any:
        """A session with the cluster, through this task's server, which is started if it does not exist yet."""
        host, _, port = self.cluster.task_address(self.task_type, self.task_id).rpartition(":")
        found = server.serving(host, int(port))
        if found is None:
            self._server = found = server.Server(self.cluster, self.task_type, self.task_id)
        from tensorboard.compat.proto.config_pb2 import ConfigProto
        return Session(found.target, graph=graph, config=self._update_config_proto(config or ConfigProto()))

    def _own_variables(self, session: Any, missing: list) -> list:
        """Those of `missing` that this task initializes; waits for those that the chief does."""
        if self._is_chief:
            return missing
        own = [v for v in missing if v.device.startswith(self._default_device)]
        theirs = [v for v in missing if not v.device.startswith(self._default_device)]
        deadline = time.monotonic() + PATIENCE
        waited = Wait(lambda: f"the chief of {self.cluster.as_dict()} to initialize {', '.join(v.name for v in theirs[:5])}")
        with session.graph.as_default():
            ready = [get("VarIsInitializedOp")(v.handle) for v in theirs]
        while theirs and not all(session.run(ready)):
            if time.monotonic() > deadline:
                names = ", ".join(v.name for v in theirs[:5])
                raise errors.DeadlineExceededError(
                    None, None, f"The chief has not initialized {names} in {PATIENCE:.0f} s. Is it running? The cluster is "
                    f"{self.cluster.as_dict()}.")
            time.sleep(waited.patience(0.2) or 0.0)
        return own

    def _allow_variable_partition(self) -> bool:
        return True

    def _update(self, var: Any, fn: Any, args: tuple, kwargs: dict, group: bool) -> Any:
        with colocate_with(var):
            return super()._update(var, fn, args, kwargs, group)

    def _update_non_slot(self, colocate_with: Any, fn: Any, args: tuple, kwargs: dict, group: bool) -> Any:
        where = getattr(colocate_with, "device", None) or self.parameter_devices[0]
        return super(OneDeviceExtended, self)._update_non_slot(where, fn, args, kwargs, group)

    def _input_context(self) -> Any:
        count = _number_of_workers(self.cluster)
        first = sum(self.cluster.num_tasks(job) for job in ("chief", "master") if job in self.cluster.jobs)
        mine = self.task_id if self.task_type != "worker" else first + self.task_id
        return InputContext(count, mine, self._num_replicas_in_sync)

    def _in_multi_worker_mode(self) -> bool:
        return False

    def _update_config_proto(self, config_proto: Any) -> Any:
        made = super()._update_config_proto(config_proto)
        made.isolate_session_state = False
        del made.device_filters[:]
        made.device_filters.extend(["/job:ps", f"/job:{self.task_type}/task:{self.task_id}"])
        return made

    experimental_between_graph = property(lambda self: True, doc="Each worker builds its own graph.")
    experimental_should_init = property(lambda self: self._is_chief, doc="The chief initializes the variables.")
    should_checkpoint = property(lambda self: self._is_chief, doc="The chief writes checkpoints.")
    should_save_summary = property(lambda self: self._is_chief, doc="The chief writes summaries.")
    _global_batch_size = property(lambda self: False, doc="Batches are those of a worker.")


def _place(beside: Any, setter: Any) -> Any:
    return device(setter) if beside is None else colocate_with(beside)


def _checked(resolver: Any) -> ClusterResolver:
    """A resolver: that of TF_CONFIG, if none is given."""
    if resolver is None:
        return TFConfigClusterResolver()
    if not isinstance(resolver, ClusterResolver):
        raise ValueError(f"cluster_resolver must be a tf.distribute.cluster_resolver.ClusterResolver, got {resolver!r}")
    return resolver


def _extended(strategy: Any, resolver: Any) -> Any:
    """The extended of a worker of a cluster, or of a single process."""
    resolver = _checked(resolver)
    cluster = resolver.cluster_spec()
    alone = not cluster.jobs or set(cluster.jobs) == {"worker"} and cluster.num_tasks("worker") == 1
    if alone or resolver.task_type == "evaluator":           # which is outside of the cluster, and reads its checkpoints
        return CentralStorageExtended(strategy)
    return BetweenGraphExtended(strategy, cluster, resolver.task_type, resolver.task_id, resolver)


@export(v1=["distribute.experimental.ParameterServerStrategy"])
class ParameterServerStrategyV1(StrategyV1):
    """Variables on parameter servers, which workers change each at its own pace; the cluster is that of TF_CONFIG.

    >>> strategy = tf.distribute.experimental.ParameterServerStrategy()
    >>> config = tf.estimator.RunConfig(train_distribute=strategy)
    """

    def __init__(self, cluster_resolver: Any = None):
        super().__init__(_extended(self, cluster_resolver))

    def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
        """Not available between graphs, where each worker has its own batches."""
        if isinstance(self.extended, BetweenGraphExtended):
            raise NotImplementedError("ParameterServerStrategy does not split batches: each worker reads its own. Use "
                                      "distribute_datasets_from_function, or shard the dataset yourself.")
        return super().experimental_distribute_dataset(dataset, options)


@export(v2=["distribute.experimental.ParameterServerStrategy", "distribute.ParameterServerStrategy"])
class ParameterServerStrategy(Strategy):
    """Variables on parameter servers, in turn or cut by a partitioner; functions run on workers through a ClusterCoordinator.

    The program runs in the chief of the cluster; the other processes are servers. Without a cluster in TF_CONFIG, variables are
    on the CPU of this process.

    >>> resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    >>> strategy = tf.distribute.ParameterServerStrategy(resolver)
    >>> coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    """

    def __init__(self, cluster_resolver: Any = None, variable_partitioner: Any = None):
        resolver = _checked(cluster_resolver)
        cluster = resolver.cluster_spec()
        coordinates = resolver.task_type in (None, "", "chief") and context.eager_outside_functions()
        if coordinates and cluster.jobs:
            super().__init__(CoordinatedExtended(self, cluster, resolver, variable_partitioner))
            self._should_use_with_coordinator = True
            return
        if variable_partitioner is not None:
            raise NotImplementedError("variable_partitioner is for the chief of a cluster, in eager execution. In graphs, use "
                                      "tf.compat.v1.get_variable with a partitioner.")
        super().__init__(_extended(self, resolver))
