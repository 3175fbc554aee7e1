"""`tf.__internal__.tracking`: saving and restoring objects of other libraries."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.trackable import VARIABLE_VALUE_KEY, Trackable
from penstock._src.state.checkpoint.object_graph import ObjectGraphView
from penstock._src.state.checkpoint.saveable import saved_values
from penstock.compat import v1 as tf

export.value(ObjectGraphView, "__internal__.tracking.ObjectGraphView")


@export("__internal__.tracking.CheckpointInitialValueCallable")
class CheckpointInitialValueCallable:
    """An initial value that a checkpoint has for a variable that is made after the restore."""

    def __init__(self, checkpoint_position: Any):
        self._checkpoint_position = checkpoint_position

    @property
    def checkpoint_position(self) -> Any:
        """Where the value is in the checkpoint."""
        return self._checkpoint_position

    def __call__(self, shape: Any = None, dtype: Any = None, shard_info: Any = None) -> Any:
        return self._checkpoint_position.value_tensors()[VARIABLE_VALUE_KEY]

    restore_uid = property(lambda self: self._checkpoint_position.checkpoint.restore_uid, doc="The number of the restore.")


class CheckpointInitialValue:
    """An initial value that was read from a checkpoint, and where it was."""

    def __init__(self, checkpoint_position: Any, shape: Any = None, shard_info: Any = None):
        self.wrapped_value = tf.convert_to_tensor(checkpoint_position.value_tensors()[VARIABLE_VALUE_KEY])
        self._checkpoint_position = checkpoint_position

    checkpoint_position = property(lambda self: self._checkpoint_position, doc="Where the value is in the checkpoint.")


@export("__internal__.tracking.DelegatingTrackableMixin")
class DelegatingTrackableMixin:
    """A base of wrappers that are saved as the object that they wrap."""

    def __init__(self, trackable_obj: Any):
        self._trackable = trackable_obj

    def __getattribute__(self, name: str) -> Any:
        if name in _DELEGATED:
            return getattr(object.__getattribute__(self, "_trackable"), name)
        return object.__getattribute__(self, name)


_DELEGATED = frozenset(name for name in vars(Trackable) if name.startswith("_") and not name.startswith("__")
                       and name != "_setattr_tracking")


@export("__internal__.tracking.saveable_objects_from_trackable")
def saveable_objects_from_trackable(obj: Any, tf1_saver: bool = False) -> dict[str, Callable]:
    """By attribute name, the values that a checkpoint stores for an object, or functions of a name that make them."""
    return saved_values(obj)


@export("__internal__.tracking.streaming_restore")
def streaming_restore(status: Any, session: Any = None) -> None:
    """In graphs, restores the existing variables in `session`; does nothing in eager execution."""
    if tf.executing_eagerly():
        return
    status.initialize_or_restore(session)
