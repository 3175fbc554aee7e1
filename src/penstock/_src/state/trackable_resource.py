"""tf.saved_model.experimental.TrackableResource: the base of objects with a resource that SavedModels recreate."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.eager.function import function
from penstock._src.graph.convert import convert
from penstock._src.graph.scopes import device, init_scope
from penstock._src.graph.trackable import Trackable


@export("saved_model.experimental.TrackableResource")
class TrackableResource(Trackable):
    """An object with a resource, such as a table, that SavedModels keep.

    A subclass defines `_create_resource`, which returns the handle, and optionally `_initialize`, which fills it: both are
    saved as functions. The resource is created when `resource_handle` is first used.
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
        raise NotImplementedError(f"{type(self).__name__} must define _create_resource()")

    def _initialize(self) -> Any:
        """Fills the resource; nothing by default."""

    def _list_functions_for_serialization(self, serialization_cache: Any) -> dict[str, Any]:
        """A SavedModel has functions without arguments that create and fill the resource, which loaders call."""
        def fill() -> Any:
            self._initialize()
            return convert(1)
        return {name: function(body, input_signature=[], autograph=False) for name, body in (
            ("_create_resource", self._create_resource), ("_initialize", fill), ("_destroy_resource", lambda: convert(1)))}
