"""Gradients of ops that call functions: PartitionedCall, If, Case, While.

The gradient of a function is another function, its *backward* one: from gradients of the outputs, and whatever values
of the forward body they need, to gradients of the inputs. Those values become additional outputs of the forward op
(`append_outputs`), so that nothing is computed twice. A loop saves them in lists, one element per iteration.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes
from penstock._src.graph.backward import Backward, backward, dense, in_graph, no_tapes
from penstock._src.graph.convert import convert
from penstock._src.graph.eager_op import EagerOp
from penstock._src.graph.effects import writes_nothing
from penstock._src.graph.func_graph import copy_handle_data
from penstock._src.graph.functions import GraphFunction, add_to_library, append_outputs, as_function
from penstock._src.graph.gradients import is_trainable, zeros_for
from penstock._src.graph.handles import handle_dims, value_dims
from penstock._src.graph.indexed_slices import IndexedSlices, no_rows
from penstock._src.graph.node import Operation, Tensor
from penstock._src.ops.control.functional import (
    branch_op,
    call,
    case_op,
    if_op,
    partitioned_call,
    stateful_partitioned_call,
    stateless_case,
    stateless_if,
    stateless_while,
    while_op,
)
from penstock._src.ops.control.functional_control import while_v2
from penstock._src.ops.registry import get


# -- calls --------------------------------------------------------------------------------------------------------
def call_gradient(op: Any, *grads: Any) -> list:
    """The gradient of a PartitionedCall: a call of the backward function."""
    forward = as_function(op.attrs["f"], op.graph)
    which = _given(op, grads)
    if not which:
        return [None] * len(op.inputs)
    back = backward(forward, which)
    if isinstance(op, Operation):
        missing = back.intermediates()
        if missing:
            forward = _extend_call(op, forward, missing)
        resolve = _Resolver(op, forward)
    else:
        resolve = _Resolver(_recomputed(op, forward, back), forward.with_outputs(back.intermediates()))
    args = [dense(grads[i]) for i in which] + [resolve(t) for t in back.needs]
    flat = call(back.function, args)
    return back.gradients(flat, len(op.inputs))


call_gradient.takes_none = True  # type: ignore[attr-defined]


def _given(op: Any, grads: tuple) -> tuple[int, ...]:
    return tuple(i for i, (g, t) in enumerate(zip(grads, op.outputs, strict=False)) if g is not None and is_trainable(t))


def _extend_call(op: Operation, forward: GraphFunction, missing: list[Tensor]) -> GraphFunction:
    forward = forward.with_outputs(missing)
    append_outputs(op, missing, "Tout")
    op.attrs["f"] = forward
    add_to_library(op.graph, forward)
    return forward


def _recomputed(op: Any, forward: GraphFunction, back: Backward) -> Any:
    """Runs an executed call again if its outputs lack a value that the gradient needs."""
    missing = back.intermediates()
    if not missing:
        return op
    outputs = call(forward.with_outputs(missing), list(op.inputs))
    return EagerOp(op.opdef, op.inputs, outputs, op.attrs, op.counts)


class _Resolver:
    """Finds the value outside of a call that a tensor of the called function's graph has."""

    def __init__(self, op: Any, function: GraphFunction, skip: int = 0):
        self.graph = function.graph
        self.known: dict[int, Any] = {}
        for inner, t in zip(function.outputs, op.outputs, strict=False):
            self.known.setdefault(id(inner), t)
        for inner, t in zip(function.inputs, list(op.inputs)[skip:], strict=False):
            self.known[id(inner)] = t

    def __call__(self, t: Any) -> Any:
        if not in_graph(t, self.graph):
            return t
        return self.known[id(t)]


# -- branches -------------------------------------------------------------------------------------------------------
def branch_gradient(op: Operation, branches: list, set_branches: Any, grads: tuple) -> list:
    """The gradient of If and Case: the same choice over the backward functions of the branches."""
    functions = [as_function(b, op.graph) for b in branches]
    which = _given(op, grads)
    if not which:
        return [None] * len(op.inputs)
    backs = [backward(f, which) for f in functions]
    missing = [b.intermediates() for b in backs]
    if any(missing):
        functions = _extend_branches(op, functions, missing, set_branches)
    matched = _Matched(backs)
    args: list = [dense(grads[i]) for i in which]
    for b, f in zip(backs, functions, strict=True):
        resolve = _Resolver(op, f, 1)
        args.extend(resolve(t) for t in b.needs)
    flat = branch_op(op.inputs[0], args, matched.functions, "branches" in op.attrs).outputs
    return [None, *matched.unpack(flat, len(op.inputs) - 1)]


def _extend_branches(op: Operation, functions: list[GraphFunction], missing: list[list[Tensor]],
                     set_branches: Any) -> list[GraphFunction]:
    """Every branch returns the saved values of all branches; values of the others are unused placeholders."""
    new = []
    for i, f in enumerate(functions):
        more: list[Tensor] = []
        with f.graph.as_default(), f.graph.control_dependencies(None), no_tapes():
            for j, tensors in enumerate(missing):
                more.extend(tensors if i == j else [stand_in(t) for t in tensors])
        new.append(f.with_outputs(more))
        add_to_library(op.graph, new[-1])
    append_outputs(op, [t for tensors in missing for t in tensors], "Tout")
    set_branches(op, new)
    return new


def stand_in(t: Tensor) -> Tensor:
    """A tensor of the same type and static shape whose value does not matter."""
    out = get("FakeParam")(dtype=t.dtype.base_dtype, shape=t.shape)
    copy_handle_data(t, out)
    return out


class _Matched:
    """Backward functions of all branches with one signature: all seeds and needs in, all gradients out."""

    def __init__(self, backs: list[Backward]):
        wanted = sorted({i for b in backs for i in b.slots})
        self.layout = {i: _parts([len(b.slots.get(i, ())) for b in backs]) for i in wanted}
        self.sparse = {i: next([b.graph.outputs[s] for s in b.slots[i]] for b in backs if len(b.slots.get(i, ())) > 1)
                       for i, n in self.layout.items() if n == 2}
        outputs = [self._outputs(b) for b in backs]
        self.functions = [GraphFunction(b.graph, None, self._inputs(b, backs), out)
                          for b, out in zip(backs, outputs, strict=True)]

    def _outputs(self, b: Backward) -> list[Tensor]:
        out: list[Tensor] = []
        flat = b.graph.outputs
        with b.graph.as_default(), no_tapes():
            for i, n in self.layout.items():
                slots = b.slots.get(i)
                if slots is None:
                    out += self._no_rows(i) if n == 2 else [zeros_like(b.forward.inputs[i])]
                elif len(slots) == n or len(slots) > n > 1:
                    out.extend(flat[s] for s in slots[:n])
                else:
                    out.append(convert(IndexedSlices(*[flat[s] for s in slots])))
        return out

    def _no_rows(self, i: int) -> list[Tensor]:
        none = no_rows(IndexedSlices(*self.sparse[i][:2]))
        return [none.values, none.indices]

    @staticmethod
    def _inputs(b: Backward, backs: list[Backward]) -> list[Tensor]:
        inputs = list(b.seeds)
        for other in backs:
            inputs.extend(b.graph.internal_captures if other is b else
                          [b.graph.placeholder(t.dtype.base_dtype, t.static_dims, "unused") for t in other.needs])
        return inputs

    def unpack(self, flat: list, count: int) -> list:
        """The gradient of each input of the branches."""
        out: list = [None] * count
        at = 0
        for i, n in self.layout.items():
            out[i] = flat[at] if n == 1 else IndexedSlices(*flat[at:at + n])
            at += n
        return out


def _parts(counts: list[int]) -> int:
    """How many tensors are the gradient of an input, from their number in each branch (0: no gradient). It is IndexedSlices
    where that is so in all branches, and where one has slices without a shape, as keyed rows do: they have no dense form."""
    return 2 if 2 in counts else 3 if min(counts) == 3 else 1


def zeros_like(t: Tensor) -> Tensor:
    """Zeros shaped like a tensor, or like the variable behind a handle; a constant where the shape is known."""
    dims = t.static_dims
    if t.dtype.torch is not None and dims is not None and None not in dims:
        return get("Fill")(convert(list(dims), dtypes.int32), convert(0, t.dtype.base_dtype))
    return zeros_for(t)


# -- loops ------------------------------------------------------------------------------------------------------------
def while_gradient(op: Operation, *grads: Any) -> list:
    """The gradient of a loop: a loop that runs the backward function of the body as often, last iteration first."""
    body = as_function(op.attrs["body"], op.graph)
    every = _carried(body, _given(op, grads))
    if not every:
        return [None] * len(op.inputs)
    seeds = tuple(i for i in every if not _stays_a_handle(body, i))
    back = backward(body, seeds)
    rows = _Rows(back)
    carried = [*seeds, *(i for i in every if i not in seeds and i not in rows.of)]
    inner = [t for t in back.needs if in_graph(t, body.graph) and not _invariant(body, t)]
    stays = _Staying(body)
    fixed = [t for t in inner if t in stays]
    saved = _save(op, [t for t in inner if t not in stays])
    invariant = {id(p): t for p, t in zip(body.inputs, op.inputs, strict=False)}
    invariant.update((i, op.outputs[at]) for i, at in _save(op, fixed, _add_variables).items())
    order = [t for t in back.needs if id(t) in saved]
    start = [zeros_like(op.outputs[i]) if i >= len(grads) or grads[i] is None else dense(grads[i]) for i in carried]

    def step(*state: Any) -> list:
        values = {}
        lists = []
        found, saved_lists = state[len(carried):len(carried) + rows.count], state[len(carried) + rows.count:]
        for t, handle in zip(order, saved_lists, strict=True):
            handle, value = get("TensorListPopBack")(handle, element_shape(t), element_dtype=t.dtype.base_dtype)
            copy_handle_data(t, value)
            lists.append(handle)
            values[id(t)] = value
        needs = [values[id(t)] if id(t) in values else invariant[id(t)] if in_graph(t, body.graph) else t
                 for t in back.needs]
        got = back.gradients(call(back.function, [*state[:len(seeds)], *needs]), len(body.inputs))
        new = [zeros_like(g) if got[i] is None else dense(got[i]) for i, g in zip(seeds, state, strict=False)]
        for i, g in zip(carried[len(seeds):], state[len(seeds):], strict=False):
            new.append(g if got[i] is None else g + dense(got[i]))
        return [*new, *rows.added(found, got), *lists]

    shapes = [value_dims(op.outputs[i]) for i in carried]
    result = while_v2(None, step, [*start, *rows.none(), *(op.outputs[saved[id(t)]] for t in order)],
                      shapes + [()] * (rows.count + len(order)), maximum_iterations=op.outputs[0], name="while_grad")
    out: list = [None] * len(op.inputs)
    for i, g in zip(carried, result, strict=False):
        out[i] = g
    for i, g in rows.gradients(result[len(carried):len(carried) + rows.count]):
        out[i] = g
    for i, t in enumerate(op.inputs):                    # unused inputs of the loop have a gradient of zero
        if out[i] is None and i < len(body.inputs) and is_trainable(t) and _has_zeros(t):
            out[i] = zeros_like(t)
    return out


while_gradient.takes_none = True  # type: ignore[attr-defined]


class _Rows:
    """The gradients of keyed tables that a loop looks up: the slices of each iteration, in lists."""

    def __init__(self, back: Backward):
        self.of = {i: [back.graph.outputs[s] for s in slots] for i, slots in back.slots.items() if len(slots) == 2}
        self.count = 2 * len(self.of)                  # lists

    def none(self) -> list[Tensor]:
        """Empty lists."""
        return [get("EmptyTensorList")(element_shape(t), convert(-1, dtypes.int32), element_dtype=t.dtype.base_dtype)
                for parts in self.of.values() for t in parts]

    def added(self, lists: Any, grads: list) -> list[Tensor]:
        """Lists with the slices of one more iteration."""
        parts = [part for i in self.of for part in (grads[i].values, grads[i].indices)]
        return [get("TensorListPushBack")(handle, t) for handle, t in zip(lists, parts, strict=True)]

    def gradients(self, lists: Any) -> list[tuple[int, IndexedSlices]]:
        """The slices of all iterations, by input of the loop."""
        parts = [get("TensorListConcatV2")(handle, element_shape(t), convert([], dtypes.int64),
                                           element_dtype=t.dtype.base_dtype)[0]
                 for handle, t in zip(lists, (t for parts in self.of.values() for t in parts), strict=True)]
        return [(i, IndexedSlices(*parts[2 * n:2 * n + 2])) for n, i in enumerate(self.of)]


def _stays_a_handle(body: GraphFunction, i: int) -> bool:
    """Whether an input of a body is a handle that the loop does not change: its gradient is the sum over iterations."""
    return body.inputs[i].dtype == dtypes.resource and body.outputs[i] is body.inputs[i]


def _has_zeros(t: Tensor) -> bool:
    """Whether a tensor, or the variable behind a handle, has a shape: keyed tables do not."""
    return t.dtype != dtypes.variant and not (t.dtype == dtypes.resource and None in (handle_dims(t) or ()))


def _invariant(body: GraphFunction, t: Tensor) -> bool:
    return any(p is t and o is t for p, o in zip(body.inputs, body.outputs, strict=True))


def _carried(body: GraphFunction, given: tuple[int, ...]) -> tuple[int, ...]:
    """The loop variables whose gradient is not zero: those on which the ones with a gradient depend."""
    position = {id(t): i for i, t in enumerate(body.inputs)}
    found, todo = set(given), list(given)
    while todo:
        stack, seen = [body.outputs[todo.pop()]], set()
        while stack:
            t = stack.pop()
            if id(t) in seen or not is_trainable(t):
                continue
            seen.add(id(t))
            i = position.get(id(t))
            if i is not None and i not in found:
                found.add(i)
                todo.append(i)
            stack.extend(t.op.inputs)
    return tuple(sorted(found))


def element_shape(t: Tensor) -> Any:
    """The static shape of the elements of a list, as such ops take it: -1 for what is unknown."""
    return convert(-1, dtypes.int32) if t.static_dims is None else \
        convert([-1 if d is None else d for d in t.static_dims], dtypes.int32)


class _Staying:
    """The tensors of a body that are the same in all iterations, and of known shape: made of what does not change, by ops
    without effects, or read from variables that the loop does not write to."""

    def __init__(self, body: GraphFunction) -> None:
        self._known = {id(t): p is t for p, t in zip(body.outputs, body.inputs, strict=True)}
        self._may_read = writes_nothing(body.graph.get_operations())

    def __contains__(self, t: Tensor) -> bool:
        return t.dtype.torch is not None and t.static_dims is not None and None not in t.static_dims and self._stays(t)

    def _stays(self, t: Tensor) -> bool:
        if id(t) not in self._known:
            opdef = t.op.opdef
            self._known[id(t)] = bool(t.op.inputs) and (opdef.foldable or opdef.reads and self._may_read) and \
                all(map(self._stays, t.op.inputs))
        return self._known[id(t)]


def _save(op: Operation, tensors: list[Tensor], add: Callable | None = None) -> dict[int, int]:
    """Makes the loop save values of its body in lists: tensor id -> index of the output that is the list."""
    add = add or _add_lists
    known = op.__dict__.setdefault("_saved_values", {})
    new = [t for t in tensors if id(t) not in known]
    if new:
        first = len(op.outputs)
        add(op, new)
        known.update((id(t), first + i) for i, t in enumerate(new))
    return {id(t): known[id(t)] for t in tensors}


def _add_lists(op: Operation, tensors: list[Tensor]) -> None:
    graph = op.graph
    body = as_function(op.attrs["body"], graph)
    with graph.as_default(), graph.control_dependencies(None), no_tapes():
        lists = [get("EmptyTensorList")(element_shape(t), convert(-1, dtypes.int32), element_dtype=t.dtype.base_dtype)
                 for t in tensors]
    with body.graph.as_default(), body.graph.control_dependencies(None), no_tapes():
        inside = [body.graph.placeholder(dtypes.variant, (), "accumulator") for _ in tensors]
        pushed = [get("TensorListPushBack")(p, t) for p, t in zip(inside, tensors, strict=True)]
    _extend(op, lists, inside, pushed)


def _add_variables(op: Operation, tensors: list[Tensor]) -> None:
    """Makes the loop return values that are the same in all iterations: as variables that begin as zeros."""
    graph = op.graph
    body = as_function(op.attrs["body"], graph)
    with graph.as_default(), graph.control_dependencies(None), no_tapes():
        zeros = [zeros_like(t) for t in tensors]
    with body.graph.as_default(), body.graph.control_dependencies(None), no_tapes():
        inside = [body.graph.placeholder(t.dtype.base_dtype, t.static_dims, "same") for t in tensors]
    _extend(op, zeros, inside, tensors)


def _extend(op: Operation, start: list[Tensor], inside: list[Tensor], following: list[Tensor]) -> None:
    """Adds variables to a loop: their initial values, their placeholders in the body, and their next values."""
    graph = op.graph
    cond, body = as_function(op.attrs["cond"], graph), as_function(op.attrs["body"], graph)
    unused = [cond.graph.placeholder(t.dtype, t.static_dims, "unused") for t in inside]
    op.attrs["cond"] = GraphFunction(cond.graph, None, [*cond.inputs, *unused], cond.outputs)
    op.attrs["body"] = GraphFunction(body.graph, None, [*body.inputs, *inside], [*body.outputs, *following])
    for f in (op.attrs["cond"], op.attrs["body"]):
        add_to_library(graph, f)
    for t in start:
        op._add_input(t)
    op.counts = (len(op.inputs),)
    append_outputs(op, start, "T")


# -- registration ---------------------------------------------------------------------------------------------------
for _op in (partitioned_call, stateful_partitioned_call):
    _op.gradient(call_gradient)
for _op in (while_op, stateless_while):
    _op.gradient(while_gradient)


def _if_gradient(op: Any, *grads: Any) -> list:
    def set_branches(op: Any, functions: list) -> None:
        op.attrs["then_branch"], op.attrs["else_branch"] = functions
    return branch_gradient(op, [op.attrs["then_branch"], op.attrs["else_branch"]], set_branches, grads)


def _case_gradient(op: Any, *grads: Any) -> list:
    def set_branches(op: Any, functions: list) -> None:
        op.attrs["branches"] = functions
    return branch_gradient(op, op.attrs["branches"], set_branches, grads)


for _gradient, _ops in ((_if_gradient, (if_op, stateless_if)), (_case_gradient, (case_op, stateless_case))):
    _gradient.takes_none = True  # type: ignore[attr-defined]
    for _op in _ops:
        _op.gradient(_gradient)
