"""Of `eager.tape` and `eager.record`: recording on all tapes, and on none."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from penstock._src.base import nest
from penstock._src.graph import context
from penstock._src.graph.recording import record, variable_accessed  # noqa: F401


@contextlib.contextmanager
def stop_recording() -> Iterator[None]:
    """A context in which no tape records."""
    tapes, context.state.tapes = context.state.tapes, ()
    try:
        yield
    finally:
        context.state.tapes = tapes


def could_possibly_record() -> bool:
    """Whether there is a tape that records."""
    return bool(context.state.tapes)


def should_record_backprop(tensors: Sequence[Any]) -> bool:
    """Whether a tape that records watches one of the tensors, or something that they are made of."""
    return any(tape._watches(t) for tape in context.state.tapes for t in tensors)


def record_operation(op_type: str, output_tensors: Any, input_tensors: Sequence[Any], backward_function: Callable,
                     forward_function: Callable | None = None) -> None:
    """Records outputs as made of inputs; `backward_function` takes gradients of outputs and returns those of inputs."""
    record(None, list(input_tensors), nest.flatten(output_tensors), backward_function)
