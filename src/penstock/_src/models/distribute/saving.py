"""How the copies of a variable are saved: as one, under the variable's name, so that any strategy can restore it."""
from __future__ import annotations

from typing import Any

from penstock._src.graph.scopes import device
from penstock._src.graph.strategies import Frame, entered
from penstock._src.models.distribute.values import device_of
from penstock._src.ops.core import identity
from penstock._src.ops.registry import get
from penstock._src.state.checkpoint.saveable import SaveableObject, SaveSpec


class CopiesSaveable(SaveableObject):
    """A distributed variable: saved is its value across replicas; restored are all copies."""

    def __init__(self, variable: Any, name: str):
        self._variable = variable
        where = device_of(variable._values[0])
        super().__init__(variable, [SaveSpec(self._read, "", name, dtype=variable.dtype, device=where)], name)

    def _read(self) -> Any:
        with entered(Frame(self._variable._distribute_strategy)):
            value = self._variable._saved_value()
        with device("/device:CPU:0"):
            return identity(value)

    def restore(self, restored_tensors: list, restored_shapes: Any) -> Any:
        """Assigns the restored tensor to all copies; ValueError if its static shape is incompatible."""
        value = restored_tensors[0]
        if restored_shapes is not None:
            shape = restored_shapes[0]
            value = get("Reshape")(value, shape.as_list() if hasattr(shape, "as_list") else shape)
        if not self._variable.shape.is_compatible_with(value.shape):
            raise ValueError(f"Shapes {self._variable.shape} and {value.shape} are incompatible: {self.name} cannot be "
                             "restored")
        return self._variable._restored(value)
