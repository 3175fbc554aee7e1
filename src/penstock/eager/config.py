"""tf.config, the part about eager execution: visible and virtual devices, soft placement, threads across ops."""
from __future__ import annotations

import collections
from typing import Any

from penstock.api import export
from penstock.config import PhysicalDevice, list_logical_devices, list_physical_devices


class VirtualDeviceConfiguration(collections.namedtuple("VirtualDeviceConfiguration", ["memory_limit"])):
    """One logical device on a physical one; `memory_limit` in megabytes."""

    __slots__ = ()

    def __new__(cls, memory_limit: int | None = None, experimental_priority: Any = None) -> Any:
        """A configuration; priorities are not used here."""
        return super().__new__(cls, memory_limit)


export.value(VirtualDeviceConfiguration, "config.experimental.VirtualDeviceConfiguration", "config.LogicalDeviceConfiguration")


class _State:
    virtual: dict[PhysicalDevice, list] = {}
    visible: dict[str, list[PhysicalDevice]] = {}
    growth: dict[PhysicalDevice, bool] = {}
    soft_placement = True
    log_placement = False
    inter_op = 0


def _of_type(devices: list, device_type: str | None) -> list:
    return [d for d in devices if device_type is None or d.device_type == device_type]


@export("config.experimental_list_devices")
def list_devices() -> list[str]:
    """The full names of the devices."""
    return ["/job:localhost/replica:0/task:0" + d.name for d in list_logical_devices()]


@export("config.experimental.get_visible_devices", "config.get_visible_devices")
def get_visible_devices(device_type: str | None = None) -> list:
    """The physical devices that may be used."""
    out = []
    for t in dict.fromkeys(d.device_type for d in list_physical_devices()):
        out += _State.visible.get(t, list_physical_devices(t))
    return _of_type(out, device_type)


@export("config.experimental.set_visible_devices", "config.set_visible_devices")
def set_visible_devices(devices: Any, device_type: str | None = None) -> None:
    """Hides all other physical devices (of one type)."""
    wanted = [] if devices is None else list(devices) if isinstance(devices, list) else [devices]
    known = list_physical_devices()
    for d in wanted:
        if d not in known:
            raise ValueError(f"Unrecognized device: {d}")
        if device_type is not None and d.device_type != device_type:
            raise ValueError(f"Unrecognized device: {d}")
    for t in [device_type] if device_type is not None else {d.device_type for d in known}:
        _State.visible[t] = [d for d in wanted if d.device_type == t]


@export("config.experimental.get_memory_growth")
def get_memory_growth(device: Any) -> bool:
    """Whether memory of a GPU is taken as needed: it always is here, unless something else was set."""
    return _State.growth.get(device, True)


@export("config.experimental.set_memory_growth")
def set_memory_growth(device: Any, enable: bool) -> None:
    """Notes the wish; PyTorch's allocator takes memory as needed anyway."""
    if device not in list_physical_devices():
        raise ValueError(f"Unrecognized device: {device}")
    if device.device_type != "GPU":
        raise ValueError("Cannot set memory growth on non-GPU devices")
    _State.growth[device] = bool(enable)


@export("config.experimental.get_virtual_device_configuration", "config.get_logical_device_configuration")
def get_virtual_device_configuration(device: Any) -> Any:
    """The logical devices that a physical one is split into, or None."""
    if device not in list_physical_devices():
        raise ValueError(f"Unrecognized device: {device}")
    return _State.virtual.get(device)


@export("config.experimental.set_virtual_device_configuration", "config.set_logical_device_configuration")
def set_virtual_device_configuration(device: Any, logical_devices: Any) -> None:
    """Splits a physical device into logical ones."""
    if device not in list_physical_devices():
        raise ValueError(f"Unrecognized device: {device}")
    if device.device_type == "CPU" and any(c.memory_limit is not None for c in logical_devices):
        raise ValueError("Setting memory limit on CPU virtual devices is currently not supported")
    _State.virtual[device] = list(logical_devices)


@export("config.get_soft_device_placement")
def get_soft_device_placement() -> bool:
    """Whether ops go to another device when they cannot run where they were put."""
    return _State.soft_placement


@export("config.set_soft_device_placement")
def set_soft_device_placement(enabled: bool) -> None:
    """Lets ops go to another device when they cannot run where they were put."""
    _State.soft_placement = bool(enabled)


@export("debugging.get_log_device_placement")
def get_log_device_placement() -> bool:
    """Whether placements are logged."""
    return _State.log_placement


@export("debugging.set_log_device_placement")
def set_log_device_placement(enabled: bool) -> None:
    """Logs placements."""
    _State.log_placement = bool(enabled)


@export("config.threading.get_inter_op_parallelism_threads")
def get_inter_op_parallelism_threads() -> int:
    """The number of threads for ops that run side by side."""
    return _State.inter_op


@export("config.threading.set_inter_op_parallelism_threads")
def set_inter_op_parallelism_threads(num_threads: int) -> None:
    """Sets the number of threads for ops that run side by side."""
    _State.inter_op = num_threads
