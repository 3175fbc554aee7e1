"""A step on several devices run by one thread: one program, with a copy where a tensor crosses devices.

In place of a send and a receive there is one op, an Identity on the destination device: its kernel copies the value there
(step/compile/adapt.py). Like a transfer, it happens once for each tensor and destination.
"""
from __future__ import annotations

from penstock._src.base import dtypes
from penstock._src.kernels.devices.device import Device
from penstock._src.step.ir import Node, StepGraph, Value
from penstock._src.step.partition.schedule import ordered

_ON_HOST = (dtypes.int32, dtypes.string, dtypes.resource, dtypes.variant)      # see step/compile/adapt.py


def join(step: StepGraph, host: Device) -> None:
    """The pass: adds copies to a placed step. Steps with control flow get none: their kernels move their inputs."""
    if any(op.opdef.control_flow for op in step.ops):
        return
    out: list[Node] = []
    copies: dict[tuple[int, Device], Value] = {}
    for op in ordered(step.ops, step.fed):
        device = op.place
        names = _names(op)
        for i, t in enumerate(op.inputs):
            source = host if id(t) in step.fed else t.op.place
            if _stays(op, names[i], t, source, device):
                continue
            copy = copies.get((id(t), device))
            if copy is None:
                kind = t.dtype.base_dtype
                made = step.make("Identity", [t], {"T": kind}, t.op, [t.static_dims], [kind], [])
                made.place = device
                out.append(made)
                copy = copies[(id(t), device)] = made.outputs[0]
            op.set_input(i, copy)
        out.append(op)
    step.ops = out


def _names(op: Node) -> list[str]:
    """The name of the declared input that each input belongs to."""
    counts = op.counts or (None,) * len(op.opdef.inputs)
    return [arg.name for arg, n in zip(op.opdef.inputs, counts, strict=True) for _ in range(1 if n is None else n)]


def _stays(op: Node, name: str, t: Value, source: Device, target: Device) -> bool:
    """Whether an op can read a tensor without a copy: in the same memory, or as a shape or axis that it reads on the host."""
    return source is target or source.host and target.host or op.opdef.calls or t.dtype.base_dtype in _ON_HOST or \
        source.host and name in op.opdef.host_inputs and t.dtype.is_integer
