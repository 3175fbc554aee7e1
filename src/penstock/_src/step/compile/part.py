"""A part of a step that torch.compile makes kernels of.

The part runs as a program of its own first. When it is run again with the same shapes, the program is traced into a graph of
ATen's operators, and torch.compile makes code of that, for these shapes. Where that is not possible (there is no compiler, a
kernel looks at values, torch refuses), the part stays the program that it was, and nobody is told: `penstock`'s log has the
reason at the level of debugging.
"""
from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch

from penstock._src.graph.functions import raise_typed
from penstock._src.graph.node import Operation, Tensor

_MOST = 8                    # shapes for which one part is compiled

_log = logging.getLogger("penstock")


def _torch_compile(graph: torch.fx.GraphModule) -> Callable:
    return torch.compile(graph, dynamic=False, fullgraph=True)


class Part:
    """Ops in order, what they take from outside, and what is wanted of them."""

    def __init__(self, ops: list[Operation], inputs: list[Tensor], outputs: list[Tensor], placed: dict[Operation, Any] | None):
        self.ops, self.inputs, self.outputs, self.placed = ops, inputs, outputs, placed
        open_shapes = any(t._dims is None or None in t._dims for t in inputs)
        self._runs_before = 2 if open_shapes else 1           # with shapes left open, a step may get another program soon
        self._program: Any = None
        self._compiled: dict[tuple, Callable] = {}
        self._runs: dict[tuple, int] = {}
        self._off = False
        self._lock = threading.Lock()

    def run(self, args: list, ctx: Any) -> tuple:
        """The results for some arguments."""
        if self._off:
            return self._plain(args, ctx)
        key = tuple([(a.shape, a.dtype, a.device, a.stride()) for a in args])
        found = self._compiled.get(key)
        if found is None:
            with self._lock:
                found = self._compiled.get(key) or self._compile(key, args, ctx)
        if found is None:
            return self._plain(args, ctx)
        try:
            return tuple(found(*args))
        except Exception as e:
            self._give_up(e)
            return self._plain(args, ctx)

    def _plain(self, args: list, ctx: Any) -> tuple:
        if self._program is None:
            self._program = self._written(ctx, reuse=True)
        try:
            return self._program.run(ctx, *args)
        except Exception as e:
            raise_typed(e, self._program)
            raise

    def _written(self, ctx: Any, reuse: bool) -> Any:
        from penstock._src.step.compile.program import Writer
        return Writer(ctx, self.placed, reuse).write(self.ops, self.outputs, self.inputs)

    def _compile(self, key: tuple, args: list, ctx: Any) -> Callable | None:
        """The code for these shapes, if they are here often enough; None if there is none."""
        runs = self._runs[key] = self._runs.get(key, 0) + 1
        if runs <= self._runs_before or self._off or _capturing():
            return None
        if len(self._compiled) >= _MOST or len(self._runs) > 8 * _MOST:
            self._give_up("its arguments have too many shapes")
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = self._made(args, ctx)
        except Exception as e:
            self._give_up(e)
            return None
        self._compiled[key] = made
        return made

    def _made(self, args: list, ctx: Any) -> Callable:
        from torch.fx.experimental.proxy_tensor import make_fx
        program = self._written(ctx, reuse=False)
        with torch.no_grad():
            graph = make_fx(lambda *values: program.run(ctx, *values))(*args)
            made = _torch_compile(graph)
            made(*args)                           # torch compiles when it is first called
        return made

    def _give_up(self, why: Any) -> None:
        self._off = True
        self._compiled.clear()
        _log.debug("This part of a step is not compiled by torch: %s", str(why).strip().split("\n")[0])


def _capturing() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
