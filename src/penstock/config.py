"""tf.config: the devices of the process, and the options of the graph optimizer that sessions start with."""
from __future__ import annotations

import collections
from typing import Any

from penstock.api import export
from penstock.place import devices

PhysicalDevice = collections.namedtuple("PhysicalDevice", ["name", "device_type"])
LogicalDevice = collections.namedtuple("LogicalDevice", ["name", "device_type"])
export.value(PhysicalDevice, "config.PhysicalDevice", "config.experimental.PhysicalDevice")
export.value(LogicalDevice, "config.LogicalDevice", "config.experimental.LogicalDevice")

_optimizer: dict[str, Any] = {}
_SWITCHES = ("layout_optimizer", "constant_folding", "shape_optimization", "remapping", "arithmetic_optimization",
             "dependency_optimization", "loop_optimization", "function_optimization", "debug_stripper",
             "scoped_allocator_optimization", "pin_to_host_optimization", "implementation_selector", "auto_mixed_precision")


@export("config.optimizer.set_experimental_options")
def set_optimizer_experimental_options(options: dict[str, Any]) -> None:
    """Sets options of the graph optimizer for sessions made from now on."""
    unknown = set(options) - {*_SWITCHES, "disable_model_pruning", "disable_meta_optimizer", "min_graph_nodes"}
    if unknown:
        raise ValueError(f"Unknown optimizer options: {', '.join(sorted(unknown))}")
    _optimizer.update(options)


@export("config.optimizer.get_experimental_options")
def get_optimizer_experimental_options() -> dict[str, Any]:
    """The options that were set."""
    return dict(_optimizer)


def session_config(config: Any) -> Any:
    """A session's ConfigProto with the process's optimizer options filled in; `config` itself when none are set."""
    if not _optimizer:
        return config
    from tensorboard.compat.proto.config_pb2 import ConfigProto
    made = ConfigProto()
    if config is not None:
        made.CopyFrom(config)
    rewrite = made.graph_options.rewrite_options
    for name, value in _optimizer.items():
        if name in _SWITCHES:
            value = rewrite.ON if value else rewrite.OFF
        setattr(rewrite, name, value)
    return made


@export("config.list_physical_devices", "config.experimental.list_physical_devices")
def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The CPUs and GPUs of this machine.

    >>> tf.config.list_physical_devices("CPU")
    [PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')]
    """
    return [PhysicalDevice(f"/physical_device:{d.device_type}:{d.index}", d.device_type) for d in devices.local_devices()
            if device_type in (None, d.device_type)]


@export("config.list_logical_devices", "config.experimental.list_logical_devices")
def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """The devices that ops can be put on."""
    return [LogicalDevice(f"/device:{d.device_type}:{d.index}", d.device_type) for d in devices.local_devices()
            if device_type in (None, d.device_type)]
