"""Fusion: one kernel for several ops (a product with its bias and activation, a pooling with what its gradient needs).

Ops declare their fusions: a `fuse` rule takes its op and a `Fusing`, and returns the replacement of the op, or None. Ops that
were only used by the fused ones are removed.
"""
from __future__ import annotations

from typing import Any

from penstock._src.ops import rules
from penstock._src.ops.registry import get
from penstock._src.step.ir import Node, StepGraph, Value, is_free_constant


class Fusing:
    """The view of a step that a fuse rule receives: queries about the neighbours of its op, and ways to make new ops."""

    def __init__(self, step: StepGraph):
        self.step = step
        self._users = step.users()
        self._wanted = {id(t) for t in step.fetches}
        self._waited = {c for op in step.ops for c in op.control_inputs} | set(step.targets)
        self.by: dict[int, Value] = {}
        self.instead: dict[Node, Node] = {}
        self.added = False                             # whether there are ops that replace no other
        self.gone: set[Node] = set()              # ops whose result an earlier op returns

    def source(self, t: Value) -> Value:
        """The tensor that represents `t` now."""
        while id(t) in self.by:
            t = self.by[id(t)]
        return t

    def only(self, t: Value, op: Node) -> Node | None:
        """The producer of `t`, if `op`, on the same device, is its only consumer."""
        t = self.source(t)
        maker = t.op
        if id(t) in self.step.fed or maker.control_inputs or maker in self._waited or not self.step.together(maker, op):
            return None
        if any(id(o) in self._wanted or id(o) in self.step.fed for o in maker.outputs):
            return None
        user = None
        for o in maker.outputs:
            users = self._users.get(id(o), ())
            if len(users) > 1 or users and user is not None:
                return None
            user = users[0] if users else user
        return maker if user is not None and self._now(user) is self._now(op) else None

    def _now(self, op: Node) -> Node:
        return self.instead.get(op, op)

    def maker(self, t: Value, op: Node) -> Node | None:
        """The op that makes `t` on the device of `op`; None if it is fed, or must run itself."""
        t = self.source(t)
        return None if id(t) in self.step.fed or t.op in self._waited or not self.step.together(t.op, op) else t.op

    def constant(self, t: Value) -> Any:
        """The value of a scalar constant; None for other tensors."""
        t = self.source(t)
        return t.op.attrs["value"] if t.static_dims == () and is_free_constant(t, self.step) else None

    def users(self, t: Value) -> list[Node] | None:
        """The current consumers of `t`; None if it is also fetched or fed, or must be computed unchanged."""
        maker = self.source(t).op
        return None if maker.control_inputs or maker in self._waited else self.takers(t)

    def takers(self, t: Value) -> list[Node] | None:
        """The current consumers of `t`; None if it is also fetched or fed."""
        t = self.source(t)
        if id(t) in self._wanted or id(t) in self.step.fed:
            return None
        return [self.now(u) for u in self._users.get(id(t), ())]

    def now(self, op: Node) -> Node:
        """The op that has replaced `op`."""
        while op in self.instead:
            op = self.instead[op]
        return op

    def on_host(self, op: Node) -> bool:
        """Whether an op runs on the CPU."""
        return self.step.on_host(op)

    def make(self, name: str, inputs: list[Value], attrs: dict[str, Any], like: Node, counts: tuple = (),
             extra: list[Value] | None = None, outputs: list[Value] | None = None) -> Node:
        """An op with the outputs of `like` (or others of the types and shapes of `outputs`), and of `extra`."""
        outputs = [*(like.outputs if outputs is None else outputs), *(extra or ())]
        opdef = get(name)
        full = {n: a.default for n, a in opdef.attrs.items()} | attrs
        made = self.step.make(opdef, [self.source(t) for t in inputs], full, like, [t.static_dims for t in outputs],
                              [t.dtype for t in outputs])
        made.counts = counts
        return made

    def result(self, dtype: Any, dims: tuple | None = None) -> Value:
        """A result of this type and shape, for `extra` and `outputs` of `make`."""
        return Value(None, 0, dtype, dims)                       # type: ignore[arg-type]

    def add(self, made: Node) -> list[Value]:
        """Inserts `made`, which replaces no other op, before the ops that use its outputs. Returns the outputs."""
        self.added = True
        return made.outputs

    def put(self, made: Node, old: Node) -> None:
        """`made` replaces `old`: its first outputs are used for those of `old`."""
        self.instead[old] = made
        for t, other in zip(old.outputs, made.outputs):
            self.by[id(t)] = other
            self._users[id(other)] = self._users.get(id(t), [])
            if id(t) in self._wanted:
                self._wanted.add(id(other))

    def give(self, values: list[Value], old: Node) -> None:
        """Replaces the outputs of `old` by values of other ops, and removes `old`."""
        self.gone.add(old)
        self.instead[old] = values[0].op
        for before, t in zip(old.outputs, values, strict=True):
            self.by[id(before)] = t
            self._users[id(t)] = self._users.get(id(before), [])
            if id(before) in self._wanted:
                self._wanted.add(id(t))


def fuse(step: StepGraph) -> None:
    """Applies the rule of every op that has one."""
    _replace(step, rules.fusion.fuse, rules.fusion.absorb)


def fix_sizes(step: StepGraph) -> None:
    """Replaces ops whose result sizes are known only on the GPU by forms with fixed sizes, where these suffice."""
    _replace(step, rules.rows.fixed, {})


def simplify(step: StepGraph) -> None:
    """Applies the rules that are for compilers, too."""
    _replace(step, rules.fusion.simplify, {})


def _replace(step: StepGraph, by: dict, absorb: dict) -> None:
    asked = [op for op in step.ops if op.opdef in by]
    changed = [op for op in step.ops if op.opdef in absorb]
    if not asked and not changed:
        return
    fusing = Fusing(step)
    for op in asked:
        made = by[op.opdef](op, fusing)
        if isinstance(made, (Value, list)):
            fusing.give(made if isinstance(made, list) else [made], op)
        elif made is not None:
            before = {id(fusing.source(t)) for t in op.inputs}
            for t in made.inputs:
                if id(t) not in before:                     # `made` replaces `op` among the users of others
                    fusing._users.setdefault(id(t), []).append(made)
            fusing.put(made, op)
    if fusing.instead:
        step.ops = [fusing.now(op) for op in step.ops if op not in fusing.gone]
        step.targets = [fusing.now(op) for op in step.targets]
        for op in step.ops:
            if op.control_inputs:
                op.control_inputs = [fusing.now(c) for c in op.control_inputs]
        step.substitute({old: fusing.source(t) for old, t in fusing.by.items()})
    for op in changed:
        absorb[op.opdef](op, fusing)
    if fusing.added:
        step.sort()
    elif fusing.instead or changed:
        step.prune()
