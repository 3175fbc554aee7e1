"""AutoTrackable: an object whose attributes become dependencies in checkpoints and SavedModels."""
from __future__ import annotations

import contextlib
from typing import Any

from penstock._src.base.api import export
from penstock._src.eager.function import ConcreteFunction, Function
from penstock._src.graph.trackable import Trackable, delete_tracking
from penstock._src.state.containers import NoDependency, sticky_attribute_assignment


@export("__internal__.tracking.AutoTrackable")
class AutoTrackable(Trackable):
    """A Trackable whose attributes become dependencies when they are set; lists, dictionaries and tuples too."""

    def __setattr__(self, name: str, value: Any) -> None:
        if getattr(self, name, None) is value and value is not None:      # nothing new: v.assign_add returns v
            super().__setattr__(name, value)
            return
        if getattr(self, "_self_setattr_tracking", True) and not name.startswith("_self_"):
            value = sticky_attribute_assignment(self, name, value)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        self._delete_tracking(name)
        super().__delattr__(name)

    def _delete_tracking(self, name: str) -> None:
        """Ends the dependency of this name, if there is one."""
        self._maybe_initialize_trackable()
        delete_tracking(self, name)

    def _no_dependency(self, value: Any) -> Any:
        return NoDependency(value)

    def _list_functions_for_serialization(self, serialization_cache: Any) -> dict[str, Any]:
        found = {}
        for name in dir(self):
            with contextlib.suppress(Exception):
                value = getattr(self, name)
                if isinstance(value, (Function, ConcreteFunction)):
                    found[name] = value
        return found
