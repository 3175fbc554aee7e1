"""A step captured and replayed as a CUDA graph.

Launching a kernel costs the host some microseconds; a CUDA graph launches all kernels of a step at once. The step runs once
while CUDA records its kernels instead of running them. From then on a step is one copy per feed, one launch, and one copy per
result.

A capture is valid while the variables keep their addresses. If one has moved (it was restored, or a caller holds its value,
which must not change), the step is captured again. Random ops read their positions in the random streams from a tensor
(`draws.py`), which each run fills. CUDA cannot capture a step that waits for the device.
"""
from __future__ import annotations

import threading
from typing import Any

import torch

from penstock._src.kernels import bridge, draws

alone = threading.RLock()            # captures share a stream, and PyTorch's generator serves nothing else during one


class Moves(Exception):
    """A step moves its variables."""


def is_variable(value: Any) -> bool:
    """Whether a value of a program is a variable, as opposed to a tensor or another resource."""
    return hasattr(value, "shadow")


def places(variables: list[Any]) -> list:
    """Where variables are in memory."""
    return [v.value.data_ptr() if isinstance(v.value, torch.Tensor) else 0 for v in variables]


class Captured:
    """The kernels of one step, with the memory that they read and write."""

    def __init__(self, version: Any, ctx: Any, feeds: tuple, variables: list[Any], device: torch.device):
        self.version, self.variables = version, variables
        self._tensors = [i for i, f in enumerate(feeds) if isinstance(f, torch.Tensor)]
        buffers = {i: _on_device(feeds[i], device) for i in self._tensors}
        self._buffers = list(buffers.values())
        self._draws = draws.Draws()
        self._stretch = torch.zeros(draws.MOST, dtype=torch.int64, device=device)
        given = [buffers.get(i, f) for i, f in enumerate(feeds)]
        versions = [v.value._version for v in variables]
        before = places(variables)
        self._draws.begin(self._stretch)
        self.graph = torch.cuda.CUDAGraph()
        here = torch.cuda.stream(torch.cuda.current_stream(device))      # a capture that fails does not come back to it
        with alone, torch.cuda.device(device), here, torch.cuda.graph(self.graph, capture_error_mode="thread_local"), \
                draws.traced(self._draws):
            self._results = version.run(ctx, *given)
        self._changed = [v for v, old in zip(variables, versions, strict=True) if v.value._version != old]
        self._places = places(variables)
        if before != self._places:
            raise Moves("it moves its variables in memory")

    def holds(self) -> bool:
        """Whether the variables have the same addresses and may be overwritten."""
        return self._places == places(self.variables) and all(map(bridge.exclusive, self._changed))

    def run(self, ctx: Any, *feeds: Any) -> tuple:
        """One step."""
        for buffer, i in zip(self._buffers, self._tensors, strict=True):
            value = feeds[i]
            if value.is_cpu and not value.is_pinned():
                value = value.pin_memory()
            buffer.copy_(value, non_blocking=True)
        if self._draws.taken:
            self._stretch.copy_(self._draws.next().pin_memory(), non_blocking=True)
        self.graph.replay()
        return tuple([r.clone() if isinstance(r, torch.Tensor) and r.is_cuda else r for r in self._results])


def _on_device(value: torch.Tensor, device: torch.device) -> torch.Tensor:
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device).copy_(value)
