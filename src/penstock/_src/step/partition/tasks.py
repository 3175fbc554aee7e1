"""The first partitioning: one part per task. Each task partitions its part again, per device, when it compiles it.

For this partitioning a task has one device, its host, which receives all values from other tasks. Nodes keep the name of the
device that they were placed on. Constants are copied into the part of every task that uses them, and never sent.
"""
from __future__ import annotations

from penstock._src.graph import verify
from penstock._src.kernels.devices.device import Device
from penstock._src.step.ir import StepGraph
from penstock._src.step.partition.schedule import ordered
from penstock._src.step.partition.split import Partition, partition


def by_task(step: StepGraph, hosts: dict[str, Device]) -> list[Partition]:
    """The partitions of a placed step, one per task that has something to do. `hosts` has the host device of each task."""
    for op in step.ops:
        op.device, op.place = op.place.name, hosts[op.place.task]
    step.ops = ordered(step.ops, step.fed)
    parts = partition(step, for_tasks=True)
    verify.partitioned(parts)
    return parts
