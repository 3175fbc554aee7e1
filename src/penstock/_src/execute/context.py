"""The step context: resources, cancellation and deadline for running kernels; and resource containers.

A resource (variable, queue, table, iterator) is in a ResourceManager under (container, name, kind). A session owns
one manager; eager execution has one for the process; a server's outlives its sessions.
"""
from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from penstock._src.base import errors
from penstock._src.graph.engine import engine
from penstock._src.kernels.devices.device_config import eager_devices


class ResourceManager:
    """Resources by container and name."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._items: dict[tuple[str, str, type], Any] = {}
        self.hub: Any = None                       # the rendezvous of collectives, made on first use

    def get_or_create(self, container: str, name: str, kind: type, make: Callable[[], Any]) -> Any:
        """The resource of that name, made by `make` when it does not exist."""
        key = (container, name, kind)
        item = self._items.get(key)
        if item is None:
            with self._lock:
                item = self._items.get(key)
                if item is None:
                    item = self._items[key] = make()
        return item

    def lookup(self, container: str, name: str, kind: type) -> Any:
        """The resource of that name, or None."""
        return self._items.get((container, name, kind))

    def remove(self, container: str, name: str, kind: type) -> bool:
        """Removes a resource; returns whether it was there."""
        with self._lock:
            return self._items.pop((container, name, kind), None) is not None

    def forget(self, resource: Any) -> bool:
        """Removes a resource by identity; returns whether it was there."""
        with self._lock:
            for key, item in list(self._items.items()):
                if item is resource:
                    del self._items[key]
                    return True
        return False

    def clear(self, containers: Any = None) -> None:
        """Removes the resources of some containers, or of all."""
        with self._lock:
            gone = [k for k in self._items if containers is None or k[0] in containers]
            items = [self._items.pop(k) for k in gone]
        for item in items:
            close = getattr(item, "close", None)
            if close is not None:
                close()

    def items(self) -> list[tuple[tuple, Any]]:
        """All resources with their keys."""
        with self._lock:
            return list(self._items.items())


class Cancellation:
    """A flag that blocking kernels watch, with callbacks to wake them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._next = 0
        self.error: errors.OpError | None = None

    def cancel(self, error: errors.OpError | None = None) -> None:
        """Cancels: wakes all waiters."""
        with self._lock:
            if self.error is not None:
                return
            self.error = error or errors.CancelledError(None, None, "Step was cancelled.")
            waiting = list(self._callbacks.values())
        for wake in waiting:
            wake()

    def check(self) -> None:
        """Raises the reason if the step was cancelled."""
        if self.error is not None:
            raise self.error

    def on_cancel(self, wake: Callable[[], None], also_now: bool = True) -> Callable[[], None]:
        """Registers a callback; the returned function removes it. If it is cancelled already, the callback is called at once,
        unless the caller has locks that the callback needs and looks at `error` itself: `also_now=False`."""
        with self._lock:
            self._next += 1
            key = self._next
            self._callbacks[key] = wake
            fire = also_now and self.error is not None
        if fire:
            wake()
        return lambda: self._callbacks.pop(key, None) and None


class StepContext:
    """The environment of one step, passed to kernels that have a parameter `ctx`."""

    __slots__ = ("resources", "cancellation", "deadline", "step_id", "session", "locals", "functions", "at_end",
                 "devices", "rendezvous", "streams", "parking", "random_access")

    def __init__(self, resources: ResourceManager, session: Any = None, timeout: float | None = None, step_id: int = 0,
                 devices: Any = None):
        self.resources, self.session, self.step_id = resources, session, step_id
        self.cancellation = Cancellation()
        self.deadline = None if timeout is None else time.monotonic() + timeout
        self.locals: dict[Any, Any] = {}           # per-step state (stacks, tensor arrays)
        self.functions: Any = None
        self.streams: dict | None = None           # random streams, where an iterator has its own
        self.random_access = False                 # reads elements of a dataset by position: its order is always the first one
        self.devices = devices                     # the DeviceSet that the bodies of functions are placed on
        self.rendezvous: Any = None                # the rendezvous of the step's partitions, if it has several
        self.parking: Any = None                   # how attempts wait that must not block the thread: simulate/control.py
        self.at_end: dict[int, Callable[[], None]] = {}   # called when a session's step has ended, with or without an error

    def background(self) -> StepContext:
        """A context with the same resources for work that outlives the step; its creator cancels it.

        As `within`, it is for the elements of an input pipeline: their functions run on the host.
        """
        made = StepContext(self.resources)
        made.streams, made.random_access = self.streams, self.random_access
        return made

    def within(self, streams: dict | None) -> StepContext:
        """The context of one element in this step: its own per-step state, and an iterator's random numbers."""
        made = StepContext.__new__(StepContext)
        made.resources, made.session, made.step_id, made.devices = self.resources, self.session, self.step_id, None
        made.cancellation, made.deadline, made.rendezvous, made.parking = self.cancellation, self.deadline, None, None
        made.locals, made.functions, made.at_end, made.streams = {}, None, self.at_end, streams
        made.random_access = self.random_access
        return made

    def remaining(self) -> float | None:
        """Seconds until the deadline; DeadlineExceededError when it has passed; None without one."""
        self.cancellation.check()
        if self.deadline is None:
            return None
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise errors.DeadlineExceededError(None, None, "Timed out waiting for notification")
        return left

    def waiting(self, about: Callable[[], str], remote: bool = False) -> Any:
        """A `with` block around every wait: the watchdog reports `about` if nothing progresses for long; `remote` if another
        task should end the wait."""
        global _Wait
        if _Wait is None:
            from penstock._src.execute.watchdog import Wait as _Wait  # it imports modules that this one may not import
        return _Wait(self, about, remote)

    def wait(self, condition: threading.Condition, ready: Callable[[], bool], about: Callable[[], str]) -> None:
        """Waits, holding `condition`, until ready(); ends with the step's cancellation or deadline. Reports name `about`."""
        if ready():
            return

        def wake() -> None:
            with condition:
                condition.notify_all()
        release = self.cancellation.on_cancel(wake, also_now=False)       # the condition is held, and `remaining` checks
        try:
            with self.waiting(about) as wait:
                while not ready():
                    condition.wait(wait.patience(self.remaining()))
        finally:
            release()


_eager: StepContext | None = None
_Wait: Any = None


def eager_context() -> StepContext:
    """The process-wide context of eager execution."""
    global _eager
    if _eager is None:
        _eager = StepContext(ResourceManager())
    _eager.devices = eager_devices()
    return _eager


engine.eager_context = eager_context
