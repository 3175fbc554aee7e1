"""The order of a step on several devices, and the assignment of partitions to threads.

GPU kernels run asynchronously: the caller's thread drives the host and all GPUs, and wastes no time if it launches everything
it can before it waits. So ops that wait for a value from a GPU come after those that do not, and ops that wait for a queue come
last. Every further logical CPU has its own thread, so that CPUs run in parallel. A step that needs no second thread is not
partitioned (`joined.py`).
"""
from __future__ import annotations

from collections.abc import Iterable

from penstock._src.base import dtypes
from penstock._src.kernels.devices.device import Device
from penstock._src.step.ir import Node, Value
from penstock._src.step.partition.split import Partition


def ordered(ops: list[Node], fed: set[int]) -> list[Node]:
    """The same ops with waiting ops as late as possible. Inputs stay before their consumers."""
    rank: dict[Node, tuple[int, int]] = {}     # (how many blocking ops, how many waits for a device) are on the way
    sent = (0, 0)                                   # of the sends to other tasks so far: no receive overtakes one
    for op in ops:
        blocks, waits = sent if op.opdef.transfer == "recv" else (0, 0)
        for t in op.inputs:
            if id(t) not in fed and t.op in rank:
                b, w = rank[t.op]
                blocks, waits = max(blocks, b), max(waits, w + _waits(t, t.op.place, op.place))
        for c in op.control_inputs:
            if c in rank:
                blocks, waits = max(blocks, rank[c][0]), max(waits, rank[c][1])
        rank[op] = (blocks + op.opdef.blocking, waits)
        if op.opdef.transfer == "send":
            sent = max(sent, rank[op])
    return sorted(ops, key=rank.__getitem__)


def is_cut(ops: list[Node], host: Device, threads: int = 0) -> bool:
    """Whether a step runs as partitions on several threads. If one thread suffices, it is one program over all devices
    (`joined.py`); so are steps with control flow."""
    driven = {op.place if op.place.host else host for op in ops}
    return len(driven) > 1 and threads != 1 and not any(op.opdef.control_flow for op in ops)


def _waits(t: Value, source: Device, target: Device) -> bool:
    return not source.host and target.host and t.dtype.base_dtype not in (dtypes.int32, dtypes.string)


def lanes(partitions: Iterable[Partition], host: Device, threads: int = 0) -> list[list[Partition]]:
    """Partitions by the thread that runs them, the caller's first; at most `threads` of them, if a number is given."""
    found: dict[Device, list[Partition]] = {}
    for part in partitions:
        found.setdefault(part.device if part.device.host else host, []).append(part)
    out = list(found.values())
    if threads > 0:
        merged = out[:threads]
        for i, more in enumerate(out[threads:]):
            merged[i % threads].extend(more)
        out = merged
    return out
