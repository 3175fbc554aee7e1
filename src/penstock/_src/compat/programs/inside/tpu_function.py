"""Of `tpu.tpu_function`: how many parts a computation is divided into. Libraries ask it before they sum over TPU cores."""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any


class TpuContext(threading.local):
    """The number of shards of the computation that this thread builds; None outside of one."""

    def __init__(self) -> None:
        self._number_of_shards: int | None = None

    @property
    def number_of_shards(self) -> int | None:
        """How many shards there are, or None."""
        return self._number_of_shards

    def set_number_of_shards(self, number_of_shards: int | None) -> None:
        """Sets how many shards there are."""
        self._number_of_shards = number_of_shards


_context = TpuContext()


def get_tpu_context() -> TpuContext:
    """The context of this thread."""
    return _context


@contextlib.contextmanager
def tpu_shard_context(number_of_shards: int) -> Iterator[None]:
    """Says that what is built inside runs in so many shards.

    Raises:
        NotImplementedError: in such a context already.
    """
    if _context.number_of_shards is not None:
        raise NotImplementedError("Contexts of TPU shards cannot be nested.")
    _context.set_number_of_shards(number_of_shards)
    try:
        yield
    finally:
        _context.set_number_of_shards(None)


def on_device_training_loop(func: Callable) -> Callable:
    """Marks a function whose outermost loop is the training loop."""
    marked: Any = func
    marked.step_marker_location = "STEP_MARK_AT_TOP_LEVEL_WHILE_LOOP"
    return func
