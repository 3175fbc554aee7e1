"""Vectorization: a function of every row of some tensors, as ops on all rows at once.

The function is traced for one row. Its body is then written again, op by op, with *stacked* tensors, whose first axis is the
rows, in place of those that differ between rows. An op whose inputs are the same for all rows is written once. Other ops follow
the rules in `rules.batching`; the entries are beside the ops. An op without a rule becomes a loop over the rows, of this op
alone. Gradients, shapes and fusion see ordinary ops.

tf.vectorized_map and the jacobians of tapes use it.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from penstock._src.base import dtypes, nest
from penstock._src.base import static_shape as shapes
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.arguments import group_inputs
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.func_graph import FuncGraph, trace
from penstock._src.graph.functions import as_function
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.prune import needed
from penstock._src.ops import rules
from penstock._src.ops.control.control_flow import cond, while_loop
from penstock._src.ops.control.map_fn import map_rows
from penstock._src.ops.registry import get


class NotVectorizable(Exception):
    """The body has to run row by row: it has effects, keeps rows in lists, or has gradients of its user."""


class Value(NamedTuple):
    """A tensor of the body: the same for all rows, or stacked."""
    tensor: Tensor
    stacked: bool


def vectorized(function: Callable, elems: list[Tensor], count: Any) -> Any:
    """The results of `function`, called with a row of each of the `elems`, stacked; results that are None stay None."""
    body = FuncGraph("vectorized")
    with body.as_default():
        dims = [None if t.static_dims is None else t.static_dims[1:] for t in elems]
        args = [body.placeholder(t.dtype.base_dtype, d, "row") for t, d in zip(elems, dims, strict=True)]
    trace(body, function, args)
    _check(needed(body.outputs, body.control_outputs, {id(t) for t in args}))
    values = {id(inner): Value(outer, False) for outer, inner in body.captures}
    values |= {id(a): Value(t, True) for a, t in zip(args, elems, strict=True)}
    rows = Rows(count)
    stacked = iter([rows.stack(v) for v in rows.write(body.outputs, body.control_outputs, values)])
    return nest.map_structure(lambda t: None if t is None else next(stacked), body.structured_outputs)


def _check(ops: list) -> None:
    for op in ops:
        opdef = op.opdef
        pure = not opdef.stateful or opdef.random or opdef.reads or opdef.calls or \
            opdef in rules.batching.rule or opdef in rules.batching.elementwise
        if opdef.control_flow or not pure:
            raise NotVectorizable(f"{op.name} ({op.type}) has effects")
        if getattr(op, "_gradient_function", None) is not None or "_gradient_op_type" in op._extra:
            raise NotVectorizable(f"{op.name} has a custom gradient")
        for f in _called(op):
            _check(needed(f.outputs, f.graph.control_outputs, {id(t) for t in f.inputs}))


def _called(op: Operation) -> list:
    given = [op.attrs[name] for name in op.opdef.function_attrs]
    return [as_function(f, op.graph) for g in given for f in (g if isinstance(g, (list, tuple)) else (g,)) if f]


class Rows:
    """Writes the ops of bodies for all rows at once. Rules use its methods."""

    def __init__(self, count: Any):
        self.count = count

    # -- for rules ------------------------------------------------------------------------------------------------------
    def stack(self, value: Value) -> Tensor:
        """The stacked form of a value: one that is the same for all rows is repeated."""
        t, stacked = value
        if stacked:
            return t
        return get("BroadcastTo")(get("ExpandDims")(t, np.int32(0)), self.shape(get("Shape")(t)))

    def shape(self, of_row: Any) -> Tensor:
        """The shape of stacked tensors whose rows have this shape."""
        of_row = convert(of_row)
        count = get("Reshape")(convert(self.count), np.array([1], np.int32))
        return get("ConcatV2")([get("Cast")(count, DstT=of_row.dtype.base_dtype), of_row], np.int32(0))

    def prefixed(self, value: Value, first: Any) -> Tensor | None:
        """A vector that is the same for all rows, with one more element, for the axis of the rows; None if rows differ."""
        if value.stacked:
            return None
        return get("ConcatV2")([convert(np.asarray(first), value.tensor.dtype.base_dtype), value.tensor], np.int32(0))

    @staticmethod
    def rank(value: Value) -> int | None:
        """The rank of a row, if it is known."""
        dims = value.tensor.static_dims
        return None if dims is None else len(dims) - value.stacked

    @staticmethod
    def merged(stacked: Tensor) -> Tensor:
        """A stacked tensor with its first two axes merged."""
        rest = get("Shape")(stacked)[2:]
        return get("Reshape")(stacked, get("ConcatV2")([np.array([-1], np.int32), rest], np.int32(0)))

    def widened(self, value: Value, rank: int) -> Tensor:
        """The tensor, with axes of length 1 after the first if it is stacked and its rows have a lower rank."""
        more = rank - (self.rank(value) or 0)
        if not value.stacked or more <= 0:
            return value.tensor
        shape = get("Shape")(value.tensor)
        return get("Reshape")(value.tensor, get("ConcatV2")([shape[:1], np.ones(more, np.int32), shape[1:]], np.int32(0)))

    def numbers(self, like: Tensor) -> Tensor:
        """The number of each row, in the shape and type of a stacked tensor whose last axis has one element."""
        type_, rank = like.dtype.base_dtype, len(like.static_dims)
        count = get("Cast")(convert(self.count), DstT=type_)
        column = get("Reshape")(get("Range")(convert(0, type_), count, convert(1, type_)), [-1] + [1] * (rank - 1))
        return get("BroadcastTo")(column, get("ConcatV2")([get("Shape")(like)[:-1], np.array([1], np.int32)], np.int32(0)))

    def aligned(self, values: list[Value]) -> list[Tensor] | None:
        """Tensors that broadcast as the rows do: stacked ones of lower rank get axes of length 1 after the first."""
        ranks = [self.rank(v) for v in values]
        return None if None in ranks else [self.widened(v, max(r for r in ranks if r is not None)) for v in values]

    def again(self, op: Operation, inputs: list, **attrs: Any) -> list[Tensor]:
        """The outputs of the same op with other inputs, and with some attributes replaced."""
        given = {name: op.attrs[name] for name in op.opdef.explicit_attrs} | attrs
        made = op.opdef(*group_inputs(op.opdef, inputs, op.counts), **given)
        return list(made) if isinstance(made, (list, tuple)) else [] if made is None or isinstance(made, Operation) else [made]

    # -- writing bodies -------------------------------------------------------------------------------------------------
    def write(self, outputs: list, targets: list, values: dict[int, Value]) -> list[Value]:
        """The outputs of a body; `values` has its inputs and captures, by the identity of the tensors of the body."""
        for op in needed(outputs, targets, set(values)):
            made = self._written(op, [values[id(t)] for t in op.inputs])
            values.update((id(old), new) for old, new in zip(op.outputs, made, strict=True))
        return [values[id(t)] for t in outputs]

    def _written(self, op: Operation, inputs: list[Value]) -> list[Value]:
        if op.opdef.random:
            return [Value(t, True) for t in self._draws(op, inputs)]
        if not any(v.stacked for v in inputs):
            return [Value(t, False) for t in self.again(op, [v.tensor for v in inputs])]
        if op.opdef in rules.batching.shared:
            return [Value(t, False) for t in rules.batching.shared[op.opdef](op, *inputs)]
        if op.opdef in rules.inlining.in_place:
            called = self._called(op, inputs)
            if called is not None:
                return called
        if op.opdef in rules.inlining.loop:
            looped = self._while(op, inputs)
            if looped is not None:
                return looped
        made = self._by_rule(op, inputs)
        return [Value(t, True) for t in (self._loop(op, inputs) if made is None else made)]

    def _by_rule(self, op: Operation, inputs: list[Value]) -> list[Tensor] | None:
        table = rules.batching
        if op.opdef in table.rule:
            return table.rule[op.opdef](op, self, *inputs)
        if op.opdef in table.elementwise or op.opdef in rules.algebra.elementwise:
            return self._elementwise(op, inputs)
        if op.opdef in table.axis or op.opdef in rules.arithmetic.reduces:
            return self._along_axis(op, inputs, table.axis.get(op.opdef, 1))
        if op.opdef in table.axis_attr:
            return self._along_attribute(op, inputs, table.axis_attr[op.opdef])
        if op.opdef in table.leading:
            return self._leading(op, inputs, table.leading[op.opdef])
        if op.opdef in table.first:
            return self._first(op, inputs, table.first[op.opdef])
        return None

    def _elementwise(self, op: Operation, inputs: list[Value]) -> list[Tensor] | None:
        if len(inputs) == 1 or all(v.stacked for v in inputs) and len({self.rank(v) for v in inputs}) == 1:
            return self.again(op, [v.tensor for v in inputs])
        if op.opdef.shape_rule is not shapes.broadcast and op.opdef not in rules.batching.broadcasts:
            return self.again(op, [self.stack(v) for v in inputs]) if len({self.rank(v) for v in inputs}) == 1 else None
        made = self.aligned(inputs)
        return None if made is None else self.again(op, made)

    def _along_axis(self, op: Operation, inputs: list[Value], place: int) -> list[Tensor] | None:
        place %= len(inputs)
        if any(v.stacked and _on_host(op, i) for i, v in enumerate(inputs)):
            return None
        return self.again(op, [_after(v.tensor) if i == place else v.tensor if _on_host(op, i) else self.stack(v)
                               for i, v in enumerate(inputs)])

    def _along_attribute(self, op: Operation, inputs: list[Value], name: str) -> list[Tensor] | None:
        if any(v.stacked and _on_host(op, i) for i, v in enumerate(inputs)):
            return None
        axes = op.attrs[name]
        moved = [a + (a >= 0) for a in axes] if isinstance(axes, (list, tuple)) else axes + (axes >= 0)
        return self.again(op, [v.tensor if _on_host(op, i) else self.stack(v) for i, v in enumerate(inputs)], **{name: moved})

    def _leading(self, op: Operation, inputs: list[Value], places: tuple[int, ...]) -> list[Tensor] | None:
        if any(v.stacked and i not in places for i, v in enumerate(inputs)):
            return None
        return self.again(op, [self.stack(v) if i in places else v.tensor for i, v in enumerate(inputs)])

    def _first(self, op: Operation, inputs: list[Value], places: tuple[int, ...]) -> list[Tensor] | None:
        """The rows become part of the first axis, which is one of independent samples."""
        if any(v.stacked and i not in places for i, v in enumerate(inputs)) or \
                len({(op.inputs[i].static_dims or (None,))[0] for i in places}) > 1:
            return None
        stacked = [self.stack(v) if i in places else None for i, v in enumerate(inputs)]
        flat = [v.tensor if t is None else self.merged(t) for t, v in zip(stacked, inputs, strict=True)]
        if op.opdef in rules.batching.sizes:
            sizes = flat[rules.batching.sizes[op.opdef]]
            count = get("Cast")(convert(self.count), DstT=sizes.dtype.base_dtype)
            flat[rules.batching.sizes[op.opdef]] = get("ConcatV2")([sizes[:1] * count, sizes[1:]], np.int32(0))
        made = self.again(op, flat)
        both = get("Shape")(stacked[places[0]])[:2]
        return [get("Reshape")(t, get("ConcatV2")([both, get("Shape")(t)[1:]], np.int32(0))) for t in made]

    # -- ops without a rule ---------------------------------------------------------------------------------------------
    def _loop(self, op: Operation, inputs: list[Value]) -> list[Tensor]:
        """One op in a loop over the rows."""
        varying = [v.tensor for v in inputs if v.stacked]

        def one(rows: list) -> list:
            own = iter(rows)
            return self.again(op, [next(own) if v.stacked else v.tensor for v in inputs])
        types = [t.dtype.base_dtype for t in op.outputs]
        if dtypes.variant in types or dtypes.resource in types:
            raise NotVectorizable(f"{op.name} ({op.type}) returns an object")
        made = map_rows(one, varying, dtype=types) if types else []
        for t, old in zip(made, op.outputs, strict=True):
            if old.static_dims is not None and not hasattr(t, "_value"):
                t.set_shape((t.static_dims[0] if t.static_dims else None, *old.static_dims))
        return made

    def _draws(self, op: Operation, inputs: list[Value]) -> list[Tensor]:
        """Random numbers differ between rows."""
        if op.opdef.input_names[:1] == ["shape"] and not any(v.stacked for v in inputs):
            if len(inputs) == 1 or op.opdef in rules.batching.fills:
                return self.again(op, [self.shape(inputs[0].tensor), *(v.tensor for v in inputs[1:])])
        if not any(v.stacked for v in inputs):
            inputs = [Value(self.stack(inputs[0]), True), *inputs[1:]]
        return self._loop(op, inputs)

    # -- functions ------------------------------------------------------------------------------------------------------
    def _called(self, op: Operation, inputs: list[Value]) -> list[Value] | None:
        functions = _called(op)
        if op.opdef not in rules.inlining.chooses:
            return self._body(functions[0], inputs)
        if inputs[0].stacked:
            return None
        then, otherwise = ((lambda f=f: [self.stack(v) for v in self._body(f, inputs[1:])]) for f in functions)
        made = cond(get("Cast")(inputs[0].tensor, DstT=dtypes.bool), then, otherwise)
        return [Value(t, True) for t in (made if isinstance(made, (list, tuple)) else [made])]

    def _while(self, op: Operation, inputs: list[Value]) -> list[Value] | None:
        """A loop that all rows run equally often."""
        test, body = (as_function(op.attrs[name], op.graph) for name in rules.inlining.loop[op.opdef])
        stacked = self._varying(test, body, [v.stacked for v in inputs])
        if stacked is None:
            return None
        dims = self._dims(body.inputs, stacked)

        def one(function: Any, values: tuple) -> list[Tensor]:
            own = [Value(t, s) for t, s in zip(values, stacked, strict=True)]
            return [self.stack(v) if s else v.tensor for v, s in zip(self._body(function, own), stacked, strict=False)]
        start = [self.stack(v) if s else v.tensor for v, s in zip(inputs, stacked, strict=True)]
        made = while_loop(lambda *v: self._body(test, [Value(t, s) for t, s in zip(v, stacked, strict=True)])[0].tensor,
                          lambda *v: one(body, v), start, shape_invariants=[TensorShape(d) for d in dims])
        return [Value(t, s) for t, s in zip(made if isinstance(made, (list, tuple)) else [made], stacked, strict=True)]

    def _varying(self, test: Any, body: Any, stacked: list[bool]) -> list[bool] | None:
        """Which variables of a loop differ between rows, found by writing its body; None if the number of iterations does."""
        while True:
            trial = FuncGraph("trial")
            with trial.as_default():
                dims = self._dims(body.inputs, stacked)
                values = [Value(trial.placeholder(t.dtype.base_dtype, d, "variable"), s)
                          for t, d, s in zip(body.inputs, dims, stacked, strict=True)]
                if self._body(test, values)[0].stacked:
                    return None
                found = [s or v.stacked for s, v in zip(stacked, self._body(body, values), strict=True)]
            if found == stacked:
                return stacked
            stacked = found

    def _dims(self, tensors: list, stacked: list[bool]) -> list:
        rows = self.count if isinstance(self.count, int) else None
        return [t.static_dims if not s or t.static_dims is None else (rows, *t.static_dims)
                for t, s in zip(tensors, stacked, strict=True)]

    def _body(self, function: Any, inputs: list[Value]) -> list[Value]:
        values = {id(p): v for p, v in zip(function.inputs, inputs, strict=True)}
        return self.write(function.outputs, function.graph.control_outputs, values)


def _after(axes: Tensor) -> Any:
    """Axes of rows as axes of stacked tensors."""
    known = constant_value(axes)
    if known is not None:
        return convert(np.where(known < 0, known, known + 1).astype(known.dtype))
    one = convert(1, axes.dtype.base_dtype)
    return get("SelectV2")(get("Less")(axes, one - one), axes, axes + one)


def _on_host(op: Operation, place: int) -> bool:
    """Whether an input is a shape, a size or an axis."""
    names = [a.name for a, n in zip(op.opdef.inputs, op.counts or [None] * len(op.opdef.inputs), strict=True)
             for _ in range(1 if n is None else n)]
    return names[place] in op.opdef.host_inputs
