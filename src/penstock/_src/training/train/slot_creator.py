"""Slots: variables of an optimizer or a moving average that belong to another variable."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from penstock._src.graph import context
from penstock._src.graph.scopes import colocate_with
from penstock._src.graph.strategies import active_strategy
from penstock._src.ops.registry import get
from penstock._src.state.variables.initializers import Zeros
from penstock._src.state.variables.scope import get_variable, get_variable_scope, variable_scope
from penstock._src.state.variables.variable import SaveSliceInfo, Variable


@contextlib.contextmanager
def _without_partitioner() -> Iterator[None]:
    scope = get_variable_scope()
    old = scope.partitioner
    scope.set_partitioner(None)
    try:
        yield
    finally:
        scope.set_partitioner(old)


@contextlib.contextmanager
def beside(variable: Any) -> Iterator[None]:
    """Makes variables on the device of another one, or on all devices of its copies."""
    strategy = getattr(variable, "_distribute_strategy", None)
    if strategy is None:
        with colocate_with(variable):
            yield
        return
    with contextlib.ExitStack() as stack:
        if active_strategy() is None:                      # a slot that a checkpoint restores, outside of the scope
            stack.enter_context(strategy.scope())
        stack.enter_context(strategy.extended.colocate_vars_with(variable))
        yield


def _slot(primary: Any, value: Any, name: str, validate_shape: bool, shape: Any, dtype: Any, colocate: bool) -> Any:
    """The slot `name` in the name scope of its primary, of the primary's kind and with its partitions."""
    eager = context.executing_eagerly()
    prefix = primary._shared_name if eager else primary.op.name
    use_resource = hasattr(primary, "handle") if isinstance(primary, Variable) else None
    with variable_scope(None, f"{prefix}/{name}"), _without_partitioner(), contextlib.ExitStack() as stack:
        if colocate:
            stack.enter_context(beside(primary))
        slot = get_variable("", initializer=value, trainable=False, use_resource=use_resource,
                            shape=shape if callable(value) else None, dtype=dtype, validate_shape=validate_shape)
    info = primary._save_slice_info if isinstance(primary, Variable) else None
    if info is not None:
        own = slot.name[len(primary.op.name + "/"):-2]
        slot._set_save_slice_info(SaveSliceInfo(f"{info.full_name}/{own}", list(info.full_shape),
                                                list(info.var_offset), list(info.var_shape)))
    return slot


def create_slot(primary: Any, val: Any, name: str, colocate_with_primary: bool = True) -> Any:
    """A slot that begins with the tensor `val`."""
    return _slot(primary, val, name, val.shape.is_fully_defined(), None, None, colocate_with_primary)


def create_slot_with_initializer(primary: Any, initializer: Any, shape: Any, dtype: Any, name: str,
                                 colocate_with_primary: bool = True) -> Any:
    """A slot that begins with what an initializer makes."""
    return _slot(primary, initializer, name, shape.is_fully_defined(), shape, dtype, colocate_with_primary)


def create_zeros_slot(primary: Any, name: str, dtype: Any = None, colocate_with_primary: bool = True) -> Any:
    """A slot of zeros of the primary's shape."""
    dtype = (primary.dtype if dtype is None else dtype).base_dtype
    shape = primary.get_shape()
    if shape.is_fully_defined():
        return create_slot_with_initializer(primary, Zeros(), shape, dtype, name, colocate_with_primary)
    value = primary.initialized_value() if isinstance(primary, Variable) else primary
    zeros = get("Fill")(get("Shape")(value), get("Cast")(0, DstT=dtype))
    return create_slot(primary, zeros, name, colocate_with_primary)
