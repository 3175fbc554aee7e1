"""The engine of a session on a server: the graph is sent once, then only its additions; steps refer to ops by name."""
from __future__ import annotations

import secrets
import sys
import threading
from typing import Any, NamedTuple

from penstock._src.base import errors, service
from penstock._src.cluster import peers, wire
from penstock._src.cluster.connection import Connections, split_address
from penstock._src.cluster.link import made_error
from penstock._src.execute.context import ResourceManager
from penstock._src.graph.messages import ConfigProto
from penstock._src.graph.node import Operation, Tensor
from penstock._src.kernels import bridge
from penstock._src.session.local import LocalEngine

SCHEME = "grpc://"
MOST_GRAPH = (1 << 31) - 1          # bytes that a GraphDef can have


class DeviceAttributes(NamedTuple):
    """A device of a server."""
    name: str
    device_type: str
    memory_limit_bytes: int
    incarnation: int


class _Direct:
    """Takes the place of connections if the server is in this process."""

    def __init__(self, server: Any):
        self._server = server

    @staticmethod
    def prepared(header: dict[str, Any]) -> dict[str, Any]:
        """A header that is used for many calls."""
        return header

    def call(self, header: dict[str, Any], values: list[Any] | None = None) -> tuple[dict[str, Any], list[Any]]:
        """Handles a message in the server, on this thread."""
        answer, back = self._server.answer(None, header, list(values or ()))
        if "error" in answer:
            raise made_error(answer["error"])
        return answer, back

    def close(self) -> None:
        """Does nothing: there are no connections."""


def _connections(target: str, timeout: float | None) -> Any:
    """The connections to the server that a target names."""
    address = target.removeprefix(SCHEME)
    servers = sys.modules.get("penstock._src.cluster.server")
    server = servers.serving(*split_address(address)) if servers is not None else None
    return Connections(address, timeout) if server is None else _Direct(server)


class RemoteEngine:
    """The engine of sessions with the target of a server, and of channels (models/distribute/channel.py)."""

    def __init__(self, target: str, graph: Any, config: Any):
        config = config if config is not None else ConfigProto()
        timeout = config.operation_timeout_in_ms / 1000 or None
        self._connections = _connections(target, timeout)
        self._graph, self._config, self._lock = graph, config, threading.Lock()
        self.resources = ResourceManager()
        self._here: LocalEngine | None = None
        self._sent = -1                     # the number of the last op that the server has
        self._version: int | None = None    # of the graph when it was sent
        self._steps: dict[tuple, Any] = {}  # what to request, by fetches and feeds
        self._closed = False
        self._over = threading.Event()
        client = f"{secrets.randbits(62):x}"
        if isinstance(self._connections, Connections):
            self._watch(client)
        try:
            answer, _ = self._connections.call({"do": "create", "client": client}, [config.SerializeToString()])
        except BaseException:
            self._over.set()
            self._connections.close()
            raise
        self._session = answer["session"]

    def _watch(self, client: str) -> None:
        """Sends heartbeats to the server, and ends all calls when those of the server stop."""
        connections, over = self._connections, self._over
        sock = connections.connect()
        peers.notice(sock)
        wire.send(sock, {"do": "client", "client": client, "lost": peers.STALLED})

        def watch() -> None:
            why = peers.beat(sock, over)
            sock.close()
            if not over.is_set():
                connections.close(why)
        service.started(threading.Thread(
            target=service.report, args=("penstock client", watch), name="penstock client", daemon=True,
            kwargs={"failed": lambda e: connections.close(repr(e))}))

    def _call(self, do: str, header: dict[str, Any], values: list) -> tuple[dict, list]:
        return self._send({"do": do, "session": self._session, **header}, values)

    def _send(self, header: Any, values: list) -> tuple[dict, list]:
        try:
            return self._connections.call(header, values)
        except errors.OpError as e:
            if self._closed:
                raise errors.CancelledError(None, None, "Session::Close was called while the step ran.") from None
            raise self._located(e) from None

    def _located(self, e: errors.OpError) -> errors.OpError:
        """An error of the server, with the op of this graph that caused it."""
        name = getattr(e, "remote_op", None)
        if name:
            try:
                e.op = self._graph.get_operation_by_name(name)
                e._node_def = e.op.node_def
            except (KeyError, ValueError):
                pass
        return e

    def extend(self) -> None:
        """Sends what the server does not have of the graph yet."""
        ops, version = self._graph._ops, self._graph._version
        if version == self._version and (ops[-1].number if ops else -1) == self._sent:
            return
        with self._lock:
            last = self._graph._ops[-1].number if self._graph._ops else -1
            fresh = self._version != self._graph._version
            if not fresh and last == self._sent:
                return
            message = self._graph.as_graph_def(from_version=None if fresh else self._sent)
            if message.ByteSize() > MOST_GRAPH:
                raise errors.invalid(f"The graph has {message.ByteSize()} bytes; the limit is {MOST_GRAPH}. "
                                     "Feed or restore large arrays instead of storing them in the graph as constants.")
            self._call("extend", {"fresh": fresh}, [message.SerializeToString()])
            self._sent, self._version = last, self._graph._version

    def run(self, elements: list, feeds: list[Tensor], values: list, options: Any = None, metadata: Any = None) -> list:
        """A step; returns numpy values."""
        self.extend()
        key = (*map(id, elements), None, *map(id, feeds))
        header = self._steps.get(key) if options is None and metadata is None else None
        if header is None:
            said = {"do": "run", "session": self._session, "fetches": [e.name for e in elements],
                    "feeds": [t.name for t in feeds], "options": options is not None, "metadata": metadata is not None}
            header = self._connections.prepared(said)
            if options is None and metadata is None:
                self._steps[key] = header
        _, results = self._send(header, [options.SerializeToString(), *values] if options is not None else values)
        if metadata is not None:
            metadata.ParseFromString(results.pop())
        return _fetched(elements, results)

    def run_raw(self, fetches: list[str], feeds: list[str], values: list) -> list:
        """Runs a step by names; returns run-time values."""
        header = {"fetches": fetches, "feeds": feeds, "options": False, "metadata": False}
        return self._call("run", header, values)[1]

    def partial_run_setup(self, elements: list, feeds: list[Tensor]) -> str:
        """Prepares a partial run."""
        self.extend()
        answer, _ = self._call("partial_setup", {"fetches": [e.name for e in elements], "feeds": [t.name for t in feeds]}, [])
        return answer["handle"]

    def partial_run(self, handle: str, elements: list, feeds: list[Tensor], values: list) -> list:
        """Continues a partial run."""
        header = {"handle": handle, "fetches": [e.name for e in elements], "feeds": [t.name for t in feeds]}
        return _fetched(elements, self._call("partial_run", header, values)[1])

    def running_steps(self) -> list[int]:
        """Returns None: steps run on the server."""
        return []

    def list_devices(self) -> list:
        """The devices of the server."""
        return [DeviceAttributes(*row) for row in self._call("devices", {}, [])[0]["devices"]]

    def lost(self) -> list[str]:
        """The tasks of the session that are lost or disconnected."""
        return self._call("lost", {}, [])[0]["lost"]

    def _local(self) -> LocalEngine:
        """A local engine that explains steps as this process would run them."""
        if self._here is None:
            self._here = LocalEngine(self._graph, self._config)
        return self._here

    def explain(self, elements: list, feeds: list[Tensor]) -> str:
        """The program of a step as text, on the devices of this process."""
        return self._local().explain(elements, feeds)

    def explain_placement(self) -> str:
        """Where each op would go, on the devices of this process."""
        return self._local().explain_placement()

    def cancel(self, error: errors.OpError) -> None:
        """Ends the steps that run now; the session continues."""
        self._call("cancel", {"why": error.message}, [])

    def close(self) -> None:
        """Ends the session on the server, and with it the steps that run."""
        self._closed = True
        self._over.set()
        try:
            self._connections.call({"do": "close", "session": self._session})
        except errors.OpError:
            pass                            # it is gone already
        self._connections.close()
        if self._here is not None:
            self._here.close()
        self.resources.clear()


def _fetched(elements: list, values: list) -> list:
    return [None if isinstance(e, Operation) else bridge.fetched(v)
            for e, v in zip(elements, values, strict=True)]


def reset(target: str, containers: Any, config: Any) -> None:
    """Removes the resources of containers on a server (of all, if none are named), and closes its sessions."""
    timeout = (config.operation_timeout_in_ms / 1000 or None) if config is not None else None
    connections = _connections(target, timeout)
    try:
        names = [c if isinstance(c, str) else c.decode() for c in containers or ()]
        connections.call({"do": "reset", "containers": names})
    finally:
        connections.close()
