"""ParameterServerStrategy of 2.x: one process, the coordinator, creates the variables on parameter servers and runs functions
on workers (coordinator/).

Variables go to the servers in turn, cut into shards if there is a partitioner (sharded.py). A function that runs on a worker
reads and changes them from there, at its own pace: there is one replica, and no worker waits for another.
"""
from __future__ import annotations

import functools
import inspect
from typing import Any

from penstock._src.base import nest
from penstock._src.base.static_shape import TensorShape
from penstock._src.cluster.cluster import ClusterSpec
from penstock._src.graph.convert import convert
from penstock._src.graph.scopes import colocate_with, device, init_scope
from penstock._src.graph.strategies import Frame, entered
from penstock._src.models.distribute import connect
from penstock._src.models.distribute.one_device import OneDeviceExtended
from penstock._src.models.distribute.replica import ReplicaContext
from penstock._src.models.distribute.sharded import ShardedVariable
from penstock._src.models.distribute.values import select_replica

_JOBS = ("chief", "ps", "worker", "evaluator")


def check_cluster(cluster: ClusterSpec, task_type: Any) -> None:
    """ValueError for a cluster without workers or parameter servers."""
    wrong = sorted(set(cluster.jobs) - set(_JOBS))
    if wrong:
        raise ValueError(f"The jobs of a ParameterServerStrategy are chief, ps and worker; this cluster has {wrong}.")
    for job in ("ps", "worker"):
        if job not in cluster.jobs or cluster.num_tasks(job) < 1:
            raise ValueError(f"There must be at least one {job}: the cluster is {cluster.as_dict()}.")
    if "chief" in cluster.jobs and cluster.num_tasks("chief") > 1:
        raise ValueError(f"There must be one chief, which is the coordinator: the cluster is {cluster.as_dict()}.")
    if task_type not in (None, "", "chief"):
        raise ValueError(f"This process is a {task_type}, but the chief coordinates: start a tf.distribute.Server here.")


class CoordinatedExtended(OneDeviceExtended):
    """The implementation of ParameterServerStrategy in the coordinator."""

    def __init__(self, container_strategy: Any, cluster: ClusterSpec, resolver: Any, partitioner: Any):
        check_cluster(cluster, resolver.task_type)
        super().__init__(container_strategy, "/device:CPU:0")
        self.cluster, self._cluster_resolver, self._partitioner = cluster, resolver, partitioner
        self.num_workers, self._made = cluster.num_tasks("worker"), 0
        self.at_end: list[Any] = []                  # called before the connection ends
        self.connection = connect.connect(cluster, "chief", 0, spread=True)
        self.connection.at_end = self._end

    worker_devices = property(lambda self: ("/device:CPU:0",), doc="That of the replica, on whichever worker runs it.")
    _num_replicas_in_sync = property(lambda self: 1)

    @property
    def parameter_devices(self) -> tuple:
        """The first device of each parameter server."""
        return tuple(f"/job:ps/replica:0/task:{i}/device:CPU:0" for i in self.cluster.task_indices("ps"))

    def _end(self) -> None:
        for ref in self.at_end:
            end = ref()
            if end is not None:
                end()

    # -- variables ----------------------------------------------------------------------------------------------------
    def _create_variable(self, next_creator: Any, **kwargs: Any) -> Any:
        if kwargs.pop("per_worker_variable", False):
            raise NotImplementedError("Variables with a copy per worker. Create them by "
                                      "tf.distribute.coordinator.ClusterCoordinator.create_per_worker_dataset, or without "
                                      "per_worker_variable.")
        beside = kwargs.pop("colocate_with", None)
        if beside is not None:
            with init_scope(), colocate_with(None, ignore_existing=True), device(beside.device):
                return self._own(next_creator(**kwargs))
        shards = self._shards(kwargs)
        if shards is None:
            return self._in_turn(next_creator, kwargs)
        name, made = kwargs.get("name"), []
        for i, (dims, value) in enumerate(shards):
            named = {} if name is None else {"name": f"{name}/part_{i}"}
            made.append(self._in_turn(next_creator, {**kwargs, "shape": TensorShape(dims), "initial_value": value, **named}))
        return ShardedVariable(made, name)

    def _in_turn(self, next_creator: Any, kwargs: dict[str, Any]) -> Any:
        where = self.parameter_devices[self._made % len(self.parameter_devices)]
        with init_scope(), colocate_with(None, ignore_existing=True), device(where):
            made = next_creator(**kwargs)
        self._made += 1
        return self._own(made)

    def _own(self, variable: Any) -> Any:
        variable._distribute_strategy = self._container_strategy()
        return variable

    def _shards(self, kwargs: dict[str, Any]) -> list | None:
        """Shape and initial value of each shard; None for a variable that stays whole."""
        if self._partitioner is None:
            return None
        value, shape, dtype = kwargs.get("initial_value"), kwargs.get("shape"), kwargs.get("dtype")
        if value is None:
            raise ValueError("It looks like you are using `ParameterServerStrategy` with a `variable_partitioner`, and trying "
                             "to create a variable without specifying `initial_value`. This is not allowed. Please specify the "
                             "`initial_value`.")
        if callable(value) and (shape is None or dtype is None):
            value = kwargs["initial_value"] = value()
        if not callable(value):
            value = kwargs["initial_value"] = convert(value, dtype)
            shape, dtype = value.shape, value.dtype
        dims = TensorShape(shape).as_list()
        if not dims:
            return None
        counts = list(self._partitioner(shape=TensorShape(dims), dtype=dtype))
        if not counts or counts[0] == 0 or any(n != 1 for n in counts[1:]):
            raise ValueError("variable_partitioner must return a list/tuple whose elements are 1 besides the first element "
                             f"(non-zero), got: {counts!r}")
        count = min(counts[0], dims[0])
        return None if count <= 1 else _cut(value, dims, count)

    def _allow_variable_partition(self) -> bool:
        return False

    # -- replicas -----------------------------------------------------------------------------------------------------
    def _call_for_each_replica(self, fn: Any, args: Any, kwargs: Any) -> Any:
        with ReplicaContext(self._container_strategy(), 0):
            return fn(*select_replica(0, tuple(args)), **select_replica(0, dict(kwargs)))

    def _broadcast_to(self, tensor: Any, destinations: Any) -> Any:
        return tensor

    def _update(self, var: Any, fn: Any, args: tuple, kwargs: dict, group: bool) -> Any:
        return self._updated(var.device, fn, (var, *args), kwargs, group)

    def _update_non_slot(self, colocate_with: Any, fn: Any, args: tuple, kwargs: dict, group: bool) -> Any:
        where = colocate_with if isinstance(colocate_with, str) else getattr(colocate_with, "device", None)
        return self._updated(where or self.parameter_devices[0], fn, args, kwargs, group)

    def _updated(self, where: str, fn: Any, args: tuple, kwargs: dict, group: bool) -> Any:
        with entered(Frame(self._container_strategy(), copy=0)), device(where):
            result = fn(*select_replica(0, args), **select_replica(0, kwargs))
        return result if group else nest.map_structure(self._local_results, result)

    def non_slot_devices(self, var_list: Any) -> Any:
        """The first parameter server."""
        return self.parameter_devices[:1]

    # -- input --------------------------------------------------------------------------------------------------------
    def _experimental_distribute_dataset(self, dataset: Any) -> Any:
        """A worker has one replica, which gets whole batches."""
        return dataset

    def _experimental_distribute_datasets_from_function(self, dataset_fn: Any) -> Any:
        return dataset_fn(self._input_context())


def _cut(value: Any, dims: list, count: int) -> list:
    """Rows divided as evenly as possible, the larger shards first."""
    base, extra = divmod(dims[0], count)
    out, offset, whole = [], 0, _Whole(value)
    for i in range(count):
        rows = base + (i < extra)
        out.append(([rows, *dims[1:]], functools.partial(whole.part, offset, [rows, *dims[1:]])))
        offset += rows
    return out


class _Whole:
    """The initial value of a sharded variable: computed shard by shard if the initializer supports it, else as a whole."""

    def __init__(self, value: Any):
        self._value = value

    def part(self, offset: int, shape: list[int]) -> Any:
        """The initial value of one shard."""
        if callable(self._value):
            if _makes_parts(self._value):
                return self._value(partition_shape=tuple(shape), partition_offset=(offset,) + (0,) * (len(shape) - 1))
            self._value = self._value()
        return self._value[offset:offset + shape[0]]


def _makes_parts(function: Any) -> bool:
    try:
        return "partition_shape" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
