"""Notifies the active tapes of executed or built ops, and of variables that are read."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.graph import context


def record(op: Any, inputs: list, outputs: list, gradient: Callable | None = None) -> None:
    """Records an executed op on every active tape that watches one of its inputs."""
    for tape in context.state.tapes:
        watched = tape._watched
        for t in inputs:
            if id(t) in watched:
                tape._note(op, inputs, outputs, gradient)
                break


def variable_accessed(variable: Any) -> None:
    """Notifies the tapes of a read of a trainable variable, and functions being traced of a read of any variable."""
    for tape in context.state.tapes:
        if tape._watch_variables and variable.trainable or tape.notes_all_variables:
            tape._watch_variable(variable)


def variable_written(variable: Any) -> None:
    """Notifies functions being traced that a variable is written."""
    for tape in context.state.tapes:
        if tape.notes_all_variables:
            tape._watch_variable(variable)
