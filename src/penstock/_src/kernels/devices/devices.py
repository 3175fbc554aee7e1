"""The devices of this process, as a configuration shows them: numbers, visibility, virtual devices, memory limits.

`DeviceSet` is what the placers, the compiler and the executor look devices up in.
"""
from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import torch

from penstock._src.base import errors
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


def local_devices(config: Any = None, task: str = PREFIX) -> list[Device]:
    """The logical devices that a ConfigProto requests; one CPU and all GPUs without one. `task` is what they belong to."""
    counts = dict(config.device_count) if config is not None else {}
    cpus = counts.get("CPU", 1) or 1
    out: list[Device] = [_device(Cpu, i, 0, Cpu.memory(0), task) for i in range(cpus)]
    return out + _gpus(config, counts.get("GPU"), task)


def _gpus(config: Any, count: int | None, task: str) -> list[Device]:
    there = Cuda.count() if count != 0 else 0
    if not there:
        return []
    options = config.gpu_options if config is not None else None
    visible = _visible(options.visible_device_list if options is not None else "", there)
    if count is not None:
        visible = visible[:count]
    limits = [list(v.memory_limit_mb) for v in options.experimental.virtual_devices] if options is not None else []
    fraction = options.per_process_gpu_memory_fraction if options is not None else 0.0
    out: list[Device] = []
    for position, physical in enumerate(visible):
        whole = Cuda.memory(physical)
        if fraction:
            whole = int(whole * fraction)
            torch.cuda.set_per_process_memory_fraction(min(1.0, fraction), physical)
        parts = limits[position] if position < len(limits) and limits[position] else [0]
        for megabytes in parts:
            memory = int(megabytes * (1 << 20)) or whole
            out.append(_device(Cuda, len(out), physical, memory, task))
    return out


def _visible(text: str, there: int) -> list[int]:
    """The physical GPUs that visible_device_list ("1,0") names."""
    if not text:
        return list(range(there))
    out = []
    for word in text.split(","):
        try:
            number = int(word)
        except ValueError:
            raise errors.invalid(f"Could not parse entry in 'visible_device_list': '{word}'. "
                                 f"visible_device_list = {text}") from None
        if not 0 <= number < there:
            raise errors.invalid(f"'visible_device_list' listed an invalid GPU id '{number}' but visible device count is "
                                 f"{there}")
        if number in out:
            raise errors.invalid(f"visible_device_list contained a duplicate entry: {text}")
        out.append(number)
    return out


__all__ = ["KINDS", "PREFIX", "Device", "DeviceSet", "local_devices"]
