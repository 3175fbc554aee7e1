"""Progbar: a line that shows the progress of a loop."""
from __future__ import annotations

import math
import os
import sys
import time
from typing import Any

import numpy as np

from penstock._src.base.api import export

_FILE_INTERVAL = 60.0          # the seconds between two bars of an epoch in a file


@export("keras.utils.Progbar")
class Progbar:
    """Draws a bar on standard output, with averages of values beside it.

    >>> bar = tf.keras.utils.Progbar(100)
    >>> bar.update(10, [("loss", 0.5)])
    """

    def __init__(self, target: int | None, width: int = 30, verbose: Any = 1, interval: float = 0.05,
                 stateful_metrics: Any = None, unit_name: str = "step"):
        self.target, self.width, self.verbose, self.interval, self.unit_name = target, width, verbose, interval, unit_name
        self.stateful_metrics = set(stateful_metrics or [])
        out = sys.stdout
        self._dynamic_display = bool(getattr(out, "isatty", lambda: False)() or "ipykernel" in sys.modules
                                     or "PYCHARM_HOSTED" in os.environ)
        self._total_width = self._seen_so_far = 0
        self._values: dict[str, Any] = {}
        self._values_order: list[str] = []
        self._start, self._last_update = time.monotonic(), float("-inf")
        if not self._dynamic_display and interval:          # a file keeps every bar that is drawn, each as a line
            self.interval, self._last_update = max(interval, _FILE_INTERVAL), self._start
        self._after_first: float | None = None

    def due(self) -> bool:
        """Whether enough time has passed to draw again."""
        return time.monotonic() - self._last_update >= self.interval

    def update(self, current: int, values: Any = None, finalize: bool | None = None) -> None:
        """Moves the bar to `current`; `values` are pairs of a name and a number, averaged unless the name is stateful."""
        if finalize is None:
            finalize = self.target is not None and current >= self.target
        for name, value in values or []:
            self._take(name, value, current)
        self._seen_so_far = current
        if not self.verbose:
            return
        now = time.monotonic()
        if self.verbose == 1:
            if not finalize and now - self._last_update < self.interval:
                return
            self._draw(current, now, finalize)
        elif finalize:
            self._line(current, now)
        self._last_update = now

    def add(self, n: int, values: Any = None) -> None:
        """Advances the bar by `n`."""
        self.update(self._seen_so_far + n, values)

    def _take(self, name: str, value: Any, current: int) -> None:
        if name not in self._values_order:
            self._values_order.append(name)
        if name in self.stateful_metrics:
            self._values[name] = [value, 1]
            return
        more = max(current - self._seen_so_far, 1)
        total, count = self._values.get(name, (0, 0))
        self._values[name] = [total + value * more, count + more]

    def _draw(self, current: int, now: float, finalize: bool) -> None:
        before = self._total_width
        start = "\b" * before + "\r" if self._dynamic_display else ""
        bar = self._bar(current)
        each = self._time_per_unit(current, now)
        if self.target is None or finalize:
            info = f" - {now - self._start:.0f}s{_per_unit(each, self.unit_name)}"
        else:
            info = f" - ETA: {_eta(each * (self.target - current))}"
        info += self._shown()
        self._total_width = len(bar) + len(info)
        if self._dynamic_display:
            info += " " * max(before - self._total_width, 0)
        _write(start + bar + info + ("\n" if finalize or not self._dynamic_display else ""))

    def _bar(self, current: int) -> str:
        if self.target is None:
            return f"{current:7d}/Unknown"
        digits = int(math.log10(self.target)) + 1 if self.target else 1
        done = int(self.width * current / self.target) if self.target else self.width
        drawn = "=" * (done - 1) + (">" if current < self.target else "=") if done > 0 else ""
        return f"{current:{digits}d}/{self.target} [{drawn}{'.' * (self.width - done)}]"

    def _line(self, current: int, now: float) -> None:
        count = f"{current}/{self.target}" if self.target else f"{current}"
        each = self._time_per_unit(current, now)
        took = f" -{_per_unit(now - self._start, 'epoch')} -{_per_unit(each, self.unit_name)}"
        _write(f"{count} - {now - self._start:.0f}s{self._shown(signed=True)}{took}\n")

    def _shown(self, signed: bool = False) -> str:
        """The values; a line shows those below a thousandth with an exponent, negative ones (`signed`), too."""
        text = ""
        for name in self._values_order:
            total, count = self._values[name]
            try:
                mean = float(np.mean(total / max(1, count)))
            except (TypeError, ValueError):
                text += f" - {name}: {total}"
                continue
            text += f" - {name}: {mean:.4f}" if (mean if signed else abs(mean)) > 1e-3 else f" - {name}: {mean:.4e}"
        return text

    def _time_per_unit(self, current: int, now: float) -> float:
        """Seconds per unit; the first, which compiles, does not count once there are others."""
        if not current:
            return 0.0
        each = (now - self._after_first) / (current - 1) if self._after_first is not None and current > 1 \
            else (now - self._start) / current
        if current == 1:
            self._after_first = now
        return each


def _eta(seconds: float) -> str:
    if seconds > 3600:
        return f"{int(seconds // 3600)}:{int(seconds % 3600 // 60):02d}:{int(seconds % 60):02d}"
    return f"{int(seconds // 60)}:{int(seconds % 60):02d}" if seconds > 60 else f"{int(seconds)}s"


def _per_unit(seconds: float, unit: str) -> str:
    if seconds >= 1 or seconds == 0:
        return f" {seconds:.0f}s/{unit}"
    return f" {seconds * 1e3:.0f}ms/{unit}" if seconds >= 1e-3 else f" {seconds * 1e6:.0f}us/{unit}"


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
