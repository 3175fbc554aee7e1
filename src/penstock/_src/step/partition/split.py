"""The cut: one step per device, with a send and a receive for each tensor that crosses.

A tensor goes to each device once, however many ops there use it. A control edge that crosses becomes an empty tensor. Nodes
keep their names, so that resources are found, and refer to the op of the user's graph that they represent.

All partitions are cut from one order of the whole step, in which a send stands behind its producer and a receive before its
first consumer. An executor that runs the ops of a partition (or of several) in that order cannot deadlock: of
all ops not done yet, the first in the order has all it needs.
"""
from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from penstock._src.base import dtypes, switches
from penstock._src.graph.frames import Frames
from penstock._src.graph.graphdef import nodes_def
from penstock._src.graph.prune import needed
from penstock._src.kernels.devices.device import Device
from penstock._src.ops.registry import OpDef, get
from penstock._src.step.ir import Node, StepGraph, Value, verify
from penstock._src.step.partition.loops import ControlLoops

_ON_HOST = (dtypes.int32, dtypes.string, dtypes.resource, dtypes.variant)      # see step/compile/adapt.py
_VERIFY = switches.VERIFY_PASSES.value()           # tests set it
Position = tuple[int, int]                         # in the order of the step; receives before, sends behind an op


@dataclasses.dataclass
class Transfer:
    """One tensor on its way from one device to another."""
    edge: str
    source: Device
    target: Device
    send: Node
    recv: Node


@dataclasses.dataclass
class Partition:
    """What one device runs in a step."""
    device: Device
    positions: dict[Node, Position] = dataclasses.field(default_factory=dict)
    feeds: list[tuple[int, Value]] = dataclasses.field(default_factory=list)        # (which feed of the step, its value)
    fetches: list[tuple[int, Value]] = dataclasses.field(default_factory=list)      # (which fetch of the step, its value)
    sends: list[Transfer] = dataclasses.field(default_factory=list)
    recvs: list[Transfer] = dataclasses.field(default_factory=list)
    names: set[str] = dataclasses.field(default_factory=set)

    @property
    def ops(self) -> list[Node]:
        """The nodes, in the order of the step."""
        return sorted(self.positions, key=self.positions.__getitem__)

    def as_graph_def(self, add_shapes: bool = False) -> Any:
        """The partition as a GraphDef message, with the functions that its ops call."""
        ops = self.ops
        return nodes_def(ops, ops[-1].graph, add_shapes)


def partition(step: StepGraph, for_tasks: bool = False) -> list[Partition]:
    """The pass: cuts a placed step into partitions, one per device that has something to do, in the order of their first op.

    For tasks (`tasks.py`), nodes keep the names of their devices, and every task that uses a constant gets a copy of it.
    """
    parts = _Cut(step, for_tasks).partitions()
    if _VERIFY:
        for part in parts:
            verify(StepGraph.of(part.ops, [t for _, t in part.fetches], [], []), f"partition ({part.device.name})")
    return parts


class _Cut:
    """One step while it is being cut."""

    def __init__(self, step: StepGraph, for_tasks: bool):
        self.ops, self.fetches, self.for_tasks = step.ops, step.fetches, for_tasks
        ops, used = step.ops, {t.op for op in step.ops for t in op.inputs} if for_tasks else set()
        self.inside = set(ops)
        self.anywhere = {op for op in used if op.opdef.constant and not op.control_inputs}
        self.parts: dict[Device, Partition] = {}
        self.made: dict[Node, Node] = {}                                # node -> its copy in the partition of its device
        self.local: dict[tuple[int, Device], Value] = {}                # (value, device) -> what represents it there
        self.waits: dict[tuple[Node, Device], Node] = {}    # (node, device) -> the receive that signals that it ran
        self.fed = {id(t): i for i, t in enumerate(step.feeds)}
        self.edges = 0
        self.loops = ControlLoops(self, Frames(ops, set(self.fed))) if any(op.opdef.control_flow for op in ops) else None

    def partitions(self) -> list[Partition]:
        for position, op in enumerate(self.ops):
            if op not in self.anywhere:
                self._copy(op, position)
        self._close_loops()
        for i, t in enumerate(self.fetches):
            device = t.op.place if id(t) not in self.fed else next(iter(self.parts))
            self.part(device).fetches.append((i, self._input(t, device, len(self.ops))))
        if self.loops is not None:                   # control loops were added last
            for part in self.parts.values():
                part.positions = {op: (i, 0) for i, op in enumerate(needed((), part.ops, set()))}
        return list(self.parts.values())

    def part(self, device: Device) -> Partition:
        if device not in self.parts:
            self.parts[device] = Partition(device)
        return self.parts[device]

    # -- ops -------------------------------------------------------------------------------------------------------------
    def _copy(self, op: Node, position: int) -> None:
        device = op.place
        part = self.part(device)
        inputs = [self._input(t, device, position) for t in op.inputs if not self._goes_round(t)]
        made = self._add(part, op.opdef, op.name, inputs, op.attrs, (position, 0), [t.dtype for t in op.outputs], op.counts, op)
        if self.for_tasks:
            made.device = op.device
        self.made[op] = made
        for t, new in zip(op.outputs, made.outputs, strict=True):
            new.static_dims = t.static_dims
            self.local.setdefault((id(t), device), new)
        for c in op.control_inputs:
            if c in self.inside and c in self.made:
                self._wait(made, c, device, position)

    def _goes_round(self, t: Value) -> bool:
        """Whether a tensor closes a loop: its op comes later."""
        return t.op.opdef.back_edge and id(t) not in self.fed and t.op not in self.made

    def _close_loops(self) -> None:
        """Adds the inputs that were not available when their ops were made."""
        for op, made in self.made.items():
            if len(made.inputs) < len(op.inputs):
                made.set_inputs([self._input(t, op.place, len(self.ops)) for t in op.inputs])

    def _add(self, part: Partition, opdef: OpDef, name: str, inputs: list[Value], attrs: dict[str, Any], position: Position,
             types: list, counts: tuple = (), like: Node | None = None) -> Node:
        """A node of a partition; `like` is the node of the step that it represents, if any."""
        name = name if name not in part.names else self._name(part, name)
        part.names.add(name)
        graph, origin = (self.ops[0].graph, None) if like is None else (like.graph, like.origin)
        made = Node(opdef, name, attrs, counts, part.device.name, graph, origin, part.device)
        made.inputs = tuple(inputs)
        made.outputs = [Value(made, i, t) for i, t in enumerate(types)]
        part.positions[made] = position
        return made

    def _wait(self, op: Node, source: Node, device: Device, position: int) -> None:
        """Makes `op` run after `source`, which may be on another device."""
        if source.place is device:
            before = self.made[source]
        else:
            key = (source, device)
            if key not in self.waits:
                self.waits[key] = self._signal(source, device, position)
            before = self.waits[key]
        _control(op, before)

    def _signal(self, source: Node, device: Device, position: int) -> Node:
        """Sends an empty tensor when `source` has run."""
        home = source.place
        part = self.part(home)
        behind = part.positions[self.made[source]]
        empty = self._add(part, get("Const"), self._name(part, source.name), [],
                          {"dtype": dtypes.float32, "value": np.zeros([0], np.float32)}, (behind[0], 1), [dtypes.float32])
        empty.outputs[0].static_dims = (0,)
        _control(empty, self.made[source])
        return self._transfer(empty.outputs[0], f"{source.name}^", home, device, position, source).op

    # -- tensors ------------------------------------------------------------------------------------------------------------
    def _input(self, t: Value, device: Device, position: int) -> Value:
        """The tensor that represents `t` on a device."""
        found = self.local.get((id(t), device)) if id(t) not in self.fed else self.local.get((-1 - self.fed[id(t)], device))
        if found is not None:
            return found
        if id(t) in self.fed:
            return self._feed(t, device)
        if t.op in self.anywhere:
            return self._constant(t, device)
        source = self.made[t.op].outputs[t.value_index]
        found = self.local[(id(t), device)] = self._transfer(source, t.name, t.op.place, device, position, t.op)
        return found

    def _feed(self, t: Value, device: Device) -> Value:
        """Passes a feed to each device that uses it, with one copy per memory other than the host's."""
        i = self.fed[id(t)]
        part = self.part(device)
        kind = t.dtype.base_dtype
        name = t.op.name
        arg, = self._add(part, get("_Arg"), self._name(part, name), [], {"T": kind, "index": i}, (-1, 0), [kind]).outputs
        arg.static_dims = t.static_dims
        part.feeds.append((i, arg))
        if not device.host and kind not in _ON_HOST:
            arg, = self._add(part, get("Identity"), self._name(part, name), [arg], {"T": kind}, (-1, 1), [kind]).outputs
            arg.static_dims = t.static_dims
        self.local[(-1 - i, device)] = arg
        return arg

    def _constant(self, t: Value, device: Device) -> Value:
        """A copy of a constant for a device that uses it."""
        op = t.op
        made = self._add(self.part(device), op.opdef, op.name, [], op.attrs, (-1, 0), [t.dtype], op.counts, op)
        if op.place is device:
            made.device = op.device
        found = self.local[(id(t), device)] = made.outputs[0]
        found.static_dims = t.static_dims
        return found

    def _transfer(self, t: Value, edge: str, source: Device, target: Device, position: int, maker: Node) -> Value:
        """A send behind the op of `t`, and a receive before the op at `position`; returns the received tensor. `maker` is the
        op of the step that the tensor comes from: inside of a loop, so is the transfer."""
        here, there = self.part(source), self.part(target)
        self.edges += 1
        kind = t.dtype.base_dtype
        ends: dict[str, Any] = {
            "tensor_name": f"edge_{self.edges}_{edge}", "send_device": source.name, "recv_device": target.name,
            "send_device_incarnation": source.incarnation, "client_terminated": False}
        form = "_Host{}" if kind in _ON_HOST else "_{}"
        behind = here.positions[t.op]
        send = self._add(here, get(form.format("Send")), self._name(here, t.op.name), [t], {"T": kind, **ends},
                         (behind[0], behind[1] + 1), [], (), t.op)
        recv = self._add(there, get(form.format("Recv")), self._name(there, t.op.name), [], {"tensor_type": kind, **ends},
                         (position, -1), [kind], (), t.op)
        recv.outputs[0].static_dims = t.static_dims
        made = Transfer(ends["tensor_name"], source, target, send, recv)
        here.sends.append(made)
        there.recvs.append(made)
        frame = self.loops.frame_of(maker) if self.loops is not None else None
        if frame is not None and self.loops is not None:
            _control(recv, self.loops.trigger(frame, target))
        return recv.outputs[0]

    # -- for control loops -----------------------------------------------------------------------------------------------
    def local_value(self, t: Value, device: Device) -> Value:
        """The representation of a step's tensor on a device."""
        return self._input(t, device, len(self.ops))

    def add_op(self, device: Device, opdef: OpDef, name: str, inputs: list[Value], attrs: dict[str, Any], types: list,
               counts: tuple = ()) -> Node:
        """An op that represents no op of the step."""
        return self._add(self.part(device), opdef, name, inputs, attrs, (len(self.ops), 0), types, counts)

    def _name(self, part: Partition, base: str) -> str:
        n = len(part.positions)
        while f"{base}/_{n}" in part.names:
            n += 1
        return f"{base}/_{n}"


def _control(op: Node, before: Node) -> None:
    """Adds a control dependency."""
    if before not in op.control_inputs:
        op.control_inputs.append(before)
