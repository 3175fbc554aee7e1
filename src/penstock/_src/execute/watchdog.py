"""The watchdog: when the steps of a session do nothing but wait, it says what each of them waits for, and who could end that.

Whatever waits in a step does so inside of `StepContext.waiting`, which puts it on a list, and asks `patience` how long to wait
at once. There is no thread: a wait that has lasted for some seconds looks at the others. If all steps of the session wait, it
logs a report, once for each wait: the op with the line that made it, what it waits for, and who else uses the same queue.
"""
from __future__ import annotations

import gc
import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from penstock._src.execute.failure import where
from penstock._src.graph.node import Operation
from penstock._src.step.compile.program import operation_at

PATIENCE = 10.0                     # seconds without progress before the report
_log = logging.getLogger("penstock")
_waits: dict[int, Wait] = {}


class Wait:
    """One wait of one thread."""

    __slots__ = ("ctx", "about", "thread", "since", "reported")

    def __init__(self, ctx: Any, about: Callable[[], str]):
        self.ctx, self.about = ctx, about
        self.thread, self.since, self.reported = threading.get_ident(), time.monotonic(), False

    def __enter__(self) -> Wait:
        _waits[id(self)] = self
        return self

    def __exit__(self, *_: Any) -> None:
        _waits.pop(id(self), None)

    def patience(self, left: float | None) -> float | None:
        """How long to wait before asking again, when `left` seconds (or None: any number) are left."""
        if self.reported or self.ctx.session is None:
            return left
        waited = time.monotonic() - self.since
        if waited >= PATIENCE:
            _report(self.ctx.session)
            if self.reported:
                return left
        pause = PATIENCE - waited if waited < PATIENCE else PATIENCE / 4
        return pause if left is None else min(left, pause)

    def operation(self) -> Operation | None:
        """The op that waits: the one whose statement the thread is at."""
        frame = _frames().get(self.thread)
        while frame is not None:
            found = operation_at(frame)
            if found is not None:
                return found
            frame = frame.f_back
        return None

    def line(self) -> str:
        """What a report says of it."""
        op = self.operation()
        text = f"{where(op._origin or op)} " if op is not None else ""
        text += f"waits for {self.about()}, since {time.monotonic() - self.since:.0f} s"
        others = _others(op) if op is not None else []
        return text + (f"; the same is used by {', '.join(others)}" if others else "")


def _frames() -> dict[int, Any]:
    """Where all threads are. CPython holds the lock of its list of threads meanwhile: if the collector ran, and a finalizer let
    another thread go on that starts or ends one, nothing would ever move again."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if collecting:
            gc.enable()


def _others(op: Operation) -> list[str]:
    """The other ops of the graph that use the resource that `op` takes first."""
    op = op._origin or op
    if not op._inputs:
        return []
    users = [o.name for o in op._inputs[0].consumers() if o is not op]
    return users[:8] + (["…"] if len(users) > 8 else [])


def _report(session: Any) -> None:
    """Logs what the steps of a session wait for, if all of them do."""
    late = [w for w in list(_waits.values()) if w.ctx.session is session and time.monotonic() - w.since >= PATIENCE]
    if set(session.running_steps()) - {w.ctx.step_id for w in late}:
        return                                             # some step computes, or has just begun to wait
    lines = "\n".join(f"  {w.line()}" for w in late)
    for w in late:
        w.reported = True
    _log.warning("No step of this session has made progress for %d s:\n%s", PATIENCE, lines)
