"""MirroredStrategy: a replica and a copy of every variable on each device of this process, kept in step by reductions."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.scopes import device
from penstock._src.models.distribute import creation
from penstock._src.models.distribute import cross_device_ops as cross_device_ops_lib
from penstock._src.models.distribute.devices import checked, local_devices
from penstock._src.models.distribute.extended import StrategyExtendedV1, check_own_variable
from penstock._src.models.distribute.replica import ReplicaContext
from penstock._src.models.distribute.replicas import call_for_each
from penstock._src.models.distribute.strategy import Strategy, StrategyV1
from penstock._src.models.distribute.values import DistributedValues, Mirrored, local_values, select_replica


class MirroredExtended(StrategyExtendedV1):
    """The implementation of MirroredStrategy. Strategies with other devices or reductions subclass it."""

    def __init__(self, container_strategy: Any, devices: Any = None, cross_device_ops: Any = None):
        super().__init__(container_strategy)
        self._given_cross_device_ops = cross_device_ops
        self._set_devices(checked(devices) if devices else local_devices())

    def _set_devices(self, devices: tuple) -> None:
        self._devices = devices
        self._cross_device_ops = self._given_cross_device_ops or cross_device_ops_lib.choose(devices)

    worker_devices = property(lambda self: self._devices, doc="The devices.")
    parameter_devices = property(lambda self: self._devices, doc="The devices.")

    # -- variables ----------------------------------------------------------------------------------------------------
    def _create_variable(self, next_creator: Any, **kwargs: Any) -> Any:
        beside = kwargs.pop("colocate_with", None)
        kind, aggregation = creation.kind_of(kwargs)
        where = self._devices_beside(beside)
        return creation.create(self._container_strategy(), where, next_creator, kwargs, kind, aggregation)

    def _devices_beside(self, variable: Any) -> tuple:
        """The devices of a variable that is colocated with another one: the same."""
        if isinstance(variable, DistributedValues):
            return cross_device_ops_lib.devices_of(variable)
        return self._devices

    def read_var(self, v: Any) -> Any:
        """The value of a variable: its first copy; reduced, where it is synchronized on reading."""
        check_own_variable(self._container_strategy(), v)
        return v.read_value()

    # -- replicas -----------------------------------------------------------------------------------------------------
    def _call_for_each_replica(self, fn: Any, args: Any, kwargs: Any) -> Any:
        strategy = self._container_strategy()
        if len(self._devices) > 1:
            return call_for_each(strategy, self._devices, fn, args, kwargs)
        with device(self._devices[0]), ReplicaContext(strategy, self._replica_id(0)):
            return fn(*select_replica(0, tuple(args)), **select_replica(0, dict(kwargs)))

    # -- reductions ---------------------------------------------------------------------------------------------------
    def _reduce_to(self, reduce_op: Any, value: Any, destinations: Any) -> Any:
        if isinstance(value, Mirrored) and reduce_op is cross_device_ops_lib.ReduceOp.MEAN:
            return value
        return self._get_cross_device_ops().reduce(reduce_op, self._for_each(value), destinations)

    def _batch_reduce_to(self, reduce_op: Any, value_destination_pairs: Any) -> Any:
        return self._get_cross_device_ops().batch_reduce(
            reduce_op, [(self._for_each(v), d) for v, d in value_destination_pairs])

    def _for_each(self, value: Any) -> Any:
        """A value that all replicas have is one for each of them."""
        if isinstance(value, DistributedValues):
            return value
        return Mirrored([value] * len(self._devices))

    def _get_cross_device_ops(self) -> Any:
        return self._cross_device_ops

    def _broadcast_to(self, tensor: Any, destinations: Any) -> Any:
        return self._get_cross_device_ops().broadcast(tensor, destinations)

    def _local_results(self, value: Any) -> tuple:
        return local_values(value)

    def non_slot_devices(self, var_list: Any) -> Any:
        """All devices."""
        return self._devices

    # -- sessions -----------------------------------------------------------------------------------------------------
    def _update_config_proto(self, config_proto: Any) -> Any:
        made = super()._update_config_proto(config_proto)
        made.isolate_session_state = True
        return made


@export(v2=["distribute.MirroredStrategy"])
class MirroredStrategy(Strategy):
    """A replica on each of several devices of this machine, with the same variables on all of them.

    Args:
        devices: The devices, such as `["/gpu:0", "/gpu:1"]`; by default all GPUs, or the CPU if there is none.
        cross_device_ops: How gradients are added up; by default the fastest way for the devices.

    >>> strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    >>> with strategy.scope():
    ...     model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    ...     model.compile("sgd", "mse")
    >>> history = model.fit(tf.ones([4, 2]), tf.ones([4, 1]), verbose=0)
    >>> strategy.num_replicas_in_sync
    1
    """

    def __init__(self, devices: Any = None, cross_device_ops: Any = None):
        super().__init__(MirroredExtended(self, devices, cross_device_ops))


@export(v1=["distribute.MirroredStrategy"])
class MirroredStrategyV1(StrategyV1):
    """A replica on each of several devices of this machine, with the same variables on all of them (v1 form)."""

    def __init__(self, devices: Any = None, cross_device_ops: Any = None):
        super().__init__(MirroredExtended(self, devices, cross_device_ops))
