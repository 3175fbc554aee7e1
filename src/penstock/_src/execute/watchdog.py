"""The watchdog: reports what the steps of a session wait for when none makes progress.

Every wait in a step is inside `StepContext.waiting`, which registers it, and is cut into intervals by `patience`
(`base/waits.py`). There is no watchdog thread: a wait that has lasted for some seconds checks the others. A wait for another
task is reported separately. Other waits are reported only if all steps of the session wait, because a full queue is normal
while others compute. A report has the op with the line that made it, what it waits for, and the other ops that use the same
queue.
"""
from __future__ import annotations

import gc
import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from penstock._src.base import waits
from penstock._src.graph.failure import where
from penstock._src.graph.node import Operation
from penstock._src.step.compile.program import operation_at
from penstock._src.step.ir import Node

_log = logging.getLogger("penstock")
_waits: dict[int, Wait] = {}


class Wait(waits.Wait):
    """One wait of one thread in a step; `remote` if another task should end it."""

    __slots__ = ("ctx", "thread", "remote", "moved")

    def __init__(self, ctx: Any, about: Callable[[], str], remote: bool = False):
        super().__init__(about)
        self.ctx, self.thread, self.remote, self.moved = ctx, threading.get_ident(), remote, waits.spent.moved

    def __enter__(self) -> Wait:
        _waits[id(self)] = self
        return self

    def __exit__(self, *_: Any) -> None:
        _waits.pop(id(self), None)
        waits.spent.waited += time.monotonic() - self.since - (waits.spent.moved - self.moved)

    def report(self) -> None:
        """Logs what it waits for; in a session, only if that may continue forever."""
        if self.remote or self.ctx.session is None:
            super().report()
        else:
            _report(self.ctx.session)

    def text(self) -> str:
        """The text of a report: the op, what it waits for, and which other ops use that."""
        op = self.operation()
        text = f"{where(op.origin or op)} " if op is not None else ""
        others = _others(op.origin) if op is not None and op.origin is not None else []
        return text + super().text() + (f"; the same is used by {', '.join(others)}" if others else "")

    def operation(self) -> Node | None:
        """The op that waits: the one whose statement the thread is at."""
        frame = _frames().get(self.thread)
        while frame is not None:
            found = operation_at(frame)
            if found is not None:
                return found
            frame = frame.f_back
        return None


def _frames() -> dict[int, Any]:
    """The current frames of all threads, with the garbage collector off. CPython holds the lock of its thread list meanwhile: a
    finalizer that lets another thread start or end a thread would deadlock the process."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if collecting:
            gc.enable()


def _others(op: Operation) -> list[str]:
    """The other ops of the graph that use the resource that `op` takes first."""
    if not op.inputs:
        return []
    users = [o.name for o in op.inputs[0].consumers() if o is not op]
    return users[:8] + (["…"] if len(users) > 8 else [])


def _report(session: Any) -> None:
    """Logs what the steps of a session wait for, if all of them do."""
    late = [w for w in list(_waits.values()) if w.ctx.session is session and time.monotonic() - w.since >= waits.PATIENCE]
    if set(session.running_steps()) - {w.ctx.step_id for w in late}:
        return                                             # some step computes, or has just begun to wait
    lines = "\n".join(f"  {w.text()}, since {time.monotonic() - w.since:.0f} s" for w in late)
    for w in late:
        w.reported = True
    _log.warning("No step of this session has made progress for %d s:\n%s", waits.PATIENCE, lines)
