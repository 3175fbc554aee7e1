"""Server: a task that runs steps for clients.

It listens on its address of the cluster (acceptor.py); each connection has a thread. The first message declares its kind: a
connection of a client, whose messages are answered in sequence; a link of another task (link.py), for everything or for one
step at a time; or the heartbeats of another task (peers.py). When a client disconnects in the middle of a step, the step is
cancelled.
"""
from __future__ import annotations

import atexit
import contextlib
import errno
import os
import secrets
import selectors
import socket
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch

from penstock._src.base import errors, progress, switches, tf_logging
from penstock._src.base.api import export
from penstock._src.base.service import supervise
from penstock._src.cluster import security, shared, slow_ops, wire
from penstock._src.cluster.acceptor import Acceptor
from penstock._src.cluster.cluster import ClusterSpec
from penstock._src.cluster.connection import split_address
from penstock._src.cluster.link import Link, described
from penstock._src.cluster.master import MasterSession, config_of
from penstock._src.cluster.peers import Peers, hear, notice, task_name
from penstock._src.cluster.status import StatusBoard
from penstock._src.cluster.status_page import StatusPage
from penstock._src.cluster.view import View, Views
from penstock._src.collective.hub import Hub
from penstock._src.execute.context import ResourceManager
from penstock._src.graph.messages import ServerDef
from penstock._src.io import confine
from penstock._src.kernels.devices.device_config import use_threads

_LOOKS = 5                          # samples of running ops between two looks at busy connections
_servers: weakref.WeakSet = weakref.WeakSet()


def _server_def(given: Any, job_name: str | None, task_index: int | None, protocol: str | None, config: Any) -> Any:
    made = ServerDef()
    if isinstance(given, ServerDef):
        made.CopyFrom(given)
    else:
        made.cluster.CopyFrom(ClusterSpec(given).as_cluster_def())
    if job_name is not None:
        made.job_name = job_name
    if task_index is not None:
        made.task_index = task_index
    cluster = ClusterSpec(made.cluster)
    if not made.job_name:
        if len(cluster.jobs) != 1:
            raise ValueError("Must specify an explicit `job_name`.")
        made.job_name = cluster.jobs[0]
    if task_index is None and not isinstance(given, ServerDef):
        indices = cluster.task_indices(made.job_name)
        if len(indices) != 1:
            raise ValueError("Must specify an explicit `task_index`.")
        made.task_index = indices[0]
    made.protocol = protocol or made.protocol or "grpc"
    if config is not None:
        made.default_session_config.MergeFrom(config)
    return made


@export(v1=["train.Server", "distribute.Server"], v2=["distribute.Server"])
class Server:
    """A task of a cluster, in this process.

    Args:
        server_or_cluster_def: `ClusterSpec`, dictionary, `ClusterDef` or `ServerDef`.
        job_name: Job of this task; not needed for a cluster of one task.
        task_index: Number of this task within its job.
        protocol: `"grpc"`.
        config: `tf.ConfigProto` with options of the session.
        start: Whether to start at once.

    Raises:
        ValueError: if the job or the task is not in the cluster.

    >>> server = tf.distribute.Server({"local": ["localhost:0"]})
    >>> with tf.Graph().as_default(), tf.compat.v1.Session(server.target) as sess:
    ...     print(sess.run(tf.constant(1) + 2))
    3
    >>> server.stop()
    """

    def __init__(self, server_or_cluster_def: Any, job_name: str | None = None, task_index: int | None = None,
                 protocol: str | None = None, config: Any = None, start: bool = True):
        self._server_def = _server_def(server_or_cluster_def, job_name, task_index, protocol, config)
        cluster = ClusterSpec(self._server_def.cluster)
        address = cluster.task_address(self._server_def.job_name, self._server_def.task_index)
        host, port = split_address(address)
        _check_addresses(cluster)
        self._credentials = security.Credentials(serving=True)
        self._credentials.check_address(host)
        confine.keep_private(*security.private_files())
        self._resources = ResourceManager()
        task, self.incarnation = task_name(self._server_def.job_name, self._server_def.task_index), secrets.randbits(62)
        defaults = self._server_def.default_session_config
        self._views = Views(task, self.incarnation, cluster, self._resources, defaults)
        self._peers, self._worker = self._views.own.peers, self._views.own.worker
        self._resources.hub = Hub(task, self._peers, defaults.experimental.collective_group_leader)
        self._sessions: dict[int, tuple[MasterSession, str, Any]] = {}       # with the client and connection that created each
        self._clients: set[str] = set()              # those that send heartbeats
        self._next = 1
        self._lock = threading.Lock()
        self._busy: dict[Any, MasterSession] = {}
        self._ended, self._process = threading.Event(), os.getpid()
        self._threads: list[threading.Thread] = []
        try:
            listener = _listener(host, port, self._credentials)
        except OSError as e:
            raise errors.UnknownError(None, None, f"Could not start a server at {address}: {e}") from None
        self._host, self._port = host, listener.getsockname()[1]
        self._acceptor = Acceptor(listener, self._credentials, self._serve, self._ended)
        self._threads_before = _share_cores(cluster, host, defaults.intra_op_parallelism_threads)
        self._status: StatusBoard = StatusBoard(self)
        self._page: Any = None
        self._worker.add_call("status", lambda: {"status": self._status.own()})
        _servers.add(self)
        progress.process.reporters += 1
        if start:
            try:
                self.start()
            except BaseException:                    # no thread could be started
                self.stop()
                raise

    @staticmethod
    def create_local_server(config: Any = None, start: bool = True) -> Server:
        """A server of one task on a free port of this machine."""
        return Server({"localhost": ["localhost:0"]}, protocol="grpc", config=config, start=start)

    @property
    def server_def(self) -> Any:
        """The ServerDef that this server was created from."""
        return self._server_def

    @property
    def target(self) -> str:
        """The steps that a session runs here."""
        return f"grpc://{self._host}:{self._port}"

    def start(self) -> None:
        """Starts the server."""
        if not self._threads:
            for what, work in (("acceptor", self._acceptor.accept), ("watcher", self._look)):
                self._threads.append(supervise(f"penstock {what} {self._port}", work, self._ended))
            tf_logging.info("%s is ready at %s", self._peers.task, self.target)
            if switches.STATUS_PAGE.value():
                try:
                    self._page_url()
                except OSError as e:
                    tf_logging.warning("The status page cannot be served: %s", e)

    def join(self) -> None:
        """Waits until the server is stopped: forever, in most programs."""
        while not self._ended.wait(1.0):
            pass

    def stop(self) -> None:
        """Ends the server, its sessions and connections; does nothing in a fork of its process, which shares its sockets."""
        if self._ended.is_set() or os.getpid() != self._process:
            return
        self._ended.set()
        progress.process.reporters -= 1
        self._acceptor.shut()
        if self._page is not None:
            self._page.close()
        self._close_sessions()
        self._views.close(self._resources.hub.close)
        self._acceptor.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(5.0)
        self._resources.clear()
        if self._threads_before:
            torch.set_num_threads(self._threads_before)

    def peers(self, cluster_def: Any) -> Peers:
        """The view of a session's own cluster."""
        return self._views.of_session(cluster_def, self._host, self._port).peers

    def _close_sessions(self) -> None:
        with self._lock:
            sessions, self._sessions = list(self._sessions.values()), {}
        for session, *_ in sessions:
            session.close()

    # -- connections --------------------------------------------------------------------------------------------------
    def _serve(self, sock: Any) -> None:
        """Handles the messages of an authenticated connection."""
        try:
            reader = wire.Reader(sock)
            while not self._ended.is_set():
                message = reader.message()
                if message is None:
                    break
                if message[0].get("do") in ("link", "step", "watch"):
                    self._meet(sock, reader, message[0])
                    break
                if message[0].get("do") == "client":
                    self._hear_client(sock, str(message[0]["client"]), float(message[0]["lost"]))
                    break
                wire.send(sock, *self.answer(sock, *message))
        finally:
            self._leave(lambda client, made_by: made_by is sock and client not in self._clients)

    def _hear_client(self, sock: Any, client: str, lost: float) -> None:
        """Receives the heartbeats of a client."""
        self._clients.add(client)
        notice(sock)
        try:
            hear(sock, lost)
        finally:
            self._clients.discard(client)
            self._leave(lambda owner, _: owner == client)

    def _leave(self, whose: Callable[[str, Any], bool]) -> None:
        """Closes the sessions that a disconnected client has left open."""
        with self._lock:
            left = [n for n, (_, client, made_by) in self._sessions.items() if whose(client, made_by)]
        for number in left:
            self._close({"session": number}, [])

    def _meet(self, sock: Any, reader: wire.Reader, header: dict[str, Any]) -> None:
        """Another task has opened this connection: as a link, as one for steps, or for heartbeats."""
        task, wanted = str(header["task"]), str(header["to"])
        view = self._views.of_peer(header.get("cluster"), wanted)
        peers = view.peers
        if task not in peers.addresses:
            wire.send(sock, {"error": described(errors.invalid(
                f"{task} is not in the cluster of {peers.task}: {', '.join(sorted(peers.addresses))}."))})
            return
        if wanted != peers.task:
            wire.send(sock, {"error": described(errors.invalid(
                f"The server at {self.target} is {peers.task}, and {task} takes it for {wanted}: their cluster "
                "specifications differ."))})
            return
        view.visitors.add(sock)
        try:
            self._serve_task(view, sock, reader, header)
        finally:
            view.visitors.discard(sock)

    def _serve_task(self, view: View, sock: Any, reader: wire.Reader, header: dict[str, Any]) -> None:
        """Handles the messages of a connection that another task has opened."""
        peers, task, incarnation, dial = view.peers, str(header["task"]), int(header["incarnation"]), int(header["dial"])
        same_host = bool(shared.host()) and header.get("host") == shared.host()
        wire.send(sock, {"incarnation": self.incarnation, "same_host": same_host})
        if header["do"] == "watch":
            peers.watched(sock, task, dial, float(header["lost"]))
            return
        link = Link(sock, task, incarnation, dial, reader, same_host)
        if header["do"] == "step":
            peers.watch(link)
            view.worker.serve_steps(link)
        else:
            peers.add(link)
            link.serve(view.worker.handle)

    def _look(self) -> None:
        """Cancels the steps of clients that have gone away."""
        while True:
            for _ in range(_LOOKS):
                if self._ended.wait(slow_ops.SECONDS):
                    return
                self._status.sample_ops()
            with self._lock:
                busy = dict(self._busy)
            for sock in _readable(busy):
                with contextlib.suppress(OSError):
                    if not sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                        busy[sock].close()
            self._views.sweep()
            self._status.tick()

    # -- answers ------------------------------------------------------------------------------------------------------
    def answer(self, sock: Any, header: dict, values: list) -> tuple[dict, list]:
        """The answer to a client's message; `sock` is None for a client in this process."""
        try:
            do = header.get("do")
            if do == "create":
                return self._create(header, values, sock)
            if do in ("reset", "close"):
                return getattr(self, "_" + do)(header, values)
            if do == "status":
                return {"tasks": self._status.cluster()}, []
            if do == "page":
                return {"url": self._page_url()}, []
            session, *_ = self._sessions.get(header.get("session", 0), (None,))
            if session is None:
                raise errors.AbortedError(
                    None, None, f"Session handle {header.get('session')} is not found. Possibly this server was restarted.")
            if do not in ("extend", "run", "partial_setup", "partial_run", "devices", "cancel", "lost"):
                raise errors.invalid(f"Unknown request {do!r}.")
            if sock is None:
                return getattr(session, do)(header, values)
            with self._lock:
                self._busy[sock] = session
            try:
                return getattr(session, do)(header, values)
            finally:
                with self._lock:
                    self._busy.pop(sock, None)
        except Exception as e:
            return {"error": described(e)}, []

    def _page_url(self) -> str:
        """The address of the status page, which is served from now on."""
        with self._lock:
            if self._page is None:
                port, _, key = switches.STATUS_PAGE.value().partition(":")
                self._page = StatusPage(self._host, self._status.cluster, int(port or 0), key)
            return self._page.url

    def _create(self, header: dict, values: list, sock: Any) -> tuple[dict, list]:
        config = config_of(values[0])
        config.MergeFrom(self._server_def.default_session_config)
        view = self._views.of_session(config.cluster_def, self._host, self._port)
        if view is not self._views.own and not config.experimental.share_session_state_in_clusterspec_propagation:
            config.isolate_session_state = True
        session = MasterSession(config, view.worker, trusted=sock is None)
        with self._lock:
            number, self._next = self._next, self._next + 1
            self._sessions[number] = session, str(header.get("client", "")), sock
        return {"session": number}, []

    def _close(self, header: dict, values: list) -> tuple[dict, list]:
        with self._lock:
            session, *_ = self._sessions.pop(header["session"], (None,))
        if session is not None:
            session.close()
        return {}, []

    def _reset(self, header: dict, values: list) -> tuple[dict, list]:
        self._close_sessions()
        names = [str(n) for n in header["containers"]]
        for view in self._views.all():
            view.worker.reset(names)
        for task in self._peers.addresses:
            if task != self._peers.task:
                with contextlib.suppress(errors.UnavailableError):          # a task that is down has nothing to reset
                    self._peers.reach(task, 1.0).ask({"do": "reset", "containers": names}, timeout=10.0)
        return {}, []


def _check_addresses(cluster: ClusterSpec) -> None:
    """Raises InvalidArgumentError if two tasks share an address, or an address is malformed."""
    tasks: dict[tuple[str, int], str] = {}
    for job in cluster.jobs:
        for i in cluster.task_indices(job):
            address = split_address(cluster.task_address(job, i))
            other = tasks.setdefault(address, f"/job:{job}/task:{i}")
            if address[1] and other != f"/job:{job}/task:{i}":
                raise errors.invalid(f"{other} and /job:{job}/task:{i} have the same address, "
                                     f"{cluster.task_address(job, i)}: each task needs a different one.")


def _share_cores(cluster: ClusterSpec, host: str, asked: int) -> int:
    """Tasks on one machine share its cores, unless OMP_NUM_THREADS or the configuration says how many threads to use: PyTorch's
    threads spin while they wait for each other. Returns the previous number of threads, if it was changed."""
    if asked:
        use_threads(asked)
        return 0
    if "OMP_NUM_THREADS" in os.environ:
        return 0
    addresses = [cluster.task_address(job, i) for job in cluster.jobs for i in cluster.task_indices(job)]
    here = sum(split_address(a)[0] == host for a in addresses)
    before, share = torch.get_num_threads(), max(1, (os.cpu_count() or 1) // max(1, here))
    if share >= before:
        return 0
    torch.set_num_threads(share)
    return before


def _listener(host: str, port: int, credentials: security.Credentials) -> socket.socket:
    """A listening socket. A name that belongs to a service, and not to this machine, means all addresses."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as e:
        if e.errno != errno.EADDRNOTAVAIL and not isinstance(e, socket.gaierror):
            raise
        credentials.check_address("")
        return socket.create_server(("", port))


def serving(host: str, port: int) -> Server | None:
    """The server of this process that answers at an address, if any."""
    return next((s for s in list(_servers) if s._port == port and not s._ended.is_set() and s._threads
                 and (s._host == host or {s._host, host} <= {"localhost", "127.0.0.1"})), None)


def _readable(socks: Any) -> list[Any]:
    """The connections that have data to read, or have ended. `poll` where there is one: `select` knows only the first
    1,024 descriptors."""
    if not socks:
        return []
    with getattr(selectors, "PollSelector", selectors.DefaultSelector)() as selector:
        for sock in socks:
            with contextlib.suppress(ValueError, OSError):       # it was closed meanwhile
                selector.register(sock, selectors.EVENT_READ)
        return [key.fileobj for key, _ in selector.select(0)]


@atexit.register
def _stop_all() -> None:
    for server in list(_servers):
        server.stop()
