"""Prune: the ops a step needs, from its fetches back to its feeds, in an order in which they can run."""
from __future__ import annotations

from collections.abc import Iterable

from penstock.graph.node import Operation, Tensor


def needed(fetched: Iterable[Tensor], targets: Iterable[Operation], fed: set[int]) -> list[Operation]:
    """The ops to run, inputs and control inputs first. A fed tensor cuts the graph there.

    Loops make cycles through NextIteration; an op that is being visited is not entered again.
    """
    order: list[Operation] = []
    done: set[Operation] = set()
    stack: list[tuple[Operation, bool]] = []
    roots = [t._op for t in fetched if id(t) not in fed]
    roots += list(targets)
    for root in roots:
        stack.append((root, False))
        while stack:
            op, leaving = stack.pop()
            if leaving:
                order.append(op)
                continue
            if op in done:
                continue
            done.add(op)
            stack.append((op, True))
            for c in reversed(op._control_inputs):
                if c not in done:
                    stack.append((c, False))
            for t in reversed(op._inputs):
                if id(t) not in fed and t._op not in done:
                    stack.append((t._op, False))
    return order
