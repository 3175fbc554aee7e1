"""The last hour of a cluster, for the status page: samples of its tasks (`status_charts.py` draws them), and events."""
from __future__ import annotations

import collections
import html
from typing import Any

from penstock._src.base import clock
from penstock._src.cluster import status_charts
from penstock._src.cluster.status_charts import chart, clock_time, legend

SECONDS = 5.0                       # between samples
_SAMPLES = 720                      # an hour
_PARTS = ("compute", "wait", "transfer")         # of the seconds of a step
_CHARTS = (("Steps per second", "steps_per_second"), *((f"Seconds of a step: {part}", part) for part in _PARTS),
           ("Memory, bytes", "memory"), ("Bytes sent per second", "sent_per_second"),
           ("Bytes received per second", "received_per_second"), ("Oldest wait, seconds", "oldest_wait"))
_SCALAR = "scalar "                 # begins the key of a scalar of summaries
_MOST_SCALARS = 8                   # that have charts
_FIRST = ("loss", "learning_rate", "learning rate", "lr")      # scalars that are shown before others


class History:
    """Samples of the status, the newest last. A task that did not answer has no values: its lines have gaps."""

    def __init__(self) -> None:
        self._samples: collections.deque[tuple[float, dict[str, dict[str, float]]]] = collections.deque(maxlen=_SAMPLES)
        self._gone: dict[str, float] = {}            # when a task stopped answering
        self._incarnations: dict[str, str] = {}
        self._saved: dict[str, tuple[float, str]] = {}         # the newest checkpoint of each task
        self._tags: list[str] = []                   # of scalars, in the order in which they appeared
        self._drawn: str | None = None               # the charts of these samples
        self.events: collections.deque[tuple[float, str]] = collections.deque(maxlen=20)

    def add(self, tasks: list[dict[str, Any]], now: float | None = None) -> None:
        """Adds a sample, and logs changes: tasks that were lost, returned or were restarted, and checkpoints."""
        now = clock.steady() if now is None else now
        values = {}
        for task in tasks:
            name = task["task"]
            if "error" in task:
                if name in self._incarnations and name not in self._gone:          # those that start are not lost
                    self._gone[name] = now
                    self.events.append((now, f"{name} does not answer: {task['error']}"))
                continue
            self._note(task, now)
            waited = max((w["seconds"] for w in task["waits"]), default=0.0)
            scalars = {_SCALAR + tag: value for tag, (_, value) in task.get("scalars", {}).items()
                       if not isinstance(value, str)}
            self._tags += [tag for tag in scalars if tag not in self._tags]
            values[name] = {"oldest_wait": waited, **dict(zip(_PARTS, task["step_seconds"])),
                            **{k: task[k] for _, k in _CHARTS if k in task}, **scalars}
        self._samples.append((now, values))
        self._drawn = None

    def _note(self, task: dict[str, Any], now: float) -> None:
        """Logs what has happened to a task that answers."""
        name, before = task["task"], self._incarnations.get(task["task"])
        if before not in (None, task["incarnation"]):
            self.events.append((now, f"{name} was restarted"))
        elif name in self._gone:
            self.events.append((now, f"{name} answers again"))
        elif before is None and task.get("restarts"):
            self.events.append((now, f"{name} is here, after {task['restarts']} restarts"))
        self._gone.pop(name, None)
        self._incarnations[name] = task["incarnation"]
        for when, path, _ in task.get("checkpoints", ()):
            if when > self._saved.get(name, (0.0, ""))[0]:
                self._saved[name] = when, f"{name} wrote the checkpoint {path}"

    def charts(self) -> str:
        """The charts, and what they mean, as HTML; made once per sample."""
        if self._drawn is None:
            self._drawn = self._draw()
        return self._drawn

    def _draw(self) -> str:
        if len(self._samples) < 2:
            return ""
        colors, samples = status_charts.lines(list(self._samples))
        seconds = samples[-1][0] - samples[0][0]
        span = f"{seconds / 60:.0f} minutes" if seconds > 90 else f"{seconds:.0f} seconds"
        scalars = [(tag.removeprefix(_SCALAR), tag) for tag in self._scalars()]
        drawn = "".join(chart(title, key, samples, colors, key not in self._tags)
                        for title, key in [*_CHARTS[:1], *scalars, *_CHARTS[1:]])
        return f"<h2>The last {span}</h2><p>{legend(colors)}</p><div class=charts>{drawn}</div>{self._log()}"

    def _scalars(self) -> list[str]:
        """The scalars that have charts: loss and learning rate first."""
        def place(tag: str) -> int:
            return next((i for i, word in enumerate(_FIRST) if word in tag.lower()), len(_FIRST))
        return sorted(self._tags, key=place)[:_MOST_SCALARS]

    def _log(self) -> str:
        events = sorted([*self.events, *self._saved.values()], reverse=True)
        rows = "".join(f"<tr><td>{clock_time(when)}</td><td>{html.escape(what)}</td></tr>" for when, what in events)
        return f"<h2>Events</h2><table>{rows}</table>" if rows else ""
