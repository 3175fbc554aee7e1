"""Differentiating v1 control flow: Switch, Merge, Enter, Exit and NextIteration.

The gradient of a loop is another loop with the same number of iterations. Values of the forward loop that it needs are pushed
on a stack in each forward iteration and popped in each backward one. `LoopGradient` is the state of one such pair of loops,
`State` that of one call of tf.gradients; graph/gradients.py uses it for ops in loops.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.graph import context
from penstock._src.graph.constant import constant_value
from penstock._src.graph.control_flow_context import CondContext
from penstock._src.graph.control_flow_util import (
    enter_loop,
    entered,
    exit_loop,
    is_constant_enter,
    is_loop_exit,
    is_loop_switch,
    is_switch,
    merge,
    next_iteration,
    output_context,
    shape_of,
    switch_ref_or_tensor,
    variable_shape,
    while_context,
)
from penstock._src.graph.convert import constant, convert
from penstock._src.graph.handles import handle_dtype
from penstock._src.graph.indexed_slices import IndexedSlices, no_rows
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.while_context import WhileContext, add_back_edge
from penstock._src.graph.zeros import zeros_for
from penstock._src.ops.registry import get


def _known(dims: tuple | None) -> bool:
    return dims is not None and None not in dims


def _zeros_constant(dims: Any, dtype: Any) -> Tensor:
    return constant(np.zeros(dims, dtype.as_numpy_dtype), dtype.base_dtype)


def _zeros(shape: Tensor, dtype: Any) -> Tensor:
    return get("Fill")(shape, convert(0, dtype.base_dtype))


def _loop_around(ctxt: Any) -> Any:
    return ctxt.GetWhileContext() if ctxt is not None else None


class LoopGradient:
    """A forward loop and its gradient loop."""

    def __init__(self, forward: WhileContext, outer: LoopGradient | None):
        self.outer_grad_state, self.forward_context = outer, forward
        self.history_map: dict[str, Tensor] = {}        # forward name -> its value in the gradient loop
        self.switch_map: dict[Operation, Tensor] = {}   # forward Switch -> Merge of the gradient loop
        self.unused_exits: list[Tensor] = []
        self.deferred_exits: list[Tensor] = []
        self.forward_loop_exits = list(forward.loop_exits)
        self.pending_exits_count = len(forward.loop_exits)
        self._forward_sync: Any = None
        self._grad_sync: Any = None
        around = outer.forward_context if outer is not None else forward.outer_context
        with forward._graph.as_default(), entered(around):
            count, self.forward_index = forward.AddForwardLoopCounter(outer)
        if outer is None:
            with entered(around):
                self.grad_context = self._new_context()
                self.grad_index = self.grad_context.AddBackpropLoopCounter(count, None)
            return
        around.AddName(count.name)
        history = outer.AddForwardAccumulator(count)
        with entered(outer.grad_context):
            self.grad_context = self._new_context()
            real = outer.AddBackpropAccumulatedValue(history, count)
            self.grad_index = self.grad_context.AddBackpropLoopCounter(real, outer)

    def _new_context(self) -> WhileContext:
        f = self.forward_context
        return WhileContext(f.maximum_iterations, f.parallel_iterations, f.back_prop, f.swap_memory, f.name, self)

    @property
    def forward_sync(self) -> Operation:
        """Runs in every forward iteration, after the pushes in its branches."""
        if self._forward_sync is None:
            with context.current_graph().control_dependencies(None):
                self._forward_sync = get("ControlTrigger")(name="f_sync")
            self._forward_sync._set_control_flow_context(self.forward_context)
            self.forward_index.op._add_control_input(self._forward_sync)
        return self._forward_sync

    @property
    def grad_sync(self) -> Operation:
        """Runs in every backward iteration, after its pops."""
        if self._grad_sync is None:
            with context.current_graph().control_dependencies(None):
                self._grad_sync = get("ControlTrigger")(name="b_sync")
            self._grad_sync._set_control_flow_context(self.grad_context)
            self.grad_index.op._add_control_input(self._grad_sync)
            if self.grad_context.outer_context is not None:
                self.grad_context.outer_context.AddInnerOp(self._grad_sync)
        return self._grad_sync

    def AddForwardAccumulator(self, value: Tensor, dead_branch: bool = False) -> Tensor:
        """Makes the forward loop push `value` in each iteration; returns the stack."""
        graph = self.forward_index.graph
        with graph.as_default(), graph.control_dependencies(None):
            with graph.colocate_with(value):
                stack = get("StackV2")(convert(-1, dtypes.int32), elem_type=value.dtype.base_dtype, name="f_acc")
            inside = self.forward_context.AddValue(stack)
            ctxt = output_context(value.op)
            in_loop = ctxt is self.forward_context
            if not in_loop and not isinstance(ctxt, CondContext):
                raise TypeError(f"{value.name} is neither in the loop nor in a branch inside of it: {ctxt}")
            around = ctxt.outer_context if dead_branch and not in_loop else ctxt
            with entered(around):
                push = get("StackPushV2")(inside, value, swap_memory=self.forward_context.swap_memory)
            if in_loop:
                self.forward_index.op._add_control_input(push.op)
            else:
                if dead_branch:
                    push.op._set_control_flow_context(ctxt)
                self.forward_sync._add_control_input(push.op)
            push.op._add_control_input(self.forward_index.op.inputs[0].op)   # pushes in the order of iterations
        return stack

    def AddBackpropAccumulatedValue(self, history: Tensor, value: Tensor, dead_branch: bool = False) -> Tensor:
        """Pops a value that the forward loop pushed; in a branch, guarded by the branch's predicate."""
        branch = self._branch_of(history, value)
        with context.current_graph().control_dependencies(None), entered(self.grad_context):
            if branch is not None:
                pred, state = None, self
                while pred is None and state is not None:
                    pred = state.history_map.get(branch.pred.name)
                    state = state.outer_grad_state  # type: ignore[assignment]
                history = switch_ref_or_tensor(history, branch.pred if pred is None else pred)[
                    1 - branch.branch if dead_branch else branch.branch]
            pop = get("StackPopV2")(history, elem_type=value.dtype.base_dtype)
            pop.set_shape(value.shape)
        if self.grad_context.parallel_iterations > 1:
            self.grad_sync._add_control_input(pop.op)
        return pop

    @staticmethod
    def _branch_of(history: Tensor, value: Tensor) -> Any:
        stop = history.op._control_flow_context
        ctxt = value.op._control_flow_context
        while ctxt is not None and ctxt is not stop:
            if ctxt.IsCondContext():
                return ctxt
            ctxt = ctxt.outer_context
        return None

    def GetRealValue(self, value: Tensor) -> Tensor:
        """The value of a forward tensor in the gradient loop. Called in the gradient loop's context."""
        real = self.history_map.get(value.name)
        if real is not None:
            return real
        current, state = value, self
        while True:
            enter = _constant_enter(current)
            if enter is None:
                break
            current = enter.inputs[0]                     # an invariant: use the value of the enclosing loop
            if state.outer_grad_state is None:
                real = self.grad_context.AddValue(current)
                break
            state = state.outer_grad_state
        if real is None and current.op.opdef.name == "Const":
            real = constant(constant_value(current), current.dtype.base_dtype)
        if real is None:
            self.grad_context.Exit()
            history = state.AddForwardAccumulator(current)
            self.grad_context.Enter()
            real = state.AddBackpropAccumulatedValue(history, current)
            if state is not self:
                real = self.grad_context.AddValue(real)
        self.history_map[value.name] = real
        return real


def _constant_enter(t: Tensor) -> Operation | None:
    """The Enter that brings a loop invariant in, seen through identities and switches."""
    op = t.op
    while op.opdef.name in ("Identity", "RefIdentity", "Switch", "RefSwitch"):
        op = op.inputs[0].op
    return op if is_constant_enter(op) else None


class State:
    """The loops that one call of tf.gradients goes through."""

    def __init__(self) -> None:
        self.loops: dict[WhileContext, LoopGradient] = {}

    def add_loop(self, op: Operation, between: list[Operation], inside: set[Operation]) -> None:
        """Prepares the gradient of the loop that `op` exits, for all its exits."""
        forward = while_context(op)
        if forward in self.loops:
            return
        outer = self.loops.get(_loop_around(forward.outer_context))
        state = self.loops[forward] = LoopGradient(forward, outer)
        for t in state.forward_loop_exits:
            if t.op not in inside:
                inside.add(t.op)
                between.append(t.op)

    def loop_of(self, op: Operation, before: bool) -> LoopGradient | None:
        """The loop of an op; before its own gradient, an Exit belongs to the loop around."""
        if before and is_loop_exit(op):
            forward = _loop_around(op._control_flow_context.outer_context)
        else:
            forward = while_context(op)
        return self.loops.get(forward) if forward is not None else None

    def enter(self, op: Operation, before: bool) -> None:
        """Enters the gradient loop of an op."""
        state = self.loop_of(op, before)
        if state is not None:
            state.grad_context.Enter()

    def exit(self, op: Operation, before: bool) -> None:
        """Leaves the gradient loop of an op."""
        state = self.loop_of(op, before)
        if state is not None:
            state.grad_context.Exit()

    def process_unused_loop_exits(self, pending: dict[Operation, int], started: set[Operation]) -> list[Tensor]:
        """Exits without a differentiable use, of loops that have no other exits: their gradients start as zeros."""
        exits: list[Tensor] = []
        for state in self.loops.values():
            for t in state.forward_loop_exits:
                if pending[t.op] == 0:
                    state.pending_exits_count -= 1
                    if t.op not in started:
                        state.unused_exits.append(t)
                    if state.pending_exits_count == 0:
                        exits.extend(state.unused_exits)
            for t in state.forward_context.loop_enters:
                if pending[t.op] == 0:
                    pending[t.op] = 1
        return exits

    def zeros_like_for_exit(self, t: Tensor) -> Tensor:
        """Zeros for an exit that has no gradient."""
        forward = t.op._control_flow_context
        outer = self.loops.get(_loop_around(forward.outer_context))
        if outer is None:
            return _zeros_constant(t.static_dims, t.dtype) if _known(t.static_dims) else get("ZerosLike")(t)
        if _known(t.static_dims):
            with entered(outer.grad_context):
                return _zeros_constant(t.static_dims, t.dtype)
        with entered(forward.outer_context):
            shape = shape_of(t)
        history = outer.AddForwardAccumulator(shape)
        with entered(outer.grad_context):
            return _zeros(outer.AddBackpropAccumulatedValue(history, shape), t.dtype)

    def zeros_like(self, op: Operation, t: Tensor) -> Tensor | None:
        """Zeros for an output without gradient, made where the gradient of `op` is made."""
        if is_loop_switch(op):
            return None
        if op.graph.building_function:
            return get("ZerosLike")(t)
        state = self.loops.get(while_context(op))
        if state is None:
            return zeros_outside_loop(op, t)
        return _zeros_in_loop(state, op, t)

    def post_processing(self) -> None:
        """Loop variables without a differentiable update in the body: their gradient in the loop is zero."""
        for state in self.loops.values():
            for merged in state.switch_map.values():
                first, second = merged.op.inputs
                if first is second:
                    merged.op._update_input(1, _zero_back_edge(state, first))


def _zero_back_edge(state: LoopGradient, start: Tensor) -> Tensor:
    if _known(start.static_dims):
        with entered(state.grad_context):
            return next_iteration(_zeros_constant(start.static_dims, start.dtype))
    with entered(state.grad_context.outer_context):
        value = _zeros(shape_of(start.op.inputs[0]), start.dtype)
    with entered(state.grad_context):
        return next_iteration(value)


def _zeros_in_loop(state: LoopGradient, op: Operation, t: Tensor) -> Tensor:
    dead_branch = is_switch(op)            # a Switch of a conditional: the output of the branch not taken
    ctxt = op._control_flow_context
    if _known(t.static_dims):
        zeros = _zeros_constant(t.static_dims, t.dtype)
        if not dead_branch:
            return zeros
        return switch_ref_or_tensor(zeros, state.history_map[ctxt.pred.name])[1 - ctxt.branch]
    if dead_branch:
        with entered(ctxt.outer_context):
            other = switch_ref_or_tensor(op.inputs[0], ctxt.pred)[1 - ctxt.branch]
            shape = shape_of(other)
        other.op._set_control_flow_context(ctxt)
        shape.op._set_control_flow_context(ctxt)
    else:
        with entered(ctxt):
            shape = shape_of(t)
    state.grad_context.Exit()
    history = state.AddForwardAccumulator(shape, dead_branch)
    state.grad_context.Enter()
    return _zeros(state.AddBackpropAccumulatedValue(history, shape, dead_branch), t.dtype)


def zeros_outside_loop(op: Operation, t: Tensor) -> Tensor:
    """Zeros for an output without gradient, of an op that is in no loop."""
    ctxt = op._control_flow_context
    if not is_switch(op) or ctxt is None:
        return zeros_for(t)
    other = get("Switch")(op.inputs[0], ctxt.pred)[1 - ctxt.branch]
    pivot = get("Identity")(other)
    graph = context.current_graph()
    if t.dtype == dtypes.resource:
        with graph.control_dependencies([pivot]):
            return _zeros(variable_shape(other), handle_dtype(t))
    shape = shape_of(other)
    with graph.control_dependencies([pivot]):
        return _zeros(shape, t.dtype)


def make_state(between: list[Operation], inside: set[Operation], colocate: bool) -> State | None:
    """The state for a walk over the ops `between`; None if there is no loop among them."""
    state = None
    for op in list(between):
        if is_loop_exit(op):
            state = state or State()
            with context.current_graph().colocate_with(op) if colocate else entered(None):
                state.add_loop(op, between, inside)
    return state


# -- the gradients of the ops ---------------------------------------------------------------------------------------
def switch_gradient(op: Operation, false_grad: Any, true_grad: Any) -> list:
    """Merge. The Switch of a loop is visited twice: from the Exit, and at the end of the gradient loop's body."""
    ctxt = op._control_flow_context
    grads = (false_grad, true_grad)
    if isinstance(ctxt, WhileContext):
        return [_loop_switch_gradient(op, false_grad, true_grad), None]
    if isinstance(ctxt, CondContext):
        taken = grads[ctxt.branch]
        if isinstance(taken, IndexedSlices) and taken.dense_shape is None:         # of a keyed table: without rows, not zeros
            return [merge_grads([_without_rows(op, taken), taken], "cond_grad"), None]
        if grads[1 - ctxt.branch] is None:
            if op.inputs[0].dtype == dtypes.resource:
                return [merge_grads([grads[ctxt.branch]] * 2, "cond_resource_grad"), None]
            return [None, None]
        return [merge_grads(list(grads), "cond_grad"), None]
    pred = op.inputs[1]
    return [merge([get("Switch")(false_grad, pred)[0], get("Switch")(true_grad, pred)[1]]), None]


switch_gradient.takes_none = True  # type: ignore[attr-defined]


def _without_rows(op: Operation, slices: IndexedSlices) -> IndexedSlices:
    """Slices like those of one branch of a conditional, without rows, if the other one was taken."""
    ctxt: Any = op._control_flow_context
    graph = context.current_graph()
    around, pred = graph._get_control_flow_context(), ctxt.pred
    if around is not None and around.grad_state is not None:
        pred = _saved_pred(around.grad_state, pred)
    pivot = get("Identity")(get("Switch")(pred, pred)[1 - ctxt.branch])
    with graph.control_dependencies([pivot]):
        return no_rows(slices)


def _loop_switch_gradient(op: Operation, false_grad: Any, true_grad: Any) -> Any:
    state = context.current_graph()._get_control_flow_context().grad_state
    merged = state.switch_map.get(op)
    if merged is not None:
        if true_grad is not None:
            add_back_edge(merged, true_grad, enforce=False)
        return None
    if false_grad is None:
        return None
    false_grad = convert(false_grad)
    merged = state.switch_map[op] = merge([false_grad, false_grad], name="b_switch")
    return merged


def merge_grads(grads: list, name: str) -> Any:
    """Merge of gradients of two branches: sparse ones stay sparse if both are."""
    if not any(isinstance(g, IndexedSlices) for g in grads):
        return merge(grads, name=name)
    if not all(isinstance(g, IndexedSlices) and g.dense_shape is not None for g in grads):
        grads = [_as_slices(g) for g in grads]
    types = {g.indices.dtype.base_dtype for g in grads}
    indices = [g.indices if len(types) == 1 else get("Cast")(g.indices, DstT=dtypes.int64) for g in grads]
    shape = merge([g.dense_shape for g in grads]) if all(g.dense_shape is not None for g in grads) else None
    return IndexedSlices(merge([g.values for g in grads], name=name), merge(indices), shape)


def _as_slices(grad: Any) -> IndexedSlices:
    if isinstance(grad, IndexedSlices):
        return grad
    shape = get("Shape")(grad)
    return IndexedSlices(grad, get("Range")(convert(0), shape[0], convert(1)), shape)


def merge_gradient(op: Operation, grad: Any, _: Any) -> list:
    """Switch: the gradient goes to the input that was taken."""
    graph = context.current_graph()
    ctxt = output_context(op.inputs[0].op)
    grad_ctxt = graph._get_control_flow_context()
    if isinstance(ctxt, WhileContext):
        return _switched(grad, grad_ctxt.pivot)
    if isinstance(ctxt, CondContext):
        pred = ctxt.pred
        if grad_ctxt is not None and grad_ctxt.grad_state is not None:
            pred = _saved_pred(grad_ctxt.grad_state, pred)
        return _switched(grad, pred, "cond_grad")
    index = op.outputs[1]
    return [_switched(grad, get("Equal")(index, i))[1] for i in range(len(op.inputs))]


def _saved_pred(state: LoopGradient, pred: Tensor) -> Tensor:
    """The predicate of a conditional in a loop, as it was in the same iteration."""
    real = state.history_map.get(pred.name)
    if real is None:
        state.grad_context.Exit()
        history = state.AddForwardAccumulator(pred)
        state.grad_context.Enter()
        real = state.history_map[pred.name] = state.AddBackpropAccumulatedValue(history, pred)
    return real


def _switched(grad: Any, pred: Tensor, name: str = "Switch") -> list:
    if not isinstance(grad, IndexedSlices):
        return list(switch_ref_or_tensor(grad, pred, name))
    parts = [None if p is None else switch_ref_or_tensor(p, pred, name)
             for p in (grad.values, grad.indices, grad.dense_shape)]
    return [IndexedSlices(*(None if p is None else p[side] for p in parts)) for side in (0, 1)]


def exit_gradient(op: Operation, grad: Any) -> Any:
    """Enter of the gradient loop."""
    grad_ctxt = context.current_graph()._get_control_flow_context()
    if grad_ctxt is None or grad_ctxt.grad_state is None:
        raise NotImplementedError("A GradientTape cannot go through a loop of v1 control flow: use tf.gradients, or "
                                  "tf.enable_control_flow_v2().")
    if not grad_ctxt.back_prop:
        return None
    if op._control_flow_context.grad_state is not None:
        raise TypeError("Second-order gradient for while loops not supported.")
    grad = convert(grad)
    grad_ctxt.AddName(grad.name)
    with entered(grad_ctxt):
        out = enter_loop(grad, grad_ctxt.name, parallel=grad_ctxt.parallel_iterations, name="b_exit")
        grad_ctxt.loop_enters.append(out)
    return out


def enter_gradient(op: Operation, grad: Any) -> Any:
    """Exit of the gradient loop; for a loop invariant, the sum over the iterations."""
    grad_ctxt = context.current_graph()._get_control_flow_context()
    if grad_ctxt is None or not grad_ctxt.back_prop or grad_ctxt.grad_state is None:
        return grad
    if op.attrs["is_constant"]:
        if isinstance(grad, IndexedSlices):
            return grad_ctxt.AddBackpropIndexedSlicesAccumulator(op, grad)
        return grad_ctxt.AddBackpropAccumulator(op, grad)
    out = exit_loop(convert(grad))
    grad_ctxt.loop_exits.append(out)
    grad_ctxt.ExitResult([out])
    return out
