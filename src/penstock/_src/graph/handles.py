"""Handles of variables: the dtype and the shape of what a handle refers to."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes

VARIABLE_HANDLES: set[Any] = set()      # the ops that make them, which have attributes `dtype` and `shape`
_THROUGH = 24        # ops that a handle is followed back through


def _source(handle: Any) -> Any:
    """The output of the op that made a handle, found through identities and control flow."""
    for _ in range(_THROUGH):
        if hasattr(handle, "_handle_dtype") or hasattr(handle, "_value"):
            return handle
        made_by = handle.op
        if made_by.opdef in VARIABLE_HANDLES:
            return handle
        before = [t for t in made_by.inputs if t.dtype == dtypes.resource]
        if before:
            handle = before[0]
        elif made_by.origin is not None:          # an input of a function, as a node of a step: its placeholder knows more
            handle = made_by.origin.outputs[handle.value_index]
        else:
            return None
    return None


def handle_dims(handle: Any) -> tuple | None:
    """The static shape of the variable behind a handle, as far as it is known."""
    source = _source(handle)
    if source is None:
        return None
    if hasattr(source, "_handle_dims"):
        return source._handle_dims
    if hasattr(source, "_value"):
        return getattr(source._value, "dims", None)
    return source.op.attrs["shape"].static_dims


def value_dims(t: Any) -> tuple | None:
    """The static shape that the gradient of a tensor has: a handle's is that of its variable."""
    return handle_dims(t) if t.dtype == dtypes.resource else t.static_dims


def handle_dtype(handle: Any) -> Any:
    """The dtype of the variable behind a handle, or None."""
    source = _source(handle)
    if source is None:
        return None
    if hasattr(source, "_handle_dtype"):
        return source._handle_dtype
    return source._value.dtype if hasattr(source, "_value") else source.op.attrs["dtype"]
