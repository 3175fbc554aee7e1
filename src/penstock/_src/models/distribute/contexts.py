"""The public access to the strategy and the replica of this thread (`graph/strategies.py` keeps them).

With no strategy, they find the default one, whose methods do nothing special.
"""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.strategies import Frame, choose, is_chosen, open_frame


class _Default:
    frame: Frame | None = None         # of threads that are under no strategy; default.py sets it when it is loaded


def install_default(frame: Frame) -> None:
    """Sets the frame of threads that are under no strategy: the default strategy's only replica."""
    _Default.frame = frame


def default_frame() -> Frame:
    """The frame of threads that are under no strategy."""
    assert _Default.frame is not None, "models/distribute/default.py is loaded with its package"
    return _Default.frame


def frame() -> Frame:
    """The frame of this thread."""
    return open_frame() or default_frame()


# -- what programs ask ------------------------------------------------------------------------------------------------
@export("distribute.get_replica_context")
def get_replica_context() -> Any:
    """The replica that this thread works for.

    Returns:
        A `ReplicaContext`; None across replicas.

    >>> tf.distribute.get_replica_context().num_replicas_in_sync
    1
    """
    return frame().replica


@export(v1=["distribute.get_cross_replica_context"])
def get_cross_replica_context() -> Any:
    """The strategy, where this thread works across its replicas; None inside of a replica."""
    return frame().cross


@export("distribute.in_cross_replica_context")
def in_cross_replica_context() -> bool:
    """Whether this thread works across replicas: in a scope, or in the function of a merge_call.

    Returns:
        A boolean.

    >>> with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
    ...     print(tf.distribute.in_cross_replica_context())
    True
    """
    return frame().replica is None


@export("distribute.get_strategy")
def get_strategy() -> Any:
    """The strategy that this thread is under.

    Returns:
        A `Strategy`; the default one, with one replica, if none was entered.

    >>> tf.distribute.get_strategy().num_replicas_in_sync
    1
    """
    return frame().strategy


@export("distribute.has_strategy")
def has_strategy() -> bool:
    """Whether this thread is under a strategy that is not the default one.

    Returns:
        A boolean.

    >>> with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
    ...     print(tf.distribute.has_strategy())
    True
    """
    return frame().strategy is not default_frame().strategy


@export("distribute.experimental_set_strategy")
def experimental_set_strategy(strategy: Any) -> None:
    """Makes `strategy` the one of the whole program, as if everything were in its scope; None undoes it.

    >>> tf.distribute.experimental_set_strategy(tf.distribute.MirroredStrategy())
    """
    if context.state.strategies and not is_chosen(frame()):
        raise RuntimeError("Must not be called inside a `tf.distribute.Strategy` scope.")
    choose(None)
    if strategy is not None and not strategy._is_default:
        choose(Frame(strategy, creator=strategy.extended._creator))


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
