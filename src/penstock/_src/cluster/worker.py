"""The worker's side of a task: it compiles the partitions that masters register, and runs them step by step.

A master opens a session here, registers the part of each (fetches, feeds) pair that this task runs, once, and then requests
steps by name. The values of a step are exchanged through an Exchange. When the link to the master ends, its sessions and steps
end too.
"""
from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from penstock._src.base import errors
from penstock._src.base.waits import Account, spent
from penstock._src.cluster import formats
from penstock._src.cluster.exchange import Exchange
from penstock._src.cluster.link import Link, described
from penstock._src.cluster.peers import Peers
from penstock._src.cluster.pump import Pump
from penstock._src.cluster.step_server import QUICK, StepServer
from penstock._src.cluster.step_state import Cancel, Master, WorkerSteps
from penstock._src.cluster.task_engine import Part, TaskEngine
from penstock._src.execute.context import ResourceManager, StepContext
from penstock._src.execute.lanes import Threads
from penstock._src.graph.messages import ConfigProto, GraphDef
from penstock._src.kernels.devices.devices import DeviceSet

_WARM, _TIMED = 8, 256              # the first runs of a part are timed, then one in this many


class WorkerSession:
    """The state of one master's session at this task."""

    def __init__(self, config: Any, shared: ResourceManager, devices: DeviceSet, master: Link | None):
        self.isolated = config.isolate_session_state
        self.resources = ResourceManager() if self.isolated else shared
        self.resources.hub = shared.hub
        self.engine = TaskEngine(config, self.resources, devices)
        self.parts: dict[int, Part] = {}
        self.master, self.format = master, formats.chosen(config)

    def close(self) -> None:
        """Ends the session, and drops its private state."""
        self.engine.close()
        if self.isolated:
            self.resources.clear()


class Worker:
    """The worker service of a server."""

    def __init__(self, peers: Peers, resources: ResourceManager, devices: DeviceSet, defaults: Any):
        self.peers, self.resources, self.devices, self._defaults = peers, resources, devices, defaults
        self.sessions: dict[str, WorkerSession] = {}
        self.account = Account()                     # of the parts of steps that it has run
        self._steps = WorkerSteps(time.monotonic())
        self._running: dict[str, tuple[StepContext, Exchange]] = {}
        self._lock = threading.Lock()
        self._masters: weakref.WeakSet[Link] = weakref.WeakSet()
        self._threads = Threads()
        peers.parted = self._parted
        self._calls: dict[Any, Callable] = {"devices": self._devices, "open": self._open, "register": self._register,
                                            "close": self._close, "reset": self._reset}

    # -- messages -----------------------------------------------------------------------------------------------------
    def handle(self, link: Link, header: dict[str, Any], values: list[Any]) -> None:
        """Handles a message of another task. Returns at once: slow work is done on another thread."""
        do = header.get("do")
        if do == "tensor":
            self.tensor(header, values)
        elif do == "abort":
            self.abort(f"{header['master']}:{header['number']}", errors.AbortedError(None, None, str(header["why"])))
        elif do == "parted":
            self._fail_between(link.peer, str(header["peer"]), str(header["why"]))
        elif do == "collective":
            self.resources.hub.handle(link, header, values)
        elif do in self._calls:
            self._threads.start(lambda: self._answer(link, header, values))
        else:
            raise errors.invalid(f"Unknown request {do!r}.")

    def add_call(self, do: str, answer: Callable[[], dict[str, Any]]) -> None:
        """Registers a function that answers calls of other tasks."""
        self._calls[do] = lambda *_: answer()

    def _answer(self, link: Link, header: dict[str, Any], values: list[Any]) -> None:
        try:
            answer = self._calls[header["do"]](link, header, values)
        except Exception as e:
            answer = {"error": described(e)}
        self._reply(link, header, answer, [])

    @staticmethod
    def _reply(link: Link, header: dict[str, Any], answer: dict[str, Any], values: Any) -> None:
        number = header.get("id")
        if number is None:                           # no caller waits for it
            return
        try:
            link.post({"re": number, **answer}, values)
        except errors.OpError:
            pass                                     # the caller is gone

    # -- sessions -----------------------------------------------------------------------------------------------------
    def _devices(self, link: Link, header: dict[str, Any], values: list[Any]) -> dict[str, Any]:
        return {"devices": [[d.name, d.device_type, d.memory_limit_bytes, d.incarnation] for d in self.devices.all]}

    def _open(self, link: Link, header: dict[str, Any], values: list[Any]) -> dict[str, Any]:
        config = ConfigProto.FromString(values[0])
        self.open(str(header["session"]), config, link)
        if link not in self._masters:
            self._masters.add(link)
            link.on_end(self._master_gone)
        return {}

    def open(self, name: str, config: Any, master: Link | None = None) -> WorkerSession:
        """A session of a master: another task, or this one."""
        made = WorkerSession(config, self.resources, self.devices, master)
        with self._lock:
            self.sessions[name] = made
        return made

    def session(self, name: Any) -> WorkerSession:
        """The session of that name; AbortedError if there is none."""
        found = self.sessions.get(name)
        if found is None:
            raise errors.AbortedError(None, None, f"Session {name} is not found on {self.peers.task}. "
                                      "Possibly this task was restarted, or the session was reset: create a new session.")
        return found

    def _close(self, link: Link, header: dict[str, Any], values: list[Any]) -> dict[str, Any]:
        self.close_session(str(header["session"]))
        return {}

    def close_session(self, name: str) -> None:
        """Ends a session; nothing happens if it does not exist."""
        with self._lock:
            session = self.sessions.pop(name, None)
        if session is not None:
            session.close()

    def _master_gone(self, link: Link) -> None:
        """Ends the sessions and steps of a lost master."""
        with self._lock:
            names = [n for n, s in self.sessions.items() if s.master is link]
            actions = self._steps.master_lost((link.peer, link.incarnation), errors.AbortedError(
                None, None, f"The master of the step, {link.peer}, is lost."))
        self._act(actions)
        for name in names:
            self.close_session(name)

    def _parted(self, link: Link) -> None:
        """The link to another task has ended, perhaps with values that a step had sent: the step's master is told, because
        the part that sent them may be over, and the one that waits for them may not notice."""
        with self._lock:
            masters = {s.master for s in self.sessions.values() if s.master is not None and s.master.peer != link.peer}
        for master in masters:
            with contextlib.suppress(errors.OpError):           # lost too, and its steps with it
                master.post({"do": "parted", "peer": link.peer, "why": link.error.message if link.error is not None else ""})

    def _fail_between(self, task: str, other: str, why: str) -> None:
        """Ends the steps of this master in which two tasks take part that have lost their connection."""
        with self._lock:
            exchanges = [exchange for _, exchange in self._running.values() if exchange.parted is not None]
        for exchange in exchanges:
            parted = exchange.parted
            if parted is not None:
                parted(task, other, why)

    def _reset(self, link: Link, header: dict[str, Any], values: list[Any]) -> dict[str, Any]:
        self.reset([str(c) for c in header["containers"]])
        return {}

    def reset(self, containers: list[str]) -> None:
        """Ends all sessions, and removes the resources of containers: of all, if none are named."""
        with self._lock:
            names = list(self.sessions)
            actions = self._steps.abort_all(errors.AbortedError(None, None, f"{self.peers.task} was reset."))
        self._act(actions)
        for name in names:
            self.close_session(name)
        self.resources.clear(set(containers) if containers else None)

    def _register(self, link: Link, header: dict[str, Any], values: list[Any]) -> dict[str, Any]:
        session = self.session(header["session"])
        for task in header["peers"]:
            self.peers.reach(task, 10.0)
        session.parts[header["part"]] = session.engine.receive_part(
            GraphDef.FromString(values[0]), header["fetches"], header["targets"], header["by_tokens"])
        return {}

    # -- steps --------------------------------------------------------------------------------------------------------
    def serve_steps(self, link: Link) -> None:
        """Runs the steps that a master requests over its own link, in sequence."""
        StepServer(self, link).serve()

    def run_beside(self, part: Part, ctx: StepContext, values: Any, stats: Any, pump: Pump) -> tuple:
        """Runs a part on other threads, while this one pumps."""
        done: list[Any] = []

        def work() -> None:
            waited, moved = spent.waited, spent.moved
            try:
                done.append((self.run(part, ctx, values, stats), None))
            except BaseException as e:
                done.append((None, e))
            beside.extend((spent.waited - waited, spent.moved - moved))
            pump.wake()
        beside: list[float] = []
        self._threads.start(work)
        while not beside:
            pump.once(None)
        spent.waited += beside[0]
        spent.moved += beside[1]
        results, error = done[0]
        if error is not None:
            raise error
        return results

    def begin(self, step: str, ctx: StepContext, master: Master) -> Exchange:
        """Begins a step, which lasts until `end`: returns its exchange, with the values that have already arrived."""
        exchange = ctx.rendezvous = Exchange(step, self.peers)
        with self._lock:
            early = self._steps.begin(step, master)
            self._running[step] = ctx, exchange
        for values in early:
            exchange.take(*values)
        return exchange

    def run(self, part: Part, ctx: StepContext, values: Any, stats: Any = None) -> tuple:
        """One part of a step that has begun, on this thread; returns what it fetches."""
        timed = part.runs < _WARM or not part.runs % _TIMED
        part.runs += 1
        began = time.thread_time() if timed else 0.0
        try:
            return part.run(ctx, values) if stats is None else part.run_traced(ctx, values, stats)
        finally:
            if timed:
                part.seconds = 0.5 * (part.seconds + time.thread_time() - began) if part.seconds < 1.0 else QUICK
            self.account.steps += 1
            for call in tuple(ctx.at_end.values()):
                call()

    def end(self, step: str) -> None:
        """Ends a step at this task."""
        with self._lock:
            self._steps.end(step)
            self._running.pop(step, None)

    def tensor(self, header: dict[str, Any], values: list[Any]) -> None:
        """Values that another task has sent for a step that may not have begun."""
        step = f"{header['master']}:{header['number']}"
        with self._lock:
            actions = self._steps.tensor(step, header["keys"], values)
            exchange = self._running[step][1] if actions else None
        if exchange is not None:
            exchange.take(header["keys"], values)

    def abort(self, step: str, error: errors.OpError) -> None:
        """Aborts a step at this task: its running parts, and its waiting values."""
        with self._lock:
            actions = self._steps.abort(step, error)
        self._act(actions)

    def _act(self, actions: Sequence[Cancel]) -> None:
        for step, error in actions:
            running = self._running.get(step)
            if running is not None:
                ctx, exchange = running
                ctx.cancellation.cancel(error)
                exchange.abort(error)

    def sweep(self) -> None:
        """Expires values of steps that have not begun; called periodically."""
        with self._lock:
            self._steps.tick(time.monotonic())

    def close(self) -> None:
        """Ends all sessions."""
        with self._lock:
            names = list(self.sessions)
            actions = self._steps.abort_all(errors.CancelledError(None, None, f"The server {self.peers.task} was stopped."))
        self._act(actions)
        for name in names:
            self.close_session(name)
        self._threads.close()
