"""TraceType: the type of a user-defined object as an argument of tf.function, from `__tf_tracing_type__`."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Union, runtime_checkable

import numpy as np

from penstock._src.base.api import export
from penstock._src.graph.node import Tensor

TensorLike = Union[Tensor, int, float, bool, str, bytes, complex, tuple, list, np.ndarray, np.generic]  # noqa: UP007
export.value(TensorLike, v2=["types.experimental.TensorLike"])


@export(v2=["types.experimental.TraceType"])
class TraceType:
    """The type of an argument: calls whose arguments have equal types share a trace."""

    def is_subtype_of(self, other: TraceType) -> bool:
        """Whether a trace for `other` can be used for arguments of this type."""
        raise NotImplementedError

    def most_specific_common_supertype(self, others: Sequence[TraceType]) -> TraceType | None:
        """The narrowest type that covers this one and others, or None."""
        raise NotImplementedError

    def placeholder_value(self, placeholder_context: Any = None) -> Any:
        """The value that represents the argument while the function is traced."""
        raise NotImplementedError

    def to_tensors(self, value: Any) -> list:
        """The tensors of a value of this type."""
        return []

    def cast(self, value: Any, cast_context: Any = None) -> Any:
        """A value as one of this type."""
        return value


@export(v2=["types.experimental.SupportsTracingProtocol"])
@runtime_checkable
class SupportsTracingProtocol(Protocol):
    """A class whose objects have types for tf.function."""

    def __tf_tracing_type__(self, context: Any) -> TraceType:
        """The type of the object as an argument."""
