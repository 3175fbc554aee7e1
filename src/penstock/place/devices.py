"""The devices of this machine, as a session sees them, and the check that what an op asks for exists."""
from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from typing import Any

import torch

from penstock import errors
from penstock.place.device_spec import DeviceSpecV2

PREFIX = "/job:localhost/replica:0/task:0/device:"


@dataclasses.dataclass(frozen=True)
class Device:
    """One device: its full name, its type, and how much memory it may use."""
    name: str
    device_type: str
    memory_limit_bytes: int
    incarnation: int = 1

    @property
    def index(self) -> int:
        """The number among the devices of its type."""
        return int(self.name.rsplit(":", 1)[1])


def local_devices(config: Any = None) -> list[Device]:
    """CPUs and GPUs of this process; `config.device_count` may ask for other numbers of them."""
    count = dict(config.device_count) if config is not None else {}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cpus = [Device(f"{PREFIX}CPU:{i}", "CPU", memory) for i in range(max(1, count.get("CPU", 1)))]
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    gpus = [Device(f"{PREFIX}GPU:{i}", "GPU", torch.cuda.get_device_properties(i).total_memory)
            for i in range(min(there, count.get("GPU", there)))]
    return cpus + gpus


def check(ops: Iterable[Any], devices: list[Device]) -> None:
    """InvalidArgumentError for the first op whose device is not there, naming the devices that are."""
    known: dict[str, bool] = {}
    for op in ops:
        asked = op._device
        if not asked:
            continue
        fits = known.get(asked)
        if fits is None:
            fits = known[asked] = any(_matches(asked, d) for d in devices)
        if not fits:
            names = ", ".join(d.name for d in devices)
            raise errors.InvalidArgumentError(
                op.node_def, op, f"Cannot assign a device for operation {op.name}: Operation was explicitly assigned to "
                f"{asked} but available devices are [ {names} ]. Make sure the device specification refers to a valid "
                "device, or set allow_soft_placement in the session's ConfigProto.")


def _matches(asked: str, device: Device) -> bool:
    want, have = DeviceSpecV2.from_string(asked), DeviceSpecV2.from_string(device.name)
    return all(getattr(want, f) in (None, getattr(have, f))
               for f in ("job", "replica", "task", "device_type", "device_index"))
