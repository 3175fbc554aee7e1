"""The master's side of a session: the graph that a client has sent, and the requests of the client.

State outlives sessions: all sessions of a task share its resources, unless they request separate state.
"""
from __future__ import annotations

import itertools
import threading
import time
from typing import Any

from penstock._src.base import errors
from penstock._src.base.waits import spent
from penstock._src.cluster.cluster_engine import ClusterEngine
from penstock._src.cluster.task_engine import refuse_client_code
from penstock._src.cluster.task_step import TaskStep
from penstock._src.cluster.tasks import Tasks
from penstock._src.cluster.worker import Worker
from penstock._src.graph.graph import Graph
from penstock._src.graph.importer import import_graph_def
from penstock._src.graph.messages import ConfigProto, GraphDef, RunMetadata, RunOptions

_names = itertools.count(1)


class MasterSession:
    """One session of one client; `trusted` if the client is in this process."""

    def __init__(self, config: Any, worker: Worker, trusted: bool = False):
        self._config, self._trusted, self._worker = config, trusted, worker
        self._tasks = Tasks(worker, config)
        self._lock = threading.Lock()
        self._known: dict[str, Any] = {}
        self._base = f"{worker.peers.incarnation:x}/{next(_names)}"
        self._closed = False
        self.steps = 0                      # that were requested
        self._replace()

    def _replace(self) -> None:
        self._graph = Graph()
        self._engine = ClusterEngine(self._graph, self._config, self._tasks, f"{self._base}/{next(_names)}", self._trusted)
        self._known = {}

    def extend(self, header: dict, values: list) -> tuple[dict, list]:
        """Adds the client's new nodes to the graph, or replaces the graph."""
        message = GraphDef.FromString(values[0])
        if not self._trusted:
            refuse_client_code(node for f in message.library.function for node in f.node_def)
        with self._lock:
            if header["fresh"] and self._graph._ops:
                old = self._engine
                self._replace()
                old.close()
            with self._graph.as_default():
                import_graph_def(message, input_map=self._outside(message), name="", validate_colocation_constraints=False)
        return {}, []

    def _outside(self, message: Any) -> dict[str, Any]:
        """The tensors of old nodes that the new ones consume."""
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
        self.steps += 1
        began, waited, moved = time.monotonic(), spent.waited, spent.moved
        step, raw = self._engine.step(elements, self._elements(header["feeds"]), values, options, metadata)
        if not isinstance(step.runnable, TaskStep):          # all of it has run here
            self._worker.account.steps += 1
            self._worker.account.add(began, waited, moved)
        results = [raw[slot] if slot >= 0 else None for slot in step.slots]
        return {}, [*results, *([metadata.SerializeToString()] if metadata is not None else [])]

    def running_steps(self) -> list:
        """The steps that run now."""
        return list(self._engine.running_steps())

    def cancel(self, header: dict, values: list) -> tuple[dict, list]:
        """Ends the steps that run now; the session continues."""
        self._engine.cancel(errors.CancelledError(None, None, str(header["why"])))
        return {}, []

    def lost(self, header: dict, values: list) -> tuple[dict, list]:
        """The tasks of the session that are lost or disconnected."""
        return {"lost": [task for task, link in self._tasks.links.items() if link.error is not None]}, []

    def partial_setup(self, header: dict, values: list) -> tuple[dict, list]:
        """Prepares a partial run."""
        handle = self._engine.partial_run_setup(self._elements(header["fetches"]), self._elements(header["feeds"]))
        return {"handle": handle}, []

    def partial_run(self, header: dict, values: list) -> tuple[dict, list]:
        """Continues a partial run."""
        return {}, self._engine.continue_partial(header["handle"], self._elements(header["fetches"]),
                                                 self._elements(header["feeds"]), values)

    def devices(self, header: dict, values: list) -> tuple[dict, list]:
        """The devices of all tasks that the session uses."""
        rows = [[d.name, d.device_type, d.memory_limit_bytes, d.incarnation] for d in self._engine.list_devices()]
        return {"devices": rows}, []

    def close(self) -> None:
        """Ends the session, and drops its private state."""
        if not self._closed:
            self._closed = True
            self._engine.close()


def config_of(data: bytes) -> Any:
    """The ConfigProto of a client."""
    return ConfigProto.FromString(data)
