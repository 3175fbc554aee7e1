"""tf.data.experimental.Optional: a value that may be missing."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.data.datasets import structure
from penstock._src.data.datasets.functions import call_op
from penstock._src.graph.type_spec import TensorSpec, TypeSpec
from penstock._src.ops.registry import get


@export("data.experimental.Optional", v2=["experimental.Optional"], v1=["experimental.Optional"])
class Optional:
    """A value, or none.

    >>> tf.experimental.Optional.from_value(42).get_value()
    """

    def __init__(self, variant_tensor: Any, element_spec: Any):
        self._variant_tensor, self._element_spec = variant_tensor, element_spec

    element_spec = property(lambda self: self._element_spec, doc="The type of the value.")
    value_structure = element_spec

    def has_value(self, name: str | None = None) -> Any:
        """Whether there is a value."""
        return get("OptionalHasValue")(self._variant_tensor, name=name)

    def get_value(self, name: str | None = None) -> Any:
        """The value; InvalidArgumentError if there is none."""
        out = get("OptionalGetValue")(self._variant_tensor, name=name, **structure.outputs(self._element_spec))
        return structure.from_tensors(self._element_spec, out)

    @staticmethod
    def from_value(value: Any) -> Optional:
        """An optional that holds a value."""
        value = structure.normalize(value)
        spec = structure.spec_of(value)
        return Optional(call_op("OptionalFromValue", structure.to_tensors(spec, value)), spec)

    @staticmethod
    def none_from_structure(value_structure: Any) -> Optional:
        """An optional without a value, of a given type."""
        return Optional(get("OptionalNone")(), value_structure)

    @staticmethod
    def empty(element_spec: Any) -> Optional:
        """An optional without a value, of a given type."""
        return Optional.none_from_structure(element_spec)

    @property
    def _type_spec(self) -> OptionalSpec:
        return OptionalSpec(self._element_spec)

    def __repr__(self) -> str:
        return f"<Optional element_spec={self._element_spec}>"


@export("OptionalSpec", "data.experimental.OptionalStructure")
class OptionalSpec(TypeSpec):
    """The type of an optional: that of its value."""

    __slots__ = ("_element_spec",)

    def __init__(self, element_spec: Any):
        self._element_spec = element_spec

    value_type = property(lambda self: Optional, doc="The class of the values.")
    element_spec = property(lambda self: self._element_spec, doc="The type of the value.")

    @staticmethod
    def from_value(value: Any) -> OptionalSpec:
        """The type of an optional."""
        return OptionalSpec(value.element_spec)

    def _serialize(self) -> tuple:
        return (self._element_spec,)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether the values fit."""
        other = spec_or_value._type_spec if isinstance(spec_or_value, Optional) else spec_or_value
        return isinstance(other, OptionalSpec) and structure.compatible(self._element_spec, other._element_spec)

    @property
    def _component_specs(self) -> Any:
        return TensorSpec([], dtypes.variant)

    @property
    def _flat_tensor_specs(self) -> list:
        return [self._component_specs]

    def _to_components(self, value: Any) -> Any:
        return value._variant_tensor

    def _to_tensor_list(self, value: Any) -> list:
        return [value._variant_tensor]

    def _from_components(self, components: Any) -> Any:
        return Optional(components, self._element_spec)

    def _from_compatible_tensor_list(self, tensor_list: list) -> Any:
        return Optional(tensor_list[0], self._element_spec)

    def _to_legacy_output_types(self) -> Any:
        return self

    def _to_legacy_output_shapes(self) -> Any:
        return self

    def _to_legacy_output_classes(self) -> Any:
        return self


def from_next(iterator: Any, name: str | None = None) -> Optional:
    """The next element of an iterator as an optional."""
    spec = iterator.element_spec
    return Optional(get("IteratorGetNextAsOptional")(iterator._iterator_resource, name=name, **structure.outputs(spec)), spec)


@export("data.experimental.get_next_as_optional")
def get_next_as_optional(iterator: Any) -> Optional:
    """The next element of an iterator as an optional, which is empty at the end."""
    return from_next(iterator)
