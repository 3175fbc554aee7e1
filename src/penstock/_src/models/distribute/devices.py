"""Canonical names of devices for strategies, with missing parts filled in."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock._src.graph import context
from penstock._src.kernels.devices.device_config import list_logical_devices
from penstock._src.kernels.devices.device_spec import DeviceSpecV2


def _text(device: Any) -> str:
    return device.to_string() if hasattr(device, "to_string") else str(device)


def canonical(device: Any, default: str | None = None) -> str:
    """The whole name of a device: task 0 of the local job, and the first CPU, where nothing else is said.

    >>> canonical("/gpu:1")
    '/job:localhost/replica:0/task:0/device:GPU:1'
    """
    given = DeviceSpecV2.from_string(_text(device))
    if default is not None:
        base = DeviceSpecV2.from_string(default)
    else:
        job = "localhost" if context.eager_outside_functions() else None
        base = DeviceSpecV2(job=job, replica=0, task=0, device_type="CPU", device_index=0)
    if given.device_type is not None and given.device_index is None:
        given = given.replace(device_index=0)
    return base.make_merged_spec(given).to_string()


def local_devices(kind: str | None = None) -> tuple[str, ...]:
    """The names of this process's devices of one kind; without a kind, the GPUs, or the CPUs where there is no GPU."""
    if kind is None:
        return local_devices("GPU") or local_devices("CPU")
    return tuple(canonical(d.name) for d in list_logical_devices(kind))


def checked(devices: Iterable) -> tuple[str, ...]:
    """Canonical names; ValueError if the list is empty or has duplicates."""
    for d in devices:
        given = DeviceSpecV2.from_string(_text(d))
        if given.job not in (None, "localhost") and given.task is None:
            raise ValueError(f"The name of a device of another job must have a task, as in /job:worker/task:0: {d!r}")
    names = tuple(canonical(d) for d in devices)
    if not names:
        raise ValueError("Must specify at least one device.")
    if len(set(names)) != len(names):
        raise ValueError(f"`devices` has duplicates: {list(devices)}")
    return names


def same(a: str, b: str) -> bool:
    """Whether two names mean the same device."""
    return canonical(a) == canonical(b)
