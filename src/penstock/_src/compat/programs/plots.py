"""Programs that show plots on a machine without a display: waiting for a key returns immediately.

matplotlib's backends without windows (Agg, which it chooses where there is no display) wait forever for a key or a click.
Backends with windows have their own event loops, and are not changed.
"""
from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from typing import Any

MODULE = "matplotlib.backend_bases"


class _Finder(importlib.abc.MetaPathFinder):
    """Finds matplotlib's module once, as the others would, and patches it after it is loaded."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            load(module)
            mend(module.FigureCanvasBase)
        spec.loader.exec_module = exec_module                          # type: ignore[method-assign]
        return spec


def mend(canvas: Any) -> None:
    """Makes the event loop of a canvas without a window return immediately instead of waiting forever."""
    wait = canvas.start_event_loop

    def start_event_loop(self: Any, timeout: float = 0) -> None:
        if timeout and timeout > 0:
            wait(self, timeout)
        else:
            print("penstock run: there is no window to press a key in; continuing", file=sys.stderr)
    canvas.start_event_loop = start_event_loop


def install() -> None:
    """Installs the patch for the import of matplotlib."""
    if MODULE in sys.modules:
        mend(sys.modules[MODULE].FigureCanvasBase)
    elif not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
