"""Tables and curves that notebooks show for graphs, models and datasets: plain HTML without scripts or styles of pages."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

MOST_ROWS = 100       # a notebook keeps its outputs: large graphs are cut
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


def escape(text: str) -> str:
    """`text` without characters that HTML interprets (`html.escape`, whose module costs time at import)."""
    return text.translate(_ESCAPED)


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[Any]], most: int = MOST_ROWS) -> str:
    """A table with a caption; after `most` rows a line says how many there are."""
    rows = list(rows)
    head = "".join(f"<th style='text-align:left'>{escape(h)}</th>" for h in header)
    lines = ["<tr>" + "".join(f"<td style='text-align:left'>{escape(str(v))}</td>" for v in row) + "</tr>"
             for row in rows[:most]]
    if len(rows) > most:
        lines.append(f"<tr><td colspan='{len(header)}'>… {len(rows) - most} more</td></tr>")
    return (f"<table><caption style='text-align:left;white-space:nowrap'>{escape(caption)}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>")


def curve(name: str, values: Sequence[float], width: int = 180, height: int = 48) -> str:
    """A line through `values` as SVG, from the first to the last; empty for fewer than two finite numbers."""
    finite = [v for v in values if v == v and abs(v) != float("inf")]
    if len(finite) < 2:
        return ""
    low, high = min(finite), max(finite)
    across, up = width / (len(finite) - 1), (height - 4) / ((high - low) or 1.)
    points = " ".join(f"{i * across:.1f},{height - 2 - (v - low) * up:.1f}" for i, v in enumerate(finite))
    return (f"<figure style='display:inline-block;margin:4px'><svg width='{width}' height='{height}' role='img'>"
            f"<polyline fill='none' stroke='currentColor' points='{points}'/></svg>"
            f"<figcaption>{escape(name)}: {finite[0]:.4g} → {finite[-1]:.4g}</figcaption></figure>")
