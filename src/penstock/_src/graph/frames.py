"""Frames: the loop in which each op of a step runs, derived from the Enter and Exit ops on the path to it."""
from __future__ import annotations

import collections

from penstock._src.base import errors
from penstock._src.graph.node import AnyOp


class Frame:
    """The ops of one loop, or (without a parent) those outside of every loop."""

    __slots__ = ("name", "parent", "ops", "enters", "parallel")

    def __init__(self, name: str, parent: Frame | None, parallel: int = 32):
        self.name, self.parent, self.parallel = name, parent, parallel
        self.ops: list[AnyOp] = []
        self.enters: list[AnyOp] = []          # the Enter ops that lead in; they run in the parent


class Frames:
    """The frames of pruned ops. An Enter runs in the enclosing frame, an Exit in the frame that it leaves."""

    def __init__(self, ops: list[AnyOp], fed: set[int]):
        self.root = Frame("", None)
        self.of: dict[AnyOp, Frame] = {}
        self.child: dict[AnyOp, Frame] = {}    # Enter -> the frame that it enters
        self._assign(ops, fed)
        self._check(ops, fed)

    def below(self, op: AnyOp) -> Frame | None:
        """The frame in which the outputs of an op are used."""
        if op in self.child:
            return self.child[op]
        return self.of[op].parent if op.opdef.control_flow == "exit" else self.of[op]

    def _assign(self, ops: list[AnyOp], fed: set[int]) -> None:
        frames: dict[tuple, Frame] = {}
        consumers: dict[AnyOp, list[AnyOp]] = {op: [] for op in ops}
        free = []
        for op in ops:
            sources = {t.op for t in op.inputs if id(t) not in fed} | set(op.control_inputs)
            sources = {s for s in sources if s in consumers}
            for s in sources:
                consumers[s].append(op)
            if not sources:
                free.append(op)
        todo = collections.deque(free)
        for op in free:
            self._place(op, self.root, frames)
        while todo:
            op = todo.popleft()
            below = self.below(op)
            for c in consumers[op]:
                if c not in self.of:
                    if below is None:
                        raise errors.invalid(f"{op.name} exits a frame that nothing enters")
                    self._place(c, below, frames)
                    todo.append(c)
        if len(self.of) != len(ops):
            lost = next(op for op in ops if op not in self.of)
            raise errors.invalid(f"{lost.name} is in a cycle that no Enter leads into")

    def _place(self, op: AnyOp, frame: Frame, frames: dict[tuple, Frame]) -> None:
        self.of[op] = frame
        frame.ops.append(op)
        if op.opdef.control_flow == "enter":
            key = (id(frame), op.attrs["frame_name"])
            if key not in frames:
                frames[key] = Frame(op.attrs["frame_name"], frame, max(1, op.attrs["parallel_iterations"]))
            self.child[op] = frames[key]
            frames[key].enters.append(op)

    def _check(self, ops: list[AnyOp], fed: set[int]) -> None:
        """Checks that all inputs of an op come from its own frame."""
        for op in ops:
            frame = self.of[op]
            if frame.parent is None and op.opdef.control_flow == "exit":
                raise errors.InvalidArgumentError(op.node_def, op.origin or op, f"{op.name} exits a frame that nothing enters")
            for t in op.inputs:
                if id(t) in fed or t.op not in self.of:
                    continue
                below = self.below(t.op)
                if below is not frame:
                    raise errors.InvalidArgumentError(
                        op.node_def, op.origin or op,
                        f"{op.name} has inputs from different frames. The input {t.op.name} is in frame "
                        f"'{below.name if below else ''}', others are in frame '{frame.name}'.")
