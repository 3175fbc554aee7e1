"""Invariants between the stages of a step. A violation is a bug of the stage, which the InternalError names.

Run when a step is compiled, not when it runs.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock._src.base import errors
from penstock._src.graph.node import AnyOp


def _broken(stage: str, what: str) -> errors.OpError:
    return errors.InternalError(None, None, f"After {stage}: {what}. This is a bug of penstock.")


def runnable_order(ops: Iterable[AnyOp], fed: set[int], stage: str) -> None:
    """Every input and control input of an op is fed or comes from an earlier op; loops close through back edges."""
    done: set[AnyOp] = set()
    for op in ops:
        if op in done:
            raise _broken(stage, f"{op.name} occurs twice")
        for t in op.inputs:
            if id(t) not in fed and t.op not in done and not t.op.opdef.back_edge:
                raise _broken(stage, f"{op.name} precedes its input {t.name}")
        done.add(op)


def placed(ops: list[AnyOp], stage: str = "place") -> None:
    """Every node of a step has a device, and references are used on their own device."""
    for op in ops:
        if op.place is None:
            raise _broken(stage, f"{op.name} has no device")
        if op.opdef.has_ref_inputs and not op.opdef.control_flow:
            for t in op.inputs:
                if t.dtype._is_ref_dtype and t.op.place is not None and t.op.opdef.stateful and op.opdef.inputs[0].is_ref \
                        and t is op.inputs[0] and t.op.place is not op.place:
                    raise _broken(stage, f"{op.name} is on {op.place.name}, its variable {t.op.name} elsewhere")


def partitioned(partitions: list[Any], stage: str = "partition") -> None:
    """Partitions are connected only by transfers, each with exactly one send and one receive."""
    sent: dict[str, int] = {}
    received: dict[str, int] = {}
    for part in partitions:
        inside = set(part.positions)
        runnable_order(part.ops, {id(t) for _, t in part.feeds}, stage)
        for op in inside:
            if op.place is not part.device:
                raise _broken(stage, f"{op.name} is in the wrong partition")
            for source in (*(t.op for t in op.inputs), *op.control_inputs):
                if source not in inside:
                    raise _broken(stage, f"{op.name} uses {source.name} of another partition")
        for count, transfers in ((sent, part.sends), (received, part.recvs)):
            for t in transfers:
                count[t.edge] = count.get(t.edge, 0) + 1
    if sent != received or any(n != 1 for n in sent.values()):
        odd = {e for e in {*sent, *received} if sent.get(e) != 1 or received.get(e) != 1}
        raise _broken(stage, f"edges without a send or a receive: {', '.join(sorted(odd))}")
