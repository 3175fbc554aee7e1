"""Control flow contexts: how `cond` and `while_loop` change the ops that are built inside them (v1 control flow).

While a context is entered, every op that is added to the graph is passed to it (`AddOp`). The context guards values
from outside: a branch of a conditional takes outer values through a Switch, a loop (graph/while_context.py) through an
Enter; ops without inputs wait for the context's pivot. Method names are TensorFlow's: user code and libraries call them.
"""
from __future__ import annotations

from typing import Any

from penstock._src.base import nest
from penstock._src.graph import context
from penstock._src.graph.build import discard
from penstock._src.graph.control_flow_util import (
    contains,
    in_context,
    is_loop_enter,
    is_loop_exit,
    is_merge,
    is_switch,
    output_context,
    switch_ref_or_tensor,
)
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Operation, Tensor
from penstock._src.ops.registry import get


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


class ControlFlowContext:
    """The part that conditionals and loops share: the nesting of contexts, and the tensors known inside."""

    def __init__(self, name: str):
        graph = context.current_graph()
        self._name = graph.unique_name(name)
        self._outer_context = graph._get_control_flow_context()
        self._nested_contexts: list[ControlFlowContext] = []
        if self._outer_context is not None:
            self._outer_context._nested_contexts.append(self)
        self._context_stack: list = []
        self._values: set[str] = set()                     # names of tensors that may be used directly
        self._external_values: dict[str, Tensor] = {}      # outer name -> the tensor that represents it in here

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
        """Returns to the context that was current before Enter."""
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

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The message of this context; None if it is not in `export_scope`."""
        return _messages().to_message(self, export_scope)

    @staticmethod
    def from_proto(context_def: Any, import_scope: str | None = None) -> Any:
        """The context that a message describes, in the default graph."""
        return _messages().from_message(context_def, import_scope)

    def to_control_flow_context_def(self, context_def: Any, export_scope: str | None = None) -> None:
        """Writes this context into a ControlFlowContextDef."""
        field = context_def.while_ctxt if self.IsWhileContext() else context_def.cond_ctxt
        field.CopyFrom(self.to_proto(export_scope))

    def _RemoveExternalControlEdges(self, op: Operation) -> tuple[list[Operation], list[Operation]]:
        """Removes control inputs from outside the loop; returns (kept, removed)."""
        loop = self.GetWhileContext()
        if loop is None:
            return op.control_inputs, []
        internal: list[Operation] = []
        external: list[Operation] = []
        for c in op.control_inputs:
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
        """The tensor that represents `val` in this branch: an output of a Switch if it comes from outside."""
        if val.name in self._values:
            result = self._external_values.get(val.name)
            return val if result is None else result
        result = self._outer_value(val)
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
        """Adds an op to the branch."""
        self._AddOpInternal(op)

    def _AddOpInternal(self, op: Operation) -> None:
        if not op.inputs:
            self._RemoveExternalControlEdges(op)
            if not any(in_context(c, self) for c in op.control_inputs):
                op._add_control_input(self._pivot.op)
        else:
            for i, x in enumerate(list(op.inputs)):
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
        real = switch_ref_or_tensor(self._outer_value(val), self._pred)[self._branch]
        self._external_values[val.name] = real
        return real

    def _outer_value(self, val: Tensor) -> Tensor:
        """Registers a value from outside of this branch; returns the tensor that represents it in the outer context."""
        self._values.add(val.name)
        if self._outer_context is None:
            return val
        result = self._outer_context.AddValue(val)
        self._values.add(result.name)
        self._external_values[result.name] = result
        return result

    def _BuildCondTensor(self, v: Any) -> Tensor:
        if isinstance(v, Operation):                # the pivot represents an op that has no result
            with context.current_graph().name_scope("control_dependency"):
                with context.current_graph().control_dependencies([v]):
                    return get("Identity")(self._pivot)
        v = v.flow if getattr(v, "_is_tensor_array", False) else v
        return self._ProcessOutputTensor(convert(v))

    def BuildCondBranch(self, fn: Any) -> tuple:
        """Builds the branch: (what `fn` returned, its tensors as they are in the branch)."""
        with summaries_run() as summaries:
            original = fn()
            original = summaries.attach(original)
        if original is None:
            return None, None
        result = nest.map_structure(self._BuildCondTensor, original, expand_composites=True)
        return original, result if isinstance(result, (list, tuple)) else [result]


class summaries_run:
    """Summaries that are created in a branch or a body are run with its result, and are not collected."""

    KEY = "summaries"

    def __enter__(self) -> summaries_run:
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


def _messages() -> Any:
    from penstock._src.graph import control_flow_messages  # which imports every kind of context
    return control_flow_messages
