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
_CHARTS = (("Steps per second", "steps_per_second"), ("Bytes sent per second", "sent_per_second"),
           ("Bytes received per second", "received_per_second"), ("Oldest wait, seconds", "wait"))


class History:
    """Samples of the status, the newest last. A task that did not answer has no values: its lines have gaps."""

    def __init__(self) -> None:
        self._samples: collections.deque[tuple[float, dict[str, dict[str, float]]]] = collections.deque(maxlen=_SAMPLES)
        self._gone: dict[str, float] = {}            # when a task stopped answering
        self._incarnations: dict[str, str] = {}
        self.events: collections.deque[tuple[float, str]] = collections.deque(maxlen=20)

    def add(self, tasks: list[dict[str, Any]], now: float | None = None) -> None:
        """Adds a sample, and logs changes: tasks that were lost, returned or were restarted."""
        now = clock.steady() if now is None else now
        values = {}
        for task in tasks:
            name = task["task"]
            if "error" in task:
                if name in self._incarnations and name not in self._gone:          # those that start are not lost
                    self._gone[name] = now
                    self.events.append((now, f"{name} does not answer: {task['error']}"))
                continue
            before = self._incarnations.get(name)
            if before not in (None, task["incarnation"]):
                self.events.append((now, f"{name} was restarted"))
            elif name in self._gone:
                self.events.append((now, f"{name} answers again"))
            self._gone.pop(name, None)
            self._incarnations[name] = task["incarnation"]
            waited = max((w["seconds"] for w in task["waits"]), default=0.0)
            values[name] = {"wait": waited, **{k: task[k] for _, k in _CHARTS if k in task}}
        self._samples.append((now, values))

    def charts(self) -> str:
        """The charts, and what they mean, as HTML."""
        if len(self._samples) < 2:
            return ""
        tasks = sorted({name for _, values in self._samples for name in values})
        colors = {name: _COLORS[i % len(_COLORS)] for i, name in enumerate(tasks)}
        legend = " ".join(f"<span style='color:{c}'>&#9644; {html.escape(n)}</span>" for n, c in colors.items())
        seconds = self._samples[-1][0] - self._samples[0][0]
        span = f"{seconds / 60:.0f} minutes" if seconds > 90 else f"{seconds:.0f} seconds"
        drawn = "".join(f"<figure><figcaption>{title}</figcaption>{self._chart(key, colors)}</figure>"
                        for title, key in _CHARTS)
        return f"<h2>The last {span}</h2><p>{legend}</p><div class=charts>{drawn}</div>{self._log()}"

    def _log(self) -> str:
        rows = "".join(f"<tr><td>{time.strftime('%H:%M:%S', time.localtime(when))}</td><td>{html.escape(what)}</td></tr>"
                       for when, what in reversed(self.events))
        return f"<h2>Events</h2><table>{rows}</table>" if rows else ""

    def _chart(self, key: str, colors: dict[str, str]) -> str:
        first, last = self._samples[0][0], self._samples[-1][0]
        top = max((v[key] for _, values in self._samples for v in values.values()), default=0.0) or 1.0
        lines = []
        for name, color in colors.items():
            for run in self._runs(name, key):
                points = " ".join(f"{_WIDTH * (t - first) / max(last - first, 1e-9):.1f},{_HEIGHT * (1 - v / top):.1f}"
                                  for t, v in run)
                lines.append(f"<polyline fill=none stroke='{color}' stroke-width=1.5 points='{points}'/>")
        return (f"<svg width={_WIDTH} height={_HEIGHT + 4} viewBox='0 -2 {_WIDTH} {_HEIGHT + 4}'>{''.join(lines)}"
                f"<text x=4 y=12 font-size=11 fill='#777'>{_short(top)}</text></svg>")

    def _runs(self, name: str, key: str) -> list[list[tuple[float, float]]]:
        """The values of a task over time, in pieces without gaps."""
        runs: list[list[tuple[float, float]]] = [[]]
        for when, values in self._samples:
            if name in values:
                runs[-1].append((when, values[name][key]))
            elif runs[-1]:
                runs.append([])
        return [run for run in runs if run]


def _short(value: float) -> str:
    for unit in ("", "k", "M"):
        if value < 1000:
            return f"{value:.3g}{unit}"
        value /= 1000
    return f"{value:.3g}G"
