"""A program on a GPU, replayed as a CUDA graph.

Launching a kernel costs the host some microseconds; a CUDA graph launches all kernels of a step at once. A step whose feeds
have the same shapes as before, for the third time, is captured: its kernels are recorded instead of run. After that a step is
one copy per feed, one launch, and one copy per fetch.

A recording stays right only if the program does nothing but launch kernels on memory that stays where it is. So a
program is captured when

- its state is made of variables on this GPU, which the runs before updated in place;
- no other operation keeps state on the host: random numbers, queues, Python functions (`can_replay`);
- it never waits for a value of the GPU: CUDA refuses to capture that, and the program goes on as it did before.

What is on the host in a program (shapes, sizes, learning rates) comes from shapes and constants alone then, and is the same in
every step. If a variable is somewhere else later (it was restored, say), the recording is dropped and
made anew. The streams of several logical GPUs (`streams.py`) become branches of the graph, which run side by side.
"""
from __future__ import annotations

import logging
import threading
from typing import Any

import torch

from penstock._src.graph.node import Operation, Tensor
from penstock._src.kernels.devices.device import Device
from penstock._src.step.compile.program import Program

_RUNS_BEFORE = 2                    # allocators, cuDNN's search for algorithms and cuBLAS's workspaces settle in these
_FEWEST = 4                         # statements of a program that is worth it
_MOST_RECORDINGS = 8                # of one program: each keeps the memory of a step
_MOST_MOVES = 8                     # runs that find the variables elsewhere, until the program is taken to be the cause

_log = logging.getLogger("penstock")
_one_captures = threading.Lock()    # captures share a stream


def replayed(program: Program, ops: list[Operation], feeds: list[Tensor], placed: dict[Operation, Device]) -> Program:
    """`program`, to be replayed as CUDA graphs if it is one of a GPU and its ops allow that."""
    devices = {placed[op].torch: placed[op] for op in ops if placed[op].torch.type == "cuda"}
    if len(devices) != 1 or len(program.lines) < _FEWEST or not can_replay(ops) or read_on_host(ops, feeds):
        return program
    return Replayed(program, *devices.values())


def can_replay(ops: list[Operation]) -> bool:
    """Whether the ops keep no state but that of variables, as far as their declarations tell."""
    return not any(op.opdef.blocking or op.opdef.control_flow or op.opdef.calls or
                   op.opdef.stateful and not op.opdef.per_session and not _has_handle(op) for op in ops)


def _has_handle(op: Operation) -> bool:
    return any(t.dtype.base_dtype.name == "resource" for t in op._inputs)


def read_on_host(ops: list[Operation], feeds: list[Tensor]) -> bool:
    """Whether a feed is a shape, an axis or text: it may change without changing its own shape."""
    fed = {id(t) for t in feeds}
    for op in ops:
        arguments = [arg for arg, n in zip(op.opdef.inputs, op._counts or (None,) * len(op.opdef.inputs), strict=True)
                     for _ in range(1 if n is None else n)]
        if any(id(t) in fed and (arg.name in op.opdef.host_inputs and t.dtype.is_integer or t.dtype.torch is None)
               for arg, t in zip(arguments, op._inputs, strict=True)):
            return True
    return False


class Recording:
    """The kernels of one step, with the memory that they read and write."""

    def __init__(self, program: Program, ctx: Any, feeds: list, state: list[Any]):
        self.state, self.places = state, _places(state)
        self.feeds = feeds
        self.graph = torch.cuda.CUDAGraph()
        with _one_captures, torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.results = program.run(ctx, *self.feeds)

    def holds(self) -> bool:
        """Whether the variables are still where they were."""
        return self.places == _places(self.state)

    def replay(self, feeds: tuple) -> tuple:
        """Runs the step on other feeds of the same shapes."""
        for buffer, value in zip(self.feeds, feeds, strict=True):
            if value.is_cpu and not value.is_pinned():
                value = value.pin_memory()
            buffer.copy_(value, non_blocking=True)
        self.graph.replay()
        return tuple([r.clone() if isinstance(r, torch.Tensor) and r.is_cuda else r for r in self.results])


def _places(state: list[Any]) -> list[tuple]:
    """Where the variables are in memory."""
    return [(v.value.data_ptr(), v.value.stride()) if isinstance(v.value, torch.Tensor) else (0, ()) for v in state]


class Replayed(Program):
    """A program that runs as CUDA graphs where it can, and as it is where it cannot."""

    def __init__(self, program: Program, device: Device):
        self.program, self.device = program, device
        self.source, self.lines, self.filename, self.scope = program.source, program.lines, program.filename, program.scope
        resources = [c for c in program.scope.values() if hasattr(c, "lock")]
        self._state = [c for c in resources if hasattr(c, "writable")]          # the variables
        self._refused = len(self._state) < len(resources)
        self._recordings: dict[tuple, Recording] = {}
        self._runs: dict[tuple, int] = {}
        self._moves = 0
        self._lock = threading.Lock()

    def run(self, ctx: Any, *feeds: Any) -> tuple:
        """One step."""
        if self._refused:
            return self.program.run(ctx, *feeds)
        key = tuple([f.shape for f in feeds])
        with self._lock:
            recording = self._recordings.get(key)
            if recording is not None:
                if recording.holds():
                    return recording.replay(feeds)
                del self._recordings[key]
                self._runs[key] = 0
            runs = self._runs[key] = self._runs.get(key, 0) + 1
            if runs <= _RUNS_BEFORE:
                return self._watched(ctx, feeds, key)
            return self._record(ctx, feeds, key)

    def _watched(self, ctx: Any, feeds: tuple, key: tuple) -> tuple:
        """A run that may be followed by a capture: only if all state is here, and stays where it is."""
        before = _places(self._state)
        results = self.program.run(ctx, *feeds)
        if not all(isinstance(v.value, torch.Tensor) and v.value.device == self.device.torch for v in self._state):
            self._refuse("some of its variables are elsewhere")
        elif len(self._recordings) >= _MOST_RECORDINGS:
            self._refuse("its feeds have too many shapes")
        elif before != _places(self._state):
            self._runs[key] = 0                     # variables were made, or moved: wait until they settle
            self._moves += 1
            if self._moves > _MOST_MOVES:
                self._refuse("it moves its variables")
        return results

    def _record(self, ctx: Any, feeds: tuple, key: tuple) -> tuple:
        try:
            recording = Recording(self.program, ctx, [f.to(self.device.torch, copy=True) for f in feeds], self._state)
        except Exception as e:
            op = self.program.failing_op(e.__traceback__)
            self._refuse(f"{op.name if op else ''} ({op.type if op else ''}): {str(e).splitlines()[0]}")
            torch.cuda.synchronize(self.device.torch)
            return self.program.run(ctx, *feeds)
        results = recording.replay(feeds)
        if recording.holds():
            self._recordings[key] = recording
        else:
            for v in self._state:
                v.value = v.value.clone()           # out of the memory of the recording, which ends here
            self._refuse("it moves its variables")
        return results

    def _refuse(self, why: str) -> None:
        self._refused = True
        self._recordings.clear()
        _log.debug("This step is not captured as a CUDA graph: %s", why)
