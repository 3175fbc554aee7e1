"""Collective algorithms (collective/algorithms.py) under any interleaving of messages, and when a member dies.

Invariants: every member ends with the same sum, whatever the order; all messages are received; if a member dies, no other one
ends with a wrong result: it has the right one, or waits until its time limit.
"""
from __future__ import annotations

import collections
from typing import Any

import torch

from penstock._src.collective.algorithms import ALGORITHMS, Send, broadcast
from penstock._src.collective.channel import fitting
from penstock._src.collective.merge import merge_op
from penstock._src.simulate.chaos.choices import Choices, check

_ADD = merge_op("Add", torch.int64)


def world(choices: Choices) -> None:
    """One schedule: the members of a group take turns by choice, a move each."""
    kinds = [*ALGORITHMS, "broadcast"]
    kind, size, length = kinds[choices.choose(len(kinds))], 2 + choices.choose(5), choices.choose(9)
    data = [torch.arange(length) * 10 + 10 ** (r % 4) for r in range(size)]
    root = choices.choose(size) if kind == "broadcast" else 0
    wanted = data[root].clone() if kind == "broadcast" else sum(data)
    moves: dict[int, Any] = {r: broadcast(r, size, data[r], root) if kind == "broadcast" else
                             ALGORITHMS[kind](r, size, data[r], _ADD) for r in range(size)}
    dies = choices.choose(size + 1) - 1 if choices.happens(4) else -1
    left = _run(choices, moves, dies, choices.choose(8))
    for r in range(size):
        if r not in left and r != dies:
            check(torch.equal(data[r], wanted), f"{kind}: member {r} of {size} has a wrong result")
    check(dies >= 0 or not left, f"{kind}: members {left} wait for messages that do not come")


def _run(choices: Choices, moves: dict[int, Any], dies: int, after: int) -> list[int]:
    """Runs members until all have ended, or wait; returns those that wait. `dies` makes no move after so many."""
    boxes: dict[tuple[int, int], collections.deque] = collections.defaultdict(collections.deque)
    given: dict[int, Any] = dict.fromkeys(moves)
    wants: dict[int, Any] = {}
    while True:
        ready = [r for r in moves if r not in wants or boxes[wants[r].source, r]]
        if not ready:
            break
        r = ready[choices.choose(len(ready))]
        if r == dies and not after:
            del moves[r]
            wants.pop(r, None)
            continue
        after -= r == dies
        if r in wants:
            want = wants.pop(r)
            given[r] = fitting(boxes[want.source, r].popleft(), want)
        try:
            move = moves[r].send(given[r])
        except StopIteration:
            del moves[r]
            continue
        given[r] = None
        if isinstance(move, Send):
            boxes[r, move.to].append(move.data.clone())
        else:
            wants[r] = move
    check(bool(moves) or dies >= 0 or not any(boxes.values()), "a message was not received")
    return list(moves)
