"""Pointwise fusion: elementwise ops on arrays of one shape become one op.

A recurrent cell is a matrix product and a dozen such ops on small arrays in each iteration: calling each of them takes as long
as its work. Outside of loops, ops on large arrays take as long as reading and writing memory: one pass over them is faster than
several. (Ops on small arrays there are left to recordings, which call ATen without Python.)

Ops that name the instruction that does the same (`rules.pointwise`) are joined where shapes are known: `kernels/pointwise.py`
runs their instructions in one pass. Rows, columns, numbers and masks are repeated over the shape. Parts of an array that an op
has cut along the last axis are read where they are, and values that are put side by side along it are written side by side. A
bias that a product of matrices adds to each row is added here.

Sums, means and maxima over the last axis, and ops on their results per row, are fused too: layer norm and softmax, however they
are written, are one pass, and so are their gradients.

A value that one group computes and another one reads, such as a forward value in a gradient, is not stored if recomputing it
takes less time than writing and reading it.

Levels determine what may be joined: an op's level is at least that of its producers, and larger than that of producers with
which it cannot be joined. Two ops of one level then have no op between them that is not joined. Ops whose results only one
other op takes are computed as late as that one: they are lifted to its level.
"""
from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from penstock._src.base import dtypes, switches
from penstock._src.graph.frames import Frames
from penstock._src.kernels import pointwise
from penstock._src.kernels.pointwise import Columns, Plan, Step, Term
from penstock._src.ops import rules
from penstock._src.step.ir import Node, StepGraph, Value, is_free_constant
from penstock._src.step.loops.improve import chooses
from penstock._src.step.loops.invariants import invariant_ops
from penstock._src.step.optimize.transfers import Transfers

_LEAST = 2                   # the fewest ops of a group
_SHORTEST = 8                # columns of rows that are reduced here
_HEAVY = frozenset({"SIGMOID", "TANH", "EXP", "ERF", "ERFC", "LOG", "LOG1P", "SQRT", "RSQRT", "RECIPROCAL", "DIV", "EXPM1",
                    "SINE", "COSINE"})
_ARRAYS = 2                  # heavy instructions that take as long as writing or reading an array
_AGAIN = 20                  # ops of other groups that one computes again, at most
_LARGE = 1 << 14             # the fewest elements of arrays outside loops
MOST = 48
_REALS = (dtypes.float32, dtypes.float64)         # one of them in a group, and
_TYPES = (*_REALS, dtypes.bool)                   # booleans, only between joined ops
_EVERY_OP = switches.CHECK_NUMERICS.value()       # results of single ops are inspected


def join_pointwise(step: StepGraph) -> None:
    """Joins pointwise ops in the loops of a step, or those on large arrays of one without v1 control flow."""
    if not step.joins_pointwise:
        return
    if not any(op.opdef.back_edge for op in step.ops):
        if not step.has_control_flow:
            large = {op for op in step.ops if _is_large(op)}
            _join(step, [op for op in step.ops if op in large or _is_of_rows(op)], large)
        return
    frames = Frames(step.ops, step.fed)
    inner = {f for f in frames.of.values() if f.parent is not None and not chooses(f)}
    inside = in_bodies(op for op in step.ops if frames.of[op] in inner)
    _join(step, [op for op in step.ops if op in inside])


def join_body(step: StepGraph) -> None:
    """Joins pointwise ops in the body of a functional loop."""
    if step.joins_pointwise and not step.has_control_flow:
        apart = invariant_ops(step) if len(step.feeds) == len(step.fetches) else set()
        _join(step, [op for op in step.ops if op not in apart])


def join_among(step: StepGraph, ops: set[Node]) -> None:
    """Joins pointwise ops among some ops of a step without v1 control flow."""
    _join(step, [op for op in step.ops if op in ops])


def may_join(step: StepGraph) -> bool:
    """Whether pointwise ops of a step's loops are joined, if the pass runs."""
    return not step.is_placed and not _EVERY_OP and pointwise.available()


def _is_large(op: Node) -> bool:
    t = op.inputs[0] if op.opdef in rules.pointwise.reduces else op.outputs[0] if len(op.outputs) == 1 else None
    dims = None if t is None else t.static_dims
    return dims is not None and None not in dims and math.prod(dims) >= _LARGE


def _is_of_rows(op: Node) -> bool:
    """Whether an op may compute one number for each row of a large array."""
    dims = op.outputs[0].static_dims if len(op.outputs) == 1 else None
    return dims is not None and dims[-1:] == (1,)


def shape_of(op: Node) -> tuple[tuple, int]:
    """The rows and columns of the array that an op works on."""
    t = op.inputs[0] if op.opdef in rules.pointwise.reduces or op.opdef in rules.pointwise.columns else op.outputs[0]
    return t.static_dims[:-1], t.static_dims[-1]                                   # type: ignore[index]


def in_bodies(ops: Iterable[Node]) -> set[Node]:
    """The ops that run only in iterations, not when a loop is left.

    What takes a constant may keep its value and wait for nothing, unless it draws random numbers or has another effect.
    """
    inside: set[Node] = set()
    constants: set[Node] = set()             # of iterations
    for op in ops:
        waits = not inside.isdisjoint(op.control_inputs)
        if op.opdef.constant:
            constants |= {op} if waits else set()
        elif waits or any(t.op in inside or t.op in constants and not op.opdef.foldable
                          or t.op.opdef.control_flow == "switch" and t.value_index == 1 for t in op.inputs):
            inside.add(op)
    return inside


def _join(step: StepGraph, ops: list[Node], large: set[Node] | None = None) -> None:
    """Joins some of these ops; with `large`, each group contains one of those."""
    waited = {c for op in step.ops for c in op.control_inputs} | set(step.targets)
    able = {op for op in ops if op not in waited and _is_able(op, step)}
    if len(able) < _LEAST:
        return
    users = step.users()
    by: dict[int, Value] = {}
    again: set[tuple[int, Node]] = set()
    found = groups(step, able, users, agree=_agree)
    home = {op: i for i, group in enumerate(found) for op in group}
    order = {op: i for i, op in enumerate(step.ops)}
    for group in reversed(found):                                   # the last group first decides what it recomputes
        if large is None or not large.isdisjoint(group):
            step.ops += _made(group, by, step, users, waited, home, order, again)
    if by:
        step.substitute(by)
        step.sort()


def _made(group: list[Node], by: dict[int, Value], step: StepGraph, *known: Any) -> list[Node]:
    """The op for a group, and what it needs; one for each half of a group that is too large."""
    if len(group) < _LEAST:
        return []
    try:
        return _Group(step, group, *known).make(by)
    except ValueError:
        half = len(group) // 2
        return [op for part in (group[half:], group[:half]) for op in _made(part, by, step, *known)]


def _is_able(op: Node, step: StepGraph) -> bool:
    """Whether an op may be one of several: on arrays of its shape and type, what is repeated over them, and numbers."""
    if not rules.is_pointwise(op) or op.control_inputs or id(op.outputs[0]) in step.fed or \
            not pointwise.has(rules.pointwise.instruction.get(op.opdef, "ADD")):
        return False
    out = op.outputs[0]
    if op.opdef in rules.pointwise.reduces and not reduces_rows(op, step):
        return False
    source = op.inputs[0] if op.opdef in rules.pointwise.reduces else out
    dims = source.static_dims
    if out.dtype not in _TYPES or not dims or None in dims or not 0 < math.prod(dims) <= pointwise.LARGEST:
        return False
    if out.dtype == dtypes.bool and rules.pointwise.instruction.get(op.opdef) == "COPY":
        return False
    if op.opdef in rules.pointwise.over_rows and not _SHORTEST <= dims[-1] <= pointwise.WIDEST:
        return False
    if len(_reals([op])) > 1:
        return False
    return all(t.dtype in _REALS and (_place(t, dims) is not None or number_of(t, step) is not None)
               or t.dtype == dtypes.bool and (_place(t, dims) or (-1,))[0] >= 0 for t in values_of(op))


def values_of(op: Node) -> Sequence[Value]:
    """The inputs that an op computes with; others are axes and shapes."""
    only = 0 if op.opdef in rules.pointwise.reduces else rules.arithmetic.repeats.get(op.opdef)
    return op.inputs if only is None else [op.inputs[only]]


def reduces_rows(op: Node, step: StepGraph) -> bool:
    """Whether a reduction is one over the last axis."""
    x, axes = op.inputs
    return x.static_dims is not None and is_free_constant(axes, step) and \
        axes.op.attrs["value"].reshape(-1).tolist() in ([-1], [len(x.static_dims) - 1])


def _place(t: Value, dims: tuple) -> tuple[int, ...] | None:
    """The layout of a tensor's rows, from the stride on (see `Columns`), repeated over the shape `dims`; None if otherwise."""
    if t.static_dims is None or None in t.static_dims:
        return None
    if math.prod(t.static_dims) == 1 and len(t.static_dims) <= len(dims):
        return (pointwise.SAME,)
    own = (*(1,) * (len(dims) - len(t.static_dims)), *t.static_dims)
    if own == (*dims[:-1], 1):
        return (pointwise.PER_ROW,)
    if own[-1] != dims[-1] or math.prod(own[:len(own) - len(dims)]) != 1:
        return None
    return _repeated([(a, b) for a, b in zip(own[-len(dims):-1], dims[:-1], strict=True)], dims[-1])


def _repeated(axes: list[tuple[int, int]], columns: int) -> tuple[int, ...] | None:
    """The place of an array that has all columns, and the first of each pair of `axes` repeated to the second."""
    def take(kept: bool) -> int:
        size = 1
        while axes and (axes[-1][0] == axes[-1][1] if kept else axes[-1][0] == 1):
            size *= axes.pop()[1]
        return size
    rows, over, arrays, _ = take(True), take(False), take(True), take(False)
    if axes:
        return None
    turns = (rows * over, arrays, rows * columns) if arrays > 1 else ()
    return (columns, rows, *turns) if rows > 1 else (0, 0, *turns)


def number_of(t: Value, step: StepGraph) -> Any:
    """The value of a scalar that is a constant, also one that comes in from outside of the loop; else None."""
    op = t.op
    if op.opdef.control_flow == "enter" and op.attrs["is_constant"] and id(t) not in step.fed:
        t = op.inputs[0]
    return t.op.attrs["value"] if t.static_dims == () and is_free_constant(t, step) else None


def groups(step: StepGraph, able: set[Node], users: dict[int, list[Node]],
           late: Collection[Node] = frozenset(), agree: Callable[[list[Node]], bool] = lambda ops: True) -> list[list[Node]]:
    """The ops that can be joined, in their order: of one shape and one level, connected as producer and consumer or by a
    concatenation. Those in `late` are not joined with others, and only those that `agree` with each other."""
    level: dict[Node, int] = {}
    group: dict[Node, list[Node]] = {}
    transfers = Transfers(step)
    for op in step.ops:
        sources = [t.op for t in op.inputs if id(t) not in step.fed and t.op in level
                   and not (op in able and number_of(t, step) is not None)]
        close = [s for s in sources if op in able and s in able and (op in late) is (s in late) and fit(op, s)
                 and agree([op, s])]
        far = [s for s in (*sources, *op.control_inputs) if s in level and s not in close]
        level[op] = max([*(level[s] for s in close), *(level[s] + 1 for s in far)], default=0)
        if op in able:
            group[op] = [op]
            for s in close:
                if level[s] < level[op] and _only_for(op, group[s], users):
                    level.update(dict.fromkeys(group[s], level[op]))
            near = {id(group[s]): s for s in close if level[s] == level[op]}
            members = [op, *(o for s in near.values() for o in group[s])]
            if len(members) <= MOST and len(widths(members)) <= 1 and sums_one_way(members) and agree(members) and \
                    transfers.may_be_one(members):
                for s in near.values():
                    _merge(group, op, s)
            else:
                level[op] += 1
        elif op.opdef in rules.algebra.joins:
            for a, b in itertools.pairwise(s for s in sources if s in able):
                if level[a] == level[b] and (a in late) is (b in late) and a.place == b.place and \
                        a.outputs[0].static_dims == b.outputs[0].static_dims and \
                        len(group[a]) + len(group[b]) <= MOST and len(widths([*group[a], *group[b]])) <= 1 and \
                        sums_one_way([*group[a], *group[b]]) and agree([*group[a], *group[b]]) and \
                        transfers.may_be_one([*group[a], *group[b]]):
                    _merge(group, a, b)
    order = {op: i for i, op in enumerate(step.ops)}
    found = [sorted(g, key=order.__getitem__) for g in {id(g): g for g in group.values()}.values()]
    return sorted(found, key=lambda g: order[g[0]])


def fit(op: Node, source: Node) -> bool:
    """Whether an op may be joined with a producer: they are on one device, and have the same rows."""
    if op.place != source.place or source.opdef in rules.pointwise.columns:
        return False
    if source.opdef in rules.pointwise.reduces and not source.attrs["keep_dims"]:
        return False
    return shape_of(op)[0] == shape_of(source)[0] and len(widths([op, source])) <= 1


def sums_one_way(ops: Iterable[Node]) -> bool:
    """Whether ops reduce rows or columns, not both: one kernel goes along rows, the other one down columns."""
    kinds = {op.opdef for op in ops}
    return kinds.isdisjoint(rules.pointwise.columns) or kinds.isdisjoint(rules.pointwise.over_rows)


def is_light(op: Node) -> bool:
    """Whether an op takes little time beside reading its arrays."""
    return (rules.pointwise.on_device.get(op.opdef) or rules.pointwise.instruction.get(op.opdef, "TANH")) not in _HEAVY


def widths(ops: Iterable[Node]) -> set[int]:
    """The numbers of columns of some ops. One column goes with any number of them: it is one number for each row."""
    return {shape_of(op)[1] for op in ops} - {1}


def _reals(ops: Iterable[Node]) -> set[dtypes.DType]:
    """The types of the numbers that some ops compute with."""
    return {t.dtype for op in ops for t in (*op.outputs, *values_of(op)) if t.dtype != dtypes.bool}


def _agree(ops: list[Node]) -> bool:
    """Whether ops compute with numbers of one type."""
    return len(_reals(ops)) <= 1


def _only_for(op: Node, group: list[Node], users: dict[int, list[Node]]) -> bool:
    """Whether `op` is the only consumer of a group, so that the group may be computed as late as `op`."""
    return all(u is op or u in group for g in group for u in users.get(id(g.outputs[0]), ()))


def _merge(group: dict[Node, list[Node]], a: Node, b: Node) -> None:
    one, other = group[a], group[b]
    if one is not other:
        one.extend(other)
        group.update(dict.fromkeys(other, one))


class _Group:
    """Writes the plan of ops that become one."""

    def __init__(self, step: StepGraph, ops: list[Node], users: dict[int, list[Node]], waited: set[Node],
                 home: dict[Node, int], order: dict[Node, int], again: set[tuple[int, Node]]):
        self.step, self.ops, self.users, self.waited, self.home, self.order = step, ops, users, waited, home, order
        self.again = again                  # tensor id, user: which values are computed again where they are used
        self.inside = set(ops)
        self.columns = max(shape_of(op)[1] for op in ops)
        self.real = next(iter(_reals(ops)), dtypes.float32)
        self.dims: tuple = (*shape_of(ops[0])[0], self.columns)
        self.rows = math.prod(self.dims[:-1])
        self.given: dict[int, Value] = {}
        self.terms: list[Term] = []
        self.known: dict[int, int] = {}                              # tensor id -> term
        self.read: dict[str | Columns, int] = {}                     # number, or place -> term
        self.repeated: list[Node] = []                               # ops of other groups that are computed here again
        self.fetched = {id(t) for t in step.fetches}
        self.bare: dict[int, tuple[Node, Value]] = {}  # tensor id -> op that returns it without a row, and the row

    def make(self, by: dict[int, Value]) -> list[Node]:
        """One op for several, and what it needs; `by`: which of its results represent which tensors. ValueError if it is too
        large, or if an input fits some of the ops only."""
        self._repeat()
        for op in (*self.repeated, *self.ops):
            self._write(op)
        joined = self._joined()
        wanted = [t for op in self.ops for t in op.outputs if self._is_wanted(t, joined)]
        if any(t.dtype == dtypes.bool for t in wanted):
            raise ValueError("conditions are not results")
        outputs = [*wanted, *(op.outputs[0] for op in joined)]
        if not outputs:                          # every group that needs these values computes them again
            return []
        written = [(self.known[id(t)], Columns(i, 0, self._stride(t))) for i, t in enumerate(wanted)]
        for i, op in enumerate(joined, len(wanted)):
            *parts, _ = op.inputs
            written += [(self.known[id(t)], Columns(i, k * self.columns, len(parts) * self.columns))
                        for k, t in enumerate(parts)]
        given = list(self.given.values())
        truths = [i for i, t in enumerate(given) if t.dtype == dtypes.bool]
        plan = Plan(self.rows, self.columns, [math.prod(t.static_dims) for t in given],      # type: ignore[arg-type]
                    [t.static_dims for t in outputs], self.terms, written, truths, self.real.torch)   # type: ignore[misc, arg-type]
        last = self.ops[-1]
        attrs = {"N": len(given), "M": len(outputs), "T": self.real, "plan": plan}
        made = self.step.make("_Pointwise", given, attrs, last, [t.static_dims for t in outputs],
                              [t.dtype for t in outputs], [])
        made.counts = (len(given),)
        by.update({id(t): other for t, other in zip(outputs, made.outputs, strict=True)})
        for op in self.repeated:
            self.again.update((id(op.outputs[0]), u) for u in self.ops)
            for t in values_of(op):
                self.users.setdefault(id(t), []).append(last)
        return [*(op for op, _ in self.bare.values()), made]

    def _stride(self, t: Value) -> int:
        """The layout of the rows of a result."""
        return self.columns if t.static_dims == self.dims else pointwise.PER_ROW

    def _repeat(self) -> None:
        """Finds values of other groups that are computed here again: what light instructions make of values that are read
        anyway, and what takes less time than storing it."""
        read: dict[int, Value] = {id(t): t for op in self.ops for t in values_of(op) if t.op not in self.inside}
        here = {i for i, t in read.items() if t.op not in self.home}
        found: set[Node] = set()
        for t in sorted(read.values(), key=lambda t: self.order.get(t.op, -1)):
            if self._is_again(t) and is_light(t.op) and \
                    (t.dtype == dtypes.bool or all(id(s) in here or self._is_small(s) for s in values_of(t.op))):
                found.add(t.op)
            here.add(id(t))
        left = [t for t in read.values() if self._is_again(t) and t.op not in found and not self._is_stored(t)]
        more: set[Node] = set()
        roots: dict[int, Value] = {}
        for t in left:
            self._trace(t, more, roots)
        new = [t for i, t in roots.items() if i not in read]
        saved = 2 * len(left) - len(new) - sum(t.op in self.home and not self._is_stored(t) for t in new)
        if left and len(more) <= _AGAIN and sum(not is_light(op) for op in more) < _ARRAYS * saved:
            found |= more
        self.repeated = sorted(found, key=self.order.__getitem__)

    def _is_again(self, t: Value) -> bool:
        """Whether a value of another group is one that can be computed here."""
        return t.op in self.home and t.op not in self.inside and t.static_dims == self.dims and id(t) not in self.fetched and \
            t.op.opdef not in rules.pointwise.over_rows and _reals([t.op]) <= {self.real}

    def _is_stored(self, t: Value) -> bool:
        """Whether ops other than those of this group, and of that which computes it, use a value."""
        return any(self.home.get(u) != self.home[t.op] and u not in self.inside and (id(t), u) not in self.again
                   for u in self.users.get(id(t), ()))

    def _trace(self, t: Value, ops: set[Node], roots: dict[int, Value]) -> None:
        """Collects the ops that compute a value, up to values of this shape that are stored."""
        ops.add(t.op)
        for s in values_of(t.op):
            if self._is_again(s) and not self._is_stored(s):
                if s.op not in ops:
                    self._trace(s, ops, roots)
            elif not self._is_small(s):
                roots[id(s)] = s

    def _is_small(self, t: Value) -> bool:
        """Whether reading a tensor takes little next to an array of the plan's shape."""
        return number_of(t, self.step) is not None or t.static_dims != self.dims and (_place(t, self.dims) or (1,))[0] <= 0

    def _is_wanted(self, t: Value, joined: list[Node]) -> bool:
        return id(t) in self.fetched or any(u not in self.inside and u not in joined and (id(t), u) not in self.again
                                            for u in self.users.get(id(t), ()))

    def _write(self, op: Node) -> None:
        sources = [self._source(t) for t in values_of(op)]
        if op.opdef in rules.pointwise.formula:
            found = rules.pointwise.formula[op.opdef](self, op, *sources)
        elif op.opdef in rules.algebra.sums:                                          # of any number of arrays
            found = functools.reduce(functools.partial(self.step_of, rules.pointwise.instruction[op.opdef]), sources)
        else:
            found = self.step_of(rules.pointwise.instruction[op.opdef], *sources)
        self.known[id(op.outputs[0])] = found if isinstance(self.terms[found], Step) else self.step_of("COPY", found)

    def step_of(self, kind: str, *sources: int) -> int:
        """The term that is the result of an instruction."""
        self.terms.append(Step(kind, sources))
        return len(self.terms) - 1

    def number(self, value: float) -> int:
        """The term of a number."""
        return self._read(value)

    def _source(self, t: Value) -> int:
        """The term that a tensor is."""
        if id(t) in self.known:
            return self.known[id(t)]
        number = number_of(t, self.step)
        if number is not None:
            return self._read(float(number))
        if t.static_dims != self.dims:
            place = _place(t, self.dims)
            if place is None:                 # it fits an op of one column, and not the others of the group
                raise ValueError("no place")
            return self._read(self._columns(t, 0, *place))
        whole, offset = (t.op.inputs[1], t.value_index * self.columns) if self._is_part(t) else (t, 0)
        width: int = whole.static_dims[-1]                                 # type: ignore[index]
        bare = self._without_row(whole)
        if bare is None:
            return self._read(self._columns(whole, offset, width))
        maker, row = bare
        self.terms.append(Step("ADD", (self._read(self._columns(maker.outputs[0], offset, width)),
                                       self._read(self._columns(row, offset, 0)))))
        self.known[id(t)] = len(self.terms) - 1
        return self.known[id(t)]

    def _read(self, term: float | Columns) -> int:
        key = term.hex() if isinstance(term, float) else term
        if key not in self.read:
            self.read[key] = len(self.terms)
            self.terms.append(term)
        return self.read[key]

    def _columns(self, t: Value, offset: int, *place: int) -> Columns:
        self.given[id(t)] = t
        return Columns(list(self.given).index(id(t)), offset, *place)

    def _is_part(self, t: Value) -> bool:
        """Whether a tensor is some columns of what its op is given."""
        op = t.op
        return op.opdef in rules.algebra.divides and id(t) not in self.step.fed and not op.control_inputs and \
            _along_last_axis(op, op.inputs[0], self.step)

    def _without_row(self, t: Value) -> tuple[Node, Value] | None:
        """An op that returns `t` without the row that was added to it, and this row, if this group is the only consumer of
        `t`."""
        op = t.op
        if id(t) not in self.bare and op.opdef in rules.pointwise.without_row and op not in self.waited and \
                not op.control_inputs and self._is_ours(t):
            found = rules.pointwise.without_row[op.opdef](op)
            if found is not None:
                opdef, inputs, attrs, row = found
                self.bare[id(t)] = self.step.make(opdef, inputs, attrs, op, [t.static_dims]), row
        return self.bare.get(id(t))

    def _is_ours(self, t: Value) -> bool:
        """Whether only ops of this group take a tensor, or parts of it."""
        return id(t) not in self.fetched and id(t) not in self.step.fed and all(
            u in self.inside or u not in self.waited and u.opdef in rules.algebra.divides and
            all(self._is_part(p) and p.static_dims == self.dims and self._is_ours(p) for p in u.outputs)
            for u in self.users.get(id(t), ()))

    def _joined(self) -> list[Node]:
        """The ops that put results, and nothing else, side by side."""
        users = {id(u): u for op in self.ops for u in self.users.get(id(op.outputs[0]), ())}
        return [u for u in users.values() if u.opdef in rules.algebra.joins and not u.control_inputs and u not in self.waited
                and id(u.outputs[0]) not in self.step.fed
                and all(t.op in self.inside and t.static_dims == self.dims for t in u.inputs[:-1])
                and _along_last_axis(u, u.inputs[-1], self.step)]


def _along_last_axis(op: Node, axis: Value, step: StepGraph) -> bool:
    rank = len(op.outputs[0].static_dims or ())
    number = number_of(axis, step)
    return number is not None and int(number) in (-1, rank - 1)
