"""Ops that call functions: PartitionedCall, If, Case, While and the like.

Their kernels run the compiled program of the function (graph/functions.py), in a Python `if` or
`while`. Gradients are in ops/control/function_grad.py; `cond` and `while_loop` build these ops in
ops/control/functional_control.py.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors, tracing
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.backward import backward, differentiable_outputs, with_intermediates
from penstock._src.graph.build import build
from penstock._src.graph.convert import convert
from penstock._src.graph.eager_op import EagerOp
from penstock._src.graph.eager_tensor import EagerTensor
from penstock._src.graph.engine import engine
from penstock._src.graph.func_graph import copy_handle_data
from penstock._src.graph.functions import GraphFunction, add_to_library, as_function, raise_typed
from penstock._src.graph.node import Operation
from penstock._src.graph.recording import record
from penstock._src.kernels import waiting
from penstock._src.ops import rules
from penstock._src.ops.registry import op

_CALL = "Tin: list(type) >= 0, Tout: list(type) >= 0, f: func, config: string = '', config_proto: string = '', " \
        "executor_type: string = ''"
partitioned_call = op("PartitionedCall", "args: Tin -> output: Tout", _CALL, foldable=False)
stateful_partitioned_call = op("StatefulPartitionedCall", "args: Tin -> output: Tout", _CALL, stateful=True)
remote_call = op("RemoteCall", "target: string, args: Tin -> output: Tout",
                 "Tin: list(type) >= 1, Tout: list(type) >= 1, f: func", stateful=True)

_IF = "Tcond: type, Tin: list(type) >= 0, Tout: list(type) >= 0, then_branch: func, else_branch: func, " \
      "output_shapes: list(shape) = []"
if_op = op("If", "cond: Tcond, input: Tin -> output: Tout", _IF, stateful=True)
stateless_if = op("StatelessIf", "cond: Tcond, input: Tin -> output: Tout", _IF, foldable=False)

_CASE = "Tin: list(type) >= 0, Tout: list(type) >= 0, branches: list(func) >= 1, output_shapes: list(shape) = []"
case_op = op("Case", "branch_index: int32, input: Tin -> output: Tout", _CASE, stateful=True)
stateless_case = op("StatelessCase", "branch_index: int32, input: Tin -> output: Tout", _CASE, foldable=False)

_WHILE = "T: list(type) >= 0, cond: func, body: func, output_shapes: list(shape) = [], parallel_iterations: int = 10"
while_op = op("While", "input: T -> output: T", _WHILE, stateful=True)
stateless_while = op("StatelessWhile", "input: T -> output: T", _WHILE, foldable=False)
rules.program.consumes[while_op] = rules.program.consumes[stateless_while] = frozenset(["input"])
rules.inlining.loop[while_op] = rules.inlining.loop[stateless_while] = ("cond", "body")
for_op = op("For", "start: int32, limit: int32, delta: int32, input: T -> output: T",
            "T: list(type) >= 0, body: func", foldable=False)

fake_param = op("FakeParam", "-> output: dtype", "dtype: type, shape: shape", foldable=False).no_gradient()
fake_param.shape(lambda *, shape: shape.static_dims)

symbolic_gradient = op("SymbolicGradient", "input: Tin -> output: Tout",
                       "Tin: list(type) >= 1, Tout: list(type) >= 1, f: func", foldable=False)


# -- kernels ------------------------------------------------------------------------------------------------------
@partitioned_call.kernel
@stateful_partitioned_call.kernel
def _partitioned_call_kernel(args, *, f, ctx, node):
    return as_function(f, node.graph).run(ctx, args)


@remote_call.kernel
def _remote_call_kernel(target, args, *, f, ctx, node):
    return as_function(f, node.graph).run(ctx, args)


for _op in (partitioned_call, stateful_partitioned_call):
    rules.inlining.in_place[_op] = lambda op, ctx: [as_function(op.attrs["f"], op.graph).optimized(ctx, True)]
rules.inlining.branches[case_op] = rules.inlining.branches[stateless_case] = ("branches",)
for _op in (if_op, stateless_if):
    rules.inlining.chooses.add(_op)
    rules.inlining.branches[_op] = ("then_branch", "else_branch")
    rules.inlining.in_place[_op] = lambda op, ctx: [as_function(op.attrs[n], op.graph).optimized(ctx, True)
                                                 for n in ("then_branch", "else_branch")]


def truth(value: Any) -> bool:
    """Whether a run-time value is true, by TensorFlow's rules: a scalar as such, anything else if it has elements."""
    if isinstance(value, torch.Tensor):
        return bool(value) if value.ndim == 0 else value.numel() > 0
    if isinstance(value, np.ndarray):
        return bool(value[()]) if value.ndim == 0 else value.size > 0
    return bool(value)


@if_op.kernel
@stateless_if.kernel
def _if_kernel(cond, input, *, then_branch, else_branch, ctx, node):
    branches = [as_function(f, node.graph) for f in (then_branch, else_branch)]
    if tracing.lowering() and _unknown(cond) and cond.ndim == 0:
        found = _either(cond, branches[0], branches[1], ctx, input)
        if found is not None:
            return found
    return branches[0 if truth(cond) else 1].run(ctx, input)


def _unknown(value: Any) -> bool:
    """Whether a value stands for one that only the device will know."""
    return isinstance(value, torch._subclasses.FakeTensor)


def _either(cond: torch.Tensor, first: GraphFunction, second: GraphFunction, ctx: Any, input: Any) -> list | None:
    """Both branches of a conditional in a step that becomes a graph, where the condition is unknown: results and variables
    are chosen on the device. It is for short branches, such as updates that are left out: None if one has products, or draws
    random numbers. The graph then holds for one branch."""
    variables = list({id(v): v for v in input if hasattr(v, "shadow")}.values())
    before = [v.value for v in variables]
    try:
        with tracing.choosing():
            results = first.run(ctx, input)
            after = [v.value for v in variables]
            for v, value in zip(variables, before, strict=True):
                v.value = value
            others = second.run(ctx, input)
        values = [_chosen(cond, value, v.value) for v, value in zip(variables, after, strict=True)]
        chosen = [_chosen(cond, a, b) for a, b in zip(results, others, strict=True)]
    except Exception:
        if not all(isinstance(v, torch.Tensor) or hasattr(v, "shadow") for v in input):
            raise                                                  # an array may have been changed
        for v, value in zip(variables, before, strict=True):
            v.value = value
        return None
    for v, value in zip(variables, values, strict=True):
        v.value = value
    return chosen


def _chosen(cond: torch.Tensor, a: Any, b: Any) -> Any:
    """One of two values."""
    if a is b:
        return a
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor) or a.shape != b.shape or a.dtype is not b.dtype:
        raise errors.UnimplementedError(None, None, "The branches of a conditional return values of different kinds.")
    if not _unknown(a) and not _unknown(b) and torch.equal(a, b):
        return a
    return torch.where(cond.bool(), a.to(cond.device), b.to(cond.device))


@case_op.kernel
@stateless_case.kernel
def _case_kernel(branch_index, input, *, branches, ctx, node):
    i = int(branch_index)
    return as_function(branches[i if 0 <= i < len(branches) else -1], node.graph).run(ctx, input)


@while_op.kernel
@stateless_while.kernel
def _while_kernel(input, *, cond, body, ctx, node):
    test, step = as_function(cond, node.graph), as_function(body, node.graph)
    loop = step.loop(test, ctx)
    if loop is None:
        return _run_loop(test.program(ctx), step.program(ctx), ctx, input)
    try:
        return loop.run(ctx, list(input) if type(input) is not list else input)
    except Exception as e:
        raise_typed(e, loop)
        raise


_UNROLLED = 32                   # iterations of a loop that become part of a graph: compiling more takes minutes


def _run_loop(condition: Any, step: Any, ctx: Any, input: Any) -> Any:
    """A loop whose test and body are separate programs."""
    test, run = condition.run, step.run
    values: Any = input
    left = _UNROLLED if tracing.lowering() else math.inf
    try:
        while truth(test(ctx, *values)[0]):
            left -= 1
            if left < 0:
                raise errors.UnimplementedError(None, None, f"A loop of more than {_UNROLLED} iterations is not unrolled.")
            values = run(ctx, *values)
            ctx.remaining()                      # ends with the step's cancellation or deadline
    except Exception as e:
        raise_typed(e, step, condition)
        raise
    return values


@for_op.kernel
def _for_kernel(start, limit, delta, input, *, body, ctx, node):
    step = as_function(body, node.graph)
    first, last, stride = int(start), int(limit), int(delta)
    if stride == 0 or (stride > 0) != (last >= first) and last != first:
        raise errors.invalid(f"For loop from {first} to {last} has delta {stride}")
    values = input
    for i in range(first, last, stride):
        values = step.run(ctx, [torch.tensor(i, dtype=torch.int32), *values])
    return values


@fake_param.kernel
def _fake_param_kernel(*, dtype, shape):
    if dtype.torch is None:
        return np.empty((0,), dtype=object)
    return torch.empty([0 if d is None else d for d in shape.static_dims or ()], dtype=dtype.torch)


@symbolic_gradient.kernel
def _symbolic_gradient_kernel(input, *, f, ctx, node):
    function = as_function(f, node.graph)
    n = len(function.inputs)
    given = input[n:]
    back = backward(function, differentiable_outputs(function))
    forward = function.with_outputs(back.intermediates())
    values = dict(zip((id(t) for t in function.inputs), input[:n], strict=True))
    values.update(zip((id(t) for t in forward.outputs), forward.run(ctx, input[:n]), strict=True))
    grads = back.gradients(list(back.function.run(ctx, [*(given[i] for i in back.which),
                                                        *(values[id(t)] for t in back.needs)])), n)
    return [torch.zeros_like(v) if g is None else g for g, v in zip(grads, input, strict=False)]


# -- static shapes --------------------------------------------------------------------------------------------------
def _call_shapes(op: Any, args: list) -> list:
    """The static shapes of the function's results; unknown ones are inferred from the shapes of the arguments."""
    f = op.attrs["f"]
    if not (isinstance(f, GraphFunction) or hasattr(f, "graph_function")):
        return [None] * len(op.outputs)
    function = as_function(f)
    declared = [t.static_dims for t in function.outputs]
    if any(map(_is_open, declared)) and len(args) == len(function.inputs):
        known = [d if d is not None and _is_open(t.static_dims) else None for d, t in zip(args, function.inputs, strict=True)]
        if any(d is not None and d != t.static_dims for d, t in zip(known, function.inputs, strict=True)):
            declared = engine.bodies.shapes(function, known)
    return declared[:len(op.outputs)]


def _is_open(dims: Any) -> bool:
    return dims is None or None in dims


for _op in (partitioned_call, stateful_partitioned_call):
    _op.shape(lambda args, *, c: _call_shapes(c.op, args))
remote_call.shape(lambda target, args, *, c: _call_shapes(c.op, args))


def _given_shapes(op: Any) -> list:
    shapes = op.attrs["output_shapes"]
    if not shapes:
        return [None] * len(op.outputs)
    if len(shapes) != len(op.outputs):
        raise errors.invalid(f"`output_shapes` must be the same length as num outputs ({len(shapes)} vs. {len(op.outputs)})")
    return [s.static_dims for s in shapes]


for _op in (if_op, stateless_if, case_op, stateless_case):
    _op.shape(lambda cond, input, *, c: _given_shapes(c.op))
for _op in (while_op, stateless_while):
    _op.shape(lambda input, *, c: _given_shapes(c.op))
for_op.shape(lambda start, limit, delta, input: [None] * len(input))
symbolic_gradient.shape(lambda input, *, c: [t.static_dims for t in c.op.inputs[:len(c.op.outputs)]])


def _called_elements(op: Any, i: int) -> Any:
    f = op.attrs["f"]
    return as_function(f).outputs[i] if isinstance(f, GraphFunction) or hasattr(f, "graph_function") else None


for _op in (partitioned_call, stateful_partitioned_call):
    rules.lists.elements[_op] = _called_elements


# -- building calls -----------------------------------------------------------------------------------------------------
def call(function: GraphFunction, args: list, name: str | None = None, executor: str = "") -> list:
    """Calls a function on tensors: an op in the current graph, or run at once. Returns the list of outputs."""
    if context.executing_eagerly():
        return call_eagerly(function, args)
    definition = stateful_partitioned_call if function.stateful else partitioned_call
    attrs = {"Tout": [t.dtype.base_dtype for t in function.outputs], "f": function, "executor_type": executor}
    made = add_calling_op(definition, (args,), attrs, [function], name)
    return list(made.outputs)


def add_calling_op(definition: Any, args: tuple, attrs: dict[str, Any], functions: list[GraphFunction],
                   name: str | None) -> Operation:
    """Adds an op that calls functions to the current graph, and the functions to its library."""
    graph = context.current_graph()
    for f in functions:
        add_to_library(graph, f)
    waits = list(dict.fromkeys(c for f in functions for c in f.graph.control_captures))
    with graph.control_dependencies(waits):
        made = build(graph, definition, args, attrs, name)
    with_handles(made.outputs, functions[-1].outputs)
    return made


def with_handles(outputs: Any, inner: Any) -> None:
    """Handles that come out of functions point at the same type of variable as they do inside."""
    for t, i in zip(outputs, inner, strict=False):
        if t.dtype == dtypes.resource or t.dtype == dtypes.variant:
            copy_handle_data(i, t)


def call_eagerly(function: GraphFunction, args: list) -> list:
    """Runs a function eagerly. On a tape, values for the gradient are returned with the result."""
    waiting.machine.look()
    args = [a if isinstance(a, EagerTensor) else convert(a, p.dtype)
            for a, p in zip(args, function.inputs, strict=True)]
    watching = sum(1 for t in context.state.tapes if any(id(a) in t._watched for a in args))
    wanted = len(function.outputs)
    if watching:
        function = with_intermediates(function, min(watching, 3))
    outputs = _elsewhere(function, args) if engine.elsewhere is not None else None
    if outputs is None:
        values = function.call(engine.eager_context(), [a._value for a in args])
        outputs = [EagerTensor(v, t.dtype.base_dtype) for v, t in zip(values, function.outputs, strict=True)]
    with_handles(outputs, function.outputs)
    if watching:
        attrs = {"f": function, "Tin": [a.dtype for a in args], "Tout": [t.dtype for t in outputs]}
        record(EagerOp(partitioned_call, args, outputs, attrs, (len(args),)), args, outputs)
    return outputs[:wanted]


def _elsewhere(function: GraphFunction, args: list) -> list | None:
    """The results of a function on another task; None if it runs here."""
    attrs = {"f": function, "Tin": [a.dtype for a in args], "Tout": [t.dtype.base_dtype for t in function.outputs]}
    definition = stateful_partitioned_call if function.stateful else partitioned_call
    return engine.elsewhere(definition, args, attrs, (len(args),))      # type: ignore[misc]


def branch_op(selector: Any, args: list, branches: list[GraphFunction], case: bool, name: str | None = None) -> Operation:
    """An If (the else branch is the second) or a Case over functions of one signature."""
    stateful = any(f.stateful for f in branches)
    types = [t.dtype.base_dtype for t in branches[0].outputs]
    shapes = [TensorShape.of(widest([f.outputs[i].static_dims for f in branches])) for i in range(len(types))]
    attrs: dict[str, Any] = {"Tout": types, "output_shapes": shapes}
    if case:
        definition = case_op if stateful else stateless_case
        attrs["branches"] = branches
    else:
        definition = if_op if stateful else stateless_if
        attrs["then_branch"], attrs["else_branch"] = branches
    return add_calling_op(definition, (selector, args), attrs, branches, name)


def widest(shapes: list) -> tuple | None:
    """The narrowest static shape that covers all of `shapes`."""
    first = shapes[0]
    for s in shapes[1:]:
        if first is None or s is None or len(first) != len(s):
            return None
        first = tuple(a if a == b else None for a, b in zip(first, s, strict=True))
    return first
