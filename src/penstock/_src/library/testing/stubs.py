"""StubOutForTesting: replaces attributes for the time of a test."""
from __future__ import annotations

import inspect
from typing import Any

from penstock._src.base.api import export


@export(v1=["test.StubOutForTesting"])
class StubOutForTesting:
    """Replaces attributes temporarily.

    >>> stubs = tf.test.StubOutForTesting()
    >>> stubs.Set(time, "time", lambda: 0.0)
    >>> stubs.UnsetAll()
    """

    def __init__(self) -> None:
        self._set: list[tuple[Any, str, Any]] = []
        self._smart_set: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> StubOutForTesting:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.CleanUp()

    def __del__(self) -> None:
        self.CleanUp()

    def CleanUp(self) -> None:
        """Restores all replaced attributes."""
        self.SmartUnsetAll()
        self.UnsetAll()

    def SmartSet(self, obj: Any, attr_name: str, new_attr: Any) -> None:
        """Replaces an attribute where it is defined: in a module, in an object, or in the class that has it."""
        owner = obj
        if not inspect.ismodule(obj) and attr_name not in getattr(obj, "__dict__", {}):
            classes = inspect.getmro(obj if inspect.isclass(obj) else type(obj))
            owner = next((c for c in classes if attr_name in c.__dict__), None)
        if owner is None or attr_name not in owner.__dict__:
            raise AttributeError("Attribute not found.")
        self._smart_set.append((owner, attr_name, owner.__dict__[attr_name]))
        setattr(owner, attr_name, new_attr)

    def SmartUnsetAll(self) -> None:
        """Undoes SmartSet."""
        _restore(self._smart_set)

    def Set(self, parent: Any, child_name: str, new_child: Any) -> None:
        """Replaces an attribute of `parent`."""
        old = parent.__dict__.get(child_name) if inspect.isclass(parent) else None
        self._set.append((parent, child_name, old if isinstance(old, (staticmethod, classmethod))
                          else getattr(parent, child_name)))
        setattr(parent, child_name, new_child)

    def UnsetAll(self) -> None:
        """Undoes Set."""
        _restore(self._set)


def _restore(replaced: list[tuple[Any, str, Any]]) -> None:
    while replaced:
        setattr(*replaced.pop())
