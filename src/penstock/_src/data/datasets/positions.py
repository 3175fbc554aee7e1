"""Positions of iterators in checkpoints."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.data.datasets.options import ExternalStatePolicy
from penstock._src.graph.scopes import control_dependencies
from penstock._src.ops.registry import get
from penstock._src.state.checkpoint.saveable import SaveableObject, SaveSpec


def saveable(resource: Any, name: str, initializer: Any = None,
             policy: ExternalStatePolicy = ExternalStatePolicy.IGNORE) -> Any:
    """The SaveableObject of an iterator. `initializer` runs before a restore, so that there is a dataset to continue in."""

    class IteratorSaveable(SaveableObject):
        """The position of an iterator."""

        def __init__(self) -> None:
            value = get("IteratorPosition")(resource, external_state_policy=policy.value)
            super().__init__(resource, [SaveSpec(value, "", f"{name}-state", dtype=dtypes.string, device="")], name)

        def restore(self, restored_tensors: list, restored_shapes: Any) -> Any:
            """Goes to the position that was saved."""
            with control_dependencies([] if initializer is None else [initializer]):
                return get("SetIteratorPosition")(resource, restored_tensors[0])
    return IteratorSaveable()
