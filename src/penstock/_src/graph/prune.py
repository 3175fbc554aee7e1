"""Pruning: the ops that a step needs, from its fetches back to its feeds, in topological order."""
from __future__ import annotations

from collections.abc import Iterable

from penstock._src.base import errors
from penstock._src.graph.node import AnyOp, AnyTensor


def needed(fetched: Iterable[AnyTensor], targets: Iterable[AnyOp], fed: set[int]) -> list[AnyOp]:
    """The ops to run, inputs and control inputs first. A fed tensor cuts the graph there.

    Loops close through NextIteration (`back_edge`), which is not waited for; any other cycle is an error.
    """
    order: list[AnyOp] = []
    entered: set[AnyOp] = set()
    left: set[AnyOp] = set()
    stack: list[tuple[AnyOp, bool]] = []
    roots = [t.op for t in fetched if id(t) not in fed]
    roots += list(targets)
    for root in roots:                      # grows while loops are found
        stack.append((root, False))
        while stack:
            op, leaving = stack.pop()
            if leaving:
                left.add(op)
                order.append(op)
                continue
            if op in entered:
                continue
            entered.add(op)
            stack.append((op, True))
            for source in _sources(op, fed):
                if source.opdef.back_edge:
                    roots.append(source)
                elif source not in entered:
                    stack.append((source, False))
                elif source not in left:
                    raise _cycle([o for o, leaving in stack if leaving], source)
    return order


def _cycle(path: list[AnyOp], source: AnyOp) -> errors.OpError:
    names = [o.name for o in path[path.index(source):]]
    return errors.InvalidArgumentError(
        None, None, f"Graph is invalid, contains a cycle with {len(names)} nodes, including: {', '.join(names[:8])}")


def _sources(op: AnyOp, fed: set[int]) -> list[AnyOp]:
    """The ops that an op waits for, last first. An op with a fed output satisfies control dependencies without running."""
    control = [c for c in reversed(op.control_inputs) if fed.isdisjoint(map(id, c.outputs))]
    return [*control, *(t.op for t in reversed(op.inputs) if id(t) not in fed)]
