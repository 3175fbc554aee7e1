"""Types of libraries that a SavedModel refers to by an identifier, and recreates on loading.

A library registers an identifier with a predicate (which objects are saved under it) and versions, each with a factory.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tensorboard.compat.proto.saved_object_graph_pb2 import SavedUserObject

from penstock._src.base.api import export


@export("__internal__.saved_model.load.VersionedTypeRegistration")
class VersionedTypeRegistration:
    """How to create objects of one version of a type."""

    def __init__(self, object_factory: Callable, version: int, min_producer_version: int, min_consumer_version: int,
                 bad_consumers: Iterable[int] = (), setter: Callable = setattr):
        self.setter, self._object_factory = setter, object_factory
        self.version, self._min_producer, self._min_consumer = version, min_producer_version, min_consumer_version
        self._bad_consumers = list(bad_consumers or ())

    def should_load(self, saved: Any) -> bool:
        """Whether this version can read what was saved."""
        version = saved.version
        return version.producer >= self._min_producer and self.version >= version.min_consumer and \
            self.version not in version.bad_consumers

    def write(self, identifier: str) -> Any:
        """The message for an object."""
        made = SavedUserObject(identifier=identifier)
        made.version.producer, made.version.min_consumer = self.version, self._min_consumer
        made.version.bad_consumers.extend(self._bad_consumers)
        return made

    def make(self, saved: Any) -> Any:
        """An object from its message."""
        return self._object_factory(saved)


_TYPES: dict[str, tuple[Callable, list[VersionedTypeRegistration]]] = {}      # by identifier: predicate, newest version first


@export("__internal__.saved_model.load.register_revived_type")
def register_revived_type(identifier: str, predicate: Callable, versions: Iterable[VersionedTypeRegistration]) -> None:
    """Registers an identifier for objects that `predicate` accepts; they are recreated by the newest compatible version."""
    newest = sorted(versions, key=lambda v: v.version, reverse=True)
    if not newest:
        raise AssertionError("Need at least one version of a revived type.")
    if len({v.version for v in newest}) != len(newest):
        raise AssertionError(f"Got multiple registrations with version {newest[0].version} for type {identifier}.")
    if identifier in _TYPES:
        raise AssertionError(f"Duplicate registrations for type '{identifier}'")
    _TYPES[identifier] = predicate, newest


def serialize(obj: Any) -> Any:
    """The message for an object of a registered type, else None."""
    for identifier, (predicate, versions) in _TYPES.items():
        if predicate(obj):
            return versions[0].write(identifier)
    return None


def _registration(saved: Any) -> VersionedTypeRegistration | None:
    _, versions = _TYPES.get(saved.identifier, (None, []))
    return next((v for v in versions if v.should_load(saved)), None)


def deserialize(saved: Any) -> tuple[Any, Callable] | None:
    """The object of a message and how its children are set, or None where no registered version fits."""
    found = _registration(saved)
    return None if found is None else (found.make(saved), found.setter)


@export("__internal__.saved_model.load.registered_identifiers")
def registered_identifiers() -> Any:
    """The identifiers of all registered types."""
    return _TYPES.keys()


@export("__internal__.saved_model.load.get_setter")
def get_setter(proto: Any) -> Callable | None:
    """How children of an object are set, or None where no registered version fits its message."""
    found = _registration(proto)
    return None if found is None else found.setter
