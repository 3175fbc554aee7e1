"""The devices of this process under a configuration: numbers, visibility, virtual devices, memory limits.

The placers, the compiler and the executor look devices up in a `DeviceSet`.
"""
from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from penstock._src.kernels.devices.cpu import Cpu
from penstock._src.kernels.devices.cuda import Cuda
from penstock._src.kernels.devices.device import PREFIX, Device
from penstock._src.kernels.devices.device_spec import parts_of

KINDS: dict[str, type[Device]] = {kind.device_type: kind for kind in (Cpu, Cuda)}


class DeviceSet:
    """Devices by name, and those that a whole or partial name fits, best first."""

    def __init__(self, devices: Iterable[Device]):
        self.all: tuple[Device, ...] = tuple(devices)
        self.by_name = {d.name: d for d in self.all}
        self.best_first = tuple(sorted(self.all, key=lambda d: -d.priority))
        self.host = next(d for d in self.all if d.host)            # where feeds and results are
        self.types = tuple(dict.fromkeys(d.device_type for d in self.best_first))
        self.mixed = any(not d.host for d in self.all)             # values may be in memory other than the host's
        self._fitting: dict[tuple, tuple[Device, ...]] = {}

    @property
    def names(self) -> str:
        """The names, for messages."""
        return ", ".join(d.name for d in self.all)

    def fitting(self, parts: tuple) -> tuple[Device, ...]:
        """The devices that the parts of a name fit, best first."""
        found = self._fitting.get(parts)
        if found is None:
            found = self._fitting[parts] = tuple(
                d for d in self.best_first
                if all(w is None or w == h for w, h in zip(parts, parts_of(d.name), strict=True)))
        return found

    def find(self, name: str) -> Device | None:
        """The best device that a whole or partial name fits."""
        return next(iter(self.fitting(parts_of(name))), None)

    def __len__(self) -> int:
        return len(self.all)


@functools.lru_cache(maxsize=1024)
def _device(kind: type[Device], index: int, physical: int, memory: int, task: str) -> Device:
    """One object per device of the process: its incarnation does not change."""
    return kind(index, physical, memory, task)


def register(kind: type[Device]) -> None:
    """Registers a kind of device: sessions and eager execution have the devices that its `configured` lists."""
    KINDS[kind.device_type] = kind


def local_devices(config: Any = None, task: str = PREFIX) -> list[Device]:
    """The logical devices that a ConfigProto requests; one CPU and all others without one. `task` is what they belong to."""
    counts = dict(config.device_count) if config is not None else {}
    return [_device(kind, i, physical, memory, task)  # type: ignore[arg-type]
            for name, kind in KINDS.items()
            for i, (physical, memory) in enumerate(kind.configured(config, counts.get(name)))]


__all__ = ["KINDS", "PREFIX", "Device", "DeviceSet", "local_devices", "register"]
