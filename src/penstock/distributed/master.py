"""The server's side of a session: the graph that a client has sent, and the steps that it asks for.

State outlives sessions: all sessions of a server share its resources, unless they ask for state of their own.
"""
from __future__ import annotations

import threading
from typing import Any

from penstock import errors
from penstock.execute.context import ResourceManager
from penstock.graph.graph import Graph
from penstock.graph.importer import import_graph_def
from penstock.graph.messages import ConfigProto, GraphDef, RunMetadata, RunOptions
from penstock.graph.node import Operation, Tensor
from penstock.place.device import PREFIX
from penstock.place.devices import DeviceSet, local_devices
from penstock.place.placer import Placer, to_stderr
from penstock.session import Session


class _TaskSession(Session):
    """A session over the devices and resources of a task."""

    def __init__(self, graph: Graph, config: Any, resources: ResourceManager, task: str):
        super().__init__("", graph, config)
        self._resources = resources
        devices = local_devices(config)
        for d in devices:
            d.name = d.name.replace(PREFIX, task)
        self._devices = DeviceSet(devices)
        self._placer = Placer(self._devices, config.allow_soft_placement, to_stderr if config.log_device_placement else None)

    def leave(self) -> None:
        """Ends the session and leaves its resources to others."""
        self._resources = ResourceManager()
        self.close()


class MasterSession:
    """One session of one client."""

    def __init__(self, config: Any, shared: ResourceManager, task: str):
        self._config, self._task = config, task
        self._isolated = config.isolate_session_state
        self._resources = ResourceManager() if self._isolated else shared
        self._lock = threading.Lock()
        self._known: dict[str, Any] = {}
        self._replace()

    def _replace(self) -> None:
        self._graph = Graph()
        self._session = _TaskSession(self._graph, self._config, self._resources, self._task)
        self._known = {}

    def extend(self, header: dict, values: list) -> tuple[dict, list]:
        """Adds what the client has added to its graph, or starts over with the whole of it."""
        message = GraphDef.FromString(values[0])
        with self._lock:
            if header["fresh"]:
                old = self._session
                self._replace()
                old.leave()
            with self._graph.as_default():
                import_graph_def(message, input_map=self._outside(message), name="", validate_colocation_constraints=False)
        return {}, []

    def _outside(self, message: Any) -> dict[str, Any]:
        """What the new nodes take from old ones."""
        new = {n.name for n in message.node}
        found: dict[str, Any] = {}
        for node in message.node:
            for text in node.input:
                name = text.lstrip("^").partition(":")[0]
                if name not in new and text not in found:
                    found[text] = self._graph.get_operation_by_name(name) if text[0] == "^" else \
                        self._graph.get_tensor_by_name(text if ":" in text else f"{text}:0")
        return found

    def _elements(self, names: list[str]) -> list[Any]:
        found = []
        for name in names:
            element = self._known.get(name)
            if element is None:
                element = self._known[name] = self._graph.as_graph_element(name)
            found.append(element)
        return found

    def run(self, header: dict, values: list) -> tuple[dict, list]:
        """A step."""
        options = RunOptions.FromString(values.pop(0)) if header["options"] else None
        metadata = RunMetadata() if header["metadata"] else None
        elements = self._elements(header["fetches"])
        step, raw = self._session._step(elements, self._elements(header["feeds"]), values, options, metadata)
        results = [raw[slot] if slot >= 0 else None for slot in step.slots]
        return {}, [*results, *([metadata.SerializeToString()] if metadata is not None else [])]

    def partial_setup(self, header: dict, values: list) -> tuple[dict, list]:
        """Prepares a step in pieces."""
        handle = self._session.partial_run_setup(self._elements(header["fetches"]), self._elements(header["feeds"]))
        return {"handle": handle}, []

    def partial_run(self, header: dict, values: list) -> tuple[dict, list]:
        """Goes on with a step in pieces."""
        state = self._session._partial.get(header["handle"])
        if state is None:
            raise errors.invalid("Must run 'setup' before performing partial runs!")
        return {}, state.run(self._elements(header["fetches"]), self._elements(header["feeds"]), values)

    def devices(self, header: dict, values: list) -> tuple[dict, list]:
        """The devices of the task."""
        rows = [[d.name, d.device_type, d.memory_limit_bytes, d.incarnation] for d in self._session.list_devices()]
        return {"devices": rows}, []

    def close(self) -> None:
        """Ends the session; state of its own goes with it."""
        if self._isolated:
            self._session.close()
        else:
            self._session.leave()


def config_of(data: bytes) -> Any:
    """The ConfigProto of a client."""
    return ConfigProto.FromString(data)


def failed_op(error: BaseException) -> str | None:
    """The name of the op that an error is about."""
    op = getattr(error, "op", None)
    return op.name if isinstance(op, (Operation, Tensor)) else None
