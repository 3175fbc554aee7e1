"""Predicates on control flow ops, and functions that build them (v1 control flow)."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.graph import context
from penstock._src.graph.node import Operation, Tensor
from penstock._src.ops.registry import get


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


# -- making ops -----------------------------------------------------------------------------------------------------
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
        out.static_dims = None
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


class entered:
    """A block inside a context, or outside every context for None."""

    def __init__(self, ctxt: Any):
        self._ctxt = ctxt

    def __enter__(self) -> None:
        if self._ctxt is not None:
            self._ctxt.Enter()

    def __exit__(self, *exc: Any) -> None:
        if self._ctxt is not None:
            self._ctxt.Exit()


def variable_shape(t: Tensor) -> Any:
    """The shape of a tensor, or of the variable behind a handle."""
    return get("VariableShape")(t) if t.dtype == dtypes.resource else shape_of(t)


def covers(general: tuple | None, special: tuple | None) -> bool:
    """Whether every shape that `special` describes is also described by `general`."""
    if general is None:
        return True
    if special is None or len(general) != len(special):
        return False
    return all(g is None or g == s for g, s in zip(general, special, strict=True))
