"""Programs of one step for the shapes that it is fed again and again.

The first program of a step serves feeds of all shapes that the graph allows. Shapes that come back get a program of their own,
in which everything that follows from them is worked out beforehand; so a training loop pays nothing for shapes left open. Only
a few such programs are kept, and compiled only when they are likely to be used.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

_AFTER = 2           # runs with the same shapes before they get a program
_MOST = 4            # programs of one step
_REMEMBERED = 64     # shapes that are counted


class Variants:
    """The programs of a step by the shapes of its feeds; `general` is the one for all others."""

    __slots__ = ("general", "_build", "_made", "_seen")

    def __init__(self, general: Any, build: Callable[[list], Any]):
        self.general, self._build = general, build
        self._made: dict[tuple, Any] = {}
        self._seen: dict[tuple, int] = {}

    def pick(self, values: list) -> Any:
        """The program for fed values."""
        key = tuple([v.shape for v in values])
        return self._made.get(key) or self._other(key)

    def _other(self, key: tuple) -> Any:
        times = self._seen.get(key, 0)
        if times < _AFTER or len(self._made) >= _MOST:
            if len(self._seen) >= _REMEMBERED:
                self._seen.clear()
            self._seen[key] = times + 1
            return self.general
        try:
            made = self._build([tuple(dims) for dims in key])
        except Exception:             # shapes that the graph refuses: the general program says so when it meets them
            made = self.general
        self._made[key] = made
        return made
