"""Costs of ops and transfers in seconds: measured by earlier steps, or estimated.

An estimate takes the larger of two: the arithmetic of the op (its declaration's `flops`, else one operation per element) at
the speed of the device, and the bytes that it reads and writes at the bandwidth of its memory. Measured times come in
CostGraphDef messages, as in RunMetadata; a time on one device is scaled by speed to estimate the time on others.
"""
from __future__ import annotations

import math
from typing import Any

from penstock._src.kernels.devices.device import Device
from penstock._src.ops import rules

UNKNOWN_DIMENSION = 32              # assumed size of an unknown dimension
_WORD = 8                           # assumed bytes per element that is not a number


class CostModel:
    """Costs on the devices of one session. `factors` has the speed of single devices relative to their kind."""

    def __init__(self, factors: dict[str, float] | None = None):
        self._factors = factors or {}
        self._times: dict[tuple[str, str], float] = {}     # (op name, device name) -> seconds
        self._sizes: dict[tuple[str, int], int] = {}       # (op name, output) -> bytes
        self._devices: dict[str, Device] = {}
        self._counts: dict[str, int] = {}                  # op name -> how often it was measured

    def learn(self, cost_graph: Any, devices: Any) -> None:
        """Adds measured times and sizes from a CostGraphDef. Of several times for one op, the smallest is used."""
        self._devices.update(devices.by_name)
        for node in cost_graph.node:
            self._counts[node.name] = self._counts.get(node.name, 0) + 1
            if node.device in self._devices and node.compute_time > 0:
                key = (node.name, node.device)
                self._times[key] = min(self._times.get(key, math.inf), node.compute_time * 1e-6)
            for i, output in enumerate(node.output_info):
                self._sizes[(node.name, i)] = output.size

    @property
    def measured(self) -> bool:
        """Whether anything was measured yet."""
        return bool(self._times)

    def times_measured(self, op: Any) -> int:
        """How often an op was measured."""
        return self._counts.get(op.name, 0)

    def size(self, t: Any) -> int:
        """Bytes of a tensor."""
        found = self._sizes.get((t.op.name, t.value_index))
        if found is not None:
            return found
        return math.prod(_known(t.static_dims)) * (t.dtype.base_dtype.size or _WORD)

    def gives(self, op: Any) -> bool:
        """Whether an op only returns what is there already: a constant, a variable, the value of one."""
        opdef = op.opdef
        return not op.inputs and (opdef.constant or opdef.per_session) or bool(op.inputs) and self._work(op) == 0

    def compute(self, op: Any, device: Device) -> float:
        """Seconds that an op takes on a device."""
        opdef = op.opdef
        if opdef.control_flow or opdef.inert or not op.inputs and (opdef.constant or opdef.per_session):
            return 0.0
        found = self._times.get((op.name, device.name))
        if found is not None:
            return found
        estimate = self._estimate(op, device)
        for name, other in self._devices.items():
            found = self._times.get((op.name, name))
            if found is not None:
                return found * estimate / self._estimate(op, other)
        return estimate

    def _estimate(self, op: Any, device: Device) -> float:
        inputs, outputs = touched(op)
        moved = sum(map(self.size, inputs)) + sum(map(self.size, outputs))
        work = self._work(op)
        moved = moved if work else 0                       # ops that compute nothing forward their input
        factor = self._factors.get(device.name, 1.0)
        return (device.launch_time + max(work / device.flops, moved / device.bandwidth)) / factor

    def _work(self, op: Any) -> float:
        if rules.forwards(op):
            return 0
        inputs, written = touched(op)
        outputs = [_known(t.static_dims) for t in (written or inputs)]
        return sum(map(math.prod, outputs)) if op.opdef not in rules.costs.flops else \
            rules.costs.flops[op.opdef]([_known(t.static_dims) for t in op.inputs], outputs)

    def transfer(self, t: Any, source: Device, target: Device) -> float:
        """Seconds that a transfer takes."""
        return 0.0 if source is target else source.transfer_time(self.size(t), target)


def touched(op: Any) -> tuple[list[Any], list[Any]]:
    """The inputs and outputs that an op reads and writes as a whole. One that has indices touches some rows of its table, as
    many as its other input or its output has."""
    if "indices" not in op.opdef.input_names:
        return op.inputs, op.outputs
    return [t for t in op.inputs[1:] if not t.dtype._is_ref_dtype], [t for t in op.outputs if not t.dtype._is_ref_dtype]


def _known(dims: Any) -> tuple[int, ...]:
    """A static shape, with a guess for what is not known of it."""
    return (UNKNOWN_DIMENSION,) if dims is None else tuple([UNKNOWN_DIMENSION if d is None else d for d in dims])


def simulate(ops: list[Any], placed: dict[Any, Device], costs: CostModel) -> float:
    """Seconds that a step would take: each device runs its ops in order, tensors travel meanwhile."""
    free: dict[Device, float] = {}
    done: dict[Any, float] = {}
    for op in ops:
        device = placed[op]
        start = free.get(device, 0.0)
        for t in op.inputs:
            if t.op in done:
                start = max(start, done[t.op] + costs.transfer(t, placed[t.op], device))
        for c in op.control_inputs:
            start = max(start, done.get(c, 0.0))
        done[op] = start + costs.compute(op, device)
        free[device] = done[op]
    return max(done.values(), default=0.0)
