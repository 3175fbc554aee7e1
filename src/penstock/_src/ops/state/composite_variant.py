"""Composite tensors as variants: their components, and the description of their type."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base import errors
from penstock._src.ops.registry import op


class CompositeVariant:
    """The components of a composite tensor, with the serialized description of its type."""

    __slots__ = ("metadata", "components", "types")

    def __init__(self, metadata: Any, components: list, types: list):
        self.metadata, self.components, self.types = metadata, components, types


from_components = op("CompositeTensorVariantFromComponents", "components: Tcomponents -> encoded: variant",
                     "metadata: string, Tcomponents: list(type) >= 0", foldable=False)
to_components = op("CompositeTensorVariantToComponents", "encoded: variant -> components: Tcomponents",
                   "metadata: string, Tcomponents: list(type) >= 0", foldable=False)
from_components.shape(lambda components: ())
to_components.shape(lambda encoded, *, Tcomponents: [None] * len(Tcomponents))


@from_components.kernel
def _from_components_kernel(components, *, metadata, Tcomponents):
    return CompositeVariant(metadata, list(components), list(Tcomponents))


@to_components.kernel
def _to_components_kernel(encoded, *, Tcomponents):
    if isinstance(encoded, np.ndarray):
        if not encoded.size:
            raise errors.invalid("Input `encoded` must not be an empty variant tensor")
        encoded = encoded.reshape(-1)[0]
    if not isinstance(encoded, CompositeVariant):
        raise errors.invalid("The input `encoded` is not a valid CompositeTensorVariant tensor")
    if len(encoded.components) != len(Tcomponents):
        raise errors.invalid(f"Encoded value has {len(encoded.components)} tensor components; expected {len(Tcomponents)} "
                             "components based on type_spec")
    for i, (have, want) in enumerate(zip(encoded.types, Tcomponents, strict=True)):
        if have != want:
            raise errors.invalid(f"Tensor component {i} had dtype DT_{have.name.upper()}; expected dtype "
                                 f"DT_{want.name.upper()}")
    return encoded.components


@from_components.gradient
def _from_components_gradient(op, grad):
    return to_components(grad, metadata=op.attrs["metadata"], Tcomponents=op.attrs["Tcomponents"])


@to_components.gradient
def _to_components_gradient(op, *grads):
    return from_components(list(grads), metadata=op.attrs["metadata"])


# -- small ops of handles ------------------------------------------------------------------------------------------------
disable_copy_on_read = op("DisableCopyOnRead", "resource: resource ->", stateful=True).no_gradient()
disable_copy_on_read.shape(lambda resource: [])
disable_copy_on_read.kernel(lambda resource: None)          # variables share their memory with readers until they change
