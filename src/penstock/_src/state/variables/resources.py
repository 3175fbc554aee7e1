"""Resources of a graph besides variables and tables: how each is created, and whether it was. Initializers find them here."""
from __future__ import annotations

from typing import Any, NamedTuple

from penstock._src.base import dtypes
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.convert import constant
from penstock._src.graph.scopes import device, name_scope
from penstock._src.ops.core import group
from penstock._src.ops.registry import get


class Resource(NamedTuple):
    """A handle, the op that creates its resource, and a tensor that tells whether it was created."""
    handle: Any
    create: Any
    is_initialized: Any


def register_resource(handle: Any, create_op: Any, is_initialized_op: Any, is_shared: bool = True) -> None:
    """Adds a resource to the graph's collection of shared or local ones."""
    key = GraphKeys.RESOURCES if is_shared else GraphKeys.LOCAL_RESOURCES
    context.current_graph().add_to_collection(key, Resource(handle, create_op, is_initialized_op))


def shared_resources() -> list:
    """Those that sessions share."""
    return context.current_graph().get_collection(GraphKeys.RESOURCES)


def local_resources() -> list:
    """Those of each worker."""
    return context.current_graph().get_collection(GraphKeys.LOCAL_RESOURCES)


def initialize_resources(resource_list: list, name: str = "init") -> Any:
    """An op that creates them."""
    return group(*[r.create for r in resource_list], name=name)


def report_uninitialized_resources(resource_list: list | None = None, name: str = "report_uninitialized_resources") -> Any:
    """The names of those that do not exist, as a string vector."""
    found = shared_resources() + local_resources() if resource_list is None else resource_list
    with name_scope(name), device("/cpu:0"):
        if not found:
            return constant([], dtypes.string)
        known = get("Pack")([r.is_initialized for r in found])
        missing = get("Reshape")(get("Where")(get("LogicalNot")(known)), [-1])
        return get("GatherV2")(constant([r.handle.name for r in found]), missing, 0)
