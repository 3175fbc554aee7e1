"""The type of None as an element of datasets: a value without tensors."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.type_spec import BatchableTypeSpec, register_type_spec_from_value_converter


@export(v2=["NoneTensorSpec"])
class NoneTensorSpec(BatchableTypeSpec):
    """The type of None. Batches of None are None."""

    __slots__ = ()
    shape = property(lambda self: TensorShape([]), doc="That of a scalar.")
    value_type = property(lambda self: type(None), doc="The class of None.")
    _component_specs = property(lambda self: [])
    _flat_tensor_specs = property(lambda self: [])

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether it is None or this type."""
        return spec_or_value is None or type(spec_or_value) is type(self)

    def most_specific_compatible_type(self, other: Any) -> NoneTensorSpec:
        """This type, the only one that it fits."""
        if type(self) is not type(other):
            raise ValueError(f"No TypeSpec is compatible with both {self} and {other}")
        return self

    def _serialize(self) -> tuple:
        return ()

    def _to_components(self, value: Any) -> list:
        return []

    def _from_components(self, components: Any) -> None:
        return None

    def _to_tensor_list(self, value: Any) -> list:
        return []

    def _to_batched_tensor_list(self, value: Any) -> list:
        return []

    def _from_compatible_tensor_list(self, tensor_list: list) -> None:
        return None

    def _batch(self, batch_size: Any) -> NoneTensorSpec:
        return self

    def _unbatch(self) -> NoneTensorSpec:
        return self

    def _to_legacy_output_types(self) -> Any:
        return self

    _to_legacy_output_shapes = _to_legacy_output_classes = _to_legacy_output_types


register_type_spec_from_value_converter(type(None), lambda value: NoneTensorSpec())
