"""Optionals: values that hold an element, or nothing."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.ops.data.dataset_base import OUTPUTS
from penstock._src.ops.data.iterator import iterator_of
from penstock._src.ops.registry import op


class OptionalValue:
    """An element, or None."""

    __slots__ = ("element",)

    def __init__(self, element: tuple | None):
        self.element = element

    def add(self, other: OptionalValue) -> OptionalValue:
        """The sums of the components; empty for two empty optionals."""
        if (self.element is None) != (other.element is None) or self.element is not None and \
                len(self.element) != len(other.element or ()):
            raise errors.invalid("Cannot add optionals because one has a value and the other doesn't, or other components.")
        return OptionalValue(None if self.element is None else tuple(
            a.add(b) for a, b in zip(self.element, other.element or (), strict=True)))

    def zeros_like(self) -> OptionalValue:
        """The same with zeros."""
        return OptionalValue(None if self.element is None else tuple(
            x.zeros_like() if isinstance(x, OptionalValue) else torch.zeros_like(x) if isinstance(x, torch.Tensor) else x
            for x in self.element))


def _optional(value: Any) -> OptionalValue:
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    if not isinstance(value, OptionalValue):
        raise errors.invalid("optional must be an optional, made by OptionalFromValue or OptionalNone.")
    return value


from_value = op("OptionalFromValue", "components: Toutput_types -> optional: variant", "Toutput_types: list(type) >= 1",
                foldable=False).no_gradient()
from_value.shape(lambda components: ())
from_value.kernel(lambda components: OptionalValue(tuple(components)), device="cpu")

none = op("OptionalNone", "-> optional: variant", foldable=False).no_gradient()
none.shape(lambda: ())
none.kernel(lambda: OptionalValue(None), device="cpu")

has_value = op("OptionalHasValue", "optional: variant -> has_value: bool", foldable=False).no_gradient()
has_value.shape(lambda optional: ())
has_value.kernel(lambda optional: torch.tensor(_optional(optional).element is not None), device="cpu")

get_value = op("OptionalGetValue", "optional: variant -> components: output_types", OUTPUTS, foldable=False).no_gradient()
get_value.shape(lambda optional, *, output_shapes: [s.static_dims for s in output_shapes])


@get_value.kernel(device="cpu")
def _get_value_kernel(optional, *, output_types, output_shapes):
    element = _optional(optional).element
    if element is None:
        raise errors.invalid("The given optional does not have a value.")
    if len(element) != len(output_types):
        raise errors.invalid(f"The given optional has {len(element)} components, expected {len(output_types)}.")
    return list(element)


next_as_optional = op("IteratorGetNextAsOptional", "iterator: resource -> optional: variant", OUTPUTS,
                      stateful=True).no_gradient()
next_as_optional.shape(lambda iterator: ())


@next_as_optional.kernel(device="cpu")
def _next_as_optional_kernel(iterator, *, ctx):
    return OptionalValue(iterator_of(iterator).next_or_none(ctx))
