"""Objects with named dependencies, so that their state can be saved and restored by its path in the graph of objects.

A Trackable has dependencies: named references to other Trackables. A checkpoint of objects stores that graph and the values
at its nodes (`state/checkpoint/object_graph.py`), and a restore walks it again (`state/checkpoint/restore.py`). Objects may
be made after the restore: values of a checkpoint for names that do not exist yet are kept in `_deferred_dependencies`.
"""
from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.scopes import init_scope

VARIABLE_VALUE_KEY = "VARIABLE_VALUE"
OBJECT_GRAPH_PROTO_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"


@export("__internal__.tracking.TrackableReference")
class TrackableReference:
    """A named dependency. It is not a tuple, because libraries search tuples for objects."""

    __slots__ = ("name", "ref")

    def __init__(self, name: str, ref: Any):
        self.name, self.ref = name, ref

    def __iter__(self) -> Iterator[Any]:
        yield self.name
        yield self.ref

    def __repr__(self) -> str:
        return f"TrackableReference(name={self.name}, ref={self.ref})"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, (TrackableReference, tuple)) and (self.name, self.ref) == tuple(other)

    __hash__ = None      # type: ignore[assignment]


@export("__internal__.tracking.no_automatic_dependency_tracking")
def no_automatic_dependency_tracking(method: Callable) -> Callable:
    """A method in which attributes that are set do not become dependencies."""
    @functools.wraps(method)
    def untracked(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = getattr(self, "_self_setattr_tracking", True)
        self._self_setattr_tracking = False
        try:
            return method(self, *args, **kwargs)
        finally:
            self._self_setattr_tracking = before
    return untracked


@contextlib.contextmanager
def no_automatic_dependency_tracking_scope(obj: Any) -> Iterator[None]:
    """Attributes of `obj` that are set inside do not become dependencies."""
    before = getattr(obj, "_self_setattr_tracking", True)
    obj._self_setattr_tracking = False
    try:
        yield
    finally:
        obj._self_setattr_tracking = before


@export("__internal__.tracking.Trackable")
class Trackable:
    """Base class of objects that are saved by their path in a graph of objects. Subclasses need not call `__init__`."""

    @property
    def _setattr_tracking(self) -> bool:
        return getattr(self, "_self_setattr_tracking", True)

    @_setattr_tracking.setter
    def _setattr_tracking(self, value: bool) -> None:
        self._self_setattr_tracking = value

    @property
    def _update_uid(self) -> int:
        """The number of the restore that set this object's value."""
        return self._self_update_uid

    @_update_uid.setter
    def _update_uid(self, value: int) -> None:
        self._self_update_uid = value

    _unconditional_checkpoint_dependencies = property(lambda self: self._self_unconditional_checkpoint_dependencies)
    _unconditional_dependency_names = property(lambda self: self._self_unconditional_dependency_names)
    _name_based_restores = property(lambda self: self._self_name_based_restores)

    @no_automatic_dependency_tracking
    def _maybe_initialize_trackable(self) -> None:
        if hasattr(self, "_self_unconditional_checkpoint_dependencies"):
            return
        self._self_unconditional_checkpoint_dependencies: list[TrackableReference] = []
        self._self_unconditional_dependency_names: dict[str, Any] = {}
        self._self_unconditional_deferred_dependencies: dict[str, list] = {}
        self._self_update_uid = -1
        self._self_name_based_restores: set = set()

    # the kind of object that a SavedModel recreates
    _object_identifier = property(lambda self: "_generic_user_object")
    _tracking_metadata = property(lambda self: "")

    def _no_dependency(self, value: Any) -> Any:
        return value

    @property
    def _checkpoint_dependencies(self) -> list[TrackableReference]:
        """The dependencies, in the order in which they were added."""
        self._maybe_initialize_trackable()
        return self._self_unconditional_checkpoint_dependencies

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        """The dependencies by name, which libraries override; with `save_type="savedmodel"`, functions too."""
        found = {d.name: d.ref for d in self._checkpoint_dependencies}
        return found if save_type == "checkpoint" else {**found, **self._list_functions_for_serialization(kwargs.get("cache"))}

    @property
    def _deferred_dependencies(self) -> dict[str, list]:
        """Pending restores of names that do not exist yet."""
        self._maybe_initialize_trackable()
        return self._self_unconditional_deferred_dependencies

    def _lookup_dependency(self, name: str, cached_dependencies: dict | None = None) -> Any:
        self._maybe_initialize_trackable()
        return (self._self_unconditional_dependency_names if cached_dependencies is None else cached_dependencies).get(name)

    # -- tracking ----------------------------------------------------------------------------------------------------
    def _track_trackable(self, trackable: Any, name: str, overwrite: bool = False) -> Any:
        """Adds a dependency; returns `trackable`."""
        self._maybe_initialize_trackable()
        if not isinstance(trackable, Trackable):
            raise TypeError(f"Trackable._track_trackable() passed type {type(trackable)}, not a Trackable.")
        current = self._lookup_dependency(name)
        if current is None:
            self._self_unconditional_checkpoint_dependencies.append(TrackableReference(name, trackable))
            self._handle_deferred_dependencies(name, trackable)
        elif current is not trackable:
            if not overwrite:
                raise ValueError(f"Called Trackable._track_trackable() with name='{name}', but a Trackable with this name is "
                                 "already declared as a dependency. Names must be unique (or overwrite=True).")
            self._self_unconditional_checkpoint_dependencies[:] = [TrackableReference(name, trackable) if d.name == name else d
                                          for d in self._self_unconditional_checkpoint_dependencies]
        self._self_unconditional_dependency_names[name] = trackable
        return trackable

    def _handle_deferred_dependencies(self, name: str, trackable: Any) -> None:
        """Restores a new dependency from deferred restores, the newest first."""
        self._maybe_initialize_trackable()
        trackable._maybe_initialize_trackable()
        waiting = self._deferred_dependencies.pop(name, ())
        for position in sorted(waiting, key=lambda p: p.checkpoint.restore_uid, reverse=True):
            position.restore(trackable)
        for restore in sorted(self._self_name_based_restores, key=lambda r: r.restore_uid, reverse=True):
            trackable._name_based_attribute_restore(restore)

    def _add_variable_with_custom_getter(self, name: str | None, shape: Any = None, dtype: Any = dtypes.float32,
                                         initializer: Any = None, getter: Any = None, overwrite: bool = False,
                                         **kwargs_for_getter: Any) -> Any:
        """A variable made by `getter` and tracked; initialized from a pending restore if there is one.

        Without a name it is tracked only where it becomes an attribute.
        """
        self._maybe_initialize_trackable()
        with init_scope():
            preloaded = None if name is None or not context.executing_eagerly() else \
                self._preload_simple_restoration(name, shape)
            if preloaded is not None:
                initializer, shape = preloaded, None
        made = getter(name=name, shape=shape, dtype=dtype, initializer=initializer, **kwargs_for_getter)
        if name is not None and (not overwrite or isinstance(made, Trackable)):
            return self._track_trackable(made, name=name, overwrite=overwrite)
        return made

    def _preload_simple_restoration(self, name: str, shape: Any = None) -> Any:
        """The value of the newest pending restore for a variable of that name; None if it is not a plain variable."""
        waiting = self._deferred_dependencies.get(name, ())
        if not waiting or not all(p.is_simple_variable() for p in waiting):
            return None
        return max(waiting, key=lambda p: p.checkpoint.restore_uid).value_tensors()[VARIABLE_VALUE_KEY]

    # -- restoring ---------------------------------------------------------------------------------------------------
    def _name_based_attribute_restore(self, checkpoint: Any) -> None:
        """Restores this object's own values, by name, from a checkpoint without objects."""
        self._maybe_initialize_trackable()
        self._self_name_based_restores.add(checkpoint)
        if self._self_update_uid < checkpoint.restore_uid:
            checkpoint.eager_restore(self)
            self._self_update_uid = checkpoint.restore_uid

    def _restore_from_checkpoint_position(self, checkpoint_position: Any) -> list:
        """Restores this object and its dependencies, breadth first; returns the restore ops (none in eager mode)."""
        queue = deque([checkpoint_position])
        restore_ops: list = []
        tensors: dict[str, Any] = {}
        python: list = []
        while queue:
            position = queue.popleft()
            ops, more_tensors, more_python = position.trackable._single_restoration_from_checkpoint_position(position, queue)
            restore_ops.extend(ops)
            tensors.update(more_tensors)
            python.extend(more_python)
        restore_ops.extend(checkpoint_position.checkpoint.restore_saveables(tensors, python))
        return restore_ops

    def _single_restoration_from_checkpoint_position(self, checkpoint_position: Any, visit_queue: deque) -> tuple:
        self._maybe_initialize_trackable()
        checkpoint = checkpoint_position.checkpoint
        found: tuple = (), {}, ()
        if checkpoint.restore_uid > self._self_update_uid:
            found = checkpoint_position.gather_ops_or_named_saveables()
            self._self_update_uid = checkpoint.restore_uid
        for child in checkpoint_position.object_proto.children:
            position = checkpoint_position.at(child.node_id)
            local = self._lookup_dependency(child.local_name)
            if local is None:
                self._deferred_dependencies.setdefault(child.local_name, []).append(position)
            elif position.bind_object(local):
                visit_queue.append(position)
        return found

    # -- what subclasses override ------------------------------------------------------------------------
    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        """Own values: by attribute, a SaveableObject, a variable, or a function of a name that makes one."""
        return {}

    def _serialize_to_tensors(self) -> dict[str, Any]:
        """Own values as tensors by name; a class that defines it, and `_restore_from_tensors`, is saved by them."""
        raise NotImplementedError

    def _restore_from_tensors(self, restored_tensors: dict[str, Any]) -> Any:
        """Restores the values that `_serialize_to_tensors` returned; in graphs returns the restore op."""
        raise NotImplementedError

    def _list_extra_dependencies_for_serialization(self, serialization_cache: Any) -> dict[str, Any]:
        """Dependencies that are saved in a SavedModel but not in a checkpoint."""
        return {}

    def _list_functions_for_serialization(self, serialization_cache: Any) -> dict[str, Any]:
        """The functions that a SavedModel keeps with the object."""
        return {}


def delete_tracking(obj: Any, name: str) -> None:
    """Removes a dependency."""
    if name in obj._self_unconditional_dependency_names:
        del obj._self_unconditional_dependency_names[name]
        dependencies = obj._self_unconditional_checkpoint_dependencies
        dependencies[:] = [d for d in dependencies if d.name != name]


class NotTrackable:
    """Marks a class whose objects cannot be saved."""
