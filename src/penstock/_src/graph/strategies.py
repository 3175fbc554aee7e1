"""The current strategy of a thread, and whether the thread is in cross-replica context or runs for one replica.

Each thread has a stack of frames (`graph.context.state.strategies`). A frame counts in the graph in which it was
opened, and in functions that are traced there: another graph inside of a scope has no strategy, as in TensorFlow.
Variables, optimizers, summaries and metrics query it. Strategies themselves, and the default one that public functions
return where none was entered, are in `models/distribute`.
"""
from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from penstock._src.graph import context


class Frame:
    """One entry of the stack: a strategy, and the replica (or the copy that is being updated) that the thread runs for."""

    __slots__ = ("strategy", "replica", "copy", "creator", "root")

    def __init__(self, strategy: Any, replica: Any = None, copy: int | None = None, creator: Any = None):
        self.strategy, self.replica, self.copy = strategy, replica, copy
        self.creator = creator                   # creator(next_creator, **kwargs) makes the variables
        self.root = _root()

    cross = property(lambda self: self.strategy if self.replica is None else None, doc="The strategy, across replicas.")

    @property
    def index(self) -> int | None:
        """The index of the copy of a distributed value to use: the replica's, or the one that is being updated."""
        return self.copy if self.replica is None else self.replica._local_index


def _root() -> Any:
    """The graph that is being built, outside of functions; None for eager execution."""
    stack = context.state.graphs
    graph: Any = stack[-1] if stack else None if context.process.eager else context.default_graph()
    while graph is not None and graph.building_function:
        graph = graph.around
    return graph


class _Process:
    chosen: Any = None                 # the frame of experimental_set_strategy; it counts in every thread and graph


def choose(frame: Frame | None) -> None:
    """Sets the default frame for threads and graphs that have entered none."""
    _Process.chosen, context.process.strategy = frame, frame is not None


def is_chosen(frame: Frame | None) -> bool:
    """Whether a frame is the one that counts in every thread and graph."""
    return frame is not None and frame is _Process.chosen


def open_frame() -> Frame | None:
    """The frame of this thread; None if it has entered no strategy and none was chosen for the process."""
    stack = context.state.strategies
    if stack:
        root = _root()
        for entry in reversed(stack):
            if entry.root is root:
                return entry
    return _Process.chosen


def active_frame() -> Frame | None:
    """The frame of this thread if its strategy is not the default one; cheap when there is none."""
    if not context.state.strategies and not context.process.strategy:
        return None
    found = open_frame()
    return None if found is None or found.strategy._is_default else found


def active_strategy() -> Any:
    """The strategy that this thread is under, or None."""
    found = active_frame()
    return None if found is None else found.strategy


def active_replica() -> Any:
    """The replica that this thread runs for; None without a strategy and in cross-replica context."""
    found = active_frame()
    return None if found is None else found.replica


def exports_copies() -> bool:
    """Whether a SavedModel is being written whose variables have several copies, of which functions export one."""
    return context.state.exports_copies


def beyond_first_replica() -> bool:
    """Whether this thread runs for a replica other than the first: only the first writes summaries."""
    number = getattr(active_replica(), "_replica_id_in_sync_group", 0)
    return isinstance(number, int) and number > 0


@contextlib.contextmanager
def entered(new: Frame) -> Iterator[Frame]:
    """Opens a frame for a block."""
    state = context.state
    old = state.strategies
    state.strategies = (*old, new)
    try:
        yield new
    finally:
        state.strategies = old


def with_creators(make: Any) -> Any:
    """A variable creator wrapped by those of this thread's strategies and replicas."""
    root = _root()
    for entry in context.state.strategies or (() if _Process.chosen is None else (_Process.chosen,)):
        if entry.creator is not None and (entry.root is root or entry is _Process.chosen):
            make = functools.partial(entry.creator, make)
    return make
