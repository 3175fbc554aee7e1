"""Eager operations on other tasks: tf.config.experimental_connect_to_cluster and experimental_connect_to_host.

This process becomes a task beside those of the cluster, with a session whose `cluster_def` names them all. An op under
`tf.device("/job:worker/task:1")` is a step of that session, made once for each kind of call: its inputs go there, and its
results come back. Resources stay where they were made, and ops that use them run there, wherever they were asked for; so does a
function, as a whole.
"""
from __future__ import annotations

import atexit
import collections
import itertools
import secrets
import threading
import weakref
from typing import Any

import numpy as np

from penstock import dtypes, errors
from penstock.distributed.cluster import ClusterSpec
from penstock.distributed.remote import SCHEME
from penstock.distributed.server import Server
from penstock.eager import placement
from penstock.eager.tensor import EagerTensor
from penstock.graph import context
from penstock.graph.build import output_types
from penstock.graph.functions import GraphFunction, add_to_library
from penstock.graph.graph import Graph
from penstock.graph.messages import ConfigProto
from penstock.graph.scopes import device as device_scope
from penstock.ops.core import placeholder
from penstock.ops.registry import OpDef, get
from penstock.place.device_spec import parts_of
from penstock.session import Session

_HERE = (dtypes.resource, dtypes.variant)          # what cannot travel
_MOST_STEPS = 4096                  # kinds of calls after which the session begins anew
_connected: Connection | None = None


class RemoteHandle:
    """The run-time value of a resource tensor of another task: how the op that made the resource can be called again there."""

    __slots__ = ("opdef", "attrs", "device", "dtype", "dims", "value", "__weakref__")

    def __init__(self, opdef: OpDef, attrs: dict[str, Any], device: Any):
        self.opdef, self.attrs, self.device = opdef, attrs, device
        self.dtype, self.dims = attrs.get("dtype"), getattr(attrs.get("shape"), "_dims", None)
        self.value = "elsewhere"                                 # it is not for this process to say


class Connection:
    """The cluster that eager ops of this process may run on."""

    def __init__(self, cluster: ClusterSpec, job: str, index: int):
        own = cluster.as_dict().get(job)
        if own is not None:
            raise ValueError(f"The cluster has a job {job!r} already: give this process another job_name.")
        self._server = Server({job: {index: "127.0.0.1:0"}}, job, index)
        self._config = ConfigProto()
        self._config.experimental.share_session_state_in_clusterspec_propagation = True
        self._config.cluster_def.CopyFrom(cluster.as_cluster_def())
        added = self._config.cluster_def.job.add(name=job)
        added.tasks[index] = self._server.target.removeprefix(SCHEME)
        self._own = f"/job:{job}/replica:0/task:{index}"
        self._lock = threading.RLock()
        self._names, self._life = itertools.count(), f"{secrets.randbits(62):x}"
        self._gone: collections.deque = collections.deque()      # resources whose handles have died
        self._session: Any = None
        self._begin()

    def _begin(self) -> None:
        """A session with an empty graph."""
        if self._session is not None:
            self._session.close()
        self._graph, self._steps = Graph(), {}
        self._session = Session(self._server.target, graph=self._graph, config=self._config)
        self._devices = [d for d in self._session.list_devices() if not d.name.startswith(self._own)]
        self.jobs = {parts_of(d.name)[0] for d in self._devices}

    def place(self, opdef: OpDef, inputs: list) -> Any:
        """The device of another task on which a call runs; None if it runs here."""
        for t in inputs:
            if type(t._value) is RemoteHandle:
                return t._value.device
        if opdef.constant or any(t._dtype in _HERE for t in inputs):
            return None
        asked = context.state.device
        if not asked or parts_of(asked)[0] not in self.jobs:
            return None
        wanted = parts_of(asked)
        for d in self._devices:
            if all(w is None or w == h for w, h in zip(wanted, parts_of(d.name), strict=True)):
                return d
        raise errors.invalid(f"There is no device {asked!r} for {opdef.name}. The cluster has: "
                             f"{', '.join(d.name for d in self._devices)}.")

    def run(self, opdef: OpDef, inputs: list, attrs: dict[str, Any], counts: tuple) -> list[EagerTensor] | None:
        """The results of a call on another task; None if it is one for this process."""
        where = self.place(opdef, inputs)
        if where is None:
            return None
        if opdef.per_session and dtypes.resource in output_types(opdef, attrs):
            return [self._made(opdef, attrs, where)]
        with self._lock:
            while self._gone:
                self._destroy(*self._gone.popleft())
            got = self._step(opdef, [t._value for t in inputs], [t._dtype for t in inputs], attrs, where)
        outputs = [EagerTensor(v, t) for v, t in zip(got, output_types(opdef, attrs), strict=True)]
        for t in outputs:
            t._on = where
        return outputs

    def _made(self, opdef: OpDef, attrs: dict[str, Any], where: Any) -> EagerTensor:
        handle = RemoteHandle(opdef, {**attrs, "shared_name": f"eager/{self._life}/{next(self._names)}"}, where)
        weakref.finalize(handle, self._gone.append, (opdef, handle.attrs, where)).atexit = False
        made = EagerTensor(handle, dtypes.resource)
        made._on = where
        return made

    def _destroy(self, opdef: OpDef, attrs: dict[str, Any], where: Any) -> None:
        handle = RemoteHandle(opdef, attrs, where)
        self._step(get("DestroyResourceOp"), [handle], [dtypes.resource], {"ignore_lookup_error": True}, where)

    def _step(self, opdef: OpDef, values: list, types: list, attrs: dict[str, Any], where: Any) -> list:
        handles = [v.attrs["shared_name"] if type(v) is RemoteHandle else None for v in values]
        key = opdef.name, where.name, tuple(types), tuple(handles), tuple([(k, _frozen(v)) for k, v in sorted(attrs.items())])
        found = self._steps.get(key)
        if found is None:
            if len(self._steps) >= _MOST_STEPS:
                self._begin()
            found = self._steps[key] = self._build(opdef, values, types, attrs, where)
        op, feeds = found
        given = dict(zip(feeds, [v for v in values if type(v) is not RemoteHandle], strict=True))
        if not op.outputs:
            self._session.run(op, given)
            return []
        return self._raw(list(op.outputs), list(given), list(given.values()))

    def _raw(self, outputs: list, feeds: list, values: list) -> list:
        """A step whose results stay as they are inside of it."""
        remote = self._session._remote
        remote._extend()
        header = {"fetches": [t.name for t in outputs], "feeds": [t.name for t in feeds], "options": False, "metadata": False}
        return remote._call("run", header, values)[1]

    def _build(self, opdef: OpDef, values: list, types: list, attrs: dict[str, Any], where: Any) -> tuple[Any, list]:
        feeds, inputs = [], []
        with self._graph.as_default(), device_scope(where.name):
            for value, dtype in zip(values, types, strict=True):
                if type(value) is RemoteHandle:
                    if value.device.name.rpartition("/device:")[0] != where.name.rpartition("/device:")[0]:
                        raise errors.UnimplementedError(None, None, f"{opdef.name} uses resources of several tasks.")
                    with device_scope(value.device.name):
                        inputs.append(self._graph.create_op(value.opdef.name, [], attrs=value.attrs).outputs[0])
                else:
                    inputs.append(placeholder(dtype))
                    feeds.append(inputs[-1])
            for function in attrs.values() if opdef.calls else ():
                if isinstance(function, GraphFunction):
                    add_to_library(self._graph, function)
            return self._graph.create_op(opdef.name, inputs, attrs=attrs), feeds

    def close(self) -> None:
        """Ends the session and the server of this process."""
        self._session.close()
        self._server.stop()


def _frozen(attr: Any) -> Any:
    """An attribute as a part of a key."""
    if isinstance(attr, (list, tuple)):
        return tuple([_frozen(a) for a in attr])
    if isinstance(attr, np.ndarray):
        return attr.dtype.str, attr.shape, attr.tobytes() if attr.dtype != object else repr(attr.tolist())
    return attr if isinstance(attr, (str, bytes, int, float, type(None), dtypes.DType)) else (id(attr), repr(attr))


def connect(cluster: Any, job: str, index: int) -> None:
    """Lets eager ops run on the tasks of a cluster."""
    global _connected
    close()
    cluster = ClusterSpec(cluster.cluster_spec() if hasattr(cluster, "cluster_spec") else cluster)
    _connected = Connection(cluster, job, index)
    placement.elsewhere = _connected.run


@atexit.register
def close() -> None:
    """Ends the connection, if there is one."""
    global _connected
    if _connected is not None:
        placement.elsewhere = None
        connected, _connected = _connected, None
        connected.close()
