"""WhileContext: a loop of v1 control flow, and what its gradient adds to it.

A loop is a frame: loop variables enter through Enter, cycle through Merge, Switch and NextIteration, and leave through Exit.
Invariants enter through constant Enters, valid in every iteration.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base import dtypes, nest
from penstock._src.base.static_shape import TensorShape, as_dims
from penstock._src.graph import context
from penstock._src.graph.control_flow_context import ControlFlowContext, calls_function, summaries_run
from penstock._src.graph.control_flow_util import (
    covers,
    enter_loop,
    entered,
    exit_loop,
    is_constant_enter,
    is_loop_exit,
    merge,
    next_iteration,
    output_context,
    switch_ref_or_tensor,
    variable_shape,
    while_context,
)
from penstock._src.graph.convert import constant, convert
from penstock._src.graph.indexed_slices import IndexedSlices, no_rows
from penstock._src.graph.node import Operation, Tensor
from penstock._src.ops.registry import get


class WhileContext(ControlFlowContext):
    """A loop."""

    def __init__(self, maximum_iterations: Any = None, parallel_iterations: int = 10, back_prop: bool = True,
                 swap_memory: bool = False, name: str = "while_context", grad_state: Any = None):
        if not isinstance(parallel_iterations, int) or parallel_iterations <= 0:
            raise ValueError(f"`parallel_iterations` must be a positive integer: {parallel_iterations}")
        super().__init__(name)
        self._maximum_iterations, self._parallel_iterations = maximum_iterations, parallel_iterations
        self._back_prop, self._swap_memory = back_prop, swap_memory
        self._pivot_for_pred: Any = None           # what ops of the predicate wait for
        self._pivot_for_body: Any = None           # what ops of the body wait for
        self._pivot: Any = None                    # the LoopCond
        self._loop_exits: list[Tensor] = []
        self._loop_enters: list[Tensor] = []
        self._graph = context.current_graph()
        self._grad_state = grad_state

    maximum_iterations = property(lambda self: self._maximum_iterations, doc="The most iterations, or None.")
    parallel_iterations = property(lambda self: self._parallel_iterations, doc="How many iterations may overlap.")
    back_prop = property(lambda self: self._back_prop, doc="Whether the loop can be differentiated.")
    swap_memory = property(lambda self: self._swap_memory, doc="Whether saved values may go to host memory.")
    pivot = property(lambda self: self._pivot, doc="The LoopCond tensor.")
    loop_enters = property(lambda self: self._loop_enters, doc="The Enter tensors of the loop variables.")
    loop_exits = property(lambda self: self._loop_exits, doc="The Exit tensors of the loop variables.")
    grad_state = property(lambda self: self._grad_state, doc="The state of the gradient loop that this is, or None.")

    def GetWhileContext(self) -> WhileContext:
        """Itself."""
        return self

    def GetControlPivot(self) -> Any:
        """The pivot of the body, or of the predicate while that is being built."""
        return self._pivot_for_body if self._pivot_for_body is not None else self._pivot_for_pred

    def IsWhileContext(self) -> bool:
        """Yes."""
        return True

    # -- values and ops ----------------------------------------------------------------------------------------------
    def AddValue(self, val: Tensor) -> Tensor:
        """The tensor that represents `val` in this loop: an Enter if it comes from outside."""
        if val.name in self._values or val.op._control_flow_context is self:
            actual = self._external_values.get(val.name)
            return val if actual is None else actual
        self._values.add(val.name)
        saved = self._from_forward_loop(val)
        if saved is not None:
            self._external_values[val.name] = saved
            return saved
        result = self._outer_context.AddValue(val) if self._outer_context is not None else val
        with context.current_graph().control_dependencies(None):
            enter = enter_loop(result, self._name, constant=True, parallel=self._parallel_iterations)
            enter.graph.prevent_feeding(enter)
            if self._outer_context is not None:
                self._outer_context.AddInnerOp(enter.op)
        self._FixControlInputsAndContext([enter])
        self._values.add(enter.name)
        self._external_values[val.name] = enter
        return enter

    def _from_forward_loop(self, val: Tensor) -> Tensor | None:
        """In a gradient loop: the value that `val` had in the same iteration of the forward loop."""
        current = context.current_graph()._get_control_flow_context()
        loop = current.GetWhileContext() if current is not None else None
        if loop is None or loop.grad_state is None:
            return None
        forward = while_context(val.op)
        if is_loop_exit(val.op):
            forward = forward.outer_context
            forward = forward.GetWhileContext() if forward is not None else None
        if forward is not loop.grad_state.forward_context:
            return None
        return loop.grad_state.GetRealValue(val)

    def AddOp(self, op: Operation) -> None:
        """Adds an op to the loop.

        Ops that only need the shape of a forward value move to the forward loop: the shape is saved instead of the value.
        """
        if op.inputs and op.opdef.name in ("Shape", "Size", "Rank"):
            current = context.current_graph()._get_control_flow_context()
            loop = current.GetWhileContext() if current is not None else None
            if loop is not None and loop.grad_state is not None and \
                    while_context(op.inputs[0].op) is loop.grad_state.forward_context:
                inner = op.inputs[0].op._control_flow_context
                op._set_control_flow_context(inner)
                inner._AddOpInternal(op)
                return
        self._AddOpInternal(op)

    def _AddOpInternal(self, op: Operation) -> None:
        if not op.inputs:
            internal, external = self._RemoveExternalControlEdges(op)
            if not internal:
                op._add_control_input(self.GetControlPivot().op)
        else:
            for i, x in enumerate(list(op.inputs)):
                real = self.AddValue(x)
                if real is not x:
                    op._update_input(i, real)
            _, external = self._RemoveExternalControlEdges(op)
            self._MaybeAddControlDependency(op)
        self._values.update(t.name for t in op.outputs)
        if external:
            self._wait_inside(op, external)
        if self._outer_context is not None or not is_loop_exit(op):
            op.graph.prevent_fetching(op)
            for t in op.outputs:
                op.graph.prevent_feeding(t)
        if self._outer_context is not None:
            self._outer_context.AddInnerOp(op)

    def _wait_inside(self, op: Operation, external: list[Operation]) -> None:
        """Control inputs from outside become data that enters the loop; ops without outputs cannot."""
        with context.current_graph().control_dependencies(None):
            self.Enter()
            waits = [get("Identity")(x.outputs[0]).op for x in external if x.outputs]
            self.Exit()
        op._add_control_inputs(waits)

    def _MaybeAddControlDependency(self, op: Operation) -> None:
        """An op that depends only on loop invariants must wait for the iteration."""
        if op.control_inputs:
            return
        if calls_function(op) or all(is_constant_enter(t.op) for t in op.inputs):
            op._add_control_input(self.GetControlPivot().op)

    # -- building ------------------------------------------------------------------------------------------------------
    def BuildLoop(self, pred: Any, body: Any, loop_vars: Any, shape_invariants: Any, return_same_structure: bool,
                  like: Any = None) -> Any:
        """Builds the loop and returns its results in the structure that `body` returns.

        `like` has the structure of the loop variables, with the type of a composite that changes its shape in its place.
        """
        original = loop_vars
        flat = nest.flatten(original, expand_composites=True)
        tensors = [convert(x.flow if getattr(x, "_is_tensor_array", False) else x) for x in flat]
        shapes = [TensorShape.of(t.static_dims) for t in tensors] if shape_invariants is None else shape_invariants
        self.Enter()
        try:
            result, exits = self._BuildLoop(pred, body, original if like is None else like, flat, tensors, shapes)
        finally:
            self.Exit()
        like = nest.flatten(result, expand_composites=True)
        packed = nest.pack_sequence_as(result, _with_flows(like, exits), expand_composites=True)
        if return_same_structure:
            return packed
        return packed[0] if len(exits) == 1 else packed

    def _BuildLoop(self, pred: Any, body: Any, original: Any, flat: list, loop_vars: list[Tensor],
                   shapes: list) -> tuple:
        enters = self._enter_vars(loop_vars, shapes)
        merges = [merge([x, x]) for x in enters]
        self._pivot_for_pred = merges[0]
        packed = nest.pack_sequence_as(original, _with_flows(flat, merges), expand_composites=True)
        self._pivot = get("LoopCond")(convert(pred(*packed)), name="LoopCond")
        switches = [switch_ref_or_tensor(x, self._pivot) for x in merges]
        inside = [_identity(x[1]) for x in switches]
        self._pivot_for_body = inside[0]
        packed = nest.pack_sequence_as(original, _with_flows(flat, inside), expand_composites=True)
        with summaries_run() as summaries:
            result = body(*packed)
            if not nest.is_nested_or_composite(result):
                result = [result]
            result = summaries.attach(result)
        nest.assert_same_structure(list(packed), list(result), expand_composites=True)
        new = [convert(x.flow if getattr(x, "_is_tensor_array", False) else x)
               for x in nest.flatten(result, expand_composites=True)]
        if len(merges) != len(new):
            raise ValueError(f"Number of inputs and outputs of body must match loop_vars: {len(merges)}, {len(new)}")
        for m, v in zip(merges, new, strict=True):
            add_back_edge(m, v)
        exits = [exit_loop(x[0]) for x in switches]
        self._loop_exits = exits
        self.ExitResult(exits)
        return result, exits

    def _enter_vars(self, loop_vars: list[Tensor], shapes: list) -> list[Tensor]:
        self._values = {x.name for x in loop_vars}
        outer = self._outer_context
        real = [outer.AddValue(x) for x in loop_vars] if outer is not None else loop_vars
        with context.current_graph().control_dependencies(None):
            enters = [enter_loop(x, self._name, parallel=self._parallel_iterations, use_input_shape=False) for x in real]
            for x in enters:
                x.graph.prevent_feeding(x)
                if outer is not None:
                    outer.AddInnerOp(x.op)
        pivot = None
        while outer is not None and pivot is None:
            pivot = outer.GetControlPivot()
            outer = outer.outer_context
        if pivot is not None:
            for x in enters:
                if is_constant_enter(x.op.inputs[0].op):
                    x.op._add_control_input(pivot.op)
        set_shape_invariants(real, enters, shapes)
        self._FixControlInputsAndContext(enters)
        self._values = {x.name for x in enters}
        self._loop_enters = enters
        return enters

    def _FixControlInputsAndContext(self, enters: list[Tensor]) -> None:
        """Enter ops belong to the loop, and keep those control inputs that are around it."""
        graph = context.current_graph()
        stacks = graph._stacks
        for x in enters:
            waits = []
            for op in graph._scope_dependencies(stacks, x.op):
                outer = self._outer_context
                outer_loop = outer.GetWhileContext() if outer is not None else None
                op_ctxt = output_context(op)
                keep = True
                while outer is not op_ctxt:
                    if outer is None or outer is outer_loop:
                        keep = False
                        break
                    outer = outer.outer_context
                if keep:
                    waits.append(op)
            x.op._set_control_flow_context(self)
            x.op._add_control_inputs(waits)
            for scope in stacks.control:
                scope.inside.add(x.op)

    # -- used by the gradient --------------------------------------------------------------------------------------
    def AddForwardLoopCounter(self, outer_grad_state: Any) -> tuple[Tensor, Tensor]:
        """Makes the forward loop count its iterations: (total, the count as of the next iteration)."""
        n = convert(0, dtypes.int32, name="f_count")
        if outer_grad_state is not None:            # pushes of one run of an inner loop come before those of the next
            n.op._add_control_input(outer_grad_state.forward_index.op.inputs[0].op)
        self.Enter()
        self.AddName(n.name)
        enter = enter_loop(n, self._name, parallel=self._parallel_iterations, name="f_count")
        self._loop_enters.append(enter)
        merged = merge([enter, enter])
        switched = get("Switch")(merged, self._pivot)
        index = get("AddV2")(switched[1], 1, name="Add")
        following = next_iteration(index)
        merged.op._update_input(1, following)
        total = exit_loop(switched[0], name="f_count")
        self._loop_exits.append(total)
        self.ExitResult([total])
        self.Exit()
        return total, following

    def AddBackpropLoopCounter(self, count: Tensor, outer_grad_state: Any) -> Tensor:
        """Makes this gradient loop run `count` times; returns the count as of the next iteration."""
        one = convert(1, dtypes.int32, name="b_count")
        self.Enter()
        self.AddName(count.name)
        enter = enter_loop(count, self._name, parallel=self._parallel_iterations, name="b_count")
        self._loop_enters.append(enter)
        merged = merge([enter, enter])
        self._pivot_for_pred = merged
        self._pivot = get("LoopCond")(get("GreaterEqual")(merged, one), name="b_count")
        switched = get("Switch")(merged, self._pivot)
        index = get("Sub")(switched[1], one)
        self._pivot_for_body = index
        following = next_iteration(index)
        merged.op._update_input(1, following)
        zero = exit_loop(switched[0], name="b_count")
        self._loop_exits.append(zero)
        if outer_grad_state is not None:            # pops of one run of an inner loop come before those of the next
            outer_grad_state.grad_sync._add_control_input(zero.op)
        self.ExitResult([zero])
        self.Exit()
        return following

    def AddBackpropAccumulator(self, op: Operation, grad: Tensor) -> Tensor:
        """Adds up the gradient of a loop invariant (the Enter `op`) over the iterations."""
        self.Exit()
        start = self._zero_like_outside(op, grad)
        self.Enter()
        self.AddName(start.name)
        enter = enter_loop(start, self._name, parallel=self._parallel_iterations, name="b_acc")
        self._loop_enters.append(enter)
        merged = merge([enter, enter], name="b_acc")
        off, on = get("Switch")(merged, self._pivot)
        merged.op._update_input(1, next_iteration(get("AddV2")(on, grad, name="Add")))
        total = exit_loop(off, name="b_acc")
        self._loop_exits.append(total)
        self.ExitResult([total])
        return total

    def _zero_like_outside(self, op: Operation, grad: Tensor) -> Tensor:
        """Zeros shaped like the gradient, made outside this loop: the result of zero iterations."""
        dims = grad.static_dims
        outer = self._outer_context
        if dims is not None and None not in dims:
            with entered(outer):
                return constant(np.zeros(dims, grad.dtype.as_numpy_dtype), grad.dtype.base_dtype, name="b_acc")
        value = op.inputs[0]
        if isinstance(outer, WhileContext) and outer.grad_state is not None:
            with entered(self.grad_state.forward_context.outer_context):
                shape = variable_shape(value)
            state = self.grad_state.outer_grad_state
            history = state.AddForwardAccumulator(shape)
            with entered(outer):
                real = state.AddBackpropAccumulatedValue(history, shape)
                return get("Fill")(real, convert(0, grad.dtype.base_dtype))
        with entered(outer):
            return get("Fill")(variable_shape(value), convert(0, grad.dtype.base_dtype))

    def AddBackpropIndexedSlicesAccumulator(self, op: Operation, grad: IndexedSlices) -> IndexedSlices:
        """Collects the sparse gradients of a loop invariant over the iterations."""
        values, indices, shape = grad.values, grad.indices, grad.dense_shape
        self.Exit()
        outer = self._outer_context
        with entered(outer):
            row = values.static_dims[1:] if values.static_dims is not None else (None,)
            if shape is None and None not in row:    # of a keyed table, where a row of zeros would be a key
                none = no_rows(grad)
                start = [none.indices, none.values]
            else:
                zero = convert(0, values.dtype.base_dtype)
                row_shape = convert(list(row), dtypes.int32) if None not in row else variable_shape(op.inputs[0])[1:]
                start = [convert([0], indices.dtype.base_dtype),
                         get("Fill")(get("ConcatV2")([convert([1], dtypes.int32), row_shape], 0), zero)]
            if shape is not None:
                known = shape.static_dims is not None and shape.static_dims[0] is not None
                start.append(convert([0] * shape.static_dims[0], shape.dtype.base_dtype) if known else
                             get("ZerosLike")(get("Shape")(op.inputs[0], out_type=shape.dtype.base_dtype)))
        self.Enter()
        for t in start:
            self.AddName(t.name)
        enters = [enter_loop(t, self._name, parallel=self._parallel_iterations, use_input_shape=False, name="b_acc")
                  for t in start]
        enters[0].set_shape([None])
        if start[1].static_dims is not None:
            enters[1].set_shape([None, *start[1].static_dims[1:]])
        self._loop_enters.extend(enters)
        merged = [merge([x, x], name="b_acc") for x in enters]
        switched = [get("Switch")(x, self._pivot) for x in merged]
        new = [get("ConcatV2")([s[1], x], 0) for s, x in zip(switched, (indices, values), strict=False)]
        if shape is not None:
            new.append(get("Maximum")(shape, switched[2][1]))
        for m, x in zip(merged, new, strict=True):
            m.op._update_input(1, next_iteration(x))
        exits = [exit_loop(s[0], name="b_acc") for s in switched]
        self._loop_exits.extend(exits)
        self.ExitResult(exits)
        return IndexedSlices(exits[1], exits[0], exits[2] if shape is not None else None)


def _identity(t: Tensor) -> Tensor:
    return get("RefIdentity")(t, name="Identity") if t.dtype._is_ref_dtype else get("Identity")(t)


def _with_flows(like: list, tensors: list[Tensor]) -> list:
    return [x._with_flow(t) if getattr(x, "_is_tensor_array", False) else t for x, t in zip(like, tensors, strict=True)]


def set_shape_invariants(inputs: list[Tensor], enters: list[Tensor], shapes: Any) -> None:
    """Gives loop variables the static shapes that hold in every iteration."""
    flat = nest.flatten(shapes)
    if len(flat) != len(enters):
        raise ValueError(f"There are {len(flat)} shape invariants for {len(enters)} loop variables.")
    for t, x, s in zip(inputs, enters, flat, strict=True):
        if not isinstance(s, TensorShape):
            raise ValueError("`shapes` must be a (possibly nested) list of shapes.")
        if not covers(as_dims(s), t.static_dims):
            raise ValueError(f"The shape invariant specified for {t.name} is not compatible with the initial shape of the "
                             f"loop variable. It enters the loop with shape {t.shape}, but the specified shape invariant "
                             f"is {s}.")
        x.set_shape(s)


def add_back_edge(merged: Tensor, value: Any, enforce: bool = True) -> Tensor:
    """NextIteration of `value`, as the second input of a loop's Merge."""
    following = next_iteration(convert(value))
    if enforce and not covers(merged.static_dims, following.static_dims):
        start = merged.op.inputs[0].op.inputs[0]
        raise ValueError(f"Input tensor '{start.name}' enters the loop with shape {start.shape}, but has shape "
                         f"{following.shape} after one iteration. To allow the shape to vary across iterations, use the "
                         "`shape_invariants` argument of tf.while_loop to specify a less-specific shape.")
    merged.op._update_input(1, following)
    return following
