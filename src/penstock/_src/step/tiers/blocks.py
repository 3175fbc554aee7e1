"""Known blocks in programs: attention, forward and backward, runs as fused kernels before a step is compiled, too.

Around each softmax, the ops that compute with its matrix of scores are one block: they make or take values of its shape. The
block is traced as a whole step is (`lower.py`), and searched for attention by the same code (`attention.py`). Where that finds
it, two ops replace the block: what does not depend on later results, and the rest, the gradient. A value that only the second
one needs (the kernel's state) is an opaque result of the first. Blocks that are the same, such as the layers of a network, are
traced once.
"""
from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes
from penstock._src.ops import rules
from penstock._src.ops.registry import internal
from penstock._src.step.compile.program import write_program
from penstock._src.step.ir import Node, StepGraph, Value
from penstock._src.step.tiers import attention, lower

_MOST = 96                   # ops of a block
_SMALL = 64                  # elements of constants that a product takes: shapes and axes, not matrices
_FOUR = 4                    # axes of what the kernels take
_log = logging.getLogger("penstock")

block_op = internal("_Block", "values: Tin -> results: Tout", "Tin: list(type), Tout: list(type)")
drawing_block_op = internal("_DrawingBlock", "values: Tin -> results: Tout", "Tin: list(type), Tout: list(type)", stateful=True)
drawing_block_op.random = True
for _op in (block_op, drawing_block_op):
    _op.kernel(lambda values, *, run: run(values))


def use_blocks(step: StepGraph, ctx: Any) -> None:
    """Replaces attention in a step on a GPU that has no v1 control flow."""
    if step.has_control_flow:
        return
    known: dict[Any, _Traced | None] = {}
    for softmax in [op for op in step.ops if _begins(op)]:
        members = _Search(step, softmax).members()
        if members is not None:
            _replace(step, members, ctx, known)


def _begins(op: Node) -> bool:
    """Whether an op is a softmax of matrices on a GPU."""
    if op.opdef not in rules.attention.softmax or not _is_on_gpu(op):
        return False
    dims = op.outputs[0].static_dims
    return dims is not None and len(dims) > 2 and None not in dims and math.prod(dims) > 0


def _is_on_gpu(op: Node) -> bool:
    return op.place is not None and op.place.kernel_type == "gpu"


class _Search:
    """Finds the ops around the scores of a softmax."""

    def __init__(self, step: StepGraph, softmax: Node):
        self.step, self.softmax = step, softmax
        dims = tuple(softmax.outputs[0].static_dims or ())
        self.size, self.tail = math.prod(dims), dims[-2:]
        self.waited = {c for op in step.ops for c in op.control_inputs} | set(step.targets)

    def members(self) -> set[Node] | None:
        """The ops, with at least one product that makes scores and one that takes them; None if there are none."""
        found, left, ends = {self.softmax}, [self.softmax], set()
        while left:
            op = left.pop()
            makers = [t.op for t in op.inputs if self._scores(t) and id(t) not in self.step.fed]
            takers = [u for t in op.outputs if self._scores(t) or self._per_row(t) for u in t.users]
            for near in (*makers, *takers):
                if near in found:
                    continue
                if len(found) == _MOST or not self._able(near):
                    return None
                found.add(near)
                if _passes(near):
                    left.append(near)
                else:
                    ends.add(near)
        makes = any(self._scores(t) for op in ends for t in op.outputs)
        takes = any(self._scores(t) for op in ends for t in op.inputs)
        return found if makes and takes else None

    def _scores(self, t: Value) -> bool:
        dims = t.static_dims
        return dims is not None and None not in dims and tuple(dims[-2:]) == self.tail and math.prod(dims) == self.size

    def _per_row(self, t: Value) -> bool:
        dims = t.static_dims
        return dims is not None and None not in dims and dims[-1:] == (1,) and math.prod(dims) * self.tail[1] == self.size

    def _able(self, op: Node) -> bool:
        if op.opdef.random:
            return not (op.attrs.get("seed") or op.attrs.get("seed2"))
        return op.opdef.foldable and not op.opdef.calls and not op.control_inputs and op not in self.waited and \
            op.place is self.softmax.place and all(id(t) not in self.step.fed for t in op.outputs)


def _passes(op: Node) -> bool:
    """Whether the values around an op belong to the block: it is no product."""
    kind = op.opdef
    return kind.random or rules.is_pointwise(op) or kind in rules.algebra.elementwise or kind in rules.algebra.sums or \
        kind in rules.arithmetic.reshapes or kind in rules.arithmetic.repeats or kind in rules.arithmetic.permutes or \
        kind in rules.pointwise.on_device


def _replace(step: StepGraph, members: set[Node], ctx: Any, known: dict[Any, _Traced | None]) -> None:
    ops = [op for op in step.ops if op in members]
    constants = {t.op for op in ops for t in op.inputs if t.op.opdef.constant and id(t) not in step.fed and
                 (_passes(op) or math.prod(t.static_dims or ()) <= _SMALL)}
    inside = [op for op in step.ops if op in members or op in constants]
    given = list(dict.fromkeys(t for op in ops for t in op.inputs if t.op not in members and t.op not in constants))
    fetched = {id(t) for t in step.fetches}
    made = [t for op in ops for t in op.outputs if id(t) in fetched or any(u not in members for u in t.users)]
    if not all(t.static_dims is not None and None not in t.static_dims and t.dtype.torch is not None for t in (*given, *made)):
        return
    for op in step.ops:         # what waits for a draw without a seed, whose place among others does not matter, need not
        if op not in members and not members.isdisjoint(op.control_inputs):
            op.control_inputs = list(dict.fromkeys(_waits(op.control_inputs, members)))
    after = _after(step, members)
    late = frozenset(i for i, t in enumerate(given) if t.op in after)
    key = (_signature(inside, given, made), late)
    if key not in known:
        known[key] = _traced(inside, given, made, late, ctx, ops[0])
    traced = known[key]
    if traced is None:
        return
    second = {t.op for i, t in enumerate(made) if i in traced.later}
    if late and any(given[i].op in _after(step, second) for i in late):
        return
    _put(step, ops, given, made, late, traced)


def _after(step: StepGraph, begin: Iterable[Node]) -> set[Node]:
    """The ops that depend on some."""
    found, first = set(), set(begin)
    for op in step.ops:
        if any(t.op in found or t.op in first for t in op.inputs if id(t) not in step.fed) or \
                any(c in found or c in first for c in op.control_inputs):
            found.add(op)
    return found


def _signature(ops: list[Node], given: list[Value], made: list[Value]) -> tuple:
    """What the result of a trace depends on."""
    number = {t: i for i, t in enumerate(given)}
    for op in ops:
        for t in op.outputs:
            number[t] = len(number)

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.dtype != object:
            return value.shape, value.dtype.str, value.tobytes()
        return value if isinstance(value, (int, float, str, bytes, bool)) else repr(value)
    inputs = [(t.static_dims, t.dtype.name) for t in given]
    calls = [(op.type, id(op.place), *(number[t] for t in op.inputs), *sorted((n, plain(v)) for n, v in op.attrs.items()))
             for op in ops]
    return (*inputs, *calls, *(number[t] for t in made))


@dataclasses.dataclass
class _Traced:
    """The graphs of a block: the first one, the second one (None for a forward pass alone), and which results it has."""
    first: Callable
    second: Callable | None
    later: frozenset[int]
    draws: bool


def _traced(ops: list[Node], given: list[Value], made: list[Value], late: frozenset[int], ctx: Any,
            like: Node) -> _Traced | None:
    """The block as fused kernels; None if it is not attention."""
    placed = None if like.place is None else {op: op.place for op in ops}
    device = torch.device("cpu") if like.place is None else like.place.torch
    try:
        program = write_program(ops, made, given, ctx, placed, unfused=True)
        shapes = [(t.static_dims, t.dtype.torch) for t in given]
        graph = lower.block(program, ctx, shapes, device)
        if not attention.use_kernels(graph):
            return None
        return _split(graph, late)
    except Exception as e:                                               # the ops stay as they are
        _log.info("A block is not fused: %s", str(e).strip().split("\n")[0][:200])
        return None


class _Kept:
    """Values of the first graph for the second one."""

    __slots__ = ("values",)

    def __init__(self, values: list):
        self.values = values


def _split(graph: torch.fx.GraphModule, late: frozenset[int]) -> _Traced:
    """Two graphs: what can be computed before the late inputs are there, and the rest."""
    nodes = list(graph.graph.nodes)
    inputs = [n for n in nodes if n.op == "placeholder"]
    results = list(nodes[-1].args[0])
    waits = {n for i, n in enumerate(inputs) if i in late}
    for node in nodes[:-1]:
        if any(n in waits for n in node.all_input_nodes):
            waits.add(node)
    later = frozenset(i for i, r in enumerate(results) if r in waits)
    body = [n for n in nodes[:-1] if n.op != "placeholder"]
    kept = [n for n in body if n not in waits and any(u in waits for u in n.users)]
    early = [n for i, n in enumerate(inputs) if i not in late]
    random = any(torch.Tag.nondeterministic_seeded in getattr(n.target, "tags", ()) and _drops(n) for n in body)
    first = _part(graph, [n for n in body if n not in waits], early, [r for i, r in enumerate(results) if i not in later], kept)
    if not late:
        return _Traced(lambda values: first(*values)[0], None, later, random)
    second = _part(graph, [n for n in body if n in waits], [*inputs, *kept], [results[i] for i in sorted(later)], [])

    def begin(values: list) -> list:
        found, state = first(*values)
        return [*found, _Kept(state)]

    def end(values: list) -> list:
        *rest, state = values
        return second(*rest, *state.values)[0]
    return _Traced(begin, end, later, random)


def _drops(node: torch.fx.Node) -> bool:
    """Whether a kernel of attention draws: it has a rate of dropout that is not zero."""
    names = [a.name for a in node.target._schema.arguments]                                # type: ignore[union-attr]
    if "dropout_p" not in names:
        return True
    at = names.index("dropout_p")
    return bool(node.args[at] if at < len(node.args) else node.kwargs.get("dropout_p", 0.0))


def _part(graph: torch.fx.GraphModule, body: list, inputs: list, results: list, kept: list) -> Callable:
    """Some nodes of a graph as a function of inputs; it returns results and kept values."""
    made = torch.fx.Graph()
    by: dict[torch.fx.Node, torch.fx.Node] = {n: made.placeholder(n.name) for n in inputs}
    for node in body:
        new = made.node_copy(node, by.__getitem__)
        if node.target in (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default):
            new.target = torch.ops.aten.reshape.default                  # inputs may have any layout
        elif getattr(node.target, "__name__", "").startswith("_scaled_dot_product"):
            with made.inserting_before(new):
                for i, a in enumerate(new.args):
                    if isinstance(a, torch.fx.Node) and i < len(node.args) and _is_matrix(node.args[i]):
                        new.update_arg(i, made.call_function(_with_rows, (a,)))
        by[node] = new
    made.output(([by[r] if isinstance(r, torch.fx.Node) else r for r in results], [by[n] for n in kept]))
    return torch.fx.GraphModule(graph, made).forward


def _is_matrix(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return isinstance(value, torch.Tensor) and value.ndim == _FOUR


def _with_rows(x: torch.Tensor) -> torch.Tensor:
    """A tensor whose rows are contiguous, as kernels of attention need them."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _put(step: StepGraph, ops: list[Node], given: list[Value], made: list[Value], late: frozenset[int],
         traced: _Traced) -> None:
    """Replaces the ops of a block."""
    early = [t for i, t in enumerate(given) if i not in late]
    now = [t for i, t in enumerate(made) if i not in traced.later]
    then = [t for i, t in enumerate(made) if i in traced.later]
    kind = drawing_block_op if traced.draws else block_op
    state = [dtypes.variant] if traced.second is not None else []
    first = _node(step, kind, traced.first, early, now, state, ops)
    made_of = dict(zip(now, first.outputs, strict=False))
    instead = dict.fromkeys(ops, first)
    if traced.second is not None:
        last = _node(step, block_op, traced.second, [*given, first.outputs[-1]], then, [], ops)
        made_of.update(zip(then, last.outputs, strict=True))
        waiting = {given[i].op for i in late}
        instead.update(dict.fromkeys((op for op in ops if op in _after(step, waiting)), last))
    targets = [instead.get(op, op) for op in step.targets]
    step.targets = list(dict.fromkeys(targets))
    step.replace_groups(instead, {id(old): new for old, new in made_of.items()})


def _waits(control: list[Node], gone: set[Node]) -> list[Node]:
    """What these wait for themselves, of those that are gone."""
    found: list[Node] = []
    for c in control:
        found += _waits(c.control_inputs, gone) if c in gone else [c]
    return found


def _node(step: StepGraph, kind: Any, run: Callable, inputs: list[Value], outputs: list[Value], state: list,
          ops: list[Node]) -> Node:
    types = [*(t.dtype for t in outputs), *state]
    attrs = {"Tin": [t.dtype for t in inputs], "Tout": types, "run": run}
    like = next(op for op in ops if op.opdef in rules.attention.softmax)
    node = step.make(kind, inputs, attrs, like, [*(t.static_dims for t in outputs), *[None for _ in state]], types, [])
    node.counts = (len(inputs),)
    return node


