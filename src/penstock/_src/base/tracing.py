"""The tracing state of this thread: a step is lowered to a graph of ATen calls (step/tiers), captured as a CUDA graph, or
recorded (step/compile/recorder.py).

Kernels check `lowering` where they have a form that only runs on real memory, and `recording` where they would inspect values.
"""
from __future__ import annotations

import threading
from typing import Any

_local = threading.local()


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


def lowering() -> bool:
    """Whether a step becomes a graph of ATen calls: tensors have no memory then."""
    found = draws()
    return found is not None and found.lowering
