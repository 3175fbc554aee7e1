"""Which ops of a part may be joined without a deadlock through another part.

A joined op runs when the inputs of all members are available. If the result of one member is sent, another part may need it
before it sends an input of a second member: neither part could continue. The dependencies of other parts are not known here, so
a member whose result is sent, directly or through other ops, must depend on everything that the other members receive.
"""
from __future__ import annotations

from collections.abc import Iterable

from penstock._src.step.ir import Node, StepGraph


class Transfers:
    """For each op, the receives that it depends on, and whether other parts depend on it."""

    def __init__(self, step: StepGraph):
        ends = {op.opdef.transfer for op in step.ops}
        self._received: dict[Node, int] = {}            # a bit for each receive
        self._sent: set[Node] = set()
        if {"send", "recv"} <= ends:
            self._find(step)

    def _find(self, step: StepGraph) -> None:
        receives = 0
        for op in step.ops:
            bits = 0
            for source in _sources(op, step):
                bits |= self._received.get(source, 0)
            if op.opdef.transfer == "recv":
                bits |= 1 << receives
                receives += 1
            self._received[op] = bits
        for op in reversed(step.ops):
            if op.opdef.transfer == "send" or op in self._sent:
                self._sent.update(_sources(op, step))

    def received(self, op: Node) -> int:
        """The receives that an op depends on, as a number: ops with equal numbers may be joined."""
        return self._received.get(op, 0)

    def may_be_one(self, ops: Iterable[Node]) -> bool:
        """Whether joining adds no dependency to a member that another part waits for."""
        if not self._sent:
            return True
        received = [(op, self._received[op]) for op in ops]
        everything = 0
        for _, bits in received:
            everything |= bits
        return all(bits == everything for op, bits in received if op in self._sent)


def _sources(op: Node, step: StepGraph) -> list[Node]:
    """The ops that an op waits for."""
    return [*(t.op for t in op.inputs if id(t) not in step.fed), *op.control_inputs]
