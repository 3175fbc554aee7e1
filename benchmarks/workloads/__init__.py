"""Programs that `others_cpu.py` times beside TensorFlow: one file per set, in the order in which they were written.

A workload is a function of a framework's module that returns a function without arguments: one measured call. It is plain
TensorFlow code, and both sides run the same.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

SETS = ("models", "sequence", "programs", "recurrences", "decoding", "literature", "dense", "everyday", "unseen", "strangers",
        "open", "families", "scripts", "kinds", "usual", "graphs", "fresh", "sessions", "further", "broad")
Work = dict[str, Callable[[Any], Callable[[], Any]]]


def work_table() -> tuple[Work, Callable]:
    """An empty table of workloads, and the decorator that enters a function under its name."""
    table: Work = {}

    def workload(build: Callable) -> Callable:
        table[build.__name__] = build
        return build
    return table, workload
