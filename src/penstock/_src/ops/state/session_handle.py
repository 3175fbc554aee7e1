"""Values that stay in a session between steps, under handles: tf.get_session_handle and related functions.

GetSessionHandle keeps its input as a resource of the session and returns a name for it. A fetch of that name is a
TensorHandle, which can be fed instead of a value, evaluated, or used by name with `get_session_tensor`. The value is freed with
the last TensorHandle, unless its raw handle was requested.
"""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.text import shown_text
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.scopes import colocate_with, device
from penstock._src.kernels import bridge
from penstock._src.ops import rules
from penstock._src.ops.registry import get, op
from penstock._src.session.feeds import check_shape

_CONTAINER = "session tensors"
_ids = itertools.count()

get_handle = op("GetSessionHandle", "value: T -> handle: string", "T: type", stateful=True).no_gradient()
get_handle_v2 = op("GetSessionHandleV2", "value: T -> handle: resource", "T: type", stateful=True).no_gradient()
get_tensor = op("GetSessionTensor", "handle: string -> value: dtype", "dtype: type", stateful=True).no_gradient()
delete_tensor = op("DeleteSessionTensor", "handle: string ->", stateful=True).no_gradient()
get_handle.shape(lambda value: ())
get_handle_v2.shape(lambda value: ())
get_tensor.shape(lambda handle: None)
delete_tensor.shape(lambda handle: [])


class Kept:
    """A value that a session keeps."""

    __slots__ = ("value", "dtype", "name")

    def __init__(self, value: Any, dtype: Any, name: str):
        self.value, self.dtype, self.name = value, dtype, name


def _needs_session(ctx: Any, node: Any) -> None:
    if ctx.session is None:
        raise errors.FailedPreconditionError(None, None, f"{node.type} called on null session state: run it in a session")


def _keep(value: Any, dtype: Any, ctx: Any, node: Any) -> Kept:
    _needs_session(ctx, node)
    name = f"{node.name};{next(_ids)};{node.device or '/job:localhost/replica:0/task:0/device:CPU:0'}"
    # the step's other ops may write into the memory of a variable that the value is a view of
    value = value.clone() if isinstance(value, torch.Tensor) else value
    return ctx.resources.get_or_create(_CONTAINER, name, Kept, lambda: Kept(value, dtype, name))


def _kept(ctx: Any, handle: Any, node: Any) -> Kept:
    _needs_session(ctx, node)
    name = shown_text(handle[()] if isinstance(handle, np.ndarray) else handle)
    found = ctx.resources.lookup(_CONTAINER, name, Kept)
    if found is None:
        raise errors.invalid(f"The tensor with handle '{name}' is not in the session store.")
    return found


@get_handle.kernel
def _get_handle_kernel(value, *, T, ctx, node):
    return bridge.string_array(_keep(value, T, ctx, node).name)


@get_handle_v2.kernel
def _get_handle_v2_kernel(value, *, T, ctx, node):
    return _keep(value, T, ctx, node)


@get_tensor.kernel
def _get_tensor_kernel(handle, *, dtype, ctx, node):
    kept = _kept(ctx, handle, node)
    if kept.dtype != dtype:
        raise errors.invalid(f"The tensor of handle '{kept.name}' has type {kept.dtype.name}, but {dtype.name} was requested.")
    return kept.value


@delete_tensor.kernel
def _delete_tensor_kernel(handle, *, ctx, node):
    ctx.resources.remove(_CONTAINER, _kept(ctx, handle, node).name, Kept)


class TensorHandle:
    """A value that stays in its session; feed it in place of the value, or `eval` it."""

    def __init__(self, handle: Any, dtype: Any, engine: Any):
        self._handle = handle.decode() if isinstance(handle, bytes) else str(handle)
        self._dtype, self._engine, self._owned = dtype, engine, True

    handle = property(lambda self: self._handle, doc="The name under which the session keeps the value.")

    def __str__(self) -> str:
        return self._handle

    def __del__(self) -> None:
        if self._owned:
            self._engine.resources.remove(_CONTAINER, self._handle, Kept)

    def _check_owned(self) -> None:
        if not self._owned:
            raise TypeError(f"Persistent tensor {self._handle} may have already been deleted.")

    def eval(self) -> Any:
        """The value as an array."""
        self._check_owned()
        self._engine.check_open()
        return bridge.fetched(self._session_value(self._engine, None))

    def delete(self) -> None:
        """Frees the value now."""
        self._check_owned()
        self._owned = False
        self._engine.resources.remove(_CONTAINER, self._handle, Kept)

    def get_raw_handle(self) -> str:
        """The name of the value, which then stays until delete_session_tensor."""
        self._owned = False
        return self._handle

    def _session_value(self, engine: Any, tensor: Tensor | None) -> Any:
        """The run-time value, to be fed for `tensor`."""
        kept = engine.resources.lookup(_CONTAINER, self._handle, Kept)
        if kept is None:
            raise errors.invalid(f"The tensor with handle '{self._handle}' is not in the session store.")
        if tensor is not None:
            if tensor.dtype.base_dtype != kept.dtype:
                raise errors.invalid(f"Type mismatch between tensor {tensor.name} ({tensor.dtype.base_dtype.name}) and the "
                                     f"handle fed for it ({kept.dtype.name})")
            check_shape(tensor, tuple(kept.value.shape))
        return kept.value


rules.fetches.fetched_as[get_handle] = lambda value, tensor, engine: TensorHandle(value, tensor.op.attrs["T"], engine)


@export(v1=["get_session_handle"])
def get_session_handle(data: Tensor, name: str | None = None) -> Tensor:
    """Keeps `data` in the session; a fetch of the result is a handle for it.

    >>> h = sess.run(tf.get_session_handle(a * b))
    >>> h.eval()
    """
    if not isinstance(data, Tensor):
        raise TypeError("`data` must be of type Tensor.")
    with colocate_with(data):
        return get_handle(data, name=name)


def _device_of(handle: Any) -> Any:
    text = handle.decode() if isinstance(handle, bytes) else str(handle)
    return device(text.rpartition(";")[2] or None)


@export(v1=["get_session_tensor"])
def get_session_tensor(handle: Any, dtype: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """(a placeholder for the name of a kept value, the value).

    >>> p, x = tf.get_session_tensor(h.handle, tf.float32)
    >>> sess.run(x * 10, feed_dict={p: h.handle})
    """
    with _device_of(handle):
        holder = get("Placeholder")(dtype=dtypes.string)
        return holder, get_tensor(holder, dtype=dtypes.as_dtype(dtype), name=name)


@export(v1=["delete_session_tensor"])
def delete_session_tensor(handle: Any, name: str | None = None) -> tuple[Tensor, Operation]:
    """(a placeholder for the name of a kept value, the op that frees it)."""
    with _device_of(handle):
        holder = get("Placeholder")(dtype=dtypes.string)
        return holder, delete_tensor(holder, name=name)
