"""The worker's side of a task: it compiles the partitions that masters register, and runs them step by step.

A master opens a session here, registers the part of each (fetches, feeds) pair that this task runs, once, and then asks for
steps by name. A step's values meet in an Exchange. When the link to the master ends, so do its sessions and its steps.
"""
from __future__ import annotations

import collections
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from penstock import errors
from penstock.distributed.exchange import Exchange
from penstock.distributed.link import Link, described
from penstock.distributed.peers import Peers
from penstock.distributed.task_session import Part, TaskSession
from penstock.execute.context import ResourceManager, StepContext
from penstock.execute.lanes import Threads
from penstock.graph.messages import ConfigProto, GraphDef, RunMetadata
from penstock.place.devices import DeviceSet

_QUICK = 0.0005                     # seconds: parts that take less, and wait for nothing, run where their message was read
_REMEMBERED = 4096                  # steps that failed: what still comes for them is dropped
_ORPHANED = 60.0                    # seconds that values wait for a step which does not begin


class WorkerSession:
    """What one session of one master has here."""

    def __init__(self, config: Any, shared: ResourceManager, devices: DeviceSet, master: Link | None):
        self.isolated = config.isolate_session_state
        self.resources = ResourceManager() if self.isolated else shared
        self.session = TaskSession(config, self.resources, devices)
        self.parts: dict[int, Part] = {}
        self.master = master

    def close(self) -> None:
        """Ends the session; state of its own goes with it."""
        self.session.leave()
        if self.isolated:
            self.resources.clear()


class Worker:
    """The worker service of a server."""

    def __init__(self, peers: Peers, resources: ResourceManager, devices: DeviceSet, defaults: Any):
        self.peers, self.resources, self.devices, self._defaults = peers, resources, devices, defaults
        self.sessions: dict[str, WorkerSession] = {}
        self.steps_run = 0
        self._steps: dict[str, Exchange] = {}
        self._running: dict[str, tuple[StepContext, Link | None]] = {}
        self._failed: collections.OrderedDict[str, None] = collections.OrderedDict()
        self._lock = threading.Lock()
        self._masters: weakref.WeakSet[Link] = weakref.WeakSet()
        self._threads = Threads()
        self._calls: dict[Any, Callable] = {"devices": self._devices, "open": self._open, "register": self._register,
                                            "close": self._close, "reset": self._reset}

    # -- messages -----------------------------------------------------------------------------------------------------
    def handle(self, link: Link, header: dict[str, Any], values: list[Any]) -> None:
        """A message of another task. Returns at once: what takes time is done on another thread."""
        do = header.get("do")
        if do == "tensor":
            self._tensor(header["step"], header["key"], header["dead"], values[0])
        elif do == "run":
            part = self._part(header)
            if part is not None and part.waits_for_nothing and part.seconds < _QUICK:
                self._run(link, header, values)
            else:
                self._threads.start(lambda: self._run(link, header, values))
        elif do == "abort":
            self.abort(header["step"], errors.AbortedError(None, None, str(header["why"])))
        elif do in self._calls:
            self._threads.start(lambda: self._answer(link, header, values))
        else:
            raise errors.invalid(f"This task does not know what {do!r} is.")

    def _answer(self, link: Link, header: dict[str, Any], values: list[Any]) -> None:
        try:
            answer = self._calls[header["do"]](link, header, values)
        except Exception as e:
            answer = {"error": described(e)}
        self._reply(link, header, answer, [])

    @staticmethod
    def _reply(link: Link, header: dict[str, Any], answer: dict[str, Any], values: Any) -> None:
        number = header.get("id")
        if number is None:                           # nobody waits for it
            return
        try:
            link.post({"re": number, **answer}, values)
        except errors.OpError:
            pass                                     # whoever asked is gone
        except OSError as e:
            link.end(errors.UnavailableError(None, None, f"{link.peer} cannot be reached: {e}"))

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

    def _session(self, name: Any) -> WorkerSession:
        found = self.sessions.get(name)
        if found is None:
            raise errors.AbortedError(None, None, f"Session {name} is not found on {self.peers.task}. "
                                      "Possibly this task was restarted, or the session was reset: make a new session.")
        return found

    def _close(self, link: Link, header: dict[str, Any], values: list[Any]) -> dict[str, Any]:
        self.close_session(str(header["session"]))
        return {}

    def close_session(self, name: str) -> None:
        """Ends a session; nothing happens if it is not there."""
        with self._lock:
            session = self.sessions.pop(name, None)
        if session is not None:
            session.close()

    def _master_gone(self, link: Link) -> None:
        """The sessions and steps of a master that is lost end."""
        with self._lock:
            names = [n for n, s in self.sessions.items() if s.master is link]
            steps = [n for n, (_, master) in self._running.items() if master is link]
        for step in steps:
            self.abort(step, errors.AbortedError(None, None, f"The master of the step, {link.peer}, is lost."))
        for name in names:
            self.close_session(name)

    def _reset(self, link: Link, header: dict[str, Any], values: list[Any]) -> dict[str, Any]:
        self.reset([str(c) for c in header["containers"]])
        return {}

    def reset(self, containers: list[str]) -> None:
        """Ends all sessions, and forgets the resources of containers: of all, if none are named."""
        with self._lock:
            names, steps = list(self.sessions), list(self._running)
        for step in steps:
            self.abort(step, errors.AbortedError(None, None, f"{self.peers.task} was reset."))
        for name in names:
            self.close_session(name)
        self.resources.clear(set(containers) if containers else None)

    def _register(self, link: Link, header: dict[str, Any], values: list[Any]) -> dict[str, Any]:
        session = self._session(header["session"])
        for task in header["peers"]:
            self.peers.reach(task, 10.0)
        session.parts[header["part"]] = session.session.receive_part(
            GraphDef.FromString(values[0]), header["fetches"], header["targets"], header["by_tokens"])
        return {}

    # -- steps --------------------------------------------------------------------------------------------------------
    def _part(self, header: dict[str, Any]) -> Part | None:
        session = self.sessions.get(header["session"])
        return session.parts.get(header["part"]) if session is not None else None

    def _run(self, link: Link, header: dict[str, Any], values: list[Any]) -> None:
        """Runs one part for a master, and tells it the result."""
        try:
            session = self._session(header["session"])
            part = session.parts.get(header["part"])
            if part is None:
                raise errors.AbortedError(None, None, f"Graph {header['part']} is not found on {self.peers.task}.")
            ctx = session.session.step_context(header["timeout"])
            stats = RunMetadata() if header["trace"] else None
            results = self.run(header["step"], part, ctx, values, link, stats)
        except Exception as e:
            self._reply(link, header, {"error": described(e)}, [])
            return
        self._reply(link, header, {}, results if stats is None else [*results, stats.SerializeToString()])

    def run(self, step: str, part: Part, ctx: StepContext, values: Any, master: Link | None, stats: Any = None) -> tuple:
        """One part of a step, on this thread; gives what it fetches."""
        with self._lock:
            exchange = self._exchange(step)
            if exchange is None:
                raise errors.AbortedError(None, None, "The step was aborted before it began.")
            self._running[step] = (ctx, master)
        ctx.rendezvous = exchange
        release = ctx.cancellation.on_cancel(lambda: exchange.abort(ctx.cancellation.error))  # type: ignore[arg-type]
        failed = True
        began = time.perf_counter()
        try:
            results = part.run(ctx, values) if stats is None else part.run_traced(ctx, values, stats)
            failed = False
            return results
        finally:
            part.seconds = 0.5 * (part.seconds + time.perf_counter() - began) if part.seconds < 1.0 else _QUICK
            release()
            self.steps_run += 1
            with self._lock:
                self._running.pop(step, None)
                self._drop(step, failed)
            for call in tuple(ctx.at_end.values()):
                call()

    def _exchange(self, step: str) -> Exchange | None:
        """The values of a step; None if it has failed. The lock is held."""
        found = self._steps.get(step)
        if found is None and step not in self._failed:
            found = self._steps[step] = Exchange(step, self.peers)
        return found

    def _drop(self, step: str, failed: bool) -> None:
        self._steps.pop(step, None)
        if failed:
            self._failed[step] = None
            while len(self._failed) > _REMEMBERED:
                self._failed.popitem(last=False)

    def _tensor(self, step: str, key: str, dead: bool, value: Any) -> None:
        with self._lock:
            exchange = self._exchange(step)
        if exchange is not None:
            exchange.take(key, dead, value)

    def abort(self, step: str, error: errors.OpError) -> None:
        """Ends a step here: what runs of it, and what waits for it."""
        with self._lock:
            running = self._running.get(step)
            exchange = self._steps.get(step)
            if running is None:
                self._drop(step, True)
        if running is not None:
            running[0].cancellation.cancel(error)
        if exchange is not None:
            exchange.abort(error)

    def sweep(self) -> None:
        """Drops values whose step does not begin: their master was lost before it could say so."""
        now = time.monotonic()
        with self._lock:
            for step in [s for s, e in self._steps.items() if s not in self._running and now - e.since > _ORPHANED]:
                self._drop(step, True)

    def close(self) -> None:
        """Ends all sessions."""
        with self._lock:
            names, steps = list(self.sessions), list(self._running)
        for step in steps:
            self.abort(step, errors.CancelledError(None, None, f"The server {self.peers.task} was stopped."))
        for name in names:
            self.close_session(name)
        self._threads.close()
