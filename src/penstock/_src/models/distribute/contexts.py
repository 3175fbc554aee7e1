"""Which strategy a thread is under, and whether it runs for all replicas (cross-replica) or for one of them.

Each thread has a stack of frames (`graph.context.state.strategies`). A frame counts in the graph in which it was
opened, and in functions that are traced there: another graph inside of a scope has no strategy, as in TensorFlow.
Optimizers, variables and metrics ask here; with no strategy, they find the default one, whose methods do nothing special.
"""
from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context


class Frame:
    """One entry of the stack: a strategy, and the replica (or the copy that is being updated) that the thread works for."""

    __slots__ = ("strategy", "replica", "copy", "creator", "root")

    def __init__(self, strategy: Any, replica: Any = None, copy: int | None = None, creator: Any = None):
        self.strategy, self.replica, self.copy = strategy, replica, copy
        self.creator = creator                   # creator(next_creator, **kwargs) makes the variables
        self.root = _root()

    cross = property(lambda self: self.strategy if self.replica is None else None, doc="The strategy, across replicas.")

    @property
    def index(self) -> int | None:
        """Which copy of a distributed value is meant: the replica's own, or the one that is being updated."""
        return self.copy if self.replica is None else self.replica._local_index


def _root() -> Any:
    """The graph that is being built, outside of functions; None for eager execution."""
    stack = context.state.graphs
    graph = stack[-1] if stack else None if context.process.eager else context.default_graph()
    while graph is not None and graph.building_function:
        graph = graph.outer_graph
    return graph


class _Process:
    chosen: Any = None                 # the frame of experimental_set_strategy; it counts in every thread and graph


@functools.cache
def default_frame() -> Frame:
    """The frame of threads that are under no strategy: the default strategy's only replica."""
    from penstock._src.models.distribute.default import default_replica_context, default_strategy
    return Frame(default_strategy(), default_replica_context())


def frame() -> Frame:
    """The frame of this thread."""
    stack = context.state.strategies
    if stack:
        root = _root()
        for entry in reversed(stack):
            if entry.root is root:
                return entry
    return _Process.chosen or default_frame()


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
    """A function that makes a variable, with what the strategies and replicas of this thread put around it."""
    root = _root()
    for entry in context.state.strategies or (() if _Process.chosen is None else (_Process.chosen,)):
        if entry.creator is not None and (entry.root is root or entry is _Process.chosen):
            make = functools.partial(entry.creator, make)
    return make


# -- what programs ask ------------------------------------------------------------------------------------------------
@export("distribute.get_replica_context")
def get_replica_context() -> Any:
    """The replica that this thread works for; None across replicas.

    >>> tf.distribute.get_replica_context().all_reduce("sum", x)
    """
    return frame().replica


@export(v1=["distribute.get_cross_replica_context"])
def get_cross_replica_context() -> Any:
    """The strategy, where this thread works across its replicas; None inside of a replica."""
    return frame().cross


@export("distribute.in_cross_replica_context")
def in_cross_replica_context() -> bool:
    """Whether this thread works across replicas: in a scope, or in the function of a merge_call."""
    return frame().replica is None


@export("distribute.get_strategy")
def get_strategy() -> Any:
    """The strategy that this thread is under; the default one, if none was entered."""
    return frame().strategy


@export("distribute.has_strategy")
def has_strategy() -> bool:
    """Whether this thread is under a strategy that is not the default one."""
    return frame().strategy is not default_frame().strategy


def active_strategy() -> Any:
    """The strategy that this thread is under, or None; costs nothing where there is none."""
    if not context.state.strategies and not context.process.strategy:
        return None
    found = frame().strategy
    return None if found is default_frame().strategy else found


@export("distribute.experimental_set_strategy")
def experimental_set_strategy(strategy: Any) -> None:
    """Makes `strategy` the one of the whole program, as if everything stood in its scope; None undoes it.

    >>> tf.distribute.experimental_set_strategy(tf.distribute.MirroredStrategy())
    """
    if context.state.strategies and frame() is not _Process.chosen:
        raise RuntimeError("Must not be called inside a `tf.distribute.Strategy` scope.")
    _Process.chosen = None
    context.process.strategy = strategy is not None and strategy is not default_frame().strategy
    if context.process.strategy:
        _Process.chosen = Frame(strategy, creator=strategy.extended._creator)


# -- checks -----------------------------------------------------------------------------------------------------------
def wrong_strategy(strategy: Any, found: Frame) -> RuntimeError:
    """The error of code that is under another strategy than it should be."""
    if found.strategy is default_frame().strategy:
        return RuntimeError(f'Need to be inside "with strategy.scope()" for {strategy}')
    return RuntimeError(f"Mixing different tf.distribute.Strategy objects: {found.strategy} is not {strategy}")


def require_replica(replica: Any) -> None:
    """RuntimeError unless this thread works for `replica`."""
    found = frame()
    if found.replica is replica:
        return
    if found.replica is None:
        raise RuntimeError("Need to be inside `call_for_each_replica()`")
    if found.strategy is replica.strategy:
        raise RuntimeError("Mismatching ReplicaContext.")
    raise RuntimeError(f"Mismatching tf.distribute.Strategy objects: {found.strategy} is not {replica.strategy}.")


def require_cross(strategy: Any) -> None:
    """RuntimeError unless this thread works across the replicas of `strategy`, or is under no strategy."""
    found = frame()
    if found.replica is None and found.strategy is strategy or found is default_frame():
        return
    if found.strategy is not strategy:
        raise wrong_strategy(strategy, found)
    raise RuntimeError("Method requires being in cross-replica context, use get_replica_context().merge_call()")


def require_scope(strategy: Any) -> None:
    """RuntimeError unless this thread is under `strategy`."""
    found = frame()
    if found.strategy is not strategy:
        raise wrong_strategy(strategy, found)
