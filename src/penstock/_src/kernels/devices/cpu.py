"""The CPU as a device. Logical CPUs share the host's memory: between them a value is passed by reference."""
from __future__ import annotations

import os
from typing import Any

import torch

from penstock._src.kernels.devices.device import Device

_PIN_FROM = 1 << 20                 # bytes: smaller copies gain nothing


def to_host(value: Any) -> Any:
    """A tensor in host memory, copied only if it is elsewhere; large ones to pinned memory, for fast transfers to a GPU."""
    if not isinstance(value, torch.Tensor) or value.is_cpu:
        return value
    if not value.is_cuda or value.nbytes < _PIN_FROM:
        return value.cpu()
    landing = torch.empty_like(value, device="cpu", pin_memory=True)
    landing.copy_(value, non_blocking=True)
    torch.cuda.current_stream(value.device).synchronize()
    return landing


class Cpu(Device):
    """A logical CPU."""

    device_type = "CPU"
    kernel_type = "cpu"
    priority = 70

    __slots__ = ()

    @classmethod
    def torch_device(cls, physical: int) -> torch.device:
        """PyTorch's name."""
        return torch.device("cpu")

    @classmethod
    def count(cls) -> int:
        """One physical device, with all cores."""
        return 1

    @classmethod
    def memory(cls, physical: int) -> int:
        """The memory of the machine."""
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    @classmethod
    def configured(cls, config: Any, count: int | None) -> list[tuple[int, int]]:
        """As many logical CPUs as are requested, and at least one."""
        return [(0, cls.memory(0))] * (count or 1)

    def put(self, value: Any) -> Any:
        """A value on the host."""
        return to_host(value)

    def finish(self, parcel: Any) -> Any:
        """The value that another device sent; waits for its copy to arrive."""
        return to_host(parcel) if isinstance(parcel, torch.Tensor) or not hasattr(parcel, "arrive") else parcel.arrive()
