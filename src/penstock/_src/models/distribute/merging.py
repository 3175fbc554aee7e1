"""Merge calls, skipped if the strategy does not need them."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.strategies import active_strategy
from penstock._src.models.distribute import contexts


@export("__internal__.distribute.strategy_supports_no_merge_call")
def strategy_supports_no_merge_call() -> bool:
    """Whether replicas can update variables without meeting: under no strategy, or with a single replica."""
    strategy = active_strategy()
    return strategy is None or not getattr(strategy.extended, "_use_merge_call", lambda: True)()


@export("__internal__.distribute.interim.maybe_merge_call")
def maybe_merge_call(fn: Callable, strategy: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls `fn(strategy, ...)`, in a merge call if the replicas of the strategy must synchronize."""
    if strategy_supports_no_merge_call():
        return fn(strategy, *args, **kwargs)
    return contexts.get_replica_context().merge_call(fn, args=args, kwargs=kwargs)


@export("__internal__.distribute.variable_sync_on_read_context")
@contextlib.contextmanager
def variable_sync_on_read_context() -> Iterator[None]:
    """Reads of variables inside sum up over replicas. Only replicas that need no merge calls enter it, which have plain
    variables (`strategy_supports_no_merge_call`): there is nothing to sum up."""
    if not strategy_supports_no_merge_call():
        raise NotImplementedError("variable_sync_on_read_context is for strategies that need no merge calls")
    yield
