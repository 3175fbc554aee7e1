"""Control flow contexts: what `cond` and `while_loop` make of ops that are built inside of them (v1 control flow).

While a context is entered, every op that is added to the graph is handed to it (`AddOp`). The context guards what comes
from outside: a branch of a conditional takes outer values through a Switch, a loop through an Enter; ops without inputs
wait for the context's pivot. Method names are TensorFlow's: programs and libraries call them.
"""
from __future__ import annotations

from typing import Any

from penstock import dtypes, nest
from penstock.api import export
from penstock.graph import context
from penstock.graph.convert import convert
from penstock.graph.indexed_slices import IndexedSlices
from penstock.graph.node import Operation, Tensor
from penstock.ops.registry import get
from penstock.shape import TensorShape, as_dims


# -- small questions about ops --------------------------------------------------------------------------------------
def is_switch(op: Operation) -> bool:
    """Whether `op` is a Switch."""
    return op.opdef.control_flow == "switch"


def is_merge(op: Operation) -> bool:
    """Whether `op` is a Merge."""
    return op.opdef.control_flow == "merge"


def is_loop_enter(op: Operation) -> bool:
    """Whether `op` is an Enter."""
    return op.opdef.control_flow == "enter"


def is_loop_exit(op: Operation) -> bool:
    """Whether `op` is an Exit."""
    return op.opdef.control_flow == "exit"


def is_constant_enter(op: Operation) -> bool:
    """Whether `op` brings a loop invariant into a loop."""
    return is_loop_enter(op) and op.attrs["is_constant"]


def is_loop_switch(op: Operation) -> bool:
    """Whether `op` is the Switch of a loop variable."""
    if not is_switch(op):
        return False
    ctxt = op._control_flow_context
    return ctxt is not None and ctxt.IsWhileContext() and not is_cond_switch(op)


def is_cond_switch(op: Operation) -> bool:
    """Whether `op` is a Switch of a conditional, not of a loop."""
    if not is_switch(op) or not op.outputs:
        return False
    for t in op.outputs:
        for c in t.consumers():
            ctxt = c._control_flow_context
            if is_loop_enter(c):
                ctxt = ctxt.outer_context
            if ctxt is None or not ctxt.IsCondContext():
                return False
    return True


def is_cond_merge(op: Operation) -> bool:
    """Whether `op` is a Merge of a conditional, not of a loop."""
    if not is_merge(op) or not op._inputs:
        return False
    for t in op._inputs:
        ctxt = output_context(t.op)
        if ctxt is None or not ctxt.IsCondContext():
            return False
    return True


def output_context(op: Operation) -> Any:
    """The context in which the outputs of `op` are: an Exit leaves its own."""
    ctxt = op._control_flow_context
    return ctxt.outer_context if ctxt is not None and is_loop_exit(op) else ctxt


def while_context(op: Operation) -> Any:
    """The innermost loop around `op`, or None."""
    ctxt = op._control_flow_context
    return ctxt.GetWhileContext() if ctxt is not None else None


def in_context(op: Operation, ctxt: Any) -> bool:
    """Whether `op` is in `ctxt` or in one nested in it."""
    c = op._control_flow_context
    while c is not None:
        if c is ctxt:
            return True
        c = c.outer_context
    return False


def contains(outer: Any, inner: Any) -> bool:
    """Whether context `inner` is `outer` or inside of it; None contains everything."""
    while inner is not outer:
        if inner is None:
            return False
        inner = inner.outer_context
    return True


def check_input(op: Operation, source: Operation) -> None:
    """ValueError if an op uses a value of a loop that it is not in."""
    ctxt, given = op._control_flow_context, output_context(source)
    if given is None or ctxt is given:
        return
    loop = ctxt.GetWhileContext() if ctxt is not None else None
    given_loop = given.GetWhileContext()
    if given_loop is None or contains(given_loop, loop):
        return
    if loop is None:
        if is_loop_enter(op) or is_switch(op):
            return
        why = f"because '{source.name}' is in a while loop"
    else:
        if _gradient_pair(loop, given_loop):
            return
        why = "because they are in different while loops"
    from penstock.graph.build import discard
    discard(op)
    raise ValueError(f"Cannot use '{source.name}' as input to '{op.name}' {why}. See info log for more details.")


def _gradient_pair(loop: Any, other: Any) -> bool:
    """Whether one of two loops is in the gradient of the other, which may use its values."""
    for a, b in ((loop, other), (other, loop)):
        state = a.grad_state
        while state is not None:
            forward = state.forward_context
            if contains(b, forward) or contains(forward, b):
                return True
            state = forward.grad_state
    return False


# -- small ops --------------------------------------------------------------------------------------------------------
def switch_ref_or_tensor(data: Tensor, pred: Tensor, name: str = "Switch") -> Any:
    """(false, true): Switch, or RefSwitch for a reference; with the device of `data`."""
    with context.current_graph().colocate_with(data, ignore_existing=True):
        return get("RefSwitch" if data.dtype._is_ref_dtype else "Switch")(data, pred, name=name)


def enter_loop(data: Tensor, frame: str, constant: bool = False, parallel: int = 10, use_input_shape: bool = True,
               name: str | None = None) -> Tensor:
    """Enter, or RefEnter for a reference."""
    definition = get("RefEnter" if data.dtype._is_ref_dtype else "Enter")
    out = definition(data, frame_name=frame, is_constant=constant, parallel_iterations=parallel, name=name)
    if not use_input_shape:
        out._dims = None
    return out


def next_iteration(data: Tensor, name: str | None = None) -> Tensor:
    """NextIteration, or RefNextIteration for a reference."""
    return get("RefNextIteration" if data.dtype._is_ref_dtype else "NextIteration")(data, name=name)


def exit_loop(data: Tensor, name: str | None = None) -> Tensor:
    """Exit, or RefExit for a reference."""
    return get("RefExit" if data.dtype._is_ref_dtype else "Exit")(data, name=name)


def merge(inputs: list[Tensor], name: str | None = None) -> Tensor:
    """The value of Merge, or RefMerge if all inputs are references."""
    refs = all(t.dtype._is_ref_dtype for t in inputs)
    return get("RefMerge" if refs else "Merge")(inputs, name=name)[0]


def shape_of(t: Tensor) -> Tensor:
    """A Shape op, even where the static shape is known."""
    return get("Shape")(t)


class ControlFlowContext:
    """What conditionals and loops share: where they stand, and what is known inside."""

    def __init__(self, name: str):
        graph = context.current_graph()
        self._name = graph.unique_name(name)
        self._outer_context = graph._get_control_flow_context()
        self._nested_contexts: list[ControlFlowContext] = []
        if self._outer_context is not None:
            self._outer_context._nested_contexts.append(self)
        self._context_stack: list = []
        self._values: set[str] = set()                     # names of tensors that may be used as they are
        self._external_values: dict[str, Tensor] = {}      # outer name -> the tensor that stands for it in here

    name = property(lambda self: self._name, doc="The name of the context.")
    outer_context = property(lambda self: self._outer_context, doc="The context around this one, or None.")

    def AddName(self, name: str) -> None:
        """Makes a tensor known by its name."""
        self._values.add(name)

    def Enter(self) -> None:
        """Ops made from now on belong to this context."""
        graph = context.current_graph()
        self._context_stack.append(graph._get_control_flow_context())
        graph._set_control_flow_context(self)

    def Exit(self) -> None:
        """Back to the context that was there before Enter."""
        context.current_graph()._set_control_flow_context(self._context_stack.pop())

    def EnterGradientColocation(self, op: Operation, gradient_uid: Any) -> None:
        """Tells outer contexts that a gradient is being colocated."""
        if self._outer_context is not None:
            self._outer_context.EnterGradientColocation(op, gradient_uid)

    def ExitGradientColocation(self, op: Operation, gradient_uid: Any) -> None:
        """The end of EnterGradientColocation."""
        if self._outer_context is not None:
            self._outer_context.ExitGradientColocation(op, gradient_uid)

    def ExitResult(self, result: Any) -> None:
        """Makes results known in the outer context."""
        if self._outer_context is not None:
            for t in nest.flatten(result, expand_composites=True):
                self._outer_context.AddName(t.name)

    def GetWhileContext(self) -> Any:
        """The innermost loop around, or None."""
        return self._outer_context.GetWhileContext() if self._outer_context is not None else None

    def AddInnerOp(self, op: Operation) -> None:
        """Called for ops that are added to a context inside this one."""
        if self._outer_context is not None:
            self._outer_context.AddInnerOp(op)

    def GetControlPivot(self) -> Any:
        """The tensor that ops without inputs wait for, or None."""
        return None

    def IsWhileContext(self) -> bool:
        """Whether this is a loop."""
        return False

    def IsCondContext(self) -> bool:
        """Whether this is a branch of a conditional."""
        return False

    def IsXLAContext(self) -> bool:
        """Whether this is a compiled cluster: never."""
        return False

    def _RemoveExternalControlEdges(self, op: Operation) -> tuple[list[Operation], list[Operation]]:
        """Takes control inputs from outside of the loop off an op; (those that stay, those taken off)."""
        loop = self.GetWhileContext()
        if loop is None:
            return op._control_inputs, []
        internal: list[Operation] = []
        external: list[Operation] = []
        for c in op._control_inputs:
            ctxt = output_context(c)
            (internal if ctxt is not None and ctxt.GetWhileContext() is loop else external).append(c)
        if external:
            op._remove_all_control_inputs()
            op._add_control_inputs(internal)
        return internal, external

    def _seen_by_all(self, names: list[str]) -> None:
        ctxt: Any = self
        while ctxt is not None:
            ctxt._values.update(names)
            ctxt = ctxt._outer_context

    def __str__(self) -> str:
        return self._name


@export(v1=["contrib.control_flow.CondContext"])
class CondContext(ControlFlowContext):
    """One branch of a conditional."""

    def __init__(self, pred: Tensor, pivot: Tensor, branch: int, name: str = "cond_text"):
        super().__init__(name)
        self._pred, self._pivot, self._branch = pred, pivot, branch
        self._values.update([pred.name, pivot.name])
        self._external_values[pred.name] = pred
        pivot.op._set_control_flow_context(self)

    pred = property(lambda self: self._pred, doc="The predicate.")
    pivot = property(lambda self: self._pivot, doc="The predicate as it is known in this branch.")
    branch = property(lambda self: self._branch, doc="1 for the true branch, 0 for the other.")

    @property
    def grad_state(self) -> Any:
        """The gradient state of the loop around."""
        loop = self.GetWhileContext()
        return loop.grad_state if loop is not None else None

    @property
    def back_prop(self) -> bool:
        """Whether the loop around can be differentiated."""
        loop = self.GetWhileContext()
        return loop.back_prop if loop is not None else False

    def GetControlPivot(self) -> Tensor:
        """The pivot of this branch."""
        return self._pivot

    def IsCondContext(self) -> bool:
        """Yes."""
        return True

    def AddValue(self, val: Tensor) -> Tensor:
        """The tensor that stands for `val` in this branch: an output of a Switch if it comes from outside."""
        if val.name in self._values:
            result = self._external_values.get(val.name)
            return val if result is None else result
        self._values.add(val.name)
        result = val
        if self._outer_context is not None:
            result = self._outer_context.AddValue(val)
            self._values.add(result.name)
            self._external_values[result.name] = result
        graph = context.current_graph()
        with graph.control_dependencies(None):
            result = switch_ref_or_tensor(result, self._pred)[self._branch]
            if self._outer_context is not None:
                self._outer_context.AddInnerOp(result.op)
        graph.prevent_fetching(result.op)
        result.op._set_control_flow_context(self)
        self._seen_by_all([result.name])
        self._external_values[val.name] = result
        return result

    def AddOp(self, op: Operation) -> None:
        """Takes an op into the branch."""
        self._AddOpInternal(op)

    def _AddOpInternal(self, op: Operation) -> None:
        if not op._inputs:
            self._RemoveExternalControlEdges(op)
            if not any(in_context(c, self) for c in op._control_inputs):
                op._add_control_input(self._pivot.op)
        else:
            for i, x in enumerate(list(op._inputs)):
                # the back edge of a loop that is being imported into this branch belongs to the branch already
                real = x if is_merge(op) and x.op.opdef.control_flow == "next" else self.AddValue(x)
                if real is not x:
                    op._update_input(i, real)
            self._RemoveExternalControlEdges(op)
            if calls_function(op):
                op._add_control_input(self._pivot.op)
        self._seen_by_all([t.name for t in op.outputs])
        if self._outer_context is not None or not is_loop_exit(op):
            op.graph.prevent_fetching(op)
        if self._outer_context is not None:
            self._outer_context.AddInnerOp(op)

    def _ProcessOutputTensor(self, val: Tensor) -> Tensor:
        """A result of the branch; one that comes from outside is switched."""
        if val.name in self._values:
            external = self._external_values.get(val.name)
            return val if external is None else external
        self._values.add(val.name)
        real = val
        if self._outer_context is not None:
            real = self._outer_context.AddValue(val)
            self._values.add(real.name)
            self._external_values[real.name] = real
        real = switch_ref_or_tensor(real, self._pred)[self._branch]
        self._external_values[val.name] = real
        return real

    def _BuildCondTensor(self, v: Any) -> Tensor:
        if isinstance(v, Operation):                # the pivot stands for an op that has no result
            with context.current_graph().name_scope("control_dependency"):
                with context.current_graph().control_dependencies([v]):
                    return get("Identity")(self._pivot)
        v = v.flow if getattr(v, "_is_tensor_array", False) else v
        return self._ProcessOutputTensor(convert(v))

    def BuildCondBranch(self, fn: Any) -> tuple:
        """Builds the branch: (what `fn` returned, its tensors as they are in the branch)."""
        with _summaries_run() as summaries:
            original = fn()
            original = summaries.attach(original)
        if original is None:
            return None, None
        result = nest.map_structure(self._BuildCondTensor, original, expand_composites=True)
        return original, result if isinstance(result, (list, tuple)) else [result]


class _summaries_run:
    """Summaries that are made in a branch or a body are run with its result, and are not collected."""

    KEY = "summaries"

    def __enter__(self) -> _summaries_run:
        self._graph = context.current_graph()
        self._before = self._graph.get_collection(self.KEY)
        return self

    def __exit__(self, *exc: Any) -> None:
        return None

    def attach(self, result: Any) -> Any:
        """The result, waiting for the summaries made since."""
        new = self._graph.get_collection(self.KEY)[len(self._before):]
        if not new:
            return result
        self._graph.get_collection_ref(self.KEY)[:] = self._before
        with self._graph.control_dependencies(new):
            if result is None:
                return get("NoOp")()
            return nest.map_structure(lambda x: x if getattr(x, "_is_tensor_array", False) or isinstance(x, Operation)
                                      else get("Identity")(x), result, expand_composites=True)


def calls_function(op: Operation) -> bool:
    """Whether `op` runs a function: it must not start before its branch or iteration is known to run."""
    return getattr(op.opdef, "function", None) is not None or op.type == "SymbolicGradient" \
        or op.graph._is_function(op.type)


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
        """The tensor that stands for `val` in this loop: an Enter if it comes from outside."""
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
        """Takes an op into the loop.

        Ops that only ask for the shape of a value of the forward loop go there: the shape is saved, not the value.
        """
        if op._inputs and op.opdef.name in ("Shape", "Size", "Rank"):
            current = context.current_graph()._get_control_flow_context()
            loop = current.GetWhileContext() if current is not None else None
            if loop is not None and loop.grad_state is not None and \
                    while_context(op._inputs[0].op) is loop.grad_state.forward_context:
                inner = op._inputs[0].op._control_flow_context
                op._set_control_flow_context(inner)
                inner._AddOpInternal(op)
                return
        self._AddOpInternal(op)

    def _AddOpInternal(self, op: Operation) -> None:
        if not op._inputs:
            internal, external = self._RemoveExternalControlEdges(op)
            if not internal:
                op._add_control_input(self.GetControlPivot().op)
        else:
            for i, x in enumerate(list(op._inputs)):
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
        """An op that depends on loop invariants only has to wait for the iteration."""
        if op._control_inputs:
            return
        if calls_function(op) or all(is_constant_enter(t.op) for t in op._inputs):
            op._add_control_input(self.GetControlPivot().op)

    # -- building ------------------------------------------------------------------------------------------------------
    def BuildLoop(self, pred: Any, body: Any, loop_vars: Any, shape_invariants: Any, return_same_structure: bool) -> Any:
        """Builds the loop and gives its results in the structure that `body` returns."""
        original = loop_vars
        flat = nest.flatten(original, expand_composites=True)
        tensors = [convert(x.flow if getattr(x, "_is_tensor_array", False) else x) for x in flat]
        shapes = [TensorShape.of(t._dims) for t in tensors] if shape_invariants is None else shape_invariants
        self.Enter()
        try:
            result, exits = self._BuildLoop(pred, body, original, flat, tensors, shapes)
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
        with _summaries_run() as summaries:
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
                if is_constant_enter(x.op._inputs[0].op):
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

    # -- what the gradient adds --------------------------------------------------------------------------------------
    def AddForwardLoopCounter(self, outer_grad_state: Any) -> tuple[Tensor, Tensor]:
        """Makes the forward loop count its iterations: (total, the count as of the next iteration)."""
        n = convert(0, dtypes.int32, name="f_count")
        if outer_grad_state is not None:            # pushes of one run of an inner loop come before those of the next
            n.op._add_control_input(outer_grad_state.forward_index.op._inputs[0].op)
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
        """Makes this gradient loop run `count` times; gives the count as of the next iteration."""
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
        """Zeros shaped like the gradient, made outside of this loop: what no iteration at all gives."""
        dims = grad._dims
        outer = self._outer_context
        if dims is not None and None not in dims:
            with _entered(outer):
                import numpy as np

                from penstock.graph.convert import constant
                return constant(np.zeros(dims, grad.dtype.as_numpy_dtype), grad.dtype.base_dtype, name="b_acc")
        value = op._inputs[0]
        if isinstance(outer, WhileContext) and outer.grad_state is not None:
            with _entered(self.grad_state.forward_context.outer_context):
                shape = _variable_shape(value)
            state = self.grad_state.outer_grad_state
            history = state.AddForwardAccumulator(shape)
            with _entered(outer):
                real = state.AddBackpropAccumulatedValue(history, shape)
                return get("Fill")(real, convert(0, grad.dtype.base_dtype))
        with _entered(outer):
            return get("Fill")(_variable_shape(value), convert(0, grad.dtype.base_dtype))

    def AddBackpropIndexedSlicesAccumulator(self, op: Operation, grad: IndexedSlices) -> IndexedSlices:
        """Collects the sparse gradients of a loop invariant over the iterations."""
        values, indices, shape = grad.values, grad.indices, grad.dense_shape
        self.Exit()
        outer = self._outer_context
        with _entered(outer):
            zero = convert(0, values.dtype.base_dtype)
            row = values._dims[1:] if values._dims is not None else None
            row_shape = convert(list(row), dtypes.int32) if row is not None and None not in row \
                else _variable_shape(op._inputs[0])[1:]
            start = [convert([0], indices.dtype.base_dtype),
                     get("Fill")(get("ConcatV2")([convert([1], dtypes.int32), row_shape], 0), zero)]
            if shape is not None:
                known = shape._dims is not None and shape._dims[0] is not None
                start.append(convert([0] * shape._dims[0], shape.dtype.base_dtype) if known else
                             get("ZerosLike")(get("Shape")(op._inputs[0], out_type=shape.dtype.base_dtype)))
        self.Enter()
        for t in start:
            self.AddName(t.name)
        enters = [enter_loop(t, self._name, parallel=self._parallel_iterations, use_input_shape=False, name="b_acc")
                  for t in start]
        enters[0].set_shape([None])
        if start[1]._dims is not None:
            enters[1].set_shape([None, *start[1]._dims[1:]])
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


class _entered:
    """Inside of a context, or of none."""

    def __init__(self, ctxt: Any):
        self._ctxt = ctxt

    def __enter__(self) -> None:
        if self._ctxt is not None:
            self._ctxt.Enter()

    def __exit__(self, *exc: Any) -> None:
        if self._ctxt is not None:
            self._ctxt.Exit()


def _variable_shape(t: Tensor) -> Any:
    """The shape of a tensor, or of the variable behind a handle."""
    return get("VariableShape")(t) if t.dtype == dtypes.resource else shape_of(t)


def _identity(t: Tensor) -> Tensor:
    return get("RefIdentity")(t, name="Identity") if t.dtype._is_ref_dtype else get("Identity")(t)


def _with_flows(like: list, tensors: list[Tensor]) -> list:
    return [x._with_flow(t) if getattr(x, "_is_tensor_array", False) else t for x, t in zip(like, tensors, strict=True)]


def covers(general: tuple | None, special: tuple | None) -> bool:
    """Whether every shape that `special` describes is also described by `general`."""
    if general is None:
        return True
    if special is None or len(general) != len(special):
        return False
    return all(g is None or g == s for g, s in zip(general, special, strict=True))


def set_shape_invariants(inputs: list[Tensor], enters: list[Tensor], shapes: Any) -> None:
    """Gives loop variables the static shapes that hold in every iteration."""
    flat = nest.flatten(shapes)
    if len(flat) != len(enters):
        raise ValueError(f"There are {len(flat)} shape invariants for {len(enters)} loop variables.")
    for t, x, s in zip(inputs, enters, flat, strict=True):
        if not isinstance(s, TensorShape):
            raise ValueError("`shapes` must be a (possibly nested) list of shapes.")
        if not covers(as_dims(s), t._dims):
            raise ValueError(f"The shape invariant specified for {t.name} is not compatible with the initial shape of the "
                             f"loop variable. It enters the loop with shape {t.shape}, but the specified shape invariant "
                             f"is {s}.")
        x.set_shape(s)


def add_back_edge(merged: Tensor, value: Any, enforce: bool = True) -> Tensor:
    """NextIteration of `value`, as the second input of a loop's Merge."""
    following = next_iteration(convert(value))
    if enforce and not covers(merged._dims, following._dims):
        start = merged.op._inputs[0].op._inputs[0]
        raise ValueError(f"Input tensor '{start.name}' enters the loop with shape {start.shape}, but has shape "
                         f"{following.shape} after one iteration. To allow the shape to vary across iterations, use the "
                         "`shape_invariants` argument of tf.while_loop to specify a less-specific shape.")
    merged.op._update_input(1, following)
    return following
