"""CompositeTensor: the base of values that are made of tensors (sparse, ragged, slices, and classes of libraries).

A subclass has a `_type_spec`; with `expand_composites`, `nest` takes its values apart by it.
"""
from __future__ import annotations

import abc
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.graph.node import Tensor


@export("__internal__.CompositeTensor")
class CompositeTensor(metaclass=abc.ABCMeta):
    """A value made of tensors. Subclasses define `_type_spec`."""

    @property
    @abc.abstractmethod
    def _type_spec(self) -> Any:
        """The TypeSpec of the value."""
        raise NotImplementedError(f"{type(self).__name__}._type_spec()")

    def _shape_invariant_to_type_spec(self, shape: Any) -> Any:
        """The TypeSpec that a loop uses for a shape invariant of this value."""
        raise NotImplementedError(f"{type(self).__name__}._shape_invariant_to_type_spec")

    def _consumers(self) -> list:
        """The operations that use a component."""
        return [op for t in nest.flatten(self, expand_composites=True) if isinstance(t, Tensor) for op in t.consumers()]

    def __tf_tracing_type__(self, context: Any) -> Any:
        return self._type_spec

    def _convert_variables_to_tensors(self) -> CompositeTensor:
        """The value with variables among its components replaced by their values."""
        return self


def is_composite_tensor(value: Any) -> bool:
    """Whether a value is made of tensors."""
    return isinstance(value, CompositeTensor)


def replace_composites_with_components(structure: Any) -> Any:
    """The structure with each composite value replaced by its components."""
    if isinstance(structure, CompositeTensor):
        return replace_composites_with_components(structure._type_spec._to_components(structure))
    if not nest.is_nested(structure):
        return structure
    return nest.map_structure(replace_composites_with_components, structure, expand_composites=False)
