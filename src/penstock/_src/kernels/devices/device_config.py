"""tf.config, the part about devices: which are visible, how they are split into logical ones, where ops may go, threads.

These are settings of the process. Eager execution uses them, and so does a session that is made without a ConfigProto.
The devices of eager execution are fixed when they are first used (`eager_devices`): they cannot be changed afterwards.
"""
from __future__ import annotations

import collections
import os
from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.base.modes import process
from penstock._src.kernels import sharing
from penstock._src.kernels.devices import cuda
from penstock._src.kernels.devices.devices import KINDS, DeviceSet, local_devices

PhysicalDevice = collections.namedtuple("PhysicalDevice", ["name", "device_type"])
LogicalDevice = collections.namedtuple("LogicalDevice", ["name", "device_type"])
export.value(PhysicalDevice, "config.PhysicalDevice", "config.experimental.PhysicalDevice")
export.value(LogicalDevice, "config.LogicalDevice", "config.experimental.LogicalDevice")


class VirtualDeviceConfiguration(collections.namedtuple("VirtualDeviceConfiguration", ["memory_limit"])):
    """One logical device on a physical one; `memory_limit` in megabytes."""

    __slots__ = ()

    def __new__(cls, memory_limit: int | None = None, experimental_priority: Any = None) -> Any:
        """A configuration; priorities are not used here."""
        return super().__new__(cls, memory_limit)


export.value(VirtualDeviceConfiguration, "config.experimental.VirtualDeviceConfiguration", "config.LogicalDeviceConfiguration")


class _Settings:
    """What was set; None where nothing was."""

    def __init__(self) -> None:
        self.virtual: dict[PhysicalDevice, list] = {}
        self.visible: dict[str, list[PhysicalDevice]] = {}
        self.growth: dict[PhysicalDevice, bool] = {}
        self.soft_placement: bool | None = None
        self.synchronous = True
        self.log_placement = False
        self.inter_op = self.intra_op = 0
        self.devices: DeviceSet | None = None         # of eager execution, once it has begun


settings = _Settings()


def reset() -> None:
    """Resets all settings, and the devices of eager execution, for tests."""
    settings.__init__()  # type: ignore[misc]


def eager_devices() -> DeviceSet:
    """The devices of eager execution."""
    if settings.devices is None:
        settings.devices = DeviceSet(local_devices(process_config()))
    return settings.devices


def process_config() -> Any:
    """The settings as a ConfigProto; None where all are the defaults."""
    s = settings
    if not (s.virtual or s.visible or s.log_placement or s.inter_op or s.intra_op or s.soft_placement is not None):
        return None
    from tensorboard.compat.proto.config_pb2 import ConfigProto
    made = ConfigProto(log_device_placement=s.log_placement, inter_op_parallelism_threads=s.inter_op,
                       intra_op_parallelism_threads=s.intra_op, allow_soft_placement=bool(s.soft_placement))
    for kind in KINDS:
        visible = get_visible_devices(kind)
        made.device_count[kind] = sum(len(s.virtual.get(d, (None,))) for d in visible)
    gpus = get_visible_devices("GPU")
    if gpus:
        made.device_count.pop("GPU")                  # virtual devices are counted by the options below
        made.gpu_options.visible_device_list = ",".join(d.name.rsplit(":", 1)[1] for d in gpus)
        for d in gpus:
            limits = [c.memory_limit or 0 for c in s.virtual.get(d, ())]
            made.gpu_options.experimental.virtual_devices.add(memory_limit_mb=limits)
    return made


def _fixed(what: str) -> None:
    if settings.devices is not None:
        raise RuntimeError(f"{what} cannot be modified after being initialized")


def _known(device: Any) -> Any:
    if device not in list_physical_devices():
        raise ValueError(f"Unrecognized device: {device}")
    return device


# -- devices ----------------------------------------------------------------------------------------------------------
@export("config.list_physical_devices", "config.experimental.list_physical_devices")
def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The CPUs and GPUs of this machine.

    Args:
        device_type: `"CPU"` or `"GPU"`; all by default.

    Returns:
        A list of PhysicalDevice objects.

    >>> tf.config.list_physical_devices("CPU")
    [PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')]
    """
    return [PhysicalDevice(f"/physical_device:{t}:{i}", t) for t, kind in KINDS.items() if device_type in (None, t)
            for i in range(kind.count())]


@export("config.list_logical_devices", "config.experimental.list_logical_devices")
def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """The devices that ops can be put on. From the first call on they do not change.

    Args:
        device_type: `"CPU"` or `"GPU"`; all by default.

    Returns:
        A list of `LogicalDevice`s.

    >>> tf.config.list_logical_devices("CPU")[0].name
    '/device:CPU:0'
    """
    return [LogicalDevice(f"/device:{d.device_type}:{d.index}", d.device_type) for d in eager_devices().all
            if device_type in (None, d.device_type)]


@export("config.experimental_list_devices")
def list_devices() -> list[str]:
    """The full names of the devices."""
    return [d.name for d in eager_devices().all]


@export("config.experimental.get_visible_devices", "config.get_visible_devices")
def get_visible_devices(device_type: str | None = None) -> list:
    """The physical devices that may be used."""
    out = []
    for kind in KINDS:
        out += settings.visible.get(kind, list_physical_devices(kind))
    return [d for d in out if device_type in (None, d.device_type)]


@export("config.experimental.set_visible_devices", "config.set_visible_devices")
def set_visible_devices(devices: Any, device_type: str | None = None) -> None:
    """Hides all other physical devices (of one type).

    Args:
        devices: Physical devices to use.
        device_type: Type of device to which the list refers, by default all.

    Raises:
        RuntimeError: if devices are in use already.

    >>> cpus = tf.config.experimental.list_physical_devices("CPU")
    >>> tf.config.experimental.set_visible_devices(cpus, "CPU")
    >>> tf.config.experimental.get_visible_devices("CPU") == cpus
    True
    """
    wanted = [] if devices is None else list(devices) if isinstance(devices, (list, tuple)) and not isinstance(
        devices, PhysicalDevice) else [devices]
    for d in wanted:
        if _known(d).device_type != (device_type or d.device_type):
            raise ValueError(f"Unrecognized device: {d}")
    types = [device_type] if device_type is not None else list(KINDS)
    visible = {t: [d for d in wanted if d.device_type == t] for t in types}
    if all(get_visible_devices(t) == found for t, found in visible.items()):
        return
    _fixed("Visible devices")
    settings.visible.update(visible)


@export("config.experimental.get_virtual_device_configuration", "config.get_logical_device_configuration")
def get_virtual_device_configuration(device: Any) -> Any:
    """The logical devices that a physical one is split into, or None."""
    return settings.virtual.get(_known(device))


@export("config.experimental.set_virtual_device_configuration", "config.set_logical_device_configuration")
def set_virtual_device_configuration(device: Any, logical_devices: Any) -> None:
    """Splits a physical device into logical ones.

    >>> cpu = tf.config.list_physical_devices("CPU")[0]
    >>> tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    """
    if _known(device).device_type == "CPU" and any(c.memory_limit is not None for c in logical_devices):
        raise ValueError("Setting memory limit on CPU virtual devices is currently not supported")
    if settings.virtual.get(device) == list(logical_devices):
        return
    _fixed("Virtual devices")
    if settings.growth.get(device):
        raise ValueError("Cannot set virtual device memory limits when memory growth is enabled")
    settings.virtual[device] = list(logical_devices)


@export("config.experimental.get_memory_growth")
def get_memory_growth(device: Any) -> bool | None:
    """Whether memory of a GPU grows as needed; None if nothing was set (PyTorch's allocator always does so)."""
    return settings.growth.get(_known(device))


@export("config.experimental.set_memory_growth")
def set_memory_growth(device: Any, enable: bool) -> None:
    """Records the setting; PyTorch's allocator grows as needed in either case.

    Args:
        device: PhysicalDevice.
        enable: Boolean.

    Returns:
        None.

    >>> for gpu in tf.config.experimental.list_physical_devices("GPU"):
    ...     tf.config.experimental.set_memory_growth(gpu, True)
    """
    if _known(device).device_type != "GPU":
        raise ValueError("Cannot set memory growth on non-GPU devices")
    if settings.growth.get(device) == bool(enable):
        return
    _fixed("Physical devices")
    if device in settings.virtual:
        raise ValueError("Cannot set memory growth on device when virtual devices configured")
    settings.growth[device] = bool(enable)


@export("config.experimental.get_device_details")
def get_device_details(device: Any) -> dict[str, Any]:
    """The name and compute capability of a GPU; nothing for other devices."""
    if _known(device).device_type != "GPU":
        return {}
    p = torch.cuda.get_device_properties(int(device.name.rsplit(":", 1)[1]))
    return {"device_name": p.name, "compute_capability": (p.major, p.minor)}


@export("config.experimental.get_memory_info")
def get_memory_info(device: str) -> dict[str, int]:
    """Bytes in use on a GPU now ("current") and at most so far ("peak").

    >>> tf.config.experimental.get_memory_info("GPU:0")["current"]
    """
    found = _gpu(device)
    return {"current": torch.cuda.memory_allocated(found), "peak": torch.cuda.max_memory_allocated(found)}


@export("config.experimental.get_memory_usage")
def get_memory_usage(device: str) -> int:
    """Bytes in use on a GPU now."""
    return get_memory_info(device)["current"]


@export("config.experimental.reset_memory_stats")
def reset_memory_stats(device: str) -> None:
    """Resets the peak of `get_memory_info`."""
    torch.cuda.reset_peak_memory_stats(_gpu(device))


def _gpu(device: str) -> torch.device:
    found = eager_devices().find(device)
    if found is None:
        raise ValueError(f"No matching devices found for '{device}'. The devices are: {eager_devices().names}")
    if found.device_type != "GPU":
        raise ValueError(f"Memory statistics are for GPUs: '{device}' is {found.name}.")
    return found.torch


# -- placement and threads -------------------------------------------------------------------------------------------
@export("config.set_soft_device_placement")
def set_soft_device_placement(enabled: bool) -> None:
    """Lets ops go to another device when they cannot run where they were put."""
    settings.soft_placement = bool(enabled)


_POLICIES = ("silent", "silent_for_int32", "warn", "explicit")


@export("config.experimental.get_device_policy")
def get_device_policy() -> str:
    """The policy for tensors of other devices: "silent", they are copied."""
    return "silent"


@export("config.experimental.set_device_policy")
def set_device_policy(device_policy: str | None) -> None:
    """Sets what happens to tensors of other devices. They are copied in every policy but "explicit", which is not supported."""
    if device_policy not in (None, *_POLICIES):
        raise ValueError(f"Invalid argument `device_policy`: {device_policy!r}. Please refer to {_POLICIES}.")
    if device_policy == "explicit":
        raise errors.UnimplementedError(None, None, "Tensors are always copied to the device where they are needed: there is "
                                                    "no device policy 'explicit'")


@export("config.experimental.get_synchronous_execution")
def get_synchronous_execution() -> bool:
    """Whether eager operations have run when their call returns."""
    return settings.synchronous


@export("config.experimental.set_synchronous_execution")
def set_synchronous_execution(enable: bool | None) -> None:
    """Allows eager operations to run after their call has returned, or not. Those of CPUs never do."""
    settings.synchronous = enable is None or bool(enable)


@export("debugging.get_log_device_placement")
def get_log_device_placement() -> bool:
    """Whether placements are logged."""
    return settings.log_placement


@export("debugging.set_log_device_placement")
def set_log_device_placement(enabled: bool) -> None:
    """Writes the device of each op that is executed to stderr."""
    settings.log_placement = bool(enabled)


@export("config.threading.get_inter_op_parallelism_threads")
def get_inter_op_parallelism_threads() -> int:
    """The number of threads for ops that run side by side; 0: as many as there are devices to drive."""
    return settings.inter_op


@export("config.threading.set_inter_op_parallelism_threads")
def set_inter_op_parallelism_threads(num_threads: int) -> None:
    """Sets the number of threads for ops that run side by side. 1: a step runs on its caller's thread alone."""
    if settings.inter_op == num_threads:
        return
    if settings.devices is not None:
        raise RuntimeError("Inter op parallelism cannot be modified after initialization.")
    settings.inter_op = num_threads


@export("config.threading.get_intra_op_parallelism_threads")
def get_intra_op_parallelism_threads() -> int:
    """The number of threads within one op; 0: the library's choice."""
    return settings.intra_op


@export("config.threading.set_intra_op_parallelism_threads")
def set_intra_op_parallelism_threads(num_threads: int) -> None:
    """Sets the number of threads within one op, for the process."""
    if settings.intra_op == num_threads:
        return
    if settings.devices is not None:
        raise RuntimeError("Intra op parallelism cannot be modified after initialization.")
    settings.intra_op = num_threads
    use_threads(num_threads)


def use_threads(within_an_op: int) -> None:
    """Sets PyTorch's number of threads within one op, if one is given; it is one number for the process."""
    if within_an_op > 0 and torch.get_num_threads() != within_an_op:
        sharing.use_threads(within_an_op)


@export("config.experimental.enable_tensor_float_32_execution")
def enable_tensor_float_32_execution(enabled: bool) -> None:
    """Lets float32 matrix products and convolutions on GPUs round their inputs to TensorFloat-32 (the default), or not."""
    cuda.allow_tf32(enabled)


@export("config.experimental.tensor_float_32_execution_enabled")
def tensor_float_32_execution_enabled() -> bool:
    """Whether TensorFloat-32 may be used on GPUs."""
    return cuda.tf32_allowed()


@export("config.experimental.is_op_determinism_enabled")
def is_op_determinism_enabled() -> bool:
    """Whether `enable_op_determinism` was called."""
    return torch.are_deterministic_algorithms_enabled()


@export("config.experimental.enable_op_determinism")
def enable_op_determinism() -> None:
    """Makes ops deterministic: no kernel that adds in an undefined order, and no random op without a seed. An op without a
    deterministic kernel on a GPU raises an error.

    >>> tf.random.set_seed(1)
    >>> tf.config.experimental.enable_op_determinism()
    """
    process.seeds_required = True
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")     # cuBLAS reads it when its first handle is made
    torch.use_deterministic_algorithms(True)
    setattr(torch.utils.deterministic, "fill_uninitialized_memory", False)      # noqa: B010  a property of the module's class
    torch.backends.cudnn.benchmark = False


@export("config.experimental.disable_op_determinism")
def disable_op_determinism() -> None:
    """Undoes `enable_op_determinism`."""
    process.seeds_required = False
    torch.use_deterministic_algorithms(False)


@export("config.experimental.enable_mlir_bridge")
def enable_mlir_bridge() -> None:
    """Accepted for compatibility and ignored: the MLIR bridge is for TPUs and XLA, which are not supported."""


@export("config.experimental.disable_mlir_bridge")
def disable_mlir_bridge() -> None:
    """Accepted for compatibility and ignored: the MLIR bridge is for TPUs and XLA, which are not supported."""
