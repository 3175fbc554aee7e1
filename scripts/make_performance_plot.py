"""Draws the tables of docs/performance.md that are marked `plotted`: docs/pictures/performance.svg.

    python scripts/make_performance_plot.py

A bar is a time divided by penstock's in the same row, so that rows of different lengths share one scale.
"""
from __future__ import annotations

import pathlib
import re

ROOT = pathlib.Path(__file__).parent.parent
COLORS = {"penstock": "#2471a3", "JAX": "#8e7cc3", "torch.compile": "#c0392b", "PyTorch": "#e59866", "TensorFlow": "#f1c40f"}
WIDTH, LABEL, BAR, LARGEST = 860, 190, 11, 3.0
Row = tuple[str, dict[str, float]]


def tables(text: str) -> list[tuple[str, list[Row]]]:
    """(title, rows) of the marked tables of a page; a row is its name and the time of each side."""
    found = []
    for title, table in re.findall(r"<!-- plotted: (.*?) -->\n\n((?:\|.*\n)+)", text):
        head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
        sides = [name.removesuffix(", ms") for name in head[1:]]
        found.append((title, [(row[0], dict(zip(sides, map(float, row[1:]), strict=True))) for row in rows]))
    return found


def draw(found: list[tuple[str, list[Row]]]) -> str:
    """The picture of all tables."""
    parts, y = [], 16
    scale = (WIDTH - LABEL - 125) / LARGEST
    for title, rows in found:
        parts.append(f'<text x="0" y="{y}" font-weight="bold">{title}: '
                     "time of a training step over that of penstock (less is better)</text>")
        y += 14
        for name, times in rows:
            top = y
            for side, time in times.items():
                ratio = time / times["penstock"]
                length = min(ratio, LARGEST) * scale
                more = " …" if ratio > LARGEST else ""
                parts.append(f'<rect x="{LABEL}" y="{y}" width="{length:.1f}" height="{BAR - 2}" fill="{COLORS[side]}"/>'
                             f'<text x="{LABEL + length + 5:.1f}" y="{y + BAR - 3}" font-size="10">{ratio:.2f}{more} {side}'
                             "</text>")
                y += BAR
            parts.append(f'<text x="{LABEL - 8}" y="{(top + y) / 2 + 4}" text-anchor="end">{name}</text>')
            y += 9
        y += 22
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y - 22}" font-family="sans-serif" font-size="12">'
            f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n')


def main() -> None:
    """Writes the picture."""
    page = (ROOT / "docs" / "performance.md").read_text()
    (ROOT / "docs" / "pictures" / "performance.svg").write_text(draw(tables(page)))


if __name__ == "__main__":
    main()
