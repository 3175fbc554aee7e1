"""Device: holds values and runs kernels.

A kind of device is one class in one file (`cpu.py`, `cuda.py`), made known by `register` of `devices.py`. A Device is
*logical*: several may share one physical device, with their own names and memory limits. It

- allocates (`allocate`) and receives values (`put`) from the host or from another device;
- sends values to another device in two parts, so that no thread waits earlier than necessary: `start` begins the transfer on
the source, `finish` ends it on the destination;
- declares which kernels of the registry it runs (`kernel_type`), and its speed.
"""
from __future__ import annotations

import random
from typing import Any

import torch

PREFIX = "/job:localhost/replica:0/task:0"


class Device:
    """One logical device."""

    device_type = ""
    kernel_type = ""                # the `device` of kernels in the registry
    priority = 0                    # ops go to the device of highest priority that can run them
    host = True                     # whether its memory is the host's: values need no copy
    streamed = False                # whether programs assign several of them on one physical device a stream each (`streams`)

    # Rough figures for the cost model (costs.py).
    flops = 2e10                    # operations per second
    bandwidth = 1e10                # bytes per second of its memory
    launch_time = 5e-6              # seconds that an op takes at least

    __slots__ = ("name", "index", "physical", "memory_limit_bytes", "incarnation", "torch")

    def __init__(self, index: int, physical: int = 0, memory_limit: int = 0, prefix: str = PREFIX, incarnation: int = 0):
        self.name = f"{prefix}/device:{self.device_type}:{index}"
        self.index, self.physical, self.memory_limit_bytes = index, physical, memory_limit
        self.incarnation = incarnation or random.SystemRandom().getrandbits(62) | 1     # another one after a restart
        self.torch = self.torch_device(physical)

    # -- the description of a kind of device      ----------------------------------------------------------------------
    @classmethod
    def torch_device(cls, physical: int) -> torch.device:
        """PyTorch's name of a physical device."""
        raise NotImplementedError

    @classmethod
    def count(cls) -> int:
        """How many physical devices of this kind there are."""
        raise NotImplementedError

    @classmethod
    def memory(cls, physical: int) -> int:
        """The bytes of memory of a physical device."""
        raise NotImplementedError

    @classmethod
    def configured(cls, config: Any, count: int | None) -> list[tuple[int, int]]:
        """The logical devices that a ConfigProto (or None) requests, at most `count` of them: for each its physical device and
        its bytes of memory. By default one for each physical device."""
        there = cls.count()
        return [(i, cls.memory(i)) for i in range(there if count is None else min(count, there))]

    def describe(self) -> str:
        """A readable description of the physical device, or an empty string."""
        return ""

    # -- values ------------------------------------------------------------------------------------------------------
    def allocate(self, shape: tuple, dtype: torch.dtype) -> torch.Tensor:
        """An uninitialized tensor."""
        return torch.empty(shape, dtype=dtype, device=self.torch)

    def put(self, value: Any) -> Any:
        """A tensor on this device, copied only if it is elsewhere. Other values are returned unchanged."""
        return value

    def start(self, value: Any, to: Device) -> Any:
        """Starts a transfer to another device; the result is passed to that device's `finish`."""
        return value

    def finish(self, parcel: Any) -> Any:
        """The value that another device's `start` sent."""
        return self.put(parcel)

    @staticmethod
    def streams(devices: list[Device], apart: bool = True) -> Any:
        """Where devices are `streamed`: the streams of a program that starts now (see streams.py)."""
        raise NotImplementedError

    def transfer_time(self, size: int, to: Device) -> float:
        """Seconds to transfer `size` bytes to another device; between threads of the host, only the wake-up time."""
        return 5e-5 if to.host else to.transfer_time(size, self)

    def synchronize(self) -> None:
        """Waits until everything that runs here is done."""

    @property
    def task(self) -> str:
        """The name of the task that has the device: "/job:worker/replica:0/task:1"."""
        return self.name.rsplit("/device:", 1)[0]

    def __repr__(self) -> str:
        return f"<device {self.name}>"
