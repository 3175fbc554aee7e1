"""Loops that span devices: each device that receives a value inside a loop runs a control loop.

A receive has no inputs, so its iteration and the number of its runs would be undefined. So a device that receives a value
inside a frame gets its own control loop in that frame:

    start ─► Enter ─► Merge ─► Switch ─► NextIteration ─► (Merge)
                        │        ▲
                        ▼        └─ the loop's condition, received as well
                     receives

Every receive in the frame waits for the Merge, by a control edge: it runs once in each iteration. In the last one the
condition is false, and the senders' values are received as dead. An inner loop starts from the Switch of the enclosing loop.
"""
from __future__ import annotations

import functools
from typing import Any

import numpy as np

from penstock._src.base import dtypes, errors
from penstock._src.graph.frames import Frame, Frames
from penstock._src.kernels.devices.device import Device
from penstock._src.ops.registry import OPS, OpDef
from penstock._src.step.ir import Node, Value


@functools.cache
def _of_kind(kind: str) -> OpDef:
    """The op of control flow of a kind."""
    return next(opdef for opdef in OPS.values() if opdef.control_flow == kind and not opdef.has_refs)


class ControlLoops:
    """The control loops of one step, made when they are first needed. `cut` is the step that is being cut (split.py)."""

    def __init__(self, cut: Any, frames: Frames):
        self.cut, self.frames = cut, frames
        self._merges: dict[tuple[Frame, Device], Node] = {}
        self._switches: dict[tuple[Frame, Device], Node] = {}

    def frame_of(self, op: Node) -> Frame | None:
        """The frame in which the outputs of an op are; None outside of loops."""
        frame = self.frames.below(op)
        return None if frame is None or frame.parent is None else frame

    def trigger(self, frame: Frame, device: Device) -> Node:
        """The op that runs once per iteration of a frame on a device."""
        key = (frame, device)
        if key not in self._merges:
            self._make(frame, device)
        return self._merges[key]

    def _make(self, frame: Frame, device: Device) -> None:
        key = (frame, device)
        enter = self._add(device, "enter", frame, [self._start(frame, device)],
                          frame_name=frame.name, is_constant=False, parallel_iterations=frame.parallel)
        merge = self._merges[key] = self._add(device, "merge", frame, [enter.outputs[0]], N=2, counts=(2,))
        condition = self.cut.local_value(self._condition(frame), device)
        switch = self._switches[key] = self._add(device, "switch", frame, [merge.outputs[0], condition])
        again = self._add(device, "next", frame, [switch.outputs[1]])
        merge.set_inputs((*merge.inputs, again.outputs[0]))

    def _start(self, frame: Frame, device: Device) -> Value:
        outer = frame.parent
        if outer is None or outer.parent is None:
            return self.cut.add_op(device, OPS["Const"], f"{frame.name}/start", [],
                                   {"dtype": dtypes.float32, "value": np.zeros([], np.float32)}, [dtypes.float32]).outputs[0]
        self.trigger(outer, device)
        return self._switches[(outer, device)].outputs[1]

    def _condition(self, frame: Frame) -> Value:
        found = [op for op in frame.ops if op.opdef.control_flow == "loop_cond"]
        if len(found) != 1:
            raise errors.InvalidArgumentError(
                None, None, f"The loop {frame.name} spans devices and has {len(found)} LoopCond ops: it must have exactly one.")
        return found[0].outputs[0]

    def _add(self, device: Device, kind: str, frame: Frame, inputs: list[Value], counts: tuple = (),
             **attrs: Any) -> Node:
        opdef = _of_kind(kind)
        types = [dtypes.float32, dtypes.int32] if kind == "merge" else [dtypes.float32] * len(opdef.outputs)
        return self.cut.add_op(device, opdef, f"{frame.name}/{kind}", inputs, {"T": dtypes.float32, **attrs}, types, counts)
