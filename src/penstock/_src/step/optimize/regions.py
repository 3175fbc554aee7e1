"""Regions: ops on small arrays of known shapes become one op, which runs them in one call.

An iteration of a loop is a few products of small matrices, and pointwise ops, parts and joins between them: calling each takes
longer than computing it. Ops with a rule for regions (`rules.regions`), those of pointwise plans, and those that only move
elements are joined (`kernels/regions.py`). Elements are floats, doubles, integers or booleans; scalars that a loop keeps as
Python numbers stay so.

Levels determine what may be joined: a consumer of a region's result through an op that cannot be in a region has a higher
level. All ops of one level form one region, because no path leads from one of them out of the region and back to another.

In dataflow loops of v1, a path through an inner loop may go through its back edges, which levels do not follow. So only loops
without another one inside are changed: a path that leaves such a loop does not come back in the same iteration.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock._src.base import dtypes, errors
from penstock._src.graph.build import group_inputs
from penstock._src.graph.failure import typed
from penstock._src.graph.frames import Frames
from penstock._src.kernels import pointwise, regions
from penstock._src.kernels.bridge import to_torch
from penstock._src.kernels.regions import Builder, Unfit, View
from penstock._src.ops import rules
from penstock._src.ops.registry import get
from penstock._src.step.ir import Node, StepGraph, Value, is_free_constant
from penstock._src.step.loops import outer_sum
from penstock._src.step.loops.counted import numbers_of_body, numbers_of_frame
from penstock._src.step.loops.improve import chooses
from penstock._src.step.loops.invariants import invariant_ops
from penstock._src.step.optimize.pointwise import in_bodies, join_among
from penstock._src.step.optimize.transfers import Transfers

_MANY = 12                   # such ops of a step outside of loops
_OTHERS = 3                  # of them that are not arithmetic on few numbers, which small.py does as fast, to the bit
_LEAST = 2                   # ops of a region that would have been calls
_LARGEST = 1 << 16           # elements of a result: larger arrays take longer than calls
_FEW = 1 << 9                # elements of which a function is computed one by one: ATen computes more of them in vectors
_LARGEST_GIVEN = 1 << 20     # of what is read
_LARGEST_TABLE = 1 << 30     # of what rows are gathered from
_REALS = (dtypes.float32, dtypes.float64)
_KINDS = {t: regions.KINDS[t.torch] for t in (*_REALS, dtypes.bool, dtypes.int32, dtypes.int64) if t.torch is not None}


def join_regions_of_body(step: StepGraph) -> None:
    """Joins ops in the body of a functional loop. What stays the same in all iterations is written before it, and sums over all
    iterations are added up behind it: these ops stay."""
    if step.joins_pointwise and not step.has_control_flow and regions.available():
        is_loop = len(step.feeds) == len(step.fetches)               # else it is a branch inside of one
        apart = invariant_ops(step) | _sums(step) if is_loop else set()
        _join(step, _able(step, apart | _numbers(step, is_loop)))


def join_regions(step: StepGraph) -> None:
    """Joins ops of a step without v1 control flow, if there are many; pointwise ops among them first become one where they
    can. With v1 control flow, joins ops in its loops."""
    if not step.joins_pointwise or not regions.available():
        return
    if step.has_control_flow:
        _join_in_frames(step)
        return
    draws = {op for op in step.ops if op.opdef.random}       # a recording draws by itself (step/compile/recorded.py)
    able = _able(step, draws)
    calls = [op for op in able if not _is_view(op) and op.outputs[0].dtype in _REALS]
    if len(calls) >= _MANY and sum(op.opdef not in rules.small.text for op in calls) >= _OTHERS:
        join_among(step, able)
        _join(step, _able(step, draws))


def _join_in_frames(step: StepGraph) -> None:
    """Joins ops in the iterations of dataflow loops that contain no other loop and no conditional."""
    if not any(op.opdef.back_edge for op in step.ops):
        return
    frames = Frames(step.ops, step.fed)
    around = {f.parent for f in frames.of.values()}
    inner = [f for f in dict.fromkeys(frames.of.values()) if f not in around and f.parent is not None and not chooses(f)]
    inside = in_bodies(op for op in step.ops if frames.of[op] in inner)
    taken = {id(t) for op in step.ops for t in op.inputs} | {id(t) for t in step.fetches}
    uses = outer_sum.count_uses(step.ops, step.fetches)
    apart = {op for op in step.ops if op not in inside}
    for frame in inner:
        numbers = numbers_of_frame(frames, frame, taken, step.fed)
        apart |= {op for op in frame.ops if op.outputs and id(op.outputs[0]) in numbers}
        for _, s in outer_sum.find_in_frame(frame, uses, step.fed):
            apart |= {s.addition, s.product, *s.between}
    _join(step, _able(step, apart), frames.of)


def _sums(step: StepGraph) -> set[Node]:
    """The ops of sums of products over all iterations (step/loops/outer_sum.py)."""
    uses = outer_sum.count_uses(step.ops, step.fetches)
    identity = get("Identity")
    found: set[Node] = set()
    for t, following in zip(step.feeds, step.fetches, strict=True):
        if t is not following and uses.get(id(t)) == 1:
            s = outer_sum.find([t], following, uses, lambda op: op.opdef is identity, step.ops)
            found |= set() if s is None else {s.addition, s.product, *s.between}
    return found


def _numbers(step: StepGraph, is_loop: bool) -> set[Node]:
    """The ops on scalars that are Python numbers in the program of a loop."""
    found = numbers_of_body(step.ops, step.feeds, step.fetches if is_loop else step.feeds)
    return {op for op in step.ops if op.outputs and id(op.outputs[0]) in found}


def _able(step: StepGraph, apart: set[Node]) -> set[Node]:
    """The ops that may be joined, except for those `apart`."""
    waited = {c for op in step.ops for c in op.control_inputs} | {op for op in step.targets if not op.opdef.random}
    return {op for op in step.ops if op not in waited and op not in apart and _is_able(op, step)}


def _join(step: StepGraph, able: set[Node], frames: dict[Node, Any] | None = None) -> None:
    """Joins ops of a step; only those of one frame, if `frames` are given."""
    by: dict[int, Value] = {}
    groups = _groups(step, able, frames or {})
    for ops in groups:
        made = _made(step, ops, groups)
        if made is not None:
            node, outputs = made
            step.ops += [node]
            by.update({id(t): other for t, other in zip(outputs, node.outputs, strict=True)})
    if by:
        step.substitute(by)
        step.sort()


def _is_able(op: Node, step: StepGraph) -> bool:
    """Whether an op may be one of a region, by its type and its shapes."""
    if _rule(op) is None or op.control_inputs and not op.opdef.random or not op.outputs:
        return False
    for t in op.outputs:
        if t.dtype not in _KINDS or not _is_known(t) or id(t) in step.fed or not 0 < _size(t) <= _LARGEST:
            return False
    most = _LARGEST_TABLE if op.opdef in rules.regions.tables else _LARGEST_GIVEN
    return all(_is_constant(t, step) or t.dtype in _KINDS and _is_known(t) and 0 < _size(t) <= most for t in op.inputs)


def _is_known(t: Value) -> bool:
    return t.static_dims is not None and None not in t.static_dims


def _size(t: Value) -> int:
    return math.prod(t.static_dims)                                      # type: ignore[arg-type]


def _is_constant(t: Value, step: StepGraph) -> bool:
    t = _outside(t, step)
    return is_free_constant(t, step)


def _outside(t: Value, step: StepGraph) -> Value:
    """What comes into a dataflow loop as `t`, if it is the same in all iterations."""
    while t.op.opdef.control_flow == "enter" and t.op.attrs["is_constant"] and id(t) not in step.fed:
        t = t.op.inputs[0]
    return t


def _groups(step: StepGraph, able: set[Node], frames: dict[Node, Any]) -> list[list[Node]]:
    """The ops of each level and frame that wait for the same results of other parts (`transfers.py`)."""
    level: dict[Node, int] = {}
    groups: dict[tuple[int, int, Any], list[Node]] = {}
    transfers = Transfers(step)
    for op in step.ops:
        before = [s for s in (*(t.op for t in op.inputs if id(t) not in step.fed), *op.control_inputs) if s in level]
        level[op] = max((level[s] + (s in able and op not in able) for s in before), default=0)
        if op in able:
            groups.setdefault((level[op], transfers.received(op), frames.get(op)), []).append(op)
    return list(groups.values())


def _made(step: StepGraph, ops: list[Node], groups: list[list[Node]]) -> tuple[Node, list[Value]] | None:
    """One op for several, and the tensors that its results represent; None if that is not less work.

    The ops that depend on an op that does not fit form another group.
    """
    ops = list(ops)
    while True:
        ops = _connected(ops, {id(t) for t in step.fetches})
        inside = set(ops)
        if sum(not _is_view(op) for op in ops) < _LEAST:
            return None
        fetched = {id(t) for t in step.fetches}
        wanted = [t for op in ops for t in op.outputs if id(t) in fetched or any(u not in inside for u in t.users)]
        writer = Writer(step)
        try:
            for op in ops:
                writer.write(op)
            region = writer.finish([writer.views[id(t)] for t in wanted])
            break
        except Unfit:
            waiting = _waiting(ops, op)
            ops = [other for other in ops if other not in waiting]
            groups.append([other for other in waiting if other is not op])
    region.failures = writer.failures(ops)
    region.ops = sum(not _is_view(op) for op in ops)
    given = list(writer.values.values())
    attrs = {"Tin": [t.dtype for t in given], "Tout": [t.dtype for t in wanted], "region": region}
    kind, waits = ("_DrawingRegion", _in_iteration(ops)) if region.sources else ("_Region", [])
    if step.has_control_flow and not given and not waits:                # nothing would tell in which iteration it runs
        return None
    node = step.make(kind, given, attrs, ops[-1], [t.static_dims for t in wanted], [t.dtype for t in wanted], waits)
    node.counts = (len(given),)
    step.targets = list(dict.fromkeys(node if op in inside else op for op in step.targets))
    return node, wanted


def _in_iteration(ops: list[Node]) -> list[Node]:
    """What ops that draw random numbers wait for: in a dataflow loop it may be the only sign that they are in it."""
    draws = [op for op in ops if op.opdef.random]
    return list(dict.fromkeys(c for op in draws for before in (op, *(t.op for t in op.inputs)) for c in before.control_inputs))


def _waiting(ops: list[Node], op: Node) -> dict[Node, None]:
    """An op and those of these that take, directly or not, what it returns."""
    found = {op: None}
    for other in ops:
        if any(t.op in found for t in other.inputs):
            found[other] = None
    return found


def _connected(ops: list[Node], fetched: set[int]) -> list[Node]:
    """Removes views without uses inside the region: they cost less than a copy. New shapes of results cost nothing."""
    inside = set(ops)
    while True:
        idle = {op for op in inside if _is_view(op) and not any(u in inside for t in op.outputs for u in t.users)
                and not _is_new_shape(op, inside, fetched)}
        idle |= {op for op in inside if _is_view(op) and not any(t.op in inside for t in op.inputs)
                 and any(u not in inside for t in op.outputs for u in t.users)}
        if not idle:
            return [op for op in ops if op in inside]
        inside -= idle


def _is_new_shape(op: Node, inside: set[Node], fetched: set[int]) -> bool:
    """Whether an op only gives a result of a region another shape, and is the only consumer of that result."""
    x = op.inputs[0]
    return op.opdef in rules.arithmetic.reshapes and x.op in inside and not _is_view(x.op) and id(x) not in fetched and \
        all(u is op for u in x.users)


def _is_view(op: Node) -> bool:
    """Whether an op is a view of its input."""
    moves = (rules.arithmetic.reshapes, rules.arithmetic.permutes, rules.regions.views)
    return any(op.opdef in ops for ops in moves) or rules.forwards(op)


def _rule(op: Node) -> Any:
    """The rule that writes an op into a region, or None."""
    found = rules.regions.lower.get(op.opdef)
    if found is not None:
        return found
    if not _is_of_floats(op):
        if op.opdef in rules.regions.folds:
            return _folded
        if op.opdef in rules.regions.each:
            return _each
    elif op.opdef in rules.pointwise.reduces:
        return _reduction
    elif rules.is_pointwise(op):
        return _pointwise
    elif op.opdef in rules.regions.folds:
        return _folded
    elif op.opdef in rules.regions.functions:
        return _function
    if op.opdef in rules.arithmetic.reshapes or rules.forwards(op) and len(op.outputs) == 1:
        return _reshaped
    return _permuted if op.opdef in rules.arithmetic.permutes else None


def _is_of_floats(op: Node) -> bool:
    """Whether an op computes floats of floats, or doubles of doubles, and of conditions on them."""
    kind = op.outputs[0].dtype
    return kind in _REALS and all(t.dtype in (kind, dtypes.bool) for t in _values(op))


def _values(op: Node) -> Sequence[Value]:
    """The inputs that a pointwise op, or a reduction, computes with; others are axes and shapes."""
    only = 0 if op.opdef in rules.pointwise.reduces or op.opdef in rules.regions.folds else \
        rules.arithmetic.repeats.get(op.opdef)
    return op.inputs if only is None else [op.inputs[only]]


class Writer(Builder):
    """Writes ops into a region. Rules get the views and constants of an op from it."""

    def __init__(self, step: StepGraph) -> None:
        super().__init__()
        self.step = step
        self.views: dict[int, View] = {}             # by the ids of tensors
        self.values: dict[int, Value] = {}           # that are given
        self.makers: dict[int, Node] = {}            # of instructions
        self.drawers: list[Node] = []                # of `draws`

    def write(self, op: Node) -> None:
        """Writes an op."""
        first = len(self.instructions)
        views = _rule(op)(op, self)
        self.makers.update(dict.fromkeys(range(first, len(self.instructions)), op))
        self.drawers += [op] * (len(self.draws) - len(self.drawers))
        if [v.kind for v in views] != [_KINDS[t.dtype] for t in op.outputs]:
            raise Unfit(f"{op.name} has a different type")
        for t, view in zip(op.outputs, views, strict=True):
            if tuple(view.dims) != t.static_dims:
                raise Unfit(f"{op.name} has a different shape")
            self.views[id(t)] = view

    def failures(self, ops: list[Node]) -> dict[int, Callable[..., Exception]]:
        """The errors of instructions that may fail. An op with its own message runs again by itself to raise it."""
        given = list(self.values)

        def error(i: int, values: list, places: Sequence[bytearray] = ()) -> Exception:
            message, known = self.messages[i], dict(zip(given, values, strict=True))
            known |= {id(op.outputs[0]): few.before(place)
                      for op, (few, _), place in zip(self.drawers, self.draws, places, strict=True)}
            found = _again(ops, known) if message is None else errors.invalid(message)
            return typed(found, self.makers[i])                          # type: ignore[return-value]
        return {i: functools.partial(error, i) for i in self.messages}

    def view(self, t: Value) -> View:
        """The view that a tensor is."""
        if id(t) not in self.views:
            if not _size(t):
                raise Unfit(f"{t.name} is empty")
            self.views[id(t)] = self.value(t.static_dims, self.kind(t))                 # type: ignore[arg-type]
            self.values[id(t)] = t
        return self.views[id(t)]

    def kind(self, t: Value) -> int:
        """The kind of a tensor's elements."""
        if t.dtype not in _KINDS:
            raise Unfit("another type")
        return _KINDS[t.dtype]

    def constant(self, t: Value) -> np.ndarray:
        """The value of a constant."""
        if not _is_constant(t, self.step):
            raise Unfit(f"{t.name} is not known")
        return _outside(t, self.step).op.attrs["value"]

    def operand(self, t: Value) -> View | float:
        """A tensor as an operand of pointwise instructions: constant scalars are numbers."""
        if t.static_dims == () and _is_constant(t, self.step) and t.dtype in _REALS:
            return float(self.constant(t))
        return self.view(t)


def _again(ops: list[Node], values: dict[int, Any]) -> Exception:
    """The error of the first op that fails on the inputs `values`."""
    for op in ops:
        if all(id(t) in values for t in op.outputs):                     # it was drawn
            continue
        given = [values[id(t)] if id(t) in values else to_torch(t.op.attrs["value"], t.dtype) for t in op.inputs]
        kernel = op.opdef.kernel_for("cpu")
        try:
            out = kernel.bind(op.attrs, op)(*group_inputs(op.opdef, given, op.counts))
        except Exception as e:
            return typed(e, op)                                          # type: ignore[return-value]
        values.update((id(t), v) for t, v in zip(op.outputs, out if isinstance(out, (list, tuple)) else [out], strict=True))
    return errors.InternalError(None, None, "A region fails where its operations do not")


def _each(op: Node, r: Writer) -> list[View]:
    out, views = op.outputs[0], [r.view(t) for t in _values(op)]
    write = functools.partial(r.each, rules.regions.each[op.opdef], dims=out.static_dims or (), to_kind=_KINDS[out.dtype])
    return [functools.reduce(lambda a, b: write([a, b]), views) if op.opdef in rules.algebra.sums else write(views)]


def _function(op: Node, r: Writer) -> list[View]:
    dims = op.outputs[0].static_dims or ()
    if math.prod(dims) > _FEW:
        raise Unfit("many elements")
    return [r.each(rules.regions.functions[op.opdef], [r.view(t) for t in op.inputs], dims, _KINDS[op.outputs[0].dtype])]


def _folded(op: Node, r: Writer) -> list[View]:
    x, axes = op.inputs
    found = r.folded(rules.regions.folds[op.opdef], r.view(x), r.constant(axes).reshape(-1).tolist())
    return [r.reshaped(found, op.outputs[0].static_dims or ())]


def _pointwise(op: Node, r: Writer) -> list[View]:
    values = _values(op)
    dims = op.outputs[0].static_dims or ()

    def write(terms: Any, *sources: int) -> int:
        if op.opdef in rules.pointwise.formula:
            return rules.pointwise.formula[op.opdef](terms, op, *sources)
        kind = rules.pointwise.instruction[op.opdef]
        if not pointwise.has(kind):
            raise Unfit(f"no instruction {kind}")
        if op.opdef in rules.algebra.sums:
            return functools.reduce(functools.partial(terms.step_of, kind), sources)
        return terms.step_of(kind, *sources)
    return [r.terms(dims, [r.operand(t) for t in values], write, _KINDS[op.outputs[0].dtype])]


def _reduction(op: Node, r: Writer) -> list[View]:
    x, axes = op.inputs
    view = r.view(x)
    gone = r.constant(axes).reshape(-1).tolist()
    if op.opdef in rules.pointwise.formula:                              # a mean
        scale = 1.0 / math.prod(view.dims[a] for a in {a % len(view.dims) for a in gone})
        found = r.reduced(view, gone, scale=scale)
    else:
        found = r.reduced(view, gone, rules.pointwise.instruction[op.opdef] == "ROW_MAXIMUM")
    return [r.reshaped(found, op.outputs[0].static_dims or ())]


def _reshaped(op: Node, r: Writer) -> list[View]:
    return [r.reshaped(r.view(op.inputs[0]), op.outputs[0].static_dims or ())]


def _permuted(op: Node, r: Writer) -> list[View]:
    return [r.permuted(r.view(op.inputs[0]), r.constant(op.inputs[1]).tolist())]
