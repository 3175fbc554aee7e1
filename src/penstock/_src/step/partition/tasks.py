"""The first cut: one graph per task. The task cuts its own again, per device, when it compiles it.

For this cut a task has one device, its host: there everything arrives that other tasks send. Ops keep the device that they were
placed on, as their name of it. Constants are part of the graph of every task that uses them, and never sent.
"""
from __future__ import annotations

from penstock._src.graph import verify
from penstock._src.graph.node import Operation, Tensor
from penstock._src.kernels.devices.device import Device
from penstock._src.step.ir import StepGraph
from penstock._src.step.partition.schedule import ordered
from penstock._src.step.partition.split import Partition, partition


def by_task(ops: list[Operation], placed: dict[Operation, Device], hosts: dict[str, Device], fetches: list[Tensor],
            feeds: list[Tensor]) -> list[Partition]:
    """The partitions of a step, one per task that has something to do. `hosts` has the host device of each task."""
    step = StepGraph(ops, fetches, [], feeds)
    homes = {node: hosts[placed[op].task] for node, op in zip(step.ops, ops, strict=True)}
    parts = partition(ordered(step.ops, homes, step.fed), homes, step.fetches, step.feeds, copy_constants=True)
    verify.partitioned(parts)
    for part in parts:
        for op in part.positions:
            origin = op.origin
            if origin in placed and origin.opdef is op.opdef and placed[origin].task == part.device.task:
                op.device = placed[origin].name
    return parts
