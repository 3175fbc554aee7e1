"""NVIDIA GPUs as devices, through torch.cuda.

Kernels are launched on the current stream of their physical device and run asynchronously. Programs over several logical GPUs
of one physical device give each a stream (`streams.py`). Copies do not stop the host: from the host they go through pinned
memory, to the host into pinned memory with an event that the receiver waits for, and between GPUs streams wait for each other.
"""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.base.modes import process
from penstock._src.kernels.devices.device import Device
from penstock._src.kernels.devices.streams import Parcel, Streams

_LARGEST = 1 << 20                  # bytes of a host value that a CUDA graph may hold
_PIN_FROM = 1 << 16                 # smaller copies are staged by the driver at once: pinning would cost more


_local = threading.local()


@contextlib.contextmanager
def keeping(copies: dict | None) -> Iterator[None]:
    """In this block, `copies`, unless it is None, gets what this thread copies from the host, by content. A capture, which
    cannot copy from the host, finds the same values there: they were computed from constants, shapes and numbers that it
    holds for."""
    before = getattr(_local, "copies", None)
    _local.copies = copies
    try:
        yield
    finally:
        _local.copies = before


def _content(value: torch.Tensor) -> tuple:
    return value.dtype, value.shape, value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def allow_tf32(enabled: bool) -> None:
    """Whether float32 matrix products and convolutions may round their inputs to TensorFloat-32 (about three digits)."""
    process.tf32 = enabled
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = enabled


def tf32_allowed() -> bool:
    """Whether TensorFloat-32 may be used."""
    return process.tf32


class _Landing:
    """A copy on its way into pinned host memory."""

    __slots__ = ("buffer", "event")

    def __init__(self, buffer: torch.Tensor, event: torch.cuda.Event):
        self.buffer, self.event = buffer, event

    def arrive(self) -> torch.Tensor:
        """The value; waits for the copy."""
        self.event.synchronize()
        return self.buffer


class Cuda(Device):
    """A logical GPU."""

    device_type = "GPU"
    kernel_type = "gpu"
    priority = 210
    host = False
    streamed = True
    flops, bandwidth, launch_time = 2e13, 1e12, 8e-6

    __slots__ = ()

    @classmethod
    def configured(cls, config: Any, count: int | None) -> list[tuple[int, int]]:
        """The visible GPUs, divided into virtual devices as the options request."""
        there = cls.count() if count != 0 else 0
        if not there:
            return []
        options = config.gpu_options if config is not None else None
        visible = _visible(options.visible_device_list if options is not None else "", there)
        limits = [list(v.memory_limit_mb) for v in options.experimental.virtual_devices] if options is not None else []
        fraction = options.per_process_gpu_memory_fraction if options is not None else 0.0
        out: list[tuple[int, int]] = []
        for position, physical in enumerate(visible if count is None else visible[:count]):
            whole = cls.memory(physical)
            if fraction:
                whole = int(whole * fraction)
                torch.cuda.set_per_process_memory_fraction(min(1.0, fraction), physical)
            parts = limits[position] if position < len(limits) and limits[position] else [0]
            out += [(physical, int(megabytes * (1 << 20)) or whole) for megabytes in parts]
        return out

    def __init__(self, *args: Any, **kw: Any):
        super().__init__(*args, **kw)
        torch.backends.cudnn.benchmark = True       # benchmarks the algorithms of convolutions, as TensorFlow does
        allow_tf32(process.tf32)

    @classmethod
    def torch_device(cls, physical: int) -> torch.device:
        """PyTorch's name."""
        return torch.device("cuda", physical)

    @classmethod
    def count(cls) -> int:
        """How many GPUs the process may see: CUDA_VISIBLE_DEVICES limits them."""
        return torch.cuda.device_count() if torch.cuda.is_available() else 0

    @classmethod
    def memory(cls, physical: int) -> int:
        """The memory of a GPU."""
        return torch.cuda.get_device_properties(physical).total_memory

    def describe(self) -> str:
        """The model, as TensorFlow words it."""
        p = torch.cuda.get_device_properties(self.physical)
        return f"device: {self.physical}, name: {p.name}, compute capability: {p.major}.{p.minor}"

    def put(self, value: Any) -> Any:
        """A value on this GPU; a copy from the host is asynchronous."""
        if not isinstance(value, torch.Tensor) or value.device == self.torch:
            return value
        if value.is_cpu and (copies := getattr(_local, "copies", None)) is not None and value.nbytes <= _LARGEST:
            key = (self.torch, *_content(value))
            if key not in copies:
                copies[key] = self._copied(value)
            return copies[key]
        return self._copied(value)

    def _copied(self, value: torch.Tensor) -> torch.Tensor:
        if value.is_cpu and torch.cuda.is_current_stream_capturing():
            raise errors.FailedPreconditionError(None, None, "A value of the host cannot become part of a CUDA graph.")
        pinned = value.is_cpu and value.is_pinned()
        if value.is_cpu and not pinned and value.nbytes >= _PIN_FROM:
            value = value.pin_memory()              # a private copy, which is not written during the transfer
        return value.to(self.torch, non_blocking=not pinned)

    def start(self, value: Any, to: Device) -> Any:
        """To the host: a copy into pinned memory, and an event. To another logical GPU on this one: a copy, and an event.
        Between physical GPUs the receiver copies."""
        if not isinstance(value, torch.Tensor) or not value.is_cuda:
            return value
        if not to.host:
            return Parcel(value, torch.cuda.current_stream(self.torch)) if to.physical == self.physical else value
        with torch.cuda.device(self.torch):
            buffer = torch.empty_like(value, device="cpu", pin_memory=True)
            buffer.copy_(value, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
        return _Landing(buffer, event)

    def finish(self, parcel: Any) -> Any:
        """The value that another device sent; the stream waits for it, the host does not."""
        return self.put(parcel.taken(torch.cuda.current_stream(self.torch)) if type(parcel) is Parcel else parcel)

    @staticmethod
    def streams(devices: list[Device], apart: bool = True) -> Streams:
        """The streams of a program that starts now."""
        return Streams(devices, apart)

    def transfer_time(self, size: int, to: Device) -> float:
        """To the host over PCIe; to another GPU directly; to another logical one on the same GPU not at all."""
        if to.host:
            return 2e-5 + size / 1.2e10
        return 2e-6 if to.physical == self.physical else 1.5e-5 + size / 5e10

    def synchronize(self) -> None:
        """Waits for the GPU."""
        torch.cuda.synchronize(self.torch)


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
