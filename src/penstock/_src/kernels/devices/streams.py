"""Logical GPUs that share a physical one: each has a CUDA stream, so that their kernels may run at the same time.

A program over several logical GPUs *forks*: the first of them stays on the stream that the caller is on, each of the others
begins its own stream there. At the end the streams *join*: the caller's waits for the others. From outside (eager
operations, fetches, the next step) a program is on one stream, as every other program is, and captured as a CUDA graph its
streams are branches of the graph. The host waits for none of this.

Between streams a tensor is *sent*: copied on its stream, so that it is not overwritten while others read it, and followed by an
event, for which the receiving stream waits. Its memory returns to the stream that allocated it; the allocator is told which
streams use it, and does not reuse it before they are done (`record_stream`).
"""
from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import torch

from penstock._src.kernels.devices.device import Device


class Parcel:
    """A tensor of one stream for others: a copy, and the event of its completion."""

    __slots__ = ("value", "event")

    def __init__(self, value: torch.Tensor, stream: torch.cuda.Stream):
        self.value = value.clone()
        self.event = stream.record_event()

    def taken(self, stream: torch.cuda.Stream) -> torch.Tensor:
        """The value, for what follows on a stream."""
        near = stream.device == self.value.device
        reader = stream if near else torch.cuda.current_stream(self.value.device)      # on which another GPU fetches it
        reader.wait_event(self.event)
        self.value.record_stream(reader)
        return self.value


@functools.lru_cache(maxsize=1024)
def _stream_of(device: torch.device, index: int, capturing: bool) -> torch.cuda.Stream:
    """The stream of a logical GPU. Graphs are captured on others: what other threads do meanwhile is no part of them."""
    return torch.cuda.Stream(device)


class Streams:
    """The streams of one run of a program. `devices` are its logical GPUs; with `apart=False` all share the caller's."""

    __slots__ = ("all", "branches")

    def __init__(self, devices: Iterable[Device], apart: bool = True):
        self.all: list[torch.cuda.Stream] = []
        self.branches: dict[torch.cuda.Stream, list[torch.cuda.Stream]] = {}      # stream of the caller -> what begins there
        trunks: dict[torch.device, torch.cuda.Stream] = {}
        for d in devices:
            stream = trunks.get(d.torch)
            if stream is None:
                stream = trunks[d.torch] = torch.cuda.current_stream(d.torch)
                self.branches[stream] = []
            elif apart:
                trunk, stream = stream, _stream_of(d.torch, d.index, torch.cuda.is_current_stream_capturing())
                self.branches[trunk].append(stream)
            self.all.append(stream)
        self.fork()

    def fork(self) -> None:
        """Lets all streams wait for the caller's."""
        for trunk, branches in self.branches.items():
            if branches:
                event = trunk.record_event()
                for branch in branches:
                    branch.wait_event(event)

    def join(self) -> None:
        """Returns to the caller's stream, and makes it wait for all others."""
        for trunk in self.branches:
            torch.cuda.set_stream(trunk)
        for trunk, branches in self.branches.items():
            for branch in branches:
                trunk.wait_event(branch.record_event())

    def on(self, number: int) -> None:
        """Makes the stream of this device of the program the current one."""
        torch.cuda.set_stream(self.all[number])

    def sent(self, value: Any, number: int) -> Any:
        """A value of a stream, the current one, for others."""
        return Parcel(value, self.all[number]) if isinstance(value, torch.Tensor) and value.is_cuda else value

    def received(self, parcel: Any, number: int) -> Any:
        """A value that another stream has sent."""
        return parcel.taken(self.all[number]) if type(parcel) is Parcel else parcel

    def share(self, values: Iterable[Any]) -> None:
        """Tells the allocator that tensors which outlive the program are used by all of its streams."""
        for value in values:
            if isinstance(value, torch.Tensor) and value.is_cuda:
                for stream in self.all:
                    if stream.device == value.device:
                        value.record_stream(stream)
