"""The past of a cluster as SVG without scripts: a line per task, or a few lines per job if there are many tasks.

The page is made again every two seconds for each reader, so its size is bounded: a chart has at most `_LINES` lines, and a line
at most two points, the lowest and the highest value, for each of `_PIECES` pieces of time.
"""
from __future__ import annotations

import html
import itertools
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence

Sample = tuple[float, Mapping[str, Mapping[str, float]]]        # when, and the values of each task by their keys
Run = list[tuple[float, float]]                                 # times and values, without a gap

_WIDTH, _HEIGHT = 520, 110
_COLORS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#bcbd22")
_LINES = 12
_PIECES = 130
_OF_MANY = (("lowest", min), ("median", statistics.median), ("highest", max))


def lines(samples: Sequence[Sample]) -> tuple[dict[str, str], list[Sample]]:
    """The color of each line, and the samples by line: a line per task, or if there are many tasks, the lowest, median and
    highest value of each job."""
    tasks = sorted({name for _, values in samples for name in values})
    if len(tasks) > _LINES:
        samples = [(when, _by_job(values)) for when, values in samples]
        tasks = sorted({name for _, values in samples for name in values})
    return {name: _COLORS[i % len(_COLORS)] for i, name in enumerate(tasks)}, list(samples)


def _by_job(values: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, list[float]]] = {}
    for task, numbers in values.items():
        job = found.setdefault(task.partition("/task:")[0].removesuffix("/replica:0"), {})
        for key, value in numbers.items():
            job.setdefault(key, []).append(value)
    return {f"{job}, {what}": {key: of(many) for key, many in numbers.items()}
            for job, numbers in found.items() for what, of in _OF_MANY}


def legend(colors: Mapping[str, str]) -> str:
    """The names of the lines in their colors."""
    return " ".join(f"<span style='color:{c}'>&#9644; {html.escape(n)}</span>" for n, c in colors.items())


def chart(title: str, key: str, samples: Sequence[Sample], colors: Mapping[str, str], from_zero: bool = True) -> str:
    """The values of one key as a figure; empty if there are none."""
    found = [v[key] for _, values in samples for v in values.values() if key in v]
    if not found:
        return ""
    first, last = samples[0][0], samples[-1][0]
    low, high = 0.0 if from_zero else min(found), max(found)
    wide, tall = _WIDTH / max(last - first, 1e-9), _HEIGHT / (high - low or 1.0)
    drawn = []
    for name, color in colors.items():
        for run in runs(samples, name, key):
            points = " ".join(f"{wide * (t - first):.1f},{_HEIGHT - tall * (v - low):.1f}"
                              for t, v in _thinned(run, last - first))
            drawn.append(f"<polyline fill=none stroke='{color}' stroke-width=1.5 points='{points}'/>")
    marks = "".join(f"<text x={x} y={y} text-anchor={side}>{text}</text>" for x, y, side, text in (
        (4, 10, "start", _short(high)), (4, _HEIGHT - 2, "start", _short(low)),
        (4, _HEIGHT + 14, "start", clock_time(first)), (_WIDTH - 4, _HEIGHT + 14, "end", clock_time(last))))
    return (f"<figure><figcaption>{html.escape(title)}</figcaption>"
            f"<svg width={_WIDTH} height={_HEIGHT + 20} viewBox='0 -2 {_WIDTH} {_HEIGHT + 20}'>"
            f"<path d='M0 {_HEIGHT}H{_WIDTH}' stroke='#bbb'/>{''.join(drawn)}{marks}</svg></figure>")


def runs(samples: Iterable[Sample], name: str, key: str) -> list[Run]:
    """The values of a line over time, in pieces without gaps."""
    found: list[Run] = [[]]
    for when, values in samples:
        if key in values.get(name, ()):
            found[-1].append((when, values[name][key]))
        elif found[-1]:
            found.append([])
    return [run for run in found if run]


def _thinned(run: Run, seconds: float) -> Run:
    """The lowest and the highest value of each piece of time, in their order."""
    piece = seconds / _PIECES
    if len(run) <= 2 * _PIECES or not piece:
        return run
    kept = []
    for _, group in itertools.groupby(run, lambda point: int((point[0] - run[0][0]) / piece)):
        points = list(group)
        kept += sorted({min(points, key=lambda p: p[1]), max(points, key=lambda p: p[1])})
    return kept


def clock_time(when: float) -> str:
    """Hours, minutes and seconds of a time, for people."""
    return time.strftime("%H:%M:%S", time.localtime(when))


def _short(value: float) -> str:
    if 0 < abs(value) < 0.001:
        return f"{value:.2g}"
    for unit in ("", "k", "M"):
        if abs(value) < 1000:
            return f"{value:.3g}{unit}"
        value /= 1000
    return f"{value:.3g}G"
