"""tf.contrib.distribute: strategies under the names and arguments that they had before tf.distribute."""
from __future__ import annotations

import collections
from typing import Any

from penstock._src.base.api import export
from penstock.compat import v1 as tf


def _export(name: str) -> Any:
    return export(v1=[f"contrib.distribute.{name}"])


def _gpus(devices: Any, *counts: int | None) -> Any:
    """The devices that are requested by their number."""
    number = next((n for n in counts if n), 0)
    return [f"/device:GPU:{i}" for i in range(number)] if devices is None and number else devices


@_export("MirroredStrategy")
class MirroredStrategy(tf.distribute.MirroredStrategy):
    """The same variables on several devices of this machine.

    >>> tf.estimator.RunConfig(train_distribute=tf.contrib.distribute.MirroredStrategy(num_gpus=2))
    """

    def __init__(self, devices: Any = None, num_gpus: int | None = None, num_gpus_per_worker: int | None = None,
                 cross_device_ops: Any = None, auto_shard_dataset: bool = False, cross_tower_ops: Any = None):
        super().__init__(_gpus(devices, num_gpus, num_gpus_per_worker), cross_device_ops or cross_tower_ops)


@_export("OneDeviceStrategy")
class OneDeviceStrategy(tf.distribute.OneDeviceStrategy):
    """Everything on one device."""

    def __init__(self, device: str):
        super().__init__(device)


@_export("CollectiveAllReduceStrategy")
class CollectiveAllReduceStrategy(tf.distribute.experimental.MultiWorkerMirroredStrategy):
    """The same variables in several processes, which TF_CONFIG names."""

    def __init__(self, num_gpus_per_worker: int = 0, communication: Any = None):
        super().__init__(communication or tf.distribute.experimental.CollectiveCommunication.AUTO)


@_export("ParameterServerStrategy")
class ParameterServerStrategy(tf.distribute.experimental.ParameterServerStrategy):
    """Variables on the parameter servers that TF_CONFIG names, or on the CPU of this process."""

    def __init__(self, num_gpus_per_worker: int = 0):
        super().__init__()


for _old, _new in {"CrossDeviceOps": "CrossDeviceOps", "ReductionToOneDeviceCrossDeviceOps": "ReductionToOneDevice",
                   "AllReduceCrossDeviceOps": "HierarchicalCopyAllReduce", "get_replica_context": "get_replica_context",
                   "get_cross_replica_context": "get_cross_replica_context", "has_distribution_strategy": "has_strategy",
                   "get_distribution_strategy": "get_strategy", "get_strategy": "get_strategy",
                   "has_strategy": "has_strategy", "in_cross_replica_context": "in_cross_replica_context",
                   "get_loss_reduction": "get_loss_reduction",
                   "DistributionStrategy": "Strategy", "DistributionStrategyExtended": "StrategyExtended",
                   "ReplicaContext": "ReplicaContext"}.items():
    export.value(getattr(tf.distribute, _new), v1=[f"contrib.distribute.{_old}"])


@_export("DistributeConfig")
class DistributeConfig(collections.namedtuple("DistributeConfig", ["train_distribute", "eval_distribute", "remote_cluster"])):
    """How an estimator is distributed: the strategies of training and evaluation, and a cluster to run on.

    >>> tf.contrib.distribute.DistributeConfig(train_distribute=strategy)
    """

    def __new__(cls, train_distribute: Any = None, eval_distribute: Any = None, remote_cluster: Any = None) -> Any:
        return super().__new__(cls, train_distribute, eval_distribute, remote_cluster)
