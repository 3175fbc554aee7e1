"""EagerOp: the view of an executed op that a gradient function receives."""
from __future__ import annotations

from typing import Any

from penstock._src.graph.node import _public_attr
from penstock._src.ops.registry import OpDef


class EagerOp:
    """An executed op for gradient functions: type, inputs, outputs, attributes."""

    __slots__ = ("opdef", "inputs", "outputs", "attrs", "counts", "_extra", "name", "device", "graph",
                 "_skip_input_indices")

    def __init__(self, opdef: OpDef, inputs: list, outputs: list, attrs: dict[str, Any], counts: tuple):
        self.opdef, self.inputs, self.outputs, self.attrs, self.counts = opdef, tuple(inputs), outputs, attrs, counts
        self._extra: dict[str, Any] = {}
        self.name, self.device, self.graph = opdef.name, "", None

    @property
    def type(self) -> str:
        return self.opdef.name

    control_inputs: tuple = ()
    node_def = None

    def get_attr(self, name: str) -> Any:
        if name not in self.attrs:
            raise ValueError(f"Operation '{self.name}' has no attr named '{name}'.")
        return _public_attr(self.opdef.attrs[name].kind, self.attrs[name], self)  # type: ignore[arg-type]

    def _get_control_flow_context(self) -> None:
        return None
