"""The memory of a step on a GPU: what frees memory runs early, and what is cheaper to compute again than to keep is computed
again.

The order of ops comes from what is wanted of a step. Where the updates of the first layers are wanted first, the gradients of
all layers would be kept until their variables have their turn. So an op that is the last to use more than it returns
runs as soon as it can.

A training step needs the most memory at the end of its forward pass: everything that the backward pass reads is alive there.
Much of it follows from other values by a few elementwise ops. Which values to keep is a minimum cut: each value that is needed
behind the peak is connected to what it can be computed from by cheap ops, and the kept values, weighted by their bytes,
separate these from values that only a product, a convolution or a reduction makes. What is not kept is computed again directly
before its first use behind the peak.

Other ops run in the order in which they did. A read of a variable is not used behind an update of the variable.
"""
from __future__ import annotations

import collections
import math
from collections.abc import Iterable

from penstock._src.base import dtypes
from penstock._src.ops import rules
from penstock._src.step.ir import Node, StepGraph, Value

_LARGE = 1 << 20             # bytes of a value that is worth a kernel
_LEAST = 1 << 26             # bytes that have to be saved
_MOST = 20_000               # ops of a step
_NEAR = 64                   # ops before the peak that may be joined with those behind it
_TRIES = 4                   # cuts, if some reads of variables cannot be used
_ANY = 1 << 60               # more than all memory


def release_early(step: StepGraph) -> None:
    """The first pass: runs the last user of a value early, if it frees memory. Ops that read or change variables stay."""
    if _concerned(step):
        step.ops = _Release(step).ops()


def _concerned(step: StepGraph) -> bool:
    return step.is_placed and not step.has_control_flow and len(step.ops) <= _MOST and not all(op.place.host for op in step.ops)


def recompute_cheap(step: StepGraph) -> None:
    """The second pass. Steps on the host, with control flow or with sends keep their values."""
    if not _concerned(step):
        return
    refused: set[Value] = set()
    for _ in range(_TRIES):
        plan = _Plan(step, refused)
        again, saved = plan.cut()
        if saved < _LEAST:
            return
        ops, late = plan.written(again)
        if not late:
            step.ops = ops
            return
        plan.undo()
        refused |= late


def at_peak(step: StepGraph) -> int:
    """After how many ops a step has the most memory in use; 0 where that does not matter. Cheap ops before, down to a product
    or a convolution, count as behind it: joined, they store less."""
    if not _concerned(step):
        return 0
    at = _Lifetimes(step).peak_place() + 1
    first = max(0, at - _NEAR)
    return max((i + 1 for i in range(first, at) if not _is_light(step.ops[i])), default=first)


def _is_light(op: Node) -> bool:
    """Whether an op is elementwise or a reduction, moves nothing, or makes little."""
    kind = op.opdef
    return kind in rules.algebra.elementwise or kind in rules.memory.cheap or kind in rules.pointwise.reduces or \
        rules.is_pointwise(op) or shares_memory(op) or kind.reads or sum(map(_size, op.outputs)) < _LARGE


class _Lifetimes:
    """The memory that the values of a step take, and when they are used last."""

    def __init__(self, step: StepGraph):
        self.step = step
        self.place = {op: i for i, op in enumerate(step.ops)}
        self.root: dict[Value, Value] = {}           # the value whose memory another one shares
        self.bytes: dict[Value, int] = {}
        self.last: dict[Value, int] = {}             # last uses, of roots
        for op in step.ops:
            for t in op.outputs:
                self.root[t] = self._of(op.inputs[0]) if shares_memory(op) else t
                self.bytes[t] = 0 if self.root[t] is not t or _of_variable(op) or not op.inputs else _size(t)
            for t in op.inputs:
                self.last[self._of(t)] = self.place[op]
        self.fetched = {self._of(t) for t in step.fetches}
        self.last.update(dict.fromkeys(self.fetched, len(step.ops)))

    def _of(self, t: Value) -> Value:
        return self.root.get(t, t)

    def _made(self, t: Value) -> int:
        return -1 if id(t) in self.step.fed else self.place.get(t.op, -1)

    def peak_place(self) -> int:
        """After which op the most memory is in use."""
        change: collections.Counter[int] = collections.Counter()
        for t, size in self.bytes.items():
            if size and t in self.last and self._made(t) >= 0:
                change[self._made(t)] += size
                change[self.last[t] + 1] -= size     # an op has its inputs and its results at once
        best = now = at = 0
        for i in range(len(self.step.ops)):
            now += change[i]
            if now > best:
                best, at = now, i
        return at

    def _is_there(self, v: Value) -> bool:
        """Whether a value is in memory in any case: a feed, a constant, a variable, or a result of the step."""
        return id(v) in self.step.fed or v.op not in self.place or not v.op.inputs or _of_variable(v.op) or v in self.fetched


class _Release(_Lifetimes):
    """The ops in a new order."""

    def __init__(self, step: StepGraph):
        super().__init__(step)
        self.users: dict[Value, set[Node]] = {}      # of roots: the ops that have not run yet
        for op in step.ops:
            if not shares_memory(op):
                for t in op.inputs:
                    self.users.setdefault(self._of(t), set()).add(op)
        self._done: dict[Node, None] = {}

    def ops(self) -> list[Node]:
        """The ops; each is followed by those that free memory now."""
        for op in self.step.ops:
            self._run(op)
            used = [self._of(t) for t in op.inputs]
            while used:
                left = self.users.get(used.pop(), ())
                last = next(iter(left)) if len(left) == 1 else None
                if last is not None and self._frees(last) >= _LARGE and all(map(self._available, last.inputs)):
                    self._run(last)
                    used += map(self._of, last.inputs)
        return list(self._done)

    def _run(self, op: Node) -> None:
        """Runs an op, after constants and views that it needs."""
        if op in self._done:
            return
        for t in op.inputs:
            if id(t) not in self.step.fed and t.op not in self._done:
                self._run(t.op)
        self._done[op] = None
        for t in op.inputs:
            self.users.get(self._of(t), set()).discard(op)

    def _available(self, t: Value) -> bool:
        """Whether a value is computed, or a constant or a view."""
        op = t.op
        return id(t) in self.step.fed or op in self._done or not op.control_inputs and op.opdef.foldable and \
            (not op.inputs or shares_memory(op) and all(map(self._available, op.inputs)))

    def _frees(self, op: Node) -> int:
        """How many bytes are free after an op that may run now; 0 if it may not."""
        if op in self._done or not op.opdef.foldable or op.control_inputs or op.place.host or _of_variable(op):
            return 0
        gone = {r for t in op.inputs if self.users[r := self._of(t)] == {op} and not self._is_there(r)}
        return sum(self.bytes.get(r, 0) for r in gone) - sum(map(_size, op.outputs))


class _Plan(_Lifetimes):
    """What is alive at the peak of a step, and what of it is computed again."""

    def __init__(self, step: StepGraph, refused: set[Value]):
        super().__init__(step)
        self.refused = refused
        self.changed = self._updates()
        self._changes: list[tuple[Node, tuple[Value, ...]]] = []
        self.peak = self.peak_place()
        self.alive = {v for v, last in self.last.items() if last > self.peak and self._made(v) <= self.peak}

    def _updates(self) -> dict[Value, int]:
        """The first update of each variable, by its handle."""
        found: dict[Value, int] = {}
        for op in self.step.ops:
            if not op.opdef.reads and not rules.forwards(op):
                for t in op.inputs:
                    if t.dtype._is_ref_dtype or t.dtype.base_dtype == dtypes.resource:
                        found.setdefault(t, self.place[op])
        return found

    def _cheap(self, op: Node) -> bool:
        """Whether a result may be computed twice."""
        opdef = op.opdef
        return (opdef in rules.algebra.elementwise or opdef in rules.memory.cheap or shares_memory(op)) and opdef.foldable and \
            len(op.outputs) == 1 and not op.control_inputs and not any(op.counts or ()) and not op.place.host and \
            None not in (op.outputs[0].static_dims or (None,)) and not _of_variable(op)

    # -- the cut -------------------------------------------------------------------------------------------------------------
    def cut(self) -> tuple[set[Value], int]:
        """The values to compute again, and how many bytes that saves at the peak."""
        needed = self._behind(v for v in self.alive if self.bytes.get(v, 0) >= _LARGE and self._cheap(v.op))
        flow = _Flow()
        for v in needed:
            free = self._is_there(v)
            cost = (_ANY if v in self.refused else 1) if free else max(self.bytes.get(v, 0), 1)
            flow.add((v, 0), (v, 1), cost)
            if free or not self._cheap(v.op):
                flow.add("kept", (v, 0), _ANY)
            else:
                for t in v.op.inputs:
                    flow.add((self._of(t), 1), (v, 0), _ANY)
            if v in self.alive:
                flow.add((v, 1), "used", _ANY)
        near = flow.cut("kept", "used")
        kept = {v for v in needed if (v, 1) in near and (v, 0) not in near and not self._is_there(v)}
        saved = sum(self.bytes.get(v, 0) for v in needed if v in self.alive) - sum(self.bytes.get(v, 0) for v in kept)
        return {v for v in needed if (v, 0) in near and (v, 1) in near}, saved

    def _behind(self, wanted: Iterable[Value]) -> list[Value]:
        """Values, and what they can be computed from."""
        found = dict.fromkeys(wanted)
        left = list(found)
        while left:
            v = left.pop()
            if self._is_there(v) or not self._cheap(v.op):
                continue
            for t in map(self._of, v.op.inputs):
                if t not in found:
                    found[t] = None
                    left.append(t)
        return list(found)

    # -- the new order -------------------------------------------------------------------------------------------------------
    def written(self, again: set[Value]) -> tuple[list[Node], set[Value]]:
        """The ops with what is computed again, and the reads of variables that would be used behind an update."""
        ops = list(self.step.ops[:self.peak + 1])
        made: dict[Value, Value] = {}
        late: set[Value] = set()

        def value(t: Value, at: int) -> Value:
            root = self._of(t)
            if t in made:
                return made[t]
            if root not in again:
                self._check(root, at, late)
                return t
            op = t.op
            copy = self.step.make(op.opdef, [value(s, at) for s in op.inputs], op.attrs, op, [op.outputs[0].static_dims])
            ops.append(copy)
            made[t] = copy.outputs[0]
            return made[t]
        for at in range(self.peak + 1, len(self.step.ops)):
            op = self.step.ops[at]
            inputs = tuple([value(t, at) for t in op.inputs])
            if any(a is not b for a, b in zip(inputs, op.inputs, strict=True)):
                self._changes.append((op, op.inputs))
                op.set_inputs(inputs)
            ops.append(op)
        return ops, late

    def _check(self, t: Value, at: int, late: set[Value]) -> None:
        """Notes a read of a variable that would be used later than now, after an update."""
        if t.op in self.place and _of_variable(t.op) and at > self.last.get(t, 0) and \
                any(self.changed.get(h, _ANY) <= at for h in t.op.inputs):
            late.add(t)

    def undo(self) -> None:
        """Restores the inputs of all ops."""
        for op, inputs in self._changes:
            op.set_inputs(inputs)


def shares_memory(op: Node) -> bool:
    """Whether the result is in the memory of the first input."""
    return bool(op.inputs) and len(op.outputs) == 1 and (op.opdef in rules.arithmetic.reshapes or rules.forwards(op)) and \
        not _of_variable(op)


def _of_variable(op: Node) -> bool:
    """Whether an op reads or changes a variable."""
    return any(t.dtype._is_ref_dtype or t.dtype.base_dtype == dtypes.resource for t in (*op.inputs, *op.outputs))


def _size(t: Value) -> int:
    dims = t.static_dims
    return 0 if dims is None or None in dims or t.dtype.base_dtype.torch is None else math.prod(dims) * t.dtype.base_dtype.size


class _Flow:
    """A minimum cut, by augmenting along shortest paths."""

    def __init__(self) -> None:
        self.edges: dict = collections.defaultdict(dict)      # node -> next node -> what may still flow there

    def add(self, a: object, b: object, size: int) -> None:
        """An edge."""
        self.edges[a][b] = self.edges[a].get(b, 0) + size
        self.edges[b].setdefault(a, 0)

    def cut(self, source: object, target: object) -> set:
        """The nodes on the side of the target: as few as possible."""
        while levels := self._levels(source, target):
            left = {n: list(to) for n, to in self.edges.items()}
            while self._push(source, target, levels, left):
                pass
        near, queue = {target}, [target]
        while queue:
            b = queue.pop()
            for a in self.edges[b]:
                if a not in near and self.edges[a][b] > 0:
                    near.add(a)
                    queue.append(a)
        return near

    def _levels(self, source: object, target: object) -> dict:
        found, queue = {source: 0}, collections.deque([source])
        while queue:
            a = queue.popleft()
            for b, size in self.edges[a].items():
                if size > 0 and b not in found:
                    found[b] = found[a] + 1
                    queue.append(b)
        return found if target in found else {}

    def _push(self, source: object, target: object, levels: dict, left: dict) -> bool:
        """One more path in the graph of levels."""
        path = [source]
        while path and path[-1] != target:
            a = path[-1]
            while left[a] and not (self.edges[a][left[a][-1]] > 0 and levels.get(left[a][-1]) == levels[a] + 1):
                left[a].pop()
            if left[a]:
                path.append(left[a][-1])
            else:
                path.pop()
                if path:
                    left[path[-1]].pop()
        pairs = list(zip(path, path[1:], strict=False))
        if pairs:
            size = min(self.edges[a][b] for a, b in pairs)
            for a, b in pairs:
                self.edges[a][b] -= size
                self.edges[b][a] += size
        return bool(pairs)
