"""Simulated steps as a Chrome trace, and the critical path of a step."""
from __future__ import annotations

import json
from typing import Any, NamedTuple


class Event(NamedTuple):
    """Work on a task, or a message to it from `source`."""
    task: str
    label: str
    step: str
    start: float
    end: float
    source: str = ""
    size: int = 0


class Trace:
    """Collects the events of a simulation; `cluster.trace` is set to it."""

    def __init__(self, most: int = 200_000):
        self.events: list[Event] = []
        self._most = most

    @property
    def full(self) -> bool:
        """Whether it takes no more events."""
        return len(self.events) >= self._most

    def ran(self, task: str, label: str, step: str, start: float, end: float) -> None:
        """A core has worked."""
        if len(self.events) < self._most:
            self.events.append(Event(task, label, step, start, end))

    def came(self, source: str, task: str, label: str, step: str, start: float, end: float, size: int) -> None:
        """A message was sent at `start`, and handled at `end`."""
        if len(self.events) < self._most:
            self.events.append(Event(task, label, step, start, end, source, size))

    def chrome(self) -> str:
        """JSON for chrome://tracing and Perfetto: a process per task, with its work in one row and its messages in another."""
        numbers = {task: i for i, task in enumerate(sorted({e.task for e in self.events}))}
        rows: list[dict[str, Any]] = [{"ph": "M", "pid": i, "name": "process_name", "args": {"name": task}}
                                      for task, i in numbers.items()]
        rows += [{"ph": "X", "pid": numbers[e.task], "tid": 1 if e.source else 0, "ts": e.start * 1e6,
                  "dur": (e.end - e.start) * 1e6, "name": f"from {e.source}" if e.source else e.label,
                  "args": {"step": e.step, "bytes": e.size}} for e in self.events]
        return json.dumps({"traceEvents": rows})

    def critical_path(self, step: str, master: str) -> list[Event]:
        """The chain of work and messages that the end of a step has waited for, first to last: before each of them, the last
        thing that happened on the same task."""
        mine = sorted((e for e in self.events if e.step == step), key=lambda e: e.end)
        path: list[Event] = []
        task, until = master, float("inf")
        while True:
            found = next((e for e in reversed(mine) if e.task == task and e.end <= until + 1e-12 and e not in path), None)
            if found is None:
                return path[::-1]
            path.append(found)
            task, until = found.source or task, found.start
