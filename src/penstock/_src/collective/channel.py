"""Moving messages between the members of a group, and counting them.

`Channel` is all that algorithms need: send to a member without waiting, receive the next message of a member. Here is the one
for threads of a process, over queues; that of the members of tasks is in `group.py`.
"""
from __future__ import annotations

import dataclasses
import queue
from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.collective.algorithms import ANY, Moves, Recv, Send


@dataclasses.dataclass
class Counts:
    """What one member has sent and received."""
    messages: int = 0
    elements: int = 0
    bytes: int = 0
    received_messages: int = 0
    received_elements: int = 0
    received_bytes: int = 0

    def sent(self, data: torch.Tensor) -> None:
        """A message has been sent."""
        self.messages += 1
        self.elements += data.numel()
        self.bytes += data.nbytes

    def received(self, data: torch.Tensor) -> None:
        """A message has come."""
        self.received_messages += 1
        self.received_elements += data.numel()
        self.received_bytes += data.nbytes

    def add(self, other: Counts) -> None:
        """Takes in what another one has counted."""
        if other.messages:
            self.messages += other.messages
            self.elements += other.elements
            self.bytes += other.bytes
        if other.received_messages:
            self.received_messages += other.received_messages
            self.received_elements += other.received_elements
            self.received_bytes += other.received_bytes


class Channel:
    """One member's way to the others."""

    rank: int
    size: int
    counts: Counts

    def send(self, to: int, data: torch.Tensor) -> None:
        """Sends data, which may change as soon as this returns. Does not wait for the receiver."""
        raise NotImplementedError

    def recv(self, source: int) -> torch.Tensor:
        """The next message of a member."""
        raise NotImplementedError


def drive(moves: Moves, channel: Channel) -> Any:
    """Runs an algorithm to its end, waiting where it receives; returns what it returns.

    >>> drive(ring(channel.rank, channel.size, data, merge_op("Add", data.dtype)), channel)
    """
    given: Any = None
    try:
        while True:
            move = moves.send(given)
            given = None
            if isinstance(move, Send):
                channel.send(move.to, move.data)
                channel.counts.sent(move.data)
            else:
                given = fitting(channel.recv(move.source), move)
                channel.counts.received(given)
    except StopIteration as end:
        return end.value


def fitting(data: torch.Tensor, wanted: Recv) -> torch.Tensor:
    """Data that has come; InvalidArgumentError if it has not the size that was wanted."""
    if wanted.size not in (ANY, data.numel()):
        raise errors.invalid(f"Member {wanted.source} has sent {data.numel()} elements, and {wanted.size} were expected.")
    return data


class Queues(Channel):
    """Members that are threads of this process.

    >>> channels = Queues.group(4)          # one for each thread
    """

    def __init__(self, rank: int, boxes: list[list[queue.SimpleQueue]], timeout: float):
        self.rank, self.size, self.counts = rank, len(boxes), Counts()
        self._boxes, self._timeout = boxes, timeout

    @classmethod
    def group(cls, size: int, timeout: float = 60.0) -> list[Queues]:
        """The channels of a group's members."""
        boxes: list[list[queue.SimpleQueue]] = [[queue.SimpleQueue() for _ in range(size)] for _ in range(size)]
        return [cls(rank, boxes, timeout) for rank in range(size)]

    def send(self, to: int, data: torch.Tensor) -> None:
        """Leaves a copy for the other thread."""
        self._boxes[to][self.rank].put(data.clone())

    def recv(self, source: int) -> torch.Tensor:
        """The next message; DeadlineExceededError if there is none for too long."""
        try:
            return self._boxes[self.rank][source].get(timeout=self._timeout)
        except queue.Empty:
            raise errors.DeadlineExceededError(
                None, None, f"Member {source} has sent nothing to member {self.rank} for {self._timeout:g} seconds.") from None
