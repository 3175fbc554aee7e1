"""The slowest ops of a task, by samples of what its threads execute. Steps are not changed, and need no time for it.

A sample finds for each thread the op whose statement it executes. Threads that wait are not counted. Short steps run as one
recorded script (step/compile/recorded.py), which counts as a whole.
"""
from __future__ import annotations

import collections
import threading
from typing import Any

from penstock._src.execute import watchdog
from penstock._src.step.compile.program import operation_at

SECONDS = 0.1                       # between samples
_SAMPLES = 1200                     # those of the last two minutes
_DEEPEST = 40                       # frames between a kernel and its program
_SHOWN = 10
_STEP = "penstock._src.cluster.task_engine", "run"           # the frame below which a part of a step runs


class Sampler:
    """The samples of one process, the newest last."""

    def __init__(self) -> None:
        self._samples: collections.deque[tuple[tuple[str, str], ...]] = collections.deque(maxlen=_SAMPLES)

    def look(self) -> None:
        """Takes a sample; called periodically."""
        waiting = {w.thread for w in list(watchdog._waits.values())} | {threading.get_ident()}
        found = (self._running(frame) for thread, frame in watchdog._frames().items() if thread not in waiting)
        self._samples.append(tuple(op for op in found if op is not None))

    @staticmethod
    def _running(frame: Any) -> tuple[str, str] | None:
        """Name and type of the op that a thread executes."""
        for _ in range(_DEEPEST):
            if frame is None:
                return None
            op = operation_at(frame)
            if op is not None:
                return (op.origin or op).name, (op.origin or op).type
            if (frame.f_globals.get("__name__"), frame.f_code.co_name) == _STEP:
                return "short ops of a recorded step", ""
            frame = frame.f_back
        return None

    def slowest(self) -> list[list[Any]]:
        """Name, type, and part of the time of the ops that were found most often."""
        samples = list(self._samples)
        counts = collections.Counter(op for sample in samples for op in sample)
        return [[*op, count / len(samples)] for op, count in counts.most_common(_SHOWN)]
