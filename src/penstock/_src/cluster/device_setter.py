"""replica_device_setter: variables on parameter servers, everything else on the worker."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from penstock._src.base import tf_logging
from penstock._src.base.api import export
from penstock._src.cluster.cluster import ClusterSpec
from penstock._src.kernels.devices.device_spec import DeviceSpecV2

STANDARD_PS_OPS = (
    "Variable", "VariableV2", "AutoReloadVariable", "MutableHashTable", "MutableHashTableV2", "MutableHashTableOfTensors",
    "MutableHashTableOfTensorsV2", "MutableDenseHashTable", "MutableDenseHashTableV2", "VarHandleOp", "KvVarHandleOp",
    "BoostedTreesEnsembleResourceHandleOp", "BoostedTreesQuantileStreamResourceHandleOp")


class _RoundRobin:
    """Round robin over the tasks."""

    def __init__(self, num_tasks: int):
        self._num_tasks, self._next = num_tasks, 0

    def __call__(self, op: Any) -> int:
        task, self._next = self._next, (self._next + 1) % self._num_tasks
        return task


class GreedyLoadBalancingStrategy:
    """The task with the least load so far; `load_fn(op)` returns the load of an op.

    >>> strategy = GreedyLoadBalancingStrategy(2, byte_size_load_fn)
    >>> with tf.device(tf.train.replica_device_setter(2, ps_strategy=strategy)): ...
    """

    def __init__(self, num_tasks: int, load_fn: Callable[[Any], float]):
        self._loads, self._load_fn = [0.0] * num_tasks, load_fn

    def __call__(self, op: Any) -> int:
        task = self._loads.index(min(self._loads))
        self._loads[task] += self._load_fn(op)
        return task


def byte_size_load_fn(op: Any) -> int:
    """The bytes of a variable, whose shape must be known."""
    dims = op.attrs["shape"].as_list()
    if None in dims:
        raise ValueError(f"The shape of {op.name} must be known to balance its load, but is {dims}")
    return op.attrs["dtype"].base_dtype.size * math.prod(dims)


class _Chooser:
    """The device function."""

    def __init__(self, ps_device: str, worker_device: str, merge: bool, ps_ops: Any, strategy: Callable[[Any], int]):
        self._ps, self._worker = DeviceSpecV2.from_string(ps_device or ""), DeviceSpecV2.from_string(worker_device or "")
        self._merge, self._ps_ops, self._strategy = merge, frozenset(ps_ops), strategy

    def device_function(self, op: Any) -> str:
        """The device of an op: its own request, completed with this setter's device."""
        if not self._merge and op.device:
            return op.device
        asked = DeviceSpecV2.from_string(op.device or "")
        kind = getattr(op, "type", None) or op.op                    # an Operation or a NodeDef
        if kind not in self._ps_ops or not self._ps.to_string():
            return self._worker.make_merged_spec(asked).to_string()
        ps = self._ps
        if ps.job and asked.job in (None, ps.job):
            ps = ps.replace(task=self._strategy(op))
        return ps.make_merged_spec(asked).to_string()


@export(v1=["train.replica_device_setter"])
def replica_device_setter(ps_tasks: int = 0, ps_device: str = "/job:ps", worker_device: str = "/job:worker",
                          merge_devices: bool = True, cluster: Any = None, ps_ops: Any = None,
                          ps_strategy: Any = None) -> Callable | None:
    """A device function for `tf.device`: variables go to the parameter servers in turn, other ops to the worker.

    Args:
        ps_tasks: Number of parameter servers; 0 with `cluster=None` returns None.
        ps_device: Device of the parameter servers.
        worker_device: Device of all other ops.
        merge_devices: Whether to complete devices that are partly given instead of replacing them.
        cluster: Cluster to take the number of parameter servers from.
        ps_ops: Types of ops to place on parameter servers, by default variables and tables.
        ps_strategy: Function from op to the number of a parameter server, by default in turns.

    Returns:
        A function for `tf.device`, or None.

    >>> cluster = tf.train.ClusterSpec({"ps": ["localhost:2222"], "worker": ["localhost:2223"]})
    >>> with tf.Graph().as_default(), tf.device(tf.train.replica_device_setter(cluster=cluster)):
    ...     w = tf.get_variable("w", [10])
    ...     y = w + 1
    >>> w.device, y.device
    ('/job:ps/task:0', '/job:worker')
    """
    if cluster is not None:
        jobs = ClusterSpec(cluster).as_dict()
        job = DeviceSpecV2.from_string(ps_device).job
        if not jobs.get(job):
            return None
        ps_tasks = len(jobs[job])
    if ps_tasks == 0:
        return None
    if not merge_devices:
        tf_logging.warning("Pass merge_devices=True to replica_device_setter.")
    strategy = ps_strategy if ps_strategy is not None else _RoundRobin(ps_tasks)
    if not callable(strategy):
        raise TypeError("ps_strategy must be callable")
    return _Chooser(ps_device, worker_device, merge_devices, ps_ops or STANDARD_PS_OPS, strategy).device_function
