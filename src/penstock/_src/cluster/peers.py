"""The other tasks of a cluster, as one task sees them: links that are opened when they are needed, and heartbeats.

Beside each link that a task opens there is a second connection, over which both sides send a heartbeat every `BEAT` seconds.
When a peer is considered lost, its links are closed, and everything that waits for it fails. A process that ends closes its
connections. A machine that cannot be reached does not acknowledge heartbeats, and the system ends their connection after `LOST`
seconds (`notice`). A process may be silent longer, for `STALLED` seconds: it is suspended, has no processor, or a call of a
library holds its interpreter's lock; for a task in Python, that is no failure. Only time in which this process could listen
counts, because it may be suspended, too.
A restarted task has a new incarnation. A task that was only stopped keeps its incarnation and is dialed again: each dial has a
number, which its link, its heartbeats and the links for steps carry, so that heartbeats that end late do not close the links of
the next dial.
"""
from __future__ import annotations

import contextlib
import errno
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from penstock._src.base import errors, service, switches
from penstock._src.cluster import shared, wire
from penstock._src.cluster.cluster import ClusterSpec
from penstock._src.cluster.connection import connect
from penstock._src.cluster.link import Link, made_error
from penstock._src.cluster.links import LinkTable
from penstock._src.cluster.step_state import restarted

BEAT = switches.HEARTBEAT_SECONDS.value()
LOST = 4 * BEAT
STALLED = max(LOST, switches.STALL_SECONDS.value())
_SLICES = 8                         # waits that the silence of a peer is divided into


def task_name(job: str, index: int) -> str:
    """The name of a task in device names: "/job:worker/replica:0/task:1"."""
    return f"/job:{job}/replica:0/task:{index}"


class Peers:
    """The links of one task. `handle(link, header, values)` receives the messages of all of them."""

    def __init__(self, task: str, incarnation: int, cluster: ClusterSpec,
                 handle: Callable[[Link, dict[str, Any], list[Any]], None], spoken: Any = None):
        self.task, self.incarnation, self._handle = task, incarnation, handle
        self._spoken = spoken                        # the cluster specification, if the peers may not have it
        self.addresses = {task_name(job, i): cluster.task_address(job, i) for job in cluster.jobs
                          for i in cluster.task_indices(job)}
        self._table = LinkTable()
        self._lock = threading.Lock()
        self._dialing: dict[str, threading.Lock] = {}
        self._ended = threading.Event()
        self._threads: set[threading.Thread] = set()
        self._opening: dict[Any, tuple[str, int]] = {}               # connections that are set up, with their task and dial
        self.parted: Callable[[Link], None] = lambda link: None      # called when a link over which all steps send has ended

    # -- finding ------------------------------------------------------------------------------------------------------
    def get(self, task: str) -> Link:
        """The link to a task that was reached before; UnavailableError if there is none now."""
        link = self._table.used(task)
        if link is None:
            raise errors.UnavailableError(None, None, f"{self.task} has no connection to {task}.")
        return link

    def reach(self, task: str, timeout: float) -> Link:
        """The link to a task, opened if there is none; UnavailableError names the task that did not answer in time."""
        link = self._table.used(task)
        if link is not None:
            return link
        deadline = time.monotonic() + timeout
        with self._lock:
            dialing = self._dialing.setdefault(task, threading.Lock())
        if not dialing.acquire(timeout=max(timeout, 0)):     # another thread, whose deadline may be later, dials
            raise errors.UnavailableError(None, None, f"{task} did not answer in {timeout:g} seconds.")
        try:
            return self._table.used(task) or self._dial(task, max(deadline - time.monotonic(), 0))
        finally:
            dialing.release()

    def borrow(self, task: str, incarnation: int) -> Link:
        """A link to an incarnation of a task for one step; at both ends, the thread that runs the step reads it."""
        with self._lock:
            link = self._table.take_free(task, incarnation)
        if link is not None:
            return link
        used = self.get(task)
        sock, reader, found, same_host = self._open(task, "step", used.dial, STALLED, used)
        if found != incarnation:
            sock.close()
            raise restarted(task)
        link = Link(sock, task, incarnation, used.dial, reader, same_host)
        self.watch(link)
        if used.error is not None:                               # it ended meanwhile, and the links of its dial that were known
            link.end(used.error)
        return link

    def give_back(self, link: Link) -> None:
        """Keeps the link of a finished step for reuse."""
        with self._lock:
            if not self._ended.is_set() and self._table.keep(link):
                return
        link.close()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._ended.is_set()

    def links(self) -> list[Link]:
        """All open links."""
        with self._lock:
            return self._table.all()

    def _dial(self, task: str, timeout: float) -> Link:
        if task not in self.addresses:
            raise errors.invalid(f"There is no task {task} in the cluster of {self.task}, which has: "
                                 f"{', '.join(sorted(self.addresses))}.")
        dial = secrets.randbits(48)
        sock, reader, incarnation, same_host = self._open(task, "link", dial, timeout)
        try:
            with self._named(task):
                watch = connect(self.addresses[task], timeout, self._ended.is_set, task)
                notice(watch)
        except BaseException:
            sock.close()
            raise
        link = Link(sock, task, incarnation, dial, reader, same_host)
        self._start(link, self._read, link)
        self._start(link, self._beat, link, watch, task)
        self.add(link)
        return link

    def _open(self, task: str, do: str, dial: int, timeout: float,
              used: Link | None = None) -> tuple[Any, wire.Reader, int, bool]:
        """A connection to a task for some purpose, its reader, the task's incarnation, and whether it is on this machine. The
        end of the `used` link to the task ends the attempt."""
        opened: list[socket.socket] = []

        def begun(sock: socket.socket) -> None:
            with self._lock:
                self._opening[sock] = task, dial
            opened.append(sock)
            if ended():                              # lose() may have been called before
                shut(sock)

        def ended() -> bool:
            return self._ended.is_set() or used is not None and used.error is not None
        try:
            with self._named(task):
                sock = connect(self.addresses[task], timeout, ended, task, begun)
                try:
                    reader = wire.Reader(sock)
                    return sock, reader, *self._introduce(sock, reader, do, task, dial, timeout)
                except BaseException:
                    sock.close()
                    raise
        finally:
            with self._lock:
                for raw in opened:
                    del self._opening[raw]

    @contextlib.contextmanager
    def _named(self, task: str) -> Iterator[None]:
        """Turns connection errors into an UnavailableError that names the task; a refusal of the task is passed through."""
        try:
            yield
        except (errors.PermissionDeniedError, errors.InvalidArgumentError):
            raise
        except errors.OpError as e:
            raise errors.UnavailableError(None, None, f"{task} did not answer at {self.addresses[task]}: {e.message}") from None

    def _introduce(self, sock: Any, reader: wire.Reader, do: str, task: str, dial: int, timeout: float) -> tuple[int, bool]:
        """Sends our name and the wanted peer's; returns the peer's incarnation, and whether it is on this machine."""
        sock.settimeout(timeout)
        try:
            wire.send(sock, {"do": do, "task": self.task, "incarnation": self.incarnation, "to": task, "dial": dial,
                             "lost": STALLED, "host": shared.host(), "cluster": self._spoken})
            _heard(sock, timeout, reader.begun)
            sock.settimeout(timeout)
            message = reader.message()
        except OSError as e:
            raise errors.UnavailableError(None, None, str(e)) from None
        if message is None:
            raise errors.UnavailableError(None, None, "the connection was closed.")
        if "error" in message[0]:
            raise made_error(message[0]["error"])
        sock.settimeout(None)
        return int(message[0]["incarnation"]), bool(message[0].get("same_host"))

    # -- living -------------------------------------------------------------------------------------------------------
    def add(self, link: Link) -> None:
        """Adopts a link that either side opened."""
        with self._lock:
            self._table.add(link)
        self.watch(link)
        link.on_end(self._part)

    def watch(self, link: Link) -> None:
        """Ends a link when the task at its other end is lost."""
        with self._lock:
            self._table.watch(link)
        link.on_end(self._forget)
        if self._ended.is_set():
            link.end()

    def _part(self, link: Link) -> None:
        if not self._ended.is_set():
            self.parted(link)

    def _forget(self, link: Link) -> None:
        with self._lock:
            idle, used = self._table.ended(link)
        if idle:
            link.close()
        if used:
            self.lose(link.peer, link.dial, link.error.message if link.error is not None else "")

    def lose(self, task: str, dial: int, why: str) -> None:
        """Ends all links of one dial to a task."""
        with self._lock:
            links = self._table.of_dial(task, dial)
            opening = [sock for sock, whose in self._opening.items() if whose == (task, dial)]
        for sock in opening:
            shut(sock)
        for link in links:
            link.end(errors.UnavailableError(None, None, f"The task {task} is lost: {why}"))

    def _start(self, link: Link, work: Callable, *args: Any) -> None:
        """Starts a thread that a link depends on: if it fails, the link ends."""
        def failed(e: Exception) -> None:
            self.lose(link.peer, link.dial, f"a thread of {self.task} failed: {e!r}")

        def run() -> None:
            try:
                service.report(f"penstock {self.task}", work, *args, failed=failed)
            finally:
                self._threads.discard(threading.current_thread())
        thread = threading.Thread(target=run, name=f"penstock {self.task}", daemon=True)
        with self._lock:                             # close() joins only threads that were started
            self._threads.add(thread)
            try:
                service.started(thread)
            except errors.ResourceExhaustedError:
                self._threads.discard(thread)
                raise

    def _read(self, link: Link) -> None:
        link.serve(self._handle)

    def _beat(self, link: Link, sock: Any, task: str) -> None:
        """Sends heartbeats, and checks those of the peer."""
        over = threading.Event()

        def ended(_: Link) -> None:
            over.set()
            shut(sock)
        link.on_end(ended)
        try:
            same = self._introduce(sock, wire.Reader(sock), "watch", task, link.dial, STALLED)[0] == link.incarnation
            why = beat(sock, over) if same else "it has been restarted"
        except errors.OpError as e:
            why = e.message
        finally:
            sock.close()
        if not over.is_set():
            self.lose(link.peer, link.dial, why)

    def watched(self, sock: Any, task: str, dial: int, lost: float) -> None:
        """The other end of `_beat`: returns when the task that opened the connection is lost, or its links have ended."""
        notice(sock)
        self.lose(task, dial, hear(sock, lost))

    def close(self) -> None:
        """Ends all links."""
        self._ended.set()
        for link in self.links():
            link.end(errors.CancelledError(None, None, f"The server {self.task} was stopped."))
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(5.0)


def beat(sock: Any, over: threading.Event) -> str:
    """Sends a heartbeat every BEAT seconds until `over`; returns the reason if those of the peer stop before that."""
    reason = ""
    try:
        while not reason and not over.wait(BEAT):
            sock.sendall(b".")
            if not _heard(sock, STALLED, lambda: sock.recv(1)):
                reason = "it has ended the connection"
    except OSError as e:
        reason = _why(e, STALLED)
    return "" if over.is_set() else reason           # a connection that was closed in the middle of a beat is not lost


def hear(sock: Any, lost: float) -> str:
    """The other end of `beat`: returns the reason when the peer has become silent."""
    try:
        while _heard(sock, max(0.1, min(lost, 600.0)), lambda: sock.recv(1)):
            sock.sendall(b".")
    except OSError as e:
        return _why(e, lost)
    return "it has ended the connection"


def _why(e: OSError, seconds: float) -> str:
    if e.errno == errno.ETIMEDOUT:
        return f"its machine has not answered for {LOST:g} seconds"
    return f"it has been silent for {seconds:g} seconds" if isinstance(e, TimeoutError) else str(e)


def notice(sock: Any) -> None:
    """Lets the system end a connection after LOST seconds in which the other machine has acknowledged nothing. It asks
    for that when there is nothing to send; no thread of either process is needed."""
    whole = max(1, round(BEAT))                      # the system counts seconds here
    for name, value in (("TCP_KEEPIDLE", whole), ("TCP_KEEPINTVL", whole), ("TCP_KEEPCNT", max(1, round(LOST / whole) - 1)),
                        ("TCP_USER_TIMEOUT", int(LOST * 1000))):
        if hasattr(socket, name):                    # not every system has all of them
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _heard(sock: Any, lost: float, read: Callable[[], Any]) -> Any:
    """What `read` reads from a connection; TimeoutError after `lost` seconds of silence.

    A wait that returns late counts as long as it was meant to be: this process was not running, or the thread could not take
    the interpreter's lock. If the peer is in this process, neither could the thread that answers.
    """
    sock.settimeout(lost / _SLICES)
    for _ in range(_SLICES - 1):
        try:
            return read()
        except TimeoutError as e:
            if e.errno is not None:                  # the system has ended the connection
                raise
    return read()


def shut(sock: Any) -> None:
    """Closes a connection that another thread may be reading."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
