"""CentralStorageStrategy: replicas on several devices, and one copy of every variable, on the host."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.models.distribute import creation
from penstock._src.models.distribute.devices import canonical, checked, local_devices
from penstock._src.models.distribute.mirrored import MirroredExtended
from penstock._src.models.distribute.strategy import Strategy, StrategyV1


class CentralStorageExtended(MirroredExtended):
    """The implementation of CentralStorageStrategy: a mirrored strategy with variables on one device."""

    def __init__(self, container_strategy: Any, compute_devices: Any = None, parameter_device: Any = None):
        workers = local_devices() if compute_devices is None else checked(compute_devices)
        if parameter_device is None:                     # with one GPU, there is no benefit in storing them elsewhere
            gpus = [d for d in workers if "GPU" in d]
            parameter_device = gpus[0] if len(gpus) == 1 and len(workers) == 1 else "/device:CPU:0"
        self._parameter_device = canonical(parameter_device)
        super().__init__(container_strategy, workers)

    parameter_devices = property(lambda self: (self._parameter_device,), doc="The device of the variables.")

    def _create_variable(self, next_creator: Any, **kwargs: Any) -> Any:
        kwargs.pop("colocate_with", None)
        _, aggregation = creation.kind_of(kwargs)
        return creation.create_aggregating(self._container_strategy(), next_creator, kwargs, self._parameter_device,
                                           aggregation)

    def non_slot_devices(self, var_list: Any) -> Any:
        """The device of the variables."""
        return (self._parameter_device,)


@export(v2=["distribute.experimental.CentralStorageStrategy"])
class CentralStorageStrategy(Strategy):
    """Replicas on several devices of this machine, and the variables in one place, where all of them are updated together.

    >>> strategy = tf.distribute.experimental.CentralStorageStrategy()
    """

    def __init__(self, compute_devices: Any = None, parameter_device: Any = None):
        super().__init__(CentralStorageExtended(self, compute_devices, parameter_device))


@export(v1=["distribute.experimental.CentralStorageStrategy"])
class CentralStorageStrategyV1(StrategyV1):
    """Replicas on several devices, and the variables in one place (v1 form)."""

    def __init__(self, compute_devices: Any = None, parameter_device: Any = None):
        super().__init__(CentralStorageExtended(self, compute_devices, parameter_device))
