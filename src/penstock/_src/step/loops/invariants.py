"""Loop-invariant code motion.

An op with loop-invariant inputs returns the same result in every iteration: it moves before the loop, which receives its
result. So does a read of a variable that the loop does not write. Only outermost loops are considered.

A constant that enters a loop is available in every iteration, even after the last. So an op without other inputs must wait for
its iteration, as the moved ops did: otherwise the loop would never end.
"""
from __future__ import annotations

from penstock._src.base import dtypes
from penstock._src.graph.effects import writes_nothing
from penstock._src.graph.frames import Frame, Frames
from penstock._src.ops import rules
from penstock._src.step.ir import Node, StepGraph, Value


def move_invariants(step: StepGraph, frames: Frames) -> bool:
    """Moves invariant ops; returns whether there were any."""
    by: dict[int, Value] = {}
    for frame in dict.fromkeys(frames.of.values()):
        if frame.parent is frames.root:
            _Loop(step, frame).move(by)
    step.substitute(by)
    return bool(by)


class _Loop:
    """One loop."""

    def __init__(self, step: StepGraph, frame: Frame):
        self.step, self.frame, self.ops = step, frame, set(frame.ops)
        self.outer = {id(e.outputs[0]): e.inputs[0] for e in frame.enters           # tensor of the loop -> the same outside
                      if e.attrs["is_constant"] and id(e.outputs[0]) not in step.fed}
        self.waits = list(dict.fromkeys(c for e in frame.enters for c in e.control_inputs))
        self.wanted = {id(t) for t in step.fetches}

    def move(self, by: dict[int, Value]) -> None:
        """Records in `by` the values that replace results of the loop."""
        moved = []
        for op in self.step.ops:
            if op in self.ops and self._stays(op):
                inputs = [self._outside(t) for t in op.inputs]
                made = self.step.make(op.opdef, inputs, op.attrs, op, [t.static_dims for t in op.outputs], None, self.waits)
                made.counts = op.counts
                self.outer.update({id(t): new for t, new in zip(op.outputs, made.outputs, strict=True)})
                moved.append(op)
        gone, waits = set(moved), self._waits(moved)
        users: dict[int, list[Node]] = {}
        for user in self.frame.ops:
            for t in () if user in gone else user.inputs:
                users.setdefault(id(t), []).append(user)
        for op in moved:
            for t in op.outputs:
                if id(t) in users:
                    by[id(t)] = self._entered(t, op, [] if all(map(self._waits_itself, users[id(t)])) else waits[op])

    def _entered(self, t: Value, op: Node, waits: list[Node]) -> Value:
        """The replacement of `t`, a result of `op`, in the loop; available after `waits` in each iteration."""
        like = self.frame.enters[0]
        attrs = {**like.attrs, "T": t.dtype, "is_constant": True}
        made = self.step.make(like.opdef, [self.outer[id(t)]], attrs, like, [t.static_dims], [t.dtype], [])
        if waits:
            made = self.step.make("Identity", made.outputs, {"T": t.dtype}, op, [t.static_dims], [t.dtype], waits)
        return made.outputs[0]

    def _waits(self, moved: list[Node]) -> dict[Node, list[Node]]:
        """The ops that moved ops waited for in each iteration, directly or through their inputs."""
        waits: dict[Node, list[Node]] = {}
        for op in moved:
            before = [waits.get(t.op, t.op.control_inputs if t.op.opdef.constant else []) for t in op.inputs]
            waits[op] = list(dict.fromkeys(c for some in (op.control_inputs, *before) for c in some))
        return waits

    def _waits_itself(self, op: Node) -> bool:
        """Whether an op takes something that differs between iterations, or waits for its iteration."""
        return bool(op.control_inputs) or not all(id(t) in self.outer for t in op.inputs)

    def _outside(self, t: Value) -> Value:
        if id(t) in self.outer:
            return self.outer[id(t)]
        return self.step.make(t.op.opdef, [], t.op.attrs, t.op, [t.static_dims], None, []).outputs[0]

    def _stays(self, op: Node) -> bool:
        """Whether an op is loop-invariant and may be computed even if there are no iterations."""
        if not op.inputs or not op.outputs or op.opdef.control_flow or not (op.opdef.foldable or self._only_reads(op)):
            return False
        if any(id(t) in self.step.fed or id(t) in self.wanted or t.dtype._is_ref_dtype for t in (*op.outputs, *op.inputs)):
            return False
        if not all(id(t) in self.outer or t.op.opdef.constant for t in op.inputs) or \
                all(t.op.opdef.constant for t in op.inputs):
            return False
        return all(_is_pivot(c) for c in op.control_inputs)

    def _only_reads(self, op: Node) -> bool:
        """Whether an op reads a variable that nothing in the loop may write."""
        if not op.opdef.reads or id(op.inputs[0]) not in self.outer:
            return False
        variable = self.outer[id(op.inputs[0])]
        for other in self.frame.ops:
            if other.opdef.client_code or other.opdef.control_flow == "enter":          # calls Python; has a loop in it
                return False
            for t in other.inputs:
                outside = self.outer.get(id(t))
                if t.dtype == dtypes.resource and not other.opdef.reads and (outside is None or outside is variable):
                    return False
        return True


def _is_pivot(op: Node) -> bool:
    """Whether an op only marks the start of an iteration."""
    while len(op.inputs) == 1 and rules.forwards(op):
        op = op.inputs[0].op
    return op.opdef.control_flow in ("switch", "loop_cond", "merge")


def invariant_ops(step: StepGraph) -> set[Node]:
    """The loop-invariant ops of the body of a functional loop."""
    same = {id(t) for t, following in zip(step.feeds, step.fetches, strict=True) if t is following}
    found: set[Node] = set()
    may_read = writes_nothing(step.ops)
    for op in step.ops:
        if op.outputs and (op.opdef.foldable or op.opdef.reads and may_read) and all(id(t) in same for t in op.inputs) and \
                found.issuperset(op.control_inputs):
            found.add(op)
            same.update(map(id, op.outputs))
    return found
