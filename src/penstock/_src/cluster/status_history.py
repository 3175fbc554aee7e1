"""The last hour of a cluster, as charts of the status page: one line per task, drawn as SVG without scripts."""
from __future__ import annotations

import collections
import html
import time
from typing import Any

from penstock._src.base import clock

SECONDS = 5.0                       # between samples
_SAMPLES = 720                      # an hour
_WIDTH, _HEIGHT = 520, 110
_COLORS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#bcbd22")
_CHARTS = (("Steps per second", "steps_per_second"), ("Memory, bytes", "memory"), ("Bytes sent per second", "sent_per_second"),
           ("Bytes received per second", "received_per_second"), ("Oldest wait, seconds", "wait"))
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
            values[name] = {"wait": waited, **{k: task[k] for _, k in _CHARTS if k in task}, **scalars}
        self._samples.append((now, values))

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
        """The charts, and what they mean, as HTML."""
        if len(self._samples) < 2:
            return ""
        tasks = sorted({name for _, values in self._samples for name in values})
        colors = {name: _COLORS[i % len(_COLORS)] for i, name in enumerate(tasks)}
        legend = " ".join(f"<span style='color:{c}'>&#9644; {html.escape(n)}</span>" for n, c in colors.items())
        seconds = self._samples[-1][0] - self._samples[0][0]
        span = f"{seconds / 60:.0f} minutes" if seconds > 90 else f"{seconds:.0f} seconds"
        shown = [*_CHARTS[:1], *((tag.removeprefix(_SCALAR), tag) for tag in self._scalars()), *_CHARTS[1:]]
        drawn = "".join(f"<figure><figcaption>{html.escape(title)}</figcaption>{self._chart(key, colors)}</figure>"
                        for title, key in shown)
        return f"<h2>The last {span}</h2><p>{legend}</p><div class=charts>{drawn}</div>{self._log()}"

    def _scalars(self) -> list[str]:
        """The scalars that have charts: loss and learning rate first."""
        def place(tag: str) -> int:
            return next((i for i, word in enumerate(_FIRST) if word in tag.lower()), len(_FIRST))
        return sorted(self._tags, key=place)[:_MOST_SCALARS]

    def _log(self) -> str:
        events = sorted([*self.events, *self._saved.values()], reverse=True)
        rows = "".join(f"<tr><td>{_time(when)}</td><td>{html.escape(what)}</td></tr>" for when, what in events)
        return f"<h2>Events</h2><table>{rows}</table>" if rows else ""

    def _chart(self, key: str, colors: dict[str, str]) -> str:
        first, last = self._samples[0][0], self._samples[-1][0]
        found = [v[key] for _, values in self._samples for v in values.values() if key in v]
        low, high = (min(found, default=0.0) if key.startswith(_SCALAR) else 0.0), max(found, default=0.0)
        span = high - low or 1.0
        lines = []
        for name, color in colors.items():
            for run in self._runs(name, key):
                points = " ".join(f"{_WIDTH * (t - first) / max(last - first, 1e-9):.1f},"
                                  f"{_HEIGHT * (1 - (v - low) / span):.1f}" for t, v in run)
                lines.append(f"<polyline fill=none stroke='{color}' stroke-width=1.5 points='{points}'/>")
        marks = "".join(f"<text x={x} y={y} text-anchor={side}>{text}</text>" for x, y, side, text in (
            (4, 10, "start", _short(high)), (4, _HEIGHT - 2, "start", _short(low)),
            (4, _HEIGHT + 14, "start", _time(first)), (_WIDTH - 4, _HEIGHT + 14, "end", _time(last))))
        return (f"<svg width={_WIDTH} height={_HEIGHT + 20} viewBox='0 -2 {_WIDTH} {_HEIGHT + 20}'>"
                f"<path d='M0 {_HEIGHT}H{_WIDTH}' stroke='#bbb'/>{''.join(lines)}{marks}</svg>")

    def _runs(self, name: str, key: str) -> list[list[tuple[float, float]]]:
        """The values of a task over time, in pieces without gaps."""
        runs: list[list[tuple[float, float]]] = [[]]
        for when, values in self._samples:
            if key in values.get(name, ()):
                runs[-1].append((when, values[name][key]))
            elif runs[-1]:
                runs.append([])
        return [run for run in runs if run]


def _time(when: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(when))


def _short(value: float) -> str:
    if 0 < abs(value) < 0.001:
        return f"{value:.2g}"
    for unit in ("", "k", "M"):
        if abs(value) < 1000:
            return f"{value:.3g}{unit}"
        value /= 1000
    return f"{value:.3g}G"
