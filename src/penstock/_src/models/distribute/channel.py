"""A channel: a session with some tasks of a cluster, whose steps are single calls of eager ops and functions.

A step is created once for each kind of call: op, types, attributes, resources. Values are fed and fetched; resources are
referred to by name, and stay where they were created. A function that uses resources of several tasks is written out
(inlined.py), so that each of its ops runs where it belongs.
"""
from __future__ import annotations

import collections
import contextlib
import threading
import weakref
from typing import Any

import numpy as np

from penstock._src.base import dtypes, errors
from penstock._src.base.static_shape import TensorShape
from penstock._src.cluster.remote import RemoteEngine
from penstock._src.graph.eager_tensor import EagerTensor
from penstock._src.graph.func_graph import copy_handle_data
from penstock._src.graph.functions import GraphFunction, add_to_library
from penstock._src.graph.graph import Graph
from penstock._src.graph.messages import ConfigProto
from penstock._src.graph.scopes import control_dependencies
from penstock._src.graph.scopes import device as device_scope
from penstock._src.models.distribute.inlined import Body, is_call, used_inputs
from penstock._src.ops.core import placeholder
from penstock._src.ops.registry import OpDef, get
from penstock._src.session.config import session_config

_HERE = (dtypes.resource, dtypes.variant)          # values that cannot be sent
_MOST_STEPS = 4096                  # kinds of calls after which the session starts again


class RemoteHandle:
    """The run-time value of a resource tensor of another task: how the op that made the resource can be called again there."""

    __slots__ = ("opdef", "attrs", "device", "dtype", "dims", "value", "__weakref__")

    def __init__(self, opdef: OpDef, attrs: dict[str, Any], device: Any):
        self.opdef, self.attrs, self.device = opdef, attrs, device
        self.dtype, self.dims = attrs.get("dtype"), getattr(attrs.get("shape"), "static_dims", None)
        self.value = "elsewhere"                                 # unknown to this process


class Channel:
    """A session of a server of this process, over the tasks that its configuration names."""

    def __init__(self, target: str, config: ConfigProto, own: str, reconnects: bool = False):
        self._target, self._config, self._own = target, config, own
        self.reconnects = reconnects                  # whether it begins a new session when a connection was lost, or others do
        self._lock = threading.RLock()
        self.gone: collections.deque = collections.deque()       # resources whose handles were freed
        self.copies: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()     # of tables of this process (table_copies.py)
        self._engine: Any = None
        self._begin()

    def _begin(self) -> None:
        """A session with an empty graph."""
        if self._engine is not None:
            self._engine.close()
        self._graph = Graph()
        self._steps: dict[Any, tuple] = {}
        self._engine = RemoteEngine(self._target, self._graph, session_config(self._config))
        found = self._engine.list_devices()
        self.devices = [d for d in found if not d.name.startswith(self._own)]
        self.host = next(d for d in found if d.name.startswith(self._own))

    def run(self, opdef: OpDef, values: list, types: list, attrs: dict[str, Any], where: Any) -> list:
        """The results of a call, which runs on a device of one of the tasks. Calls without side effects are retried if a
        connection is lost."""
        try:
            return self._once(opdef, values, types, attrs, where)
        except (errors.UnavailableError, errors.AbortedError):
            if not self.reconnects or opdef.stateful and not opdef.reads:
                raise
        return self._once(opdef, values, types, attrs, where)

    def _once(self, opdef: OpDef, values: list, types: list, attrs: dict[str, Any], where: Any) -> list:
        with self._lock:
            if self.reconnects and self.lost():                       # tasks that paused for too long have their state still
                self._begin()
            while self.gone:
                self._destroy(*self.gone.popleft())
            found = self._step(opdef, values, types, attrs, where)
        return self._results(found, values)

    def _destroy(self, opdef: OpDef, attrs: dict[str, Any], where: Any) -> None:
        handle = [RemoteHandle(opdef, attrs, where)]
        step = self._step(get("DestroyResourceOp"), handle, [dtypes.resource], {"ignore_lookup_error": True}, where)
        self._results(step, handle)

    def _step(self, opdef: OpDef, values: list, types: list, attrs: dict[str, Any], where: Any) -> tuple:
        handles = [v.attrs["shared_name"] if type(v) is RemoteHandle else None for v in values]
        key = opdef.name, where.name, tuple(types), tuple(handles), tuple([(k, _frozen(v)) for k, v in sorted(attrs.items())])
        found = self._steps.get(key)
        if found is None:
            if len(self._steps) >= _MOST_STEPS:
                self._begin()
            found = self._steps[key] = self._build(opdef, values, types, attrs, where)
            self._engine.extend()
        return found

    def _results(self, step: tuple, values: list) -> list:
        """Runs a step; returns run-time values."""
        fetches, targets, feeds, fed = step
        wanted = [*(t.name for t in fetches), *(op.name for op in targets)]
        return self._engine.run_raw(wanted, [t.name for t in feeds], [values[i] for i in fed])[:len(fetches)]

    # -- building -----------------------------------------------------------------------------------------------------
    def _build(self, opdef: OpDef, values: list, types: list, attrs: dict[str, Any],
               where: Any) -> tuple[list, list, list, list]:
        """The tensors to fetch, the ops to run, the placeholders, and which values they get."""
        homes = [self._home(v, t) for v, t in zip(values, types, strict=True)]
        spread = any(home not in (None, task_of(where)) for home in homes)
        function = attrs["f"].graph_function if is_call(opdef) and spread else None
        used = [True] * len(values) if function is None else used_inputs(function)
        with self._graph.as_default(), device_scope(where.name if function is None else task_of(where)):
            shapes = [None] * len(values) if function is None else [t.shape for t in function.inputs]
            inputs, feeds, fed = self._inputs(values, types, used, shapes)
            if function is not None:
                foreign = [t for t, home in zip(inputs, homes, strict=True) if home not in (None, task_of(where))]
                outputs, done = Body(foreign).write(function, inputs)
                return outputs, done, feeds, fed
            if spread:
                raise errors.UnimplementedError(None, None, f"{opdef.name} uses resources of several tasks.")
            for f in attrs.values() if opdef.calls else ():
                if isinstance(f, GraphFunction):
                    add_to_library(self._graph, f)
            op = self._graph.create_op(opdef.name, inputs, attrs=attrs)
            return list(op.outputs), [] if op.outputs else [op], feeds, fed

    def _inputs(self, values: list, types: list, used: list[bool], shapes: list) -> tuple[list, list, list]:
        inputs: list[Any] = []
        feeds, fed = [], []
        for i, (value, dtype) in enumerate(zip(values, types, strict=True)):
            if not used[i]:
                inputs.append(None)
            elif type(value) is RemoteHandle:
                inputs.append(self.handle(value))
            else:
                with device_scope(self.host.name) if dtype in _HERE else contextlib.nullcontext():
                    inputs.append(placeholder(dtype, shapes[i]))
                feeds.append(inputs[-1])
                fed.append(i)
        return inputs, feeds, fed

    def _home(self, value: Any, dtype: Any) -> str | None:
        """The task that a resource is on: another one, or this process; None for values, which are sent."""
        if type(value) is RemoteHandle:
            return task_of(value.device)
        return task_of(self.host) if dtype in _HERE else None

    def handle(self, value: RemoteHandle) -> Any:
        """The tensor of a resource, in the current graph, which is this channel's."""
        with device_scope(value.device.name), control_dependencies(None):
            made = self._graph.create_op(value.opdef.name, [], attrs=value.attrs).outputs[0]
        copy_handle_data(EagerTensor(value, dtypes.resource), made)
        return made

    def custom(self, key: Any, build: Any, values: list) -> None:
        """Runs a step that `build()` makes in the channel's graph when it is first requested: what to run, the placeholders for
        `values`, and which of them each gets."""
        with self._lock:
            found = self._steps.get(key)
            if found is None:
                with self._graph.as_default():
                    targets, feeds, fed = build(self)
                found = self._steps[key] = ([], targets, feeds, fed)
                self._engine.extend()
        self._results(found, values)

    # -- living -------------------------------------------------------------------------------------------------------
    def lost(self) -> list[str]:
        """The tasks that are lost."""
        return self._engine.lost()

    def cancel(self, why: str) -> None:
        """Cancels running steps."""
        self._engine.cancel(errors.CancelledError(None, None, why))

    def close(self) -> None:
        """Ends the session."""
        self._engine.close()


def task_of(device: Any) -> str:
    """The task of a device: "/job:ps/replica:0/task:1"."""
    return device.name.rpartition("/device:")[0]


def _frozen(attr: Any) -> Any:
    """An attribute as a part of a key."""
    if isinstance(attr, (list, tuple)):
        return tuple([_frozen(a) for a in attr])
    if isinstance(attr, np.ndarray):
        return attr.dtype.str, attr.shape, attr.tobytes() if attr.dtype != object else repr(attr.tolist())
    if isinstance(attr, TensorShape):
        return attr.static_dims
    return attr if isinstance(attr, (str, bytes, int, float, type(None), dtypes.DType)) else (id(attr), repr(attr))
