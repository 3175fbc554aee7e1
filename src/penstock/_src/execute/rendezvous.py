"""Rendezvous: the exchange of tensors between the partitions of one step.

The contract, for the local one here and for those of tasks on other machines:

- `send` never blocks. Each key is sent once and received once per step; a value waits for its receiver.
- `recv_async` never blocks either: `done(value, error)` is called as soon as the value is there, in whichever thread brought
  it; send and receive may come in either order. `recv` waits, until the value, an abort, or the step's end.
- `abort` ends the step: all present and later waiters get the error, and values that were not received are dropped.
- A dead tensor (of a branch that was not taken) is sent as `DEAD`.

A key names both ends and the edge: "source device;incarnation;destination device;edge;frame:iteration". Each step has a
separate rendezvous, so that keys need no step number.
"""
from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from penstock._src.base import errors

DEAD: Any = type("Dead", (), {"__repr__": lambda self: "DEAD", "__slots__": ()})()
Done = Callable[[Any, BaseException | None], None]


def parse_key(key: str) -> tuple[str, int, str, str, str]:
    """(source device, incarnation, destination device, edge, frame and iteration) of a key.

    >>> parse_key("/cpu:0;000000000000000a;/cpu:1;edge_3_x;0:0")
    ('/cpu:0', 10, '/cpu:1', 'edge_3_x', '0:0')
    """
    parts = key.split(";")
    if len(parts) != 5:
        raise errors.invalid(f"Invalid rendezvous key: {key}")
    try:
        return parts[0], int(parts[1], 16), parts[2], parts[3], parts[4]
    except ValueError:
        raise errors.invalid(f"Invalid rendezvous key: {key}") from None


class Rendezvous:
    """The interface."""

    def send(self, key: str, value: Any) -> None:
        """Leaves a value for its receiver."""
        raise NotImplementedError

    def recv_async(self, key: str, done: Done) -> None:
        """Calls `done` with the value, or with the error of an abort."""
        raise NotImplementedError

    def abort(self, error: BaseException) -> None:
        """Ends the step for all present and later waiters. The first abort counts."""
        raise NotImplementedError

    def recv(self, key: str, ctx: Any) -> Any:
        """The value; waits for it until the step is cancelled or its time is up."""
        slot: list = []
        there = threading.Event()

        def done(value: Any, error: BaseException | None) -> None:
            slot.append((value, error))
            there.set()
        self.recv_async(key, done)
        if not slot:
            wait(there, ctx, key)
        value, error = slot[0]
        if error is not None:
            raise error
        return value


def wait(there: threading.Event, ctx: Any, key: str) -> None:
    """Waits for an event in a step; cancellation or the deadline ends the wait with an error that names it."""
    release = ctx.cancellation.on_cancel(there.set)
    source, _, target, edge, _ = parse_key(key)
    try:
        with ctx.waiting(lambda: f"{edge} from {source} to {target}", remote=_task(source) != _task(target)) as waited:
            while not there.wait(waited.patience(ctx.remaining())):
                pass
        ctx.cancellation.check()
    except errors.DeadlineExceededError:
        raise errors.DeadlineExceededError(
            None, None, f"Timed out waiting for notification: {edge} from {source} did not come to {target}") from None
    finally:
        release()


def _task(device: str) -> str:
    return device.rpartition("/device:")[0]


class LocalRendezvous(Rendezvous):
    """Partitions in one process."""

    __slots__ = ("_lock", "_values", "_waiting", "error")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, Any] = {}
        self._waiting: dict[str, Done] = {}
        self.error: BaseException | None = None

    def send(self, key: str, value: Any) -> None:
        """Stores a value for its receiver, or delivers it if the receiver waits."""
        with self._lock:
            if self.error is not None:
                raise self.error
            done = self._waiting.pop(key, None)
            if done is None:
                if key in self._values:
                    raise errors.AbortedError(None, None, f"Duplicate send: {key}")
                self._values[key] = value
                return
        done(value, None)

    def recv(self, key: str, ctx: Any) -> Any:
        """The value; at once if it exists."""
        with self._lock:
            if key in self._values and self.error is None:
                return self._values.pop(key)
        return super().recv(key, ctx)

    def recv_async(self, key: str, done: Done) -> None:
        """Calls `done` with the value when it arrives."""
        with self._lock:
            error = self.error
            if error is None and key not in self._values:
                if key in self._waiting:
                    error = errors.AbortedError(None, None, f"Duplicate recv: {key}")
                else:
                    self._waiting[key] = done
                    return
            value = self._values.pop(key, None) if error is None else None
        done(value, error)

    def abort(self, error: BaseException) -> None:
        """Wakes all waiters with an error."""
        with self._lock:
            if self.error is not None:
                return
            self.error = error
            waiting = list(self._waiting.values())
            self._waiting.clear()
            self._values.clear()
        for done in waiting:
            done(None, error)

    def waiting(self) -> list[str]:
        """The keys with waiters, for reports."""
        with self._lock:
            return list(self._waiting)
