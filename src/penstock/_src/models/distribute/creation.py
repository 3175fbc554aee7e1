"""Creating distributed variables: a copy on each device, and one object for them."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.scopes import device, init_scope
from penstock._src.models.distribute.variables import (
    AggregatingVariable,
    DistributedVariable,
    MirroredVariable,
    SyncOnReadVariable,
)
from penstock._src.ops.core import identity
from penstock._src.state.variables.policy import VariableSynchronization, validated
from penstock._src.state.variables.reference import checked_collections


def kind_of(kwargs: dict[str, Any]) -> tuple[type, Any]:
    """The class of a mirrored strategy's variable, and its aggregation; what is left open is filled in in `kwargs`."""
    name = kwargs.get("name") or "Variable"
    synchronization, aggregation, trainable = validated(kwargs.get("synchronization"), kwargs.get("aggregation"),
                                                        kwargs.get("trainable"), name)
    if synchronization is VariableSynchronization.NONE:
        raise ValueError("`NONE` variable synchronization mode is not supported with tf.distribute strategy. Please change the "
                         f"`synchronization` for variable: {name}")
    on_read = synchronization is VariableSynchronization.ON_READ
    kwargs.update(aggregation=aggregation, trainable=trainable,
                  synchronization=synchronization if on_read else VariableSynchronization.ON_WRITE)
    return SyncOnReadVariable if on_read else MirroredVariable, aggregation


def create(strategy: Any, devices: Sequence[str], next_creator: Callable, kwargs: dict[str, Any], kind: type,
           aggregation: Any) -> Any:
    """A copy on each of `devices`, made by `next_creator`, as one variable of class `kind`."""
    collections = kwargs.pop("collections", None)
    kwargs.pop("use_resource", None)
    copies: list[Any] = []
    for i, d in enumerate(devices):
        copies.append(_copy(i, d, copies, next_creator, dict(kwargs)))
    made = kind(strategy, copies, aggregation)
    _collect(made, collections)
    return made


def create_aggregating(strategy: Any, next_creator: Callable, kwargs: dict[str, Any], where: str, aggregation: Any) -> Any:
    """One variable on a device, for all replicas."""
    return create(strategy, [where], next_creator, kwargs, AggregatingVariable, aggregation)


def _copy(i: int, where: str, before: list, next_creator: Callable, kwargs: dict[str, Any]) -> Any:
    if i > 0:
        kwargs["name"] = f"{before[0]._shared_name}/replica_{i}/"
        kwargs["initial_value"] = _as_first(before[0])
        kwargs["dtype"] = before[0].dtype
    with init_scope(), device(where):
        copy = next_creator(**{**kwargs, "use_resource": True, "collections": []})
        if copy._in_graph_mode:                      # collections have the variable, not its copies
            for key in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.TRAINABLE_VARIABLES):
                known = context.current_graph().get_collection_ref(key)
                known[:] = [v for v in known if v is not copy]
    return copy


def _as_first(first: Any) -> Callable:
    """The initial value of the other copies: that of the first one."""
    def value() -> Any:
        if context.executing_eagerly() or not first._in_graph_mode:
            return first.value()
        return identity(first.initial_value)
    return value


def _collect(variable: DistributedVariable, collections: Any) -> None:
    """Adds a variable to the collections of a plain one."""
    names = checked_collections(collections, variable.trainable)
    with init_scope():
        graph = context.current_graph()
        if variable._in_graph_mode:
            graph.add_to_collections(names, variable)
        elif GraphKeys.GLOBAL_STEP in names:
            graph.add_to_collection(GraphKeys.GLOBAL_STEP, variable)
