"""The type of datasets, as elements of others and as arguments of functions."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.data.datasets import structure
from penstock._src.graph.type_spec import BatchableTypeSpec, TensorSpec


class Classes:
    """The classes of datasets, set by their modules, which import this one."""

    public: Any = None          # the class of all datasets
    made: Any = None            # the class of datasets that functions get as arguments


@export("data.DatasetSpec", v1=["data.experimental.DatasetStructure"], v2=["data.experimental.DatasetStructure"])
class DatasetSpec(BatchableTypeSpec):
    """The type of a dataset: that of its elements.

    >>> tf.data.DatasetSpec(tf.TensorSpec([], tf.int64))
    """

    __slots__ = ("_element_spec", "_dataset_shape")

    def __init__(self, element_spec: Any, dataset_shape: Any = ()):
        self._element_spec, self._dataset_shape = element_spec, TensorShape(dataset_shape)

    value_type = property(lambda self: Classes.public, doc="The class of the values.")
    element_spec = property(lambda self: self._element_spec, doc="The type of the elements.")

    def _serialize(self) -> tuple:
        return self._element_spec, self._dataset_shape

    @property
    def _component_specs(self) -> Any:
        return TensorSpec(self._dataset_shape, dtypes.variant)

    @property
    def _flat_tensor_specs(self) -> list:
        return [self._component_specs]

    def _to_components(self, value: Any) -> Any:
        return value._variant_tensor

    def _to_tensor_list(self, value: Any) -> list:
        return [value._variant_tensor]

    def _to_batched_tensor_list(self, value: Any) -> list:
        return [value._variant_tensor]

    def _from_components(self, components: Any) -> Any:
        if self._dataset_shape.ndims == 0:
            return Classes.made(components, self._element_spec)
        return NestedVariant(components, self._element_spec, self._dataset_shape)

    def _from_compatible_tensor_list(self, tensor_list: list) -> Any:
        return self._from_components(tensor_list[0])

    @classmethod
    def from_value(cls, value: Any) -> DatasetSpec:
        """The type of a dataset."""
        return cls(value.element_spec)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether the elements fit."""
        other = getattr(spec_or_value, "_type_spec", spec_or_value)
        return isinstance(other, DatasetSpec) and structure.compatible(self._element_spec, other._element_spec) and \
            self._dataset_shape.is_compatible_with(other._dataset_shape)

    def most_specific_compatible_type(self, other: Any) -> Any:
        """The narrowest type that covers both."""
        if not self.is_compatible_with(other):
            raise ValueError(f"No TypeSpec is compatible with both {self} and {other}")
        return DatasetSpec(structure.map_structure(lambda a, b: a.most_specific_compatible_type(b), self._element_spec,
                                                   other._element_spec), self._dataset_shape)

    def _batch(self, batch_size: Any) -> DatasetSpec:
        return DatasetSpec(self._element_spec, TensorShape([batch_size]).concatenate(self._dataset_shape))

    def _unbatch(self) -> DatasetSpec:
        if self._dataset_shape.ndims == 0:
            raise ValueError("Slicing dataset elements is not supported for rank 0.")
        return DatasetSpec(self._element_spec, self._dataset_shape[1:])

    def _to_legacy_output_types(self) -> Any:
        return self

    def _to_legacy_output_shapes(self) -> Any:
        return self

    def _to_legacy_output_classes(self) -> Any:
        return self


class NestedVariant:
    """Several datasets in one tensor, which can only be sliced into datasets."""

    def __init__(self, variant_tensor: Any, element_spec: Any, dataset_shape: Any):
        self._variant_tensor, self._element_spec, self._shape = variant_tensor, element_spec, dataset_shape

    @property
    def _type_spec(self) -> DatasetSpec:
        return DatasetSpec(self._element_spec, self._shape)
