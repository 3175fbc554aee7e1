"""Programs of one step for recurring shapes of its feeds.

The first program of a step accepts feeds of all shapes that the graph allows. Recurring shapes get their own program, in which
everything that follows from them is computed at compile time; so unknown shapes cost a training loop nothing. They are
compiled only when they are likely to be used: the more programs a step has, the more often a further set of shapes must come.
On GPUs only a few are kept, because each has its CUDA graph, which holds memory.
"""
from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

from penstock._src.graph.node import Tensor
from penstock._src.step.ir import Node
from penstock._src.step.runnable import Runnable

_AFTER = 2           # runs with the same shapes before they get a program
_FEW = 4             # programs that are compiled as soon as that; a further one, after as many runs as there are programs
_MOST = 32           # programs of one step
_REMEMBERED = 256    # sets of shapes that are counted


class Variants(Runnable):
    """The programs of a step by the shapes of its feeds; `general` is the one for all others."""

    def __init__(self, general: Runnable, build: Callable[[list], Runnable], few: bool = False):
        self.general, self._build, self._most = general, build, _FEW if few else _MOST
        self._made: dict[tuple, Runnable] = {}
        self._seen: dict[tuple, int] = {}

    def run(self, ctx: Any, *feeds: Any) -> tuple:
        """One step."""
        return self.pick(feeds).run(ctx, *feeds)

    def pick(self, values: Sequence[Any]) -> Runnable:
        """The program for fed values."""
        key = tuple([v.shape for v in values])
        return self._made.get(key) or self._other(key)

    def failing_op(self, traceback: types.TracebackType | None) -> Node | None:
        """The op that raised, in one of the programs."""
        programs = (self.general, *list(self._made.values()))
        return next((op for p in programs if (op := p.failing_op(traceback)) is not None), None)

    def text(self) -> str:
        """The program for all shapes."""
        return self.general.text()

    def explained(self, feeds: list[Tensor], device: Callable[[Node], str]) -> str:
        """The general program, and those for recurring shapes."""
        parts = [self.general.explained(feeds, device)]
        for shapes, program in list(self._made.items()):
            if program is not self.general:
                parts.append(f"# for shapes {', '.join(str(list(s)) for s in shapes)}\n{program.explained(feeds, device)}")
        return "\n".join(parts)

    def _other(self, key: tuple) -> Runnable:
        times = self._seen.get(key, 0)
        programs = len(self._made)
        if times < (_AFTER if programs < _FEW else programs) or programs >= self._most:
            if len(self._seen) >= _REMEMBERED:
                self._seen.clear()
            self._seen[key] = times + 1
            return self.general
        try:
            made = self._build([tuple(dims) for dims in key])
        except Exception:             # shapes that the graph rejects: the general program raises the error
            made = self.general
        self._made[key] = made
        return made
