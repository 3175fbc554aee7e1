"""Reads of reference variables after updates that their users wait for.

The value of a reference variable is an Identity of the reference that is made with the variable, so it waits for nothing. In
TensorFlow this Identity is the variable's own memory: an op that waits for an update uses the new value, although the Identity
has run before. Moving averages of `ema.apply` under `control_dependencies([train])` depend on that. Here, each op that waits
for an update that a read has not waited for gets a later read of its own. That holds within a task: a value that is
sent to another task, or waits for an update there, is the one that was read, in TensorFlow, too.
"""
from __future__ import annotations

from collections.abc import Iterator

from penstock._src.ops import rules
from penstock._src.step.ir import Node, StepGraph, Value


def read_late(step: StepGraph) -> None:
    """Gives ops that wait for updates of a reference variable a read of it that waits for them, too."""
    variables = [_variable(op) for op in step.ops]
    if not any(v is not None and not _is_read(op) for v, op in zip(variables, step.ops)) or not any(map(_is_read, step.ops)):
        return
    bits: dict[int, int] = {}                        # variable -> the bits of the ops that change it
    own: dict[Node, int] = {}
    for op, variable in zip(step.ops, variables):
        if variable is not None and not _is_read(op):
            own[op] = 1 << len(own)
            bits[variable] = bits.get(variable, 0) | own[op]
    _Reads(step, bits, own).run()


class _Reads:
    """The reads of a step, and the updates that each op has waited for."""

    def __init__(self, step: StepGraph, bits: dict[int, int], own: dict[Node, int]):
        self.step, self.bits, self.own = step, bits, own
        self.before: dict[Node, int] = {}            # the updates that have run when an op has run
        self.aliases: dict[int, Value] = {}          # values that are a variable's memory -> the reference
        self.later: dict[tuple, Value] = {}
        self.added: dict[Node, list[Node]] = {}
        self.frames: dict[str, list[Node]] = {}
        for op in step.ops:
            if op.opdef.control_flow == "enter":
                self.frames.setdefault(op.attrs["frame_name"], []).append(op)

    def run(self) -> None:
        for op in self.step.ops:
            waits = list(self._waits(op))
            done = 0
            for s in waits:
                done |= self.before.get(s, 0)
            if op.opdef.control_flow != "merge":     # it waits for one of its inputs only
                op.substitute({id(t): self._read(op, t, waits, done) for t in op.inputs if self._is_old(t, done)})
            self.before[op] = done | self.own.get(op, 0)
            if op.inputs and (_is_read(op) or rules.forwards(op) and id(op.inputs[0]) in self.aliases):
                self.aliases[id(op.outputs[0])] = self.aliases.get(id(op.inputs[0]), op.inputs[0])
        if self.added:
            self.step.ops = [o for op in self.step.ops for o in (*self.added.get(op, ()), op)]

    def _waits(self, op: Node) -> Iterator[Node]:
        """What has run before an op: a loop begins to use any of its inputs when the first ones have come."""
        for o in self.frames[op.attrs["frame_name"]] if op.opdef.control_flow == "enter" else (op,):
            yield from o.control_inputs
            yield from (t.op for t in o.inputs if id(t) not in self.step.fed)

    def _is_old(self, t: Value, done: int) -> bool:
        ref = self.aliases.get(id(t))
        return ref is not None and bool(self.bits.get(_source(ref), 0) & done & ~self.before[t.op])

    def _read(self, op: Node, t: Value, waits: list[Node], done: int) -> Value:
        ref = self.aliases[id(t)]
        new = self.bits[_source(ref)] & done & ~self.before[t.op]
        control = [s for s in dict.fromkeys(waits) if self.before.get(s, 0) & new]
        key = (id(t), *map(id, control))
        if key not in self.later:
            read = self.step.make("Identity", [ref], {"T": t.dtype}, t.op, [t.static_dims], [t.dtype], control)
            self.before[read] = self.before[t.op] | done
            self.later[key] = read.outputs[0]
            self.aliases[id(read.outputs[0])] = ref
            self.added.setdefault(op, []).append(read)
        return self.later[key]


def _variable(op: Node) -> int | None:
    """A key for the reference variable that an op reads or changes."""
    return next((_source(t) for t in op.inputs if t.dtype._is_ref_dtype), None) if op.inputs else None


def _source(ref: Value) -> int:
    """A key for the variable of a reference: ops that change a variable pass it on."""
    while ref.op.opdef.has_ref_inputs and ref.op.inputs:
        ref = ref.op.inputs[0]
    return id(ref)


def _is_read(op: Node) -> bool:
    """Whether an op returns the value of a reference."""
    return rules.forwards(op) and op.inputs[0].dtype._is_ref_dtype and not op.outputs[0].dtype._is_ref_dtype
