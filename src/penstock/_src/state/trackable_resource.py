"""tf.saved_model.experimental.TrackableResource: the base of objects that hold a resource which SavedModels make again."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.scopes import device, init_scope
from penstock._src.state.auto_trackable import AutoTrackable
from penstock._src.state.lookup_tables import resource_functions


@export("saved_model.experimental.TrackableResource")
class TrackableResource(AutoTrackable):
    """An object with a resource, such as a table, that SavedModels keep.

    A subclass defines `_create_resource`, which returns the handle, and perhaps `_initialize`, which fills it: both are saved
    as functions. The resource is made when `resource_handle` is first used.
    """

    _handle: Any = None

    def __init__(self, device: str = ""):
        self._resource_device = device

    @property
    def resource_handle(self) -> Any:
        """The handle of the resource."""
        if self._handle is None:
            with init_scope(), device(getattr(self, "_resource_device", "") or None):
                self.__dict__["_handle"] = self._create_resource()
        return self._handle

    def _create_resource(self) -> Any:
        raise NotImplementedError("TrackableResource._create_resource not implemented.")

    def _initialize(self) -> Any:
        """Fills the resource; nothing by default."""

    def _list_functions_for_serialization(self, serialization_cache: Any) -> dict[str, Any]:
        found = super()._list_functions_for_serialization(serialization_cache)
        return {**found, **resource_functions(self._create_resource, self._initialize)}
