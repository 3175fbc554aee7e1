"""A step captured and replayed as a CUDA graph.

Launching a kernel costs the host some microseconds; a CUDA graph launches all kernels of a step at once. The step runs once
while CUDA records its kernels instead of running them. From then on a step is one copy per feed, one launch, and one copy per
result.

A capture is valid while the variables keep their addresses. If one has moved (it was restored, or a caller holds its value,
which must not change), the step is captured again. Random ops read their positions in the random streams from a tensor
(`draws.py`), which each run fills.

CUDA cannot capture a step that waits for the device. Where the host reads a number (the length of a loop) or a few of them (a
shape), one graph ends and the next one begins, with the numbers that an earlier run has read. A replay reads them between the
two; if they differ, variables that were changed before get their values back, and another capture or the program runs the step.
Values that the host computes from such numbers are the same in every replay: the run before the capture has copied them.
"""
from __future__ import annotations

import threading
import warnings
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from penstock._src.base.modes import paused_collector
from penstock._src.kernels import bridge, draws
from penstock._src.kernels.devices import cuda

_MOST_READS = 64                     # numbers that the host reads in a captured step
_MOST_AT_ONCE = 64                   # of them that the host reads as one tensor
_MOST_KEPT = 1 << 28                 # bytes of variables that change before the last of them
aten = torch.ops.aten
alone = threading.RLock()            # captures share a stream, and PyTorch's generator serves nothing else during one


class Moves(Exception):
    """A step moves its variables."""


class Stale(Exception):
    """A version of a step does not hold for its inputs: it was made for other numbers that the host reads, or a check has
    failed. It has changed no variable. The numbers that were read, as far as they are known, are its argument."""


def is_variable(value: Any) -> bool:
    """Whether a value of a program is a variable, as opposed to a tensor or another resource."""
    return hasattr(value, "shadow")


def places(variables: list[Any]) -> list:
    """Where variables are in memory."""
    return [v.value.data_ptr() if isinstance(v.value, torch.Tensor) else 0 for v in variables]


class Reads(TorchDispatchMode):
    """Notes the numbers that the host reads from the device."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False                         # what it imports otherwise takes seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is aten._local_scalar_dense.default and args[0].is_cuda:
            self.numbers.append(self.number(args[0]))
            return self.numbers[-1]
        if func is aten._to_copy.default and _comes_to_the_host(args[0], kwargs or {}):
            self.numbers.append(self.number(args[0]))
            return torch.tensor(self.numbers[-1], dtype=(kwargs or {}).get("dtype") or args[0].dtype).reshape(args[0].shape)
        return func(*args, **(kwargs or {}))

    def number(self, value: torch.Tensor) -> Any:
        """What is read."""
        return read(value)


def read(value: torch.Tensor) -> Any:
    """The number in a tensor; a tuple if it is no scalar."""
    return tuple(value.flatten().tolist()) if value.ndim else value.item()


def _comes_to_the_host(value: torch.Tensor, options: dict) -> bool:
    """Whether a copy with these options is how the host reads a shape or an axis."""
    to = options.get("device")
    return value.is_cuda and to is not None and torch.device(to).type == "cpu" and value.numel() <= _MOST_AT_ONCE and \
        not value.is_floating_point() and not value.is_complex()


def on_device(feeds: tuple, device: torch.device) -> tuple:
    """Feeds as a captured step gets them."""
    return tuple([_on_device(f, device) if isinstance(f, torch.Tensor) and f.device != device else f for f in feeds])


class _Cuts(Reads):
    """Ends a graph and begins the next one where the host reads a number, which is one that is known."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        if torch.Tag.nondeterministic_seeded in func.tags and isinstance(result, torch.Tensor) and result.is_cpu:
            raise RuntimeError("the host draws random numbers")          # each replay would have the same
        return result

    def __init__(self, capture: Any, variables: list[Any], known: tuple):
        super().__init__()
        self.capture, self.variables, self.known = capture, variables, known
        self.values: list[torch.Tensor] = []
        self.graphs = [capture.cuda_graph]
        self.early: list[Any] = []           # variables that change before the last number is read
        self._versions = _versions(variables)

    def number(self, value: torch.Tensor) -> Any:
        """The known number, for a value whose graph ends here."""
        now = _versions(self.variables)
        self.early = [v for v, new, old in zip(self.variables, now, self._versions, strict=True) if new != old]
        if any(new[0] != old[0] for new, old in zip(now, self._versions, strict=True)) or \
                sum(v.value.nbytes for v in self.early) > _MOST_KEPT:
            raise RuntimeError("the host reads a number after variables have changed")
        if len(self.values) == len(self.known):
            raise RuntimeError("the host reads more numbers than before")
        if len(self.values) == _MOST_READS or value.is_floating_point() or value.is_complex():
            raise RuntimeError("the host reads what the device computes")
        self.graphs[-1].capture_end()
        self.values.append(value)
        self.capture.cuda_graph = torch.cuda.CUDAGraph()
        self.graphs.append(self.capture.cuda_graph)
        self.graphs[-1].capture_begin(self.graphs[0].pool(), capture_error_mode="thread_local")
        return self.known[len(self.values) - 1]


def _versions(variables: list[Any]) -> list:
    return [(v.value.data_ptr(), v.value._version) for v in variables]


class Captured:
    """The kernels of one step, with the memory that they read and write.

    `numbers` are what the host will read, and `copies` what was copied from the host (`cuda.keeping`). Captures of one step
    that have a `pool` in common share their memory.
    """

    def __init__(self, version: Any, ctx: Any, feeds: tuple, variables: list[Any], device: torch.device, numbers: tuple = (),
                 pool: Any = None, copies: dict | None = None):
        self.version, self.variables, self.numbers, self._copies = version, variables, numbers, dict(copies or {})
        self._tensors = [i for i, f in enumerate(feeds) if isinstance(f, torch.Tensor)]
        buffers = {i: _on_device(feeds[i], device) for i in self._tensors}
        self._buffers = list(buffers.values())
        self._draws = draws.Draws()
        self._stretch = torch.zeros(draws.MOST, dtype=torch.int64, device=device)
        given = [buffers.get(i, f) for i, f in enumerate(feeds)]
        versions = [v.value._version for v in variables]
        before = places(variables)
        self._draws.begin(self._stretch)
        first = torch.cuda.CUDAGraph()
        here = torch.cuda.stream(torch.cuda.current_stream(device))      # a capture that fails does not come back to it
        capture = torch.cuda.graph(first, pool=pool, capture_error_mode="thread_local")
        # the collector may end other captures, which CUDA refuses during one
        with alone, torch.cuda.device(device), here, paused_collector(), capture, draws.traced(self._draws):
            if hasattr(version, "launch"):
                self._results, self._holds = version.launch(ctx, *given)
                self._graphs, self._read, early = [first], [], []
            else:
                with _Cuts(capture, variables, numbers) as cuts, cuda.keeping(self._copies):
                    self._results, self._holds = version.run(ctx, *given), None
                self._graphs, self._read, early = cuts.graphs, cuts.values, cuts.early
        if len(self._read) != len(numbers):
            raise RuntimeError("the host reads fewer numbers than before")
        self.pool = first.pool()
        self._early = [(v, torch.empty_like(v.value)) for v in early]
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
        certain = self._holds is None and not self._read
        if self._draws.taken:
            self._stretch.copy_(self._draws.next(certain).pin_memory(), non_blocking=True)
        self._replay()
        if not certain:
            self._draws.advance()
        return tuple([r.clone() if isinstance(r, torch.Tensor) and r.is_cuda else r for r in self._results])

    def _replay(self) -> None:
        """Runs the kernels; Stale if the host reads other numbers, or a check has failed."""
        for v, kept in self._early:
            kept.copy_(v.value)
        for i, value in enumerate(self._read):
            self._graphs[i].replay()
            found = read(value)
            if found != self.numbers[i]:
                for v, kept in self._early:
                    v.value.copy_(kept)
                raise Stale((*self.numbers[:i], found))
        self._graphs[-1].replay()
        if self._holds is not None and not bool(self._holds):
            raise Stale(())


def after_failure(device: torch.device) -> None:
    """Ends what a failed capture leaves behind: PyTorch's generator believes that it is still captured, and would raise at its
    next draw, until a capture succeeds."""
    with alone, warnings.catch_warnings(), torch.cuda.device(device), torch.cuda.stream(torch.cuda.current_stream(device)):
        warnings.simplefilter("ignore")                                  # the graph is empty
        with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local"):
            pass


def _on_device(value: torch.Tensor, device: torch.device) -> torch.Tensor:
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device).copy_(value)
