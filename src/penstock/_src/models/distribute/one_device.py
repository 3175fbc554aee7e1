"""OneDeviceStrategy: one replica, on a given device. For testing distributed user programs without distribution."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.scopes import colocate_with, device, init_scope
from penstock._src.models.distribute.cross_device_ops import copy_to, devices_of
from penstock._src.models.distribute.devices import canonical
from penstock._src.models.distribute.extended import StrategyExtendedV1
from penstock._src.models.distribute.replica import ReplicaContext
from penstock._src.models.distribute.strategy import Strategy, StrategyV1
from penstock._src.models.distribute.values import local_values, select_replica
from penstock._src.ops.core import identity


class OneDeviceExtended(StrategyExtendedV1):
    """The implementation of OneDeviceStrategy."""

    def __init__(self, container_strategy: Any, device: Any):
        super().__init__(container_strategy)
        self._device = canonical(device)

    worker_devices = property(lambda self: (self._device,), doc="The device.")
    parameter_devices = property(lambda self: (self._device,), doc="The device.")

    def _create_variable(self, next_creator: Any, **kwargs: Any) -> Any:
        beside = kwargs.pop("colocate_with", None)
        with init_scope(), _near(beside, self._device):
            made = next_creator(**kwargs)
        made._distribute_strategy = self._container_strategy()
        return made

    def _validate_colocate_with_variable(self, colocate_with_variable: Any) -> None:
        """Accepts any variable: all of them are on one device."""

    def _call_for_each_replica(self, fn: Any, args: Any, kwargs: Any) -> Any:
        with device(self._device), ReplicaContext(self._container_strategy(), 0):
            return fn(*select_replica(0, tuple(args)), **select_replica(0, dict(kwargs)))

    def _reduce_to(self, reduce_op: Any, value: Any, destinations: Any) -> Any:
        return local_values(value)[0]

    def _reduce(self, reduce_op: Any, value: Any) -> Any:
        return local_values(value)[0]

    def _broadcast_to(self, tensor: Any, destinations: Any) -> Any:
        return copy_to(tensor, devices_of(destinations)[0])

    def _update(self, var: Any, fn: Any, args: tuple, kwargs: dict, group: bool) -> Any:
        return self._update_non_slot(var, fn, (var, *args), kwargs, group)

    def _update_non_slot(self, colocate_with: Any, fn: Any, args: tuple, kwargs: dict, group: bool) -> Any:
        return super()._update_non_slot(self._device, fn, args, kwargs, group)

    def read_var(self, v: Any) -> Any:
        """The value of a variable."""
        return identity(v)


def _near(variable: Any, otherwise: str) -> Any:
    """Beside a variable, or on a device."""
    if variable is None:
        return device(otherwise)
    return colocate_with(variable) if getattr(variable, "_in_graph_mode", True) else device(variable.device)


@export(v2=["distribute.OneDeviceStrategy"])
class OneDeviceStrategy(Strategy):
    """One replica, on one device.

    Args:
        device: The device, such as `"/gpu:0"`.

    >>> strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    >>> print(strategy.run(lambda: tf.constant(2.0) * 3.0).numpy())
    6.0
    """

    def __init__(self, device: Any):
        super().__init__(OneDeviceExtended(self, device))


@export(v1=["distribute.OneDeviceStrategy"])
class OneDeviceStrategyV1(StrategyV1):
    """One replica, on one device (v1 form)."""

    def __init__(self, device: Any):
        super().__init__(OneDeviceExtended(self, device))


