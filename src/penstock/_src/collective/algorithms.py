"""Collective algorithms without I/O: six kinds of all-reduce, gather and broadcast.

An algorithm is a generator for one process: it yields `Send(to, data)` and `Recv(source, size)`, is given what was received,
and has the result in `data` (one-dimensional) when it ends. It does no input or output, waits for nothing, and knows neither
threads nor sockets: its driver (`channel.py`) does. With m processes and N elements, a process sends:

    all_to_all      N·(m−1) elements in m−1 messages: everything to every process
    master_worker   N in one message; the master, which is process 0, N·(m−1) in m−1, and receives as much
    tree            N to its parent, N to each of its two children
    round_robin     2·N/m·(m−1) in 2·(m−1): part k goes straight to process k, in round r to the one r further on
    butterfly       2·N/m·(m−1) in 2·log₂ m, where m is a power of two: halves, quarters, … and back. Of other numbers, some
                    processes return their data to a neighbour first, and get the result from it: N and N more
    ring            2·N/m·(m−1) in 2·(m−1), all of them to the next process

The transport may read sent data later, so no algorithm writes into data that it has sent before it has received
from the receiver. All processes get the same bits, whatever the rounding: each element is summed in one place, or in one order.
"""
from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import torch

from penstock._src.collective.merge import Merge


class Send(NamedTuple):
    """Data for another process."""
    to: int
    data: torch.Tensor


ANY = -1                            # as the size of what is received: whatever comes


class Recv(NamedTuple):
    """The next `size` elements that a process has sent."""
    source: int
    size: int


Moves = Generator[Send | Recv, torch.Tensor, Any]
Algorithm = Callable[[int, int, torch.Tensor, Merge], Moves]


def all_to_all(rank: int, size: int, data: torch.Tensor, merge: Merge) -> Moves:
    """Every process sends everything to every other, and computes the sum itself."""
    own = data.clone()
    for k in range(1, size):
        yield Send((rank + k) % size, own)
    parts = [own] * size
    for k in range(1, size):
        source = (rank - k) % size
        parts[source] = yield Recv(source, data.numel())
    data.copy_(parts[0])
    for part in parts[1:]:
        merge(data, part)


def master_worker(rank: int, size: int, data: torch.Tensor, merge: Merge) -> Moves:
    """Every process sends to process 0, which adds up and sends the result to all."""
    if rank:
        yield Send(0, data)
        data.copy_((yield Recv(0, data.numel())))
        return
    for source in range(1, size):
        merge(data, (yield Recv(source, data.numel())))
    for to in range(1, size):
        yield Send(to, data)


def tree(rank: int, size: int, data: torch.Tensor, merge: Merge) -> Moves:
    """Up a binary tree to process 0, and down again."""
    children = [c for c in (2 * rank + 1, 2 * rank + 2) if c < size]
    for child in children:
        merge(data, (yield Recv(child, data.numel())))
    if rank:
        parent = (rank - 1) // 2
        yield Send(parent, data)
        data.copy_((yield Recv(parent, data.numel())))
    for child in children:
        yield Send(child, data)


def round_robin(rank: int, size: int, data: torch.Tensor, merge: Merge) -> Moves:
    """Part k of every process's data goes to process k, which adds up and sends the sum to all."""
    parts = data.tensor_split(size)
    mine = parts[rank]
    for k in range(1, size):
        yield from _send((rank + k) % size, parts[(rank + k) % size])
    for k in range(1, size):
        if mine.numel():
            merge(mine, (yield Recv((rank - k) % size, mine.numel())))
    for k in range(1, size):
        yield from _send((rank + k) % size, mine)
    for k in range(1, size):
        yield from _fill((rank - k) % size, parts[(rank - k) % size])


def ring(rank: int, size: int, data: torch.Tensor, merge: Merge) -> Moves:
    """Ring all-reduce: a reduce-scatter (m−1 steps), then an all-gather (m−1 steps)."""
    parts, right, left = data.tensor_split(size), (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        yield from _send(right, parts[(rank - step) % size])
        into = parts[(rank - step - 1) % size]
        if into.numel():
            merge(into, (yield Recv(left, into.numel())))
    for step in range(size - 1):
        yield from _send(right, parts[(rank - step + 1) % size])
        yield from _fill(left, parts[(rank - step) % size])


def butterfly(rank: int, size: int, data: torch.Tensor, merge: Merge) -> Moves:
    """Recursive halving and doubling. Of the first 2·(m − 2ᵏ) processes, every other one has its neighbour work for it."""
    power = 1 << (size.bit_length() - 1)
    extra = size - power
    if rank < 2 * extra and rank % 2:
        yield Send(rank - 1, data)
        data.copy_((yield Recv(rank - 1, data.numel())))
        return
    if rank < 2 * extra:
        merge(data, (yield Recv(rank + 1, data.numel())))
    place = rank // 2 if rank < 2 * extra else rank - extra           # among the 2ᵏ that are left
    at, end, distance = 0, data.numel(), power // 2
    halves: list[tuple[int, int, int]] = []
    while distance:
        other = _butterfly_rank(place ^ distance, extra)
        middle = (at + end) // 2
        keep, give = ((at, middle), (middle, end)) if not place & distance else ((middle, end), (at, middle))
        yield from _send(other, data[give[0]:give[1]])
        if keep[1] > keep[0]:
            merge(data[keep[0]:keep[1]], (yield Recv(other, keep[1] - keep[0])))
        halves.append((other, *give))
        (at, end), distance = keep, distance // 2
    for other, begin, stop in reversed(halves):
        yield from _send(other, data[at:end])
        yield from _fill(other, data[begin:stop])
        at, end = min(at, begin), max(end, stop)
    if rank < 2 * extra:
        yield Send(rank + 1, data)


def _butterfly_rank(place: int, extra: int) -> int:
    return 2 * place if place < extra else place + extra


def _send(to: int, part: torch.Tensor) -> Moves:
    """Nothing is sent of a part that is empty: the receiver knows."""
    if part.numel():
        yield Send(to, part)


def _fill(source: int, part: torch.Tensor) -> Moves:
    if part.numel():
        part.copy_((yield Recv(source, part.numel())))


ALGORITHMS: dict[str, Algorithm] = {
    "all_to_all": all_to_all, "master_worker": master_worker, "tree": tree, "round_robin": round_robin,
    "butterfly": butterfly, "ring": ring}


def gather(rank: int, size: int, data: torch.Tensor) -> Moves:
    """All-gather of data of any sizes: returns them in the order of the processes. Each sends N·(m−1) elements."""
    parts: list[Any] = [data] * size
    for k in range(1, size):
        yield Send((rank + k) % size, data)
    for k in range(1, size):
        source = (rank - k) % size
        parts[source] = yield Recv(source, ANY)
    return parts


def broadcast(rank: int, size: int, data: torch.Tensor, root: int) -> Moves:
    """Broadcasts the root's data down a binomial tree: log₂ m steps; m−1 messages in all."""
    place = (rank - root) % size
    if place:
        data.copy_((yield Recv((place - (1 << (place.bit_length() - 1)) + root) % size, data.numel())))
    yield from pass_on(rank, size, data, root)


def pass_on(rank: int, size: int, data: torch.Tensor, root: int) -> Moves:
    """A broadcast, for a process that has the data: sends it to its children in the tree."""
    place = (rank - root) % size
    step = 1 << place.bit_length()
    while place + step < size:
        yield Send((place + step + root) % size, data)
        step *= 2
