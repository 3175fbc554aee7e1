"""A step for the simulator: placed and partitioned by the real code, with kernels replaced by their costs.

`compile_step` follows cluster/cluster_engine.py: prune, place over the devices of all tasks, partition by task. The ops of a
part then become a short list of instructions, because a task runs them in order: run for so many seconds, wait for a value,
send values, call a kernel. Only kernels that determine the control flow are called (`control.py`): queues, accumulators,
tokens, and their small operands. Values of all others have a shape and no content.

Small values that the real exchange sends together are one message here, by the same rule (`task_engine.joined`).
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from penstock._src.cluster.exchange import HOLD
from penstock._src.cluster.step_state import StepPlan
from penstock._src.cluster.task_engine import joined
from penstock._src.graph import verify
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.prune import needed
from penstock._src.kernels.devices.cpu import Cpu
from penstock._src.kernels.devices.device import Device
from penstock._src.kernels.devices.devices import DeviceSet
from penstock._src.ops import rules
from penstock._src.simulate.control import Control, controls
from penstock._src.simulate.machines import Machine
from penstock._src.step.ir import Node, StepGraph, Value
from penstock._src.step.partition.split import Partition
from penstock._src.step.partition.tasks import by_task
from penstock._src.step.place.costs import CostModel, touched
from penstock._src.step.place.placer import Placer

MASTER = ""                         # as a task: the one that the step belongs to


class Buffer(NamedTuple):
    """The memory of a large value. One that has come from another task, or goes to it, is `shared` with it, and of this step's
    master; others are of the task."""
    name: str
    size: int
    shared: bool = False


class Run(NamedTuple):
    """A core works, and on one machine it touches buffers."""
    seconds: float
    label: str
    touched: tuple[Buffer, ...] = ()


class Wait(NamedTuple):
    """A value of another task is needed."""
    key: str
    into: Value | None             # what it is to the calls of the part, if they use it


class Send(NamedTuple):
    """Values go to another task, in one message."""
    task: str
    keys: tuple[str, ...]
    size: int
    values: tuple[Value | None, ...]
    touched: tuple[Buffer, ...] = ()                 # on one machine


class Call(NamedTuple):
    """A kernel is called."""
    control: Control


Instruction = Run | Wait | Send | Call


class PartCode:
    """The part of one task in a step. `last` is sent with the message that the part has ended; `light` if the messages that
    start the other parts may wait for the first values that this one sends."""

    __slots__ = ("code", "last", "light", "seconds", "in_bytes", "out_bytes")

    def __init__(self, code: Sequence[Instruction], last: Send | None, light: bool):
        self.code, self.last, self.light = tuple(code), last, light
        self.seconds = sum(i.seconds for i in self.code if type(i) is Run)
        self.out_bytes = sum(i.size for i in (*self.code, last) if type(i) is Send)


class StepCode:
    """A step: a part for each task; the master's own is under MASTER, if it has one."""

    def __init__(self, parts: dict[str, PartCode], fetches: dict[str, list[int]], size: int):
        self.own = parts.get(MASTER)
        self.others = {task: part for task, part in parts.items() if task != MASTER}
        self.plan = StepPlan({task: fetches.get(task, []) for task in self.others},
                             fetches.get(MASTER, []) if self.own is not None else None, size)


class SimulatedDevice(Cpu):
    """A device of a simulated task: its figures are those of the machine file."""

    def __init__(self, task: str, machine: Machine):
        super().__init__(0, 0, 1 << 40, task, incarnation=1)
        self.flops, self.bandwidth, self.launch_time = machine.flops, machine.memory_bandwidth, machine.op_seconds


class Costs(CostModel):
    """Costs of ops: given seconds for some by name; measured or estimated ones for the others. Values from `large` bytes on are
    in memory whose time depends on what else is used there; none are, if it is 0."""

    def __init__(self, given: dict[str, float] | None = None, large: int = 0):
        super().__init__()
        self.given, self.large = given or {}, large

    def compute(self, op: Any, device: Device) -> float:
        """Seconds that an op takes on a device."""
        found = self.given.get(op.name)
        return super().compute(op, device) if found is None else found

    def estimates(self, op: Any) -> bool:
        """Whether the time of an op follows from its arithmetic and its bytes."""
        return op.name not in self.given and not self.times_measured(op) and not (
            op.opdef.control_flow or op.opdef.inert or not op.inputs)

    def is_large(self, t: Any) -> bool:
        """Whether the time for a value depends on what else is used."""
        return bool(self.large) and t.dtype.base_dtype.torch is not None and self.size(t) > self.large


def compile_step(elements: Iterable[Any], feeds: list[Tensor], devices: DeviceSet, own: str, costs: Costs) -> StepCode:
    """The step of the task `own` that fetches tensors and runs operations."""
    elements = list(elements)
    fetched, targets = [e for e in elements if isinstance(e, Tensor)], [e for e in elements if isinstance(e, Operation)]
    step = StepGraph(needed(fetched, targets, {id(t) for t in feeds}), fetched, targets, feeds)
    Placer(devices, soft=True).place(step)
    verify.placed(step.ops)
    hosts = {d.task: d for d in reversed(devices.all)}
    parts = by_task(step, hosts)
    codes, positions = {}, {}
    for part in parts:
        task = MASTER if part.device.task == own else part.device.task
        codes[task] = part_code(part, own, costs, devices, is_own=task == MASTER)
        positions[task] = sorted(i for i, _ in part.fetches)
    return StepCode(codes, positions, len(fetched))


def part_code(part: Partition, own: str, costs: Costs, devices: DeviceSet, is_own: bool) -> PartCode:
    """The instructions of one part."""
    writer = _Writer(own, costs, is_own)
    called = controls(part.ops)
    edges, light = joined(part.ops)
    targets = {id(t.send): t.target.task for t in part.sends}
    for op in part.ops:
        transfer = op.opdef.transfer
        if transfer == "recv":
            writer.wait(op, called.uses(op.outputs[0]))
        elif transfer == "send":
            writer.send(op, targets[id(op)], op.attrs["tensor_name"] in edges, called.uses(op.inputs[0]))
        elif transfer != "arg":
            writer.run(op, devices.by_name.get(op.device) or part.device)
            control = called.call(op)
            if control is not None:
                writer.call(control)
    return writer.end(light)


class _Held(NamedTuple):
    """A value that has to be sent."""
    key: str
    size: int
    value: Value | None
    touched: tuple[Buffer, ...]


class _Writer:
    """The instructions of a part while they are written."""

    def __init__(self, own: str, costs: Costs, is_own: bool):
        self.own, self.costs, self.is_own = own, costs, is_own
        self.code: list[Instruction] = []
        self.seconds, self.longest = 0.0, (0.0, "")
        self.touched: list[Buffer] = []
        self.buffers: dict[int, Buffer] = {}                 # of large values, by their ids
        self.held: dict[str, list[_Held]] = {}

    def run(self, op: Node, device: Device) -> None:
        seconds, large = self.costs.compute(op, device), self._large(op)
        if large:
            seconds = max(seconds - sum(map(self.costs.size, large)) / device.bandwidth, device.launch_time)
            self.touched += dict.fromkeys(map(self._buffer, large))
        self.seconds += seconds
        self.longest = max(self.longest, (seconds, op.name))

    def _large(self, op: Node) -> list[Value]:
        """The large values that an op reads and writes. Outputs that are variables, or inputs that are returned, have the
        buffers of these."""
        forwards = rules.forwards(op)
        for t in op.outputs:
            if self.costs.is_large(t):
                source = op.inputs[0] if op.inputs and (forwards or t.dtype._is_ref_dtype) else t
                self.buffers[id(t)] = self._buffer(source)
        if not self.costs.estimates(op) or forwards:
            return []
        inputs, outputs = touched(op)
        return [t for t in (*inputs, *outputs) if self.costs.is_large(t)]

    def _buffer(self, t: Value) -> Buffer:
        return self.buffers.get(id(t)) or Buffer(f"{t.op.name}:{t.value_index}", self.costs.size(t))

    def _run(self) -> None:
        if self.seconds or self.touched:
            self.code.append(Run(self.seconds, self.longest[1], tuple(self.touched)))
            self.seconds, self.longest, self.touched = 0.0, (0.0, ""), []

    def wait(self, op: Node, used: bool) -> None:
        self._run()
        for task in list(self.held):
            self._flush(task)
        name, t = op.attrs["tensor_name"], op.outputs[0]
        if self.costs.is_large(t):
            self.buffers[id(t)] = Buffer(name, self.costs.size(t), True)
        self.code.append(Wait(name, t if used else None))

    def send(self, op: Node, task: str, joins: bool, used: bool) -> None:
        t = op.inputs[0]
        size = self.costs.size(t)
        task = MASTER if task == self.own else task
        name = op.attrs["tensor_name"]
        buffers = (self._buffer(t), Buffer(name, size, True)) if self.costs.is_large(t) else ()
        self.held.setdefault(task, []).append(_Held(name, size, t if used else None, buffers))
        if not joins or size > HOLD:
            self._run()
            self._flush(task)

    def call(self, control: Control) -> None:
        self._run()
        self.code.append(Call(control))

    def _flush(self, task: str) -> None:
        self.code.append(self._message(task))

    def _message(self, task: str) -> Send:
        held = self.held.pop(task)
        return Send(task, tuple(h.key for h in held), sum(h.size for h in held), tuple(h.value for h in held),
                    tuple(b for h in held for b in h.touched))

    def end(self, light: bool) -> PartCode:
        """Pending values for the master are sent with the message that the part has ended."""
        self._run()
        last = self._message(MASTER) if MASTER in self.held and not self.is_own else None
        for task in list(self.held):
            self._flush(task)
        return PartCode(self.code, last, light)
