"""The tracing state of this thread: a step is lowered to a graph of ATen calls (step/tiers), captured as a CUDA graph, or
recorded (step/compile/recorder.py).

Kernels check `lowering` where they have a form that only runs on real memory, and `recording` where they would inspect values.
"""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

_local = threading.local()
torch_ops: list[Callable[[], Any]] = []         # each declares ops of torch that graphs of ATen calls may hold
behind: dict[str, Callable] = {}                # what may run behind a graph, by names that other processes know


def draws() -> Any:
    """The draws of the traced step from random streams (kernels/draws.py); None if no step is traced."""
    return getattr(_local, "draws", None)


def set_draws(value: Any) -> Any:
    """Begins or ends a trace; returns the previous state."""
    before = draws()
    _local.draws = value
    return before


def recording() -> bool:
    """Whether a run of a step is recorded: kernels cannot read values then."""
    return getattr(_local, "recording", False)


def set_recording(value: bool) -> bool:
    """Begins or ends a recording; returns the previous state."""
    before = recording()
    _local.recording = value
    return before


def later() -> list | None:
    """The list of calls to run after the lowered graph, as (function, arguments, keywords); None if not allowed.
    """
    found = draws()
    return found.later if found is not None and found.lowering else None


@contextlib.contextmanager
def choosing() -> Iterator[None]:
    """In this block, a step that becomes a graph computes what it may not need: nothing in it may take long, run behind the
    graph, or take numbers from random streams."""
    found = draws()
    before, taken = (found.later, found.choosing), len(found.taken)
    found.later, found.choosing = None, True
    try:
        yield
        if len(found.taken) != taken:
            raise RuntimeError("a branch of a conditional draws from random streams")
    except Exception:
        del found.taken[taken:]
        raise
    finally:
        found.later, found.choosing = before


def lowering() -> bool:
    """Whether a step becomes a graph of ATen calls: tensors have no memory then."""
    found = draws()
    return found is not None and found.lowering


def holds(condition: Any) -> bool:
    """Whether a condition of a kernel is true. In a step that becomes a graph it is taken to be; the graph reports where it is
    not, and the program runs in its place, to raise the error."""
    return draws().require(condition) if lowering() else bool(condition)
