"""The watchdog: when the steps of a session do nothing but wait, it says what each of them waits for, and who could end that.

Whatever waits in a step does so inside of `StepContext.waiting`, which puts it on a list here. A thread, which lives only while
something is on the list, looks at those that have waited for some seconds. If all steps of their session wait, it logs a
report, once for each wait: the op with the line that made it, what it waits for, and the other ops that use the same queue.
"""
from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from penstock.compile.program import operation_at
from penstock.execute.failure import where
from penstock.graph.node import Operation

PATIENCE = 10.0                     # seconds without progress before the report
_log = logging.getLogger("penstock")


class Wait:
    """One wait of one thread."""

    __slots__ = ("ctx", "about", "thread", "since", "reported")

    def __init__(self, ctx: Any, about: Callable[[], str]):
        self.ctx, self.about = ctx, about
        self.thread, self.since, self.reported = threading.get_ident(), time.monotonic(), False

    def __enter__(self) -> None:
        _watchdog.add(self)

    def __exit__(self, *_: Any) -> None:
        _watchdog.drop(self)

    def operation(self) -> Operation | None:
        """The op that waits: the one whose statement the thread is at."""
        frame = sys._current_frames().get(self.thread)
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


def _others(op: Operation) -> list[str]:
    """The other ops of the graph that use the resource that `op` takes first."""
    op = op._origin or op
    if not op._inputs:
        return []
    users = [o.name for o in op._inputs[0].consumers() if o is not op]
    return users[:8] + (["…"] if len(users) > 8 else [])


class _Watchdog:
    """The list, and the thread that looks at it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits: dict[int, Wait] = {}
        self._thread: threading.Thread | None = None

    def add(self, wait: Wait) -> None:
        """A wait begins."""
        with self._lock:
            self._waits[id(wait)] = wait
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="penstock watchdog", daemon=True)
                self._thread.start()

    def drop(self, wait: Wait) -> None:
        """A wait has ended."""
        with self._lock:
            self._waits.pop(id(wait), None)

    def _watch(self) -> None:
        while True:
            time.sleep(PATIENCE / 4)
            with self._lock:
                if not self._waits:
                    self._thread = None
                    return
                waits = list(self._waits.values())
            self.report(waits)

    def report(self, waits: list[Wait]) -> None:
        """Logs the sessions that are stuck."""
        sessions: dict[int, list[Wait]] = {}
        for w in waits:
            if w.ctx.session is not None:
                sessions.setdefault(id(w.ctx.session), []).append(w)
        for group in sessions.values():
            late = [w for w in group if time.monotonic() - w.since >= PATIENCE]
            running = set(group[0].ctx.session.running_steps())
            if not late or all(w.reported for w in late) or running - {w.ctx.step_id for w in late}:
                continue                                   # some step computes, or has just begun to wait
            lines = "\n".join(f"  {w.line()}" for w in late)
            _log.warning("No step of this session has made progress for %d s:\n%s", PATIENCE, lines)
            for w in late:
                w.reported = True


_watchdog = _Watchdog()
