"""The device of an eager op: the one that a scope requests, else that of its resource, else the best one.

On a machine with one CPU and no GPU, outside of device scopes, this module is skipped (see `execute.py`).
"""
from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.engine import engine
from penstock._src.kernels.devices.device import Device
from penstock._src.kernels.devices.device_config import eager_devices, settings
from penstock._src.kernels.devices.device_spec import parts_of
from penstock._src.kernels.devices.devices import DeviceSet
from penstock._src.ops.registry import OpDef
from penstock._src.step.compile.adapt import loosely

_HOST = (dtypes.int32, dtypes.string)


def needed() -> bool:
    """Whether the device of an op must be determined."""
    return context.state.device is not None or settings.log_placement or eager_devices().mixed


def choose(opdef: OpDef, attrs: dict[str, Any], inputs: list) -> Device:
    """The device for one call of an op."""
    devices = eager_devices()
    asked = context.state.device or ""
    if asked and engine.elsewhere is not None and not devices.fitting((*parts_of(asked)[:3], None, None)):
        asked = ""                                  # of another task, which this call cannot use
    types = opdef.device_types(attrs)
    if not asked:
        handle = next((t for t in inputs if t.dtype is dtypes.resource), None)
        if handle is not None:
            return devices.by_name.get(handle.device, devices.host)
        if inputs and all(t.dtype in _HOST and getattr(t._value, "is_cpu", True) for t in inputs):
            return devices.host                     # arithmetic on shapes stays on the host
    return _fitting(devices, opdef, asked, types, get_soft_device_placement())


@functools.lru_cache(maxsize=4096)
def _fitting(devices: DeviceSet, opdef: OpDef, asked: str, types: tuple[str, ...], soft: bool) -> Device:
    fits = [d for d in devices.fitting(parts_of(asked)) if d.device_type in types or opdef.calls]
    if not fits and soft:
        fits = [d for d in devices.fitting((*parts_of(asked)[:3], None, None)) if d.device_type in types]
    if not fits:
        raise errors.InvalidArgumentError(
            None, None, f"Could not satisfy device specification '{asked}' for op {opdef.name}, which has kernels for "
            f"{', '.join(types) or 'no device'}. All available devices [{devices.names}].")
    return fits[0]


def on_device(bound: Callable, opdef: OpDef, device: Device, inputs: list, counts: tuple, outputs: list) -> Callable:
    """Wraps a kernel so that its inputs are on the right device; the policy determines whether they may be copied."""
    if not opdef.calls:
        _check_policy(opdef, device, inputs)
    if not eager_devices().mixed:
        return bound
    return loosely(bound, opdef, device, [t.dtype for t in inputs], counts, outputs)


def log(opdef: OpDef, device: Device) -> None:
    """The line of set_log_device_placement."""
    sys.stderr.write(f"Executing op {opdef.name} in device {device.name}\n")


def _check_policy(opdef: OpDef, device: Device, inputs: list) -> None:
    policy = context.process.device_policy
    if policy == context.SILENT:
        return
    for i, t in enumerate(inputs):
        if t.device == device.name or t.dtype in (dtypes.resource, dtypes.string):
            continue
        if policy == context.SILENT_FOR_INT32 and t.dtype is dtypes.int32:
            continue
        if policy == context.WARN:
            import logging
            logging.getLogger("penstock").warning("before computing %s input #%d was expected to be on %s but is actually on "
                                                  "%s. It is copied.", opdef.name, i, device.name, t.device)
            continue
        raise errors.InvalidArgumentError(
            None, None, f"Tensors on conflicting devices: cannot compute {opdef.name} as input #{i} was expected to be on "
            f"{device.name} but is actually on {t.device} (operation running on {device.name}). Tensors can be copied "
            "explicitly using .gpu() or .cpu() methods, or transparently copied by using "
            "tf.enable_eager_execution(device_policy=tfe.DEVICE_PLACEMENT_SILENT).")


@export("config.get_soft_device_placement")
def get_soft_device_placement() -> bool:
    """Whether ops run on another device if the requested one has no kernel for them. The default is yes, when executing
    eagerly."""
    if settings.soft_placement is None:
        return context.executing_eagerly()
    return settings.soft_placement
