"""Control dependencies on ops without effects are removed.

The edge is replaced by edges to the ops with effects that such an op depends on, if there are any. So the gradient of a
placeholder, which `tf.tuple` uses to gate other gradients, is not computed.
"""
from __future__ import annotations

from penstock._src.step.ir import Node, StepGraph

_MOST = 16           # the most edges that may replace one
_MOST_BITS = 4096    # the most ops that are tracked


def simplify_dependencies(step: StepGraph) -> None:
    """Removes redundant control edges, then dead ops."""
    behind: dict[Node, tuple[Node, ...]] = {}
    before = _Ancestors(step)
    kept = step.kept()
    changed = False
    for op in step.ops:
        waits = op.control_inputs
        if waits:
            made = _union(behind.get(c, (c,)) for c in waits)
            if len(made) > max(_MOST, len(waits)):
                made = waits
            made = before.not_implied(op, made)
            if made != waits:
                op.control_inputs = made
                changed = True
        drop = removable(op, step.fed) and not (op in kept and op.outputs)
        before.note(op, not drop)
        behind[op] = _bounded(op, _union([*(behind.get(t.op, ()) for t in op.inputs if id(t) not in step.fed),
                                          op.control_inputs])) if drop else (op,)
    if changed:
        step.prune()


class _Ancestors:
    """The ops with effects that have run before each op, as bit sets."""

    def __init__(self, step: StepGraph):
        self.fed = step.fed
        self.exact = not step.has_control_flow    # whether `done` has all that an op may depend on
        self.bit: dict[Node, int] = {}
        self.order: list[Node] = []               # those that have a bit
        self.done: dict[Node, int] = {}           # with the op's own bit

    def _data(self, op: Node) -> int:
        sources = [self.done.get(t.op, 0) for t in op.inputs if id(t) not in self.fed and not t.op.opdef.back_edge]
        out = 0
        if op.opdef.control_flow == "merge" and sources:       # one of them has run, but not known which
            out = sources[0]
            for s in sources[1:]:
                out &= s
            return out
        for s in sources:
            out |= s
        return out

    def not_implied(self, op: Node, waits: list[Node]) -> list[Node]:
        """Those of `waits` that are not implied by the inputs of `op`; of one without effects, the effects behind it."""
        data = self._data(op)
        found: dict[Node, None] = {}
        for c in waits:
            found.update(dict.fromkeys(self._left(c, data)))
        return list(found)

    def _left(self, op: Node, data: int) -> list[Node]:
        """What a wait for `op` adds to waiting for the effects in `data`."""
        if op in self.bit:
            return [] if self.bit[op] & data else [op]
        left = self.done.get(op, 0) & ~data
        if op not in self.done or not self.exact or left.bit_count() > _MOST:
            return [op]
        return [self.order[i] for i in range(left.bit_length()) if left >> i & 1]

    def note(self, op: Node, has_effect: bool) -> None:
        out = self._data(op)
        for c in op.control_inputs:
            out |= self.done.get(c, 0)
        if has_effect and len(self.bit) == _MOST_BITS:
            self.exact = False
        elif has_effect:
            self.order.append(op)
            bit = self.bit[op] = 1 << len(self.bit)
            out |= bit
        self.done[op] = out


def _union(groups: object) -> list[Node]:
    return list(dict.fromkeys(op for group in groups for op in group))   # type: ignore[attr-defined]


def _bounded(op: Node, ops: list[Node]) -> tuple[Node, ...]:
    return tuple(ops) if len(ops) <= _MOST or not op.inputs and not op.outputs else (op,)


def removable(op: Node, fed: set[int]) -> bool:
    """Whether an op only computes its outputs: no effect, no read of a reference, no role in control flow.

    An op after a Switch or in a loop also signals its branch or iteration: it stays.
    """
    opdef = op.opdef
    if opdef.per_session and not op.inputs or opdef.inert:
        return True
    if not opdef.foldable:
        return False
    for t in op.inputs:
        if t.dtype._is_ref_dtype or id(t) not in fed and t.op.opdef.control_flow:
            return False
    return True
