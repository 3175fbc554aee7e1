"""Rules of control flow, tensor lists and recurrent blocks.

A functional loop is an ONNX Loop, a conditional an If. A tensor list is an ONNX sequence, whose elements are set in ascending
order.
"""
from __future__ import annotations

import functools
from typing import Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.graph.functions import GraphFunction, as_function
from penstock._src.onnx.body import body_step, write_ops
from penstock._src.onnx.builder import Builder, Typed, Unsupported, ints
from penstock._src.onnx.rules import rule
from penstock._src.step.ir import Node, StepGraph, Value

rule = functools.partial(rule, "Control flow")


def _function(op: Node, key: str) -> GraphFunction:
    return as_function(op.attrs[key], op.graph)


def _given(b: Builder, step: StepGraph, names: list[str], outer: list[Any]) -> None:
    """Gives the inputs of a body the values of the graph around it."""
    for feed, name, value in zip(step.feeds, names, outer, strict=True):
        b.values[id(feed)] = name
        found = None if value is None else b.value(value)
        if found is not None:
            b.known[id(feed)] = found


def _truth(b: Builder, x: Value, name: str) -> str:
    if x.static_dims != ():
        raise Unsupported("its condition is not a scalar")
    return name if x.dtype == dtypes.bool else b.cast(name, dtypes.bool)


# -- conditionals -------------------------------------------------------------------------------------------------------
@rule("If", "StatelessIf")
def _if(b: Builder, op: Node) -> list[str]:
    condition = _truth(b, op.inputs[0], b.name(op.inputs[0]))
    return _chosen(b, op, condition, _branch(b, op, _function(op, "then_branch")), _branch(b, op, _function(op, "else_branch")))


@rule("Case", "StatelessCase")
def _case(b: Builder, op: Node) -> list[str]:
    functions = [as_function(f, op.graph) for f in op.attrs["branches"]]

    def from_branch(inner: Builder, i: int) -> Builder:
        if i == len(functions) - 1:
            return _branch(inner, op, functions[i])
        made = inner.inner(f"{op.name}/case{i}")
        is_it = made("Equal", op.inputs[0], np.int32(i))
        names = _chosen(made, op, is_it, _branch(made, op, functions[i]), from_branch(made, i + 1))
        return _returning(made, op.outputs, names)
    if len(functions) == 1:
        step = body_step(functions[0])
        _given(b, step, [b.name(t) for t in op.inputs[1:]], list(op.inputs[1:]))
        write_ops(b, step)
        return [b.name(t) for t in step.fetches]
    first = b("Equal", op.inputs[0], np.int32(0))
    return _chosen(b, op, first, _branch(b, op, functions[0]), from_branch(b, 1))


def _chosen(b: Builder, op: Node, condition: str, then: Builder, otherwise: Builder) -> list[str]:
    names = b("If", condition, then_branch=then.graph, else_branch=otherwise.graph, outputs=len(op.outputs))
    _note_lists(b, names, then.graph.outputs)
    return names


def _note_lists(b: Builder, names: list[str], typed: list[Typed]) -> None:
    b.lists.update((name, t.dtype) for name, t in zip(names, typed, strict=True) if t.sequence)


def _branch(b: Builder, op: Node, function: GraphFunction) -> Builder:
    inner, step = b.inner(f"{op.name}/branch"), body_step(function)
    _given(inner, step, [b.name(t) for t in op.inputs[1:]], list(op.inputs[1:]))
    write_ops(inner, step)
    return _returning(inner, op.outputs, [inner.name(t) for t in step.fetches])


def _returning(inner: Builder, outputs: list[Value], names: list[str]) -> Builder:
    """A graph that returns values, each under a new name."""
    for t, name in zip(outputs, names, strict=True):
        inner.graph.outputs.append(_typed(inner, inner("Identity", name), t, inner.lists.get(name)))
    return inner


def _typed(b: Builder, name: str, t: Value, element: dtypes.DType | None) -> Typed:
    if element is None:
        return Typed(name, t.dtype, t.static_dims)
    b.lists[name] = element
    return Typed(name, element, None, sequence=True)


# -- loops --------------------------------------------------------------------------------------------------------------
@rule("While", "StatelessWhile")
def _while(b: Builder, op: Node) -> list[str]:
    """The condition is computed once before the loop, and at the end of each iteration. Values that the body returns unchanged
    are not loop variables."""
    test, body = body_step(_function(op, "cond")), body_step(_function(op, "body"))
    outer = [b.name(t) for t in op.inputs]
    moving = [i for i, t in enumerate(body.fetches) if t is not body.feeds[i]]
    before = body_step(_function(op, "cond"))
    fixed = [None if i in moving else t for i, t in enumerate(op.inputs)]
    _given(b, before, outer, fixed)
    write_ops(b, before)
    start = _truth(b, before.fetches[0], b.name(before.fetches[0]))
    inner = b.inner(f"{op.name}/body")
    for name, dtype in (("round", dtypes.int64), ("condition", dtypes.bool)):
        inner.graph.inputs.append(Typed(inner.unique(f"{op.name}/{name}"), dtype, ()))
    names = list(outer)
    for i in moving:
        names[i] = inner.unique(f"{op.name}/{i}")
        inner.graph.inputs.append(_typed(inner, names[i], op.outputs[i], b.lists.get(outer[i])))
    _given(inner, body, names, fixed)
    write_ops(inner, body)
    after = list(outer)
    for i in moving:
        after[i] = inner.name(body.fetches[i])
    _given(inner, test, after, fixed)
    write_ops(inner, test)
    again = inner("Identity", _truth(inner, test.fetches[0], inner.name(test.fetches[0])))
    inner.graph.outputs.append(Typed(again, dtypes.bool, ()))
    _returning(inner, [op.outputs[i] for i in moving], [after[i] for i in moving])
    made = b("Loop", None, start, *(outer[i] for i in moving), body=inner.graph, outputs=len(moving)) if moving else []
    _note_lists(b, made, inner.graph.outputs[1:])
    results = list(outer)
    for i, name in zip(moving, made, strict=True):
        results[i] = name
    return results


# -- tensor lists -------------------------------------------------------------------------------------------------------
@rule("TensorListReserve", "EmptyTensorList")
def _reserve(b: Builder, op: Node) -> str:
    element = op.attrs["element_dtype"]
    made = b("SequenceEmpty", dtype=element)
    b.lists[made] = element
    return made


@rule("TensorListFromTensor")
def _from_tensor(b: Builder, op: Node) -> str:
    made = b("SplitToSequence", op.inputs[0], axis=0, keepdims=0)
    b.lists[made] = op.attrs["element_dtype"]
    return made


@rule("TensorListGetItem")
def _get_item(b: Builder, op: Node) -> str:
    return b("SequenceAt", op.inputs[0], op.inputs[1])


@rule("TensorListSetItem")
def _set_item(b: Builder, op: Node) -> str:
    """Replaces an element, or adds the next one."""
    items, place, value = op.inputs[:3]
    given, element = b.name(items), b.lists[b.name(items)]
    at, item = b.int64(place), b.name(value)
    new = b.inner(f"{op.name}/new")
    old = b.inner(f"{op.name}/old")
    for inner, rest in ((new, given), (old, old("SequenceErase", given, at))):
        inner.graph.outputs.append(_typed(inner, inner("SequenceInsert", rest, item, at), op.outputs[0], element))
    is_new = b("Less", b("SequenceLength", given), b("Add", at, np.int64(1)))
    made = b("If", is_new, then_branch=new.graph, else_branch=old.graph)
    b.lists[made] = element
    return made


@rule("TensorListPushBack")
def _push_back(b: Builder, op: Node) -> str:
    given = b.name(op.inputs[0])
    made = b("SequenceInsert", given, op.inputs[1])
    b.lists[made] = b.lists[given]
    return made


@rule("TensorListLength")
def _length(b: Builder, op: Node) -> str:
    return b.cast(b("SequenceLength", op.inputs[0]), dtypes.int32)


@rule("TensorListStack")
def _stack(b: Builder, op: Node) -> str:
    """All elements as one tensor. If their number is known, a list with elements that were never set is an error."""
    made = b("ConcatFromSequence", op.inputs[0], axis=0, new_axis=1)
    number, dims = op.attrs.get("num_elements", -1), op.outputs[0].static_dims
    if number < 0 or dims is None or sum(d is None for d in dims[1:]) != 0:
        return made
    return b("Reshape", made, ints(number, *dims[1:]))


# -- recurrent blocks ---------------------------------------------------------------------------------------------------
@rule("BlockLSTM", "BlockLSTMV2")
def _block_lstm(b: Builder, op: Node) -> list[str]:
    """A Scan over time. Behind the longest sequence all results are zero."""
    length, x, c0, h0, w, wci, wcf, wco, bias = op.inputs
    used = [bool(t.users) or id(t) in b.fetched for t in op.outputs]
    steps = b.int64(length, vector=True)
    cell = b.inner(f"{op.name}/cell")
    c, h, row = (cell.unique(f"{op.name}/{n}") for n in ("c", "h", "x"))
    cell.graph.inputs += [Typed(c, x.dtype, c0.static_dims), Typed(h, x.dtype, h0.static_dims), Typed(row, x.dtype, None)]
    results = _cell(cell, op, row, c, h, (w, wci, wcf, wco, bias))
    dims = (None, None) if c0.static_dims is None else tuple(c0.static_dims)
    for name in (results[1], results[6], *(name for name, wanted in zip(results, used, strict=True) if wanted)):
        cell.graph.outputs.append(Typed(cell("Identity", name), x.dtype, dims))
    made = b("Scan", c0, h0, b("Slice", x, ints(0), steps, ints(0)), body=cell.graph, num_scan_inputs=1,
             outputs=2 + sum(used))
    whole = b("Slice", b.shape(x), ints(0), ints(1), ints(0))
    pads = b("Concat", ints(0), b("Sub", whole, steps), axis=0)
    rows = iter(made[2:])
    return [b("Pad", next(rows), pads, b.like(x, 0), ints(0)) if wanted else made[0] for wanted in used]


def _cell(b: Builder, op: Node, x: str, c: str, h: str, weights: tuple[Value, ...]) -> list[str]:
    """One step of time: the input gate, the state, the forget and output gates, the new input, its tanh, and the output."""
    w, wci, wcf, wco, bias = weights
    newer = op.type == "BlockLSTMV2"
    peepholes = op.attrs.get("use_peephole")
    gates = b("Add", b("MatMul", b("Concat", x, h, axis=1), w), bias)
    parts = b("Split", gates, axis=1, num_outputs=4, outputs=4)
    i, f, n, o = parts if newer else (parts[0], parts[2], parts[1], parts[3])
    if peepholes:
        i, f = b("Add", i, b("Mul", c, wci)), b("Add", f, b("Mul", c, wcf))
    if not newer:
        f = b("Add", f, np.asarray(op.attrs["forget_bias"], op.inputs[1].dtype.as_numpy_dtype))
    i, f, n = b("Sigmoid", i), b("Sigmoid", f), b("Tanh", n)
    state = b("Add", b("Mul", n, i), b("Mul", f, c))
    clip = float(op.attrs.get("cell_clip", 0.0))
    if clip > 0:
        bound = np.asarray(clip, op.inputs[1].dtype.as_numpy_dtype)
        state = b("Clip", state, -bound, bound)
    o = b("Sigmoid", b("Add", o, b("Mul", state, wco)) if peepholes else o)
    out = b("Tanh", state)
    return [i, state, f, o, n, out, b("Mul", out, o)]


