"""What is the same in all iterations of a loop is computed once, before it.

An op whose inputs stay the same returns the same result in every iteration: it moves in front of the loop, and the loop gets
its result. So does a read of a variable that the loop does not write. Only loops that are in no other loop are inspected.

What enters a loop as a constant is there in every iteration, whether the loop continues or not. So an op that takes nothing
else waits for its iteration, as what was moved did: else the loop would go round forever.
"""
from __future__ import annotations

from penstock._src.base import dtypes
from penstock._src.graph.frames import Frame, Frames
from penstock._src.graph.node import Operation, Tensor
from penstock._src.ops import rules
from penstock._src.step.ir import StepGraph


def move_invariants(step: StepGraph, frames: Frames) -> bool:
    """Moves what can be moved; whether there was something."""
    by: dict[int, Tensor] = {}
    for frame in dict.fromkeys(frames.of.values()):
        if frame.parent is frames.root:
            _Loop(step, frame).move(by)
    step.substitute(by)
    return bool(by)


class _Loop:
    """One loop."""

    def __init__(self, step: StepGraph, frame: Frame):
        self.step, self.frame, self.ops = step, frame, set(frame.ops)
        self.outer = {id(e.outputs[0]): e._inputs[0] for e in frame.enters           # tensor of the loop -> the same outside
                      if e.attrs["is_constant"] and id(e.outputs[0]) not in step.fed}
        self.waits = list(dict.fromkeys(c for e in frame.enters for c in e._control_inputs))
        self.wanted = {id(t) for t in step.fetches}

    def move(self, by: dict[int, Tensor]) -> None:
        """Notes in `by` what the loop gets in place of its own results."""
        moved = []
        for op in self.step.ops:
            if op in self.ops and self._stays(op):
                inputs = [self._outside(t) for t in op._inputs]
                made = self.step.make(op.opdef, inputs, op.attrs, op, [t._dims for t in op.outputs], None, self.waits)
                made._counts = op._counts
                self.outer.update({id(t): new for t, new in zip(op.outputs, made.outputs, strict=True)})
                moved.append(op)
        gone, waits = set(moved), self._waits(moved)
        users: dict[int, list[Operation]] = {}
        for user in self.frame.ops:
            for t in () if user in gone else user._inputs:
                users.setdefault(id(t), []).append(user)
        for op in moved:
            for t in op.outputs:
                if id(t) in users:
                    by[id(t)] = self._entered(t, op, [] if all(map(self._waits_itself, users[id(t)])) else waits[op])

    def _entered(self, t: Tensor, op: Operation, waits: list[Operation]) -> Tensor:
        """What the loop gets in place of `t`, which `op` made; after `waits` in each iteration."""
        like = self.frame.enters[0]
        attrs = {**like.attrs, "T": t._dtype, "is_constant": True}
        made = self.step.make(like.opdef, [self.outer[id(t)]], attrs, like, [t._dims], [t._dtype], [])
        if waits:
            made = self.step.make("Identity", made.outputs, {"T": t._dtype}, op, [t._dims], [t._dtype], waits)
        return made.outputs[0]

    def _waits(self, moved: list[Operation]) -> dict[Operation, list[Operation]]:
        """What ops that are moved waited for in each iteration, themselves or through their inputs."""
        waits: dict[Operation, list[Operation]] = {}
        for op in moved:
            before = [waits.get(t._op, t._op._control_inputs if t._op.opdef.constant else []) for t in op._inputs]
            waits[op] = list(dict.fromkeys(c for some in (op._control_inputs, *before) for c in some))
        return waits

    def _waits_itself(self, op: Operation) -> bool:
        """Whether an op takes something that differs between iterations, or waits for its iteration."""
        return bool(op._control_inputs) or not all(id(t) in self.outer for t in op._inputs)

    def _outside(self, t: Tensor) -> Tensor:
        if id(t) in self.outer:
            return self.outer[id(t)]
        return self.step.make(t._op.opdef, [], t._op.attrs, t._op, [t._dims], None, []).outputs[0]

    def _stays(self, op: Operation) -> bool:
        """Whether an op returns the same in every iteration, and may be computed even if there is none."""
        if not op._inputs or not op.outputs or op.opdef.control_flow or not (op.opdef.foldable or self._only_reads(op)):
            return False
        if any(id(t) in self.step.fed or id(t) in self.wanted or t._dtype._is_ref_dtype for t in (*op.outputs, *op._inputs)):
            return False
        if not all(id(t) in self.outer or t._op.opdef.constant for t in op._inputs) or \
                all(t._op.opdef.constant for t in op._inputs):
            return False
        return all(_is_pivot(c) for c in op._control_inputs)

    def _only_reads(self, op: Operation) -> bool:
        """Whether an op reads a variable that nothing in the loop may write."""
        if not op.opdef.reads or id(op._inputs[0]) not in self.outer:
            return False
        variable = self.outer[id(op._inputs[0])]
        for other in self.frame.ops:
            if other.opdef.client_code or other.opdef.control_flow == "enter":          # calls Python; has a loop in it
                return False
            for t in other._inputs:
                outside = self.outer.get(id(t))
                if t._dtype == dtypes.resource and not other.opdef.reads and (outside is None or outside is variable):
                    return False
        return True


def _is_pivot(op: Operation) -> bool:
    """Whether an op only says that an iteration has begun."""
    while len(op._inputs) == 1 and rules.forwards(op):
        op = op._inputs[0]._op
    return op.opdef.control_flow in ("switch", "loop_cond", "merge")
