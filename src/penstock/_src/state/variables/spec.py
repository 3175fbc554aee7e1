"""VariableSpec: the type of a variable, by which composite tensors describe variables among their components."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.graph import context
from penstock._src.graph.type_spec import DenseSpec, TensorSpec
from penstock._src.state.variables.policy import validated
from penstock._src.state.variables.resource import BaseResourceVariable, ResourceVariable


class _OfHandle(BaseResourceVariable):
    """A variable that exists already, known by its handle."""

    def __init__(self, handle: Any, spec: VariableSpec):
        self._handle, self._dtype, self.static_dims = handle, spec.dtype, spec.shape.static_dims
        self._trainable, self._constraint, self._save_slice_info = spec.trainable, None, None
        self._synchronization, self._aggregation, _ = validated(None, None, spec.trainable, "Variable")
        self._in_graph_mode, self._unique_id = not context.executing_eagerly(), "Variable"

    name = property(lambda self: "Variable:0", doc="A handle has no name.")


class VariableSpec(DenseSpec):
    """Shape and dtype of a variable, and whether it is trainable. A variable is a leaf of nested structures, as is its spec.

    Args:
        shape: Static shape.
        dtype: Element type.
        trainable: Whether optimizers change the variable.
        alias_id: The same number for arguments that are one variable, or None.
    """

    __slots__ = ("trainable", "alias_id")
    _is_leaf_spec = True
    value_type = property(lambda self: ResourceVariable, doc="The class of variables.")
    _component_specs = property(lambda self: [TensorSpec([], dtypes.resource)])

    def __init__(self, shape: Any, dtype: Any = dtypes.float32, trainable: bool = True, alias_id: int | None = None):
        super().__init__(shape, dtype)
        self.trainable, self.alias_id = trainable, alias_id

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether a variable, or the type of one, is of this type."""
        return isinstance(spec_or_value, (type(self), self.value_type)) and self.dtype == spec_or_value.dtype and \
            self.trainable == spec_or_value.trainable and self.shape.is_compatible_with(spec_or_value.shape)

    @classmethod
    def from_value(cls, value: Any) -> VariableSpec:
        """The type of a variable."""
        return cls(value.shape, value.dtype, value.trainable)

    def _to_components(self, value: Any) -> list:
        return [value.handle]

    def _from_components(self, components: Any) -> Any:
        (handle,) = components
        if isinstance(handle, BaseResourceVariable):
            return handle
        return _OfHandle(handle, self)

    def _serialize(self) -> tuple:
        return self.shape, self.dtype, self.trainable, self.alias_id

    def __repr__(self) -> str:
        return f"VariableSpec(shape={self.shape}, dtype={self.dtype!r}, trainable={self.trainable!r}, " \
               f"alias_id={self.alias_id!r})"
