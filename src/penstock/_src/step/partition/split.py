"""The cut: one plain graph per device, with a send and a receive for each tensor that crosses.

A tensor goes to each device once, however many ops there use it. A control edge that crosses becomes an empty tensor. Ops
keep their names, so that resources are found, and each knows which op of the user's graph it represents.

All partitions are cut from one order of the whole step, in which a send stands behind its producer and a receive before its
first consumer. An executor that runs the ops of a partition (or of several) in that order cannot deadlock: of
all ops not done yet, the first in the order has all it needs.
"""
from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.graph.frames import Frames
from penstock._src.graph.graph import Graph
from penstock._src.graph.node import Operation, Tensor
from penstock._src.kernels.devices.device import Device
from penstock._src.ops.registry import get
from penstock._src.step.ir import Node, Value
from penstock._src.step.partition.loops import ControlLoops

_ON_HOST = (dtypes.int32, dtypes.string, dtypes.resource, dtypes.variant)      # see step/compile/adapt.py
Position = tuple[int, int]                         # in the order of the step; receives before, sends behind an op


@dataclasses.dataclass
class Transfer:
    """One tensor on its way from one device to another."""
    edge: str
    source: Device
    target: Device
    send: Operation
    recv: Operation


@dataclasses.dataclass
class Partition:
    """What one device runs in a step."""
    device: Device
    graph: Graph
    positions: dict[Operation, Position] = dataclasses.field(default_factory=dict)
    feeds: list[tuple[int, Tensor]] = dataclasses.field(default_factory=list)       # (which feed of the step, its tensor)
    fetches: list[tuple[int, Tensor]] = dataclasses.field(default_factory=list)     # (which fetch of the step, its tensor)
    sends: list[Transfer] = dataclasses.field(default_factory=list)
    recvs: list[Transfer] = dataclasses.field(default_factory=list)

    @property
    def ops(self) -> list[Operation]:
        """The ops, in the order of the step."""
        return sorted(self.positions, key=self.positions.__getitem__)

    def ends(self, kind: str) -> list[Operation]:
        """Its "send" or "recv" ops."""
        return [op for op in self.ops if op.opdef.transfer == kind]


def partition(ops: list[Node], placed: dict[Node, Device], fetches: list[Value],
              feeds: list[Value], copy_constants: bool = False) -> list[Partition]:
    """The partitions of a step, one per device that has something to do, in the order of their first op. Constants are sent, or
    every device that uses one gets a copy."""
    return _Cut(ops, placed, fetches, feeds, copy_constants).partitions()


def received(graph: Graph, device: Device, fetches: list[tuple[int, str]]) -> Partition:
    """A partition from its graph alone, as another task gets it: a GraphDef that was imported. `fetches` are numbers of
    fetches of the step and names of tensors."""
    feeds = [(op.attrs["index"], op.outputs[0]) for op in graph._ops if op.opdef.transfer == "arg"]
    return Partition(device, graph, {op: (i, 0) for i, op in enumerate(graph._ops)}, feeds,
                     [(i, graph.get_tensor_by_name(name)) for i, name in fetches])


class _Cut:
    """One step while it is being cut."""

    def __init__(self, ops: list[Node], placed: dict[Node, Device], fetches: list[Value], feeds: list[Value],
                 copy_constants: bool = False):
        self.ops, self.placed, self.fetches, self.feeds = ops, placed, fetches, feeds
        used = {t.op for op in ops for t in op.inputs} if copy_constants else set()
        self.anywhere = {op for op in used if op.opdef.constant and not op.control_inputs}
        self.parts: dict[Device, Partition] = {}
        self.made: dict[Node, Operation] = {}                           # node -> its op in the graph of a device
        self.local: dict[tuple[int, Device], Tensor] = {}               # (value, device) -> what represents it there
        self.waits: dict[tuple[Node, Device], Operation] = {}           # (node, device) -> the receive that says it has run
        self.fed = {id(t): i for i, t in enumerate(feeds)}
        self.edges = 0
        self.loops = ControlLoops(self, Frames(ops, set(self.fed))) if any(op.opdef.control_flow for op in ops) else None

    def partitions(self) -> list[Partition]:
        for position, op in enumerate(self.ops):
            if op not in self.anywhere:
                self._copy(op, position)
        self._close_loops()
        for i, t in enumerate(self.fetches):
            device = self.placed[t.op] if id(t) not in self.fed else next(iter(self.parts))
            self.part(device).fetches.append((i, self._input(t, device, len(self.ops))))
        for part in self.parts.values():
            part.graph._ops.sort(key=part.positions.__getitem__)        # as GraphDefs, too, they are in order
        return list(self.parts.values())

    def part(self, device: Device) -> Partition:
        if device not in self.parts:
            self.parts[device] = Partition(device, Graph())
        return self.parts[device]

    # -- ops -------------------------------------------------------------------------------------------------------------
    def _copy(self, op: Node, position: int) -> None:
        device = self.placed[op]
        part = self.part(device)
        part.graph._functions = op.graph._functions
        inputs = [self._input(t, device, position) for t in op.inputs if not self._goes_round(t)]
        made = self._add(part, op.opdef, op.name, inputs, op.attrs, (position, 0), [t.dtype for t in op.outputs], op.counts)
        origin = made.origin = op.origin
        made._extra, made.frames, made._control_flow_context = origin._extra, origin.frames, origin._control_flow_context
        self.made[op] = made
        for t, new in zip(op.outputs, made.outputs, strict=True):
            new.static_dims = t.static_dims
            self.local.setdefault((id(t), device), new)
        for c in op.control_inputs:
            if c in self.placed and c in self.made:
                self._wait(made, c, device, position)

    def _goes_round(self, t: Value) -> bool:
        """Whether a tensor closes a loop: its op comes later."""
        return t.op.opdef.back_edge and id(t) not in self.fed and t.op not in self.made

    def _close_loops(self) -> None:
        """Gives the ops whose inputs were not there yet the rest of them."""
        for op, made in self.made.items():
            if len(made.inputs) < len(op.inputs):
                made.set_inputs([self._input(t, self.placed[op], len(self.ops)) for t in op.inputs])

    def _add(self, part: Partition, opdef: Any, name: str, inputs: list[Tensor], attrs: dict[str, Any], position: Position,
             types: list, counts: tuple = ()) -> Operation:
        name = name if name not in part.graph._by_name else self._name(part, name)
        graph = part.graph
        made = graph._by_name[name] = Operation(graph, opdef, name, inputs, attrs, types, counts)
        graph._ops.append(made)
        made.number = graph._next_id = len(graph._ops)
        made.device = part.device.name
        part.positions[made] = position
        return made

    def _wait(self, op: Operation, source: Node, device: Device, position: int) -> None:
        """`op` runs behind `source`, which may be elsewhere."""
        if self.placed[source] is device:
            before = self.made[source]
        else:
            key = (source, device)
            if key not in self.waits:
                self.waits[key] = self._signal(source, device, position)
            before = self.waits[key]
        _control(op, before)

    def _signal(self, source: Node, device: Device, position: int) -> Operation:
        """Sends an empty tensor when `source` has run."""
        home = self.placed[source]
        part = self.part(home)
        behind = part.positions[self.made[source]]
        empty = self._add(part, get("Const"), self._name(part, source.name), [],
                          {"dtype": dtypes.float32, "value": np.zeros([0], np.float32)}, (behind[0], 1), [dtypes.float32])
        empty.outputs[0].static_dims = (0,)
        _control(empty, self.made[source])
        return self._transfer(empty.outputs[0], f"{source.name}^", home, device, position, source).op

    # -- tensors ------------------------------------------------------------------------------------------------------------
    def _input(self, t: Value, device: Device, position: int) -> Tensor:
        """What represents a tensor on a device."""
        found = self.local.get((id(t), device)) if id(t) not in self.fed else self.local.get((-1 - self.fed[id(t)], device))
        if found is not None:
            return found
        if id(t) in self.fed:
            return self._feed(t, device)
        if t.op in self.anywhere:
            return self._constant(t, device)
        source = self.made[t.op].outputs[t.value_index]
        found = self.local[(id(t), device)] = self._transfer(source, t.name, self.placed[t.op], device, position,
                                                                  t.op)
        return found

    def _feed(self, t: Value, device: Device) -> Tensor:
        """A feed comes to each device that uses it; to memory other than the host's it is copied once."""
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

    def _constant(self, t: Value, device: Device) -> Tensor:
        """A copy of a constant for a device that uses it."""
        op = t.op
        made = self._add(self.part(device), op.opdef, op.name, [], op.attrs, (-1, 0), [t.dtype], op.counts)
        made.origin = op.origin
        found = self.local[(id(t), device)] = made.outputs[0]
        found.static_dims = t.static_dims
        return found

    def _transfer(self, t: Tensor, edge: str, source: Device, target: Device, position: int, maker: Node) -> Tensor:
        """A send behind the op of `t`, and a receive before the op at `position`; returns the received tensor. `maker` is the
        op of the step that the tensor comes from: inside of a loop, so is the transfer."""
        here, there = self.part(source), self.part(target)
        self.edges += 1
        kind = t.dtype.base_dtype
        ends = {"tensor_name": f"edge_{self.edges}_{edge}", "send_device": source.name, "recv_device": target.name,
                "send_device_incarnation": source.incarnation, "client_terminated": False}
        form = "_Host{}" if kind in _ON_HOST else "_{}"
        behind = here.positions[t.op]
        send = self._add(here, get(form.format("Send")), self._name(here, t.op.name), [t], {"T": kind, **ends},
                         (behind[0], behind[1] + 1), [])
        recv = self._add(there, get(form.format("Recv")), self._name(there, t.op.name), [], {"tensor_type": kind, **ends},
                         (position, -1), [kind])
        recv.outputs[0].static_dims = t.static_dims
        made = Transfer(ends["tensor_name"], source, target, send, recv)
        here.sends.append(made)
        there.recvs.append(made)
        send.origin = recv.origin = t.op.origin
        frame = self.loops.frame_of(maker) if self.loops is not None else None
        if frame is not None and self.loops is not None:
            _control(recv, self.loops.trigger(frame, target))
        return recv.outputs[0]

    # -- for control loops -----------------------------------------------------------------------------------------------
    def local_tensor(self, t: Value, device: Device) -> Tensor:
        """What represents a tensor of the step on a device."""
        return self._input(t, device, len(self.ops))

    def add_op(self, device: Device, opdef: Any, name: str, inputs: list[Tensor], attrs: dict[str, Any], types: list,
               counts: tuple = ()) -> Operation:
        """An op that represents none of the step."""
        return self._add(self.part(device), opdef, name, inputs, attrs, (len(self.ops), 0), types, counts)

    def _name(self, part: Partition, base: str) -> str:
        n = len(part.graph._ops)
        while f"{base}/_{n}" in part.graph._by_name:
            n += 1
        return f"{base}/_{n}"


def _control(op: Operation, before: Operation) -> None:
    """Adds a control dependency."""
    op._add_control_input(before)
