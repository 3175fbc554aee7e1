"""Line charts as SVG."""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")
_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 640, 360, 70, 36, 150, 46
Points = Sequence[tuple[float, float]]


class Chart(NamedTuple):
    """Lines, and marks that no line joins; with `log`, both axes are logarithmic."""
    title: str
    x: str
    y: str
    series: Mapping[str, Points]
    marks: Mapping[str, Points] = {}
    log: bool = False

    @property
    def svg(self) -> str:
        """The chart as SVG."""
        return lines(*self)


def lines(title: str, x: str, y: str, series: Mapping[str, Points], marks: Mapping[str, Points] | None = None,
          log: bool = False) -> str:
    """A chart of several lines with a legend (`Chart`)."""
    marks = marks or {}
    points = [p for each in (*series.values(), *marks.values()) for p in each]
    across, up = (_Scale([p[i] for p in points], log, i == 1) for i in (0, 1))
    body = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" '
            f'font-size="12"><rect width="100%" height="100%" fill="white"/>',
            _text(_WIDTH / 2, 20, title, "middle", 14), _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, x, "middle"),
            f'<g transform="translate(16,{_HEIGHT / 2}) rotate(-90)">{_text(0, 0, y, "middle")}</g>']
    for tick in across.ticks():
        at = _x(across(tick))
        body += [f'<path d="M{at:.1f} {_TOP}V{_HEIGHT - _BOTTOM}" stroke="#ddd"/>',
                 _text(at, _HEIGHT - 28, f"{tick:g}", "middle")]
    for tick in up.ticks():
        at = _y(up(tick))
        body += [f'<path d="M{_LEFT} {at:.1f}H{_WIDTH - _RIGHT}" stroke="#ddd"/>', _text(_LEFT - 6, at + 4, f"{tick:g}", "end")]
    for i, (name, each) in enumerate([*series.items(), *marks.items()]):
        colour, left, top = _COLOURS[i % len(_COLOURS)], _WIDTH - _RIGHT, _TOP + 18 * i
        dots = [(_x(across(a)), _y(up(b))) for a, b in each]
        if i < len(series):
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in dots)
            body += [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
                     f'<path d="M{left + 10} {top + 8}h18" stroke="{colour}" stroke-width="2"/>']
            body += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in dots]
        else:
            dots.append((left + 19.0, top + 8.0))              # in the legend
            body += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="6" fill="none" stroke="black"/>' for a, b in dots]
        body.append(_text(left + 34, top + 12, name))
    return "\n".join([*body, "</svg>\n"])


class _Scale:
    """Numbers to the range from 0 to 1."""

    def __init__(self, values: list[float], log: bool, from_zero: bool):
        self.log = log and min(values) > 0
        self.low, self.high = min(values), max(values)
        if from_zero and not self.log:
            self.low = min(0.0, self.low)
        if self.high == self.low:
            self.high = self.low + 1

    def __call__(self, value: float) -> float:
        if self.log:
            return (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        if self.log:
            found = [b * 10.0 ** e for e in range(-9, 13) for b in (1, 2, 5)]
            inside = [t for t in found if self.low <= t <= self.high * 1.0001]
            return [t for t in inside if math.log10(t) % 1 < 1e-9] if len(inside) > 9 else inside
        step = 10.0 ** math.floor(math.log10((self.high - self.low) / 4))
        step *= next(m for m in (1, 2, 5, 10) if (self.high - self.low) / (step * m) <= 6)
        first = math.ceil(self.low / step)
        return [i * step for i in range(first, int(self.high / step + 1e-9) + 1)]


def _x(share: float) -> float:
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _y(share: float) -> float:
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _BOTTOM - _TOP)


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
